"""DPPro: one noisy projected row per person, from which squared distances can be estimated without bias.

What it releases: for every row of the table, in order, k numbers `x R + noise`, and the public matrix R.
Whom it suits: analysts who cluster, search for neighbours or compare groups by distance, and tables too wide for
anything that models columns jointly. What it must not be confused with: a synthetic table. The released columns are
mixtures of the table's columns, and since each released row is one person's own noisy row, no amount of rows helps an
individual answer: at epsilon 1 a single pair's distance is mostly noise, while averages over many pairs are not.

The theorem: for a fixed matrix the release is a Gaussian mechanism whose sensitivity is the largest change of one
row's projection; the scale follows from the exact Gaussian curve (Balle and Wang 2018), not from the paper's tail
bound. Unit rows make that sensitivity 1 for every matrix in the cell unit. In the row unit a fresh Gaussian matrix
is accounted by its exact chi-square mixture. Proof pages: docs/proofs/row-map.md, docs/proofs/fresh-projection.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adumbra.accounting import calibrate
from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.validation import at_least, one_of, positive, settle
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import Space
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Reference, Setting
from adumbra.kinds.projected_rows import Band, ProjectedRowsFacts
from adumbra.numerics.distances import best_dimension, distance_variance, projection_factor
from adumbra.numerics.projections import ROUNDING, ProjectionKind, draw
from adumbra.queries.query import GaussianRecipe
from adumbra.queries.row_map import RowMap

__all__ = ["DPPro"]

_CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256)
_FEWEST = 16
_LARGEST_EXPECTED = 1e9
"""Far more columns than there can be."""
_LINE = "rows"


@dataclass(frozen=True)
class DPPro:
    """Parameters, all public.

    * `dimension`: numbers per released row (k).
    * `expected`: a squared distance you expect between rows, from public knowledge, in encoded units (a column
      that moves across its whole range counts 1). k is then the one of least error for a single such distance. With
      neither given, k suits the distance of two rows drawn evenly from the declared ranges, but is at least 16 (or the
      number of encoded coordinates): noise averages out over many pairs, the error of the projection does not.
    * `bands`: several expected squared distances; each gets its own projection of the dimension that suits it
      and they share the budget.
    * `projection`: unit-row, gaussian, signs, sparse-signs, orthogonal; or auto: unit-row for the cell unit,
      gaussian for the row unit when the seed is fresh, orthogonal when the seed was given.
    """

    dimension: int | None = None
    expected: float | None = None
    bands: tuple[float, ...] = ()
    projection: str = "auto"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"projection": ("auto", *(k.value for k in ProjectionKind))}
    name: ClassVar[str] = "dppro"
    title: ClassVar[str] = "random projection with noise, for distances"
    releases: ClassVar[str] = "one noisy projected row per person, row-aligned, and the public projection matrix"
    suits: ClassVar[str] = "distances, neighbours and clustering of wide tables; averages over many pairs"
    caution: ClassVar[str] = (
        "not a synthetic table: columns are mixtures; one pair's distance is mostly noise at small epsilon"
    )
    theorem: ClassVar[str] = "Gaussian mechanism per matrix (Balle and Wang 2018, Theorem 8); chi-square mixture"
    differs: ClassVar[str] = (
        "The paper protects one binary attribute and states a tail bound for sigma. Here a category change counts as "
        "the two coordinates it moves, ranges are declared, sigma comes from the exact Gaussian curve, rows of the "
        "matrix have unit length, everything is on an integer grid, and whole rows can be the unit."
    )
    units: ClassVar[tuple[str, ...]] = ("row", "cell")
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out")
    answers: ClassVar[tuple[str, ...]] = ("distance", "neighbours", "count", "mean", "linear", "moment", "reconstruct")
    deltas: ClassVar[Deltas] = "any"
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Xu, Ren, Zhang, Qin, Ren (2017), DPPro, IEEE TIFS 12(12), Algorithms 1 and 2, Theorems 2 and 3",
            "@article{xu2017dppro, title={{DPPro}: Differentially Private High-Dimensional Data Release via Random "
            "Projection}, author={Xu, Chugui and Ren, Ju and Zhang, Yaoxue and Qin, Zhan and Ren, Kui}, "
            "journal={IEEE Transactions on Information Forensics and Security}, volume={12}, number={12}, "
            "year={2017}, doi={10.1109/TIFS.2017.2737966}}",
        ),
        Reference(
            "Balle, Wang (2018), Improving the Gaussian Mechanism for Differential Privacy, ICML, Theorem 8",
            "@inproceedings{balle2018improving, title={Improving the {Gaussian} Mechanism for Differential Privacy}, "
            "author={Balle, Borja and Wang, Yu-Xiang}, booktitle={ICML}, year={2018}}",
        ),
    )

    def __post_init__(self) -> None:
        settle(self)
        one_of(self.choices["projection"], projection=self.projection)
        if self.dimension is not None:
            at_least(1, "give at least one dimension", dimension=self.dimension)
        for squared in (*self.bands, *(() if self.expected is None else (self.expected,))):
            positive("give a positive squared distance from public knowledge", expected=squared)
            if squared > _LARGEST_EXPECTED:
                raise InputError(
                    f"an expected squared distance of at most {_LARGEST_EXPECTED:g}",
                    f"{squared:g}",
                    "count 1 for each column that moves across its range",
                )
        if self.bands and (self.dimension is not None or self.expected is not None):
            raise InputError(
                "either bands, or dimension, or expected",
                "bands together with another",
                "leave one of them out",
            )

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A cell across its whole range (unit rows: every such change is worst); a row from corner to corner.

        As many orthogonal columns as coordinates keep lengths, so that corners are as far apart as the bound says.
        """
        number = {"kind": "number", "low": 0, "high": 1}
        schema = Schema.from_dict({"columns": {"a": number, "b": number}})
        low, high = {"a": "0", "b": "0"}, {"a": "1", "b": "1"}
        cell, square = {"dimension": 2}, {"dimension": 2, "projection": "orthogonal"}
        row_replace, row_empty = (Neighbours(Unit.ROW, r) for r in (Relation.REPLACE, Relation.ZERO_OUT))
        cell_replace, cell_empty = (Neighbours(Unit.CELL, r) for r in (Relation.REPLACE, Relation.ZERO_OUT))
        far, gone = "a row moves from corner to corner", "a row in a corner is emptied"
        return (
            Challenge(row_replace, schema, low, high, far, options=square),
            Challenge(
                row_replace, schema, low, high, f"{far}, fresh projection", options={"dimension": 16}, fresh=True
            ),
            Challenge(row_empty, schema, high, emptied(high), gone, options=square),
            Challenge(cell_replace, schema, low, low | {"a": "1"}, "a number moves across its range", options=cell),
            Challenge(cell_empty, schema, high, high | {"a": None}, "a number is emptied", options=cell),
        )

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """The whole budget goes to the projected rows; bands are stacked in the same measurement."""
        return {_LINE: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, RowMap]:
        """One stacked row map."""
        return {_LINE: self._resolve(setting).query}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each row of the table, and columns, the numbers of the matrix spread over them."""
        query, rows = self._resolve(setting).query, max(setting.rows or 1, 1)
        return rows, query.dimension + math.ceil(query.matrix.size / rows)

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """Sigma of the `noise` beside the paper's for this `promise`; the error of a distance in this `setting`."""
        resolved = self._resolve(setting)
        event, space = noise[_LINE], setting.space
        out: list[tuple[str, str]] = []
        if promise.delta > 0:
            # The paper's unit is one column that moves by at most 1, so theta_2 is the longest row of the matrix.
            theta = float(np.linalg.norm(resolved.query.matrix, axis=1).max()) * resolved.query.step
            paper = calibrate.paper_sigma(promise.epsilon, promise.delta, theta)
            text = f"{paper:.4g} for the longest row {theta:.4g} (ours is {event.scale / paper:.2f} of it)"
            if promise.neighbours.unit is Unit.ROW:
                text += "; the paper protects one attribute only, here whole rows are protected"
            out.append(("paper's Theorem 2 sigma", text))
            lemma = calibrate.paper_lemma4_sigma(promise.epsilon, promise.delta)
            holds = calibrate.paper_lemma4_applies(
                promise.epsilon, promise.delta, space.width, resolved.query.dimension
            )
            out.append(("paper's Lemma 4 sigma", f"{lemma:.4g}" + ("" if holds else " (its conditions do not hold)")))
        kind = resolved.facts.projection
        for band, squared in zip(resolved.facts.bands, self._wanted(space), strict=True):
            k = band.dimension
            variance = distance_variance(
                squared,
                factor=projection_factor(kind, k, space.width, len(space.blocks)),
                dimension=k,
                noise_variance=event.sd**2 / band.share,
                law=event.noise,
            )
            best = best_dimension(kind, squared, event.sd / math.sqrt(band.share), space.width)
            out.append(
                (
                    f"error of a squared distance of {squared:.4g}",
                    f"standard deviation {math.sqrt(float(variance)):.4g} with k = {k} "
                    f"(least at k = {best:.2g}, if sigma stayed as it is)",
                )
            )
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure the projected rows and publish them with the matrix."""
        resolved = self._resolve(setting)
        noisy = door.measure(_LINE, resolved.query)
        total = resolved.query.dimension
        return Draft(
            columns=tuple(f"p{i + 1}" for i in range(total)),
            batches=noisy.batches,
            facts=resolved.facts,
            arrays={
                "matrix": resolved.query.matrix,
                "step": np.asarray(resolved.query.step),
            },
        )

    @lru_cache(maxsize=4)  # noqa: B019 - values are small, keys are public, and plan, outlook and run ask the same
    def _resolve(self, setting: Setting) -> _Resolved:
        kind = self._kind(setting)
        space = setting.space
        wanted = self._wanted(space)
        fewest = 1 if self.bands or self.expected else min(_FEWEST, space.width)
        if self.dimension is not None:
            most = max(1024, 16 * space.width)  # beyond it every further dimension repeats what is there
            if self.dimension > most:
                raise InputError(
                    f"a dimension of at most {most} for {space.width} encoded coordinates",
                    f"dimension {self.dimension}",
                    "give a smaller --dimension, or leave it out",
                )
            dimensions = [self.dimension]
        else:
            dimensions = [max(fewest, _suited(kind, setting, squared)) for squared in wanted]
        query, shares = _stack(kind, setting, dimensions)
        bands = tuple(
            Band(dimension=k, share=share, expected=squared)
            for k, share, squared in zip(dimensions, shares, wanted, strict=True)
        )
        return _Resolved(query, ProjectedRowsFacts(projection=kind, bands=bands))

    def _wanted(self, space: Space) -> tuple[float, ...]:
        """Squared distances that the dimensions are chosen for."""
        return self.bands or (self.expected or _even_distance(space),)

    def _kind(self, setting: Setting) -> ProjectionKind:
        if self.projection != "auto":
            return ProjectionKind(self.projection)
        if setting.neighbours.unit is Unit.CELL:
            return ProjectionKind.UNIT_ROW
        # Per matrix a row costs |R|: sqrt(d/k) for orthogonal columns, 1 + sqrt(d/k) for Gaussian entries.
        return ProjectionKind.GAUSSIAN if setting.seed.is_fresh else ProjectionKind.ORTHOGONAL


@dataclass(frozen=True, eq=False)
class _Resolved:
    query: RowMap
    facts: ProjectedRowsFacts


def _even_distance(space: Space) -> float:
    """Expected squared distance of two rows drawn evenly from the declared ranges: 1/6 a number, 1/2 a flag."""
    parts = {"number": 1 / 6, "flag": 1 / 2}
    return max(sum(parts.get(b.kind, 1.0 - 1.0 / b.width) for b in space.blocks), 1 / 6)


def _stack(kind: ProjectionKind, setting: Setting, dimensions: list[int]) -> tuple[RowMap, list[float]]:
    """Projections side by side in one matrix, each scaled by the root of its share of the budget."""
    total = sum(dimensions)
    space, seed = setting.space, setting.seed
    if kind is ProjectionKind.GAUSSIAN:
        # Shares in proportion to the dimensions make the stack one iid matrix of entries N(0, 1/total).
        whole = draw(kind, seed.value, space, total)
        query = RowMap(whole.matrix, whole.step, GaussianRecipe(seed, total))
        shares = [k / total for k in dimensions]
    elif len(dimensions) == 1:
        whole = draw(kind, seed.value, space, total)
        query, shares = RowMap(whole.matrix, whole.step), [1.0]
    else:
        shares = [1.0 / len(dimensions)] * len(dimensions)
        parts = []
        for index, (k, share) in enumerate(zip(dimensions, shares, strict=True)):
            key = hashlib.sha256(seed.value + f"/band {index}".encode()).digest()
            part = draw(kind, key, space, k)
            parts.append(np.rint(part.matrix * (part.step * math.sqrt(share) / ROUNDING)).astype(np.int64))
        query = RowMap(np.hstack(parts), ROUNDING)
    return query, shares


def _suited(kind: ProjectionKind, setting: Setting, squared: float) -> int:
    """Candidate dimension of least predicted variance at this squared distance, with the noise it would get.

    The noise is previewed on stand-in matrices from fixed keys, never on the one to be released: a choice that looked
    at that one would favour dimensions where it happens to hide a change, and distances would come out too small.
    """
    space = setting.space

    def variance(k: int) -> float:
        # Only where a category has more values than dimensions does the sensitivity vary much between matrices.
        count = 3 if any(block.width > k for block in space.blocks) else 1
        stand_ins = (
            _stack(kind, replace(setting, seed=PublicSeed.given(f"stand-in {i}")), [k])[0] for i in range(count)
        )
        factor = projection_factor(kind, k, space.width, len(space.blocks))
        sd = max(setting.preview(1.0, query) for query in stand_ins)
        return float(distance_variance(squared, factor=factor, dimension=k, noise_variance=sd**2, law="gaussian"))

    return min((k for k in _CANDIDATES if k <= max(space.width, 1)), key=variance)
