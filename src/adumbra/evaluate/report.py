"""The owner's utility report: a release beside the table it was made from.

It reads the truth without noise, so every number in it is private. It is for the owner alone, it is no part of the
release, and nothing is ever written into the release folder.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adumbra.answer.release import Release, load
from adumbra.core.card import Card
from adumbra.core.column import Column
from adumbra.core.errors import InputError
from adumbra.core.release import DATA
from adumbra.core.schema import Schema
from adumbra.core.shown import shown
from adumbra.core.signature import PublicKey
from adumbra.core.space import GRID
from adumbra.evaluate.axes import AxesCheck, check_axes
from adumbra.evaluate.counts import CountsCheck, check_counts
from adumbra.evaluate.distances import DistanceCheck, check_distances
from adumbra.evaluate.tables import (
    EMPTY,
    ColumnFit,
    CorrelationFit,
    Layout,
    Tally,
    TwoWayFit,
    column_fits,
    correlation_fit,
    levels,
    public_order,
    read_tally,
    two_way_fit,
)
from adumbra.table.encode import check_columns
from adumbra.table.read import open_table
from adumbra.table.table import Table

__all__ = ["NOTICE", "Evaluation", "LabelFit", "Score", "evaluate_release"]

NOTICE = (
    "CONTAINS PRIVATE INFORMATION: for the owner of the table only, not part of the release. "
    "It measures the truth without noise."
)
_MAX_ROWS = 50_000
_MAX_NUMBERS = 2**26  # of one table in memory for training: 256 MB
_MAX_CLASSES = 50
_PAIRS = 2000

Reals = NDArray[np.float64]
Features = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


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


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A release beside the truth. Private: for the owner, never for the release.

    A release of rows in the schema's own columns has `columns`, `correlation`, `two_way` and `labels`; a release of
    projected rows has `distances`, one of principal axes has `axes`, one of counted cells has `counts`. `predicted` is
    what the card foretold of `marginal_tv` and `correlation`.
    """

    notice: str
    table: str
    mechanism: str
    promise: str
    truth_rows: int
    release_rows: int
    marginal_tv: float | None = None
    """Mean over columns of the total variation."""
    predicted: dict[str, float] | None = None
    correlation: CorrelationFit | None = None
    two_way: TwoWayFit | None = None
    columns: tuple[ColumnFit, ...] = ()
    labels: tuple[LabelFit, ...] = ()
    distances: DistanceCheck | None = None
    axes: AxesCheck | None = None
    counts: CountsCheck | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the notice first."""
        return asdict(self)

    def to_json(self) -> str:
        """The same as one JSON document."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        return f"Evaluation(private: {shown(self.table)} by {shown(self.mechanism)}, {self.truth_rows} true rows)"


def evaluate_release(
    release: Release | str | Path,
    truth: Any,
    test: Any = None,
    label: str | None = None,
    *,
    delimiter: str | None = None,
    progress: Progress | None = None,
    public_key: PublicKey | None = None,
) -> Evaluation:
    """Measure a release against the table it was made from.

    Guarantee: the truth is read as the release read it (declared ranges, fallbacks); bins, pairs and the choice of
    rows depend on the schema and on numbers of rows only; the release folder is only read; the same input gives the
    same report. It protects nothing: the result is private.

    Edge cases: without `test`, models are tested on a fixed quarter of the truth that the real and shuffled ones did
    not train on. `label` replaces the labels of the schema. Rows without a class are left out of training and testing;
    an empty number is where the release puts it. A class that the release lacks is predicted by nobody and counts as
    missed. A changed folder, or one that the holder of `public_key` did not sign, is `Refused`; a table with other
    columns, an unknown or constant label is an `InputError`.

    >>> import polars as pl
    >>> from adumbra import Budget, DPPro
    >>> from adumbra import release as make
    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 110}}})
    >>> people = pl.DataFrame({"age": [34, 71, 8, 52]})
    >>> done = make(people, schema, DPPro(dimension=1), Budget(epsilon=1.0, unit="cell"))
    >>> evaluate_release(done, people).distances.pairs
    2000
    """
    say = progress or (lambda step, done, total: None)
    opened = load(release.path if isinstance(release, Release) else release)
    opened.demand(public_key)  # a changed file would be blamed on the mechanism
    schema = Schema.from_dict(opened.card.table_schema)
    source = _opened(truth, delimiter, schema, "the truth", "give the table that the release was made from")
    if "bands" in opened.card.parameters:
        return _projected(opened, schema, source, truth, delimiter, test, label, say)
    if "domain" in opened.card.parameters:
        note = "ranges and cells are fixed by the shape of the domain; released rows are its cells"
        counts = partial(check_counts, opened, source, schema)
        return _beside_the_truth(opened, source, test, label, say, "counted cells", note, counts=counts)
    made = open_table(opened.path / DATA)
    if "axes" in opened.card.answers and opened.card.parameters["result"] in ("axes", "coordinates"):
        note = "axes about the centre of the release; angles and variances are of rows cut as the card says"
        axes = partial(check_axes, opened, source, schema)
        return _beside_the_truth(opened, source, test, label, say, "principal axes", note, axes=axes)
    if sorted(made.columns) != sorted(column.name for column in schema.released):
        raise InputError(
            "a release of rows in the schema's own columns, of projected rows (dppro), principal axes or counted cells",
            f"one of {opened.card.mechanism}, which is neither",
            "this report has nothing to compare it with",
        )
    labels = _labels(schema, label)
    held_out = None
    if test is not None:
        held_out = _opened(test, delimiter, schema, "the test table", "give rows with the columns of the truth")
        _counted(held_out, "the test table")
    return _synthetic(opened.card, schema, source, made, held_out, labels, label is not None, say)


def _opened(given: Any, delimiter: str | None, schema: Schema, what: str, remedy: str) -> Table:
    table = open_table(given, delimiter=delimiter)
    try:
        check_columns(schema, table.columns, table.types)
    except InputError as error:  # its own remedy is to change the schema, which a release has settled
        raise InputError(
            f"{what} with the columns of the release's schema: {error.expected}", error.got, remedy
        ) from None
    return table


def _counted(table: Table, what: str) -> int:
    try:
        return table.count()
    except InputError as error:
        raise InputError(f"{what}: {error.expected}", error.got, error.remedy) from None


def _promise(card: Card) -> str:
    return f"epsilon {card.epsilon:g}, delta {card.delta:g}, unit {card.unit}, relation {card.relation}"


# ---- rows in the schema's own columns


def _synthetic(
    card: Card,
    schema: Schema,
    truth: Table,
    made: Table,
    test: Table | None,
    labels: list[Column],
    asked: bool,
    say: Progress,
) -> Evaluation:
    layout = Layout(schema)
    keep = min(_MAX_ROWS, max(1, _MAX_NUMBERS // layout.space.width)) if labels else 0
    say("reading the truth", 0, 0)
    _counted(truth, "the truth")
    true = read_tally(truth, layout, keep)
    for column in labels:
        _check_varies(column, true)
    say("reading the release", 0, 0)
    _counted(made, "the release")
    released = read_tally(made, layout, keep)
    held_out = None
    if test is not None and labels:
        say("reading the test table", 0, 0)
        held_out = read_tally(test, layout, keep)
    columns = column_fits(true, released)
    correlation, two_way = correlation_fit(true, released), two_way_fit(true, released)
    notes = _coverage_notes(schema, columns, correlation, two_way)
    features = _features(layout, labels)
    if labels and not features.any():
        if asked:
            raise InputError("a column beside the labels to predict from", "none", "leave --label out")
        notes.append("no models: there is no column beside the labels to predict from")
        labels = []
    if labels:
        notes += _model_notes(keep, test is not None)
    fits = tuple(_label_fit(column, layout, features, true, released, held_out, say) for column in labels)
    return Evaluation(
        notice=NOTICE,
        table=card.table,
        mechanism=card.mechanism,
        promise=_promise(card),
        truth_rows=true.rows,
        release_rows=released.rows,
        marginal_tv=float(np.mean([column.total_variation for column in columns])),
        predicted=_predicted(card),
        correlation=correlation,
        two_way=two_way,
        columns=columns,
        labels=fits,
        notes=tuple(notes),
    )


def _predicted(card: Card) -> dict[str, float] | None:
    """What the card foretold, as far as it reads as numbers."""
    given = card.parameters.get("predicted_error")
    if not isinstance(given, dict):
        return None
    return {
        key: float(given[key])
        for key in ("marginal_tv", "correlation")
        if isinstance(given.get(key), int | float) and math.isfinite(given[key])
    } or None


def _coverage_notes(
    schema: Schema, columns: tuple[ColumnFit, ...], correlation: CorrelationFit | None, two_way: TwoWayFit | None
) -> list[str]:
    notes = []
    if any(share.value == EMPTY and share.truth > 0 for column in columns for share in column.shares):
        notes.append(
            "cells of the truth that hold no declared value, in a column without a fallback, count as a value of "
            "their own, which a release does not have"
        )
    if long := [c.name for c in schema.released if c.role == "label" and len(c.values) > _MAX_CLASSES]:
        notes.append(f"no models for labels of more than {_MAX_CLASSES} values: {', '.join(long)}")
    if correlation is not None and correlation.coordinates < correlation.of_coordinates:
        notes.append(
            f"correlations: a fixed public sample of {correlation.coordinates} of {correlation.of_coordinates} "
            "coordinates"
        )
    if two_way is not None and two_way.pairs < two_way.of_pairs:
        notes.append(f"two-way tables: a fixed public sample of {two_way.pairs} of {two_way.of_pairs} pairs")
    return notes


# ---- models


def _labels(schema: Schema, wanted: str | None) -> list[Column]:
    if wanted is None:
        # a label that no model can learn is not worth refusing the rest of the report for
        return [c for c in schema.released if c.role == "label" and len(c.values) <= _MAX_CLASSES]
    column = schema.column(wanted)
    if column.role == "drop":
        raise InputError("a label that is released", f"{wanted!r}, which the schema drops", "choose another --label")
    if len(column.values) > _MAX_CLASSES:
        raise InputError(
            f"a label of at most {_MAX_CLASSES} values",
            f"{wanted!r} with {len(column.values)}",
            "choose another --label",
        )
    return [column]


def _is_regression(column: Column) -> bool:
    return column.kind == "number" and levels(column) is None


def _check_varies(column: Column, truth: Tally) -> None:
    index = truth.layout.names.index(column.name)
    if _is_regression(column):
        varies = not bool(truth.constant[truth.layout.block(index).start])
    else:
        varies = int(np.count_nonzero(truth.counts[index][: _class_count(column)])) > 1
    if not varies:
        raise InputError(
            f"a label {column.name!r} that takes at least two values in the truth",
            "at most one",
            "choose another --label",
        )


def _class_count(column: Column) -> int:
    return 2 if column.kind == "flag" else len(column.values) or cast(int, levels(column))


def _features(layout: Layout, labels: list[Column]) -> NDArray[np.bool_]:
    """Coordinates to predict from: none of a label of the schema, nor of the one asked for."""
    chosen = np.ones(layout.space.width, dtype=np.bool_)
    for index, column in enumerate(layout.columns):
        if column.role == "label" or column in labels:
            chosen[layout.block(index)] = False
    return chosen


def _model_notes(keep: int, held_out: bool) -> list[str]:
    notes = [f"models use at most {keep:,} rows of each table, chosen by row number alone"]
    if not held_out:
        notes.append(
            "models are tested on a fixed quarter of the truth, which the models trained on the truth did not see; "
            "the release was made from all of it, so a held-out table (--test) is the better judge"
        )
    return notes


@dataclass(frozen=True)
class _Rows:
    """Features in encoded units, and labels: codes of classes, or numbers (R squared is free of their unit)."""

    x: Features
    y: Reals

    def pick(self, order: NDArray[np.int64]) -> _Rows:
        return _Rows(self.x[order], self.y[order])


def _rows(column: Column, features: NDArray[np.bool_], tally: Tally) -> _Rows:
    """Features and label of the kept rows that have a label."""
    layout = tally.layout
    index = layout.names.index(column.name)
    block = tally.kept[:, layout.block(index)]
    if _is_regression(column):
        return _Rows(tally.kept[:, features], block[:, 0].astype(np.float64))
    code = layout.cells[index].of(block.astype(np.float64) * GRID)
    known = code < _class_count(column)
    return _Rows(tally.kept[known][:, features], code[known].astype(np.float64))


def _label_fit(
    column: Column,
    layout: Layout,
    features: NDArray[np.bool_],
    truth: Tally,
    release: Tally,
    test: Tally | None,
    say: Progress,
) -> LabelFit:
    real, made = _rows(column, features, truth), _rows(column, features, release)
    if test is None:
        order = public_order(len(real.y), "quarter")
        cut = max(1, len(order) // 4)
        judge, real = real.pick(np.sort(order[:cut])), real.pick(np.sort(order[cut:]))
    else:
        judge = _rows(column, features, test)
    if len(judge.y) == 0:
        raise InputError(f"test rows with the label {column.name!r}", "none", "give a --test table that has it")
    shuffled = replace(real, y=real.y[public_order(len(real.y), "shuffled labels")])
    names = [] if _is_regression(column) else layout.cells[layout.names.index(column.name)].names()
    judged = _Regression(judge) if _is_regression(column) else _Classification(judge, _class_count(column), real.y)
    training = {"release": made, "truth": real, "truth, labels shuffled": shuffled}
    scores = []
    for model in judged.models:
        for name, rows in training.items():
            say(f"{column.name}: {model} trained on the {name}", 0, 0)
            scores.append(Score(model, name, judged.score(model, rows)))
    scores.append(Score(judged.baseline, "truth", judged.score(judged.baseline, real)))
    present = set(np.unique(made.y).astype(int).tolist())
    return LabelFit(
        label=column.name,
        task="regression" if _is_regression(column) else "classification",
        positive=names[judged.positive] if judged.positive is not None else None,
        tested_on="a quarter of the truth" if test is None else "the test table",
        test_rows=len(judge.y),
        release_rows=len(made.y),
        truth_rows=len(real.y),
        absent=tuple(
            name
            for code, name in enumerate(names[: _class_count(column)] if names else [])
            if code not in present and (real.y == code).any()
        ),
        scores=tuple(scores),
    )


class _Classification:
    """Scores classifiers on the test rows: accuracy, balanced accuracy, average precision."""

    models = ("random forest", "logistic regression")
    baseline = "majority class"

    def __init__(self, test: _Rows, classes: int, truth: Reals) -> None:
        self._test = test
        self._y = test.y.astype(np.int64)
        self._classes = classes
        counts = np.bincount(truth.astype(np.int64), minlength=classes)
        seen = np.flatnonzero(counts + np.bincount(self._y, minlength=classes))
        self.positive = int(seen[counts[seen].argmin()]) if len(seen) == 2 else None

    def score(self, model: str, rows: _Rows) -> dict[str, float | None]:
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

    def _probabilities(self, model: str, rows: _Rows) -> Reals:
        """A column for every declared class; 0 for those that the training rows lack."""
        out = np.zeros((len(self._y), self._classes))
        labels = rows.y.astype(np.int64)
        present, counts = np.unique(labels, return_counts=True)
        if model == self.baseline or len(present) == 1:
            out[:, present[counts.argmax()]] = 1.0
            return out
        fitted = _fitted(model, rows.x, labels)
        out[:, fitted.classes_] = fitted.predict_proba(self._test.x)
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

    def __init__(self, test: _Rows) -> None:
        self._test = test
        self._total = float(((test.y - test.y.mean()) ** 2).sum())

    def score(self, model: str, rows: _Rows) -> dict[str, float | None]:
        """Train on the rows and test. A constant test label, or no rows, leaves no score."""
        if len(rows.y) == 0 or self._total == 0:
            return {"r_squared": None}
        guess = rows.y.mean() if model == self.baseline else _fitted(model, rows.x, rows.y).predict(self._test.x)
        return {"r_squared": float(1.0 - ((self._test.y - guess) ** 2).sum() / self._total)}


def _fitted(model: str, x: Features, y: NDArray[Any]) -> Any:
    """A trained model with fixed seeds, scikit-learn's defaults otherwise; linear models are standardised."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    if model == "random forest":
        kind = RandomForestClassifier if y.dtype == np.int64 else RandomForestRegressor
        forest = kind(random_state=0, n_jobs=_threads()).fit(x, y)
        # threads add the trees' votes in any order, which would change the last digit from run to run
        return forest.set_params(n_jobs=1)
    last = Ridge(random_state=0) if model == "ridge" else LogisticRegression(max_iter=1000, random_state=0)
    whole = make_pipeline(FunctionTransformer(np.float64), StandardScaler(), last)
    with warnings.catch_warnings():  # a fit stopped after 1000 steps is still a fit, and its score is measured
        warnings.simplefilter("ignore", ConvergenceWarning)
        return whole.fit(x, y)


def _threads() -> int:
    """One, unless `ADUMBRA_THREADS` says otherwise."""
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        return 1


# ---- projected rows


def _projected(
    release: Release,
    schema: Schema,
    truth: Table,
    given: Any,
    delimiter: str | None,
    test: Any,
    label: str | None,
    say: Progress,
) -> Evaluation:
    """Seen against predicted error of squared distances: the rows are aligned with the truth, in another space."""
    import polars as pl

    card = release.card
    _no_models(test, label, "projected rows")
    say("reading the truth", 0, 0)
    rows = _counted(truth, "the truth")
    if rows != card.rows:
        raise InputError(
            f"the table that the release was made from, with {card.rows} rows",
            f"{rows} rows",
            "give that table: released and true rows are compared by their number",
        )
    source = given
    if delimiter is not None or (isinstance(given, str | Path) and not Path(given).is_file()):
        # a stream cannot be opened twice, and the check below opens its table itself
        source = pl.concat(list(truth.batches([column.name for column in schema.released])))
    pairs = release.random_pairs(_PAIRS)
    say("comparing distances", 0, 0)
    notes = [f"squared distances of {_PAIRS} fixed random pairs of rows, in encoded units"]
    if card.row_bound is not None:
        notes.append("rows were clipped to the row bound before the release; that counts as error here")
    return Evaluation(
        notice=NOTICE,
        table=card.table,
        mechanism=card.mechanism,
        promise=_promise(card),
        truth_rows=rows,
        release_rows=rows,
        distances=check_distances(release, source, schema, pairs),
        notes=tuple(notes),
    )


# ---- principal axes, counted cells


def _beside_the_truth(
    release: Release, truth: Table, test: Any, label: str | None, say: Progress, what: str, note: str, **found: Any
) -> Evaluation:
    """An evaluation of something that is no table of rows: `found` makes its one field, when all else was checked."""
    card = release.card
    _no_models(test, label, what)
    say("reading the truth", 0, 0)
    return Evaluation(
        notice=NOTICE,
        table=card.table,
        mechanism=card.mechanism,
        promise=_promise(card),
        truth_rows=_counted(truth, "the truth"),
        release_rows=card.rows,
        notes=(note,),
        **{name: check() for name, check in found.items()},
    )


def _no_models(test: Any, label: str | None, what: str) -> None:
    if test is not None or label is not None:
        raise InputError(
            f"neither --test nor --label for a release of {what}",
            "one of them",
            "leave it out: models are compared for rows in the schema's own columns",
        )
