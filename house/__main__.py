"""`make house`: one table of what the house is like, before this plan, as it should be, and now.

python -m house              the table
python -m house --list       and every place that is counted
python -m house --check      fails if a number is above its limit in house/limits.toml
python -m house --lower      writes the numbers of now as limits, where they are lower: limits are never raised
python -m house --tree DIR   measures another tree, as one of `git worktree add`
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from house.source import Source, sniffs
from house.words import stumbles

HOME = Path(__file__).resolve().parents[1]
LIMITS = Path(__file__).with_name("limits.toml")
LONGEST_FILE, LONGEST_FUNCTION, LONG_FUNCTION = 400, 60, 50
READS_ITS_OWN_FACTS = ("kinds/", "releases/card.py")
"""Where a kind's own facts are read from its card, and where old cards are: the only place for their keys."""


@dataclass(frozen=True)
class Measure:
    """One row: its numbers of now, and where the counted things stand."""

    name: str
    title: str
    before: str
    """As it was on commit 5151b6a, before the plan."""
    goals: tuple[int, ...]
    now: tuple[int, ...]
    places: tuple[str, ...] = field(default=(), repr=False)
    of: str = ""


OUTSIDE = {
    "a mechanism": ("1", "kinds/test_outside_kind.py::test_a_kind_and_a_mechanism_from_outside_do_all_that_ours_do"),
    "a kind of release": (
        "9-10",
        "kinds/test_outside_kind.py::test_a_kind_and_a_mechanism_from_outside_do_all_that_ours_do",
    ),
    "a JUPA release": ("11", "jupa/test_outside_kind.py::test_it_is_fitted_applied_saved_and_loaded"),
    "a histogram strategy": ("6-7", "families/test_new_strategy.py::test_it_is_forecast_released_and_answered"),
    "a report section": ("3", "report/test_renderers.py::test_a_section_can_be_added_from_outside"),
    "a ledger storage": ("5 + 6", "ledger/test_storage.py::test_a_release_is_charged_to_any_storage"),
    "an engine": ("7-8", "privacy/test_engine.py::test_a_release_takes_an_engine"),
    "a file format": ("1", "tables/test_formats.py::test_a_format_from_outside_is_released_and_evaluated"),
}
"""What can be added, how many source files that touched before, and the test that adds one from outside the package."""


def walked(tree: Path) -> dict[str, list[str]]:
    """A release of that tree's package, walked in a process of its own."""
    paths = os.pathsep.join([str(tree / "src"), str(HOME)])
    environment = os.environ | {"PYTHONPATH": paths, "ADUMBRA_THREADS": "1"}
    words = [sys.executable, "-m", "house.walk", str(tree)]
    done = subprocess.run(words, env=environment, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the walk failed:\n{done.stderr[-2000:]}")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def outside(tests: Path) -> dict[str, str]:
    """What can be added from outside the package -> the test that does so, or nothing where it is not there."""
    found = {}
    for what, (_, test) in OUTSIDE.items():
        file, name = test.split("::")
        path = tests / file
        there = path.exists() and re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        found[what] = f"tests/{test}" if there else ""
    return found


def measures(tree: Path) -> list[Measure]:
    """All rows."""
    source, walk = Source(tree / "src" / "adumbra"), walked(tree)
    told, read = sniffs(source, READS_ITS_OWN_FACTS)
    files, functions = source.file_sizes(), source.function_sizes()
    long_files = {name: size for name, size in files.items() if size > LONGEST_FILE}
    long_functions = {name: size for name, size in functions.items() if size > LONG_FUNCTION}
    classes, modules = source.classes_used_twice(), source.modules_used_twice()
    bare, several = source.undocumented(methods=False)
    bare_methods, several_methods = source.undocumented(methods=True)
    added = outside(tree / "tests")
    readers, checks = source.readers(), source.query_checks()
    return [
        Measure(
            "files_crossed",
            "files crossed by `release` (hybrid)",
            "45",
            (35,),
            (len(walk["files"]),),
            (*walk["files"],),
        ),
        Measure(
            "calls_up", "calls from a lower layer up (progress aside)", "4", (0,), (len(walk["up"]),), (*walk["up"],)
        ),
        Measure(
            "files_opened",
            "files opened by `PrivatePCA.fit` / by `ad.release` without out",
            "7",
            (0, 0),
            (len(walk["pca"]), len(walk["release"])),
            (*walk["pca"], *walk["release"]),
        ),
        Measure(
            "sniffs",
            "places that sniff a kind from keys, names or prose / reads by free key",
            "14 / 20",
            (0, 0),
            (len(told), len(read)),
            (*map(str, told), *map(str, read)),
        ),
        Measure("readers", "readers of a table", "9", (1,), (len(readers),), (*readers,)),
        Measure("query_checks", "isinstance on query types, lines", "34", (4,), (len(checks),), (*map(str, checks),)),
        Measure(
            "not_from_outside",
            f"of {len(OUTSIDE)} things to add, those that no test adds from outside the package",
            str(len(OUTSIDE)),
            (0,),
            (sum(not test for test in added.values()),),
            tuple(f"{what}: {test or 'no test yet'}" for what, test in added.items()),
        ),
        Measure(
            "names_twice",
            "class names used twice / module names used twice",
            "26 / 17",
            (4, 4),
            (len(classes), len(modules)),
            tuple(f"{name}: {', '.join(places)}" for name, places in [*classes.items(), *modules.items()]),
        ),
        Measure(
            "sizes",
            f"source files over {LONGEST_FILE} lines / functions over {LONG_FUNCTION}",
            "23 / 24",
            (0, 10),
            (len(long_files), len(long_functions)),
            tuple(f"{name}: {size}" for name, size in [*long_files.items(), *long_functions.items()]),
        ),
        Measure("lines", "source lines in all", "36,366", (33_000,), (source.lines(),)),
        Measure(
            "undocumented",
            "exported functions / methods of 3+ parameters that document none of them",
            "109 of 190 / 38 of 47",
            (0, 0),
            (len(bare), len(bare_methods)),
            (*bare, *bare_methods),
            f"of {several} / {several_methods}",
        ),
    ]


def table(rows: list[Measure], tests: dict[str, str]) -> list[str]:
    """The rows as Markdown, and the tests that add something from outside."""
    cells = [("measure", "before", "goal", "now", "")]
    for row in rows:
        goal = " / ".join(f"<= {number:,}" if number else "0" for number in row.goals)
        now = " / ".join(f"{number:,}" for number in row.now) + (f" ({row.of})" if row.of else "")
        reached = all(number <= most for number, most in zip(row.now, row.goals, strict=True))
        cells.append((row.title, row.before, goal, now, "reached" if reached else ""))
    widths = [max(len(cell[i]) for cell in cells) for i in range(5)]
    padded = [[text.ljust(width) for text, width in zip(cell, widths, strict=True)] for cell in cells]
    lines = ["| " + " | ".join(cell) + " |" for cell in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    lines += ["", "Source files touched to add, before (goal: at most 2), and the test that adds one from outside:"]
    lines += [
        f"  {what:22} {OUTSIDE[what][0]:>6}   {test or 'no such test yet: tests/' + OUTSIDE[what][1]}"
        for what, test in tests.items()
    ]
    return lines


SHOWN_ONLY = ("files_crossed", "lines")
"""Measures without a limit: whatever the house learns to do adds to them, so that a limit would forbid it to learn."""


def broken(rows: list[Measure], limits: dict[str, list[int]]) -> list[str]:
    """Rows above their limit, and rows that have none."""
    found = []
    for row in rows:
        most = limits.get(row.name)
        if row.name in SHOWN_ONLY:
            continue
        if most is None:
            found.append(f"{row.name}: no limit in {LIMITS.name}")
        elif any(number > limit for number, limit in zip(row.now, most, strict=True)):
            found.append(f"{row.title}: {row.now}, at most {tuple(most)}")
    return found


def too_long(sizes: dict[str, int], most: int, known: dict[str, int]) -> list[str]:
    """What is longer than allowed, or than it was; and what need not stand on the list any more."""
    found = [
        f"{name} has {size} lines, at most {max(most, known.get(name, 0))}"
        for name, size in sizes.items()
        if size > max(most, known.get(name, 0))
    ]
    for name, size in known.items():
        if sizes.get(name, 0) <= most:
            found.append(f"{name} is short enough, or gone: take it out of {LIMITS.name}")
        elif sizes[name] < size:
            found.append(f"{name} has shrunk to {sizes[name]} lines: write that into {LIMITS.name}")
    return found


def lowered(rows: list[Measure], source: Source, kept: dict[str, dict[str, Any]]) -> str:
    """The limits with everything that is lower now; nothing is raised, and nobody joins the lists."""
    lines = ["# Limits of `make house CHECK=1`; `make house LOWER=1` lowers them to what is reached. Never raise one."]
    lines.append("[most]")
    limits = kept.get("most", {})
    for row in (row for row in rows if row.name not in SHOWN_ONLY):
        most = limits.get(row.name, row.now)
        lower = [min(limit, number) for limit, number in zip(most, row.now, strict=True)]
        lines.append(f"{row.name} = {lower}")
    for section, sizes, limit in (
        ("files", source.file_sizes(), LONGEST_FILE),
        ("functions", source.function_sizes(), LONGEST_FUNCTION),
    ):
        lines += ["", f"[{section}]", f"# longer than {limit} lines: may only get shorter, and nothing may join"]
        known = kept.get(section, {name: size for name, size in sizes.items() if size > limit})
        for name, size in sorted(known.items()):
            if sizes.get(name, 0) > limit:
                lines.append(f"{json.dumps(name)} = {min(size, sizes[name])}")
    places = stumbles(HOME)
    lines += ["", "[words]", "# files with words of house/words.py: may only get fewer, and no file may join"]
    for file, count in sorted(kept.get("words", {file: len(found) for file, found in places.items()}).items()):
        if places.get(file):
            lines.append(f"{json.dumps(file)} = {min(count, len(places[file]))}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table; check or lower the limits if asked."""
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    for option in ("check", "lower", "list"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--tree", type=Path, default=HOME)
    asked = parser.parse_args()
    tree = asked.tree.resolve()
    rows = measures(tree)
    print("\n".join(table(rows, outside(tree / "tests"))))
    if asked.list:
        for row in rows:
            print("\n".join([f"\n{row.title}", *(f"  {place}" for place in row.places)]))
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}
    source = Source(tree / "src" / "adumbra")
    if asked.lower:
        LIMITS.write_text(lowered(rows, source, limits), encoding="utf-8")
        return 0
    if not asked.check:
        return 0
    found = broken(rows, limits.get("most", {}))
    found += too_long(source.file_sizes(), LONGEST_FILE, limits.get("files", {}))
    found += too_long(source.function_sizes(), LONGEST_FUNCTION, limits.get("functions", {}))
    print("\n".join(["", *found]) if found else "\nno limit is broken")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
