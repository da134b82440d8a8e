"""Write a release folder so that it is either wholly there or not there at all.

Everything goes to a temporary folder beside the target; the card is written last; one rename publishes. Nothing in
this module sees a private row: it receives what came out of the door.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adumbra.core.card import Card, CardNoise, CardSeed, UtilityCard, sentence
from adumbra.core.checkpoint import checkpoint
from adumbra.core.column import Value
from adumbra.core.errors import InputError
from adumbra.core.events import Event
from adumbra.core.files import claim_folder, partial_beside, sync
from adumbra.core.guarantee import Neighbours, Promise, Unit
from adumbra.core.mechanism import Draft, Mechanism, Setting
from adumbra.core.release import CARD, CARD_TEXT, DATA, DATA_CSV, MODEL, SIGNATURE, ReleaseFolder, page_of, sha256
from adumbra.core.schema import Schema
from adumbra.core.shown import shown_json
from adumbra.core.signature import sign
from adumbra.core.space import GRID
from adumbra.core.tabular import Csv, write_csv
from adumbra.privacy.accounting import epsilon_of, mu_of
from adumbra.privacy.meter import Calibration
from adumbra.table.encode import decode_cells

__all__ = ["Facts", "Publication", "check_target", "costs_of", "publish", "seal", "staged"]


@dataclass(frozen=True, eq=False)
class Facts:
    """The public facts a card is made of."""

    release_id: str
    table: str
    mechanism: Mechanism
    promise: Promise
    setting: Setting
    schema: Schema
    choice: str | None = None
    """Why this mechanism, where it was chosen by rule."""


def costs_of(events: Sequence[Event], delta: float) -> dict[str, float | None]:
    """Epsilon at this delta for every unit and relation; None where there is no finite one."""
    costs = {str(n): epsilon_of(events, n, delta) for n in Neighbours.every()}
    return {key: value if np.isfinite(value) else None for key, value in costs.items()}


class Publication:
    """A release being written, in its temporary folder."""

    def __init__(
        self, folder: Path, target: Path, facts: Facts, csv: Csv, signing_key: Ed25519PrivateKey | None
    ) -> None:
        self._folder = folder
        self._target = target
        self._facts = facts
        self._csv = csv
        self._signing_key = signing_key
        self.written = 0

    @property
    def form(self) -> tuple[Csv, bool]:
        """Which files there will be: a CSV, a signature."""
        return self._csv, self._signing_key is not None

    def rows(self, draft: Draft) -> Iterator[int]:
        """Write the draft's rows batch by batch; yields how many are written."""
        with contextlib.ExitStack() as stack:
            parquet = None
            text = stack.enter_context((self._folder / DATA_CSV).open("wb")) if self._csv else None
            for frame in self._frames(draft):
                table = frame.to_arrow()
                if parquet is None:
                    # Noise never repeats, so a dictionary of it would only cost time and room; few values do repeat.
                    parquet = stack.enter_context(
                        pq.ParquetWriter(
                            self._folder / DATA,
                            table.schema,
                            use_dictionary=[f.name for f in table.schema if not pa.types.is_floating(f.type)] or False,
                            compression="snappy",
                        )
                    )
                # a table is one row group, written out; write_batch would hold a million rows back in memory
                parquet.write_table(table)
                if text is not None:
                    write_csv(frame, text, self._csv, header=self.written == 0)
                self.written += frame.height
                yield self.written

    def _frames(self, draft: Draft) -> Iterator[pl.DataFrame]:
        """At least one frame, so that a release of no rows has columns too."""
        schema, names = self._facts.schema, draft.columns
        some = False
        for batch in draft.batches:
            some = True
            if names is None:
                yield decode_cells(batch, schema)
            else:
                columns = zip(names, batch.T.copy(), strict=True)
                yield pl.DataFrame({name: _worded(part, draft.words.get(name)) for name, part in columns})
        if not some and names is None:
            yield decode_cells(np.empty((0, len(schema.released))), schema)
        elif not some and names is not None:
            yield pl.DataFrame({name: np.empty(0) for name in names})

    def finish(self, draft: Draft, measured: Mapping[str, Calibration], ledger_head: str | None) -> None:
        """Write arrays, card and signature, then rename the folder into place."""
        card = self._with_arrays(draft, measured).model_copy(update={"ledger_head": ledger_head})
        seal(self._folder, self._target, card, self._signing_key)

    def try_out(self, facts: Facts, draft: Draft, measured: Mapping[str, Calibration]) -> None:
        """Write a draft that was made up, its first rows only, and throw it away: what writing needs is then loaded."""
        place = self._folder / "warm-up"
        place.mkdir()
        try:
            twin = Publication(place, place, facts, self._csv, self._signing_key)
            for _ in twin.rows(draft):
                break
            write_card(place, twin._with_arrays(draft, measured), self._signing_key)
            ReleaseFolder.open(place)
        finally:
            shutil.rmtree(place)

    def try_names(self) -> None:
        """Write the schema's columns without rows, and throw them away: every name is tried before the charge."""
        place = self._folder / "warm-up"
        place.mkdir()
        try:
            twin = Publication(place, place, self._facts, self._csv, None)
            for _ in twin.rows(Draft(None, iter(()))):
                pass
        finally:
            shutil.rmtree(place)

    def _with_arrays(self, draft: Draft, measured: Mapping[str, Calibration]) -> Card:
        """Write arrays and pictures; returns the card of everything but the hashes."""
        if draft.arrays:
            # noise does not compress
            np.savez(self._folder / MODEL, allow_pickle=False, **draft.arrays)
        for name, picture in draft.pictures.items():
            (self._folder / name).write_text(picture(), encoding="utf-8")
        return _card(self._facts, measured, draft, self.written)


def seal(folder: Path, target: Path, card: Card | UtilityCard, signing_key: Ed25519PrivateKey | None) -> None:
    """Write the card with the hash of every file, sign it, and rename the temporary folder into place."""
    write_card(folder, card, signing_key)
    for file in (*folder.iterdir(), folder):
        sync(file)
    checkpoint("before the rename")
    check_target(target)
    folder.rename(target)
    with contextlib.suppress(OSError):  # the release is there; only a power cut now could lose its name
        sync(target.parent)


def write_card(folder: Path, card: Card | UtilityCard, signing_key: Ed25519PrivateKey | None) -> None:
    """Write the card beside the files of a release, with the hash of each, and sign it."""
    files = {p.name: sha256(p) for p in sorted(folder.iterdir())}
    # as a reader will find it, so that the page made from it there is the same
    read_back = type(card).model_validate_json(card.model_dump_json())
    page = page_of(read_back.model_copy(update={"files": files}))
    (folder / CARD_TEXT).write_bytes(page.encode())
    files[CARD_TEXT] = sha256(folder / CARD_TEXT)
    text = (shown_json(read_back.model_copy(update={"files": files}).model_dump_json(indent=2)) + "\n").encode()
    (folder / CARD).write_bytes(text)
    if signing_key is not None:
        (folder / SIGNATURE).write_text(sign(text, signing_key), encoding="utf-8")


def _worded(part: np.ndarray[Any, Any], words: Sequence[Value] | None) -> pl.Series:
    return pl.Series(part) if words is None else pl.Series(list(words)).gather(part.astype(np.int64))


def check_target(target: Path) -> None:
    """Refuse a place where something stands already, before any work is done."""
    if target.name in ("", ".."):
        raise _exists(target)
    try:
        target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise _no_place(target, error) from None
    raise _exists(target)


@contextlib.contextmanager
def publish(
    target: Path, facts: Facts, *, numbers: int, csv: Csv, signing_key: Ed25519PrivateKey | None
) -> Iterator[Publication]:
    """A release being written; see `staged`."""
    with staged(target, numbers=numbers, csv=csv) as (folder, place):
        yield Publication(folder, place, facts, csv, signing_key)


@contextlib.contextmanager
def staged(target: Path, *, numbers: int, csv: Csv) -> Iterator[tuple[Path, Path]]:
    """Open the temporary folder; on any failure remove it, so that no half release is left.

    `numbers` is how many values will be written: a disk that cannot hold them is refused before any charge. A
    process that is killed cannot clean up; the next command that works in the same place removes what it left.
    """
    check_target(target)
    target = target.absolute()
    new_parents = [parent for parent in target.parents if not parent.exists()]
    # Named before it is made: an interrupt at any moment finds its name here and removes it.
    folder = partial_beside(target)
    lock = None
    try:
        try:
            lock = claim_folder(folder)
        except OSError as error:
            raise _no_place(folder.parent, error) from None
        needed = numbers * (34 if csv else 9) + (1 << 16)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise InputError(
                f"about {needed / 1e6:.1f} MB free for the release",
                f"{free / 1e6:.1f} MB",
                "free some room first; nothing was charged",
            )
        yield folder, target
    except OSError as error:
        # Whatever the system refuses at this point (full disk, quota, a removed folder), the user hears the same.
        raise InputError(
            "to write the release to the end",
            error.strerror or type(error).__name__,
            "mend the cause and release again",
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(new_parents)
        if lock is not None:
            os.close(lock)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Take back folders made on the way, innermost first, as far as nothing was put in them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _exists(target: Path) -> InputError:
    return InputError("an --out that does not exist yet", f"{target} exists", "choose another name or remove it")


def _no_place(target: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError("a place to write the release", f"{target} ({reason})", "choose another --out")


def _card(facts: Facts, measured: Mapping[str, Calibration], draft: Draft, rows: int) -> Card:
    promise, neighbours, mechanism = facts.promise, facts.promise.neighbours, facts.mechanism
    events = [calibration.event for calibration in measured.values()]
    costs = costs_of(events, promise.delta)
    stated = costs[str(neighbours)]
    if stated is None or stated > promise.epsilon * (1 + 1e-6):
        raise RuntimeError(f"the measurements cost {stated}, more than the promised epsilon {promise.epsilon}")
    accounts = {calibration.account for calibration in measured.values()}
    account = "fresh-projection" if "fresh-projection" in accounts else next(iter(accounts))
    row_cost = costs[str(Neighbours(Unit.ROW, neighbours.relation))]
    bound = facts.setting.space.row_bound
    return Card(
        release_id=facts.release_id,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        library=f"adumbra {version('adumbra')}",
        table=facts.table,
        rows=rows,
        table_rows=facts.setting.rows,
        mechanism=mechanism.name,
        choice=facts.choice,
        title=mechanism.title,
        releases=mechanism.releases,
        caution=mechanism.caution,
        promise=sentence(promise.epsilon, promise.delta, neighbours, account, row_cost),
        unit=neighbours.unit.value,
        relation=neighbours.relation.value,
        epsilon=promise.epsilon,
        delta=promise.delta,
        mu=None if account == "fresh-projection" else mu_of(events, neighbours),
        costs=costs,
        parameters=_plain(draft.parameters),
        tables=_plain(draft.tables),
        pictures=tuple(draft.pictures),
        noise={line: _card_noise(calibration, neighbours) for line, calibration in measured.items()},
        row_bound=None if bound is None else bound / GRID,
        seed=CardSeed(value=facts.setting.seed.hex, origin=facts.setting.seed.origin),
        answers=mechanism.answers if draft.answers is None else draft.answers,
        theorem=mechanism.theorem,
        differs=mechanism.differs,
        references=tuple(reference.text for reference in mechanism.cites),
        bibtex=tuple(reference.bibtex for reference in mechanism.cites),
        table_schema=facts.schema.to_dict(),
        files={},
    )


def _plain(value: Any) -> Any:
    """The same in types that JSON has: numpy's numbers would stop the card after everything was paid for."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _card_noise(calibration: Calibration, neighbours: Neighbours) -> CardNoise:
    event = calibration.event
    return CardNoise(
        law=event.noise,
        scale=event.scale,
        standard_deviation=event.sd,
        parts={name: part.sd for name, part in calibration.parts.items()},
        grid_step=calibration.coarsest.step,
        steps=calibration.coarsest.steps,
        sensitivity=event.sensitivity[str(neighbours)],
        account=calibration.account,
        slack=event.slack,
    )
