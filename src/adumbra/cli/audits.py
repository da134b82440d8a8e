"""`adumbra audit`: try to refute what a mechanism, a paper or a release promises."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adumbra.cli.jobs import JsonOption, extra_options
from adumbra.cli.output import Reporter, emit, emit_json, note, print_table
from adumbra.core.errors import InputError
from adumbra.core.guarantee import DEFAULT_DELTA, Relation, Unit

if TYPE_CHECKING:
    from adumbra.audit.attacks import Attack
    from adumbra.audit.catalogue import Effort
    from adumbra.audit.findings import Report

__all__ = ["audit"]

_EPSILON = 4.0
_PUBLISHED_EPSILON, _PUBLISHED_DELTA = 1.0, 1e-5
_PUBLISHED_RUNS = 1_000_000


def audit(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[MECHANISM|DIR]", help="a mechanism (adumbra mechanisms), or a release folder"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="every mechanism, unit and relation")] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="claim to attack; a small one needs more runs to be tested hard", show_default="4.0"),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="claim to attack; 0 for pure epsilon", show_default=f"{DEFAULT_DELTA:g}")
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="the papers' own forms instead: csm, dppro, dprp, lip, lop; epsilon 1"),
    ] = False,
    attacks: Annotated[
        bool,
        typer.Option("--attacks", help="attacks by name (membership, floating point, ...) on broken targets and ours"),
    ] = False,
    truth: Annotated[str | None, typer.Option(help="with DIR: the table that the release was made from")] = None,
    holdout: Annotated[str | None, typer.Option(help="with DIR: people like those, who are not in the table")] = None,
    column: Annotated[str | None, typer.Option(help="with DIR: also guess this cell of people otherwise known")] = None,
    unit: Annotated[Unit | None, typer.Option(help="only promises for this unit")] = None,
    relation: Annotated[Relation | None, typer.Option(help="only promises for this relation")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="many more runs: for a night, not for a coffee")] = False,
    runs: Annotated[int | None, typer.Option(help="runs on each table, instead of the usual number")] = None,
    confidence: Annotated[float, typer.Option(help="with which all lower bounds hold at once")] = 0.999,
    out: Annotated[Path | None, typer.Option(help="also write an HTML page with the trade-off curves")] = None,
    json: JsonOption = False,
) -> None:
    """Try to refute a promise: lower bounds on epsilon from attacks. Exit code 1 if one exceeds the claim.

    An audit can refute, never prove. It runs on tables made up to be hard, not on yours; give a release folder with
    --truth and --holdout to attack that release.
    """
    _check_asked(name, everything, attacks, published, out)
    if attacks:
        _named_attacks(deep, json)
        return
    if name is not None and _is_folder(name, truth, holdout):
        _attack_release(Path(name), truth, holdout, column, json)
        return
    with Reporter("attacks") as reporter:
        if published:
            report = _published(name, epsilon, delta, runs, deep, confidence, reporter)
        else:
            report = _catalogue(ctx, name, epsilon, delta, unit, relation, _effort(runs, deep), confidence, reporter)
    if out is not None:
        _write_page(out, report)
    if json:
        emit_json(report.to_json())
    else:
        _print(report)
    if report.refuted:
        note(f"REFUTED: {len(report.refuted)} of {len(report.findings)} claims cannot hold")
        raise typer.Exit(1)


def _check_asked(name: str | None, everything: bool, attacks: bool, published: bool, out: Path | None) -> None:
    if sum((name is not None, everything, attacks)) != 1:
        raise InputError(
            "one of: a mechanism, a release folder, --all, --attacks",
            "none of them" if name is None and not everything and not attacks else "more than one",
            "try adumbra audit --all, or adumbra audit dppro --epsilon 1",
        )
    if attacks and (published or out is not None):
        raise InputError("--attacks by itself", "--attacks with --published or --out", "leave the other out")
    if out is not None and out.exists():
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")


def _is_folder(name: str, truth: str | None, holdout: str | None) -> bool:
    from adumbra.audit.published import PUBLISHED
    from adumbra.mechanisms.catalogue import catalogue

    if truth is not None or holdout is not None:
        return True
    # a folder that happens to be called like a mechanism is meant only with --truth
    return name not in catalogue() and name not in PUBLISHED and Path(name).is_dir()


def _effort(runs: int | None, deep: bool) -> Effort:
    from adumbra.audit.catalogue import DEEP, QUICK
    from adumbra.audit.catalogue import Effort as OwnEffort

    if runs is not None:
        return OwnEffort.of(runs)
    return DEEP if deep else QUICK


def _catalogue(
    ctx: typer.Context,
    name: str | None,
    epsilon: float | None,
    delta: float | None,
    unit: Unit | None,
    relation: Relation | None,
    effort: Effort,
    confidence: float,
    reporter: Reporter,
) -> Report:
    from adumbra.audit.catalogue import audit_catalogue, audit_mechanism
    from adumbra.audit.published import PUBLISHED
    from adumbra.mechanisms.catalogue import catalogue

    claim = (_EPSILON if epsilon is None else epsilon, DEFAULT_DELTA if delta is None else delta)
    options = extra_options(ctx.args)
    if name is None:
        if options or unit is not None or relation is not None:
            raise InputError("--all with no other choice", "--all and a choice", "name a mechanism to choose within it")
        return audit_catalogue(*claim, effort=effort, confidence=confidence, progress=reporter)
    if name not in catalogue() and name in PUBLISHED:
        raise InputError(
            f"a mechanism of the catalogue ({', '.join(catalogue())})",
            f"{name!r}, which is here only as its paper prints it",
            "add --published",
        )
    return audit_mechanism(
        name,
        *claim,
        unit=unit,
        relation=relation,
        options=options,
        effort=effort,
        confidence=confidence,
        progress=reporter,
    )


def _published(
    name: str | None,
    epsilon: float | None,
    delta: float | None,
    runs: int | None,
    deep: bool,
    confidence: float,
    reporter: Reporter,
) -> Report:
    from adumbra.audit.published import published_report

    return published_report(
        name,
        _PUBLISHED_EPSILON if epsilon is None else epsilon,
        _PUBLISHED_DELTA if delta is None else delta,
        confidence=confidence,
        runs=runs if runs is not None else _PUBLISHED_RUNS * (10 if deep else 1),
        progress=reporter,
    )


def _write_page(out: Path, report: Report) -> None:
    from adumbra.audit.page import page

    command = shlex.join(["adumbra", *sys.argv[1:]])
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(page(report, command))
    except OSError as error:
        raise InputError("a place to write the page", f"{out} ({error.strerror})", "choose another --out") from None
    note(f"page written to {out}")


def _print(report: Report) -> None:
    from adumbra.audit.findings import WORDING

    print_table(
        f"audit: {len(report.findings)} claims attacked, {len(report.refuted)} refuted",
        ("target", "neighbours", "claimed", "delta", "lower bound", "exact", "verdict", "method", "runs", "s", "pair"),
        [
            (
                found.target,
                found.neighbours,
                f"{found.epsilon:g}",
                f"{found.delta:g}",
                f"{found.lower_bound:.3f}",
                "-" if found.exact is None else f"{found.exact:.4g}",
                found.verdict,
                found.method,
                found.runs,
                f"{found.seconds:.1f}",
                "; ".join(text for text in (found.pair, found.note) if text),
            )
            for found in report.findings
        ],
    )
    emit(f"All lower bounds hold at once with confidence {report.confidence:g}. {WORDING}\n")


def _named_attacks(deep: bool, json: bool) -> None:
    from adumbra.audit.attacks import ATTACKS

    results: list[Attack] = []
    with Reporter("attacks") as reporter:
        for done, (title, attack) in enumerate(ATTACKS.items()):
            reporter(title.replace("_", " "), done, len(ATTACKS))
            results += attack(deep, 0)
    _report_attacks(results, json)


def _attack_release(folder: Path, truth: str | None, holdout: str | None, column: str | None, json: bool) -> None:
    from adumbra.answer.release import load
    from adumbra.audit.attacks import attribute, membership

    if truth is None or holdout is None:
        raise InputError(
            "--truth and --holdout with a release folder",
            "only one of them" if truth or holdout else "neither",
            "give the table that was released, and people like those who are not in it",
        )
    release = load(folder)
    results = [membership(release, truth, holdout)]
    if column is not None:
        results.append(attribute(release, truth, holdout, column))
    note("for the owner only: these numbers were made from the truth and must not be published")
    _report_attacks(results, json)


def _report_attacks(results: Sequence[Attack], json: bool) -> None:
    from adumbra.audit.attacks import BEYOND
    from adumbra.audit.findings import WORDING

    if json:
        emit_json({"wording": WORDING, "attacks": [result.to_json() for result in results]})
    else:
        print_table(
            f"{len(results)} attacks",
            ("attack", "target", "success", "interval", "chance", "allowed", "verdict", "what"),
            [
                (
                    result.name,
                    result.target,
                    f"{result.success:.3g}",
                    f"{result.low:.3g} to {result.high:.3g}",
                    f"{result.chance:.3g}",
                    "-" if result.allowed is None else f"{result.allowed:.3g}",
                    result.verdict,
                    f"{result.meaning}. {result.explanation}",
                )
                for result in results
            ],
        )
        emit(f"{WORDING}\n")
    if any(result.verdict == BEYOND for result in results):
        note("an attack got further than the promise allows")
        raise typer.Exit(1)
