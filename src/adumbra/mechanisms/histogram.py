"""Histogram: which way to measure counts, by the error each would have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from adumbra.common.validation import at_least, one_of, settle
from adumbra.families.challenge import Challenge
from adumbra.families.contract import Deltas, Mechanism, Reference, Setting
from adumbra.families.counting import Counted, domain_of
from adumbra.families.forecast import forecasts
from adumbra.mechanisms.catalogue import catalogue, options
from adumbra.mechanisms.csm import CSM
from adumbra.mechanisms.hierarchical import Hierarchical
from adumbra.mechanisms.items import Items
from adumbra.mechanisms.laplace import Laplace
from adumbra.mechanisms.privelet import Privelet

__all__ = ["Histogram"]

_QUERIES = ("ranges", "cells")


@dataclass(frozen=True)
class Histogram:
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    * `queries`: what will be asked most: ranges, or single cells (and marginals of few cells).
    * `atoms`: how many cells hold nearly all rows, if that is publicly known; lets sparse and csm be chosen.
    """

    columns: tuple[str, ...] = ()
    bins: int | None = None
    queries: str = "ranges"
    atoms: int | None = None

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"queries": _QUERIES}
    name: ClassVar[str] = "histogram"
    title: ClassVar[str] = "the way to count cells that will err least, by a public rule"
    releases: ClassVar[str] = "what the chosen mechanism releases; `adumbra plan` prints the error of each"
    suits: ClassVar[str] = "counting queries: ranges, cells, marginals, any workload"
    caution: ClassVar[str] = "the rule knows the shape of the domain and the noise, not the table"
    theorem: ClassVar[str] = "that of the chosen mechanism; the choice itself costs nothing"
    differs: ClassVar[str] = (
        "This mechanism is our own: the error of each strategy is worked out and the least is taken."
    )
    units: ClassVar[tuple[str, ...]] = Counted.units
    relations: ClassVar[tuple[str, ...]] = Counted.relations
    answers: ClassVar[tuple[str, ...]] = Counted.answers
    deltas: ClassVar[Deltas] = "any"
    sets: ClassVar[bool] = True
    cites: ClassVar[tuple[Reference, ...]] = (*Hierarchical.cites, *Privelet.cites, *CSM.cites)

    def __post_init__(self) -> None:
        settle(self)
        Laplace(self.columns, self.bins)  # refuses what is no list of columns or no number of bins
        object.__setattr__(self, "columns", Laplace(self.columns).columns)
        one_of(_QUERIES, queries=self.queries)
        if self.atoms is not None:
            at_least(1, "give the number of cells that hold nearly all rows", atoms=self.atoms)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """Those of the mechanisms it chooses."""
        return Hierarchical.challenges()

    def choose(self, setting: Setting) -> tuple[Mechanism, str]:
        """The mechanism, and why, in a sentence."""
        sets = [block.column for block in setting.space.blocks if block.kind == "set"]
        if sets and sets == list(self.columns or [block.column for block in setting.space.blocks]):
            return Items(self.columns), f"{sets[0]} is a set: its values are counted one by one"
        domain = domain_of(setting, self.columns, self.bins)
        found = [f for f in forecasts(setting, domain, self.atoms) if self.atoms is not None or not f.given]
        found = [f for f in found if f.mechanism != "fourier"]  # its smoothness is nobody's public knowledge
        best = min(found, key=lambda f: f.ranges if self.queries == "ranges" else f.cells)
        error = best.ranges if self.queries == "ranges" else best.cells
        what = "a random range" if self.queries == "ranges" else "a cell"
        others = ", ".join(
            f"{f.mechanism} {f.ranges if self.queries == 'ranges' else f.cells:.3g}" for f in found if f is not best
        )
        why = f"least expected error of {what}: {error:.3g} rows ({others})"
        if best.given:
            why += f", if {best.given}"
        return self._made(best.mechanism), why

    def _made(self, name: str) -> Mechanism:
        given = {"columns": self.columns, "bins": self.bins, "atoms": self.atoms}
        return catalogue()[name](**{option: given[option] for option in options(name) if option in given})
