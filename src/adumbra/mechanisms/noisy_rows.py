"""Rows as they are, each with noise of its own: local differential privacy, for tables of a few columns.

The question is the table itself, so one row moves the answer as far as its ranges allow and all of the noise falls on
that row. It is what `adumbra jupa` uses on records that were projected to a few numbers. Proof page:
docs/proofs/row-map.md, with the identity for a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.types import Reals
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Reference, Setting
from adumbra.kinds.noisy_coordinates import NoisyCoordinatesFacts
from adumbra.queries.row_map import RowMap

__all__ = ["NoisyRows"]

_LINE = "rows"


@dataclass(frozen=True)
class NoisyRows:
    """Rows as they are, each with noise of its own; it has no options.

    Guarantee: as for every row map, and more: whoever releases their own row alone, with this noise, has the same
    promise without trusting anybody with the table.

    Numbers come back in their own units, unbiased and not clipped to their range; flags and categories as encoded
    coordinates, one column for each value.
    """

    name: ClassVar[str] = "noisy_rows"
    title: ClassVar[str] = "rows as they are, each with noise of its own (local differential privacy)"
    releases: ClassVar[str] = "one noisy row per person, row-aligned, in the table's own units"
    suits: ClassVar[str] = "a few columns, to be classified row by row; people who add the noise themselves"
    caution: ClassVar[str] = "one row bears all the noise, which grows with the number of columns: not for wide tables"
    theorem: ClassVar[str] = "Laplace and Gaussian mechanism on a row map with the identity for a matrix"
    differs: ClassVar[str] = (
        "The textbook's local mechanism: bounds are declared, everything is on an integer grid, and the noise is the "
        "meter's, of a proved law."
    )
    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out")
    answers: ClassVar[tuple[str, ...]] = ()
    deltas: ClassVar[Deltas] = "any"
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Kasiviswanathan, Lee, Nissim, Raskhodnikova, Smith (2011), What Can We Learn Privately?, SIAM J. Comput. "
            "40(3)",
            "@article{kasiviswanathan2011what, title={What Can We Learn Privately?}, author={Kasiviswanathan, Shiva "
            "Prasad and Lee, Homin K. and Nissim, Kobbi and Raskhodnikova, Sofya and Smith, Adam}, journal={SIAM "
            "Journal on Computing}, volume={40}, number={3}, year={2011}}",
        ),
    )

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A row moves from corner to corner, or is emptied in a corner."""
        number = {"kind": "number", "low": 0, "high": 1}
        schema = Schema.from_dict({"columns": {"a": number, "b": number}})
        low, high = {"a": "0", "b": "0"}, {"a": "1", "b": "1"}
        replace, empty = (Neighbours(Unit.ROW, r) for r in (Relation.REPLACE, Relation.ZERO_OUT))
        return (
            Challenge(replace, schema, low, high, "a row moves from corner to corner"),
            Challenge(empty, schema, high, emptied(high), "a row in a corner is emptied"),
        )

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """All of it goes to the rows."""
        return {_LINE: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, RowMap]:
        """The rows themselves."""
        return {_LINE: RowMap(np.eye(setting.space.width, dtype=np.int64), 1.0)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each."""
        return setting.rows or 0, setting.space.width

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """How large the `noise` is beside a declared range; the same in every `setting` and for every `promise`."""
        sd = noise[_LINE].sd
        return [("noise on a number", f"standard deviation {sd:.4g} of its declared range")]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure the rows and put numbers back into their units."""
        noisy = door.measure(_LINE, self.queries(setting)[_LINE])
        names, middle, width = _units(setting)
        return Draft(
            columns=names,
            batches=_in_units(noisy.batches, middle, width),
            facts=NoisyCoordinatesFacts(coordinates=setting.space.width, line=_LINE),
            arrays={"middle": middle, "width": width},
        )


def _units(setting: Setting) -> tuple[tuple[str, ...], Reals, Reals]:
    """Names of the coordinates, and what 0 and 1 of each stand for."""
    declared = {} if setting.schema is None else {column.name: column for column in setting.schema.measured}
    names: list[str] = []
    middle, width = np.zeros(setting.space.width), np.ones(setting.space.width)
    for block in setting.space.blocks:
        column = declared.get(block.column)
        if block.kind == "category":
            values = range(block.width) if column is None else column.values
            names += [f"{block.column}={value}" for value in values]
            continue
        names.append(block.column)
        if block.kind == "number" and column is not None and column.cells.linear and column.cells.range is not None:
            low, high = column.cells.range
            width[block.start] = high - low
            middle[block.start] = low + width[block.start] / 2
    return tuple(names), middle, width


def _in_units(batches: Iterator[Reals], middle: Reals, width: Reals) -> Iterator[Reals]:
    for batch in batches:
        yield middle + batch * width
