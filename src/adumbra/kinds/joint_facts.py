"""What was measured of several columns together, as the card of a drawn table has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["JointFacts", "StrongPair"]

_STRONGEST = 20


class StrongPair(BaseModel):
    """Two columns of which one tells something of the other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    a: str
    b: str
    strength: float
    """Total variation between their joint table, as the noisy numbers tell it, and that of independent columns."""


class JointFacts(BaseModel):
    """Tables of two and three columns: how many were measured, with what noise, and what they showed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[str, ...]
    cells: tuple[int, ...]
    """Of each column, in the joint tables."""
    pairs: int
    """Tables of two columns that were measured."""
    kept: int
    """Of these, how many hold more than noise; of another nothing is kept but what follows from these."""
    triples: int = 0
    """Tables of three columns."""
    kept_triples: int = 0
    pair_sd: float
    """Standard deviation of the noise on a count of a table of two columns, in rows: the median over the tables."""
    triple_sd: float | None = None
    kept_above: float | None = None
    """About which strength a pair needs to be told from noise."""
    strongest: tuple[StrongPair, ...] = ()
    """Up to 20, strongest first."""

    @staticmethod
    def strongest_of(strengths: Iterable[tuple[str, str, float]]) -> tuple[StrongPair, ...]:
        """The strongest of pairs with their `strengths`, strongest first; those of strength 0 are none.

        >>> [pair.b for pair in JointFacts.strongest_of([("x", "y", 0.1), ("x", "z", 0.2), ("y", "z", 0.0)])]
        ['z', 'y']
        """
        order = sorted((pair for pair in strengths if pair[2] > 0), key=lambda pair: -pair[2])
        return tuple(StrongPair(a=a, b=b, strength=value) for a, b, value in order[:_STRONGEST])

    def told(self) -> dict[str, Any]:
        """Lines of the card, for people."""
        few, many = min(self.cells, default=0), max(self.cells, default=0)
        cells = f"{few} to {many} cells" if few < many else f"{few} cells"
        every = len(self.columns) * (len(self.columns) - 1) // 2
        of = f"all {every}" if self.pairs == every else f"{self.pairs} of {every}"
        told = {
            "measured jointly": f"{of} pairs of {len(self.columns)} columns, {cells} each; {self.kept} of them hold "
            "more than noise; of the others nothing is kept but what follows from these",
            "noise on a count of a pair": f"standard deviation {self.pair_sd:.4g} rows",
        }
        if self.kept_above is not None:
            told["dependence that is told from noise"] = (
                f"total variation of at least about {self.kept_above:.2g} from that of independent columns"
            )
        if self.triples:
            sd = "" if self.triple_sd is None else f", noise of standard deviation {self.triple_sd:.4g} rows on a count"
            told["measured in threes"] = f"{self.triples} tables; {self.kept_triples} hold more than noise{sd}"
        return told

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Tables of the card, by title."""
        rows = [{"one": p.a, "other": p.b, "total variation from independence": p.strength} for p in self.strongest]
        return {"Pairs of columns that depend on each other most": rows} if rows else {}
