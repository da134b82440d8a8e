"""CSM in sound form: a random sketch of the counts, or of every row, with noise; orthogonal matching pursuit after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import at_least, finite, one_of, said
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.counting import COUNTS, OneMeasurement, rows_in_cells
from adumbra.families.forecast import FEW_ATOMS, quieter, sketch_size
from adumbra.kinds.counts import CountsFacts, DomainFacts, SketchFacts
from adumbra.kinds.projected_rows import Band, ProjectedRowsFacts
from adumbra.models.sparse_recovery import Decoded, check_dictionary, learnt_atoms, named_dictionary, pursued
from adumbra.numerics.dictionaries import Dictionary
from adumbra.numerics.projections import ProjectionKind
from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.sensing import KINDS, Sensing
from adumbra.queries.histograms import HistogramQuery
from adumbra.queries.query import PureNoise
from adumbra.queries.row_map import RowMap

__all__ = ["CSM"]

_ROWS = "rows"
_INPUTS = ("histogram", "records")
_LAWS = ("auto", "laplace", "l2-laplace")
_OF_ROWS = ("distance", "neighbours", "mean", "linear", "moment", "reconstruct")
"""What sketched rows answer."""


@dataclass(frozen=True)
class CSM(OneMeasurement):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all. Records have all columns.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    * `input`: histogram (a sketch of the counts) or records (a sketch of every row, row by row).
    * `sensing`: hadamard, signs, gaussian (columns of length 1), fourier or sparse-signs.
    * `ratio`: measurements over cells; default: 2 K ln(N/K) + K measurements for K `atoms`, twice as many where the
      noise does not grow with them (delta above 0, or sparse-signs).
    * `nonzeros`: entries of a column of sparse-signs.
    * `weights`: the paper's magnitude function: how much more a measurement counts, and so how much less noise it
      gets; a few numbers are spread over all measurements in equal runs. Default: all the same.
    * `dictionary`: in which atoms the table is sparse: identity, dct, haar, walsh-hadamard; or a .npy file learnt from
      a PUBLIC table (`adumbra dictionary`).
    * `atoms`: atoms the decoder finds at most; default: all that exceed the noise, and 16 for the rule of ratio.
    * `noise`: where delta is 0: laplace (independent, as in the paper), l2-laplace (by length), or auto: the smaller.
    """

    input: str = "histogram"
    sensing: str = "hadamard"
    ratio: float | None = None
    nonzeros: int = 4
    weights: tuple[float, ...] = ()
    dictionary: str = "identity"
    atoms: int | None = None
    noise: str = "auto"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"input": _INPUTS, "sensing": KINDS, "noise": _LAWS}
    name: ClassVar[str] = "csm"
    title: ClassVar[str] = "a random sketch with noise, decoded by matching pursuit"
    releases: ClassVar[str] = "a noisy sketch, and the estimated count of every cell; or a noisy sketch of every row"
    suits: ClassVar[str] = (
        "very sparse tables over large domains, and wherever the sketch has to be small: memory, communication"
    )
    caution: ClassVar[str] = (
        "for pure epsilon the noise on an atom has the variance it has with `sparse` times a third to a half of the "
        "number of measurements; with a positive delta the two are equal; what does not exceed the noise is lost"
    )
    theorem: ClassVar[str] = (
        "Laplace or Gaussian mechanism on the sketch, by its widest pair of columns; the decoder sees noisy numbers "
        "only (docs/proofs/strategies.md, docs/proofs/row-map.md)"
    )
    differs: ClassVar[str] = (
        "The paper's noise is far too small on two of three readings (docs/proofs/published-csm.md); here the scale "
        "is that of the whole sketch. The table is measured, never a sparse code of it; the magnitude function is a "
        "public weight; cells get random signs under hadamard and fourier sensing; with a positive delta the noise is "
        "Gaussian, the paper's future work."
    )
    answers: ClassVar[tuple[str, ...]] = (*OneMeasurement.answers, *_OF_ROWS)
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Zheng, Wang, Wen, Mumtaz, Bashir, Chauhdary (2019), Differentially Private High-Dimensional Data "
            "Publication in Internet of Things, IEEE Internet of Things Journal",
            "@article{zheng2019csm, title={Differentially Private High-Dimensional Data Publication in Internet of "
            "Things}, author={Zheng, Zhigao and Wang, Tao and Wen, Jinming and Mumtaz, Shahid and Bashir, Ali Kashif "
            "and Chauhdary, Sajjad Hussain}, journal={IEEE Internet of Things Journal}, year={2019}, "
            "doi={10.1109/JIOT.2019.2955503}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(_INPUTS, input=self.input)
        one_of(KINDS, sensing=self.sensing)
        one_of(_LAWS, noise=self.noise)
        check_dictionary(self.dictionary)
        at_least(1, "give at least one non-zero a column", nonzeros=self.nonzeros)
        if self.ratio is not None and not (finite(self.ratio) and 0 < self.ratio <= 1):
            raise InputError(
                "0 < ratio <= 1", f"ratio = {said(self.ratio)}", "give the share of measurements, for example 0.4"
            )
        if self.atoms is not None:
            at_least(1, "look for at least one atom", atoms=self.atoms)
        if self.input == "records" and (self.columns or self.bins is not None):
            raise InputError(
                "records, which have all columns of the schema",
                "columns or bins for input records",
                "leave them out, drop columns in the schema, or use --input histogram",
            )

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """As for all counts, a replaced row under every kind of sensing; and a row from corner to corner, by itself."""
        # by value, so that few bins keep the domain of any other table small: a search draws hundreds of sketches
        eight = Schema.from_dict({"columns": {"a": {"kind": "category", "values": [str(i) for i in range(8)]}}})
        number = {"kind": "number", "low": 0, "high": 1}
        corners = Schema.from_dict({"columns": dict.fromkeys("abcd", number)})
        low, high = (dict.fromkeys("abcd", end) for end in "01")
        rows = {"input": "records", "sensing": "signs", "ratio": 1.0}
        return (
            *(
                replace(
                    c, schema=eight, options={"bins": 2, "sensing": kind, "ratio": 0.75}, why=f"{c.why}, {kind} sensing"
                )
                for c in super().challenges()
                for kind in (KINDS if c.neighbours.relation is Relation.REPLACE else KINDS[2:3])
            ),
            Challenge(
                Neighbours(Unit.ROW, Relation.REPLACE), corners, low, high, "a row from corner to corner", options=rows
            ),
        )

    @property
    def sets(self) -> bool:  # type: ignore[override]  # records have all columns, counts those that are named
        """Whether columns of sets may stand beside those that are counted."""
        return self.input == "histogram"

    def strategy(self, setting: Setting) -> Sensing:
        """The sketch."""
        return self._sketch(setting)

    def law(self, setting: Setting) -> PureNoise:
        """The law asked for, or the one of less noise."""
        return self._law(setting)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One measurement."""
        return {_ROWS if self.input == "records" else COUNTS: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The sketch of the counts, or of every row."""
        self._dictionary(setting)  # refused before anything is charged
        if self.input == "histogram":
            return super().queries(setting)
        return {_ROWS: self._row_map(setting)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """Cells; or one row for each row of the table, and columns, the numbers of the matrix spread over them."""
        if self.input == "histogram":
            return super().size(setting)
        sketch, rows = self._sketch(setting), max(setting.rows or 1, 1)
        return rows, sketch.numbers + math.ceil(sketch.cells * sketch.numbers / rows)

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The sketch in this `setting`, its `noise`, and what every rival would err by under the same `promise`."""
        sketch = self._sketch(setting)
        own = [
            ("sketch", f"{sketch.describe()}, {sketch.numbers / sketch.cells:.3g} of {sketch.cells}"),
            ("dictionary", f"{self._dictionary_name()}, decoded by orthogonal matching pursuit"),
        ]
        if self.input == "records":
            event = noise[_ROWS]
            return [*own, ("noise on one number of a row", f"sd {event.sd:.3g} where a column's range counts 1")]
        return [*own, *super().outlook(setting, promise, noise)]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure; decode counts, or publish noisy sketched rows."""
        if self.input == "histogram":
            return super().run(door, setting)
        query, sketch = self._row_map(setting), self._sketch(setting)
        noisy = door.measure(_ROWS, query)
        atoms = self._dictionary(setting)
        strength = float(np.square(sketch.weights).mean())
        return Draft(
            columns=tuple(f"p{i + 1}" for i in range(query.dimension)),
            batches=noisy.batches,
            facts=ProjectedRowsFacts(
                projection=_PROJECTIONS[self.sensing],
                bands=(Band(dimension=query.dimension, share=strength),),
                dictionary=atoms.recipe(),
                atoms=self.atoms,
                sketch=self._sketched(sketch),
            ),
            arrays={"matrix": query.matrix, "step": np.asarray(query.step)} | learnt_atoms(atoms),
            answers=_OF_ROWS,
        )

    def decoded(self, noisy: SumAnswer, setting: Setting) -> Decoded:
        """Orthogonal matching pursuit, until nothing exceeds the noise."""
        sketch = self._sketch(setting)
        return pursued(
            noisy.values["measured"],
            noisy.sd("measured"),
            setting.pure,
            sketch,
            self._dictionary(setting),
            self.atoms,
            rows_in_cells(setting),
        )

    def facts(self, setting: Setting, decoded: Decoded) -> CountsFacts:
        """The sketch, of whose atoms some were found."""
        return CountsFacts(
            domain=DomainFacts(**self.domain(setting).facts()),
            decoder="pursuit",
            sketch=self._sketched(self._sketch(setting)),
            dictionary=self._dictionary(setting).recipe(),
            atoms_kept=decoded.atoms_kept,
        )

    def shown_options(self) -> dict[str, str]:
        """Of a file no more than its name, since the card is public."""
        return {"dictionary": self._dictionary_name()}

    def _sketched(self, sketch: Sensing) -> SketchFacts:
        return SketchFacts(
            sensing=sketch.kind,
            measurements=sketch.numbers,
            cells=sketch.cells,
            nonzeros=self.nonzeros,
            weights=self.weights,
        )

    def _shape(self, setting: Setting) -> tuple[int, ...]:
        return self.domain(setting).shape if self.input == "histogram" else (setting.space.width,)

    def _dictionary_name(self) -> str:
        return Path(self.dictionary).name  # of a path only the name, since plans and cards are public

    @lru_cache(maxsize=4)  # noqa: B019 - and so that a file is read before anything is charged, and never after
    def _dictionary(self, setting: Setting) -> Dictionary:
        return named_dictionary(self.dictionary, self._shape(setting))

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public, and plan, outlook and run ask the same
    def _sketch(self, setting: Setting) -> Sensing:
        cells = math.prod(self._shape(setting))
        if self.ratio is None:
            generous = not setting.pure or self.sensing == "sparse-signs"
            numbers = sketch_size(cells, min(self.atoms or FEW_ATOMS, cells), generous)
        else:
            numbers = max(1, math.ceil(self.ratio * cells))
        return sensing(self.sensing, setting.seed.value, cells, numbers, nonzeros=self.nonzeros, weights=self.weights)

    @lru_cache(maxsize=4)  # noqa: B019 - as above
    def _law(self, setting: Setting) -> PureNoise:
        if self.noise != "auto":
            return "l2-laplace" if self.noise == "l2-laplace" else "laplace"
        if not setting.pure:
            return "laplace"
        if self.input == "records":
            return quieter(lambda pure: setting.preview(1.0, self._mapped(setting, pure)))
        groups, sketch = self.domain(setting).groups, self._sketch(setting)
        return quieter(lambda pure: setting.preview(1.0, HistogramQuery(groups, sketch, pure)))

    def _row_map(self, setting: Setting) -> RowMap:
        return self._mapped(setting, self._law(setting))

    def _mapped(self, setting: Setting, pure: PureNoise) -> RowMap:
        if setting.neighbours.relation is Relation.ADD_REMOVE:
            raise InputError(
                "input histogram where the number of rows is private",
                "input records under relation add-remove",
                "use --input histogram, or --relation replace",
            )
        sketch = self._sketch(setting)
        columns = sketch.columns(np.arange(sketch.cells)) * sketch.gains[:, None]
        return RowMap(columns.T, sketch.step * sketch.fine, pure=pure)


# by the law of their distances: a sketch of hadamard rows keeps them a little better than signs do
_PROJECTIONS = {
    "signs": ProjectionKind.SIGNS,
    "gaussian": ProjectionKind.UNIT_ROW,
    "hadamard": ProjectionKind.SIGNS,
    "fourier": ProjectionKind.SIGNS,
    "sparse-signs": ProjectionKind.SPARSE_SIGNS,
}
