"""`adumbra evaluate`: the owner's utility report, printed. Nothing is written into the release folder."""

from __future__ import annotations

import os
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adumbra.cli.keys import PublicKeyOption, TrustedOption, keys_of
from adumbra.cli.output import Reporter, emit, emit_json, emit_line, note, print_table
from adumbra.core.errors import InputError
from adumbra.core.files import new_file
from adumbra.core.shown import shown_json

if TYPE_CHECKING:
    from adumbra.evaluate.report import Evaluation, LabelFit

__all__ = ["evaluate", "write_report"]

_SHOWN = 20


def evaluate(
    folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")],
    truth: Annotated[str, typer.Option(help="the table that the release was made from")],
    test: Annotated[
        str | None, typer.Option(help="held-out rows to test models on; default: a quarter of the truth")
    ] = None,
    label: Annotated[str | None, typer.Option(help="column to predict; default: the labels of the schema")] = None,
    delimiter: Annotated[str | None, typer.Option(help="field separator of text tables, for example ';'")] = None,
    public_key: PublicKeyOption = None,
    trusted: TrustedOption = False,
    out: Annotated[Path | None, typer.Option(help="write the report (JSON) to a file that only you can read")] = None,
    json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
) -> None:
    """Owner's side: how good a release is, measured against the truth. The report is private, not for publishing."""
    from adumbra.evaluate.report import evaluate_release

    keys = keys_of(public_key, trusted)
    if out is not None and os.path.lexists(out):
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")
    with Reporter() as reporter:
        found = evaluate_release(folder, truth, test, label, delimiter=delimiter, progress=reporter, public_key=keys)
    if out is not None:
        write_report(out, found.to_dict())
    if json:
        emit_json(found.to_dict())
    elif out is None:
        _print(found)


def write_report(out: Path, content: dict[str, Any]) -> None:
    """A report that was made from the truth, for its owner's eyes."""
    with new_file(out, private=True) as file:
        text = dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        file.write(shown_json(text).encode() + b"\n")
    note(f"private report written to {out}")


def _print(found: Evaluation) -> None:
    emit(f"{found.notice}\n\n")
    print_table(
        "release",
        ("what", "value"),
        [
            ("table", f"{found.table}: {found.truth_rows} true rows, {found.release_rows} released rows"),
            ("mechanism", found.mechanism),
            ("promise", found.promise),
        ],
    )
    if found.distances is not None:
        _print_distances(found)
    elif found.axes is not None:
        _print_axes(found)
    elif found.counts is not None:
        _print_counts(found)
    else:
        _print_summary(found)
        _print_columns(found)
        _print_pairs(found)
        for label in found.labels:
            _print_label(label)
    for text in found.notes:
        emit_line(f"note: {text}")


def _print_distances(found: Evaluation) -> None:
    check = found.distances
    if check is None:
        return
    print_table(
        "squared distances of pairs of rows",
        ("what", "seen", "predicted"),
        [
            ("error (root mean square; predicted: mean standard error)", check.root_mean_squared_error,
             check.mean_standard_error),
            ("pairs within 1.96 standard errors", check.coverage, 0.95),
            (f"mean error (standard error {check.mean_error_standard_error:.3g})", check.mean_error, 0.0),
            ("mean true squared distance", check.mean_truth, None),
        ],
    )  # fmt: skip


def _print_axes(found: Evaluation) -> None:
    check = found.axes
    if check is None:
        return
    print_table(
        f"principal axes: {check.components} kept",
        ("what", "seen", "stated"),
        [
            ("variance along them, of the most that so many can hold", _share(check.captured), None),
            ("subspace error (0: the same span, 1: at right angles)", _share(check.subspace_error), None),
            ("largest angle to the true span", f"{check.largest_angle:.1f} degrees", check.stated_angle),
            ("true variances inside the error bars", _share(check.inside), None),
        ],
    )


def _print_counts(found: Evaluation) -> None:
    check = found.counts
    if check is None:
        return
    print_table(
        f"counts of {check.cells} cells, in rows",
        ("what", "asked", "error (root mean square)", "stated", f"within eta (mu {check.mu:g})", "mean of the truth"),
        [
            (fit.what, fit.queries, fit.error, fit.stated_error, _share(fit.within_eta), fit.mean_truth)
            for fit in check.fits
        ],
    )


def _print_summary(found: Evaluation) -> None:
    predicted = found.predicted or {}
    rows: list[tuple[object, ...]] = [
        ("total variation of a column, mean", _share(found.marginal_tv), _share(predicted.get("marginal_tv")))
    ]
    if found.two_way is not None:
        rows += [
            (f"total variation of a pair of columns, mean of {found.two_way.pairs}", _share(found.two_way.mean), None),
            ("the same, largest", _share(found.two_way.max), None),
        ]
    if found.correlation is not None:
        rows += [
            (
                f"error of a correlation, mean of {found.correlation.pairs}",
                _share(found.correlation.mean),
                _share(predicted.get("correlation")),
            ),
            ("the same, largest", _share(found.correlation.max), None),
        ]
    print_table("errors: 0 is a perfect release, 1 the worst (correlations: 2)", ("what", "seen", "predicted"), rows)


def _print_columns(found: Evaluation) -> None:
    worst = sorted(found.columns, key=lambda column: -column.total_variation)
    repaired = any(c.repairs.missing or c.repairs.unknown or c.repairs.clipped for c in found.columns)
    header = ["column", "kind", "total variation", "mean: truth", "release", "sd: truth", "release"]
    rows = [
        [c.name, c.kind, _share(c.total_variation), c.truth_mean, c.release_mean, c.truth_sd, c.release_sd]
        + ([f"{c.repairs.missing}, {c.repairs.unknown}, {c.repairs.clipped}"] if repaired else [])
        for c in worst[:_SHOWN]
    ]
    if repaired:
        header.append("missing, unknown, out of range in the truth")
    print_table("columns, worst first" + _more(len(worst)), header, rows)
    shares = [
        (column.name, share.value, share.truth, share.release)
        for column in found.columns
        if column.kind != "number"
        for share in column.shares
    ]
    if shares:
        shares.sort(key=lambda share: -abs(share[2] - share[3]))
        print_table(
            "shares of categories and flags, worst first" + _more(len(shares)),
            ("column", "value", "truth", "release"),
            [(name, value, _share(a), _share(b)) for name, value, a, b in shares[:_SHOWN]],
        )


def _print_pairs(found: Evaluation) -> None:
    if found.correlation is not None:
        print_table(
            "correlations that are off most",
            ("one", "other", "truth", "release", "error"),
            [(p.a, p.b, _share(p.truth), _share(p.release), _share(p.error)) for p in found.correlation.worst],
        )
    if found.two_way is not None:
        print_table(
            "pairs of columns that are off most",
            ("one", "other", "total variation"),
            [(p.a, p.b, _share(p.error)) for p in found.two_way.worst],
        )


def _print_label(label: LabelFit) -> None:
    metrics = list(label.scores[0].metrics)
    title = f"predicting {label.label}, tested on {label.test_rows} rows ({label.tested_on})"
    if label.positive is not None:
        title += f"; auprc is for {label.positive}"
    elif label.task == "classification":
        title += "; auprc is the mean over classes"
    print_table(
        title,
        ("model", "trained on", "rows", *(name.replace("_", " ") for name in metrics)),
        [
            (
                score.model,
                score.trained_on,
                label.release_rows if score.trained_on == "release" else label.truth_rows,
                *(_share(score.metrics[name]) for name in metrics),
            )
            for score in label.scores
        ],
    )
    if label.absent:
        some = ", ".join(label.absent[:_SHOWN])
        emit_line(f"note: classes of {label.label} that the release does not hold: {some}{_more(len(label.absent))}")
        emit("\n")


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _more(count: int) -> str:
    return f" ({count - _SHOWN} more in --json)" if count > _SHOWN else ""
