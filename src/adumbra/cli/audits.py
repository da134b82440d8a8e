"""`adumbra audit`: try to refute what a mechanism, a paper or a release promises."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adumbra.cli.evaluations import write_report
from adumbra.cli.keys import PublicKeyOption, TrustedOption, keys_of
from adumbra.cli.output import Reporter, check_new, note, show, write_page
from adumbra.cli.release_command import JsonOption, extra_options, grouped
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import DEFAULT_DELTA, Relation, Unit

if TYPE_CHECKING:
    from adumbra.audit.attacks import Attack
    from adumbra.audit.findings import AuditReport

__all__ = ["audit"]

_EPSILON = 4.0
_CONFIDENCE = 0.999
_PUBLISHED_EPSILON, _PUBLISHED_DELTA = 1.0, 1e-5
_PUBLISHED_RUNS = 1_000_000
_JUPA_EPSILON = 1.0


_USES = {
    "mechanism": {"--epsilon", "--delta", "--unit", "--relation", "--runs", "--out", "--deep", "--confidence"},
    "all": {"--epsilon", "--delta", "--runs", "--out", "--deep", "--confidence"},
    "published": {"--epsilon", "--delta", "--runs", "--out", "--deep", "--confidence"},
    "attacks": {"--deep"},
    "release": {"--truth", "--holdout", "--column", "--public-key", "--trusted", "--out"},
    "jupa": {"--model", "--records", "--epsilon", "--deep", "--confidence"},
}
"""Options of each form of the command, besides --json."""


@dataclass(frozen=True)
class AuditOptions:
    """All that may be asked of an audit; which of it is used depends on its form."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="MECHANISM|DIR|jupa", help="a mechanism (adumbra mechanisms), a release folder, jupa"),
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="every mechanism, unit and relation")] = False
    epsilon: Annotated[
        float | None,
        typer.Option(help="claim to attack; a small one needs more runs to be tested hard", show_default="4.0"),
    ] = None
    delta: Annotated[
        float | None, typer.Option(help="claim to attack; 0 for pure epsilon", show_default=f"{DEFAULT_DELTA:g}")
    ] = None
    published: Annotated[
        bool,
        typer.Option("--published", help="the papers' own forms instead: csm, dppro, dprp, lip, lop; epsilon 1"),
    ] = False
    attacks: Annotated[
        bool,
        typer.Option("--attacks", help="attacks by name (membership, floating point, ...) on broken targets and ours"),
    ] = False
    truth: Annotated[str | None, typer.Option(help="with DIR: the table that the release was made from")] = None
    holdout: Annotated[str | None, typer.Option(help="with DIR: people like those, who are not in the table")] = None
    column: Annotated[str | None, typer.Option(help="with DIR: also guess this cell of people otherwise known")] = None
    model: Annotated[Path | None, typer.Option(help="with jupa: a model folder of adumbra jupa fit")] = None
    records: Annotated[
        str | None, typer.Option(help="with jupa: labelled records that the model was not fitted on")
    ] = None
    unit: Annotated[Unit | None, typer.Option(help="only promises for this unit")] = None
    relation: Annotated[Relation | None, typer.Option(help="only promises for this relation")] = None
    deep: Annotated[bool, typer.Option("--deep", help="many more runs: takes hours")] = False
    runs: Annotated[
        int | None, typer.Option(help="runs on each table, in place of as many as fit; costly attacks take fewer")
    ] = None
    confidence: Annotated[
        float | None, typer.Option(help="joint confidence level of all lower bounds", show_default="0.999")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(help="also write an HTML page with the trade-off curves; with DIR, the private report as JSON"),
    ] = None
    public_key: PublicKeyOption = None
    trusted: TrustedOption = False

    @property
    def form(self) -> str:
        """Which form of the command was asked for."""
        if sum((self.name is not None, self.everything, self.attacks)) != 1:
            raise InputError(
                "one of: a mechanism, a release folder, --all, --attacks",
                "more than one" if self.name is not None or self.everything or self.attacks else "none of them",
                "try adumbra audit --all, or adumbra audit dppro --epsilon 1",
            )
        if self.name == "jupa" and not self.published:
            return "jupa"
        if self.attacks or self.published:
            return "attacks" if self.attacks else "published"
        if self.name is not None and _is_folder(self.name, self.truth, self.holdout):
            return "release"
        return "all" if self.name is None else "mechanism"

    def check(self, options: dict[str, Any]) -> None:
        """Refuse what would be ignored; `options` are those of a mechanism."""
        form = self.form
        chosen = [
            f"--{field.name.replace('_', '-')}"
            for field in dataclasses.fields(self)
            if field.name not in ("name", "everything", "published", "attacks")
            and getattr(self, field.name) not in (None, False)
        ]
        allowed = _USES[form] | ({f"--{key}" for key in options} if form == "mechanism" else set())
        unused = [key for key in (*chosen, *(f"--{key}" for key in options)) if key not in allowed]
        if unused:
            subject = {"release": "a release folder", "mechanism": "a mechanism", "jupa": "jupa"}
            raise InputError(
                f"options that {subject.get(form, f'--{form}')} uses ({', '.join(sorted(_USES[form]))})",
                ", ".join(unused),
                "leave it out, or name a mechanism to choose within it" if form == "all" else "leave it out",
            )

    def sure(self) -> float:
        """The confidence in force."""
        return _CONFIDENCE if self.confidence is None else self.confidence


@grouped
def audit(ctx: typer.Context, asked: AuditOptions, json: JsonOption = False) -> None:
    """Try to refute a promise: lower bounds on epsilon from attacks. Exit code 1 if one exceeds the claim.

    An audit can refute, never prove. It runs on tables made up to be hard, not on yours; give a release folder with
    --truth and --holdout to attack that release. For jupa, adversaries guess the privacy label: of the model and the
    records given, or else of every kind of release on a bundled table.
    """
    options = extra_options(ctx.args)
    asked.check(options)
    check_new(asked.out, "--out")
    form = asked.form
    if form == "attacks":
        _named_attacks(asked.deep, json)
    elif form == "jupa":
        _jupa(asked, json)
    elif form == "release":
        _attack_release(asked, json)
    else:
        _attack_promises(asked, options, json)


def _is_folder(name: str, truth: str | None, holdout: str | None) -> bool:
    from adumbra.audit.paper_cases import PUBLISHED
    from adumbra.mechanisms.catalogue import catalogue

    if truth is not None or holdout is not None:
        return True
    # a folder that happens to be called like a mechanism is meant only with --truth
    return name not in catalogue() and name not in PUBLISHED and Path(name).is_dir()


def _attack_promises(asked: AuditOptions, options: dict[str, Any], json: bool) -> None:
    """The promises of mechanisms or papers."""
    with Reporter("attacks") as reporter:
        report = _published(asked, reporter) if asked.published else _catalogue(asked, options, reporter)
    show(report.document(), json=json)
    if asked.out is not None:
        _write_page(asked.out, report)
    if report.refuted:
        note(f"REFUTED: {len(report.refuted)} of {len(report.findings)} claims cannot hold")
        raise typer.Exit(1)


def _catalogue(asked: AuditOptions, options: dict[str, Any], reporter: Reporter) -> AuditReport:
    from adumbra.audit.audit_all import DEEP, QUICK, Effort, audit_catalogue, audit_mechanism

    effort = Effort.of(asked.runs) if asked.runs is not None else DEEP if asked.deep else QUICK
    claim = (
        _EPSILON if asked.epsilon is None else asked.epsilon,
        DEFAULT_DELTA if asked.delta is None else asked.delta,
    )
    if asked.name is None:
        return audit_catalogue(*claim, effort=effort, confidence=asked.sure(), progress=reporter)
    return audit_mechanism(
        asked.name,
        *claim,
        unit=asked.unit,
        relation=asked.relation,
        options=options,
        effort=effort,
        confidence=asked.sure(),
        progress=reporter,
    )


def _published(asked: AuditOptions, reporter: Reporter) -> AuditReport:
    from adumbra.audit.paper_claims import published_report

    return published_report(
        asked.name,
        _PUBLISHED_EPSILON if asked.epsilon is None else asked.epsilon,
        _PUBLISHED_DELTA if asked.delta is None else asked.delta,
        confidence=asked.sure(),
        runs=asked.runs if asked.runs is not None else _PUBLISHED_RUNS * (10 if asked.deep else 1),
        progress=reporter,
    )


def _write_page(out: Path, report: AuditReport) -> None:
    from adumbra.audit.page import page_document

    write_page(page_document(report, shlex.join(["adumbra", *sys.argv[1:]])), out)


def _jupa(asked: AuditOptions, json: bool) -> None:
    import polars as pl

    from adumbra.audit.findings import REFUTED
    from adumbra.audit.utility_audit import audit_bundled, audit_jupa, jupa_document
    from adumbra.jupa.model import KNOWN, JupaModel
    from adumbra.tables.read import open_table

    model, records, epsilon = asked.model, asked.records, asked.epsilon
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
            found = audit_bundled(claim, quick=not asked.deep, confidence=asked.sure(), progress=reporter)
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
            found = [audit_jupa(fitted, frame, confidence=asked.sure(), quick=False, progress=reporter)]
    show(jupa_document(found), json=json)
    if any(one.verdict == REFUTED for one in found):
        note("REFUTED: an adversary got further than the promise allows")
        raise typer.Exit(1)


def _named_attacks(deep: bool, json: bool) -> None:
    from adumbra.audit.attacks import run_all

    with Reporter("attacks") as reporter:
        results = run_all(quick=not deep, progress=reporter)
    _report_attacks(results, json, private=False)


def _attack_release(asked: AuditOptions, json: bool) -> None:
    from adumbra.audit.attack_document import attack_document
    from adumbra.audit.attacks import attribute, membership
    from adumbra.result import load

    truth, holdout = asked.truth, asked.holdout
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
    release = load(Path(asked.name or ""))
    release.demand(keys_of(asked.public_key, asked.trusted))  # a changed file is not what was promised
    results = [membership(release, truth, holdout)]
    if asked.column is not None:
        results.append(attribute(release, truth, holdout, asked.column))
    note("for the owner only: these numbers were made from the truth and must not be published")
    if asked.out is not None:
        write_report(asked.out, attack_document(results, private=True).data)
    _report_attacks(results, json, private=True)


def _report_attacks(results: Sequence[Attack], json: bool, *, private: bool) -> None:
    from adumbra.audit.attack_document import attack_document
    from adumbra.audit.attacks import BEYOND

    show(attack_document(results, private=private), json=json)
    if any(result.verdict == BEYOND and result.ours for result in results):
        note("an attack got further than the promise allows")
        raise typer.Exit(1)
