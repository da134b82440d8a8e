"""How well counted cells match the truth (owner's side: the numbers are private)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from adumbra.common.types import Reals
from adumbra.compare.comparison import share
from adumbra.counting.workload import Workload, box_sums, random_ranges
from adumbra.declare.schema import Schema
from adumbra.queries.domain import Domain
from adumbra.report.document import Section
from adumbra.report.document import Table as Shown
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = ["CountsCheck", "CountsFit", "check_counts", "counts_fit"]

Answers = Callable[[Workload, float], pl.DataFrame]
_QUERIES = 1000
_NUMBERS = 2**27
"""Weights of cells that the ranges may have together: fewer ranges where cells are many."""
_FEWEST = 100


@dataclass(frozen=True)
class CountsFit:
    """Answers of one kind beside the truth."""

    what: str
    queries: int
    error: float
    """Root mean square."""
    stated_error: float
    """Root mean square of the release's own standard errors."""
    within_eta: float
    """Share of answers less than their eta off."""
    mean_truth: float


@dataclass(frozen=True)
class CountsCheck:
    """Counts of a release beside those of the truth."""

    cells: int
    """That were counted."""
    mu: float
    """Share of answers that may be further off than eta."""
    fits: tuple[CountsFit, ...]

    def section(self) -> Section:
        """One line for each kind of answer."""
        within = f"within eta (mu {self.mu:g})"
        heads = ("what", "asked", "error (root mean square)", "stated", within, "mean of the truth")
        rows = tuple(
            (fit.what, fit.queries, fit.error, fit.stated_error, share(fit.within_eta), fit.mean_truth)
            for fit in self.fits
        )
        return Section(f"counts of {self.cells} cells, in rows", (Shown(heads, rows),))


def check_counts(answers: Answers, domain: Domain, truth: Table, schema: Schema, mu: float = 0.05) -> CountsCheck:
    """Compare fixed random ranges, and cells spread evenly, with those of the true rows.

    `answers` answers a workload on the cells of `domain`, so that at most a share `mu` of them is off by more than
    its eta; `truth` is the table, read by `schema`.
    """
    counts = np.zeros(domain.size)
    for rows in RowSource(schema, truth).partitions():
        cell = domain.groups.of(rows)
        counts += np.bincount(cell[cell >= 0], minlength=domain.size)
    count = max(_FEWEST, min(_QUERIES, _NUMBERS // domain.size))
    places = np.arange(count) * domain.size // count  # evenly over the domain
    low = np.stack(np.unravel_index(places, domain.shape), axis=1).astype(np.float64)
    asked = {
        "random ranges": random_ranges(domain.shape, count, within=domain.values),
        "single cells": Workload.boxes(domain.shape, low, low + 1.0),
    }
    fits = (counts_fit(what, answers(each, mu), box_sums(counts, each)) for what, each in asked.items())
    return CountsCheck(domain.size, mu, tuple(fits))


def counts_fit(what: str, answers: pl.DataFrame, truth: Reals) -> CountsFit:
    """What answers (`value`, `standard_error`, `eta`) of one kind, `what` they are, are off from the `truth`."""
    off = np.abs(answers["value"].to_numpy() - truth)
    stated = answers["standard_error"].to_numpy()
    return CountsFit(
        what=what,
        queries=len(truth),
        error=math.sqrt(float(np.square(off).mean())),
        stated_error=math.sqrt(float(np.square(stated).mean())),
        within_eta=float((off <= answers["eta"].to_numpy()).mean()),
        mean_truth=float(truth.mean()),
    )
