"""Drawn rows that obey every rule, bent as little as possible.

Rules are public and the rows were drawn from a model that may be published, so all of this is post-processing and has
no part in any privacy claim. Three steps, each for what the one before could not settle:

1. Exchange. A row that breaks a rule swaps the cell of a column of that rule with another row (and cells of columns
   that other rules tie to it), if together they break fewer rules afterwards. Every column keeps exactly the values
   that were drawn. Of several rows that would do, the one that is most alike in the columns that tell most about the
   cell is taken, so that relations suffer least; rows of the same class come first. Orders that leave little room are
   settled by sorting (`rule_order.py`).
2. Copy. The columns of the broken rule, or of all rules that share columns with it, are copied from a row that obeys.
3. The public witness, a row made from the declarations alone, where no row obeys.

Derived and dependent columns are computed at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Integers
from adumbra.declare.rules.parts import Limit, Step
from adumbra.declare.rules.rules import RuleGroup, Rules
from adumbra.models.row_likeness import Likeness
from adumbra.models.rule_order import sort_orders

__all__ = ["obeying"]

_PROPOSALS = 400_000
"""Pairs that are tried in a round; few broken rows try many partners each, many try few."""
_MOST_PARTNERS = 4_096
_ROUNDS = 80
_PATIENCE = 4
"""Rounds with hardly a success before the rest is copied."""
_FEW, _SLOW = 0.002, 0.1
"""Shares of broken rules: below the first a round had hardly a success, below the second it gets more partners."""
_CANDIDATES = 8
_HARM = 100.0
"""Distance that is added where a row would break a rule that it did not break."""

Flags = NDArray[np.bool_]


def obeying(
    frame: pl.DataFrame,
    rules: Rules,
    generator: np.random.Generator,
    groups: Sequence[str] | Integers | None = None,
) -> pl.DataFrame:
    """Drawn rows, completed, none of which breaks a rule.

    `frame` has the measured columns of drawn rows; `rules` are those of the schema; `generator` decides which rows
    exchange cells; `groups` is the class of every row, or the names of the columns that make it: rows of one class are
    preferred as partners.

    Edge cases: a single row has no partner, and takes the public witness if it breaks a rule.
    """
    if len(frame):
        classes = _classes(frame, groups)
        for group in rules.groups:
            frame = _GroupRepair(frame, rules, group, classes, generator).run()
    done = rules.complete(frame)
    if rules and rules.broken(done).select(pl.any_horizontal(pl.all()).any()).item():
        raise RuntimeError("a repaired row still breaks a rule")
    return done


def _classes(frame: pl.DataFrame, groups: Sequence[str] | Integers | None) -> Integers | None:
    if groups is None or len(groups) == 0:
        return None
    if isinstance(groups, np.ndarray):
        return np.asarray(np.unique(groups, return_inverse=True)[1]).ravel()
    found = np.zeros(len(frame), dtype=np.int64)
    for name in groups:
        cells = frame[str(name)]
        rank = (cells if cells.dtype.is_numeric() else cells.cast(pl.String)).rank("dense").fill_null(0).to_numpy()
        found = np.unique(found * (int(rank.max()) + 1) + rank.astype(np.int64), return_inverse=True)[1].ravel()
    return found


class _GroupRepair:
    """The rows of one group of rules: which cell each row has now, and which rules it breaks."""

    def __init__(
        self,
        frame: pl.DataFrame,
        rules: Rules,
        group: RuleGroup,
        classes: Integers | None,
        generator: np.random.Generator,
    ) -> None:
        self.frame, self.rules, self.group, self.generator = frame, rules, group, generator
        self.names, self.limits = group.columns, group.limits
        # a prepared row more than there are: the public witness
        self.cells = rules.prepared(_with_witness(frame.select(self.names), rules), self.names)
        self.source = {name: np.arange(len(frame)) for name in self.names}
        self.classes = classes
        self.pool = _Pool(classes, len(frame), generator)
        self.broken = self.judged(self.source, range(len(self.limits)))
        self.idle = 0

    def judged(self, source: Mapping[str, Integers], limits: Sequence[int]) -> Flags:
        """Which of the `limits` rows break whose cells come from `source`: a line for each limit."""
        needed, steps = self.following([self.limits[index] for index in limits])
        work = pl.DataFrame([self.cells[name].gather(source[name]) for name in self.names if name in needed])
        for step in steps:
            work = work.with_columns(step.made(work).alias(step.column.name))
        return np.stack([self.limits[index].broken(work).to_numpy() for index in limits])

    def following(self, limits: Sequence[Limit]) -> tuple[frozenset[str], list[Step]]:
        """Columns that these limits read, and the steps that compute some of them."""
        needed = frozenset[str]().union(*(limit.names for limit in limits))
        steps: list[Step] = []
        for step in reversed(self.rules.steps):
            if step.column.name in needed:
                needed |= step.needs
                steps.insert(0, step)
        return needed, steps

    def run(self) -> pl.DataFrame:
        """The frame, with the cells of this group where no rule of it is broken."""
        if not self.broken.any():
            return self.frame
        likeness = Likeness(self.frame, self.names, self.generator)
        if len(self.frame) > 1:
            self.settle(likeness)
            if self.broken.any() and sort_orders(self):
                self.settle(likeness)
        self.copy(likeness)
        extended = _with_witness(self.frame.select(self.names), self.rules)
        return self.frame.with_columns([extended[name].gather(self.source[name]) for name in self.names])

    # ---------------------------------------------------------------------------------------------------- exchange

    def settle(self, likeness: Likeness) -> None:
        """Rounds of exchange, with more partners for each row as successes get rare, until there are none."""
        tries, self.idle = _CANDIDATES, 0
        for turn in range(_ROUNDS):
            rows = np.flatnonzero(self.broken.any(axis=0))
            if not len(rows) or self.idle >= _PATIENCE:
                break
            most = max(_CANDIDATES, min(_PROPOSALS // len(rows), _MOST_PARTNERS, 2 * len(self.frame)))
            before = np.count_nonzero(self.broken)
            self.exchange(likeness, rows, min(tries, most), wide=turn >= _PATIENCE)
            gained = before - np.count_nonzero(self.broken)
            self.idle = self.idle + 1 if tries >= most and gained <= _FEW * before else 0
            tries = tries if gained > _SLOW * before else 4 * tries

    def exchange(self, likeness: Likeness, rows: Integers, tries: int, wide: bool) -> None:
        """One round: every broken row proposes, and disjoint pairs that help are carried out.

        `likeness` compares rows; `rows` are the broken ones; each has so many partners to choose from (`tries`);
        several columns may be exchanged at once if `wide`.
        """
        limit = self.random_limit(rows)
        column = self.random_column(limit)
        found, blocks = [], []
        for index, place in np.unique(np.column_stack([limit, column]), axis=0):
            blocks.append(self.block(index, self.names[place], wide))
            mine = rows[(limit == index) & (column == place)]
            found.append(self.proposals(likeness, self.names[place], blocks[-1], mine, tries))
        first, second = (np.concatenate([one[index] for one in found]) for index in (0, 1))
        after = [np.concatenate([one[index] for one in found], axis=1) for index in (2, 3)]
        owner = np.repeat(np.arange(len(blocks)), [len(one[0]) for one in found])
        rank = self.generator.permutation(len(first))
        best = np.full(len(self.frame), len(rank))
        for ends in (first, second):
            np.minimum.at(best, ends, rank)
        chosen = (best[first] == rank) & (best[second] == rank)
        self.broken[:, first[chosen]], self.broken[:, second[chosen]] = after[0][:, chosen], after[1][:, chosen]
        for index, block in enumerate(blocks):
            mine = chosen & (owner == index)
            for name in block:
                one, other, source = first[mine], second[mine], self.source[name]
                source[one], source[other] = source[other], source[one]

    def random_limit(self, rows: Integers) -> Integers:
        """For each row, one of the limits that it breaks."""
        chance = self.generator.random((len(self.limits), len(rows)), dtype=np.float32)
        return np.asarray(np.where(self.broken[:, rows], chance, -1.0).argmax(axis=0))

    def random_column(self, limit: Integers) -> Integers:
        """For each limit, the place of one of the columns that it depends on."""
        width = max(len(names) for names in self.group.sources)
        places = np.zeros((len(self.limits), width), dtype=np.int64)
        counts = np.array([len(names) for names in self.group.sources])
        for index, names in enumerate(self.group.sources):
            places[index, : len(names)] = sorted(self.names.index(name) for name in names)
        picked: Integers = places[limit, (self.generator.random(len(limit)) * counts[limit]).astype(np.int64)]
        return picked

    def block(self, index: int, name: str, wide: bool) -> frozenset[str]:
        """The columns that are exchanged together to mend a limit, beginning with one of its columns.

        `index` is the place of the limit and `name` the column; if `wide`, columns that other rules tie to it may go
        along: what is missing together moves together.
        """
        block = {name}
        if not wide or self.generator.random() < 0.5:
            return frozenset(block)
        for other in self.generator.permutation(len(self.limits)):
            tied = sorted(self.group.sources[other] - block)
            if other != index and self.group.sources[other] & block and self.generator.random() < 0.7:
                block |= {one for one in tied if one not in self.group.sources[index]}
        return frozenset(block)

    def proposals(
        self, likeness: Likeness, name: str, block: frozenset[str], rows: Integers, tries: int
    ) -> tuple[Integers, Integers, Flags, Flags]:
        """Rows that would exchange cells, with whom, and what both would break.

        `likeness` compares rows; `name` is the column that is to move and `block` all that move with it; each of the
        `rows` tries so many partners (`tries`).
        """
        partner = self.pool.among(self.pool.everyone, rows, tries)
        if self.idle and 3 * tries >= 4 * len(self.frame):
            # chance may pass over the only one who helps: everyone is asked once
            partner[:, : len(self.frame)] = self.pool.everyone
        quarter = (tries + 3) // 4  # other broken rows: both may gain
        partner[:, -quarter:] = rows[self.generator.integers(0, len(rows), (len(rows), quarter))]
        first, second = np.repeat(rows, tries), partner.ravel()
        touched = [index for index, names in enumerate(self.group.sources) if block & names]
        here = self.crossed(first, second, block, touched)
        gained = _fewer(self.broken[touched][:, first], here)
        tried = np.flatnonzero(gained > 0)
        there = self.crossed(second[tried], first[tried], block, touched)
        before = self.broken[touched][:, second[tried]]
        helps = gained[tried] + _fewer(before, there) > 0
        tried, there, before = tried[helps], there[:, helps], before[:, helps]
        distance = np.full(len(first), np.inf, dtype=np.float32)
        distance[tried] = likeness.distance(name, first[tried], second[tried], self.source, block)
        harmed = (here[:, tried] & ~self.broken[touched][:, first[tried]]).any(axis=0)
        distance[tried[harmed | (there & ~before).any(axis=0)]] += _HARM
        pick = distance.reshape(partner.shape).argmin(axis=1) + np.arange(len(rows)) * tries
        pick = pick[np.isfinite(distance[pick])]
        after = self.broken[:, first[pick]], self.broken[:, second[pick]]
        after[0][touched] = here[:, pick]
        after[1][touched] = there[:, np.searchsorted(tried, pick)]
        return first[pick], second[pick], *after

    def crossed(self, own: Integers, other: Integers, block: frozenset[str], touched: Sequence[int]) -> Flags:
        """Which of the limits rows would break with cells of others.

        `own` are the rows and `other` those whose cells of the `block` they get; `touched` are the limits in question.
        """
        if not len(own):
            return np.zeros((len(touched), 0), dtype=bool)
        return self.judged({n: at[other if n in block else own] for n, at in self.source.items()}, touched)

    # -------------------------------------------------------------------------------------------------------- copy

    def copy(self, likeness: Likeness) -> None:
        """Give rows that still break a rule the cells of a row that obeys: of that rule, or of the whole group."""
        for _ in range(4):
            rows = np.flatnonzero(self.broken.any(axis=0))
            good = np.flatnonzero(~self.broken.any(axis=0))
            if not len(rows) or not len(good):
                break
            limit = self.random_limit(rows)
            for index in np.unique(limit):
                self.copy_from(likeness, rows[limit == index], good, self.group.sources[index])
        rows = np.flatnonzero(self.broken.any(axis=0))
        good = np.flatnonzero(~self.broken.any(axis=0))
        if len(rows) and len(good):
            self.copy_from(likeness, rows, good, frozenset(self.names))
        elif len(rows):
            for source in self.source.values():
                source[rows] = len(self.frame)

    def copy_from(self, likeness: Likeness, rows: Integers, good: Integers, names: frozenset[str]) -> None:
        """Copy the cells of some columns where that mends a row.

        `likeness` compares rows; `rows` are to be mended from those that are `good`; `names` are the columns to copy.
        """
        donor = self.pool.among(good, rows, _CANDIDATES)
        first, second = np.repeat(rows, _CANDIDATES), donor.ravel()
        source = {one: cells[second if one in names else first] for one, cells in self.source.items()}
        mended = ~np.asarray(self.judged(source, range(len(self.limits))).any(axis=0))
        name = next(one for one in self.names if one in names)
        distance = np.full(len(first), np.inf, dtype=np.float32)
        distance[mended] = likeness.distance(name, first[mended], second[mended], self.source, names)
        pick = distance.reshape(donor.shape).argmin(axis=1) + np.arange(len(rows)) * _CANDIDATES
        pick = pick[mended[pick]]
        for one in names:
            self.source[one][first[pick]] = self.source[one][second[pick]]
        self.broken[:, first[pick]] = False


class _Pool:
    """Partners at random, half of them of the same class."""

    def __init__(self, classes: Integers | None, rows: int, generator: np.random.Generator) -> None:
        self.classes, self.rows, self.generator = classes, rows, generator
        self.everyone = np.arange(rows)
        self.ordered = self.everyone if classes is None else np.argsort(classes, kind="stable")

    def among(self, members: Integers, rows: Integers, tries: int) -> Integers:
        """For each of the `rows`, so many of the `members` (`tries`), the first half of its own class if it has one."""
        chance = self.generator.random((len(rows), tries), dtype=np.float64)
        found = members[(chance * len(members)).astype(np.int64)]
        if self.classes is None:
            return found
        ordered = self.ordered if members is self.everyone else members[np.argsort(self.classes[members])]
        sizes = np.bincount(self.classes[members], minlength=self.classes.max() + 1)
        ends = np.cumsum(sizes)
        own = self.classes[rows]
        start, end = ends[own] - sizes[own], ends[own]
        half = (tries + 1) // 2
        inside = start[:, None] + (chance[:, :half] * (end - start)[:, None]).astype(np.int64)
        there = end > start
        found[there, :half] = ordered[inside[there]]
        return found


def _fewer(before: Flags, after: Flags) -> Integers:
    """By how many fewer limits each row breaks."""
    return np.asarray(before.sum(axis=0, dtype=np.int64) - after.sum(axis=0, dtype=np.int64))


def _with_witness(frame: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The columns with one more row, which is public and obeys."""
    witness = rules.witness()
    cells = []
    for column in frame:
        cell = pl.Series(column.name, [witness[column.name]])
        if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
            cell = cell.cast(pl.Datetime("us")).dt.replace_time_zone(
                column.dtype.time_zone, ambiguous="earliest", non_existent="null"
            )
        cells.append(cell.cast(column.dtype))
    return pl.concat([frame, pl.DataFrame(cells)])
