"""How many tests catch each planted bug, as seen in the run: told at its end.

`make plants` prints the whole table; a run of the whole suite prints the sum and what is thin. A bug that one test
alone catches is one mistake away from not being caught: `THIN` lists those, and may only get shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CASE = "planted"
"""Name of the property by which a test says which plant it saw, and which test failed of it."""
AUDIT = "tests/audit/test_audit_planted.py::test_the_audit_notices"
PLANTED = "tests/planted/"

THIN = frozenset(
    {
        "changed_table_not_noticed",
        "choice_without_noise",
        "components_counted_on_the_exact_spectrum",
        "delta_of_the_owner_promised",
        "each_part_a_length_of_its_own",
        "fresh_matrix_taken_for_exact",
        "largest_entry_forgotten",
        "lengthening_basis_accepted",
        "mechanism_opens_the_rows",
        "owner_rehearses_the_real_table",
        "residuals_of_a_float_matrix",
        "sums_in_float32",
    }
)
"""Plants that one test catches. Take a name out once a second test does; never add one: find that test."""


def counted(cases: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The tests that catch each plant, from pairs of a plant and a test."""
    caught: dict[str, set[str]] = {}
    for plant, test in cases:
        caught.setdefault(plant, set()).add(test)
    return caught


def files(tests: Iterable[str]) -> set[str]:
    """Where these tests stand."""
    return {test.split("::")[0] for test in tests}


def thin(caught: Mapping[str, set[str]]) -> set[str]:
    """Plants that one test alone catches."""
    return {plant for plant, tests in caught.items() if len(tests) == 1}


def sentence(caught: Mapping[str, set[str]]) -> str:
    """All of it in a line."""
    twice = len(caught) - len(thin(caught))
    apart = sum(len(files(tests)) > 1 for tests in caught.values())
    planted = f"{len(caught)} bugs are planted"
    return f"{planted}: {twice} are caught by two tests or more, {apart} by tests of several files."


def table(caught: Mapping[str, set[str]]) -> list[str]:
    """A line for each plant, those that fewest tests catch first."""
    order = sorted(caught.items(), key=lambda item: (len(item[1]), len(files(item[1])), item[0]))
    width = max(map(len, caught), default=0)
    return [f"{plant:{width}}  {len(tests):3} tests of {len(files(tests))} files" for plant, tests in order]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell, of the plants of this run, what caught them."""
    reports = [report for found in terminalreporter.stats.values() for report in found if hasattr(report, "when")]
    passed = [report for report in reports if report.when == "call" and report.passed]
    caught = counted(
        (plant, test)
        for report in passed
        for name, case in report.user_properties
        if name == CASE
        for plant, test in [case]
    )
    if not caught:
        return
    terminalreporter.section("planted bugs")
    alone = all(report.nodeid.startswith((PLANTED, AUDIT)) for report in reports)
    for line in table(caught) if alone else table({plant: caught[plant] for plant in thin(caught)}):
        terminalreporter.write_line(line)
    terminalreporter.write_line(sentence(caught))
