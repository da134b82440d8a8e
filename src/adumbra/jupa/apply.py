"""Apply a model to private records and publish what may be published: the one way out for utility-aware releases."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adumbra import pipeline
from adumbra.common.csv_forms import Csv, csv_form
from adumbra.common.errors import InputError
from adumbra.common.interrupts import stop_if_asked
from adumbra.common.plugins import library
from adumbra.common.randomness import Coins
from adumbra.common.types import Progress, Reals, silent
from adumbra.common.validation import path_of, table_name, written
from adumbra.jupa.model import KNOWN, JupaModel
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.jupa.release_kind import ChargedRelease
from adumbra.ledger.ledger import Ledger
from adumbra.releases.card import CardSeed, UtilityCard
from adumbra.releases.folder import ReleaseFolder, UtilityFolder
from adumbra.releases.signature import read_signing_key
from adumbra.releases.staging import RowFiles, check_target, place_of, regrouped_frames, seal, staged
from adumbra.request import ledger_of
from adumbra.tables.read import open_table
from adumbra.tables.table import Table

__all__ = ["apply_jupa", "batches_of"]


# Private records as a model reads them, batch by batch; and what their owner should hear of them.


def batches_of(
    opened: Table, model: JupaModel, tell: Callable[[str], None], rows: int = 16384
) -> Iterator[pl.DataFrame]:
    """The columns of the private table `opened` that `model` reads, at most `rows` records at a time.

    When all are read, `tell` gets what the owner should know of them.
    """
    wanted = model.features.columns + (list(model.recipe.privacy) if model.needs_privacy_label else [])
    absent = [name for name in wanted if name not in opened.columns]
    if absent:
        raise InputError(
            "every column that the model reads in the table",
            f"no {absent[0]!r}",
            "give a table with the columns of the public one"
            + ("; this release needs the privacy column too" if absent[0] in model.recipe.privacy else ""),
        )
    seen = _Seen(model)
    for frame in opened.batches(wanted, rows):
        seen.add(frame)
        yield frame
    for line in seen.lines():
        tell(line)


@dataclass
class _Seen:
    """Counts of what was not understood."""

    model: JupaModel
    unread: dict[str, tuple[int, int]] = field(default_factory=dict)
    known: float = 0.0
    count: int = 0
    unclassed: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        model = self.model
        for name, (empty, unknown) in model.features.unread(frame).items():
            before = self.unread.get(name, (0, 0))
            self.unread[name] = before[0] + empty, before[1] + unknown
        self.unclassed += int((model.privacy.of(frame) < 0).sum()) if model.needs_privacy_label else 0
        self.known += model.known_share(frame) * frame.height
        self.count += frame.height

    def lines(self) -> Iterator[str]:
        for name, (empty, unknown) in self.unread.items():
            if empty or unknown:
                yield f"  {name}: {empty} empty, {unknown} that the public table does not know"
            if unknown and empty + unknown == self.count and self.model.features.is_number(name):
                # reported, not refused: the release of a table that differs in one record would not be refused
                yield (
                    f"  {name}: no number in the whole table: is this the right column, written as in the public table?"
                )
        if self.unclassed:
            named = ", ".join(self.model.privacy.columns)
            yield f"  {named}: {self.unclassed} without a class of the public table, which got one at random"
        if self.known > KNOWN * self.count:
            yield (
                f"  {100 * self.known / self.count:.0f} % of the records read like public ones that the model was "
                "fitted on: is this the right table?"
            )


_GROUP = 16384
"""Rows of a row group: the same whatever the records are."""


def apply_jupa(
    model: JupaModel | str | Path,
    table: Any,
    out: str | Path | None = None,
    *,
    ledger: Ledger | str | Path | None = None,
    csv: Csv = False,
    signing_key: str | Path | None = None,
    name: str | None = None,
    delimiter: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> UtilityFolder | ReleaseFolder:
    """Release private records by a fitted model, into a folder that may be published.

    * `model`: fitted, or its folder. `table`: the private records, a file or a frame; `delimiter` of a text file.
    * `out`: the folder to create; without it, it stays in a temporary place. `csv`: also write data.csv.
      `signing_key`: a file with an Ed25519 key to sign the card with. `name`: the table's, on card and ledger.
    * `ledger`: where a release with differential privacy is charged, or the path of its file; refused for others.
    * `progress(step, done, total)` is called between batches; `tell` gets lines for the owner only: which columns had
      cells that are empty or unknown to the public table, which are never refused one by one.

    Guarantee: what the model's `promise` says, and the card says it again; for every release but laplace that begins
    with "No differential privacy". A laplace release goes through the same door as any other and is charged to the
    ledger; the others spend nothing there, because they promise nothing that a ledger could add up.

    Edge cases: bad input raises `InputError` and writes nothing. The utility label of a private record is never read;
    its privacy label only where the release needs it. Where records may be left out (the fine step leaves out those
    that did not reach their class), the column `row` tells which record (from 0) each released one stands for.
    """
    fitted = model if isinstance(model, JupaModel) else JupaModel.load(model)
    form = csv_form(csv)
    key = None if signing_key is None else read_signing_key(signing_key)
    if out is not None:
        check_target(path_of(out, "a folder to create, as text or path"))
    if ledger is not None and not isinstance(fitted.step, ChargedRelease):
        raise _nothing_to_charge(fitted)
    book = ledger_of(ledger)
    named = None if name is None else table_name(written("give a short name, patients say", name=name), "name")
    opened = open_table(table, delimiter=delimiter)
    owner = _Owner(opened, named or opened.name, opened.count(), progress or silent, tell or _quiet)
    with place_of(out) as target:
        if isinstance(fitted.step, ChargedRelease):
            job = _charged_job(fitted, fitted.step, owner)
            pipeline.release(job, target, ledger=book, csv=form, signing_key=key, progress=owner.progress)
            return ReleaseFolder.open(target)
        _publish(fitted, owner, target, form, key)
        return UtilityFolder.open(target)


def _nothing_to_charge(model: JupaModel) -> InputError:
    charged = " or ".join(kind.name for kind in release_kinds().values() if kind.charged)
    return InputError(
        f"a ledger only for release {charged}",
        f"release {model.recipe.release}, which is not differentially private",
        "leave the ledger out: there is nothing that it could add up",
    )


@dataclass(frozen=True)
class _Owner:
    """The private table, and who hears of it."""

    table: Table
    name: str
    records: int
    progress: Progress
    tell: Callable[[str], None]


def _publish(model: JupaModel, owner: _Owner, target: Path, csv: Csv, key: Ed25519PrivateKey | None) -> None:
    """Release batch by batch into the folder; no more than a few batches are in memory."""
    released = _Releasing(model, owner)
    with staged(target, numbers=owner.records * len(model.columns), csv=csv) as (folder, place):
        with RowFiles(folder, csv) as files:
            for frame in regrouped_frames(released.frames(), _GROUP):
                files.write(frame)
        if not files.written:
            raise model.step.nothing_released(owner.records)
        not_reached = released.not_reached if model.recipe.kind.leaves_out else None
        seal(folder, place, _card(model, owner, files.written, not_reached), key)


class _Releasing:
    """Released records, batch by batch, and how many did not reach their class."""

    def __init__(self, model: JupaModel, owner: _Owner) -> None:
        self._model, self._owner = model, owner
        self.not_reached = 0

    def frames(self) -> Iterator[pl.DataFrame]:
        coins, done = Coins(), 0
        for frame in batches_of(self._owner.table, self._model, self._owner.tell):
            stop_if_asked()
            released = self._model.release_rows(frame, coins, progress=self._owner.progress)
            self.not_reached += released.not_reached
            if self._model.recipe.kind.leaves_out:
                positions = pl.Series("row", released.kept + done, dtype=pl.Int64)
                yield released.frame.insert_column(0, positions)
            else:
                yield released.frame
            done += frame.height
            self._owner.progress("releasing", done, self._owner.records)


def _charged_job(model: JupaModel, step: ChargedRelease, owner: _Owner) -> pipeline.Job:
    tell = [owner.tell]  # however often the table is read, its owner hears of it once

    def batches() -> Iterator[Reals]:
        for frame in batches_of(owner.table, model, tell.pop() if tell else _quiet):
            yield np.asarray(model.unperturbed(frame))

    for frame in batches_of(owner.table, model, _quiet):  # whatever can fail in the projection fails before the charge
        stop_if_asked()
        model.unperturbed(frame)
    made_by = (
        f"records projected by {step.made_by} to serve {', '.join(model.utility.columns)}; model sha256 "
        f"{model.fingerprint()}"
    )
    return step.job(batches, owner.records, owner.name, made_by)


def _card(model: JupaModel, owner: _Owner, rows: int, not_reached: int | None) -> UtilityCard:
    words, kind = model.words, model.recipe.kind
    return UtilityCard(
        release_id=secrets.token_hex(8),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        library=library(),
        table=owner.name,
        rows=rows,
        table_rows=owner.records,
        not_reached=not_reached,
        kind=kind.name,
        options=model.recipe.to_dict(),
        shown={"columns": list(model.columns)} | model.recipe.used() | {"public records": model.public_rows},
        title=words.title,
        promise=words.promise,
        to_whom=words.to_whom,
        caution=words.caution,
        label_epsilon=words.label_epsilon,
        accuracy_bound=words.accuracy_bound,
        told_by_prediction=words.told,
        utility={"columns": list(model.utility.columns), "classes": model.utility.names},
        privacy={"columns": list(model.privacy.columns), "classes": model.privacy.names},
        model_sha256=model.fingerprint(),
        seed=CardSeed(value=model.seed.hex, origin=model.seed.origin),
        theorem=kind.theorem,
        references=tuple(reference.text for reference in kind.cites),
        bibtex=tuple(reference.bibtex for reference in kind.cites),
        files={},
    )


def _quiet(line: str) -> None:
    """Tell nobody."""
