"""Sets drawn from noisy counts of their items: each item as often as it was counted, at most so many in a row.

Items are independent but for that limit: an item is in a row with a chance of its own, given that the row has at most
`most`. The chances are fitted so that every item comes out with the share that was counted. What goes together in a
basket is not in counts of single items, and is not in what is drawn.

The law of independent coins given their number is conditional Bernoulli (Chen, Dempster, Liu, "Weighted finite
population sampling to maximize entropy", Biometrika 1994): of all laws with these shares and this limit it has the
largest entropy. All of it is post-processing of numbers that may be published.
"""

from __future__ import annotations

import numpy as np

from adumbra.common.types import Reals

__all__ = ["drawn_sets", "fitted_chances", "item_shares"]

_ROUNDS = 200
_CLOSE = 1e-6
_LARGEST = 1.0 - 1e-9
_ROOM = 0.98
"""Of `most`: a mean number of items above this is scaled down to it, since no row can have more than `most`."""


def item_shares(counts: Reals, rows: float, most: int) -> Reals:
    """Shares of rows that hold each item, from noisy `counts` in a table of so many `rows`, at most `most` a row.

    >>> item_shares(np.array([50.0, -3.0, 130.0]), 100, 1).round(2).tolist()
    [0.33, 0.0, 0.65]
    """
    shares = np.clip(counts / max(rows, 1.0), 0.0, 1.0)
    total = float(shares.sum())
    return shares * min(1.0, _ROOM * most / total) if total > 0 else shares


def fitted_chances(shares: Reals, most: int) -> Reals:
    """Chances of independent items that have these `shares` in rows of at most `most` of them."""
    chances = np.minimum(shares, _LARGEST)
    if len(shares) <= most:
        return chances
    odds = chances / (1.0 - chances)
    for _ in range(_ROUNDS):
        found = _shares_given_most(odds / (1.0 + odds), most)
        if float(np.abs(found - shares).max(initial=0.0)) < _CLOSE:
            break
        odds = odds * np.divide(shares, found, out=np.ones_like(shares), where=found > 0)
    return np.minimum(odds / (1.0 + odds), _LARGEST)


def drawn_sets(chances: Reals, most: int, rows: int, generator: np.random.Generator) -> Reals:
    """So many `rows` of 0 and 1, at most `most` ones in each: items with these `chances`, given that limit.

    `generator` draws a number for each. Item by item: the chance of the next is what it is beside the chance that all
    that follow still have room.
    """
    room = _at_most(chances[::-1], most)[::-1]  # room[i][r]: items from i on are at most r
    left = np.full(rows, most)
    out = np.zeros((rows, len(chances)))
    for index, chance in enumerate(chances):
        following = np.concatenate([[0.0], room[index + 1]])  # none fits where there is no room
        taken = generator.random(rows) * room[index][left] < chance * following[left]
        out[:, index] = taken
        left = left - taken
    return out


def _at_most(chances: Reals, most: int) -> Reals:
    """(items + 1, most + 1): that the first i items are at most r in number."""
    exactly = np.zeros(most + 1)
    exactly[0] = 1.0
    out = [np.ones(most + 1)]
    for chance in chances:
        exactly = exactly * (1.0 - chance) + np.concatenate([[0.0], exactly[:-1]]) * chance
        out.append(np.cumsum(exactly))
    return np.array(out)


def _shares_given_most(chances: Reals, most: int) -> Reals:
    """How often each item is in a row that has at most `most`: forward and backward over the items."""
    width = len(chances)
    before = np.zeros((width + 1, most + 1))
    after = np.zeros((width + 1, most + 1))
    before[0, 0] = after[width, 0] = 1.0
    for index in range(width):
        chance = chances[index]
        before[index + 1] = before[index] * (1.0 - chance)
        before[index + 1, 1:] += before[index, :-1] * chance
        chance = chances[width - 1 - index]
        after[width - 1 - index] = after[width - index] * (1.0 - chance)
        after[width - 1 - index, 1:] += after[width - index, :-1] * chance
    below = np.cumsum(after, axis=1)  # of those that follow, at most r
    whole = float(below[0, most])
    with_item = np.array([before[i, :most] @ below[i + 1, :most][::-1] for i in range(width)])
    return np.asarray(chances * with_item / max(whole, 1e-300))
