"""LOP in sound form: noisy rows along a basis that is public, or was published privately before."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adumbra.accounting.events import Event
from adumbra.common.array_files import read_matrix
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, one_of, settle
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Reference, Setting
from adumbra.families.principal import ROWS, cells_of, length_of
from adumbra.kinds.components import Components, ComponentsFacts, Result
from adumbra.mechanisms.bibliography import LIP_AND_LOP
from adumbra.numerics.projections import ROUNDING
from adumbra.queries.query import PureNoise
from adumbra.queries.row_map import RowClip, RowMap, contraction
from adumbra.releases.folder import CARD, ReleaseFolder

__all__ = ["LOP", "GivenAxes"]

_UNASKED = 5


@dataclass(frozen=True)
class GivenAxes:
    """Public axes that are at hand as numbers: the same numbers are the same axes, and nobody can change them.

    >>> GivenAxes.of(np.eye(2))
    GivenAxes(count=2)
    """

    count: int
    content: bytes = field(repr=False)
    """One axis after the other, in 64 bits a number."""

    @staticmethod
    def of(axes: ArrayLike) -> GivenAxes:
        """From an array with one axis per row."""
        array = np.ascontiguousarray(axes, dtype=np.float64)
        if array.ndim != 2 or not array.size:
            raise InputError("axes as an array with one axis per row", f"shape {array.shape}", "give such an array")
        return GivenAxes(len(array), array.tobytes())

    @property
    def array(self) -> Reals:
        """One axis per row."""
        return np.frombuffer(self.content).reshape(self.count, -1)


@dataclass(frozen=True)
class LOP:
    """Parameters, all public.

    * `basis`: dct (waves over the encoded coordinates in order: images, spectra, time series); a folder released by
      lip, analyze_gauss or power_method, whose axes are taken; or a .npy file with one axis per row, for example the
      axes of a PUBLIC table, as `adumbra basis` writes them. In Python also `GivenAxes.of(array)`, or such an array.
    * `components`: how many axes of it to keep; default: the first 5.
    * `result`: coordinates (every row along the axes, with noise) or approximation (the same in the schema's columns).
    * `row_noise`: l2-laplace (by the length of a row's vector: less for more than one component) or laplace
      (independent numbers).
    """

    basis: str | GivenAxes = "dct"
    components: int | None = None
    result: Result = "coordinates"
    row_noise: PureNoise = "l2-laplace"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"result": ("coordinates", "approximation")}
    name: ClassVar[str] = "lop"
    title: ClassVar[str] = "noisy rows along a public basis"
    releases: ClassVar[str] = "one row per person, in order: its coordinates along a few public axes, with noise"
    suits: ClassVar[str] = "rows that must stay aligned, at large epsilon, where good axes are known without the table"
    caution: ClassVar[str] = (
        "rows say little about a person below an epsilon of about twice the number of components; a basis worked out "
        "from the private table itself breaks the promise"
    )
    theorem: ClassVar[str] = (
        "Laplace mechanism, by length or by independent numbers, on a row map (docs/proofs/row-map.md, "
        "docs/proofs/noise-l2-laplace.md)"
    )
    differs: ClassVar[str] = (
        "The paper takes the basis from the private rows themselves, which no epsilon describes. Here the basis is "
        "public or was paid for before; the noise is 2 sqrt(k) in place of 2 d over epsilon, or less by length; mean "
        "and scale are never read from the table. Delta is 0 whatever was allowed."
    )
    units: ClassVar[tuple[str, ...]] = ("row", "cell")
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out")
    answers: ClassVar[tuple[str, ...]] = ("axes",)
    deltas: ClassVar[Deltas] = "zero"
    cites: ClassVar[tuple[Reference, ...]] = (LIP_AND_LOP,)

    def __post_init__(self) -> None:
        settle(self)
        one_of(self.choices["result"], result=self.result)
        one_of(("laplace", "l2-laplace"), row_noise=self.row_noise)
        given: Any = self.basis
        if isinstance(given, np.ndarray):
            object.__setattr__(self, "basis", GivenAxes.of(given))
        elif not isinstance(given, str | GivenAxes):
            raise InputError(
                "a basis: dct, a folder, a .npy file, or an array with one axis per row",
                f"a {type(given).__name__}",
                "give one of these",
            )
        if self.components is not None:
            at_least(1, "give the number of axes to keep", components=self.components)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A number that moves across its range along the only axis there is."""
        schema = Schema.from_dict({"columns": {"a": {"kind": "number", "low": -1, "high": 1}}})
        options = {"components": 1}
        one, other = {"a": "1"}, {"a": "-1"}
        pairs = {Relation.REPLACE: (one, other), Relation.ZERO_OUT: (one, emptied(one))}
        whys = {
            Relation.REPLACE: "a number moves from one end of its range to the other",
            Relation.ZERO_OUT: "a number at the end of its range is emptied",
        }
        return tuple(
            Challenge(
                Neighbours(unit, relation),
                schema,
                *pairs[relation],
                whys[relation],
                options=options,
                row_bound=0.5 if unit is Unit.ROW else None,
            )
            for unit in Unit
            for relation in pairs
        )

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """The rows."""
        return {ROWS: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Rows along the axes."""
        return {ROWS: self._query(setting)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each row of the table; the axes go along."""
        kept = self.components or _UNASKED
        rows, width = max(setting.rows or 1, 1), setting.space.width
        columns = kept if self.result == "coordinates" else len(setting.space.blocks)
        return rows, columns + kept * width // rows + 1

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The `noise` beside the rows it hides in this `setting`, and beside the paper's for this `promise`."""
        clip = self._clip(setting)
        reach = (setting.space.reach if clip is None else clip.bound) / GRID
        papers = 2.0 * setting.space.width * reach / promise.epsilon * math.sqrt(2.0)
        sd = noise[ROWS].sd
        return [
            ("basis", self._described()),
            ("noise on a row", f"sd {sd:.3g} on each coordinate of rows that are at most {reach:.3g} long"),
            ("the paper's noise", f"{papers / sd:.2f} times as much, on rows of the same length"),
        ]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """One measurement of the rows."""
        query = self._query(setting)
        axes = np.asarray(query.matrix.T * query.step, dtype=np.float64)
        noisy = door.measure(ROWS, query)
        columns, batches = tuple(f"pc{i + 1}" for i in range(len(axes))), noisy.batches
        if self.result == "approximation":
            return self._draft(None, (cells_of(setting.space, batch @ axes) for batch in batches), axes, query.clip)
        return self._draft(columns, batches, axes, query.clip)

    def _draft(
        self, columns: tuple[str, ...] | None, batches: Iterator[Reals], axes: Reals, clip: RowClip | None
    ) -> Draft:
        facts = ComponentsFacts(
            row_aligned=True,
            result=self.result,
            components=len(axes),
            rows_clipped_to=None if clip is None else clip.bound / GRID,
            row_line=ROWS,
            basis=self._described(),
            basis_sha256=hashlib.sha256(np.ascontiguousarray(axes).tobytes()).hexdigest(),
        )
        return Draft(columns, batches, facts, {"axes": axes})

    def shown_options(self) -> dict[str, str]:
        """Of a file no more than its name, since the card is public."""
        return {"basis": self._described() if isinstance(self.basis, GivenAxes) else Path(self.basis).name}

    def _described(self) -> str:
        """The basis in words; of a path only the name, since the card is public."""
        if isinstance(self.basis, GivenAxes):
            return f"{self.basis.count} axes that were given"
        return "dct" if self.basis == "dct" else f"from {Path(self.basis).name}"

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public and few, and plan, outlook and run ask the same
    def _query(self, setting: Setting) -> RowMap:
        columns = self._columns(setting)
        if columns.shape[0] != setting.space.width:
            raise InputError(
                f"a basis of {setting.space.width} numbers an axis, one for each encoded coordinate",
                f"{columns.shape[0]} numbers an axis",
                "give a basis for the columns of this schema",
            )
        if not np.isfinite(columns).all():
            raise InputError("a basis of finite numbers", "nan or infinity in it", "give another basis")
        wanted = min(_UNASKED, columns.shape[1]) if self.components is None else self.components
        if columns.shape[1] < wanted:
            raise InputError(
                f"at most {columns.shape[1]} components, as many as the basis has axes",
                f"components = {wanted}",
                "give fewer --components",
            )
        kept = columns[:, :wanted]
        # any public basis is made orthonormal, so that coordinates mean lengths and Z is a projection
        orthonormal, triangle = np.linalg.qr(kept)
        if float(np.abs(np.diagonal(triangle)).min()) <= 1e-9 * float(np.abs(triangle).max()):
            raise InputError("independent axes", "axes that depend on each other", "give another basis")
        signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
        axes, clip = orthonormal * signs, self._clip(setting)
        if clip is None:
            return RowMap(np.rint(axes / ROUNDING).astype(np.int64), ROUNDING, pure=self.row_noise)
        return RowMap(contraction(axes, ROUNDING), ROUNDING, clip=clip, pure=self.row_noise)

    def _clip(self, setting: Setting) -> RowClip | None:
        """Rows clipped to a length for the row unit; for the cell unit they stay whole, so that cells stay apart."""
        space = setting.space
        if setting.neighbours.unit is Unit.CELL:
            return None
        return RowClip.about(None, length_of(space, 1.0), space)

    def _columns(self, setting: Setting) -> Reals:
        if isinstance(self.basis, GivenAxes):
            return self.basis.array.T
        if self.basis == "dct":
            return _waves(setting.space.width, self.components or _UNASKED)
        path = Path(self.basis)
        if path.is_dir() and (path / CARD).exists():
            return _published_axes(path, setting)
        if path.suffix == ".npy":
            return read_matrix(path, "--basis", "one axis a row", "write it with adumbra basis or numpy.save").T
        raise InputError(
            "a basis: dct, a .npy file, or a folder released by lip, analyze_gauss or power_method",
            f"{self.basis!r}",
            "adumbra basis PUBLIC-TABLE --schema S --out axes.npy makes one from a public table",
        )


def _waves(width: int, count: int) -> Reals:
    """The first vectors of the cosine transform (DCT-II), as columns."""
    count = min(count, width)
    waves = np.cos(math.pi / width * np.outer(np.arange(width) + 0.5, np.arange(count)))
    return np.asarray(waves / np.linalg.norm(waves, axis=0))


def _published_axes(path: Path, setting: Setting) -> Reals:
    """The axes of a release, if it is as its card says and of the same encoded columns."""
    folder = ReleaseFolder.open(path)
    other = InputError(
        "a verified release with axes (lip, analyze_gauss, power_method or lop)",
        f"{path.name}, one of {folder.card.mechanism}",
        "run adumbra verify; give the folder of such a release as --basis",
    )
    if folder.verify() or folder.card.kind != Components.name:
        raise other
    theirs = Schema.from_dict(folder.card.table_schema).coordinates
    if setting.schema is not None and theirs != setting.schema.coordinates:
        raise InputError(
            "axes of the same columns and values", f"those of {path.name}, which has others", "give another basis"
        )
    try:
        return Components().answers(folder).axes.T
    except LookupError:  # an array that is not there
        raise other from None
