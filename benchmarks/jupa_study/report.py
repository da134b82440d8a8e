"""What was found, as pages and pictures."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common.tables import markdown
from jupa_study.scenarios import METHODS, PRINTED_STEP, SCENARIOS, Row, recipes

from adumbra.audit.adversaries import ADVERSARIES, READER, WITHIN
from adumbra.audit.frontier_picture import frontier_svg


def spread(rows: Sequence[Row], measure: str) -> tuple[float, float, int]:
    """Mean and standard deviation over repetitions, in per cent, and how many."""
    values = [100 * row[measure] for row in rows if measure in row and row[measure] is not None]
    if not values:
        return math.nan, math.nan, 0
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan, len(values)


def shown(rows: Sequence[Row], measure: str) -> str:
    """`mean ± sd`."""
    mean, deviation, count = spread(rows, measure)
    return "-" if not count else f"{mean:.1f}" if count == 1 else f"{mean:.1f} ± {deviation:.1f}"


def strongest(rows: Sequence[Row], tag: str) -> float:
    """The highest mean over repetitions of one kind of adversary."""
    return max((spread(rows, f"{tag} {model}")[0] for model in (*ADVERSARIES, READER)), key=_known)


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def near_chance(rows: Sequence[Row], share: float, chance: float) -> bool:
    """At most two standard errors above chance, by the number of records in all repetitions."""
    error = math.sqrt(chance * (1 - chance) / sum(row["records"] for row in rows if "utility fine" in row))
    return share / 100 <= chance + 2 * error


def table(name: str, rows: Sequence[Row]) -> str:
    """One table of the paper: printed / ours, with the adaptive adversaries and the share not reached."""
    scenario = SCENARIOS[name]
    by = {m: [r for r in rows if r["label"] == m] for m in METHODS}
    by = {m: found for m, found in by.items() if found}
    heads = ["method (rho1 rho1')", "n", "utility coarse: printed / ours", "utility fine: printed / ours"]
    heads += ["privacy coarse, papers' adversary: printed / ours", "privacy coarse, adaptive worst"]
    heads += ["privacy fine, papers' adversary: printed / ours", "privacy fine, adaptive svm / forest / boosting"]
    heads += ["privacy fine, adaptive worst", "not reached"]
    lines = []
    for method, found in by.items():
        numbers = scenario.printed[method]
        fine = sum("utility fine" in row for row in found)
        adaptive = " / ".join(
            "-" if not count else f"{mean:.1f}"
            for mean, _, count in (spread(found, f"fine {model}") for model in ADVERSARIES)
        )
        lines.append(
            [
                method,
                f"{len(found)}" if fine == len(found) else f"{len(found)}, fine and adaptive {fine}",
                f"{numbers[0]:.1f} / {shown(found, 'utility coarse')}",
                f"{numbers[1]:.1f} / {shown(found, 'utility fine')}",
                f"{numbers[2]:.1f} / {shown(found, 'privacy coarse')}",
                shown(found, "coarse worst"),
                f"{numbers[3]:.1f} / {shown(found, 'privacy fine')}",
                adaptive,
                shown(found, "fine worst"),
                shown(found, "fine not reached"),
            ]
        )
    chance = next(iter(by.values()))[0]["chance"]
    text = [f"### Table {scenario.table}: {scenario.title} (chance {100 * chance:.1f})", "", markdown(heads, lines), ""]
    moved = {method: found for method, found in by.items() if any("utility fine" in row for row in found)}
    shares = {
        "papers' adversary": {method: spread(found, "privacy fine")[0] for method, found in moved.items()},
        "adaptive adversary": {method: strongest(found, "fine") for method, found in moved.items()},
    }
    for who, of in shares.items():
        fails = [f"{method} {of[method]:.1f}" for method in moved if not near_chance(moved[method], of[method], chance)]
        verdict = "holds for every row" if not fails else f"does NOT hold for {len(fails)} of {len(moved)} rows"
        text.append(f'- "Fine = random guess", {who}: {verdict}{": " * bool(fails)}{", ".join(fails)}.')
    for method in ("dca", "jupa 1 1"):
        if method in by:
            ours, was = spread(by[method], "utility coarse")[0], scenario.printed[method][0]
            verdict = "within" if abs(ours - was) <= 4 else "NOT within"
            text.append(f"- Coarse utility of {method}: {ours:.1f}, printed {was:.1f}: {verdict} 4 points.")
    for method in PRINTED_STEP:
        found = [row for row in by.get(method, ()) if "utility printed step" in row]
        if found:
            text.append(
                f"- Fine step with the paper's settings (alpha 0.1, RBF, bandwidth by its label rule), {method}: "
                f"utility {shown(found, 'utility printed step')}, papers' adversary "
                f"{shown(found, 'privacy printed step')}, adaptive worst {shown(found, 'printed step worst')}, "
                f"not reached {shown(found, 'printed step not reached')}."
            )
    return "\n".join(text)


TABLES_HEAD = """# Tables I to IV of the JUPA paper beside ours

Per cent, mean ± standard deviation over n repetitions with fresh samples and splits. "Papers' adversary": a support
vector machine trained on unperturbed records. "Adaptive": trained on releases that the adversary made itself from its
own labelled records; "worst" is the highest of three on the owner's records, which alone adds about a point. A line
"does NOT hold" lists rows whose mean (for the adaptive one: the highest mean of a kind of model) is more than two
standard errors above chance. "Not reached": share of records whose label never became the random target; they are
counted as released here, as in the paper. Full-dimensional rows of HAR: RBF of one bandwidth, no boosting."""


def tables_page(rows: Sequence[Row]) -> str:
    """All tables."""
    parts = [TABLES_HEAD]
    for name in SCENARIOS:
        found = [row for row in rows if row["scenario"] == name]
        if found:
            parts.append(table(name, found))
    return "\n\n".join(parts) + "\n"


def points(name: str, rows: Sequence[Row]) -> list[Row]:
    """One point of the picture for each recipe, in shares; those that hold first, best service first."""
    found = []
    for label in dict.fromkeys(row["label"] for row in rows):
        own = [row for row in rows if row["label"] == label]
        kind = recipes(name)[label].kind
        mark = (kind.mark.colour, kind.mark.shape)
        point: Row = {"label": label, "release": kind.name, "mark": mark, "rows": own}
        for measure in ("utility", "worst"):
            mean, deviation, _ = spread(own, measure)
            point |= {measure: mean / 100, f"{measure}_sd": deviation / 100}
        point["chance"] = float(np.mean([row["chance"] for row in own]))
        found.append(point | {"holds": point["worst"] <= point["chance"] + WITHIN + 1e-9})
    return sorted(found, key=lambda point: (not point["holds"], -_known(point["utility"])))


FRONTIER_HEAD = """# Which releases hold

Per cent, mean ± standard deviation over n fresh splits. Service: trained on unperturbed records. A release holds if
the worst adaptive adversary (highest of SVM, forest, boosting and one that reads pools and bins off a row, on the
owner's records; mean over splits) is at most 3 points above chance. "Strongest kind" is the highest mean of one kind of
adversary: the same without the point that choosing the highest on each split adds. Records that the fine step could
not bring to their target are not released here. The best of several recipes is favoured by chance."""


def frontier_page(rows: Sequence[Row]) -> str:
    """For each scenario what was tried, and whether the goal was met by a release that holds."""
    parts = [FRONTIER_HEAD]
    heads = ["release", "n", "service", "service retrained", "papers' adversary", "worst adaptive", "strongest kind"]
    heads += ["not reached", "holds"]
    for name, scenario in SCENARIOS.items():
        found = points(name, [row for row in rows if row["scenario"] == name])
        if not found:
            continue
        lines = []
        for point in found:
            each = [f"{100 * row['worst']:.1f}" for row in point["rows"] if row["worst"] is not None]
            lines.append(
                [
                    point["label"],
                    str(len(point["rows"])),
                    shown(point["rows"], "utility"),
                    shown(point["rows"], "retrained"),
                    shown(point["rows"], "papers"),
                    f"{shown(point['rows'], 'worst')} ({', '.join(each)})",
                    f"{strongest(point['rows'], 'adaptive'):.1f}",
                    shown(point["rows"], "not reached"),
                    "yes" if point["holds"] else "no",
                ]
            )
        most = max(len(point["rows"]) for point in found)
        best = next(point for point in found if len(point["rows"]) == most)  # not one that ran less often
        chance = 100 * best["chance"]
        verdict = (
            f"Best that holds: {best['label']}, service {100 * best['utility']:.1f}, "
            f"worst adversary {100 * best['worst']:.1f}; goal {scenario.goal:g} "
            f"{'reached' if 100 * best['utility'] >= scenario.goal else 'NOT reached'} "
            f"(a first search found {scenario.first})."
            if best["holds"]
            else f"Nothing tried holds; goal {scenario.goal:g}."
        )
        head = f"## {scenario.title} (chance {chance:.1f}, holds up to {chance + 100 * WITHIN:.1f})"
        parts.append(f"{head}\n\n{markdown(heads, lines)}\n\n{verdict}")
    return "\n\n".join(parts) + "\n"


def tidy(rows: Sequence[Row], path: Path) -> None:
    """One number a line: part, scenario, label, repetition, measure, value."""
    keys = ("part", "scenario", "label", "repeat")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*keys, "measure", "value"])
        for row in rows:
            for measure, value in row.items():
                if measure not in keys:
                    writer.writerow([*(row[key] for key in keys), measure, value])


def report(rows: Sequence[Row], out: Path) -> None:
    """Write everything that there are results for."""
    rows = sorted(rows, key=lambda row: (row["part"], row["scenario"], row["label"], row["repeat"]))
    tidy(rows, out / "results.csv")
    tables, found = ([row for row in rows if row["part"] == part] for part in ("tables", "frontier"))
    if tables:
        (out / "tables.md").write_text(tables_page(tables))
    if found:
        (out / "frontier.md").write_text(frontier_page(found))
        for name, scenario in SCENARIOS.items():
            drawn = points(name, [row for row in found if row["scenario"] == name])
            if drawn:
                picture = frontier_svg(drawn, chance=drawn[0]["chance"], within=WITHIN, title=scenario.title)
                (out / f"frontier-{name}.svg").write_text(picture)
