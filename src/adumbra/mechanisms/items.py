"""Items: noise on the count of every value of a column whose cells hold several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import settle
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import Block
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Reference, Setting
from adumbra.families.counting import check_no_row_bound
from adumbra.kinds.item_counts import ITEMS, ItemCountsFacts
from adumbra.models.columns import parse_label
from adumbra.queries.item_totals import ItemsQuery

__all__ = ["Items"]


@dataclass(frozen=True)
class Items:
    """Parameters, all public.

    * `columns`: the set column whose values are counted (or a category, a set of one); default: the first there is.
    """

    columns: tuple[str, ...] = ()

    name: ClassVar[str] = "items"
    title: ClassVar[str] = "noisy counts of the values of a set column"
    releases: ClassVar[str] = "in how many rows each declared value is, with one standard error for all"
    suits: ClassVar[str] = "baskets, diagnoses, tags: columns with several values in a cell; which are frequent"
    caution: ClassVar[str] = (
        "no two values together are counted; of a cell with more than `most` values the first in declared order count"
    )
    theorem: ClassVar[str] = (
        "Laplace mechanism (Dwork, McSherry, Nissim, Smith 2006), or the Gaussian one where delta is allowed, on the "
        "counts of all values; a row is in at most `most` of them (docs/proofs/sums.md)"
    )
    differs: ClassVar[str] = (
        "From the paper: cells are cut to a declared number of values before they are counted, noise is drawn exactly "
        "on whole numbers, and with a positive delta it is Gaussian."
    )
    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ("count", "top")
    deltas: ClassVar[Deltas] = "any"
    sets: ClassVar[bool] = True
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Dwork, McSherry, Nissim, Smith (2006), Calibrating Noise to Sensitivity in Private Data Analysis, TCC",
            "@inproceedings{dwork2006calibrating, title={Calibrating Noise to Sensitivity in Private Data Analysis}, "
            "author={Dwork, Cynthia and McSherry, Frank and Nissim, Kobbi and Smith, Adam}, booktitle={TCC}, "
            "year={2006}}",
        ),
    )

    def __post_init__(self) -> None:
        settle(self)
        object.__setattr__(self, "columns", parse_label(self.columns, "--columns"))
        if len(self.columns) > 1:
            raise InputError(
                "one column, whose values are counted", f"{len(self.columns)} columns", "name one with --columns"
            )

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A row with as many values as count goes, is emptied, or is exchanged for one without a common value."""
        column = {"kind": "set", "values": list("abcdefgh"), "most": 3, "separator": " "}
        schema = Schema.from_dict({"columns": {"basket": column}})
        one = {"basket": "a b c"}
        others = {Relation.REPLACE: {"basket": "d e f"}, Relation.ZERO_OUT: emptied(one)}
        whys = {
            Relation.REPLACE: "a full basket is exchanged for another without a common item",
            Relation.ZERO_OUT: "a full basket is emptied",
            Relation.ADD_REMOVE: "a full basket is there or not",
        }
        shared = tuple({"basket": " ".join("abcdefgh"[i % 8 : i % 8 + 2])} for i in range(24))
        return tuple(
            Challenge(Neighbours(Unit.ROW, relation), schema, one, others.get(relation), why, shared)
            for relation, why in whys.items()
        )

    def block(self, setting: Setting) -> Block:
        """The column that is counted."""
        check_no_row_bound(setting.space)
        blocks = {block.column: block for block in setting.space.blocks}
        placed = [name for kind in ("set", "category") for name, block in blocks.items() if block.kind == kind]
        name = self.columns[0] if self.columns else next(iter(placed), None)
        if name not in placed:
            raise InputError(
                "a set column (or a category) of the schema",
                "none" if name is None else repr(name),
                f"use one of: {', '.join(placed[:10])}" if placed else "declare one, or use --mechanism histogram",
            )
        return blocks[name]

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One measurement."""
        return {ITEMS: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The counts."""
        return {ITEMS: ItemsQuery(self.block(setting))}

    def size(self, setting: Setting) -> tuple[int, int]:
        """A row for each value."""
        return self.block(setting).width, 3

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The standard error in this `setting` under its `promise`, which is that of the `noise`."""
        block, sd = self.block(setting), noise[ITEMS].sd
        of = f" ({sd / setting.rows:.2%} of rows)" if setting.rows else ""
        counted = f"{block.width} of {block.column}, at most {block.most} in a row"
        return [("items", counted), ("standard error of a count", f"{sd:.4g} rows{of}")]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure, list the values."""
        block = self.block(setting)
        noisy = door.measure(ITEMS, ItemsQuery(block))
        counts = noisy.values["items"]
        assert setting.schema is not None
        values = setting.schema.column(block.column).values
        return Draft(
            columns=(block.column, "count" if block.column != "count" else "count_"),
            batches=iter([np.column_stack([np.arange(block.width, dtype=np.float64), counts])]),
            facts=ItemCountsFacts(column=block.column, items=block.width, most=block.most),
            arrays={"measured": counts},
            measured={ITEMS: {"items": "measured"}},
            words={block.column: values},
        )
