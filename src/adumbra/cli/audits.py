"""`adumbra audit`: try to refute what a mechanism, a paper or a release promises."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adumbra.cli.evaluations import write_report
from adumbra.cli.jobs import JsonOption, extra_options
from adumbra.cli.keys import PublicKeyOption, TrustedOption, keys_of
from adumbra.cli.output import Reporter, emit, emit_json, note, print_table
from adumbra.core.errors import InputError
from adumbra.core.files import new_file
from adumbra.core.guarantee import DEFAULT_DELTA, Relation, Unit

if TYPE_CHECKING:
    from adumbra.audit.attacks import Attack
    from adumbra.audit.catalogue import Effort
    from adumbra.audit.findings import Report
    from adumbra.audit.jupa import JupaAudit
    from adumbra.core.signature import PublicKeys

__all__ = ["audit"]

_EPSILON = 4.0
_CONFIDENCE = 0.999
_PUBLISHED_EPSILON, _PUBLISHED_DELTA = 1.0, 1e-5
_PUBLISHED_RUNS = 1_000_000
_JUPA_EPSILON = 1.0
_ON_PURPOSE = " (A target that is broken on purpose.)"
_ATTACK_WORDING = (
    "An attack that gets further than the promise allows refutes the promise; one that does not proves nothing."
)


def audit(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="MECHANISM|DIR|jupa", help="a mechanism (adumbra mechanisms), a release folder, jupa"),
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
    model: Annotated[Path | None, typer.Option(help="with jupa: a model folder of adumbra jupa fit")] = None,
    records: Annotated[
        str | None, typer.Option(help="with jupa: labelled records that the model was not fitted on")
    ] = None,
    unit: Annotated[Unit | None, typer.Option(help="only promises for this unit")] = None,
    relation: Annotated[Relation | None, typer.Option(help="only promises for this relation")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="many more runs: for a night, not for a coffee")] = False,
    runs: Annotated[
        int | None, typer.Option(help="runs on each table, in place of as many as fit; costly attacks take fewer")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="with which all lower bounds hold at once", show_default="0.999")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="also write an HTML page with the trade-off curves; with DIR, the private report as JSON"),
    ] = None,
    public_key: PublicKeyOption = None,
    trusted: TrustedOption = False,
    json: JsonOption = False,
) -> None:
    """Try to refute a promise: lower bounds on epsilon from attacks. Exit code 1 if one exceeds the claim.

    An audit can refute, never prove. It runs on tables made up to be hard, not on yours; give a release folder with
    --truth and --holdout to attack that release. For jupa, adversaries guess the privacy label: of the model and the
    records given, or else of every kind of release on a bundled table.
    """
    options = extra_options(ctx.args)
    form = _form(name, everything, published, attacks, truth, holdout)
    given = {
        "--epsilon": epsilon, "--delta": delta, "--unit": unit, "--relation": relation, "--runs": runs, "--out": out,
        "--deep": deep or None, "--confidence": confidence, "--truth": truth, "--holdout": holdout, "--column": column,
        "--model": model, "--records": records, "--public-key": public_key, "--trusted": trusted or None,
    } | {f"--{key}": value for key, value in options.items()}  # fmt: skip
    _check_used(form, [key for key, value in given.items() if value is not None], options)
    if out is not None:
        _check_place(out)
    sure = _CONFIDENCE if confidence is None else confidence
    if form == "attacks":
        _named_attacks(deep, json)
        return
    if form == "jupa":
        _jupa(model, records, epsilon, deep, sure, json)
        return
    if form == "release" and name is not None:
        _attack_release(Path(name), truth, holdout, column, keys_of(public_key, trusted), out, json)
        return
    with Reporter("attacks") as reporter:
        if form == "published":
            report = _published(name, epsilon, delta, runs, deep, sure, reporter)
        else:
            effort = _effort(runs, deep)
            report = _catalogue(name, epsilon, delta, unit, relation, options, effort, sure, reporter)
    if json:
        emit_json(report.to_json())
    else:
        _print(report)
    if out is not None:
        _write_page(out, report)
    if report.refuted:
        note(f"REFUTED: {len(report.refuted)} of {len(report.findings)} claims cannot hold")
        raise typer.Exit(1)


_USES = {
    "mechanism": {"--epsilon", "--delta", "--unit", "--relation", "--runs", "--out", "--deep", "--confidence"},
    "all": {"--epsilon", "--delta", "--runs", "--out", "--deep", "--confidence"},
    "published": {"--epsilon", "--delta", "--runs", "--out", "--deep", "--confidence"},
    "attacks": {"--deep"},
    "release": {"--truth", "--holdout", "--column", "--public-key", "--trusted", "--out"},
    "jupa": {"--model", "--records", "--epsilon", "--deep", "--confidence"},
}
"""Options of each form of the command, besides --json."""


def _form(
    name: str | None, everything: bool, published: bool, attacks: bool, truth: str | None, holdout: str | None
) -> str:
    """Which form of the command was asked for."""
    if sum((name is not None, everything, attacks)) != 1:
        raise InputError(
            "one of: a mechanism, a release folder, --all, --attacks",
            "none of them" if name is None and not everything and not attacks else "more than one",
            "try adumbra audit --all, or adumbra audit dppro --epsilon 1",
        )
    if name == "jupa" and not published:
        return "jupa"
    if attacks or published:
        return "attacks" if attacks else "published"
    if name is not None and _is_folder(name, truth, holdout):
        return "release"
    return "all" if name is None else "mechanism"


def _check_used(form: str, given: list[str], options: dict[str, Any]) -> None:
    """Refuse what would be ignored."""
    allowed = _USES[form] | ({f"--{key}" for key in options} if form == "mechanism" else set())
    unused = [key for key in given if key not in allowed]
    if unused:
        subject = {"release": "a release folder", "mechanism": "a mechanism", "jupa": "jupa"}
        raise InputError(
            f"options that {subject.get(form, f'--{form}')} uses ({', '.join(sorted(_USES[form]))})",
            ", ".join(unused),
            "leave it out, or name a mechanism to choose within it" if form == "all" else "leave it out",
        )


def _check_place(out: Path) -> None:
    if out.exists():
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")
    if not out.absolute().parent.is_dir():
        raise InputError("an --out in a folder that exists", f"{out}", "make the folder, or choose another place")


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
    name: str | None,
    epsilon: float | None,
    delta: float | None,
    unit: Unit | None,
    relation: Relation | None,
    options: dict[str, Any],
    effort: Effort,
    confidence: float,
    reporter: Reporter,
) -> Report:
    from adumbra.audit.catalogue import audit_catalogue, audit_mechanism

    claim = (_EPSILON if epsilon is None else epsilon, DEFAULT_DELTA if delta is None else delta)
    if name is None:
        return audit_catalogue(*claim, effort=effort, confidence=confidence, progress=reporter)
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
    with new_file(out) as file:
        file.write(page(report, command).encode())
    note(f"page written to {out}")


def _print(report: Report) -> None:
    from adumbra.audit.findings import WORDING

    print_table(
        f"audit: {len(report.findings)} attacks, {len(report.refuted)} claims refuted",
        ("#", "target", "neighbours", "claimed", "delta", "lower bound", "exact", "verdict", "method", "runs", "s"),
        [
            (
                number,
                found.target,
                found.neighbours,
                f"{found.epsilon:g}",
                f"{found.delta:g}",
                f"{math.floor(found.lower_bound * 1000) / 1000:.3f}",
                "-" if found.exact is None else f"{found.exact:.4g}",
                found.verdict,
                found.method,
                found.runs,
                f"{found.seconds:.1f}",
            )
            for number, found in enumerate(report.findings, 1)
        ],
        folds=1,
    )
    print_table(
        "",
        ("#", "which tables"),
        [(n, "; ".join(t for t in (f.pair, f.note) if t)) for n, f in enumerate(report.findings, 1)],
        folds=1,
    )
    above = [f for f in report.findings if f not in report.refuted and f.exact is not None and f.exact > f.epsilon]
    if above:
        emit(f"{len(above)} more cannot hold by formula (exact above the claim), by too little for so many runs.\n")
    emit(f"All lower bounds hold at once with confidence {report.confidence:g}. {WORDING}\n")


def _jupa(
    model: Path | None, records: str | None, epsilon: float | None, deep: bool, confidence: float, json: bool
) -> None:
    import polars as pl

    from adumbra.audit.adversaries import STATEMENT
    from adumbra.audit.findings import REFUTED
    from adumbra.audit.jupa import audit_bundled, audit_jupa
    from adumbra.jupa.model import KNOWN, JupaModel
    from adumbra.table.read import open_table

    if (model is None) != (records is None):
        raise InputError(
            "--model and --records together, or neither",
            "only one of them",
            "give the model of adumbra jupa fit, and labelled records that it was not fitted on",
        )
    if model is not None and epsilon is not None:
        raise InputError("--epsilon without --model, whose promise is its own", f"{epsilon:g}", "leave it out")
    with Reporter("attacks") as reporter:
        if model is None or records is None:
            claim = _JUPA_EPSILON if epsilon is None else epsilon
            found = audit_bundled(claim, quick=not deep, confidence=confidence, progress=reporter)
        else:
            fitted = JupaModel.load(model)
            table = open_table(records)
            frame = pl.concat(table.batches(table.columns))
            known = fitted.known_share(frame)
            if known > KNOWN:
                note(
                    f"{100 * known:.0f} % of these records read like records that the model was fitted on: if they are "
                    "the same ones, this audit says nothing about others"
                )
            found = [audit_jupa(fitted, frame, confidence=confidence, quick=False, progress=reporter)]
    if json:
        emit_json({"wording": STATEMENT, "audits": [one.to_json() for one in found]})
    else:
        _print_jupa(found)
        emit(f"{STATEMENT}\n")
    if any(one.verdict == REFUTED for one in found):
        note("REFUTED: an adversary got further than the promise allows")
        raise typer.Exit(1)


def _print_jupa(found: Sequence[JupaAudit]) -> None:
    def percent(share: float | None) -> str:
        return "-" if share is None or share != share else f"{100 * share:.1f}"

    rows = []
    for one in found:
        seen = one.adversaries
        label = "-" if one.claimed_epsilon is None else f"{one.claimed_epsilon:g} (at least {one.lower_bound:.3f})"
        rows.append(
            (
                one.title,
                percent(seen.utility),
                percent(seen.papers),
                *(percent(seen.adaptive.get(name)) for name in ("svm", "forest", "boosting", "reader")),
                f"{percent(seen.worst)} ± {percent(seen.standard_error)}",
                percent(seen.chance),
                percent(one.claimed),
                label,
                percent(seen.not_reached),
                one.verdict,
            )
        )
    models = ("service", "paper's", "svm", "forest", "boosting", "reader", "worst")
    heads = ("release", *models, "chance", "claimed", "label eps", "unreached", "verdict")
    print_table("audit of utility-aware releases, per cent right", heads, rows)


def _named_attacks(deep: bool, json: bool) -> None:
    from adumbra.audit.attacks import run_all

    with Reporter("attacks") as reporter:
        results = run_all(quick=not deep, progress=reporter)
    _report_attacks(results, json)


def _attack_release(
    folder: Path,
    truth: str | None,
    holdout: str | None,
    column: str | None,
    keys: PublicKeys | None,
    out: Path | None,
    json: bool,
) -> None:
    from adumbra.answer.release import load
    from adumbra.audit.attacks import attribute, membership

    if truth is None or holdout is None:
        raise InputError(
            "--truth and --holdout with a release folder",
            "only one of them" if truth or holdout else "neither",
            "give the table that was released, and people like those who are not in it",
        )
    if Path(truth).resolve() == Path(holdout).resolve():
        raise InputError(
            "other people in the --holdout than in the --truth", "the same file", "split one table by chance"
        )
    release = load(folder)
    release.demand(keys)  # a changed file is not what was promised
    results = [membership(release, truth, holdout)]
    if column is not None:
        results.append(attribute(release, truth, holdout, column))
    note("for the owner only: these numbers were made from the truth and must not be published")
    if out is not None:
        write_report(out, {"wording": _ATTACK_WORDING, "attacks": [result.to_json() for result in results]})
    _report_attacks(results, json)


def _report_attacks(results: Sequence[Attack], json: bool) -> None:
    from adumbra.audit.attacks import BEYOND

    if json:
        emit_json({"wording": _ATTACK_WORDING, "attacks": [result.to_json() for result in results]})
    else:
        print_table(
            f"{len(results)} attack{'' if len(results) == 1 else 's'}",
            ("#", "attack", "target", "success", "interval", "chance", "allowed", "verdict"),
            [
                (
                    number,
                    result.name.replace("_", " "),
                    result.target,
                    f"{result.success:.3g}",
                    f"{result.low:.3g} to {result.high:.3g}",
                    f"{result.chance:.3g}",
                    "-" if result.allowed is None else f"{result.allowed:.3g}",
                    f"attack {result.verdict}" if result.allowed is None else result.verdict,
                )
                for number, result in enumerate(results, 1)
            ],
            folds=2,
        )
        print_table(
            "",
            ("#", "what was counted"),
            [(n, f"{r.meaning}. {r.explanation}{_ON_PURPOSE * (not r.ours)}") for n, r in enumerate(results, 1)],
            folds=1,
        )
        emit(f"{_ATTACK_WORDING}\n")
    if any(result.verdict == BEYOND and result.ours for result in results):
        note("an attack got further than the promise allows")
        raise typer.Exit(1)
