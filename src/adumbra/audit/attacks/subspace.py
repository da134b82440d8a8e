"""A projection that is published in the open: the missing pixel, recovered to the last digits.

Published LIP and LOP release rows that lie exactly in a subspace, so anybody can read the subspace off them. LIP's rows
are the records' own projections on it, without noise: with all of a record known but one pixel, the pixel is a single
linear equation. LOP's rows are noisy, but their subspace is spanned by exact eigenvectors of the exact second moment:
somebody who knows the table but for one pixel tries which pixel would have given that subspace, which is a linear
equation again. Neither depends on the claimed epsilon. The same question, put to a release of this library, its own LIP
and LOP among them, gets no better an answer than the promise allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from adumbra.audit.attacks.common import (
    BEYOND,
    LEVELS,
    WITHIN,
    Attack,
    Clock,
    Rng,
    allowed_share,
    digits,
    generator,
    interval,
    paired,
    promised,
    released,
)
from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Budget
from adumbra.families.contract import Mechanism
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.dprp import DPRP
from adumbra.mechanisms.lip import LIP
from adumbra.mechanisms.lop import LOP
from adumbra.published.lip_paper import lip
from adumbra.published.lop_paper import lop
from adumbra.result import Release

__all__ = ["TARGETS", "demonstrate", "row_space"]

TARGETS = ("published/lip", "published/lop", "lip", "lop", "dppro", "dprp")
PIXELS = 36
_TOP = LEVELS - 1.0
_UNIT = _TOP * np.sqrt(PIXELS)
"""The longest image there can be; the papers want rows of length at most 1, and this much is public."""
_RANK = 8
_FEWEST, _MOST = 40, 898

Solver = Callable[[Reals, int, int], float]
"""`solve(image, pixel, place)`: the grey level of a pixel of the image that stands at this place; the image's own value
there is not used."""


def row_space(
    target: str = "published/lip",
    *,
    epsilon: float = 0.01,
    rows: int = 300,
    confidence: float = 0.95,
    seed: int = 0,
) -> Attack:
    """Recover one missing pixel of each handwritten digit, its others known, from a release of `rows` of them.

    `target` is one of `TARGETS`; `epsilon` is what it claims, or promises, for one row; `seed` draws images and pixels,
    and intervals hold with `confidence`. A pixel counts as recovered if it is nearer to the truth than to any other
    grey level (there are 17). `chance` is how often the same attack is right about images that are not in the table.
    Edge cases: epsilon is refused where the target refuses it.
    """
    one_of(TARGETS, target=target)
    if not _FEWEST <= rows <= _MOST:
        raise InputError(f"{_FEWEST} to {_MOST} rows", f"rows = {rows}", "there are 1797 images, half of them held out")
    clock, rng = Clock(), generator(seed)
    people = digits(rows, rows, PIXELS, rng)
    images = people.truth.drop("digit").to_numpy().astype(np.float64)
    others = people.holdout.drop("digit").to_numpy().astype(np.float64)
    # every image once, with a partner of its own: each pair is then a coin of its own
    places, pixels = np.arange(rows), rng.integers(PIXELS, size=rows)
    delta, claim = 0.0, epsilon
    if target == "published/lip":
        solve = _inside(lip(images / _UNIT, epsilon, _RANK, rng).rows)
    elif target == "published/lop":
        solve = _spanned(lop(images / _UNIT, epsilon, _RANK, rng).rows, images)
    else:
        kind, reader = _OURS[target]
        schema = people.schema.from_dict({"columns": people.schema.to_dict()["columns"][:-1]})
        release = released(people.truth.drop("digit"), schema, kind, Budget(epsilon))
        solve = reader(release)
        delta, claim = release.card.delta, promised(release.card) or np.inf
    alone = np.abs(_population(others, images, pixels) - images[places, pixels])
    errors = [_errors(solve, each, pixels, places) for each in (images, others)]
    found = _recovered(errors[0], errors[1], alone, (claim, delta), confidence, rng)
    target_text = f"{target}, epsilon {epsilon:g}, delta {delta:g}, row/replace"
    ours = not target.startswith("published")
    return replace(found, target=target_text, ours=ours, seconds=clock.seconds)


def _recovered(
    inside: Reals, outside: Reals, alone: Reals, promise: tuple[float, float], confidence: float, rng: Rng
) -> Attack:
    """Errors for images in the table and outside it, beside those of a model of the population `alone`."""
    claim, delta = promise
    rows = len(inside)
    right, wrong_person = np.abs(inside) < 0.5, np.abs(outside) < 0.5
    hits = int(right.sum())
    low, high = interval(hits, rows, confidence)
    chance = float(wrong_person.mean())
    broken, bound = paired(right.astype(float), wrong_person.astype(float), claim, delta, confidence, rng)
    return Attack(
        name="row_space",
        target="",
        success=hits / rows,
        meaning="share of missing pixels recovered to the right grey level of 17",
        chance=chance,
        allowed=allowed_share(chance, claim, delta),
        low=low,
        high=high,
        confidence=confidence,
        runs=rows,
        seconds=0.0,
        verdict=BEYOND if broken else WITHIN,
        explanation=(
            f"Knowing all other pixels, the missing one is off by {np.median(np.abs(inside)):.2g} grey levels "
            f"(median; at most {np.abs(inside).max():.2g}); a model of the population is off by "
            f"{np.median(alone):.2g}."
        ),
        details={
            "median error": float(np.median(np.abs(inside))),
            "largest error": float(np.abs(inside).max()),
            "median error without the release": float(np.median(alone)),
            "right without the release": float((alone < 0.5).mean()),
            "epsilon at least": bound,
        },
    )


def _errors(solve: Solver, images: Reals, pixels: Integers, places: Integers) -> Reals:
    out = np.empty(len(images))
    for i, (image, pixel, place) in enumerate(zip(images, pixels, places, strict=True)):
        # a grey level that there is: an error of more than the range would only flatter the defence
        out[i] = np.clip(solve(image, int(pixel), int(place)), 0.0, _TOP) - image[pixel]
    return out


def _span(rows: Reals) -> Reals:
    """Projector on the space that released rows lie in."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    kept = directions[sizes > 1e-9 * sizes[0]]
    return np.asarray(kept.T @ kept)


def _without(image: Reals, pixel: int) -> Reals:
    out = image / _UNIT
    out[pixel] = 0.0
    return np.asarray(out)


def _inside(rows: Reals) -> Solver:
    """LIP: a released row is P x for the projector P that all rows share, so x_j P e_j = row - P x without x_j."""
    span = _span(rows)

    def solve(image: Reals, pixel: int, place: int) -> float:
        rest = rows[place] - span @ _without(image, pixel)
        return float(span[pixel] @ rest / span[pixel, pixel] * _UNIT)

    return solve


def _spanned(rows: Reals, table: Reals) -> Solver:
    """LOP: the second moment A maps the space of the released rows to itself, (1 - P) A P = 0.

    With t for the missing pixel, A is A_0 + t A_1 + t^2 A_2; solved for t and t^2 as if they were two unknowns.
    """
    span = _span(rows)
    off = np.eye(len(span)) - span
    scaled = table / _UNIT
    moment = scaled.T @ scaled

    def solve(image: Reals, pixel: int, place: int) -> float:
        known = _without(image, pixel)
        unit = np.zeros(len(known))
        unit[pixel] = 1.0
        rest = moment - np.outer(scaled[place], scaled[place]) + np.outer(known, known)
        terms = [off @ a @ span for a in (np.outer(unit, known) + np.outer(known, unit), np.outer(unit, unit))]
        unknowns, *_ = np.linalg.lstsq(
            np.stack([t.ravel() for t in terms], axis=1), -(off @ rest @ span).ravel(), rcond=None
        )
        return float(unknowns[0] * _UNIT)

    return solve


def _projected(release: Release) -> Solver:
    """DPPro: least squares on the one equation there is, row = x M + noise."""
    arrays, seen = release.arrays, release.table.to_numpy()
    matrix = arrays["matrix"] * float(arrays["step"])

    def solve(image: Reals, pixel: int, place: int) -> float:
        known = image / _TOP - 0.5
        known[pixel] = 0.0
        direction = matrix[pixel]
        return float(((seen[place] - known @ matrix) @ direction / (direction @ direction) + 0.5) * _TOP)

    return solve


def _own_row(release: Release) -> Solver:
    """DPRP: its rows span everything, so the equation is the released pixel itself."""
    seen = release.table.to_numpy().astype(np.float64)
    return lambda image, pixel, place: float(seen[place, pixel])


def _along(release: Release) -> Solver:
    """LIP and LOP: of all grey levels, the one that puts the row, clipped as it was, nearest to the released one."""
    axes, seen = release.arrays["axes"], release.table.to_numpy()
    bound = release.facts.rows_clipped_to
    levels = np.arange(LEVELS)

    def solve(image: Reals, pixel: int, place: int) -> float:
        rows = np.tile(image / _TOP - 0.5, (LEVELS, 1))
        rows[:, pixel] = levels / _TOP - 0.5
        rows *= np.minimum(1.0, bound / np.linalg.norm(rows, axis=1, keepdims=True))
        return float(levels[np.linalg.norm(rows @ axes.T - seen[place], axis=1).argmin()])

    return solve


_OURS: dict[str, tuple[Mechanism, Callable[[Release], Solver]]] = {
    "lip": (LIP(components=_RANK, result="coordinates"), _along),
    "lop": (LOP(components=_RANK), _along),
    "dppro": (DPPro(), _projected),
    "dprp": (DPRP(), _own_row),
}


def _population(others: Reals, images: Reals, pixels: Integers) -> Reals:
    """What a linear model of people who are not in the table says about each missing pixel."""
    out = np.empty(len(images))
    for pixel in np.unique(pixels):
        x = np.delete(others, pixel, axis=1)
        mean, level = x.mean(axis=0), others[:, pixel].mean()
        weights = np.linalg.solve(
            (x - mean).T @ (x - mean) + 10.0 * np.eye(x.shape[1]), (x - mean).T @ (others[:, pixel] - level)
        )
        here = pixels == pixel
        out[here] = level + (np.delete(images[here], pixel, axis=1) - mean) @ weights
    return np.clip(out, 0.0, _TOP)


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """Both published forms at a claim of 0.01, and this library's releases at 1."""
    rows = 800 if deep else 300
    return tuple(
        row_space(target, epsilon=0.01 if target.startswith("published") else 1.0, rows=rows, seed=seed)
        for target in TARGETS
    )
