"""What each way of measuring a histogram will err by, from the shape of the domain and the noise alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from adumbra.counting.workload import Workload, box_gains, random_ranges
from adumbra.families.contract import Setting
from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.strategies import Identity, Waves
from adumbra.numerics.strategy_base import STRATEGIES, LinearStrategy
from adumbra.queries.domain import Domain
from adumbra.queries.histograms import HistogramQuery, Strategy
from adumbra.queries.query import PureNoise

__all__ = [
    "FEW_ATOMS",
    "Forecast",
    "best_strategy",
    "forecasts",
    "least_error",
    "linear_errors",
    "quieter",
    "sketch_size",
    "workload_for",
]

Kind = TypeVar("Kind", bound=LinearStrategy)
FEW_ATOMS = 16
"""Atoms that a table is taken to need where nobody says."""


@dataclass(frozen=True)
class Forecast:
    """Root mean square error of a random range and of a single cell."""

    mechanism: str
    ranges: float
    cells: float
    numbers: int
    given: str
    """What it takes for granted; empty where it holds for every table."""


def workload_for(shape: tuple[int, ...], apart: tuple[int, ...] = ()) -> Workload:
    """Random ranges over a `shape`, always the same, to average an error over: fewer where cells are many.

    None holds the last cell of an axis where that is `apart`: it stands for what is missing.
    """
    within = tuple(n - (axis in apart) for axis, n in enumerate(shape))
    return random_ranges(shape, 200 if math.prod(shape) <= 2**16 else 50, within=within)


def _cells_for(shape: tuple[int, ...]) -> Workload:
    rng = np.random.Generator(np.random.Philox(1))
    cells = np.stack([rng.integers(0, n, 16) for n in shape], axis=1).astype(np.float64)
    return Workload.boxes(shape, cells, cells + 1.0)


def _rms(lengths: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return math.sqrt(float(np.square(lengths).mean()))


def sketch_size(cells: int, atoms: int, generous: bool) -> int:
    """Measurements for a table of `cells` of which `atoms` are not 0: 2 K ln(N/K) + K, at most `cells`.

    `generous` doubles them, where more of them cost no more noise.

    >>> sketch_size(256, 16, False), sketch_size(256, 16, True), sketch_size(2**20, 16, False)
    (105, 210, 371)
    """
    wanted = 2.0 * atoms * math.log(max(cells / atoms, 1.0)) + atoms
    return max(1, min(cells, math.ceil(wanted * (2.0 if generous else 1.0))))


def quieter(preview: Callable[[PureNoise], float]) -> PureNoise:
    """The law of pure noise with the smaller standard deviation."""
    return "laplace" if preview("laplace") <= preview("l2-laplace") else "l2-laplace"


def best_strategy(kind: type[Kind], domain: Domain, sd: Callable[[Kind], float]) -> Kind:
    """Of the candidates of a `kind` for a `domain` the one of least error for random ranges, by its own noise `sd`."""
    return least_error(kind.candidates(domain.shape, domain.unordered, domain.apart), domain, sd)


def least_error(candidates: Sequence[Kind], domain: Domain, sd: Callable[[Kind], float]) -> Kind:
    """Of these `candidates` for a `domain` the one of least error for random ranges, by its own noise `sd`."""
    if len(candidates) == 1:
        return candidates[0]
    workload = workload_for(domain.shape, domain.apart)
    return min(candidates, key=lambda each: sd(each) * _rms(box_gains(each, workload)[0]))


def linear_errors(strategy: LinearStrategy, sd: float, apart: tuple[int, ...] = ()) -> tuple[float, float]:
    """Root mean square error of a random range and of a cell, by a `strategy` with noise `sd` on each number.

    No range holds the last cell of an axis that is `apart`.
    """
    far, near = (
        sd * _rms(box_gains(strategy, queries)[0])
        for queries in (workload_for(strategy.shape, apart), _cells_for(strategy.shape))
    )
    return far, near


def forecasts(setting: Setting, domain: Domain, atoms: int | None = None) -> list[Forecast]:
    """Expected errors of all counting mechanisms: first those that hold for every table, the best for ranges first.

    `setting` has the budget, by whose noise they are predicted; `domain` the cells. `atoms` is how many cells (or
    waves) hold all rows, for mechanisms that use that; None takes a few.
    """
    shape, cells = domain.shape, domain.size

    def sd(strategy: Strategy, pure: PureNoise = "laplace") -> float:
        return setting.preview(1.0, HistogramQuery(domain.groups, strategy, pure))

    def linear(name: str, strategy: LinearStrategy, noise: float, given: str = "") -> Forecast:
        far, near = linear_errors(strategy, noise, domain.apart)
        return Forecast(name, far, near, strategy.numbers, given)

    best = {kind.mechanism: best_strategy(kind, domain, sd) for kind in STRATEGIES.values() if kind.mechanism}
    everywhere = [linear(name, strategy, sd(strategy)) for name, strategy in best.items()]
    direct = Identity(shape)
    k = max(1, min(atoms or FEW_ATOMS, cells))
    given = f"{k} cells hold all rows" + ("" if atoms else " (give their number with --atoms)")
    # a query meets each of k cells, wherever they lie, as often as any cell
    met = math.sqrt(k / cells)
    plain = linear("", direct, met)
    sketch = sensing("hadamard", b"forecast", cells, sketch_size(cells, k, not setting.pure))
    noise = sd(sketch, quieter(lambda pure: sd(sketch, pure)))
    waves = Waves(shape, min((k - 1) // 2, cells // 2))
    smooth = f"the {waves.kept} lowest frequencies hold all"
    out = [
        *sorted(everywhere, key=lambda forecast: forecast.ranges),
        Forecast("sparse", plain.ranges * sd(direct), plain.cells * sd(direct), cells, given),
        Forecast("csm", plain.ranges * noise, plain.cells * noise, sketch.numbers, given),
    ]
    if setting.pure:  # fourier promises delta 0 whatever is allowed, and what is seen here is noise for a delta
        # the rest of its budget goes to the choice of frequencies and to what they leave out
        out.append(linear("fourier", waves, sd(waves) / 0.8, smooth))
    return out
