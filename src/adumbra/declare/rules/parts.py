"""What rules consist of: conditions that rows obey, and steps that compute a column from others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from adumbra.common.errors import InputError
from adumbra.declare.column import some_of
from adumbra.declare.rules.check import Checker
from adumbra.declare.rules.combinations import Combinations
from adumbra.declare.rules.compile import compiled, finished
from adumbra.declare.rules.parse import Node, names_of, parse, wrong
from adumbra.declare.rules.rule_column import Declared
from adumbra.declare.rules.typed import Typed

__all__ = ["Check", "Derivation", "Limit", "Step", "TableLookup", "disagrees", "in_order", "read_check", "read_derived"]

_BLANKS = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|\s+""")
"""What is quoted, and blanks that are not."""
_CLOSE = 1e-6
"""Numbers of a true table that differ by less than this share of their size agree with a derivation."""


@dataclass(frozen=True)
class Check:
    """A condition that every row obeys."""

    text: str
    tree: Typed

    @property
    def names(self) -> frozenset[str]:
        """Columns that it speaks of."""
        return self.tree.names

    def broken(self, work: pl.DataFrame) -> pl.Series:
        """Where a prepared row breaks it: where it is false, not where it is unknown."""
        found = work.select((~compiled(self.tree)).fill_null(False).alias("broken")).to_series()
        return found if len(found) == len(work) else pl.repeat(found[0], len(work), eager=True)


Limit = Check | Combinations


@dataclass(frozen=True)
class Derivation:
    """A column that is computed from others."""

    column: Declared
    tree: Typed

    @property
    def needs(self) -> frozenset[str]:
        """Columns that it is computed from."""
        return self.tree.names

    @property
    def text(self) -> str:
        """The rule in one line."""
        return f"{self.column.name} = {self.column.derived}"

    def made(self, work: pl.DataFrame) -> pl.Series:
        """The column, for prepared rows."""
        found = work.select(finished(compiled(self.tree), self.column).alias(self.column.name)).to_series()
        return found.cast(self.column.dtype)


@dataclass(frozen=True)
class TableLookup:
    """A column that follows from others by a public table."""

    column: Declared
    table: Combinations

    @property
    def needs(self) -> frozenset[str]:
        """Columns that it follows from."""
        return self.table.names

    @property
    def text(self) -> str:
        """The rule in one line."""
        return f"{self.column.name} follows from {', '.join(c.name for c in self.table.determinants)}"

    def made(self, work: pl.DataFrame) -> pl.Series:
        """The column, for prepared rows."""
        return self.table.looked_up(work, self.column.name)


Step = Derivation | TableLookup


def disagrees(step: Step, work: pl.DataFrame) -> pl.Series:
    """Where prepared rows have another value than a step computes; unknown where either is empty."""
    own, made = work[step.column.name], step.made(work)
    if step.column.type == "number":
        far = (own - made).abs() > _CLOSE * made.abs().cast(pl.Float64).clip(1.0)
        return far.fill_null(False)
    return (own != made).fill_null(False)


def read_check(text: str, columns: Mapping[str, Declared]) -> Check:
    """A condition from its text; `columns` are all there are."""
    brief = _BLANKS.sub(lambda found: found[1] or " ", text).strip() if isinstance(text, str) else text
    where = f"rule {brief[:80]!r}" if isinstance(brief, str) else "a rule's check"
    tree = Checker(where, columns).condition(parse(text, where, rule=True))
    if not tree.names:
        raise wrong(where, "a rule that names a column", "none", "write a condition on columns")
    return Check(brief, tree)


def read_derived(columns: Mapping[str, Declared]) -> list[Derivation]:
    """The derived columns among `columns`."""
    found = []
    for column in columns.values():
        if column.derived is None or column.role == "drop":
            continue
        where = f"column {column.name!r}: derived"
        if not column.type:
            raise wrong(where, "a column with a kind", f"kind {column.kind!r}, role {column.role!r}", "delete derived")
        node = parse(column.derived, where, rule=False)
        if column.name in names_of(node):
            raise wrong(where, "an expression of other columns", "its own name", "leave it out")
        if not names_of(node):
            raise wrong(where, "an expression of other columns", "a constant", "name a column")
        found.append(Derivation(column, _as_declared(node, column, Checker(where, columns))))
    return found


def _as_declared(node: Node, column: Declared, checker: Checker) -> Typed:
    """The tree of a derivation, if its value is of the kind that the column declares."""
    flagged = column.kind == "flag" and column.type != "truth"
    like = None if flagged and node.op != "choose" else Typed("", column.type)
    tree = checker.typed(node, like)
    if flagged and tree.type == "truth":
        return tree
    if tree.type == "date" and column.type == "datetime":
        return tree
    if tree.type != column.type or flagged:
        wanted = "a condition" if column.kind == "flag" else f"a {column.type}"
        raise checker.wrong(f"{wanted} for kind {column.kind}", f"a {tree.type}", "correct the kind or the expression")
    if column.values and column.type == "text":
        _check_outcomes(tree, column, checker)
    if column.type not in ("text", "truth") and (tree.high < column.low or tree.low > column.high):
        got = "values that are all outside it"
        raise checker.wrong("values in the declared range", got, "correct low and high, or the expression")
    return tree


def _check_outcomes(tree: Typed, column: Declared, checker: Checker) -> None:
    """Every text that comes after then or else is a declared value."""
    if tree.op == "literal":
        checker.declared(column, tree.value, "=")
    for arg in tree.args[1:] if tree.op == "choose" else ():
        _check_outcomes(arg, column, checker)


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps so that each comes after those it needs; columns that need each other are refused."""
    left = {step.column.name: step for step in steps}
    done: list[Step] = []
    while left:
        ready = [step for step in left.values() if not step.needs & left.keys()]
        if not ready:
            raise InputError(
                "derived columns that can be computed one after the other",
                f"{some_of(_cycle(left))}, each computed from the next",
                "measure one of them: delete its derived",
            )
        done += ready
        for step in ready:
            del left[step.column.name]
    return tuple(done)


def _cycle(left: Mapping[str, Step]) -> list[str]:
    path = [next(iter(left))]
    while True:
        following = min(left[path[-1]].needs & left.keys())
        if following in path:
            return path[path.index(following) :]
        path.append(following)
