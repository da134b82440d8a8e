"""What other packages offer: one that cannot be loaded is named, a taken name is refused."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import adumbra as ad
from adumbra.common import plugins


def offering(monkeypatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in points if point.group == group])


def test_a_package_that_cannot_be_loaded_is_named_with_what_to_do(monkeypatch):
    offering(monkeypatch, EntryPoint("mine", "no_such_package.nowhere:Mine", "adumbra.kinds"))
    with pytest.raises(ad.InputError, match="no_such_package") as found:
        plugins.with_offered({}, "adumbra.kinds", lambda value: True, "anything")
    assert "ModuleNotFoundError" in found.value.got and "author" in found.value.remedy


def test_a_utility_aware_release_from_outside_takes_nobodys_name(monkeypatch):
    from adumbra.jupa.release_catalogue import ENTRY_POINTS, release_kinds

    offering(monkeypatch, EntryPoint("coarse", "adumbra.jupa.release_kinds.coarse:Coarse", ENTRY_POINTS))
    release_kinds.cache_clear()
    try:
        with pytest.raises(ad.InputError, match="like another"):
            release_kinds()
    finally:
        release_kinds.cache_clear()


class NoDataclass:
    """Has the name and the method of a mechanism, and no options that could be listed."""

    name = "no_dataclass"

    def run(self, door, setting): ...


class NoKind:
    name = "no_kind"


def test_what_is_not_what_its_group_is_for_is_refused_with_the_package_named(monkeypatch):
    from adumbra.jupa.release_catalogue import ENTRY_POINTS, release_kinds
    from adumbra.kinds.kind import kinds
    from adumbra.mechanisms.catalogue import catalogue

    for group, name, listed in (
        ("adumbra.mechanisms", "NoDataclass", catalogue),
        ("adumbra.kinds", "NoKind", kinds),
        (ENTRY_POINTS, "NoKind", release_kinds),
    ):
        offering(monkeypatch, EntryPoint("mine", f"{__name__}:{name}", group))
        listed.cache_clear()
        try:
            with pytest.raises(ad.InputError, match="which is none") as found:
                listed()
        finally:
            listed.cache_clear()
        assert f"a package: mine = {__name__}:{name}" in found.value.got and group in found.value.expected
