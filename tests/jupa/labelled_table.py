"""A small made-up table with words for labels, and coins that repeat."""

from __future__ import annotations

import numpy as np
import polars as pl

from adumbra.common.randomness import PublicSeed

SEED = PublicSeed.given("a public seed")


class Fixed:
    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)

    def below(self, sides, size):
        return self.generator.integers(0, sides, size, dtype=np.int64)

    def uniform(self, size):
        return self.generator.random(size)


def table(rows, seed, names=False):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, rows)
    u = (rng.random(rows) < np.where(s == 1, 0.7, 0.3)).astype(int)
    columns = {"a": rng.normal(1.5 * u, 1.0), "b": rng.normal(s, 1.0), "c": rng.choice(["x", "y", "z"], rows)}
    if names:  # one privacy class has rare values
        columns["name"] = [f"n{rng.integers(10**9)}" if k else "same" for k in s]
    return pl.DataFrame(columns | {"wants": np.where(u == 1, "yes", "no"), "secret": np.where(s == 1, "F", "M")})
