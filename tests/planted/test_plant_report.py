"""That planted bugs are caught twice, that the page says how many are, and that a run tells."""

from __future__ import annotations

import re
from types import SimpleNamespace

from tests import plant_report
from tests.audit.test_audit_planted import CAUGHT
from tests.planted.planting import PAGE, name_of
from tests.planted.test_planted_page import CASES

LISTED = plant_report.counted(
    [
        *((plant.__name__, name_of(test)) for plant, test, _ in CASES),
        *((plant.__name__, plant_report.AUDIT) for plant in CAUGHT),
    ]
)


def test_fewer_and_fewer_plants_are_caught_by_one_test_alone():
    """A plant that is new needs two tests; one that has got its second leaves the list."""
    found = plant_report.thin(LISTED)
    assert found - plant_report.THIN == set(), "give these a second test, best of another file"
    assert plant_report.THIN - found == set(), "take these out of THIN: they have their second test"


def test_the_page_says_how_many_are_caught_twice():
    said = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    assert plant_report.sentence(LISTED) in said, f"write into {PAGE.name}: {plant_report.sentence(LISTED)}"


def report(file, *cases, when="call", passed=True):
    properties = [(plant_report.CASE, list(case)) for case in cases]  # lists, as they come from another process
    return SimpleNamespace(when=when, passed=passed, nodeid=f"{file}::t", user_properties=properties)


def told(*reports):
    lines = []
    terminal = SimpleNamespace(
        stats={"passed": list(reports), "warnings": [SimpleNamespace()]}, section=lines.append, write_line=lines.append
    )
    plant_report.pytest_terminal_summary(terminal)
    return lines


def test_the_end_of_a_run_tells_what_caught_each_plant():
    cases = [("half", "a.py::one"), ("half", "b.py::two"), ("none", "a.py::one")]
    run = [report(plant_report.PLANTED, case) for case in cases]
    failed = report(plant_report.PLANTED, ("none", "b.py::three"), passed=False)
    summed = "2 bugs are planted: 1 are caught by two tests or more, 1 by tests of several files."
    assert told(*run, failed) == [
        "planted bugs",
        "none    1 tests of 1 files",
        "half    2 tests of 2 files",
        summed,
    ]
    assert told(*run, report("tests/test_other.py")) == ["planted bugs", "none    1 tests of 1 files", summed]
    assert told(report("tests/test_other.py"), report(plant_report.PLANTED, when="setup")) == []
