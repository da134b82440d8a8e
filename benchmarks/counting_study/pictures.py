"""What was measured, as pictures (needs matplotlib)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from common.tables import some
from counting_study.sets import DELTA, LINEAR, MECHANISMS, SETS, SPARSE_IN, TITLES, Row, sensible

from adumbra.numerics.sensing import KINDS
from adumbra.published.csm_paper import READINGS

COLOURS = {
    "laplace": "#666666",
    "privelet": "#0b5394",
    "hierarchical": "#0f9d9d",
    "fourier": "#8e44ad",
    "sparse": "#38761d",
    "csm": "#cc0000",
    "published": "#e69138",
}


MARKS = {"": ("o", "-"), "dct": ("s", "--"), "haar": ("^", "-."), "own size": ("D", ":")}


SENSING_COLOURS = dict(zip(KINDS, ("#0b5394", "#8e44ad", "#cc0000", "#0f9d9d", "#38761d"), strict=True))


THEORY: Row = {"color": "black", "lw": 1.8, "ls": (0, (0.6, 1.4)), "zorder": 5}


def look(title: str) -> Row:
    """One colour a mechanism; the mark and the line say which dictionary."""
    name, _, variant = title.partition(" ")
    if name == "published":
        return {"color": COLOURS[name], "ls": "--", "lw": 1.0, "alpha": 0.9, "marker": "x", "ms": 4}
    mark, line = MARKS[variant]
    return {"color": COLOURS[name], "marker": mark, "ms": 4, "ls": line, "lw": 1.3}


def error_picture(rows: list[Row], part: str, against: str, delta: float, file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = some(rows, part=part, delta=delta)
    sets = [s for s in SETS if some(ours, set=s)]
    figure, axes = plt.subplots(2, len(sets), figsize=(3.2 * len(sets) + 2.8, 7), squeeze=False, sharex=True)
    shown: Row = {}
    for column, name in enumerate(sets):
        for line, kind in enumerate(("range", "linear")):
            axis = axes[line][column]
            for title in [*MECHANISMS, *(f"published {r}" for r in READINGS)]:
                found = sorted(some(ours, set=name, mechanism=title), key=lambda r: r[against])
                if not found or not sensible(name, title, delta):
                    continue
                xs = [r[against] for r in found]
                label = title
                if title.startswith("published"):
                    label = title.replace("published ", "published: ").replace("-", " ")
                    if READINGS[2] not in title:
                        label += "\n(promises less than it says)"
                shown[label] = axis.plot(xs, [r[kind] for r in found], label=label, **look(title))[0]
                if title in LINEAR:
                    theory = axis.plot(xs, [r[f"theory_{kind}"] for r in found], **THEORY)
                    shown["theory (linear estimates)"] = theory[0]
            axis.set_xscale("log", base=2 if against == "cells" else 10)
            axis.set_yscale("log")
            axis.grid(True, which="major", alpha=0.3)
            if line == 0:
                axis.set_title(TITLES[name], fontsize=10)
            if column == 0:
                axis.set_ylabel(f"mean squared error, {kind} queries")
            if line == 1:
                axis.set_xlabel("cells" if against == "cells" else against)
            if against == "epsilon":
                ticks = sorted({r[against] for r in ours})
                axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
                axis.minorticks_off()
    shown = {label: shown[label] for label in sorted(shown, key=lambda text: "theory" in text)}
    figure.legend(list(shown.values()), list(shown), loc="center right", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.8 / (3.2 * len(sets) + 2.8), 1))
    figure.savefig(file, dpi=80)
    plt.close(figure)


def ratio_picture(rows: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = some(rows, part="ratio")
    sets = [s for s in SETS if some(ours, set=s)]
    figure, axes = plt.subplots(2, len(sets), figsize=(3.3 * len(sets) + 2.0, 6.5), squeeze=False, sharex=True)
    shown: Row = {}
    for column, name in enumerate(sets):
        for line, (delta, title) in enumerate(((0.0, "pure epsilon"), (DELTA, "delta 1e-6, Gaussian noise"))):
            axis = axes[line][column]
            for epsilon, width in ((1.0, 1.5), (0.1, 0.9)):
                for kind in KINDS:
                    found = sorted(
                        some(ours, set=name, delta=delta, epsilon=epsilon, sensing=kind), key=lambda r: r["ratio"]
                    )
                    if found:
                        style = {1.0: "-", 0.1: ":"}[epsilon]
                        xs, ys = [r["ratio"] for r in found], [r["range"] for r in found]
                        curve = axis.plot(xs, ys, style, color=SENSING_COLOURS[kind], lw=width, marker="o", ms=3)
                        shown[f"{kind}, epsilon {epsilon:g}"] = curve[0]
            axis.set_yscale("log")
            axis.grid(True, alpha=0.3)
            if line == 0:
                axis.set_title(f"{TITLES[name]}\n({SPARSE_IN[name]})", fontsize=10)
            else:
                axis.set_xlabel("compression ratio")
            if column == 0:
                axis.set_ylabel(f"MSE of ranges, {title}")
    figure.legend(list(shown.values()), list(shown), loc="center right", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.0 / (3.3 * len(sets) + 2.0), 1))
    figure.savefig(file, dpi=80)
    plt.close(figure)


def prediction_picture(rows: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = [r for r in rows if r["part"] in ("epsilon", "domain") and not r["mechanism"].startswith("published")]
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6))
    panels = (
        ("theory: linear estimates,\nfrom shape and epsilon alone", "theory", ("range", "linear")),
        ("forecast of a range (adumbra plan),\nfrom shape and epsilon alone", "forecast", ("range",)),
        ("what the releases themselves state", "stated", ("range", "linear")),
    )
    for axis, (title, which, kinds) in zip(axes, panels, strict=True):
        for name in COLOURS:
            points = [
                (r[kind], r[f"{which}_{kind}"])
                for r in ours
                for kind in kinds
                if r["mechanism"].split(" ")[0] == name and math.isfinite(r.get(f"{which}_{kind}", math.nan))
            ]
            if points:
                xs, ys = np.array(points).T
                shown = np.clip(ys / xs, 1e-3, 10.0)
                axis.plot(xs, shown, ".", ms=4, color=COLOURS[name], label=name, alpha=0.7)
        axis.axhspan(0.8, 1.2, color="#cccccc", alpha=0.5, zorder=0)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(8e-4, 12)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("measured mean squared error")
        axis.grid(True, alpha=0.3)
        axis.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("predicted / measured (grey: within 20 %;\nbelow 0.001 drawn there)")
    figure.tight_layout()
    figure.savefig(file, dpi=80)
    plt.close(figure)
