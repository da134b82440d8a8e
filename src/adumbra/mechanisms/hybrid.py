"""Hybrid: private tables for every column, then moments of rows standardised by them; rows drawn, ranks mapped back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.types import Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Promise
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.row_count import known_rows, measured_arrays, measured_names, with_size, with_size_query
from adumbra.families.synthetic import DrawnTable
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.models.columns import (
    Columns,
    drawing,
)
from adumbra.models.marginals import (
    Form,
    Marginal,
    denoised,
    equal_cells,
    form_of,
    mass_cells,
    predicted_table_error,
    sharpened,
    unit_edges,
)
from adumbra.models.quantile_decoder import ClassTables, Decoder, drawn_rows
from adumbra.models.shrinkage import apportion
from adumbra.models.two_round_gaussian import (
    NoisyMoments,
    Pilot,
    correlation_error,
    fit_pilot,
    noise_rows,
    refined,
)
from adumbra.queries.cells import Cells
from adumbra.queries.scores import Linear, Lookup, Residuals, Scores
from adumbra.queries.second_moment import MomentsQuery, symmetric
from adumbra.queries.sums import TablesQuery

__all__ = ["Hybrid"]

_TABLES, _CLASS_TABLES, _PILOT, _RESIDUALS = "tables", "class tables", "moments", "moments of residuals"
_TABLE_SHARE = {"model": 0.2, "correlations": 0.2, "marginals": 0.5}
"""Share of the budget for all tables together, by need."""
_CLASS_TABLES_FROM = 200.0
"""Tables by class are taken where a cell's noise is below rows / (classes * this): before, they would be noise."""
_PILOT_WEIGHT, _RESIDUAL_WEIGHT = 0.6, 0.7
"""Weights of the second moment; those of counts and sums follow (binomial: sensitivity exactly sqrt 2)."""
_RADIUS = 0.8
_CLEAR, _WIDE = 15.0, 100
_UNKNOWN_ROWS = 1000
"""Stands in for the number of rows in rules that must be fixed before a private one is measured."""


@dataclass(frozen=True)
class Hybrid(DrawnTable):
    """Parameters, all public.

    * `label`: the column whose classes get their own means (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has, at least 40,000 (10,000 if it is wide).
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
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Dong, Roth, Su (2022), Gaussian Differential Privacy, JRSS B 84(1), Corollary 3.3",
            "@article{dong2022gaussian, title={Gaussian Differential Privacy}, author={Dong, Jinshuo and Roth, Aaron "
            "and Su, Weijie J.}, journal={Journal of the Royal Statistical Society B}, volume={84}, number={1}, "
            "year={2022}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(tuple(_TABLE_SHARE), need=self.need)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """A fifth for tables; the rest for moments, of which the second round gets more the wider the table."""
        return with_size(setting, self._resolved(setting)[1])

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Every measurement, the later ones with placeholders for what the earlier ones will have found."""
        columns, shares, bins, parts = self._resolved(setting)
        cells = equal_cells(columns.features, bins)
        pilot, _ = _scores(columns, _flat(columns, cells))
        width = pilot.dimension
        identity = Residuals(np.eye(width), columns.groups, np.zeros((columns.classes, width)), 1.0)
        queries: dict[str, Query] = {_TABLES: TablesQuery(cells)}
        if _CLASS_TABLES in shares:
            queries[_CLASS_TABLES] = _class_tables(columns, mass_cells(columns.features, None, parts))
        queries[_PILOT] = _moments(columns, pilot, _PILOT_WEIGHT)
        queries[_RESIDUALS] = _moments(columns, _with_residuals(pilot, identity), _RESIDUAL_WEIGHT)
        return with_size_query(setting, queries)

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
            scores, width = _scores(columns, None)
            sd = noise[_PILOT].sd / (_PILOT_WEIGHT * math.sqrt(2.0)) / setting.rows * _RADIUS**2 * width
            out.append(("a correlation", f"noise of sd {sd:.3g}, before shrinking ({scores.dimension} scores)"))
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Tables, then moments, then rows."""
        columns, shares, bins, parts = self._resolved(setting)
        rows = known_rows(door, setting)
        cells = equal_cells(columns.features, bins)
        answers: dict[str, SumAnswer] = {}
        answers[_TABLES] = noisy = door.measure(_TABLES, TablesQuery(cells))
        tables = denoised(noisy.values["pooled"], noisy.sd("pooled"), rows, cells)
        marginals = [
            Marginal.of(form_of(b), table, unit_edges(cells, j))
            for j, (b, table) in enumerate(zip(columns.features, tables, strict=True))
        ]
        by_class = None
        if _CLASS_TABLES in shares:
            fine = mass_cells(columns.features, marginals, parts)
            answers[_CLASS_TABLES] = noisy = door.measure(_CLASS_TABLES, _class_tables(columns, fine))
            marginals, by_class = _class_tables_read(marginals, noisy, rows, fine)
        scores, _ = _scores(columns, marginals)
        answers[_PILOT] = noisy = door.measure(_PILOT, _moments(columns, scores, _PILOT_WEIGHT))
        first = _read(noisy, scores.radius, rows)
        positions, variances = _positions(marginals)
        cautious = self._cautious(setting)
        pilot = fit_pilot(first, variances, cautious)
        residuals = _residuals(columns, pilot, scores.radius)
        query = _moments(columns, _with_residuals(scores, residuals), _RESIDUAL_WEIGHT)
        answers[_RESIDUALS] = noisy = door.measure(_RESIDUALS, query)
        latent = refined(first, _read(noisy, residuals.radius, rows), pilot, cautious)
        generator = drawing(setting.seed, "hybrid")
        table_error = predicted_table_error(tables, answers[_TABLES].sd("pooled"), rows, cells, generator)
        drawn = self.rows_drawn(setting, rows)
        sample = np.repeat(np.arange(columns.classes), apportion(latent.shares, 2000))
        decoder = Decoder.calibrated(
            columns.features,
            marginals,
            positions,
            latent,
            noise_rows(latent, sample, generator),
            first,
            pilot,
            scores.radius,
            by_class,
        )
        return Draft(
            columns=None,
            batches=drawn_rows(columns, decoder, latent, drawn, generator),
            facts=SyntheticTableFacts(
                label=tuple(columns.label),
                classes=columns.classes,
                bins=bins,
                predicted_error=PredictedError(
                    marginal_tv=table_error, correlation=correlation_error(latent, first, pilot)
                ),
            ),
            arrays=measured_arrays(answers),
            measured=measured_names(answers),
        )

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public and few, and plan, outlook and run ask the same
    def _resolved(self, setting: Setting) -> tuple[Columns, dict[str, float], int, int]:
        shares = self._shares(setting)
        return self.narrow_columns(setting), shares, *self._bins(setting, shares)

    def _shares(self, setting: Setting) -> dict[str, float]:
        columns = self.narrow_columns(setting)
        rows = setting.rows or _UNKNOWN_ROWS
        noise = setting.preview(1.0, TablesQuery(equal_cells(columns.features, 10)))
        by_class = rows / (noise * columns.classes) >= _CLASS_TABLES_FROM
        for_tables = _TABLE_SHARE[self.need]
        rest = 1.0 - for_tables
        scores, _ = _scores(columns, None)
        width = scores.dimension
        clarity = self._clarity(setting, columns, scores, rest)
        part = 0.05
        if self.need == "model":
            part = max((0.2 + 0.4 * min(1.0, width / 200)) * min(1.0, clarity / _CLEAR), part)
        tables = {_TABLES: for_tables / 2, _CLASS_TABLES: for_tables / 2} if by_class else {_TABLES: for_tables}
        return tables | {_PILOT: rest * (1 - part), _RESIDUALS: rest * part}

    def _clarity(self, setting: Setting, columns: Columns, scores: Scores, share: float) -> float:
        """Signal-to-noise ratio of class means in the first round: semeion 2, digits 5, HAR 16 at epsilon 1."""
        noise = setting.preview(share, _moments(columns, scores, _PILOT_WEIGHT))
        rows = setting.rows or _UNKNOWN_ROWS
        return rows * math.sqrt(2.0) / (noise * columns.classes * math.sqrt(scores.dimension))

    def _cautious(self, setting: Setting) -> bool:
        """Shrink eigenvalues harder for a model, except for wide tables (100 scores) of a high signal-to-noise (15)."""
        columns = self.narrow_columns(setting)
        scores, _ = _scores(columns, None)
        clear = self._clarity(setting, columns, scores, 1.0 - _TABLE_SHARE[self.need]) >= _CLEAR
        return self.need == "model" and not (clear and scores.dimension >= _WIDE)

    def _bins(self, setting: Setting, shares: Mapping[str, float]) -> tuple[int, int]:
        """Equal cells of a number, and cells of equal mass in the tables by class: as many as the noise leaves room."""
        columns = self.narrow_columns(setting)
        rows = setting.rows or _UNKNOWN_ROWS
        room = rows / setting.preview(shares[_TABLES], TablesQuery(equal_cells(columns.features, 10)))
        return (10, 8) if room < 100 else (20, 16) if room < 400 else (40, 32)


def _flat(columns: Columns, cells: Cells) -> list[Marginal]:
    """The marginals of columns of which nothing is known; columns of one form and number of cells share one."""
    made: dict[tuple[Form, int], Marginal] = {}
    out = []
    for index, (block, count) in enumerate(zip(columns.features, cells.counts, strict=True)):
        key = (form_of(block), count)
        if key not in made:
            made[key] = Marginal.of(key[0], np.full(count, 1.0 / count), unit_edges(cells, index))
        out.append(made[key])
    return out


def _positions(marginals: Sequence[Marginal]) -> tuple[list[int], Reals]:
    """Where each column's scores stand (numbers first, as `Scores` has them), and the variance of every score."""
    numbers = [j for j, m in enumerate(marginals) if m.form == "number"]
    others = [j for j, m in enumerate(marginals) if m.form != "number"]
    positions, at = [0] * len(marginals), 0
    for j in (*numbers, *others):
        positions[j] = at
        at += marginals[j].width
    return positions, np.concatenate([marginals[j].variances for j in (*numbers, *others)])


def _scores(columns: Columns, marginals: Sequence[Marginal] | None) -> tuple[Scores, float]:
    """Scores standardised by the marginals (flat ones, if there are none yet), and their total variance."""
    if marginals is None:
        marginals = _flat(columns, equal_cells(columns.features, 10))
    numbers = [j for j, m in enumerate(marginals) if m.form == "number"]
    linear = np.array([marginals[j].linear() for j in numbers]).reshape(-1, 3)
    coordinates = np.array([columns.features[j].start for j in numbers], dtype=np.int64)
    others = [j for j, m in enumerate(marginals) if m.form != "number"]
    looked_up = equal_cells([columns.features[j] for j in others], 1)
    lookups = tuple(Lookup(place, marginals[j].vectors) for place, j in enumerate(others))
    total = float(_positions(marginals)[1].sum())
    radius = _RADIUS * math.sqrt(total)
    return Scores(Linear(coordinates, linear[:, 0], linear[:, 1], linear[:, 2]), looked_up, lookups, radius), total


def _with_residuals(scores: Scores, residuals: Residuals) -> Scores:
    return Scores(scores.linear, scores.cells, scores.lookups, scores.radius, residuals)


def _residuals(columns: Columns, pilot: Pilot, radius: float) -> Residuals:
    matrix, centres = pilot.whitening(radius)
    # in these coordinates a row has a squared length of about their number, if the pilot is right
    return Residuals(matrix, columns.groups, centres, math.sqrt(matrix.shape[1]))


def _moments(columns: Columns, scores: Scores, second: float) -> MomentsQuery:
    sums = math.sqrt(2 * second * (1 - second))
    return MomentsQuery(scores, columns.groups, counts=1 - second, sums=sums, second=second)


def _class_tables(columns: Columns, cells: Cells) -> TablesQuery:
    """Half on the tables of all rows, half on those of each class."""
    if columns.groups is None:
        return TablesQuery(cells)
    return TablesQuery(cells, columns.groups, math.sqrt(0.5), math.sqrt(0.5))


def _class_tables_read(
    marginals: list[Marginal], noisy: SumAnswer, rows: float, cells: Cells
) -> tuple[list[Marginal], ClassTables | None]:
    """Sharper marginals from both tables (those of the classes add up to the other), and the tables of the classes."""
    pooled, sd = noisy.values["pooled"], noisy.sd("pooled")
    grouped = noisy.values.get("grouped")
    if grouped is None:
        return sharpened(marginals, pooled, sd, rows, cells), None
    summed = len(grouped) * noisy.sd("grouped") ** 2
    trust = summed / (sd**2 + summed)
    both = trust * pooled + (1 - trust) * grouped.sum(axis=0)
    return (
        sharpened(marginals, both, sd * math.sqrt(trust), rows, cells),
        ClassTables(cells, grouped, noisy.sd("grouped")),
    )


def _read(noisy: SumAnswer, radius: float, rows: float) -> NoisyMoments:
    """Released moments in the units of scores (or residuals)."""
    values = noisy.values
    return NoisyMoments(
        values["counts"],
        values["sums"] * radius,
        symmetric(values["diagonal"], values.get("upper")) * (radius**2 / rows),
        noisy.sd("counts"),
        noisy.sd("sums") * radius,
        noisy.sd("diagonal") / math.sqrt(2.0) * radius**2 / rows,
        rows,
    )
