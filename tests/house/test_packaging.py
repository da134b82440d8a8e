"""What pyproject.toml declares is what the constraints files pin, so what `make test` and `make test-lowest` try."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(*extras: str) -> list[Requirement]:
    return [Requirement(text) for text in [*PROJECT["dependencies"], *(t for e in extras for t in EXTRAS[e])]]


def pinned(name: str) -> list[Requirement]:
    lines = (ROOT / "constraints" / name).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def versions(name: str) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for requirement in pinned(name):
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not pinned"
        found.setdefault(plain(requirement.name), []).append(Version(specifier.version))
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lowest(requirement: Requirement) -> Version:
    (bound,) = [s.version for s in requirement.specifier if s.operator == ">="]
    return Version(bound)


@pytest.mark.parametrize("requirement", requirements("test"), ids=lambda r: r.name)
def test_the_lowest_version_that_is_declared_is_the_one_that_is_tried(requirement: Requirement) -> None:
    (tried,) = versions("lowest.txt")[plain(requirement.name)]
    # a declared 1.6 is tried as the first 1.6.x there is
    assert tried.release[: len(lowest(requirement).release)] == lowest(requirement).release


@pytest.mark.parametrize("requirement", requirements("test", "lint", "pictures"), ids=lambda r: r.name)
def test_the_lock_holds_every_library_at_a_version_that_is_allowed(requirement: Requirement) -> None:
    for version in versions("locked.txt")[plain(requirement.name)]:
        assert version in requirement.specifier


def test_no_file_of_versions_names_where_they_come_from_or_what_nothing_uses() -> None:
    for name in ("lowest.txt", "locked.txt"):
        text = (ROOT / "constraints" / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "--" not in text
        assert "torch" not in text
