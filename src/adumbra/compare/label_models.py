"""What models learn about a label from a release, and from the truth, tested on the same true rows (owner's side)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Progress, Reals
from adumbra.compare.compared_cells import is_set, single_values
from adumbra.compare.comparison import MOST_SHOWN, more, share
from adumbra.compare.table_layout import CellLayout, public_order
from adumbra.compare.table_tally import Tally
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.numerics.integer_kernels import worker_threads
from adumbra.report.document import Note, Section, Table

__all__ = [
    "MAX_CLASSES",
    "LabelFit",
    "Score",
    "check_varies",
    "feature_coordinates",
    "label_fit",
    "labels_of",
]

MAX_CLASSES = 50
"""A label of more values is left alone."""

Features = NDArray[np.float32]


@dataclass(frozen=True)
class Score:
    """One model on the test rows. `metrics` is None where the test rows do not settle it (no such class in them)."""

    model: str
    trained_on: str
    metrics: dict[str, float | None]


@dataclass(frozen=True)
class LabelFit:
    """What models learn about one label from the release, and from the truth, tested on the same true rows."""

    label: str
    task: str
    positive: str | None
    """The class that AUPRC is about (two classes: the rarer one in the truth); None: the mean over classes."""
    tested_on: str
    test_rows: int
    release_rows: int
    truth_rows: int
    absent: tuple[str, ...]
    """Classes of the truth that the release does not hold."""
    scores: tuple[Score, ...]

    def section(self) -> Section:
        """A table of the scores."""
        metrics = list(self.scores[0].metrics)
        title = f"predicting {self.label}, tested on {self.test_rows} rows ({self.tested_on})"
        if self.positive is not None:
            title += f"; auprc is for {self.positive}"
        elif self.task == "classification":
            title += "; auprc is the mean over classes"
        rows = tuple(
            (
                score.model,
                score.trained_on,
                self.release_rows if score.trained_on == "release" else self.truth_rows,
                *(share(score.metrics[name]) for name in metrics),
            )
            for score in self.scores
        )
        table = Table(("model", "trained on", "rows", *(name.replace("_", " ") for name in metrics)), rows)
        if not self.absent:
            return Section(title, (table,))
        some = ", ".join(self.absent[:MOST_SHOWN])
        missing = f"classes of {self.label} that the release does not hold: {some}{more(len(self.absent))}"
        return Section(title, (table, Note(missing)))


def labels_of(schema: Schema, compared: Schema, wanted: str | None) -> list[Column]:
    """The column asked for; or the labels of the schema that models can learn.

    `schema` is that of the release, `compared` has the columns that are read of every table, `wanted` is the label
    asked for.
    """
    if wanted is None:
        # a label that no model can learn is not worth refusing the rest of the report for
        return [c for c in compared.measured if c.role == "label" and len(c.values) <= MAX_CLASSES and not is_set(c)]
    column = schema.column(wanted)
    if column.role == "drop" or column.role == "id":
        what = "drops" if column.role == "drop" else "declares an id"
        raise InputError("a label that is released", f"{wanted!r}, which the schema {what}", "choose another --label")
    if wanted not in [c.name for c in compared.measured]:
        raise InputError("a label that every table has", f"{wanted!r}, which one lacks", "choose another --label")
    if is_set(column):
        raise InputError("a label with one value in a cell", f"{wanted!r}, a set", "choose another --label")
    if len(column.values) > MAX_CLASSES:
        raise InputError(
            f"a label of at most {MAX_CLASSES} values",
            f"{wanted!r} with {len(column.values)}",
            "choose another --label",
        )
    return [compared.column(wanted)]


def check_varies(column: Column, truth: Tally) -> None:
    """Refuse a label that the truth has one value of."""
    index = truth.layout.names.index(column.name)
    classes = single_values(column)
    varied = np.count_nonzero(truth.counts[index][:classes]) > 1
    if truth.constant(index) if classes is None else not varied:
        raise InputError(
            f"a label {column.name!r} that takes at least two values in the truth",
            "at most one",
            "choose another --label",
        )


def feature_coordinates(layout: CellLayout, labels: list[Column]) -> NDArray[np.bool_]:
    """Coordinates to predict from: none of a label of the schema, nor of the one asked for."""
    chosen = np.ones(layout.space.width, dtype=np.bool_)
    for index, column in enumerate(layout.columns):
        if column.role == "label" or column in labels:
            chosen[layout.block(index)] = False
    return chosen


@dataclass(frozen=True)
class _LabelRows:
    """Features in encoded units, nan where a number is not there; and labels.

    Those are codes of classes, or numbers (R squared is free of their unit).
    """

    x: Features
    y: Reals

    def pick(self, order: NDArray[np.int64]) -> _LabelRows:
        return _LabelRows(self.x[order], self.y[order])


@dataclass(frozen=True)
class _LabelReading:
    """How rows become features and a label, the same for every table.

    An empty category is 0 in all its coordinates, as it is encoded. An empty number or flag is to take the mean of the
    table that a model is trained on, and another coordinate says that it was empty; `gaps` are the coordinates of
    columns with an empty cell in any of the tables.
    """

    layout: CellLayout
    column: Column
    features: NDArray[np.bool_]
    gaps: NDArray[np.int64]

    @staticmethod
    def of(column: Column, features: NDArray[np.bool_], tallies: list[Tally]) -> _LabelReading:
        layout = tallies[0].layout
        gaps = [
            block.start
            for index, block in enumerate(layout.space.blocks)
            if block.kind in ("number", "flag") and features[block.start] and any(t.missing(index) for t in tallies)
        ]
        return _LabelReading(layout, column, features, np.array(gaps, dtype=np.int64))

    def rows(self, tally: Tally) -> _LabelRows:
        """Features and label of the kept rows that have a label."""
        index = self.layout.names.index(self.column.name)
        block = tally.kept[:, self.layout.block(index)]
        if single_values(self.column) is None:
            known, label = block[:, 0] != 0, block[:, 0].astype(np.float64)
        else:
            cells = self.layout.cells[index]
            label = cells.of(block.astype(np.float64) * GRID).astype(np.float64)
            known = label < cells.count - 1
        kept = tally.kept[known]
        x = kept[:, self.features]
        if len(self.gaps):
            empty = kept[:, self.gaps] == 0
            places = np.cumsum(self.features)[self.gaps] - 1
            x[:, places] = np.where(empty, np.float32(np.nan), x[:, places])
            x = np.hstack([x, empty.astype(np.float32)])
        return _LabelRows(x, label[known])


def label_fit(
    column: Column, features: NDArray[np.bool_], truth: Tally, release: Tally, test: Tally | None, progress: Progress
) -> LabelFit:
    """Train models of one label and test them.

    `column` is the label, `features` the coordinates to predict it from. Models learn from `release` and from
    `truth`, and are tested on `test`, or where there is none on a fixed quarter of `truth`.
    `progress(step, done, total)` is called before each model.
    """
    layout = truth.layout
    tables = [truth, release] + ([] if test is None else [test])
    reading = _LabelReading.of(column, features, tables)
    real, made = reading.rows(truth), reading.rows(release)
    if test is None:
        order = public_order(len(real.y), "quarter")
        cut = max(1, len(order) // 4)
        judge, real = real.pick(np.sort(order[:cut])), real.pick(np.sort(order[cut:]))
    else:
        judge = reading.rows(test)
    if len(judge.y) == 0:
        raise InputError(f"test rows with the label {column.name!r}", "none", "give a --test table that has it")
    shuffled = replace(real, y=real.y[public_order(len(real.y), "shuffled labels")])
    classes = single_values(column)
    names = [] if classes is None else layout.cells[layout.names.index(column.name)].names()[:classes]
    judged = _Regression(judge) if classes is None else _Classification(judge, classes, real.y)
    training = {"release": made, "truth": real, "truth, labels shuffled": shuffled}
    scores = []
    for model in judged.models:
        for name, rows in training.items():
            progress(f"{column.name}: {model} trained on the {name}", 0, 0)
            scores.append(Score(model, name, judged.score(model, rows)))
    scores.append(Score(judged.baseline, "truth", judged.score(judged.baseline, real)))
    present = set(np.unique(made.y).astype(int).tolist())
    return LabelFit(
        label=column.name,
        task="regression" if classes is None else "classification",
        positive=names[judged.positive] if judged.positive is not None else None,
        tested_on="a quarter of the truth" if test is None else "the test table",
        test_rows=len(judge.y),
        release_rows=len(made.y),
        truth_rows=len(real.y),
        absent=tuple(name for code, name in enumerate(names) if code not in present and (real.y == code).any()),
        scores=tuple(scores),
    )


class _Classification:
    """Scores classifiers on the test rows: accuracy, balanced accuracy, average precision."""

    models = ("random forest", "logistic regression")
    baseline = "majority class"

    def __init__(self, test: _LabelRows, classes: int, truth: Reals) -> None:
        self._test = test
        self._y = test.y.astype(np.int64)
        self._classes = classes
        counts = np.bincount(truth.astype(np.int64), minlength=classes)
        seen = np.flatnonzero(counts + np.bincount(self._y, minlength=classes))
        self.positive = int(seen[counts[seen].argmin()]) if len(seen) == 2 else None

    def score(self, model: str, rows: _LabelRows) -> dict[str, float | None]:
        """Train on the rows and test. Without rows there is no model, and no score."""
        if len(rows.y) == 0:
            return dict.fromkeys(("accuracy", "balanced_accuracy", "auprc"))
        chance = self._probabilities(model, rows)
        hit = chance.argmax(axis=1) == self._y
        recalls = [float(hit[self._y == code].mean()) for code in np.unique(self._y)]
        return {
            "accuracy": float(hit.mean()),
            "balanced_accuracy": float(np.mean(recalls)),
            "auprc": self._average_precision(chance),
        }

    def _probabilities(self, model: str, rows: _LabelRows) -> Reals:
        """A column for every declared class; 0 for those that the training rows lack."""
        out = np.zeros((len(self._y), self._classes))
        labels = rows.y.astype(np.int64)
        present, counts = np.unique(labels, return_counts=True)
        if model == self.baseline or len(present) == 1:
            out[:, present[counts.argmax()]] = 1.0
            return out
        known, asked = _filled(rows.x, self._test.x)
        fitted = _fitted(model, known, labels)
        out[:, fitted.classes_] = fitted.predict_proba(asked)
        return out

    def _average_precision(self, chance: Reals) -> float | None:
        from sklearn.metrics import average_precision_score

        codes = np.unique(self._y) if self.positive is None else np.array([self.positive])
        found = [float(average_precision_score(self._y == code, chance[:, code])) for code in codes if code in self._y]
        return float(np.mean(found)) if found else None


class _Regression:
    """Scores regressions on the test rows: R squared, which has no floor."""

    models = ("random forest", "ridge")
    baseline = "mean"
    positive = None

    def __init__(self, test: _LabelRows) -> None:
        self._test = test
        self._total = float(((test.y - test.y.mean()) ** 2).sum())

    def score(self, model: str, rows: _LabelRows) -> dict[str, float | None]:
        """Train on the rows and test. A constant test label, or no rows, leaves no score."""
        if len(rows.y) == 0 or self._total == 0:
            return {"r_squared": None}
        known, asked = _filled(rows.x, self._test.x)
        guess = rows.y.mean() if model == self.baseline else _fitted(model, known, rows.y).predict(asked)
        return {"r_squared": float(1.0 - ((self._test.y - guess) ** 2).sum() / self._total)}


def _filled(train: Features, test: Features) -> tuple[Features, Features]:
    """Both with the mean of the training rows where a number is not there; the middle of the range without any."""
    empty = np.isnan(train)
    if not empty.any() and not np.isnan(test).any():
        return train, test
    there = np.maximum(len(train) - np.count_nonzero(empty, axis=0), 1)
    means = (np.where(empty, 0.0, train).sum(axis=0, dtype=np.float64) / there).astype(np.float32)
    return np.where(empty, means, train), np.where(np.isnan(test), means, test)


def _fitted(model: str, x: Features, y: NDArray[Any]) -> Any:
    """A trained model with fixed seeds, scikit-learn's defaults otherwise; linear models are standardised."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    if model == "random forest":
        kind = RandomForestClassifier if y.dtype == np.int64 else RandomForestRegressor
        forest = kind(random_state=0, n_jobs=worker_threads(otherwise=1)).fit(x, y)
        # threads add the trees' votes in any order, which would change the last digit from run to run
        return forest.set_params(n_jobs=1)
    last = Ridge(random_state=0) if model == "ridge" else LogisticRegression(max_iter=1000, random_state=0)
    whole = make_pipeline(FunctionTransformer(np.float64), StandardScaler(), last)
    with warnings.catch_warnings():  # a fit stopped after 1000 steps is still a fit, and its score is measured
        warnings.simplefilter("ignore", ConvergenceWarning)
        return whole.fit(x, y)
