"""Hybrid: private tables for every column, then moments of rows standardised by them; rows drawn, ranks mapped back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Promise
from adumbra.families.column_tables import ColumnRounds, MeasuredColumns, fine_parts
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.row_count import (
    known_rows,
    measured_arrays,
    measured_names,
    public_rows,
    with_size,
    with_size_query,
)
from adumbra.families.set_columns import beside_sets, with_set_queries, with_sets
from adumbra.families.synthetic import DrawnTable, watchable
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.mechanisms.bibliography import GAUSSIAN_DP
from adumbra.models.attenuation import unattenuated
from adumbra.models.class_tables import ClassTables
from adumbra.models.column_cells import equal_cells, first_cells, mass_cells, unit_edges
from adumbra.models.columns import Columns, drawing
from adumbra.models.marginals import Marginal, expected_shares, flat_marginals
from adumbra.models.quantile_decoder import Decoder, drawn_rows
from adumbra.models.score_layout import RADIUS, ScoreLayout
from adumbra.models.shrinkage import apportion
from adumbra.models.two_round_gaussian import (
    Latent,
    NoisyMoments,
    Pilot,
    correlation_error,
    fit_pilot,
    noise_rows,
    refined,
)
from adumbra.queries.cells import Cells
from adumbra.queries.scores import Residuals, Scores
from adumbra.queries.second_moment import MomentsQuery, symmetric
from adumbra.queries.sums import TablesQuery

__all__ = ["Hybrid"]

_TABLES, _SECOND, _PILOT, _RESIDUALS = "tables", "class tables", "moments", "moments of residuals"
_TABLE_SHARE = {"model": 0.2, "correlations": 0.2, "marginals": 0.5}
"""Share of the budget for all tables together, by need."""
_SECOND_LOOK_FROM, _CLASS_TABLES_FROM = 400.0, 200.0
"""A second measurement is made where a cell's noise, at the whole budget, is below rows / the first, and by class where
it is below rows / (classes * the second). Before, one measurement tells more than two with half the budget."""
_PILOT_WEIGHT, _RESIDUAL_WEIGHT = 0.6, 0.7
"""Weights of the second moment; those of counts and sums follow (binomial: sensitivity exactly sqrt 2)."""
_CLEAR, _WIDE = 15.0, 100
_MOST_CLASS_CELLS = 2**20
"""About as many cells has the second measurement at all columns in all classes at most."""


@dataclass(frozen=True)
class Hybrid(DrawnTable):
    """Parameters, all public.

    * `label`: the column whose classes get their own means (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has.
    * `need`: what matters most: model (a classifier trained on the rows), correlations, or marginals. It moves budget
      between tables and moments, and decides how cautiously directions are kept.
    """

    need: str = "model"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"need": tuple(_TABLE_SHARE)}
    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "tables for the columns, moments for how they are correlated, then sampled"
    releases: ClassVar[str] = "a synthetic table of any number of rows, and the noisy tables and moments behind it"
    suits: ClassVar[str] = "mixed tables; marginals and correlations at once; training a model on wide tables"
    caution: ClassVar[str] = (
        "synthetic rows, not people: no row stands for a person; relations beyond class means and correlations are not "
        "kept; below about 150 rows the tables are mostly noise"
    )
    theorem: ClassVar[str] = "Gaussian mechanism (Balle and Wang 2018, Theorem 8), measurements composed adaptively"
    differs: ClassVar[str] = (
        "This mechanism is our own. It joins the two designs that win in different places, label by column tables and "
        "moments, and measures the moments a second time in coordinates that the first time suggests."
    )
    cites: ClassVar[tuple[Reference, ...]] = (GAUSSIAN_DP,)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(tuple(_TABLE_SHARE), need=self.need)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """A fifth for tables; the rest for moments, of which the second round gets more the wider the table."""
        return with_sets(setting, with_size(setting, self._resolved(setting)[1]))

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Every measurement, the later ones with placeholders for what the earlier ones will have found.

        Where the number of rows is private there are as many cells as there may be, and as many scores everywhere.
        """
        columns, shares = self._resolved(setting)
        rules = self._rules(setting, float("inf") if setting.rows is None else setting.rows)
        flat = flat_marginals(columns.features)
        layout = ScoreLayout(columns.features, tuple(flat), watchable(setting, columns))
        width = layout.scores.dimension
        identity = Residuals(np.eye(width), columns.groups, np.zeros((columns.classes, width)), 1.0)
        first = first_cells(columns.features, rules.room)
        queries: dict[str, Query] = {_TABLES: TablesQuery(first)}
        if _SECOND in shares:
            fine = mass_cells(first, None, rules.parts)
            queries[_SECOND] = _second_tables(columns, fine, rules.by_class, setting.pure)
        queries[_PILOT] = _moments(columns, layout.scores, _PILOT_WEIGHT)
        queries[_RESIDUALS] = _moments(columns, _with_residuals(layout.scores, identity), _RESIDUAL_WEIGHT)
        return with_set_queries(setting, with_size_query(setting, queries))

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The `noise` on shares and on correlations in this `setting`, beside what they are, whatever the `promise`."""
        columns = self.narrow_columns(setting)
        out = self.shape_to_expect(setting)
        if setting.rows:
            out.append(
                (
                    "share of a cell of a column",
                    f"noise of sd {noise[_TABLES].sd / setting.rows:.3g}, before smoothing across cells and columns",
                )
            )
            layout = _flat_layout(columns)
            sd = noise[_PILOT].sd / (_PILOT_WEIGHT * math.sqrt(2.0)) / setting.rows * RADIUS**2 * layout.total
            out.append(("a correlation", f"noise of sd {sd:.3g}, before shrinking ({layout.scores.dimension} scores)"))
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Tables, then moments, then rows."""
        columns, rows = self.narrow_columns(setting), known_rows(door, setting)
        rules = self._rules(setting, rows)
        answers: dict[str, SumAnswer] = {}
        tables = self._tables(door, setting, rows, answers)
        layout = ScoreLayout(columns.features, tuple(tables.marginals), _watched(setting, columns, tables.marginals))
        answers[_PILOT] = noisy = door.measure(_PILOT, _moments(columns, layout.scores, _PILOT_WEIGHT))
        classes = columns.likely(noisy.values["counts"], noisy.sd("counts"))
        first = _read(noisy, layout.scores.radius, rows, classes)
        pilot = fit_pilot(first, layout.variances, rules.cautious)
        residuals = _residuals(columns, pilot, layout.scores.radius, classes)
        query = _moments(columns, _with_residuals(layout.scores, residuals), _RESIDUAL_WEIGHT)
        answers[_RESIDUALS] = noisy = door.measure(_RESIDUALS, query)
        fitted = refined(first, _read(noisy, residuals.radius, rows, classes), pilot, rules.cautious)
        latent = unattenuated(fitted, layout, first.second_sd / float(np.mean(pilot.scale**2)))
        generator = drawing(setting.seed, "hybrid")
        sample = np.repeat(np.arange(len(classes)), apportion(latent.shares, 2000))
        decoder = Decoder.calibrated(
            layout,
            latent,
            noise_rows(latent, sample, generator),
            first,
            pilot,
            _known(tables, rows),
            _by_class(tables, latent, classes, rows),
        )
        draft = Draft(
            columns=None,
            batches=drawn_rows(columns, decoder, latent, classes, self.rows_drawn(setting, rows), generator),
            facts=SyntheticTableFacts(
                label=tuple(columns.label),
                classes=len(classes),
                cells=tables.cells.total,
                predicted_error=PredictedError(
                    marginal_tv=tables.error, correlation=correlation_error(fitted, first, pilot)
                ),
            ),
            arrays=measured_arrays(answers),
            measured=measured_names(answers),
        )
        return beside_sets(door, setting, rows, draft)

    def _tables(self, door: Measurer, setting: Setting, rows: float, answers: dict[str, SumAnswer]) -> MeasuredColumns:
        """One measurement of all columns, or two, of which the second has its cells where the first found the rows."""
        (columns, shares), rules = self._resolved(setting), self._rules(setting, rows)
        rounds = ColumnRounds(
            columns.features,
            _TABLES,
            _SECOND if _SECOND in shares else None,
            rules.room,
            rules.parts,
            lambda fine: _second_tables(columns, fine, rules.by_class, setting.pure),
            _all_rows,
        )
        return rounds.measured(door, rows, answers, drawing(setting.seed, "hybrid tables"))

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public and few, and plan, outlook and run ask the same
    def _resolved(self, setting: Setting) -> tuple[Columns, dict[str, float]]:
        return self.narrow_columns(setting), self._shares(setting)

    def _shares(self, setting: Setting) -> dict[str, float]:
        """Fixed before anything is measured: where the number of rows is private, as for a table of some size."""
        columns, rows = self.narrow_columns(setting), public_rows(setting)
        for_tables = _TABLE_SHARE[self.need]
        rest = 1.0 - for_tables
        layout = _flat_layout(columns)
        clarity = _CLEAR / 2 if rows is None else _clarity(setting, columns, layout, rest, rows)
        part = 0.05
        if self.need == "model":
            part = max((0.2 + 0.4 * min(1.0, layout.scores.dimension / 200)) * min(1.0, clarity / _CLEAR), part)
        # where the number of rows is private the second measurement is there in any case: it is of use whatever that is
        room = math.inf if setting.rows is None else setting.rows / _noise(setting, columns, 1.0)
        again = room >= min(_SECOND_LOOK_FROM, _CLASS_TABLES_FROM * columns.declared)
        tables = {_TABLES: for_tables / 2, _SECOND: for_tables / 2} if again else {_TABLES: for_tables}
        return tables | {_PILOT: rest * (1 - part), _RESIDUALS: rest * part}

    def _rules(self, setting: Setting, rows: float) -> _Choices:
        """What follows from the number of rows, be it a noisy one: no bound depends on it."""
        columns, shares = self._resolved(setting)
        room = rows / _noise(setting, columns, shares[_TABLES])
        parts = max(min(fine_parts(room), _MOST_CLASS_CELLS // (len(columns.features) * columns.classes)), 8)
        by_class = rows / (_noise(setting, columns, 1.0) * columns.declared) >= _CLASS_TABLES_FROM
        layout = _flat_layout(columns)
        clear = _clarity(setting, columns, layout, 1.0 - _TABLE_SHARE[self.need], rows) >= _CLEAR
        # shrink eigenvalues harder for a model, except for wide tables of a high signal-to-noise ratio
        cautious = self.need == "model" and not (clear and layout.scores.dimension >= _WIDE)
        return _Choices(room, parts, by_class and columns.groups is not None, cautious)


@dataclass(frozen=True)
class _Choices:
    """What follows from public facts and the number of rows."""

    room: float
    """Rows over the noise of a cell in the first measurement."""
    parts: int
    """Cells of a number in the second, about."""
    by_class: bool
    cautious: bool


def _known(found: MeasuredColumns, rows: float) -> Reals:
    """The variance of each column's mean score, as its table tells it."""
    noise, out = found.sd / rows, np.zeros(len(found.marginals))
    for j, marginal in enumerate(found.marginals):
        if marginal.form == "values":
            continue
        edges = unit_edges(found.cells, j)
        shares = expected_shares(marginal, edges)
        scores = marginal.vectors[:, 0] if edges is None else marginal.scores((edges[1:] + edges[:-1]) / 2)[:, 0]
        # smoothing has taken about half of the noise, and more of it where there is nothing
        out[j] = 0.5 * float((scores[shares > noise] ** 2).sum()) * noise**2
    return out


def _by_class(found: MeasuredColumns, latent: Latent, classes: Integers, rows: float) -> ClassTables | None:
    """The tables of the classes of a model, if there are any."""
    if found.second is None or "grouped" not in found.second.values:
        return None
    counts = found.second.values["grouped"][classes]
    return ClassTables.of(found.fine, counts, found.second.sd("grouped"), latent.shares * rows, found.marginals)


def _noise(setting: Setting, columns: Columns, share: float) -> float:
    """Of a count, in tables of all columns with this share of the budget."""
    return setting.preview(share, TablesQuery(equal_cells(columns.features, 10)))


def _flat_layout(columns: Columns) -> ScoreLayout:
    return ScoreLayout(columns.features, tuple(flat_marginals(columns.features)))


def _clarity(setting: Setting, columns: Columns, layout: ScoreLayout, share: float, rows: float) -> float:
    """Signal-to-noise ratio of class means in the first round: semeion 2, digits 5, HAR 16 at epsilon 1."""
    noise = setting.preview(share, _moments(columns, layout.scores, _PILOT_WEIGHT))
    return rows * math.sqrt(2.0) / (noise * columns.declared * math.sqrt(layout.scores.dimension))


def _watched(setting: Setting, columns: Columns, marginals: Sequence[Marginal]) -> tuple[int, ...]:
    """Of the columns that are sometimes empty those that are most often."""
    empty = [j for j, m in enumerate(marginals) if m.missing > 0]
    most = sorted(empty, key=lambda j: -marginals[j].missing)[: len(watchable(setting, columns))]
    return tuple(sorted(most))


def _with_residuals(scores: Scores, residuals: Residuals) -> Scores:
    return Scores(scores.linear, scores.cells, scores.lookups, scores.radius, residuals)


def _residuals(columns: Columns, pilot: Pilot, radius: float, classes: Integers) -> Residuals:
    matrix, centres = pilot.whitening(radius)
    # rows of a class that is taken not to exist are measured from the middle of the others
    every = np.tile(centres.mean(axis=0), (columns.classes, 1))
    every[classes] = centres
    # in these coordinates a row has a squared length of about their number, if the pilot is right
    return Residuals(matrix, columns.groups, every, math.sqrt(matrix.shape[1]))


def _moments(columns: Columns, scores: Scores, second: float) -> MomentsQuery:
    sums = math.sqrt(2 * second * (1 - second))
    return MomentsQuery(scores, columns.groups, counts=1 - second, sums=sums, second=second)


def _second_tables(columns: Columns, cells: Cells, by_class: bool, pure: bool) -> TablesQuery:
    """Half on the tables of all rows, half on those of each class, if there are any: the bound is the same."""
    if not by_class:
        return TablesQuery(cells)
    half = 0.5 if pure else math.sqrt(0.5)
    return TablesQuery(cells, columns.groups, half, half)


def _all_rows(noisy: SumAnswer) -> tuple[Reals, float]:
    """The table of all rows and the sd of its noise: those of the classes add up to it too."""
    pooled, sd = noisy.values["pooled"], noisy.sd("pooled")
    if "grouped" not in noisy.values:
        return pooled, sd
    grouped = noisy.values["grouped"]
    summed = len(grouped) * noisy.sd("grouped") ** 2
    trust = summed / (sd**2 + summed)
    return trust * pooled + (1 - trust) * grouped.sum(axis=0), sd * math.sqrt(trust)


def _read(noisy: SumAnswer, radius: float, rows: float, classes: Integers) -> NoisyMoments:
    """Released moments of these classes in the units of scores (or residuals)."""
    values = noisy.values
    return NoisyMoments(
        values["counts"][classes],
        values["sums"][classes] * radius,
        symmetric(values["diagonal"], values.get("upper")) * (radius**2 / rows),
        noisy.sd("counts"),
        noisy.sd("sums") * radius,
        noisy.sd("diagonal") / math.sqrt(2.0) * radius**2 / rows,
        rows,
    )
