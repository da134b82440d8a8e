"""DPRP in sound form: noisy (perhaps projected) rows and a second moment, measured together, then reconstructed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between, one_of, settle
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID, Space
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Reference, RowAnswers, Setting
from adumbra.families.row_count import measured_arrays, measured_names
from adumbra.kinds.reconstructed_rows import ReconstructedRowsFacts
from adumbra.models import reconstruct
from adumbra.models.columns import check_width, drawing
from adumbra.models.reconstruct import Reconstruction
from adumbra.numerics.projections import ROUNDING, ProjectionKind, draw
from adumbra.queries.row_map import RowMap
from adumbra.queries.second_moment import RowsAndGram, symmetric

__all__ = ["DPRP"]

_LINE = "rows and second moment"
_RECONSTRUCTIONS = ("posterior-draw", "wiener", "moment-matched", "pseudo-inverse")


@dataclass(frozen=True)
class DPRP:
    """Parameters, all public.

    * `reconstruction`: posterior-draw (Wiener's estimate plus a draw of what the noise hides: right marginals and
      correlations), wiener (least squared error a row), moment-matched, or pseudo-inverse (as the paper prints it).
    * `projection`: none, gaussian or orthogonal. None is best: a projection is post-processing of noisy rows.
    * `dimension`: numbers a row is projected to (k1); default: ten times the encoded coordinates (gaussian, as in the
      paper), or as many (orthogonal).
    * `rank`: leading directions of the pseudo-inverse (k2); default: 0.6 of the coordinates, as in the paper.
    * `ensemble`: how many independent projections share the budget.
    * `weight`: variance of the row noise over that of the second moment (w). At 1/2 or less the second moment is free.
    """

    reconstruction: str = "posterior-draw"
    projection: str = "none"
    dimension: int | None = None
    rank: int | None = None
    ensemble: int = 1
    weight: float = 4.0

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "reconstruction": _RECONSTRUCTIONS,
        "projection": ("none", "gaussian", "orthogonal"),
    }
    name: ClassVar[str] = "dprp"
    title: ClassVar[str] = "noisy rows and a private second moment, reconstructed"
    releases: ClassVar[str] = "one reconstructed row per person in the schema's own columns, row-aligned"
    suits: ClassVar[str] = "a reference to compare with; rows that must stay aligned with the table, at large epsilon"
    caution: ClassVar[str] = (
        "below epsilon of about 8 a row says next to nothing about its person, and the table is worse than one drawn "
        "from moments; the label is released as one more block of the row"
    )
    theorem: ClassVar[str] = "Gaussian mechanism, rows and second moment at the same pair (docs/proofs/sums.md)"
    differs: ClassVar[str] = (
        "The paper's noise fits rows that change by at most 1 in length, and its k1 search and imputation are not paid "
        "for. Here rows are bounded by their declared ranges, may change to any other row, missing cells go to "
        "declared constants, both measurements are calibrated at the same pair of rows, k1 and k2 are public, and "
        "better reconstructions than the pseudo-inverse are offered. No projection by default: it only adds noise."
    )
    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out")
    answers: ClassVar[tuple[str, ...]] = ()
    deltas: ClassVar[Deltas] = "any"
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Gondara, Wang (2020), Differentially Private Small Dataset Release Using Random Projections, UAI",
            "@inproceedings{gondara2020dprp, title={Differentially Private Small Dataset Release Using Random "
            "Projections}, author={Gondara, Lovedeep and Wang, Ke}, booktitle={UAI}, year={2020}}",
        ),
    )

    def __post_init__(self) -> None:
        settle(self)
        one_of(_RECONSTRUCTIONS, reconstruction=self.reconstruction)
        one_of(self.choices["projection"], projection=self.projection)
        between(
            1e-12,
            1e12,
            "give the variance of the row noise over that of the second moment, for example 4",
            weight=self.weight,
        )
        at_least(1, "give at least one projection", ensemble=self.ensemble)
        for name, value in (("dimension", self.dimension), ("rank", self.rank)):
            if value is not None:
                at_least(1, f"give a {name} of at least 1", **{name: value})
        if self.projection == "none" and (self.dimension is not None or self.ensemble > 1):
            raise InputError(
                "a projection to give a dimension or an ensemble to", "projection none", "add --projection gaussian"
            )
        if self.rank is not None and self.reconstruction != "pseudo-inverse":
            raise InputError(
                "rank with the pseudo-inverse only",
                f"reconstruction {self.reconstruction}",
                "add --reconstruction pseudo-inverse, or leave --rank out",
            )

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """Two rows on the bound whose inner product is -1/(2w) of its square: worst for rows and second moment at once.

        Antipodal rows would be worst for the rows alone, and leave the second moment as it was (docs/proofs/sums.md).
        """
        number = {"kind": "number", "low": -1, "high": 1}
        schema = Schema.from_dict({"columns": {"a": number, "b": number}})
        angle = math.acos(-1 / (2 * cls.weight)) / 2
        one, other = ({"a": str(math.cos(angle)), "b": str(s * math.sin(angle))} for s in (1, -1))
        row = {"a": "1", "b": "0"}
        return (
            Challenge(Neighbours(Unit.ROW, Relation.REPLACE), schema, one, other, "at the worst angle", row_bound=0.5),
            Challenge(
                Neighbours(Unit.ROW, Relation.ZERO_OUT), schema, row, emptied(row), "a row is emptied", row_bound=0.5
            ),
        )

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One joint measurement."""
        return {_LINE: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Rows and second moment together."""
        return {_LINE: self._query(setting)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each row of the table, and columns, the numbers of the matrices spread over them."""
        rows, width = max(setting.rows or 1, 1), setting.space.width
        columns = max(len(setting.space.blocks), width)
        return rows, columns + math.ceil((width + self._query(setting).map.dimension) * columns / rows)

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The `noise` beside the rows it hides in this `setting`, whatever the `promise`."""
        row_noise = noise[_LINE].sd
        even = _even_variance(setting.space)
        error = reconstruct.expected_row_error(np.diag(even), self._matrix(setting), row_noise)
        return [
            ("noise on each projected coordinate", f"{row_noise:.3g} (a column spans 1)"),
            (
                "squared error of a Wiener row",
                f"{error:.3g}, of {even.sum():.3g} for rows drawn evenly from the declared ranges",
            ),
        ]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure, fit the second moment, reconstruct row by row."""
        query = self._query(setting)
        noisy = door.measure(_LINE, query)
        parts = noisy.gram.values
        gram = symmetric(parts["diagonal"], parts.get("upper"))
        off_diagonal = noisy.gram.sd("diagonal") / math.sqrt(2.0)
        plan = self._reconstruction(setting, gram, off_diagonal, noisy.gram.sd("rows"))
        return Draft(
            columns=None,
            batches=_decoded(setting, noisy.rows, plan),
            facts=ReconstructedRowsFacts(
                reconstruction=self.reconstruction,
                projection=self.projection,
                dimension=query.map.dimension,
                ensemble=self.ensemble,
                weight=self.weight,
            ),
            arrays=measured_arrays({_LINE: noisy.gram})
            | {"reconstruction": plan.matrix, "projection": query.map.matrix * query.map.step},
            measured=measured_names({_LINE: noisy.gram}),
        )

    def _reconstruction(self, setting: Setting, gram: Reals, gram_sd: float, row_sd: float) -> Reconstruction:
        rows = max(setting.rows or 1, 1)
        matrix = self._matrix(setting)
        if self.reconstruction == "pseudo-inverse":
            width = setting.space.width
            rank = math.ceil(0.6 * width) if self.rank is None else self.rank
            if self.ensemble > 1 and matrix is not None:
                return reconstruct.pseudo_inverse_ensemble(gram, np.hsplit(matrix, self.ensemble), rank)
            return reconstruct.pseudo_inverse(gram, matrix, rank)
        moment = reconstruct.second_moment(gram, rows, gram_sd)
        maps = {
            "wiener": reconstruct.wiener,
            "moment-matched": reconstruct.moment_matched,
            "posterior-draw": reconstruct.posterior_draw,
        }
        return maps[self.reconstruction](moment, matrix, row_sd)

    def _matrix(self, setting: Setting) -> Reals | None:
        if self.projection == "none":
            return None
        query = self._query(setting).map
        return np.asarray(query.matrix * query.step, dtype=np.float64)

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public and few, and plan, outlook and run ask the same
    def _query(self, setting: Setting) -> RowsAndGram:
        space = setting.space
        check_width(space.width)
        second = math.sqrt(self.weight) / (space.reach / GRID)
        if self.rank is not None and self.rank > space.width:
            raise InputError(f"a rank of at most {space.width}", f"rank {self.rank}", "give a smaller --rank")
        if self.projection == "none":
            unit = round(1 / ROUNDING)
            return RowsAndGram(RowMap(np.eye(space.width, dtype=np.int64) * unit, 1 / unit), second)
        each = self.dimension or (10 if self.projection == "gaussian" else 1) * space.width
        if each * self.ensemble > max(1024, 64 * space.width):
            raise InputError(
                f"at most {max(1024, 64 * space.width)} projected numbers a row",
                f"{each * self.ensemble}",
                "give a smaller --dimension or --ensemble",
            )
        kind = ProjectionKind.GAUSSIAN if self.projection == "gaussian" else ProjectionKind.ORTHOGONAL
        keys = [hashlib.sha256(setting.seed.value + f"/member {i}".encode()).digest() for i in range(self.ensemble)]
        members = [draw(kind, key, space, each) for key in keys]
        return RowsAndGram(RowMap(np.hstack([m.matrix for m in members]), members[0].step), second)


def _even_variance(space: Space) -> Reals:
    """Second moment of each coordinate for rows drawn evenly from the declared ranges."""
    out = []
    for block in space.blocks:
        out += {"number": [1 / 12], "flag": [1 / 4]}.get(block.kind, [0.5 / block.width] * block.width)
    return np.array(out)


def _decoded(setting: Setting, noisy: RowAnswers, plan: Reconstruction) -> Iterator[Reals]:
    generator = drawing(setting.seed, "dprp")
    for batch in noisy.batches:
        rows = plan.apply(batch, generator) * GRID
        yield np.stack(
            [
                rows[:, b.start : b.stop].argmax(axis=1) if b.kind == "category" else rows[:, b.start]
                for b in setting.space.blocks
            ],
            axis=1,
        )
