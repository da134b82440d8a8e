"""What queries answer, worked out plainly: 64-bit integers, one row at a time, no compiled code."""

from __future__ import annotations

import numpy as np

from adumbra.queries.row_map import RowMap
from adumbra.queries.second_moment import Gram, GramTimes


def clipped_plainly(rows, bound):
    """Row by row, with Python's integers for lengths; and how many were clipped."""
    out, clipped = [], 0
    for row in rows:
        squared = sum(int(v) ** 2 for v in row)
        if squared <= bound**2:
            out.append(row)
            continue
        clipped += 1
        factor, nudge = bound / np.sqrt(float(squared)), 2.0**-50
        while True:
            short = np.trunc(row * factor)
            if sum(int(v) ** 2 for v in short) <= bound**2:
                break
            factor, nudge = factor * (1 - nudge), nudge * 2
        out.append(short)
    return np.array(out).reshape(rows.shape), clipped


def _clipped(clip, rows):
    if clip is None:
        return rows.astype(np.int64)
    return clipped_plainly(rows if clip.centre is None else rows - clip.centre, clip.bound)[0].astype(np.int64)


def answered_plainly(query, batch):
    """The exact answer of a row map or a second moment, part by part, in whole steps; of another sum its own."""
    if not isinstance(query, RowMap | Gram | GramTimes):
        return query.answer(batch)
    rows = _clipped(query.clip, batch)
    if isinstance(query, RowMap):
        return {"rows": rows @ query.matrix}
    if isinstance(query, GramTimes):
        along = np.trunc((rows @ query.basis) * (query.BASIS_STEP / query.coarse)).astype(np.int64)
        return {"products": rows.T @ along}
    chosen = np.ones((1, len(rows)), dtype=bool)
    if query.groups is not None:
        chosen = query.groups.of(batch) == np.arange(query.groups.count)[:, None]
    squares = np.stack([rows[mask].T @ rows[mask] for mask in chosen])
    above = np.triu_indices(query.width, 1)
    parts = {"diagonal": np.diagonal(squares, axis1=1, axis2=2), "upper": squares[:, above[0], above[1]]}
    return {part.name: parts[part.name].reshape(part.shape) for part in query.parts}
