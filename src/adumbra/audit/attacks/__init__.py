"""Attacks on releases: what somebody who holds a release, or saw it made, can find out.

`membership` and `attribute` take any release folder with the table it was made from and a holdout; the others attack
a fixed target, broken ones among them, to show that the attack works where it should. Everything here is for the owner
of a table: results are made from the truth. An attack that fails proves nothing; one that gets further than the promise
allows refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adumbra.audit.attacks import last_bits, members, missing_cell, subset_sums, subspace, timing
from adumbra.audit.attacks.common import BEYOND, FAILS, WITHIN, WORKS, Attack
from adumbra.audit.attacks.last_bits import floating_point
from adumbra.audit.attacks.members import membership
from adumbra.audit.attacks.missing_cell import attribute
from adumbra.audit.attacks.subset_sums import from_careless_answers, from_releases
from adumbra.audit.attacks.subspace import row_space
from adumbra.audit.attacks.timing import durations, refusals

__all__ = [
    "ATTACKS",
    "BEYOND",
    "FAILS",
    "WITHIN",
    "WORKS",
    "Attack",
    "attribute",
    "durations",
    "floating_point",
    "from_careless_answers",
    "from_releases",
    "membership",
    "refusals",
    "row_space",
    "run_all",
]

ATTACKS: Mapping[str, Callable[[bool, int], tuple[Attack, ...]]] = {
    "membership": members.demonstrate,
    "attribute": missing_cell.demonstrate,
    "row_space": subspace.demonstrate,
    "reconstruction": subset_sums.demonstrate,
    "floating_point": last_bits.demonstrate,
    "timing": timing.demonstrate,
}
"""`ATTACKS[name](deep, seed)` runs one attack on its own targets; it needs no data but scikit-learn's digits."""


def run_all(
    quick: bool = True, seed: int = 0, progress: Callable[[str, int, int], None] = lambda step, done, total: None
) -> tuple[Attack, ...]:
    """Every attack on its own targets, in order.

    `quick` takes about a minute; without it there are more runs, about ten times as long. `seed` decides targets and
    guesses; the noise of the releases has no seed. `progress(step, done, total)` is called before each attack.
    """
    found: list[Attack] = []
    for done, (name, attack) in enumerate(ATTACKS.items()):
        progress(name.replace("_", " "), done, len(ATTACKS))
        found += attack(not quick, seed)
    return tuple(found)
