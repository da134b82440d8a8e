"""How a bug is planted, and how the test that should notice is called."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import adumbra as ad
import adumbra.warm_up
from adumbra.common.errors import AdumbraError
from tests import plant_report

PAGE = Path(__file__).parents[2] / "docs" / "planted-bugs.md"


def bug(plant, test, *arguments):
    """One case: what is planted, the test that must fail, and what it is called with."""
    return plant, test, arguments


def name_of(test):
    return f"{test.__module__.replace('.', '/')}.py::{test.__name__}"


def called(test, arguments, tmp_path):
    """Call a test as the suite would, with the fixtures it names."""
    fixtures = {"tmp_path": lambda: tmp_path, "ledger": lambda: ad.Ledger(tmp_path / "budget.db")}
    fixtures["cold"] = lambda: adumbra.warm_up._warm.clear()
    fixtures["capfd"] = lambda: SimpleNamespace(readouterr=lambda: SimpleNamespace(out="", err=""))
    own = getattr(getattr(test, "hypothesis", None), "inner_test", None)  # takes its arguments from hypothesis
    wanted = [] if own else list(inspect.signature(test).parameters)[len(arguments) :]
    with pytest.MonkeyPatch.context() as patch:
        test(*arguments, **{name: patch if name == "monkeypatch" else fixtures[name]() for name in wanted})


def parametrized(cases):
    """A test of each case, named after what is planted and what notices."""
    ids = [f"{plant.__name__}-{test.__name__}" for plant, test, _ in cases]
    return pytest.mark.parametrize(("plant", "test", "arguments"), cases, ids=ids)


def assert_caught(plant, test, arguments, tmp_path, record_property):
    record_property(plant_report.CASE, (plant.__name__, name_of(test)))
    caught = None
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        try:
            called(test, arguments, tmp_path)
        except (Exception, pytest.fail.Exception) as failure:
            caught = failure
    assert caught is not None, f"{plant.__name__} went unnoticed"
    noticed = isinstance(caught, AssertionError | pytest.fail.Exception)
    refused = isinstance(caught, RuntimeError | AdumbraError) and re.search(
        r"at the door|differs from the one that was pl|more than the promised epsilon|a receipt for every line",
        str(caught),
    )
    assert noticed or refused, f"{plant.__name__} crashed the test instead of failing it: {caught!r}"
