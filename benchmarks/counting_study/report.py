"""What was measured, as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from common.tables import markdown, some
from counting_study.sets import DELTA, MECHANISMS, SETS, Row, sensible

from adumbra.published.csm_paper import READINGS


def number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}" if value < 999.5 else f"{value:.1e}".replace("e+0", "e")


def error_tables(rows: list[Row], part: str, against: str) -> str:
    """Mean squared errors for both kinds of query: in each cell those of all values of `against`, in order."""
    out = []
    for delta in sorted({r["delta"] for r in some(rows, part=part)}):
        ours = some(rows, part=part, delta=delta)
        values = sorted({r[against] for r in ours})
        sets = [name for name in SETS if some(ours, set=name)]
        for kind in ("range", "linear"):
            lines = []
            for title in [*MECHANISMS, *(f"published {r}" for r in READINGS)]:
                cells = []
                for name in sets:
                    found = {r[against]: r[kind] for r in some(ours, set=name, mechanism=title)}
                    shown = [number(found[v]) for v in values if v in found and sensible(name, title, delta)]
                    cells.append(" / ".join(shown) or "-")
                if set(cells) != {"-"}:
                    lines.append([f"*{title}*" if title.startswith("published") else title, *cells])
            listed = ", ".join(f"{v:g}" for v in values)
            heading = f"### {kind} queries, delta {delta:g}, {against} {listed}"
            out.append(f"{heading}\n\n{markdown(['mechanism', *sets], lines)}")
    return "\n\n".join(out)


def ratio_table(rows: list[Row]) -> str:
    ours = some(rows, part="ratio")
    ratios = sorted({r["ratio"] for r in ours})
    lines = []
    for name in SETS:
        for delta, epsilon, sensing in sorted({(r["delta"], r["epsilon"], r["sensing"]) for r in ours}):
            found = {
                r["ratio"]: r["range"] for r in some(ours, set=name, delta=delta, epsilon=epsilon, sensing=sensing)
            }
            if found:
                shown = [number(found.get(ratio, math.nan)) for ratio in ratios]
                lines.append([name, f"{delta:g}", f"{epsilon:g}", sensing, *shown])
    heads = ["table", "delta", "epsilon", "sensing", *(f"ratio {r:g}" for r in ratios)]
    return f"### range queries against the compression ratio, 256 cells\n\n{markdown(heads, lines)}"


def predictions(rows: list[Row], parts: Sequence[str] = ("epsilon", "domain")) -> str:
    """Predicted over measured, smallest, middle and largest of all settings; and how many are within 20 %."""
    lines = []
    ours = [r for r in rows if r["part"] in parts and sensible(r["set"], r["mechanism"], r["delta"])]
    for title in MECHANISMS:
        for delta in (0.0, DELTA):
            for which in ("theory", "forecast", "stated"):
                for kind in ("range", "linear"):
                    key = f"{which}_{kind}"
                    pairs = [(r[key], r[kind]) for r in some(ours, mechanism=title, delta=delta) if key in r]
                    ratios = np.array([p / m for p, m in pairs if math.isfinite(p) and m > 0])
                    if len(ratios):
                        inside = int(((ratios >= 0.8) & (ratios <= 1.2)).sum())
                        ends = " / ".join(number(float(v)) for v in np.quantile(ratios, (0.0, 0.5, 1.0)))
                        lines.append([title, f"{delta:g}", which, kind, ends, f"{inside} of {len(ratios)}"])
    heads = ["mechanism", "delta", "prediction", "queries", "predicted / measured: least / middle / most"]
    return "### Predicted over measured\n\n" + markdown([*heads, "within 20 %"], lines)


def outside(rows: list[Row]) -> str:
    """Every setting in which what the release states is off by more than a fifth."""
    lines = []
    for r in rows:
        if r["part"] not in ("epsilon", "domain") or r["mechanism"].startswith("published"):
            continue
        for kind in ("range", "linear"):
            ratio = r[f"stated_{kind}"] / max(r[kind], 1e-300)
            if math.isfinite(ratio) and not 0.8 <= ratio <= 1.2 and sensible(r["set"], r["mechanism"], r["delta"]):
                facts = [r["part"], r["set"], r["cells"], r["mechanism"], f"{r['epsilon']:g}", f"{r['delta']:g}"]
                kept = "-" if math.isnan(r["atoms_kept"]) else f"{r['atoms_kept']:.0f}"
                lines.append([*facts, kind, f"{ratio:.2f}", f"{r[f'{kind}_se']:.0%}", kept])
    heads = ["part", "table", "cells", "mechanism", "epsilon", "delta", "queries", "stated / measured"]
    return "### Stated errors off by more than 20 %\n\n" + markdown([*heads, "its standard error", "atoms kept"], lines)


def beyond_table(rows: list[Row]) -> str:
    lines = []
    for title in MECHANISMS:
        for delta in (0.0, DELTA):
            ours = [r for r in some(rows, mechanism=title, delta=delta) if r["part"] in ("epsilon", "domain")]
            shares = [r["beyond"] for r in ours if math.isfinite(r["beyond"]) and sensible(r["set"], title, delta)]
            if shares:
                lines.append([title, f"{delta:g}", f"{np.mean(shares):.3f}", f"{max(shares):.3f}"])
    heads = ["mechanism", "delta", "share of ranges beyond eta, mean", "most"]
    return "### Beyond the stated eta (mu = 0.05)\n\n" + markdown(heads, lines)


def time_table(rows: list[Row]) -> str:
    ours, lines = some(rows, part="time"), []
    for sensing in dict.fromkeys(r["sensing"] for r in ours):
        for cells in sorted({r["cells"] for r in ours}):
            made = [r["release_seconds"] for r in some(ours, cells=cells, sensing=sensing)]
            answered = [
                f"{min(r['answer_seconds'] for r in some(ours, cells=cells, sensing=sensing, queries=q)):.3f}"
                for q in (64, 128, 256)
            ]
            lines.append([sensing, cells, f"{min(made):.2f}", *answered])
    heads = ["sensing", "cells", "release", "64 + 64 queries", "128 + 128", "256 + 256"]
    return "### CPU seconds (csm, dct, ratio 0.3, epsilon 0.1)\n\n" + markdown(heads, lines)


def memory_table(rows: list[Row]) -> str:
    lines = [
        [
            r["mechanism"],
            f"{r['numbers']:.0f}",
            *(f"{r[key]:.1f}" for key in ("plan_seconds", "release_seconds", "answer_seconds")),
            f"{r['peak_mb']:.0f}",
            f"{r['peak_mb'] - r['start_mb']:.0f}",
            number(r["range"]),
            number(r["stated"]),
        ]
        for r in some(rows, part="memory")
    ]
    heads = [
        "mechanism",
        "noisy numbers",
        "plan, s",
        "release, s",
        "10,000 ranges, s",
        "peak, MB",
        "of it above the start",
    ]
    return "### 2^20 cells (1,024 x 1,024)\n\n" + markdown([*heads, "MSE of a range", "stated"], lines)
