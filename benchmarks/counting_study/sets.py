"""The tables of the study with their queries, and the mechanisms that answer them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import adumbra as ad
from adumbra.counting.workload import Workload, random_ranges
from adumbra.queries.domain import Domain
from adumbra.tables.encode import encode

Reals = NDArray[np.float64]


Row = dict[str, Any]


QUERIES, DELTA, MU = 10_000, 1e-6, 0.05


@dataclass(frozen=True, eq=False)
class Study:
    """A table with its domain, the true counts of the cells, and the queries."""

    name: str
    frame: pl.DataFrame
    schema: ad.Schema
    bins: int
    domain: Domain
    counts: Reals
    ranges: Workload

    @staticmethod
    def of(name: str, frame: pl.DataFrame, columns: Row, bins: int) -> Study:
        """Count the cells as they will be counted: as many as the paper has, so that none is for what is missing."""
        columns = {
            key: {"missing": each["values"][0] if "values" in each else each["low"]} | each
            for key, each in columns.items()
        }
        schema = ad.Schema.from_dict({"table": {"name": name}, "columns": columns})
        domain = Domain.of(schema, schema.space(), bins=bins)
        cell = domain.groups.of(encode(frame, schema).values)
        counts = np.bincount(cell, minlength=domain.size).astype(np.float64)
        return Study(name, frame, schema, bins, domain, counts, random_ranges(domain.shape, QUERIES, seed=1))

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """The linear queries; 328 MB at 8,192 cells."""
        rng = np.random.Generator(np.random.Philox(2))
        return 2.0 * rng.random((QUERIES, self.domain.size), dtype=np.float32) - 1.0


def whole(most: int) -> Row:
    """A column of whole numbers from 0."""
    return {"kind": "number", "low": 0, "high": most, "integer": True}


def adult(data: Path | None, cells: int) -> Study:
    if data is None:  # made up, of about the same shape
        values = np.random.default_rng(0).gamma(3.2, 60_000.0, 48_842)
        frame = pl.DataFrame({"fnlwgt": np.minimum(values, 1e6).round()})
    else:
        frame = pl.read_csv(data / "adult.csv.gz").select("fnlwgt")
    return Study.of("adult", frame, {"fnlwgt": {"kind": "number", "low": 0, "high": 1_000_000}}, cells)


@lru_cache
def baskets(data: Path | None) -> NDArray[np.bool_]:
    """Which of the 13 most frequent items each basket holds, the most frequent first."""
    if data is None:
        rng = np.random.default_rng(0)
        return np.asarray(rng.random((88_162, 13)) < 0.6 / np.arange(1, 14) ** 1.2)
    lines = pl.read_csv(data / "retail.csv.gz")["items"].cast(pl.String).str.split(" ").to_list()
    found = [(row, int(item)) for row, items in enumerate(lines) for item in items]
    row, item = np.array(found).T
    top = np.argsort(-np.bincount(item), kind="stable")[:13]
    flags = np.zeros((len(lines), 13), dtype=np.bool_)
    for place, chosen in enumerate(top):
        flags[row[item == chosen], place] = True
    return flags


def retail(data: Path | None, cells: int) -> Study:
    bits = round(math.log2(cells))
    pattern = baskets(data)[:, :bits] @ (1 << np.arange(bits - 1, -1, -1))
    return Study.of("retail", pl.DataFrame({"pattern": pattern}), {"pattern": whole(cells - 1)}, cells)


TPCE_SIZES = {"a1": 16, "a5": 16, "a8": 16, "a7": 8, "a12": 4, "a3": 2}
"""Attributes of TPC-E by their number, those of 16 bins first: the sizes are real, the rows are not."""


TPCE_COLUMNS = {
    128: ("a1", "a7"),
    256: ("a1", "a5"),
    512: ("a1", "a5", "a3"),
    1024: ("a1", "a5", "a12"),
    2048: ("a1", "a5", "a7"),
    4096: ("a1", "a5", "a8"),
    8192: ("a1", "a5", "a8", "a3"),
}


def tpce(data: Path | None, cells: int) -> Study:
    rng = np.random.default_rng(5)
    share = 1.0 / np.arange(1, 13) ** 1.3
    kind = rng.choice(12, 40_000, p=share / share.sum())
    values: Row = {}
    for name, size in TPCE_SIZES.items():
        home = rng.integers(0, size, 12)[kind]
        values[name] = np.where(rng.random(len(kind)) < 0.05, rng.integers(0, size, len(kind)), home)
    chosen = TPCE_COLUMNS[cells]
    columns = {
        name: whole(size - 1) if size == 16 else {"kind": "category", "values": list(range(size))}
        for name, size in TPCE_SIZES.items()
        if name in chosen
    }
    return Study.of("tpce", pl.DataFrame({name: values[name] for name in columns}), columns, 16)


def spikes(data: Path | None, cells: int) -> Study:
    rng = np.random.default_rng(6)
    places = rng.choice(cells, 16, replace=False)
    share = 1.0 / np.arange(1, 17)
    cell = places[rng.choice(16, 40_000, p=share / share.sum())]
    return Study.of("spikes", pl.DataFrame({"cell": cell}), {"cell": whole(cells - 1)}, cells)


SETS: dict[str, Callable[[Path | None, int], Study]] = {
    "adult": adult,
    "retail": retail,
    "tpce": tpce,
    "spikes": spikes,
}


TITLES = {
    "adult": "Adult (fnlwgt)",
    "retail": "Retail (patterns of items)",
    "tpce": "TPC-E domain, stand-in rows",
    "spikes": "made up: 16 occupied cells",
}


SPARSE_IN = {"adult": "dct", "retail": "identity", "tpce": "identity", "spikes": "identity"}
"""The dictionary of the ratio study, fixed by what the table is."""


@lru_cache(maxsize=2)
def study_of(name: str, data: Path | None, cells: int) -> Study:
    return SETS[name](data, cells)


MECHANISMS: dict[str, tuple[str, Row]] = {
    "laplace": ("laplace", {}),
    "privelet": ("privelet", {}),
    "hierarchical": ("hierarchical", {}),
    "fourier": ("fourier", {}),
    "sparse": ("sparse", {}),
    "sparse dct": ("sparse", {"dictionary": "dct"}),
    "sparse haar": ("sparse", {"dictionary": "haar"}),
    "csm": ("csm", {}),
    "csm dct": ("csm", {"dictionary": "dct"}),
    "csm haar": ("csm", {"dictionary": "haar"}),
    "csm own size": ("csm", {}),
}
"""csm has the paper's compression ratio, but for `own size`, which is our rule's."""


LINEAR = ("laplace", "privelet", "hierarchical")


def sensible(name: str, mechanism: str, delta: float) -> bool:
    """Not a dictionary for smooth tables on the two that are not, nor fourier twice: its delta is always 0."""
    rough = name in ("tpce", "spikes") and mechanism in ("csm dct", "csm haar", "sparse dct")
    return not rough and not (delta and mechanism == "fourier")
