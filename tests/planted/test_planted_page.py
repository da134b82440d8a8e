"""That docs/planted-bugs.md lists what is planted and what catches it, and that catching tests are called as usual."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.planted import (
    test_planted_cells,
    test_planted_families,
    test_planted_joint_tables,
    test_planted_jupa,
    test_planted_ledger,
    test_planted_meter,
    test_planted_noise,
    test_planted_objects,
    test_planted_pairs,
    test_planted_pipeline,
    test_planted_queries,
    test_planted_releases,
    test_planted_sensitivity,
    test_planted_strategies,
    test_planted_tables,
)
from tests.planted.planting import PAGE, name_of

CASES = [
    *test_planted_cells.CASES,
    *test_planted_families.CASES,
    *test_planted_joint_tables.CASES,
    *test_planted_jupa.CASES,
    *test_planted_ledger.CASES,
    *test_planted_meter.CASES,
    *test_planted_noise.CASES,
    *test_planted_objects.CASES,
    *test_planted_pairs.CASES,
    *test_planted_pipeline.CASES,
    *test_planted_queries.CASES,
    *test_planted_releases.CASES,
    *test_planted_sensitivity.CASES,
    *test_planted_strategies.CASES,
    *test_planted_tables.CASES,
]


@pytest.mark.parametrize("test", dict.fromkeys(test for _, test, _ in CASES), ids=lambda test: test.__name__)
def test_a_catching_test_is_called_as_the_suite_calls_it(test):
    """So that it passes without a plant: the suite runs it with these very arguments."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    # the decorator nearest to the function comes first in the list; each gives one or several arguments
    allowed = {}
    for mark in marks:
        names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
        values = [v if len(names) > 1 else (v,) for v in (getattr(v, "values", v) for v in mark.args[1])]
        for place, name in enumerate(names):
            allowed[name] = [value[place] for value in values]
    parameters = list(inspect.signature(test).parameters)
    for used in (arguments for _, other, arguments in CASES if other is test):
        assert len(used) == len(allowed)
        for name, value in zip(parameters, used, strict=False):
            assert value in allowed[name], f"{test.__name__} is never run with {name} = {value!r}"


REQUIRED = (
    "half noise",
    "clip skipped",
    "clip after projection",
    "n leaked",
    "bound from data",
    "seed reused",
    "noise shared between rows",
    "one-hot as one column",
    "wrong relation",
    "second moment without sqrt(2)",
    "off-diagonal noise unsymmetrised",
    "budget line spent twice",
    "ledger bypassed",
    "label unprotected",
    "post-processing that peeks",
)


def page_rows():
    """First cell, planted functions, tests: of every row of the page's tables."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and "`" in cells[1]:
            yield cells[0], re.findall(r"`(\w[\w.]*)`", cells[1]), re.findall(r"`([\w/.]+::\w+)`", cells[2])


def test_the_page_lists_what_is_planted_and_what_catches_it():
    listed = {}
    for what, plants, tests in page_rows():
        (plant,) = plants
        assert plant not in listed, f"{plant} stands twice"
        listed[plant] = tests
        assert what and tests, f"{plant}: what is broken, and by what is it caught?"
    planted = {}
    for plant, test, _ in CASES:
        planted.setdefault(plant.__name__, {})[name_of(test)] = None
    assert {plant: sorted(tests) for plant, tests in listed.items()} == {
        plant: sorted(tests) for plant, tests in planted.items()
    }


def test_the_mistakes_that_must_be_caught_are_all_planted():
    assert {what.split(":")[0] for what, _, _ in page_rows()} >= set(REQUIRED)
