"""Results for people: the truth beside each release's mean and standard error."""

from __future__ import annotations

from typing import Any

import numpy as np
from common.tables import markdown

Rows = list[dict[str, Any]]


def _cell(values: list[float]) -> str:
    known = np.array([v for v in values if not np.isnan(v)])
    if not len(known):
        return "-"
    error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else 0.0
    digits = 3 if abs(known.mean()) < 10 else 1
    return f"{known.mean():.{digits}f} ± {error:.{digits}f}"


def _head(key: tuple[str, str, float], rows: Rows) -> str:
    variant, mechanism, epsilon = key
    chosen = sorted({r["chosen"] for r in rows if "chosen" in r})
    shown = mechanism if chosen in ([], [mechanism]) else f"{mechanism}: {', '.join(chosen)}"
    return ", ".join(part for part in (shown, variant, f"epsilon {epsilon:g}" if epsilon else "") if part)


def summary(rows: Rows) -> str:
    """A table for each set: a line for each question, a column for each kind of release."""
    out = []
    for name in dict.fromkeys(r["set"] for r in rows):
        here = [r for r in rows if r["set"] == name]
        if name == "small":  # a line for each set and model, not a column for each set
            here = [r | {"variant": ""} for r in here]
        keys = list(dict.fromkeys((r["variant"], r["mechanism"], r["epsilon"]) for r in here))
        cells = {key: [r for r in here if (r["variant"], r["mechanism"], r["epsilon"]) == key] for key in keys}
        questions = list(dict.fromkeys(q for r in here for q in r["answers"]))
        lines: list[list[str]] = []
        for question in questions:
            true = [r["answers"][question][0] for r in here if question in r["answers"]]
            found = [_cell([r["answers"][question][1] for r in cells[k] if question in r["answers"]]) for k in keys]
            lines.append([question, _cell(true).split(" ±")[0], *found])
        for word, title in (("cpu", "CPU s a release, median"), ("load", "load of the machine, median")):
            some = [[r[word] for r in cells[k] if word in r] for k in keys]  # the first release compiles: no mean
            lines.append([title, "", *(f"{np.median(found):.1f}" if found else "-" for found in some)])
        lines.append(["releases", "", *(str(sum("failed" not in r for r in cells[k])) for k in keys)])
        heads = ["question", "truth", *(_head(k, cells[k]) for k in keys)]
        out.append(f"## {name}\n\n{markdown(heads, lines)}")
    return "\n\n".join(out)
