"""Private principal components: how good the axes are, what a classifier makes of them, and the LIP paper's figures.

    python benchmarks/components.py --data DIR [--parts noise,axes,centred,svm,ratios] [--sets semeion,waveform21]
                                    [--repeats 10] [--out FOLDER] [--quick]

DIR holds the files of the public data sets; --quick makes up a small Waveform table and takes seconds. Printed are
Markdown tables; --out also writes them, the numbers behind them as CSV, and pictures as SVG.

axes    Captured variance tr(V A V') / tr(U A U') and subspace error |V'V - U'U|_F / sqrt(2k) of released axes V against
        the axes U of the second moment A of the same rows: encoded by the same schema, clipped to the same length.
centred The same about the mean, which the mechanisms measure first for a fifth of the budget, against exact centring.
noise   Noise on the second moment beside the LIP paper's scale 2d / (n epsilon), for rows of the same length.
svm     The paper's Figure 5: a linear support vector machine on the components (see `VARIANTS`).
ratios  The paper's Figures 1 to 4: theta and eta of its two algorithms as printed (adumbra.published).

What was fixed before any result was seen: relation replace, delta 1e-6 where the noise is Gaussian, default options,
the row bound that the mechanisms take by themselves; k components, the least number that holds 85 % of A, or 5 where
that is more than 10 (for `svm`, the paper's rule of 85 % without that limit). This k is read off the exact spectrum,
which a private study could not do; it is given to all mechanisms alike. Added after first results had been seen: the
reference of random axes for `svm` and eta, the part `centred`, and the variant "class means".

Ranges are declared from what the columns mean, never from the rows that are released:

* Waveform: its public definition. A column is a mix of two of three triangles of height 6 plus noise N(0, 1); the range
  is that of the triangles at this place, four standard deviations wider on both sides.
* Semeion: pixels are black or white.
* Covertype: the units of its documentation. Azimuth 0 to 360, slope 0 to 90 degrees, hillshade an index of 0 to 255;
  elevation that of the state of Colorado, 1000 to 4400 m; distances in round numbers of metres, 2000 to water, +-700 in
  height, 10000 to roads and to fire points. Its 4 + 40 indicators are two categories.
* Musk: distances in hundredths of an angstrom from a surface; +-500 is the size of a small molecule.
* SECOM: nameless sensors, so no range is public. The first 200 wafers play a public pilot run, and are not in the
  private table: the pilot's mean +-4 of its standard deviations. An empty cell counts as the pilot's mean.

lop needs a public basis: waves (a cosine transform) for pixels and curves; for Covertype, Musk and SECOM the axes of a
sample that is set aside as public: 1000 rows, whole molecules up to 500 rows, the pilot.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.fft import dct
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC

import adumbra as ad
from adumbra.core.space import GRID
from adumbra.linalg.spectrum import subspace_error
from adumbra.mechanisms.catalogue import build
from adumbra.published.lip import approximation_error, leading_rank, lip, prepared
from adumbra.published.lop import (
    error_ratio,
    lop,
    noise_ratio,
    noise_ratio_expected,
    theorem_3_order,
    theorem_4_bound,
)
from adumbra.table.bound import clip_rows
from adumbra.table.encode import encode

warnings.filterwarnings("ignore", category=ConvergenceWarning)
Reals = NDArray[np.float64]
Row = dict[str, Any]
DELTA, CONTRIBUTION, MOST, OTHERWISE = 1e-6, 0.85, 10, 5


# --------------------------------------------------------------------------------------------------------- the tables


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
        return float(card.parameters["rows cut to"])

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


# ----------------------------------------------------------------------------------------------------------- the axes


MECHANISMS: dict[str, tuple[str, Row]] = {
    "lip": ("lip", {}),
    "lip l2": ("lip", {"noise": "l2-laplace"}),
    "analyze_gauss": ("analyze_gauss", {}),
    "power_method": ("power_method", {}),
}
CENTRED = {
    title: (name, options | {"centred": True})
    for title, (name, options) in MECHANISMS.items()
    if name != "power_method"
}
"""power_method has no mean to subtract."""


def released(study: Study, frame: pl.DataFrame, name: str, options: Row, epsilon: float) -> ad.Release:
    return ad.release(frame, study.schema, build(name, options), ad.Budget(epsilon, DELTA))


def compare_axes(
    studies: Sequence[Study], epsilons: Sequence[float], repeats: int, mechanisms: dict[str, tuple[str, Row]]
) -> Iterator[Row]:
    """Captured variance and subspace error of every mechanism, release by release."""
    for study in studies:
        moment = study.moment(mechanisms is CENTRED)
        rank = rank_of(moment)
        exact = np.linalg.eigh(moment)[1][:, ::-1][:, :rank]
        most = float(np.trace(exact.T @ moment @ exact))
        width, count = len(moment), study.rows.height
        facts = {"set": study.name, "n": count, "d": width, "k": rank, "held": most / float(np.trace(moment))}

        def measured(axes: Reals, exact: Reals = exact, moment: Reals = moment, most: float = most) -> Row:
            orthonormal = np.linalg.qr(axes.T)[0]
            return {
                "captured": float(np.trace(orthonormal.T @ moment @ orthonormal)) / most,
                "subspace": float(subspace_error(orthonormal, exact)),
            }

        draws = np.random.default_rng(0).normal(size=(50, rank, width))
        for axes in draws:
            yield facts | {"mechanism": "random", "epsilon": 0.0} | measured(axes)
        with tempfile.TemporaryDirectory() as place:
            public = {"components": rank, "basis": study.public_basis(Path(place), mechanisms is CENTRED)}
            yield (
                facts
                | {"mechanism": "lop", "epsilon": 0.0}
                | measured(released(study, study.rows, "lop", public, 1.0).arrays["axes"])
            )
        for epsilon in epsilons:
            for title, (name, options) in mechanisms.items():
                for _ in range(repeats):
                    done = released(study, study.rows, name, options | {"components": rank}, epsilon)
                    yield facts | {"mechanism": title, "epsilon": epsilon} | measured(done.arrays["axes"])
            say(f"axes {study.name} epsilon {epsilon:g}")


def titles(found: list[Row]) -> list[str]:
    return [m for m in MECHANISMS if any(r["mechanism"] == m for r in found)]


def axes_tables(found: list[Row], studies: Sequence[Study]) -> str:
    out, shown = [], titles(found)
    words = {
        "captured": "Captured variance, as a share of what the best k axes capture (1 is best)",
        "subspace": "Subspace error (0 is best, 1 is orthogonal)",
    }
    for measure, title in words.items():
        heads = ["set", "n", "d", "k", "held by k", "epsilon", *shown, "lop (public basis)", "random axes"]
        rows = []
        for study in studies:
            ours = [r for r in found if r["set"] == study.name]
            for epsilon in sorted({r["epsilon"] for r in ours} - {0.0}):
                cells = [spread(pick(ours, measure, mechanism=m, epsilon=epsilon)) for m in shown]
                fixed = [pick(ours, measure, mechanism=m) for m in ("lop", "random")]
                cells += [f"{fixed[0].mean():.3f}", spread(fixed[1])]
                n, d, k, held = (ours[0][key] for key in ("n", "d", "k", "held"))
                rows.append([study.name, n, d, k, f"{held:.1%}", f"{epsilon:g}", *cells])
        out.append(f"### {title}\n\n{table(heads, rows)}")
    bases = "\n".join(f"- {study.name}: {study.source}" for study in studies)
    return "\n\n".join(out) + f"\n\nPublic bases of lop (its axes do not depend on epsilon):\n\n{bases}"


# --------------------------------------------------------------------------------------- the noise beside the paper's


def compare_noise(studies: Sequence[Study], epsilon: float = 1.0) -> Iterator[Row]:
    """Standard deviations of an entry of the second moment (per row, rows at most 1 long), from plans."""
    for study in studies:
        count = study.rows.height
        width = study.schema.space().width
        row: Row = {"set": study.name, "n": count, "d": width, "epsilon": epsilon}
        row["paper"] = 2.0 * row["d"] / (count * epsilon) * math.sqrt(2.0)
        for title in ("lip", "lip l2", "analyze_gauss"):
            name, options = MECHANISMS[title]
            planned = ad.plan(study.rows, study.schema, build(name, options), ad.Budget(epsilon, DELTA))
            (calibration,) = planned.calibrations.values()
            diagonal = calibration.event.sd / (count * study.bound**2)
            # independent noise is alike in the whole triangle; the others have 1/sqrt 2 of it off the diagonal
            off = diagonal if title == "lip" else diagonal / math.sqrt(2.0)
            whole = math.sqrt((diagonal**2 + (row["d"] - 1) * off**2) / row["d"])
            row |= {f"{title} entry": off, f"{title} all": whole, f"{title} times": row["paper"] / whole}
        yield row


def noise_table(found: list[Row]) -> str:
    heads = ["set", "n", "d", "the paper's sd", "lip", "less", "lip l2", "less", "analyze_gauss (delta 1e-6)", "less"]
    rows = []
    for r in found:
        cells = []
        for title in ("lip", "lip l2", "analyze_gauss"):
            cells += [f"{r[f'{title} all']:.3g}", f"{r[f'{title} times']:.2f} times"]
        rows.append([r["set"], r["n"], r["d"], f"{r['paper']:.3g}", *cells])
    least = min(min(r["lip times"], r["lip l2 times"]) for r in found)
    verdict = "reached" if least >= 2.5 else "not reached"
    return (
        f"{table(heads, rows)}\n\nRoot mean square over all entries of the matrix, at epsilon {found[0]['epsilon']:g}. "
        f"Pure epsilon, at least 2.5 times less than the paper: {verdict} (least: {least:.2f})."
    )


# ------------------------------------------------------------------------------------------------------- a classifier


VARIANTS = {
    "axes": "private axes, rows as they are (the paper's protocol: not a private classifier)",
    "rows": "coordinates as released, every row with noise, half of epsilon for the axes; labels taken as public",
    "class means": "the same coordinates, a test row goes to the class of nearest mean; averages bear more noise than "
    "an SVM, which answers with its intercept where the noise is larger than the rows",
    "samples": "rows drawn from the private mean and second moment, the label among the columns",
}
REFERENCES = ("majority", "random axes", "exact axes", "all columns")
SVM_MECHANISMS = ("lip", "analyze_gauss", "power_method")


def accuracy(x: Reals, y: NDArray[np.int64], test_x: Reals, test_y: NDArray[np.int64]) -> float:
    if len(np.unique(y)) < 2:
        return float((test_y == y[0]).mean())
    return float((LinearSVC(dual=False, max_iter=300).fit(x, y).predict(test_x) == test_y).mean())


def labelled(study: Study) -> Study:
    """The same table with the label as one more column, so that rows drawn from it carry one."""
    values = sorted({int(v) for v in study.labels})
    columns = study.columns | {"label": {"kind": "category", "values": values, "role": "label"}}
    rows = study.rows.with_columns(pl.Series("label", study.labels))
    return Study(study.name, rows, study.labels, columns, study.basis, study.source)


def classify(studies: Sequence[Study], epsilons: Sequence[float], repeats: int) -> Iterator[Row]:
    """Accuracy on real test rows (a fifth, stratified), in all variants; every split has releases of its own.

    Features are encoded by the declared ranges, nothing else. The test part never enters a release; where rows are
    noisy, test rows are taken as they are along the released axes.
    """
    for study in studies:
        rank, whole = rank_of(study.moment(), None), labelled(study)
        for split in range(repeats):
            chosen = train_test_split(
                np.arange(study.rows.height), test_size=0.2, stratify=study.labels, random_state=split
            )
            (frame, y), (test, test_y) = ((study.rows[part], study.labels[part]) for part in chosen)
            x, test_x = study.encoded(frame), study.encoded(test)
            exact = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :rank]
            drawn = np.linalg.qr(np.random.default_rng(split).normal(size=exact.shape))[0]
            facts: Row = {"set": study.name, "k": rank, "split": split}
            for variant, score in (
                ("majority", float((test_y == np.bincount(y).argmax()).mean())),
                ("all columns", accuracy(x, y, test_x, test_y)),
                ("exact axes", accuracy(x @ exact, y, test_x @ exact, test_y)),
                ("random axes", accuracy(x @ drawn, y, test_x @ drawn, test_y)),
            ):
                yield facts | {"variant": variant, "mechanism": "reference", "epsilon": 0.0, "accuracy": score}
            for epsilon in epsilons:
                for name in SVM_MECHANISMS:
                    row = facts | {"mechanism": name, "epsilon": epsilon}
                    axes = released(study, frame, name, {"components": rank}, epsilon).arrays["axes"].T
                    yield row | {"variant": "axes", "accuracy": accuracy(x @ axes, y, test_x @ axes, test_y)}
                    options = {"components": rank, "result": "coordinates"}
                    done = released(study, frame, name, options, epsilon)
                    noisy, along = done.table.to_numpy(), test_x @ done.arrays["axes"].T
                    yield row | {"variant": "rows", "accuracy": accuracy(noisy, y, along, test_y)}
                    nearest = NearestCentroid().fit(noisy, y).predict(along)
                    yield row | {"variant": "class means", "accuracy": float((nearest == test_y).mean())}
                    if name == "power_method":  # offers no samples: it never measures the whole second moment
                        continue
                    samples = released(whole, whole.rows[chosen[0]], name, {"result": "samples"}, epsilon).table
                    made, made_y = study.encoded(samples.drop("label")), samples["label"].to_numpy().astype(np.int64)
                    yield row | {"variant": "samples", "accuracy": accuracy(made, made_y, test_x, test_y)}
            say(f"svm {study.name} split {split + 1} of {repeats}")


def svm_table(found: list[Row]) -> str:
    out = []
    for name in dict.fromkeys(r["set"] for r in found):
        ours = [r for r in found if r["set"] == name]
        epsilons = sorted({r["epsilon"] for r in ours} - {0.0})
        rows = []
        for variant in VARIANTS:
            for mechanism in SVM_MECHANISMS:
                cells = [pick(ours, "accuracy", variant=variant, mechanism=mechanism, epsilon=e) for e in epsilons]
                if len(cells[0]):
                    rows.append([variant, mechanism, *map(spread, cells)])
                else:
                    rows.append([variant, mechanism, *("not offered" for _ in cells)])
        references = ", ".join(f"{v} {spread(pick(ours, 'accuracy', variant=v))}" for v in REFERENCES)
        heads = ["variant", "mechanism", *(f"epsilon {e:g}" for e in epsilons)]
        out.append(f"### {name}, k = {ours[0]['k']}\n\n{table(heads, rows)}\n\nWithout privacy: {references}.")
    words = "\n".join(f"- {name}: {text}" for name, text in VARIANTS.items())
    return "\n\n".join(out) + f"\n\n{words}"


# ------------------------------------------------------------------------------------------------ the paper's figures


FACTORS = {  # what the paper multiplies theta by in Figure 1, and eta in Figures 3 and 4
    "secom": (1e0, 1e3, 1e1),
    "covtype": (1e5, 1e2, 1e1),
    "musk": (1e2, 1e3, 1e3),
    "semeion": (1e2, 1e2, 1e3),
    "waveform21": (1e3, 1e2, 1e2),
    "waveform40": (1e3, 1e2, 1e2),
    "made up": (1e3, 1e2, 1e2),
}
PAPER_SIZES = {"secom": (1567, 590), "covtype": (581012, 54)}  # where the file at hand is smaller


def verbatim(name: str, data: Path | None) -> Reals:
    """The numbers of a set, prepared as in section 5: mean and largest norm are read off the table.

    The paper does not say what it did with SECOM's empty cells; here they get their column's mean.
    """
    if data is None:
        return prepared(made_up().rows.to_numpy())
    files = {
        "secom": ("secom_431.parquet", ("timestamp", "label")),
        "covtype": ("covtype_sample92962.parquet", ("Cover_Type",)),
        "musk": ("musk_v2.parquet", ("molecule_name", "conformation_name", "musk")),
        "semeion": ("semeion.csv.gz", ("digit",)),
        "waveform21": ("waveform_21.csv.gz", ("class",)),
        "waveform40": ("waveform_40.csv.gz", ("class",)),
    }
    file, others = files[name]
    frame = pl.read_parquet(data / file) if file.endswith("parquet") else pl.read_csv(data / file)
    x = frame.drop(others).cast(pl.Float64).fill_null(math.nan).to_numpy()
    return prepared(np.where(np.isnan(x), np.nanmean(x, axis=0), x))


def paper_figures(names: Sequence[str], data: Path | None, repeats: int) -> Iterator[Row]:
    """theta and eta of the algorithms as printed, against k, n and epsilon."""
    rng = np.random.default_rng(0)
    for name in names:
        whole = verbatim(name, data)
        count, width = whole.shape
        usual = leading_rank(np.asarray(np.linalg.eigvalsh(whole.T @ whole), np.float64))
        mixed = whole[rng.permutation(count)]
        cases = [("k", float(k), whole, k, 1.0) for k in sorted({1, 2, 5, 10, 20, min(usual, width)}) if k <= width]
        cases += [("n", float(n), mixed[:n], usual, 1.0) for n in (count // 8, count // 4, count // 2, count)]
        cases += [("epsilon", e, whole, usual, e) for e in (0.01, 0.1, 1.0, 5.0, 10.0)]
        for against, value, x, k, epsilon in cases:
            for _ in range(repeats):
                runs = lip(x, epsilon, k, rng), lop(x, epsilon, k, rng)
                anyhow = np.linalg.qr(rng.normal(size=(width, k)))[0]
                left = math.sqrt(float((x**2).sum() - ((x @ anyhow) ** 2).sum()))
                yield {
                    "set": name,
                    "against": against,
                    "value": value,
                    "n": len(x),
                    "d": width,
                    "k": k,
                    "epsilon": epsilon,
                    "theta": noise_ratio(*runs),
                    "eta": error_ratio(x, *runs),
                    "eta of random axes": left / approximation_error(x, runs[1]),
                    "bound35": theorem_4_bound(x, runs[1]),
                }
        say(f"ratios {name}")


def ratio_tables(found: list[Row]) -> str:
    heads = [
        "set",
        "n",
        "d",
        "k",
        "theta",
        "d / sqrt(n^3 k)",
        "printed order d^2 / (n^3 k)",
        "theta as scaled in Fig. 1",
    ]
    out, rows = [], []
    for case in cases_of(found, ("k", "n")):
        r = case[0]
        theta, expected = mean_of(case, "theta"), noise_ratio_expected(r["n"], r["d"], r["k"])
        printed = theorem_3_order(r["n"], r["d"], r["k"])
        scaled = f"{theta * FACTORS[r['set']][0]:.3g}" if r["against"] == "k" else ""
        rows.append([r["set"], r["n"], r["d"], r["k"], f"{theta:.3g}", f"{expected:.3g}", f"{printed:.3g}", scaled])
    out.append("### theta against k and n (Figures 1 and 2)\n\n" + table(heads, rows))
    for against, place, figure in (("k", 1, 3), ("epsilon", 2, 4)):
        heads = ["set", "n", "d", "k", "epsilon", "eta", "with random axes for LIP's", "bound (35)"]
        heads.append(f"eta as scaled in Fig. {figure}")
        rows = []
        for case in cases_of(found, (against,)):
            r, eta = case[0], mean_of(case, "eta")
            numbers = [eta, mean_of(case, "eta of random axes"), mean_of(case, "bound35")]
            numbers.append(eta * FACTORS[r["set"]][place])
            rows.append([r["set"], r["n"], r["d"], r["k"], f"{r['epsilon']:g}", *(f"{v:.3g}" for v in numbers)])
        out.append(f"### eta against {against} (Figure {figure})\n\n" + table(heads, rows))
    out.append(verdicts(found))
    return "\n\n".join(out)


def verdicts(found: list[Row]) -> str:
    """What of the paper's sentences can be checked; it prints pictures and no number."""

    def trend(name: str, against: str, measure: str) -> list[float]:
        return [mean_of(case, measure) for case in cases_of([r for r in found if r["set"] == name], (against,))]

    names = list(dict.fromkeys(r["set"] for r in found))
    heads = ["set", "theta falls with k", "theta falls with n", "eta falls with k", "eta rises with epsilon"]
    heads += ["largest eta", "largest eta as scaled (Fig. 3, Fig. 4)"]
    rows = []
    for name in names:
        falls = [trend(name, *case) for case in (("k", "theta"), ("n", "theta"), ("k", "eta"))]
        rises = trend(name, "epsilon", "eta")
        told = ["yes" if all(np.diff(values) < 0) else "no" for values in falls]
        told.append("yes" if all(np.diff(rises) > 0) else "no")
        scaled = [max(falls[2]) * FACTORS[name][1], max(rises) * FACTORS[name][2]]
        rows.append([name, *told, f"{max(falls[2] + rises):.3g}", ", ".join(f"{s:.3g}" for s in scaled)])
    other = "; ".join(
        f"{name} {n} x {d}, theta sqrt(k) = {noise_ratio_expected(n, d, 1):.3g}"
        for name, (n, d) in PAPER_SIZES.items()
        if name in names
    )
    return (
        "### What can be compared\n\n"
        + table(heads, rows)
        + "\n\nThe paper prints these figures as pictures: no number, no epsilon for Figure 3, no k for Figures 2 "
        "and 4, no n; only its directions and its 'below 1' can be checked. Here epsilon = 1 against k and n, and k "
        "holds 85 % against n and epsilon. theta depends on n, d and k alone (docs/proofs/published-lop.md)"
        + (f"; tables of the paper's own size would have: {other}." if other else ".")
    )


# ------------------------------------------------------------------------------------------------ tables and pictures


def pick(rows: list[Row], measure: str, **wanted: Any) -> Reals:
    return np.array([r[measure] for r in rows if all(r[key] == value for key, value in wanted.items())])


def spread(values: Reals) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) if len(values) > 1 else 0.0:.3f}" if len(values) else "-"


def mean_of(case: list[Row], measure: str) -> float:
    return float(np.mean([r[measure] for r in case]))


def cases_of(found: list[Row], against: Sequence[str]) -> list[list[Row]]:
    """Runs that differ in nothing but their noise, in order."""
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for r in found:
        if r["against"] in against:
            cases.setdefault((r["set"], r["against"], r["value"]), []).append(r)
    return list(cases.values())


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


COLOURS = ("#0b5394", "#b45f06", "#38761d", "#741b47", "#666666", "#bf9000", "#0f7b7b")
DASHES = ("7 4", "2 3", "10 3 2 3")
Curve = list[tuple[float, float, float]]
"""Points with their standard deviation."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A small chart with a logarithmic x axis."""

    title: str
    x_name: str
    y_name: str
    curves: dict[str, Curve]
    levels: dict[str, float]
    """Horizontal lines."""
    log: bool = False

    def drawn(self, left: float, top: float, wide: float = 330.0, high: float = 210.0) -> str:
        """As SVG, its frame at this place."""
        points = [p for curve in self.curves.values() for p in curve]
        xs = sorted({p[0] for p in points})
        low, high_x = math.log10(xs[0]), math.log10(xs[-1])
        ends = [y for _, y, sd in points for y in ((y - sd, y + sd) if not self.log else (y,))]
        ends += list(self.levels.values())
        bottom, ceiling = (min(ends), max(ends)) if self.log else (min(0.0, *ends), max(1.0, *ends))
        if self.log:
            bottom, ceiling = 10.0 ** math.floor(math.log10(bottom)), 10.0 ** math.ceil(math.log10(ceiling))

        def across(x: float) -> float:
            return left + wide * (math.log10(x) - low) / max(high_x - low, 1e-9)

        def up(y: float) -> float:
            share = (
                (math.log10(y) - math.log10(bottom)) / max(math.log10(ceiling) - math.log10(bottom), 1e-9)
                if self.log
                else (y - bottom) / (ceiling - bottom)
            )
            return top + high * (1 - share)

        out = [
            f'<text x="{left}" y="{top - 12}" font-weight="bold">{escape(self.title)}</text>',
            f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>',
            f'<text x="{left + wide / 2}" y="{top + high + 34}" text-anchor="middle">{escape(self.x_name)}</text>',
            f'<text transform="translate({left - 46} {top + high / 2}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y_name)}</text>",
        ]
        taken = -math.inf
        for x in xs:
            if across(x) - taken > 12 + 6 * len(f"{x:g}"):  # no number on top of another
                taken = across(x)
                out.append(f'<text x="{taken:.1f}" y="{top + high + 16}" text-anchor="middle">{x:g}</text>')
        if self.log:
            first, last = round(math.log10(bottom)), round(math.log10(ceiling))
            ticks = [10.0**i for i in range(first, last + 1, max(1, (last - first) // 5))]
        else:
            ticks = [0.2 * i for i in range(math.ceil(bottom / 0.2), math.floor(ceiling / 0.2) + 1)]
        for y in ticks:
            out.append(
                f'<line x1="{left}" x2="{left + wide}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#e5e5e5"/>'
                f'<text x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>'
            )
        for dash, y in zip(DASHES, self.levels.values(), strict=False):
            out.append(
                f'<line x1="{left}" x2="{left + wide}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#444" '
                f'stroke-dasharray="{dash}"/>'
            )
        for colour, curve in zip(COLOURS, self.curves.values(), strict=False):
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _ in curve)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            for x, y, sd in curve:
                out.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.6" fill="{colour}"/>')
                if sd > 0 and not self.log:
                    out.append(
                        f'<line x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{up(y - sd):.1f}" '
                        f'y2="{up(y + sd):.1f}" stroke="{colour}"/>'
                    )
        legend = [
            (name, f'stroke="{colour}" stroke-width="4"') for colour, name in zip(COLOURS, self.curves, strict=False)
        ]
        legend += [
            (name, f'stroke="#444" stroke-dasharray="{dash}"') for dash, name in zip(DASHES, self.levels, strict=False)
        ]
        for i, (name, look) in enumerate(legend):
            x, y = left + wide + 10, top + 10 + 16 * i
            out.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" {look}/>')
            out.append(f'<text x="{x + 28}" y="{y}">{escape(name)}</text>')
        return "\n".join(out)


def sheet(panels: Sequence[Panel], across: int) -> str:
    """Panels side by side on white, as one SVG."""
    wide, high = 540, 300
    rows = -(-len(panels) // across)
    parts = [p.drawn(70 + wide * (i % across), 40 + high * (i // across)) for i, p in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide * across} {high * rows}" '
        f'width="{wide * across}" height="{high * rows}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def curve(rows: list[Row], measure: str, **wanted: Any) -> Curve:
    epsilons = sorted({r["epsilon"] for r in rows if all(r[k] == v for k, v in wanted.items())})
    values = [(e, pick(rows, measure, epsilon=e, **wanted)) for e in epsilons]
    return [(e, float(v.mean()), float(v.std(ddof=1)) if len(v) > 1 else 0.0) for e, v in values]


def axes_picture(found: list[Row], studies: Sequence[Study]) -> str:
    panels = []
    for study in studies:
        ours = [r for r in found if r["set"] == study.name]
        levels = {
            "lop, public basis": float(pick(ours, "captured", mechanism="lop").mean()),
            "random axes": float(pick(ours, "captured", mechanism="random").mean()),
        }
        title = f"{study.name}: {ours[0]['n']} x {ours[0]['d']}, k = {ours[0]['k']}"
        curves = {name: curve(ours, "captured", mechanism=name) for name in titles(found)}
        panels.append(Panel(title, "epsilon", "captured variance", curves, levels))
    return sheet(panels, 2)


def svm_picture(found: list[Row]) -> str:
    panels = []
    for name in dict.fromkeys(r["set"] for r in found):
        ours = [r for r in found if r["set"] == name]
        levels = {v: float(pick(ours, "accuracy", variant=v).mean()) for v in REFERENCES[:3]}
        for variant in VARIANTS:
            curves = {m: curve(ours, "accuracy", variant=variant, mechanism=m) for m in SVM_MECHANISMS}
            curves = {m: c for m, c in curves.items() if c}
            panels.append(Panel(f"{name}, k = {ours[0]['k']}: {variant}", "epsilon", "accuracy", curves, levels))
    return sheet(panels, len(VARIANTS))


def ratio_picture(found: list[Row]) -> str:
    names = list(dict.fromkeys(r["set"] for r in found))
    panels = []
    for figure, against, measure in ((1, "k", "theta"), (2, "n", "theta"), (3, "k", "eta"), (4, "epsilon", "eta")):
        curves = {
            name: [
                (case[0]["value"], mean_of(case, measure), 0.0)
                for case in cases_of([r for r in found if r["set"] == name], (against,))
            ]
            for name in names
        }
        panels.append(
            Panel(f"Figure {figure}: {measure} against {against} (not scaled)", against, measure, curves, {}, log=True)
        )
    return sheet(panels, 2)


# --------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parts", default="noise,axes,centred,svm,ratios")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--svm-sets", default="semeion,waveform21,waveform40")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="a small table made up here, twice each")
    options = parser.parse_args()
    epsilons, finer = [0.1, 1.0, 10.0], [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    if options.quick:
        options.data, options.repeats, finer = None, 2, [0.1, 10.0]
    elif options.data is None:
        parser.error("give the folder of the data sets with --data, or --quick")
    names = ["made up"] if options.data is None else options.sets.split(",")
    wanted = options.parts.split(",")
    if options.data is not None and not set(names) <= set(SETS):
        parser.error(f"--sets takes {', '.join(SETS)}")
    studies = {}
    if {"axes", "centred", "noise", "svm"} & set(wanted):
        studies = {n: made_up() if options.data is None else SETS[n](options.data) for n in names}
    every = list(studies.values())
    chosen = [s for n, s in studies.items() if options.data is None or n in options.svm_sets.split(",")]
    pages, files = [], {}

    def part(title: str, found: list[Row], text: str, pictures: dict[str, str]) -> None:
        pages.append(f"## {title}\n\n{text}")
        print(f"{pages[-1]}\n", flush=True)
        name = title.split(":")[0].lower().replace(" ", "-")
        files.update({f"{name}.csv": as_csv(found)} | pictures)
        if options.out is not None:  # part by part, so that a long study loses nothing
            options.out.mkdir(parents=True, exist_ok=True)
            for file, content in (*files.items(), ("components.md", "\n\n".join(pages) + "\n")):
                (options.out / file).write_text(content, encoding="utf-8")

    if "noise" in wanted:
        rows = list(compare_noise(every))
        part("Noise: the second moment beside the paper's", rows, noise_table(rows), {})
    if "axes" in wanted:
        rows = list(compare_axes(every, epsilons, options.repeats, MECHANISMS))
        picture = {"axes.svg": axes_picture(rows, every)}
        part("Axes: against the exact ones", rows, axes_tables(rows, every), picture)
    if "centred" in wanted:
        rows = list(compare_axes(every, epsilons, options.repeats, CENTRED))
        picture = {"centred.svg": axes_picture(rows, every)}
        part("Centred: axes about the mean", rows, axes_tables(rows, every), picture)
    if "svm" in wanted and chosen:
        rows = list(classify(chosen, finer, options.repeats))
        part("SVM: accuracy against epsilon (Figure 5)", rows, svm_table(rows), {"svm.svg": svm_picture(rows)})
    if "ratios" in wanted:
        rows = list(paper_figures(names, options.data, options.repeats))
        part("Ratios: the paper's Figures 1 to 4", rows, ratio_tables(rows), {"ratios.svg": ratio_picture(rows)})


def as_csv(rows: list[Row]) -> str:
    with tempfile.TemporaryFile("w+", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
        file.seek(0)
        return file.read()


if __name__ == "__main__":
    main()
