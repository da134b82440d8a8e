"""Released rows in the schema's own columns beside the true ones: columns, pairs, rules, models of a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.compare.comparison import MOST_SHOWN, Beside, Comparison, more, share
from adumbra.compare.label_models import (
    MAX_CLASSES,
    LabelFit,
    check_varies,
    feature_coordinates,
    label_fit,
    labels_of,
)
from adumbra.compare.rule_fit import RuleFit, rule_fits, rules_section
from adumbra.compare.table_fit import ColumnFit, CorrelationFit, column_fits, correlation_fit
from adumbra.compare.table_layout import CellLayout, compared_schema
from adumbra.compare.table_tally import read_tally
from adumbra.compare.two_way_fit import TwoWayFit, two_way_fit
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.report.document import Section, Table, Value
from adumbra.tables.table import Table as ReadTable

__all__ = ["TableComparison", "compare_tables"]

_CROWDED = 0.95
_MAX_ROWS = 50_000
_MAX_NUMBERS = 2**26  # of one table in memory for training: 256 MB


@dataclass(frozen=True)
class TableComparison(Comparison):
    """Rows in the schema's own columns in both tables."""

    marginal_tv: float
    """Mean over columns of the total variation."""
    predicted: dict[str, float] | None
    """What the card predicted of `marginal_tv`, `pair_tv` (the mean of `two_way`) and `correlation`."""
    correlation: CorrelationFit | None
    two_way: TwoWayFit | None
    columns: tuple[ColumnFit, ...]
    labels: tuple[LabelFit, ...]
    rules: tuple[RuleFit, ...] = ()
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """Errors, columns and pairs that are off most, rules, models."""
        rules = (rules_section(self.rules),) if self.rules else ()
        models = (label.section() for label in self.labels)
        return (self._errors(), *self._columns(), *self._pairs(), *rules, *models)

    def _errors(self) -> Section:
        predicted = self.predicted or {}
        rows: list[tuple[str, str | None, str | None]] = [
            ("total variation of a column, mean", share(self.marginal_tv), share(predicted.get("marginal_tv")))
        ]
        if self.two_way is not None:
            rows += self.two_way.errors(predicted.get("pair_tv"))
        if self.correlation is not None:
            seen, stated = share(self.correlation.mean), share(predicted.get("correlation"))
            rows += [
                (f"error of a correlation, mean of {self.correlation.pairs}", seen, stated),
                ("the same, largest between two columns", share(self.correlation.max), None),
            ]
        title = "errors: 0 is a perfect release, 1 the worst (correlations: 2)"
        return Section(title, (Table(("what", "seen", "predicted"), tuple(rows)),))

    def _columns(self) -> list[Section]:
        worst = sorted(self.columns, key=lambda column: -column.off)
        missing = any(c.truth_missing or c.release_missing for c in self.columns)
        repaired = any(c.repairs.missing or c.repairs.unknown or c.repairs.clipped for c in self.columns)
        heads: tuple[str, ...] = ("column", "kind", "total variation", "mean: truth", "release", "sd: truth", "release")
        if missing:
            heads = (*heads, "missing: truth", "release")
        if repaired:
            heads = (*heads, "missing, unknown, out of range in the truth")
        rows = []
        for c in worst[:MOST_SHOWN]:
            line: tuple[Value, ...] = (c.name, c.kind, share(c.total_variation), c.truth_mean, c.release_mean)
            line += (c.truth_sd, c.release_sd)
            line += (share(c.truth_missing), share(c.release_missing)) if missing else ()
            line += (f"{c.repairs.missing}, {c.repairs.unknown}, {c.repairs.clipped}",) if repaired else ()
            rows.append(line)
        shares = [
            (column.name, each.value, each.truth, each.release) for column in self.columns for each in column.shares
        ]
        shares.sort(key=lambda each: -abs(each[2] - each[3]))
        lines = tuple((name, value, share(a), share(b)) for name, value, a, b in shares[:MOST_SHOWN])
        return [
            Section("columns, worst first" + more(len(worst)), (Table(heads, tuple(rows)),)),
            Section(
                "shares of values and bins, worst first" + more(len(shares)),
                (Table(("column", "value", "truth", "release"), lines),),
            ),
        ]

    def _pairs(self) -> list[Section]:
        found = []
        if self.correlation is not None:
            lines = tuple((p.a, p.b, share(p.truth), share(p.release), share(p.error)) for p in self.correlation.worst)
            table = Table(("one", "other", "truth", "release", "error"), lines)
            found.append(Section("correlations that are off most", (table,)))
        if self.two_way is not None:
            found.append(self.two_way.section())
        return found


def compare_tables(beside: Beside, predicted: Mapping[str, float] | None = None) -> TableComparison:
    """Compare both tables; `predicted` is what the card says of `marginal_tv`, `pair_tv` and `correlation`."""
    test = None if beside.test is None else beside.test()
    made = _in_schema_columns(beside)
    compared = compared_schema(beside.schema, beside.truth, made, *([] if test is None else [test]))
    labels = labels_of(beside.schema, compared, beside.label)
    layout = CellLayout(compared)
    keep = min(_MAX_ROWS, max(1, _MAX_NUMBERS // layout.space.width)) if labels else 0
    beside.progress("reading the truth", 0, 0)
    beside.truth_rows()
    true = read_tally(beside.truth, layout, keep)
    for column in labels:
        check_varies(column, true)
    beside.progress("reading the release", 0, 0)
    released = read_tally(made, layout, keep)
    held_out = None
    if test is not None and labels:
        beside.progress("reading the test table", 0, 0)
        held_out = read_tally(test, layout, keep)
    if beside.schema.rules:
        beside.progress("checking the rules", 0, 0)
    rules = rule_fits(beside.schema, beside.truth, made)
    columns = column_fits(true, released)
    correlation, two_way = correlation_fit(true, released), two_way_fit(true, released)
    notes = _column_notes(beside.schema, layout, columns) + _sample_notes(correlation, two_way)
    labels = _learnable(labels, layout, beside.label is not None, notes)
    if labels:
        notes += _model_notes(keep, test is not None)
    features = feature_coordinates(layout, labels)
    return TableComparison(
        marginal_tv=float(np.mean([column.total_variation for column in columns])),
        predicted=dict(predicted) if predicted else None,
        correlation=correlation,
        two_way=two_way,
        columns=columns,
        labels=tuple(label_fit(column, features, true, released, held_out, beside.progress) for column in labels),
        rules=rules,
        notes=tuple(notes),
    )


def _in_schema_columns(beside: Beside) -> ReadTable:
    made = beside.made()
    if sorted(made.columns) != sorted(column.name for column in beside.schema.released):
        raise InputError(
            "a release of rows in the schema's own columns, as its card says",
            "other columns in its table",
            "run adumbra verify; get the folder again from its owner",
        )
    return made


def _learnable(labels: list[Column], layout: CellLayout, asked: bool, notes: list[str]) -> list[Column]:
    """The labels, if there is a column beside them to predict from."""
    if not labels or feature_coordinates(layout, labels).any():
        return labels
    if asked:
        raise InputError("a column beside the labels to predict from", "none", "leave --label out")
    notes.append("no models: there is no column beside the labels to predict from")
    return []


def _column_notes(schema: Schema, layout: CellLayout, columns: tuple[ColumnFit, ...]) -> list[str]:
    notes = []
    if any(column.truth_missing or column.release_missing for column in columns):
        notes.append(
            "a cell that is missing, or holds nothing that its column can read, is empty: one more value in total "
            "variations and two-way tables; means, standard deviations and correlations are of the cells that are there"
        )
    crowded = [
        fit.name
        for cells, fit in zip(layout.cells, columns, strict=True)
        if cells.values is None and max(cell.truth for cell in fit.shares[: cells.bins]) >= _CROWDED
    ]
    if crowded:
        listed = ", ".join(crowded[:MOST_SHOWN]) + more(len(crowded))
        notes.append(
            f"at least {_CROWDED:.0%} of the true rows lie in one bin, where total variation sees little: compare "
            f"means and standard deviations of {listed}"
        )
    released = [c for c in schema.released if c.kind is not None]
    if absent := [c.name for c in released if c.name not in layout.names]:
        notes.append(f"not compared, because not every table has them: {', '.join(absent)}")
    if long := [c.name for c in released if c.role == "label" and len(c.values) > MAX_CLASSES]:
        notes.append(f"no models for labels of more than {MAX_CLASSES} values: {', '.join(long)}")
    return notes


def _sample_notes(correlation: CorrelationFit | None, two_way: TwoWayFit | None) -> list[str]:
    notes = []
    if correlation is not None and correlation.coordinates < correlation.of_coordinates:
        notes.append(
            f"correlations: a fixed public sample of {correlation.coordinates} of {correlation.of_coordinates} "
            "coordinates"
        )
    if two_way is not None and two_way.pairs < two_way.of_pairs:
        notes.append(f"two-way tables: a fixed public sample of {two_way.pairs} of {two_way.of_pairs} pairs")
    return notes


def _model_notes(keep: int, held_out: bool) -> list[str]:
    notes = [f"models use at most {keep:,} rows of each table, chosen by row number alone"]
    if not held_out:
        notes.append(
            "models are tested on a fixed quarter of the truth, which the models trained on the truth did not see; "
            "the release was made from all of it, so a held-out table (--test) is the better judge"
        )
    return notes
