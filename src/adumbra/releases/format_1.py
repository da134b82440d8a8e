"""Cards of format 1, read as cards of format 2.

Format 1 had no kind: options, facts, results and words for people stood in one dictionary under free keys. Everything
that tells them apart is in this module and nowhere else. Options that such a card does not name are not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from adumbra.releases.card import FORMAT_1

__all__ = ["format_2"]

_NO_BOUND = "no bound"
_MEASURED_MEAN = "the mean, measured with noise"
_DRAWN = ("tables", "moments", "hybrid")
_PROJECTED = ("projection", "bands", "dictionary", "atoms")
_COUNTED = ("domain", "decoder", "strategy", "frequencies", "tail", "tail_sd", "dictionary", "atoms_kept")
_REBUILT = ("reconstruction", "projection", "dimension", "ensemble", "weight")
_MOST_AXES, _MOST_CELLS = 64, 2**28
_ANGLE = "largest angle to the true span, 95 %"


def format_2(old: Mapping[str, Any]) -> dict[str, Any]:
    """The card of format 2 that says the same; `ValueError` where the kind of release cannot be told.

    It keeps the `format` it was written in, so that its page, which another version wrote, is not made again.
    """
    given, tables = old["parameters"], old.get("tables", {})
    if not isinstance(given, dict) or not isinstance(tables, dict):
        raise ValueError("no parameters")
    mechanism, noise = old["mechanism"], old["noise"]
    if "bands" in given:
        kind, facts = "projected_rows", _some(given, _PROJECTED) | {"sketch": _sketch(given, None)}
    elif "domain" in given:
        cells = _cells(given["domain"]["cells"])
        kind, facts = "counts", _some(given, _COUNTED) | {"sketch": _sketch(given, cells)}
    elif "result" in given:
        kind, facts = "components", _components(given, tables)
    elif "reconstruction" in given:
        kind, facts = "reconstructed_rows", _some(given, _REBUILT)
    elif "coordinates" in given:
        kind, facts = "noisy_coordinates", {"coordinates": given["coordinates"]}
    elif mechanism in _DRAWN:
        kind, facts = "synthetic_table", _drawn(mechanism, given)
    else:
        raise ValueError(f"a release by {mechanism} of no kind that format 1 had")
    left = {name: value for name, value in old.items() if name not in ("parameters", "tables")}
    return left | {
        "format": FORMAT_1,
        "kind": kind,
        "options": _options(kind, given, old["rows"]),
        "facts": {name: value for name, value in facts.items() if value is not None},
        "words": {"row": "cells" if kind == "counts" else "rows", "facts": given, "tables": tables},
        "measured": _measured(kind, noise),
    }


def _cells(axes: Any) -> int:
    """Cells of a domain; somebody may have written anything here, and it is multiplied before it is verified."""
    if not isinstance(axes, list) or len(axes) > _MOST_AXES:
        raise ValueError("no domain")
    if not all(type(count) is int and 0 < count <= _MOST_CELLS for count in axes):
        raise ValueError("no domain")
    return math.prod(axes)


def _some(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _sketch(given: Mapping[str, Any], cells: int | None) -> dict[str, Any] | None:
    sketch = given.get("sensing")
    if sketch is None:
        return None
    known = {name: sketch[name] for name in ("nonzeros", "weights") if name in sketch}
    measurements = sketch["measurements"]
    of = round(measurements / sketch["ratio"]) if cells is None else cells
    return {"sensing": sketch["kind"], "measurements": measurements, "cells": of} | known


def _components(given: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    result, spectrum = given["result"], tables.get("Components", [])
    by_row = result in ("coordinates", "approximation")
    angle = given.get(_ANGLE)
    sine = None if angle is None else 1.0 if angle == _NO_BOUND else math.sin(math.radians(float(angle.split()[0])))
    measured = "rows cut to" in given
    centre = "measured" if given.get("centre") == _MEASURED_MEAN else "middle"
    return {
        "row_aligned": by_row,
        "result": result,
        "components": given["components"],
        "components_above_noise": given.get("components above the noise"),
        "noise_edge": given.get("noise edge"),
        "axes_clipped_to": given.get("rows cut to"),
        "rows_clipped_to": given.get("published rows cut to"),
        "row_line": "rows" if by_row else None,
        "total_variance": given.get("variance of all directions"),
        "sine_bound": sine,
        "centre": centre if measured else None,
        "basis": given.get("basis"),
        "basis_sha256": given.get("basis sha256"),
        "spectrum": spectrum,
        "axes_bounded": any("axis_within_degrees" in row for row in spectrum),
    }


def _drawn(mechanism: str, given: Mapping[str, Any]) -> dict[str, Any]:
    facts = _some(given, ("label", "classes", "predicted_error"))
    if "cells" in given:  # of a number, for hybrid; of all columns together, for tables
        facts["bins" if mechanism == "hybrid" else "cells"] = given["cells"]
    return facts


def _options(kind: str, given: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Those that stood on the card under their own names, with their own types."""
    names = {
        "synthetic_table": ("label", "need", "narrow"),
        "reconstructed_rows": ("reconstruction", "projection", "ensemble"),
        "components": ("components", "result", "axes_share", "contribution"),
        "projected_rows": ("dimension", "input", "atoms"),
        "counts": ("input", "frequencies"),
    }
    known = _some(given, names.get(kind, ()))
    if kind == "synthetic_table":
        known["rows"] = rows
    if kind == "components":
        known |= {"centred": True} if given.get("centre") == _MEASURED_MEAN else {}
        known |= {"rows": rows} if given["result"] == "samples" else {}
    if kind == "reconstructed_rows" and given["projection"] != "none":
        known["dimension"] = given["dimension"] // given["ensemble"]
    return known


def _measured(kind: str, noise: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Where sums were published, which format 1 told by the names of arrays alone."""
    if kind == "counts":
        return {"counts": {"measured": "measured"}}
    if kind in ("projected_rows", "noisy_coordinates"):
        return {}
    return {
        line: {part: f"measured_{line.replace(' ', '_')}_{part}" for part in parts["parts"]}
        for line, parts in noise.items()
    }
