"""Bugs planted in what objects carry, and the tests that notice."""

from __future__ import annotations

import numpy as np

import adumbra.api
import adumbra.pipeline
from adumbra.declare.guarantee import Relation
from adumbra.result import Release
from adumbra.sklearn import JUPA, DPProTransformer, PrivatePCA
from tests.mechanisms import test_contract
from tests.planted.planting import assert_caught, bug, parametrized
from tests.releases import test_shared_objects
from tests.sklearn import test_private_pca, test_sklearn


def pca_centre_is_the_private_mean(patch):
    """The noisy mean is measured and paid for; what the estimator says it took the axes about is the true one."""
    real = PrivatePCA._fit

    def peeking(self, rows, terms):
        real(self, rows, terms)
        self.centre_ = rows.mean(axis=0) if self.centred else self.centre_

    patch.setattr(PrivatePCA, "_fit", peeking)


def projection_keeps_the_lengths_of_rows(patch):
    """To say later how many of them a row bound would have cut."""
    real = DPProTransformer._checked

    def remembered(self, X, *, reset):
        rows = real(self, X, reset=reset)
        self._lengths = np.linalg.norm(rows, axis=1)
        return rows

    patch.setattr(DPProTransformer, "_checked", remembered)


def jupa_remembers_what_it_released(patch):
    """The mean of the private records, to warn when the next ones look otherwise."""
    real = JUPA._standard

    def remembered(self, X):
        rows = real(self, X)
        self._usual = rows.mean(axis=0)
        return rows

    patch.setattr(JUPA, "_standard", remembered)


def release_keeps_what_the_owner_was_told(patch):
    """Cells that were repaired and rows that were cut, at hand for whoever asks the release for them."""
    real, told = adumbra.pipeline.release, []

    def released(*given, **more):
        told[:] = real(*given, **more)
        return tuple(told)

    def kept(*given, **more):
        made = Release(*given, **more)
        made._notes = told[1]
        return made

    patch.setattr(adumbra.pipeline, "release", released)
    patch.setattr(adumbra.api, "Release", kept)


def plan_prints_the_number_of_rows(patch):
    patch.setattr(adumbra.pipeline.Plan, "__repr__", lambda self: f"Plan({self.job.name}, {self.job.count} rows)")


ESTIMATOR_TELLS = test_shared_objects.test_an_estimator_tells_neighbours_apart_by_noisy_numbers_alone


RELEASE_TELLS = test_shared_objects.test_a_release_tells_neighbours_apart_by_noisy_numbers_alone


PRIVATE_NUMBER = test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release


CASES = [
    bug(
        pca_centre_is_the_private_mean,
        test_private_pca.test_the_centre_is_the_declared_middle_or_the_mean_that_was_released,
        "analyze_gauss",
        True,
    ),
    bug(pca_centre_is_the_private_mean, ESTIMATOR_TELLS, "PrivatePCA", "centred"),
    bug(projection_keeps_the_lengths_of_rows, test_sklearn.test_fit_learns_nothing_from_cells, 2, "row"),
    bug(projection_keeps_the_lengths_of_rows, ESTIMATOR_TELLS, "DPProTransformer", "rows"),
    bug(jupa_remembers_what_it_released, ESTIMATOR_TELLS, "JUPA", "coarse"),
    bug(
        jupa_remembers_what_it_released,
        test_shared_objects.test_an_estimator_that_learnt_from_public_records_is_as_it_was_after_private_ones,
        "laplace",
    ),
    bug(release_keeps_what_the_owner_was_told, RELEASE_TELLS, "tables", "replace"),
    bug(
        release_keeps_what_the_owner_was_told,
        test_shared_objects.test_a_release_holds_neither_the_table_nor_the_way_to_it,
        "frame",
    ),
    bug(
        plan_prints_the_number_of_rows,
        test_shared_objects.test_a_plan_prints_no_row_and_no_private_number_of_rows,
        Relation.ADD_REMOVE,
    ),
    bug(plan_prints_the_number_of_rows, PRIVATE_NUMBER, "tables"),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
