"""The tables of the study, with what is public about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.fft import dct

import adumbra as ad
from adumbra.declare.space import GRID
from adumbra.mechanisms.catalogue import build
from adumbra.published.lip_paper import leading_rank
from adumbra.tables.clip import clip_rows
from adumbra.tables.encode import encode

Reals = NDArray[np.float64]


Row = dict[str, Any]


DELTA = 1e-6


CONTRIBUTION, MOST, OTHERWISE = 0.85, 10, 5


@dataclass(frozen=True, eq=False)
class Study:
    """A private table with what is public about it."""

    name: str
    rows: pl.DataFrame
    labels: NDArray[np.int64]
    columns: dict[str, Any]
    """The declared columns, as a schema has them."""
    basis: str | Reals | pl.DataFrame
    """Public: waves in order, axes as rows, or a table set aside."""
    source: str
    """Where the public basis comes from."""

    @cached_property
    def schema(self) -> ad.Schema:
        """Declared, not drafted from the rows."""
        return ad.Schema.from_dict({"table": {"name": self.name}, "columns": self.columns})

    @cached_property
    def bound(self) -> float:
        """Length that the mechanisms cut rows to for their axes, in encoded units: public, by the schema alone."""
        card = released(self, self.rows[:2], "analyze_gauss", {"components": 1}, 1.0).card
        return float(card.facts["axes_clipped_to"])

    def encoded(self, frame: pl.DataFrame) -> Reals:
        """Rows by their declared ranges, in encoded units."""
        return encode(frame, self.schema).values / GRID

    def moment(self, centred: bool = False, frame: pl.DataFrame | None = None) -> Reals:
        """A: exact, of rows about the middle of their ranges (or about their mean), cut to the bound."""
        x = np.rint(self.encoded(self.rows if frame is None else frame) * GRID)
        if centred:
            x -= np.rint(x.mean(axis=0))
        x = clip_rows(x, round(self.bound * GRID))[0] / GRID
        return np.asarray(x.T @ x / len(x))

    def public_basis(self, folder: Path, centred: bool) -> str:
        """What to give lop as its basis; of a public sample, its own axes."""
        if isinstance(self.basis, str):
            return self.basis
        axes = self.basis
        if isinstance(axes, pl.DataFrame):
            axes = np.linalg.eigh(self.moment(centred, axes))[1][:, ::-1].T
        np.save(folder / "axes.npy", np.ascontiguousarray(axes))
        return str(folder / "axes.npy")


def rank_of(moment: Reals, most: int | None = MOST) -> int:
    """The k given to all mechanisms."""
    found = leading_rank(np.asarray(np.linalg.eigvalsh(moment), np.float64), CONTRIBUTION)
    return OTHERWISE if most is not None and found > most else found


def number(low: float, high: float, **more: Any) -> Row:
    return {"kind": "number", "low": low, "high": high} | more


def triangles(width: int) -> Reals:
    """Waveform's three base waves as rows; columns beyond 21 are noise only."""
    places = np.arange(1, width + 1)
    waves = np.maximum(6.0 - np.abs(places - np.array([[11], [15], [7]])), 0.0)
    return np.asarray(np.where(places > 21, 0.0, waves))


def waveform(name: str, frame: pl.DataFrame) -> Study:
    rows, labels = frame.drop("class"), frame["class"].to_numpy().astype(np.int64)
    tops = triangles(rows.width).max(axis=0)
    columns = {c: number(-4.0, 4.0 + float(top)) for c, top in zip(rows.columns, tops, strict=True)}
    return Study(name, rows, labels, columns, "dct", "cosine waves over the columns in order")


def made_up(count: int = 400) -> Study:
    """Waveform from its definition."""
    rng, waves = np.random.default_rng(1), triangles(21)
    label = rng.integers(0, 3, count)
    mix = rng.random((count, 1))
    values = mix * waves[label] + (1 - mix) * waves[(label + 1) % 3] + rng.normal(size=(count, 21))
    return waveform(
        "made-up waveform",
        pl.DataFrame(values, [f"x{i}" for i in range(1, 22)]).with_columns(pl.Series("class", label)),
    )


def semeion(data: Path) -> Study:
    frame = pl.read_csv(data / "semeion.csv.gz")
    rows = frame.drop("digit")
    waves = dct(np.eye(16), axis=0, norm="ortho")
    order = sorted(((i, j) for i in range(16) for j in range(16)), key=lambda p: (p[0] ** 2 + p[1] ** 2, p))
    basis = np.array([np.outer(waves[i], waves[j]).ravel() for i, j in order])
    columns: Row = {c: {"kind": "flag"} for c in rows.columns}
    source = "cosine waves over 16 x 16 pixels, the longest first"
    return Study("semeion", rows.cast(pl.Int64), frame["digit"].to_numpy().astype(np.int64), columns, basis, source)


def covtype(data: Path) -> Study:
    frame = pl.read_parquet(data / "covtype_sample92962.parquet")
    columns: Row = {
        "Elevation": number(1000, 4400),
        "Aspect": number(0, 360),
        "Slope": number(0, 90),
        "Horizontal_Distance_To_Hydrology": number(0, 2000),
        "Vertical_Distance_To_Hydrology": number(-700, 700),
        "Horizontal_Distance_To_Roadways": number(0, 10000),
        "Hillshade_9am": number(0, 255),
        "Hillshade_Noon": number(0, 255),
        "Hillshade_3pm": number(0, 255),
        "Horizontal_Distance_To_Fire_Points": number(0, 10000),
    }
    kept = frame.select(list(columns))
    for head in ("Wilderness_Area", "Soil_Type"):
        indicators = [c for c in frame.columns if c.startswith(head)]
        columns[head] = {"kind": "category", "values": list(range(len(indicators)))}
        kept = kept.with_columns(pl.Series(head, frame.select(indicators).to_numpy().argmax(axis=1)))
    order = np.random.default_rng(0).permutation(kept.height)
    public, private = order[:1000], np.sort(order[1000:])
    labels = frame["Cover_Type"].to_numpy().astype(np.int64)[private]
    return Study("covtype", kept[private], labels, columns, kept[public], "1000 rows set aside as public")


def musk(data: Path) -> Study:
    frame = pl.read_parquet(data / "musk_v2.parquet")
    names = frame["molecule_name"].unique().sort().to_numpy()
    sizes = dict(frame["molecule_name"].value_counts().iter_rows())
    chosen: list[str] = []
    for name in np.random.default_rng(0).permutation(names):
        if sum(sizes[c] for c in chosen) + sizes[name] <= 500:
            chosen.append(name)
    aside = frame["molecule_name"].is_in(chosen)
    features = [c for c in frame.columns if c not in ("molecule_name", "conformation_name", "musk")]
    private, public = frame.filter(~aside), frame.filter(aside)
    columns = {c: number(-500, 500) for c in features}
    labels = private["musk"].to_numpy().astype(np.int64)
    source = f"{public.height} rows of {len(chosen)} molecules set aside as public"
    return Study("musk v2", private.select(features), labels, columns, public.select(features), source)


def secom(data: Path) -> Study:
    frame = pl.read_parquet(data / "secom_431.parquet").sort("timestamp", maintain_order=True)
    sensors = [c for c in frame.columns if c not in ("timestamp", "label")]
    pilot, private = frame[:200].select(sensors), frame[200:]
    columns: Row = {}
    for c in sensors:
        seen = pilot[c].drop_nulls().drop_nans().to_numpy()
        middle, spread = float(seen.mean()), float(seen.std())
        spread = spread or max(abs(middle), 1.0) / 4
        columns[c] = number(middle - 4 * spread, middle + 4 * spread, missing=middle)
    labels = private["label"].to_numpy().astype(np.int64)
    return Study("secom 431", private.select(sensors), labels, columns, pilot, "the pilot run of 200 wafers")


def _waveform_file(width: int) -> Callable[[Path], Study]:
    return lambda data: waveform(f"waveform {width}", pl.read_csv(data / f"waveform_{width}.csv.gz"))


SETS: dict[str, Callable[[Path], Study]] = {
    "covtype": covtype,
    "musk": musk,
    "semeion": semeion,
    "waveform21": _waveform_file(21),
    "waveform40": _waveform_file(40),
    "secom": secom,
}


def released(study: Study, frame: pl.DataFrame, name: str, options: Row, epsilon: float) -> ad.Release:
    return ad.release(frame, study.schema, build(name, options), ad.Budget(epsilon, DELTA))
