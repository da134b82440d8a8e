"""Apply a model to private records and publish what may be published: the one way out for utility-aware releases."""

from __future__ import annotations

import datetime
import secrets
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adumbra import pipeline
from adumbra.core.card import CardSeed, UtilityCard
from adumbra.core.errors import InputError
from adumbra.core.randomness import Coins
from adumbra.core.references import JUPA, RANDOMISED_RESPONSE
from adumbra.core.release import DATA, DATA_CSV, ReleaseFolder, UtilityFolder
from adumbra.core.signature import read_signing_key
from adumbra.core.tabular import Csv, csv_form, write_csv, write_parquet
from adumbra.jupa import local
from adumbra.jupa.model import JupaModel, batches_of
from adumbra.privacy.ledger import Ledger
from adumbra.publish import check_target, seal, staged
from adumbra.table.read import Table, open_table

__all__ = ["apply_jupa"]

Progress = Callable[[str, int, int], None]


def apply_jupa(
    model: JupaModel | str | Path,
    table: Any,
    out: str | Path | None = None,
    *,
    ledger: Ledger | None = None,
    csv: Csv = False,
    signing_key: str | Path | None = None,
    name: str | None = None,
    delimiter: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> UtilityFolder | ReleaseFolder:
    """Release private records by a fitted model, into a folder that may be published.

    Guarantee: what the model's `promise` says, and the card says it again; for every release but laplace that begins
    with "No differential privacy". A laplace release goes through the same door as any other and is charged to the
    ledger; the others spend nothing there, because they promise nothing that a ledger could add up.

    Edge cases: bad input raises `InputError` and writes nothing. The utility label of a private record is never read;
    its privacy label only where the release needs it. With the fine step, records that did not reach their class are
    left out unless the recipe keeps them; the column `row` tells which record (from 0) each released one stands for.
    Without `out` the folder stays in a temporary place. `tell` gets lines for the owner only: which columns had cells
    that are empty or unknown to the public table, which are never refused one by one.
    """
    fitted = model if isinstance(model, JupaModel) else JupaModel.load(model)
    say = progress or _silent
    csv = csv_form(csv)
    key = None if signing_key is None else read_signing_key(signing_key)
    if out is not None:
        check_target(Path(out))
    opened = open_table(table, delimiter=delimiter)
    title = name or opened.name
    total = opened.count()
    target = Path(tempfile.mkdtemp(prefix="adumbra-")) / "release" if out is None else Path(out)
    try:
        if fitted.recipe.release == "laplace":
            return _laplace(fitted, opened, title, target, ledger, csv, key, say, tell or _quiet)
        if ledger is not None:
            raise InputError(
                "a ledger only for release laplace",
                f"release {fitted.recipe.release}, which is not differentially private",
                "leave the ledger out: there is nothing that it could add up",
            )
        with staged(target, numbers=total * len(fitted.columns), csv=csv) as (folder, place):
            frames, not_reached, done = [], 0, 0
            coins = Coins()
            for frame in batches_of(opened, fitted, tell or _quiet):
                released = fitted.release_rows(frame, coins, progress=say if fitted.recipe.release == "fine" else None)
                positions = pl.Series("row", released.kept + done, dtype=pl.Int64)
                whole = fitted.recipe.release != "fine"
                frames.append(released.frame if whole else released.frame.insert_column(0, positions))
                not_reached += released.not_reached
                done += frame.height
                say("releasing", done, total)
            found = pl.concat(frames)
            if not found.height:
                raise InputError(
                    "at least one record that the fine step can move to the class drawn for it",
                    f"none of {total}",
                    "fit again with another --bandwidth or --most-steps, or with --keep-unreached; or use resample",
                )
            with (folder / DATA).open("wb") as parquet:
                write_parquet(found, parquet)
            if csv:
                with (folder / DATA_CSV).open("wb") as text:
                    write_csv(found, text, csv)
            card = _card(fitted, title, found.height, total, not_reached)
            seal(folder, place, card, key)
    except BaseException:
        if out is None:
            shutil.rmtree(target.parent, ignore_errors=True)
        raise
    return UtilityFolder.open(target)


def _laplace(
    model: JupaModel,
    table: Table,
    name: str,
    target: Path,
    ledger: Ledger | None,
    csv: Csv,
    key: Any,
    say: Progress,
    tell: Callable[[str], None],
) -> ReleaseFolder:
    rows = np.concatenate([model.unperturbed(frame) for frame in batches_of(table, model, tell)])
    made_by = (
        f"records projected by {model.recipe.projection} to serve {', '.join(model.utility.columns)}; model sha256 "
        f"{model.fingerprint()}"
    )
    job = local.job_of(rows, model.columns, model.recipe.clip, model.recipe.epsilon or 0.0, name, made_by)
    return pipeline.release(job, target, ledger=ledger, csv=csv, signing_key=key, progress=say)[0]


def _card(model: JupaModel, table: str, rows: int, table_rows: int, not_reached: int) -> UtilityCard:
    words = model.words
    references = (JUPA, RANDOMISED_RESPONSE) if model.recipe.release == "respond" else (JUPA,)
    return UtilityCard(
        release_id=secrets.token_hex(8),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        library=f"adumbra {version('adumbra')}",
        table=table,
        rows=rows,
        table_rows=table_rows,
        not_reached=not_reached,
        release=model.recipe.release,
        title=words.title,
        promise=words.promise,
        to_whom=words.to_whom,
        caution=words.caution,
        label_epsilon=words.label_epsilon,
        accuracy_bound=words.accuracy_bound,
        told_by_prediction=words.told,
        utility={"columns": list(model.utility.columns), "classes": model.utility.names},
        privacy={"columns": list(model.privacy.columns), "classes": model.privacy.names},
        recipe={"columns": list(model.columns)} | model.recipe.used() | {"public records": model.public_rows},
        model_sha256=model.fingerprint(),
        seed=CardSeed(value=model.seed.hex, origin=model.seed.origin),
        theorem="docs/proofs/jupa.md",
        references=tuple(reference.text for reference in references),
        bibtex=tuple(reference.bibtex for reference in references),
        files={},
    )


def _silent(step: str, done: int, total: int) -> None:
    """Say nothing."""


def _quiet(line: str) -> None:
    """Tell nobody."""
