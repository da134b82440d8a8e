"""Answers from the counted cells of a domain: ranges, counts, marginals, any weights, many at once.

Everything here reads a release and nothing else. An answer comes with a standard error and with an eta: at most a share
mu of such answers is further off than eta. Where only noise comes between the answer and the truth, eta is `proved`;
where something else does (a decoder that left part of the table out, a range that cuts through a bin), it is
`estimated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import names_once
from adumbra.counting.tail_bounds import (
    checked_mu,
    gaussian_eta,
    l2_laplace_eta,
    laplace_eta,
    likely_square,
    normal_eta,
)
from adumbra.counting.workload import Workload, atom_products, box_gains, box_sums, dense_energy, wave_energy
from adumbra.declare.schema import Schema
from adumbra.kinds.conditions import DenseQuery, Queries, box_of, read_queries, with_condition
from adumbra.kinds.estimates import CountEstimate
from adumbra.numerics import dictionaries, strategies
from adumbra.numerics.strategies import LinearStrategy, Waves
from adumbra.queries.domain import Domain

if TYPE_CHECKING:
    from adumbra.kinds.counts import CountsFacts
    from adumbra.kinds.kind import Content

__all__ = ["CountedCells"]


MOST_MARGINAL_CELLS = 2**14
_NUMBERS = 2**23
"""Products of queries and atoms that are held at a time."""
_FREQUENCIES = 256
"""Beyond those kept, how many are added one by one."""


@dataclass(frozen=True, eq=False)
class _Errors:
    """What each of some queries may be off by."""

    noise: Reals
    """Variance."""
    noise_eta: Reals
    other: Reals
    """Mean square of what else the error holds."""
    only_noise: NDArray[np.bool_]

    @staticmethod
    def joined(parts: Sequence[_Errors], order: NDArray[np.int64] | slice = slice(None)) -> _Errors:
        fields = zip(*((part.noise, part.noise_eta, part.other, part.only_noise) for part in parts), strict=True)
        return _Errors(*(np.concatenate(field)[order] for field in fields))


class CountedCells:
    """The analyst's view of a release of counted cells."""

    def __init__(self, content: Content, facts: CountsFacts) -> None:
        card, arrays = content.card, content.arrays()
        self.domain = facts.cells_of(Schema.from_dict(card.table_schema))
        self.counts: Reals = content.table().to_series(-1).to_numpy().astype(np.float64)
        noise = card.noise[facts.line]
        self._law, self._scale, self._step = noise.law, noise.scale, noise.grid_step
        self._sd = noise.parts[facts.part]
        self._numbers = len(arrays["measured"])
        self._linear = facts.strategy is not None and facts.decoder == "linear"
        if self.counts.shape != (self.domain.size,):
            raise ValueError("another domain than the card says")
        if self._linear:
            self._strategy: LinearStrategy = strategies.rebuilt(facts.strategy or {})
            self._tail = likely_square(facts.tail, facts.tail_sd)
        else:
            self._atoms = dictionaries.rebuilt(facts.dictionary or {}, arrays.get("dictionary"))
            self._support = np.asarray(arrays["support"], dtype=np.int64)
            self._missing_sizes = np.asarray(arrays["missing_sizes"], dtype=np.float64)
            self._missing_squares = np.asarray(arrays["missing_squares"], dtype=np.float64)
            self._covariance = np.asarray(arrays["covariance"]) if facts.decoder == "pursuit" else None

    # ---- questions

    def range(
        self,
        column: str,
        low: Any = None,
        high: Any = None,
        where: Mapping[str, Any] | None = None,
        mu: float = 0.05,
    ) -> CountEstimate:
        """Rows whose value of `column` lies between `low` and `high`, both included, and that fulfil `where`."""
        if low is None and high is None:
            raise InputError("a smallest value, a largest, or both", "neither", "give --from, --to or both")
        return self.rows_where(with_condition(column, (low, high), where), mu)

    def count(self, column: str, value: Any, where: Mapping[str, Any] | None = None, mu: float = 0.05) -> CountEstimate:
        """Rows with this `value` of a `column` that fulfil `where`; off by more than eta with probability `mu`.

        The value None is what is missing.
        """
        return self.rows_where(with_condition(column, value, where), mu)

    def rows_where(self, where: Mapping[str, Any], mu: float) -> CountEstimate:
        """Rows that fulfil all conditions: a value, or a range (low, high), for each of some columns."""
        low, high = box_of(self.domain, where)
        (row,) = self.boxes(Workload.boxes(self.domain.shape, low[None], high[None]), checked_mu(mu)).rows(named=True)
        return CountEstimate(**{key: value for key, value in row.items() if key != "query"})

    def marginal(self, columns: Sequence[str], mu: float = 0.05) -> pl.DataFrame:
        """The count of every combination of cells of some columns, whatever the others are."""
        checked_mu(mu)
        names = list(names_once(columns, "--columns"))
        axes = [self.domain.axis(name) for name in names]
        if not axes:
            raise InputError("at least one column", "none", "name some with --columns A,B")
        sizes = [self.domain.shape[axis] for axis in axes]
        if float(np.prod(sizes, dtype=float)) > MOST_MARGINAL_CELLS:
            raise InputError(
                f"a marginal of at most {MOST_MARGINAL_CELLS} cells",
                f"{' x '.join(map(str, sizes))}",
                "name fewer columns, or read the counts in data.parquet",
            )
        others = tuple(axis for axis in range(len(self.domain.shape)) if axis not in axes)
        summed = self.counts.reshape(self.domain.shape).sum(axis=others)
        value = np.transpose(summed, np.argsort(np.argsort(axes))).reshape(-1)
        low = np.zeros((len(value), len(self.domain.shape)))
        high = np.tile(np.array(self.domain.shape, dtype=np.float64), (len(value), 1))
        for axis, place in zip(axes, np.unravel_index(np.arange(len(value)), sizes), strict=True):
            low[:, axis], high[:, axis] = place, place + 1.0
        errors = self._errors(Workload.boxes(self.domain.shape, low, high), mu)
        kept = self.domain.some(axes)
        return pl.concat([_listed(kept), _frame(value, errors, mu)], how="horizontal")

    def workload(
        self, queries: Queries | str | Path | Sequence[Mapping[str, Any]] | Mapping[str, Any], mu: float = 0.05
    ) -> pl.DataFrame:
        """Every query of a workload, in its order: query, value, standard_error, mu, eta, basis."""
        checked_mu(mu)
        queries = queries if isinstance(queries, Queries) else read_queries(queries, self.domain)
        found = []
        if queries.boxes is not None and len(queries.boxes):
            found.append(self.boxes(queries.boxes, mu))
        found += [self._dense(dense, mu) for dense in queries.dense]
        names = pl.DataFrame({"query": list(queries.names)})
        return names.join(pl.concat(found), on="query", how="left", maintain_order="left")

    # ---- values and errors

    def boxes(self, workload: Workload, mu: float) -> pl.DataFrame:
        """Every query of a workload of boxes in cells: query, value, standard_error, mu, eta, basis."""
        frame = _frame(box_sums(self.counts, workload), self._errors(workload, mu), mu)
        return frame.insert_column(0, pl.Series("query", list(workload.names), dtype=pl.String))

    def _dense(self, query: DenseQuery, mu: float) -> pl.DataFrame:
        weights = query.weights[None]
        frame = _frame(np.asarray(weights @ self.counts), self._dense_errors(weights, mu), mu)
        return frame.insert_column(0, pl.Series("query", [query.name], dtype=pl.String))

    def _errors(self, workload: Workload, mu: float) -> _Errors:
        """Of queries of boxes: single ones by their sides, others from the weights of all cells."""
        if workload.one_box_each:
            return self._box_errors(workload, mu)
        single = np.bincount(workload.query, minlength=len(workload)) == 1
        parts = [self._box_errors(_some(workload, single), mu)] if single.any() else []
        several = _some(workload, ~single)
        pieces = [self._dense_errors(several.dense(part), mu) for part in several.pieces()]
        found = _Errors.joined(pieces)
        cut, touched = self._cut(several)
        parts.append(replace(found, other=found.other + cut, only_noise=found.only_noise & ~touched))
        order = np.argsort(np.concatenate([np.flatnonzero(single), np.flatnonzero(~single)]))
        return _Errors.joined(parts, order)

    def _cut(self, workload: Workload) -> tuple[Reals, NDArray[np.bool_]]:
        """For queries that cut cells: how much their counts vary if rows lie evenly in those; and which they are."""
        plain, squared = _squared(workload)
        touched = plain.sizes > squared.sizes
        if not touched.any():
            return np.zeros(len(workload)), touched
        return np.maximum(box_sums(self.counts, plain) - box_sums(self.counts, squared), 0.0), touched

    def _box_errors(self, workload: Workload, mu: float) -> _Errors:
        cut, touched = self._cut(workload)
        square = _squared(workload)[1].sizes
        if not self._linear:
            return self._estimated(self._kept_noise(workload), self._missing(workload.sizes, square) + cut, mu)
        if isinstance(self._strategy, Waves):
            return self._of_waves(wave_energy(workload, self._shares(self._strategy)), square, cut, mu)
        length, largest = box_gains(self._strategy, workload)
        return _Errors((length * self._sd) ** 2, self._proved(length, largest, mu), cut, ~touched)

    @staticmethod
    def _estimated(noise: Reals, other: Reals, mu: float) -> _Errors:
        return _Errors(noise, normal_eta(np.sqrt(noise), mu), other, np.zeros(len(noise), dtype=np.bool_))

    def _dense_errors(self, weights: Reals, mu: float) -> _Errors:
        """Of queries with a weight for every cell."""
        square = np.square(weights).sum(axis=1)
        nothing = np.zeros(len(weights))
        if self._linear:
            if isinstance(self._strategy, Waves):
                return self._of_waves(dense_energy(weights, self._shares(self._strategy)), square, nothing, mu)
            entering = self._strategy.dual(weights)
            length = np.sqrt(np.square(entering).sum(axis=1))
            largest = np.abs(entering).max(axis=1)
            only_noise = np.ones(len(weights), dtype=np.bool_)
            return _Errors((length * self._sd) ** 2, self._proved(length, largest, mu), nothing, only_noise)
        noise = self._noise_of(self._products(weights))
        one_sign = (weights.min(axis=1) >= 0.0) | (weights.max(axis=1) <= 0.0)
        missing = np.where(
            one_sign, self._missing(np.abs(weights).sum(axis=1), square), self._missing(np.ones(1), np.ones(1)) * square
        )
        return self._estimated(noise, missing, mu)

    def _proved(self, length: Reals, largest: Reals, mu: float) -> Reals:
        if self._law == "gaussian":
            return gaussian_eta(length, self._scale, self._step, mu)
        if self._law == "laplace":
            return laplace_eta(length, largest, self._scale, self._step, mu)
        return l2_laplace_eta(length, self._scale, self._numbers, mu)

    # ---- waves

    def _shares(self, waves: Waves) -> Reals:
        """Which frequencies were kept; and of some others what they hold if it falls with the square of frequency."""
        number = np.arange(min(waves.kept + 1 + _FREQUENCIES, waves.cells // 2 + 1), dtype=np.float64)
        kept = number <= waves.kept
        return np.stack([kept, np.where(kept, 0.0, np.maximum(number, 1.0) ** -2.0)], axis=1)

    def _of_waves(self, energy: Reals, square: Reals, cut: Reals, mu: float) -> _Errors:
        """Noise on the frequencies kept; what the others hold is known in total only.

        It may lie evenly in all of them, or mostly in the lowest, as in smooth tables: whichever errs more.
        """
        assert isinstance(self._strategy, Waves)
        cells, kept, numbers = self.domain.size, self._strategy.kept, self._strategy.numbers
        noise = energy[:, 0] * self._strategy.divisor**2 * self._sd**2
        outside = np.maximum(square - energy[:, 0], 0.0)
        evenly = outside / max(cells - numbers, 1)
        others = np.arange(kept + 1, cells // 2 + 1, dtype=np.float64)
        total = float((np.where(2 * others < cells, 2.0, 1.0) * others**-2.0).sum())
        falling = energy[:, 1] / total if total else np.zeros(len(square))
        return self._estimated(noise, np.maximum(evenly, falling) * self._tail + cut, mu)

    # ---- few atoms

    def _kept_noise(self, workload: Workload) -> Reals:
        """Variance of the noise on the atoms kept, in queries of one box each."""
        if self._covariance is None and self._atoms.name == "identity":
            kept = np.zeros(self.domain.size)
            kept[self._support] = self._sd**2
            return box_sums(kept, _squared(workload)[1])
        cells, kept_atoms, count = self.domain.size, len(self._support), len(workload)
        by_transform = self._atoms.name != "identity" and count * cells * 30 < kept_atoms * (cells + 20 * count)
        if by_transform:
            pieces = [self._noise_of(self._products(workload.dense(part))) for part in workload.pieces()]
            return np.concatenate(pieces)
        size = max(1, _NUMBERS // max(kept_atoms, 1))
        out = np.zeros(count)
        for start in range(0, count, size) if kept_atoms else ():
            part = np.arange(count)
            chosen = (part >= start) & (part < start + size)
            out[chosen] = self._noise_of(atom_products(self._atoms, self._support, _some(workload, chosen)))
        return out

    def _products(self, weights: Reals) -> Reals:
        """Of weights of all cells with the atoms kept."""
        if self._atoms.name == "identity":
            return np.asarray(weights[:, self._support])
        if len(self._support) <= len(weights):
            columns = [weights @ self._atoms.atom(int(index)) for index in self._support]
            return np.stack(columns, axis=1) if columns else np.zeros((len(weights), 0))
        return np.stack([self._atoms.analysis(row)[self._support] for row in weights])

    def _noise_of(self, products: Reals) -> Reals:
        if self._covariance is None:
            return np.asarray(np.square(products).sum(axis=1) * self._sd**2)
        return np.asarray(np.maximum(np.einsum("qk,qk->q", products @ self._covariance, products), 0.0))

    def _missing(self, size: Reals, square: Reals) -> Reals:
        """Mean square of what the decoder left out of queries of one sign: as of a box of the same evenness.

        Weights with sum s and sum of squares q are like s / (q / s) cells, each with weight q / s.
        """
        some = square > 0.0
        weight = np.divide(square, size, out=np.zeros(len(size)), where=some)
        cells = np.divide(np.square(size), square, out=np.ones(len(size)), where=some)
        sizes, largest = np.log(self._missing_sizes), self._missing_sizes[-1]
        root = np.interp(np.log(np.maximum(cells, 1.0)), sizes, np.sqrt(self._missing_squares))
        beyond = np.sqrt(np.maximum(cells / largest, 1.0))
        return np.asarray(np.square(weight * root * beyond))


def _frame(value: Reals, errors: _Errors, mu: float) -> pl.DataFrame:
    eta = np.sqrt(errors.noise_eta**2 + normal_eta(np.sqrt(errors.other), mu) ** 2)
    return pl.DataFrame(
        {
            "value": value,
            "standard_error": np.sqrt(errors.noise + errors.other),
            "mu": np.full(len(value), float(mu)),
            "eta": eta,
            "basis": np.where(errors.only_noise, "proved", "estimated").tolist(),
        },
        schema_overrides={"basis": pl.String},
    )


def _listed(domain: Domain) -> pl.DataFrame:
    """Cells of a domain, one per row, in its values or the ends of its bins."""
    names, numbers, words = domain.listed()
    columns = {name: [words[name][int(i)] for i in column] for name, column in zip(names, numbers.T, strict=True)}
    return pl.DataFrame(columns, strict=False)


def _some(workload: Workload, chosen: NDArray[np.bool_]) -> Workload:
    """The workload of some of its queries."""
    terms = chosen[workload.query]
    number = np.cumsum(chosen) - 1
    names = tuple(name for name, kept in zip(workload.names, chosen.tolist(), strict=True) if kept)
    return Workload(
        workload.shape,
        names,
        number[workload.query[terms]],
        workload.weight[terms],
        workload.low[terms],
        workload.high[terms],
    )


def _squared(workload: Workload) -> tuple[Workload, Workload]:
    """The boxes, and the boxes whose covers of cells are the squares of theirs; weights squared in both.

    A box covers cells wholly but at its ends, so its square is a box too, a little shorter where it cuts a cell. If
    rows lie in a cut cell by chance, one of a share f of them, the count varies by f (1 - f) of the cell's: that is the
    first box less the second.
    """
    low, high = workload.low.copy(), np.maximum(workload.high, workload.low)
    first, last = np.floor(low), np.ceil(high)
    inside = last - first <= 1.0  # both ends in one cell
    starting, ending = first + 1.0 - low, high - (last - 1.0)
    cover = high - low
    new_low = np.where(inside, low, first + 1.0 - starting**2)
    new_high = np.where(inside, low + cover**2, last - 1.0 + ending**2)
    weight = workload.weight**2
    return replace(workload, weight=weight, high=high), replace(workload, weight=weight, low=new_low, high=new_high)
