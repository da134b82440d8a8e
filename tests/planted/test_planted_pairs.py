"""Bugs planted in the mechanism `pairs`, and the tests that notice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adumbra.declare.guarantee import Relation
from adumbra.mechanisms import pairs
from adumbra.models.joint_layout import JointLayout
from adumbra.privacy.meter import Meter
from adumbra.queries.joint_tables import JointCells
from adumbra.queries.sums import TablesQuery
from tests.mechanisms import test_pairs, test_synthetic
from tests.pipeline import test_kinds_of_cells, test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.planted.test_planted_pipeline import _counted


def joint_tables_measured_twice(patch):
    """The mean of two looks has half the variance, and the line is still there for the second."""
    measure = Meter.measure

    def twice(self, line, query):
        lines = dict(self._open)
        noisy = measure(self, line, query)
        if line != "joint tables":
            return noisy
        self._open.update(lines)
        again = measure(self, line, query)
        return replace(noisy, values={part: (noisy.values[part] + again.values[part]) / 2 for part in noisy.values})

    patch.setattr(Meter, "measure", twice)


def asked_by_the_true_number_of_rows(patch):
    """Whether there are rows enough for pairs is told best by how many there are."""
    last, real = _counted(patch), pairs.known_rows
    patch.setattr(pairs, "known_rows", lambda door, setting: 0.0 * real(door, setting) + last[0])


def rare_values_merged_by_the_true_counts(patch):
    """Noisy counts decide badly which values are rare; the true ones were there a moment ago."""
    seen, answer, laid_out = [], TablesQuery.finalize, JointLayout.of

    def remembered(self, total):
        out = answer(self, total)
        seen[:] = [np.asarray(out["pooled"], dtype=float)]
        return out

    def peeking(fine, marginals, parts, least, whole=()):
        layout, merged, shares = laid_out(fine, marginals, parts, least, whole), [], []
        if not seen or len(seen[0]) != fine.total:  # a plan, which has no rows
            return layout
        for j, joint in enumerate(layout.cells.merged):
            start = fine.starts[j]
            rows = np.bincount(joint, weights=seen[0][start : start + fine.sizes[j]])
            kept = (rows >= rows.sum() / 20) | (rows == rows.max())
            place = np.where(kept, np.cumsum(kept) - 1, 0)
            merged.append(place[joint])
            shares.append(np.bincount(place, weights=layout.shares[j]))
        cells, in_order = JointCells(fine, tuple(merged)), (0,) * len(merged)
        return replace(layout, cells=cells, shares=tuple(shares), ordered=in_order)

    patch.setattr(TablesQuery, "finalize", remembered)
    patch.setattr(JointLayout, "of", staticmethod(peeking))


MOVED = test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid
CELLS = test_kinds_of_cells.test_no_neighbour_moves_any_kind_of_cell_by_more_than_was_paid

CASES = [
    bug(joint_tables_measured_twice, MOVED, "pairs", Relation.REPLACE, None),
    bug(joint_tables_measured_twice, CELLS, "pairs", Relation.ADD_REMOVE),
    bug(asked_by_the_true_number_of_rows, MOVED, "pairs", Relation.ADD_REMOVE, None),
    bug(asked_by_the_true_number_of_rows, CELLS, "pairs", Relation.ADD_REMOVE),
    bug(
        asked_by_the_true_number_of_rows,
        test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed,
        "pairs",
    ),
    bug(rare_values_merged_by_the_true_counts, test_pairs.test_cells_and_tables_follow_noisy_tables_alone, "replace"),
    bug(
        rare_values_merged_by_the_true_counts,
        test_kinds_of_cells.test_what_is_missing_is_decided_by_noisy_numbers,
        "pairs",
    ),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
