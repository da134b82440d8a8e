"""Bugs planted in mechanisms, their families and answers, and the tests that notice."""

from __future__ import annotations

import dataclasses

import numpy as np

import adumbra.families.principal
import adumbra.mechanisms.tables
import adumbra.privacy.meter
import adumbra.queries.sums
from adumbra.declare.guarantee import Relation
from adumbra.families import second_moment_axes
from adumbra.families.synthetic import DrawnTable
from adumbra.queries.second_moment import Gram, symmetric
from adumbra.queries.sums import TablesQuery, Total
from tests.house import test_architecture
from tests.kinds import test_answers
from tests.mechanisms import test_components, test_synthetic
from tests.pipeline import test_kinds_of_cells, test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.planted.test_planted_pipeline import _counted
from tests.queries import test_second_moment
from tests.releases import test_shared_objects


def distance_not_debiased(patch):
    from adumbra.kinds.projected_bands import ProjectedBand

    def raw(self, i, j):
        change = self.rows[i] - self.rows[j]
        return (change**2).sum(axis=1)

    patch.setattr(ProjectedBand, "squared", raw)


def error_without_projection(patch):
    from adumbra.kinds import projected_bands

    patch.setattr(projected_bands, "projection_factor", lambda *_: 0.0)


def as_many_rows_drawn_as_there_are(patch):
    last, real = _counted(patch), DrawnTable.rows_drawn
    patch.setattr(DrawnTable, "rows_drawn", lambda self, setting, rows: real(self, setting, last[0]))


def small_cells_suppressed(patch):
    """A rule of statistical offices, applied to the true counts: a cell of fewer than five people is set to 0."""
    mechanism, seen = adumbra.mechanisms.tables, {}
    answer, shares = TablesQuery.partial, mechanism._ClassShares.of

    def remembered(self, batch):
        out = answer(self, batch)
        for part, counts in out.items():
            seen[part] = seen.get(part, 0.0) + counts
        return out

    def peeking(columns, cells, noisy, rows):
        few = 5 * adumbra.queries.sums.COUNT_STEPS
        values = {part: np.where(seen.pop(part) < few, 0.0, value) for part, value in noisy.values.items()}
        return shares(columns, cells, dataclasses.replace(noisy, values=values), rows)

    patch.setattr(TablesQuery, "partial", remembered)
    patch.setattr(mechanism._ClassShares, "of", staticmethod(peeking))


def mechanism_opens_the_rows(patch):
    text = (
        test_architecture.MODULES["mechanisms/tables.py"]
        + "\n\ndef peek(door):\n    return door._rows._for_the_meter()\n"
    )
    patch.setitem(test_architecture.MODULES, "mechanisms/tables.py", text)


def _peeked(patch, kind):
    """The exact answer to the last question of this kind, as it was before the noise."""
    real, seen = adumbra.privacy.meter._summed, {}

    def peeking(rows, query, calibration, *rest):
        if isinstance(query, kind):
            batches = [query.answer(batch) for batch in rows._for_the_meter()]
            for part in query.parts:
                seen[part.name] = sum(batch[part.name] for batch in batches) * part.step
        return real(rows, query, calibration, *rest)

    patch.setattr(adumbra.privacy.meter, "_summed", peeking)
    return seen


def axes_of_the_exact_second_moment(patch):
    seen = _peeked(patch, Gram)
    patch.setattr(
        second_moment_axes, "symmetric", lambda diagonal, upper: symmetric(seen["diagonal"], seen.get("upper"))
    )


def components_counted_on_the_exact_spectrum(patch):
    seen = _peeked(patch, Gram)

    def count(*_):
        return int(np.linalg.matrix_rank(symmetric(seen["diagonal"], seen.get("upper"))))

    patch.setattr(second_moment_axes.spectrum, "chosen", count)


def centre_taken_from_the_rows(patch):
    """The mean is measured, and paid for; rows are then taken about the true one."""
    seen = _peeked(patch, Total)
    patch.setattr(second_moment_axes, "_shrunk", lambda mean, sd: seen["sums"] / 60)


def number_of_components_left_open(patch):
    patch.setattr(adumbra.families.principal.PrincipalAxes, "_most", lambda self, width: self.components or 1)


RELEASE_TELLS = test_shared_objects.test_a_release_tells_neighbours_apart_by_noisy_numbers_alone


NO_COMPONENTS = ("analyze_gauss", {"result": "coordinates"}, "number of components")


CASES = [
    bug(
        as_many_rows_drawn_as_there_are,
        test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed,
        "tables",
    ),
    bug(
        as_many_rows_drawn_as_there_are,
        test_kinds_of_cells.test_no_neighbour_moves_any_kind_of_cell_by_more_than_was_paid,
        "tables",
        Relation.ADD_REMOVE,
    ),
    bug(distance_not_debiased, test_answers.test_distances_are_unbiased_and_intervals_cover),
    bug(error_without_projection, test_answers.test_intervals_cover_when_the_projection_dominates),
    bug(small_cells_suppressed, test_synthetic.test_the_rows_are_drawn_from_published_numbers_alone, "tables"),
    bug(mechanism_opens_the_rows, test_architecture.test_only_the_meter_reads_private_rows),
    bug(
        axes_of_the_exact_second_moment,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "analyze_gauss",
    ),
    bug(
        components_counted_on_the_exact_spectrum,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "lip",
    ),
    bug(
        centre_taken_from_the_rows,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "analyze_gauss about its mean",
    ),
    bug(
        centre_taken_from_the_rows,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "lip about its mean",
        Relation.REPLACE,
        None,
    ),
    bug(
        number_of_components_left_open,
        test_second_moment.test_rows_that_are_published_need_a_number_of_components_that_was_fixed_beforehand,
    ),
    bug(distance_not_debiased, test_answers.test_laplace_distances_cover),
    bug(error_without_projection, test_answers.test_means_and_counts_are_unbiased_with_honest_errors, 2, "unit-row"),
    bug(small_cells_suppressed, RELEASE_TELLS, "tables", "replace"),
    bug(axes_of_the_exact_second_moment, RELEASE_TELLS, "analyze_gauss", "replace"),
    bug(
        number_of_components_left_open,
        test_components.test_bad_options_are_refused_and_nothing_is_charged,
        *NO_COMPONENTS,
    ),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
