"""Publish what a mechanism made: as a folder (`releases/staging.py`), or as an object in memory; and make its card.

Nothing in this module sees a private row: it receives what came out of the door.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adumbra.accounting.accountant import costs_of, keeps, mu_of
from adumbra.common.csv_forms import Csv
from adumbra.common.plugins import library
from adumbra.common.types import Reals
from adumbra.declare.column import Value
from adumbra.declare.guarantee import Neighbours, Promise, Unit
from adumbra.declare.in_words import columns_in_words, rules_in_words
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.families.contract import Draft, Mechanism, Setting, public_options
from adumbra.kinds.kind import kind_named
from adumbra.kinds.synthetic_table import SyntheticTableFacts
from adumbra.models.columns import drawing
from adumbra.models.rule_repair import obeying
from adumbra.privacy.meter import Calibration
from adumbra.releases.card import Card, CardNoise, CardSeed, CardWords, sentence
from adumbra.releases.folder import ReleaseFolder
from adumbra.releases.record import ReleaseInMemory, ReleaseRecord
from adumbra.releases.staging import RowFiles, as_read, seal, staged, write_arrays, write_card
from adumbra.tables.encode import decode_cells
from adumbra.tables.released_rows import as_released

__all__ = ["CardFacts", "Publication", "publish"]


@dataclass(frozen=True, eq=False)
class CardFacts:
    """The public facts a card is made of."""

    release_id: str
    table: str
    mechanism: Mechanism
    promise: Promise
    setting: Setting
    schema: Schema
    choice: str | None = None
    """Why this mechanism, where it was chosen by rule."""


class Publication(ABC):
    """A release on its way out: its rows, batch by batch, then arrays and card."""

    in_memory: bool
    """Whether all released rows stay in memory."""

    def __init__(self, facts: CardFacts, csv: Csv, signing_key: Ed25519PrivateKey | None) -> None:
        self._facts = facts
        self._csv = csv
        self._signing_key = signing_key
        self.written = 0

    @property
    def form(self) -> tuple[bool, Csv, bool]:
        """What there will be: a folder, a CSV in it, a signature."""
        return not self.in_memory, self._csv, self._signing_key is not None

    @abstractmethod
    def rows(self, draft: Draft) -> Iterator[int]:
        """Take in the draft's rows batch by batch; yields how many there are so far."""

    @abstractmethod
    def finish(self, draft: Draft, measured: Mapping[str, Calibration], ledger_head: str | None) -> ReleaseRecord:
        """The release with its arrays and card; from then on it is published.

        `draft` is what the mechanism made, `measured` the noise of each line, `ledger_head` the hash of the ledger
        after the charge.
        """

    @abstractmethod
    def try_out(self, facts: CardFacts, draft: Draft, measured: Mapping[str, Calibration]) -> None:
        """Do the same with a draft that was made up, and throw it away: what publishing needs is then loaded.

        `facts` are those of the made-up table, `draft` and `measured` as for `finish`; only first rows are taken.
        """

    @abstractmethod
    def try_names(self) -> None:
        """Take in the schema's columns without rows, and throw them away: every name is tried before the charge."""

    def _frames(self, draft: Draft) -> Iterator[pl.DataFrame]:
        """At least one frame, so that a release of no rows has columns too."""
        schema, names = self._facts.schema, draft.columns
        some = False
        for batch in draft.batches:
            some = True
            if names is None:
                yield self._in_schema_columns(_with_words(decode_cells(batch, schema), batch, draft), draft)
            else:
                columns = zip(names, batch.T.copy(), strict=True)
                yield pl.DataFrame({name: _worded(part, draft.words.get(name)) for name, part in columns})
        if not some and names is None:
            yield as_released(decode_cells(np.empty((0, len(schema.measured))), schema), schema)
        elif not some and names is not None:
            yield pl.DataFrame({name: np.empty(0) for name in names})

    def _in_schema_columns(self, frame: pl.DataFrame, draft: Draft) -> pl.DataFrame:
        """Rows that were drawn obey the rules; all get the columns that follow from them."""
        schema = self._facts.schema
        if schema.rules and draft.facts.drawn:
            labels = [name for name in schema.labels if name in frame.columns]
            frame = obeying(frame, schema.rules, drawing(self._facts.setting.seed, f"rules {self.written}"), labels)
        return as_released(frame, schema, self.written)


class _ToMemory(Publication):
    in_memory = True

    def rows(self, draft: Draft) -> Iterator[int]:
        self._held: list[pl.DataFrame] = []
        for frame in self._frames(draft):
            self._held.append(frame)
            self.written += frame.height
            yield self.written

    def finish(self, draft: Draft, measured: Mapping[str, Calibration], ledger_head: str | None) -> ReleaseInMemory:
        card = _card(self._facts, measured, draft, self.written).model_copy(update={"ledger_head": ledger_head})
        pictures = {name: picture() for name, picture in draft.pictures.items()}
        return ReleaseInMemory(as_read(card), pl.concat(self._held, rechunk=False), draft.arrays, pictures, self._csv)

    def try_out(self, facts: CardFacts, draft: Draft, measured: Mapping[str, Calibration]) -> None:
        twin = _ToMemory(facts, self._csv, None)
        for _ in twin.rows(draft):
            break
        twin.finish(draft, measured, None)

    def try_names(self) -> None:
        for _ in _ToMemory(self._facts, self._csv, None).rows(_no_rows()):
            pass


class _ToFolder(Publication):
    """In its temporary folder until it is finished."""

    in_memory = False

    def __init__(
        self, folder: Path, target: Path, facts: CardFacts, csv: Csv, signing_key: Ed25519PrivateKey | None
    ) -> None:
        super().__init__(facts, csv, signing_key)
        self._folder = folder
        self._target = target

    def rows(self, draft: Draft) -> Iterator[int]:
        with RowFiles(self._folder, self._csv) as files:
            for frame in self._frames(draft):
                files.write(frame)
                self.written += frame.height
                yield self.written

    def finish(self, draft: Draft, measured: Mapping[str, Calibration], ledger_head: str | None) -> ReleaseFolder:
        card = self._with_arrays(draft, measured).model_copy(update={"ledger_head": ledger_head})
        return ReleaseFolder(self._target, *seal(self._folder, self._target, card, self._signing_key))

    def try_out(self, facts: CardFacts, draft: Draft, measured: Mapping[str, Calibration]) -> None:
        with self._aside() as place:
            twin = _ToFolder(place, place, facts, self._csv, self._signing_key)
            for _ in twin.rows(draft):
                break
            write_card(place, twin._with_arrays(draft, measured), self._signing_key)
            ReleaseFolder.open(place)

    def try_names(self) -> None:
        with self._aside() as place:
            for _ in _ToFolder(place, place, self._facts, self._csv, None).rows(_no_rows()):
                pass

    @contextlib.contextmanager
    def _aside(self) -> Iterator[Path]:
        place = self._folder / "warm-up"
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place)

    def _with_arrays(self, draft: Draft, measured: Mapping[str, Calibration]) -> Card:
        """Write arrays and pictures; returns the card of everything but the hashes."""
        write_arrays(self._folder, draft.arrays, {name: picture() for name, picture in draft.pictures.items()})
        return _card(self._facts, measured, draft, self.written)


def _no_rows() -> Draft:
    """A table of the schema's columns, without rows."""
    return Draft(None, iter(()), SyntheticTableFacts())


def _with_words(frame: pl.DataFrame, batch: Reals, draft: Draft) -> pl.DataFrame:
    """Decoded rows, with the words of columns whose numbers are places in a list of them: sets."""
    places = {name: batch[:, frame.columns.index(name)] for name in draft.words}
    return frame.with_columns(_worded(place, draft.words[name]).alias(name) for name, place in places.items())


def _worded(part: np.ndarray[Any, Any], words: Sequence[Value | None] | None) -> pl.Series:
    return pl.Series(part) if words is None else pl.Series(list(words)).gather(part.astype(np.int64))


@contextlib.contextmanager
def publish(
    target: Path | None, facts: CardFacts, *, numbers: int, csv: Csv, signing_key: Ed25519PrivateKey | None
) -> Iterator[Publication]:
    """A release being written to the folder `target`, or made in memory where that is None.

    `facts` are what its card says, `numbers` how many values it will have; see `staged` for these and `csv`;
    `signing_key` signs the card.
    """
    if target is None:
        yield _ToMemory(facts, csv, signing_key)
        return
    with staged(target, numbers=numbers, csv=csv) as (folder, place):
        yield _ToFolder(folder, place, facts, csv, signing_key)


def _card(facts: CardFacts, measured: Mapping[str, Calibration], draft: Draft, rows: int) -> Card:
    promise, neighbours, mechanism = facts.promise, facts.promise.neighbours, facts.mechanism
    events = [calibration.event for calibration in measured.values()]
    costs = costs_of(events, promise.delta)
    if not keeps(promise, costs):
        raise RuntimeError(f"the measurements cost {costs}, more than the promised epsilon {promise.epsilon}")
    accounts = {calibration.account for calibration in measured.values()}
    account = "fresh-projection" if "fresh-projection" in accounts else next(iter(accounts))
    row_cost = costs[str(Neighbours(Unit.ROW, neighbours.relation))]
    bound = facts.setting.space.row_bound
    return Card(
        release_id=facts.release_id,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        library=library(),
        table=facts.table,
        rows=rows,
        table_rows=facts.setting.rows,
        mechanism=mechanism.name,
        kind=draft.facts.kind,
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
        options=_plain(public_options(mechanism)),
        facts=draft.facts.model_dump(mode="json"),
        words=_words(facts.schema, draft),
        pictures=tuple(draft.pictures),
        measured=draft.measured,
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


def _words(schema: Schema, draft: Draft) -> CardWords:
    """What the kind says of the release, and what was declared of its columns."""
    words = kind_named(draft.facts.kind).words(draft.facts)
    told = {"Columns": columns_in_words(schema)}
    if rules := rules_in_words(schema):
        obeyed = draft.columns is None and draft.facts.drawn
        told["Rules between columns" + (", which every row obeys" if obeyed else "")] = rules
    return words.model_copy(update={"tables": words.tables | told})


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
