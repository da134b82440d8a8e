"""Error bars of variances hold where the number of rows is private, and where directions miss."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.mechanisms.catalogue import build
from tests.repeatable import repeatable  # noqa: F401


@pytest.mark.parametrize("name", ["analyze_gauss", "lip", "power_method"])
def test_bars_of_variances_hold_where_the_number_of_rows_is_private(name, repeatable):  # noqa: F811
    """The count is noisy too, and by as much whatever the number of rows."""
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": -1, "high": 1} for n in "ab"}})
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 500)
    frame = pl.DataFrame({"a": 0.9 * signs, "b": 0.1 * signs})
    inside = 0
    for _ in range(40):
        budget = ad.Budget(1.0, 1e-6, relation=ad.Relation.ADD_REMOVE)
        release = ad.release(frame, schema, build(name, {"components": 1}), budget)
        truth = release.facts.axes_clipped_to**2  # all rows are longer, and on one line
        low, high = release.arrays["spectrum_low"][0], release.arrays["spectrum_high"][0]
        inside += bool(low <= truth * 1.001 and truth * 0.999 <= high)
    assert inside >= 36


def test_the_bars_of_the_power_method_hold_where_its_directions_miss(repeatable):  # noqa: F811
    """One round from random directions catches little of the variance: the upper end must not pretend otherwise."""
    width = 60
    spread = 0.1 * 0.98 ** np.arange(width)
    x = np.clip(0.5 + np.random.default_rng(0).normal(size=(5000, width)) * spread, 0, 1)
    schema = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(width)}})
    frame = pl.DataFrame({f"c{i}": x[:, i] for i in range(width)})
    release = ad.release(frame, schema, ad.PowerMethod(components=1, rounds=1, oversample=0), ad.Budget(5.0, 1e-6))
    rows = x - 0.5
    rows *= np.minimum(1, release.facts.axes_clipped_to / np.linalg.norm(rows, axis=1))[:, None]
    truth = np.linalg.eigvalsh(rows.T @ rows / len(rows))[-1]
    assert release.arrays["spectrum"][0] < 0.9 * truth
    assert release.arrays["spectrum_low"][0] <= truth <= release.arrays["spectrum_high"][0]
