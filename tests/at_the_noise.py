"""Two tables, one set of noisy answers: what then still differs did not pass through the noise.

The first table is released as always and its noisy answers are kept. The second gets the very same ones, so later looks
ask the same and everything that is published must be the same too. What differs is what the noise was added to: by how
much, in units of that noise, is what a neighbouring table costs.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra import pipeline
from adumbra.accounting.events import Event
from adumbra.noise import add as noise
from adumbra.privacy import meter
from adumbra.queries.histograms import TailChoice
from adumbra.releases.card import Card
from tests.mechanisms import test_synthetic

SCHEMA = ad.Schema.from_dict(test_synthetic.MIXED)
CORNERS = [
    {"age": 0, "score": -5.0, "children": 0, "smoker": False, "ward": "north", "grade": 1, "ill": "no"},
    {"age": 100, "score": 5.0, "children": 9, "smoker": True, "ward": "west", "grade": 4, "ill": "yes"},
    {"age": 100, "score": 5.0, "children": 9, "smoker": True, "ward": "west", "grade": 4, "ill": "no"},
    dict.fromkeys(test_synthetic.MIXED["columns"]),
]
REST = test_synthetic.mixed(12, seed=3)


def with_row(row) -> pl.DataFrame:
    """Twelve people and one more; without a row, the twelve."""
    return REST if row is None else pl.concat([pl.DataFrame([row], schema=REST.schema), REST])


@dataclass
class Call:
    """One call for noise: of which answer, with which law, and the numbers with the scale of each array."""

    event: Event
    """What was charged for it; the same object for all calls of a line."""
    chosen: bool
    """Whether only the place of the smallest number leaves."""
    law: str
    asked: list[tuple[np.ndarray, float]]
    noisy: list[np.ndarray]


@dataclass
class Released:
    """A release and everything it asked noise for."""

    folder: ad.Release
    calls: list[Call]

    @property
    def events(self) -> list[Event]:
        """Of each line once, in order."""
        return list({id(call.event): call.event for call in self.calls}.values())


def warming(patch: pytest.MonkeyPatch) -> list[bool]:
    """Not empty while a release runs on its made-up rows, whose noise is not the release's."""
    now: list[bool] = []
    real = pipeline.warm_up

    def told(*arguments):
        now.append(True)
        try:
            real(*arguments)
        finally:
            now.pop()

    patch.setattr(pipeline, "warm_up", told)
    return now


def released(table, schema, mechanism, budget, row_bound=None, like=None) -> Released:
    """A release; with `like`, one that gets the noisy answers of that other one."""
    calls: list[Call] = []
    measuring: list = []
    made_up: list[bool] = []
    plain, by_length, by_row = noise.add_noise, noise.add_l2_noise, noise.add_l2_noise_by_row
    summed, answers = meter._summed, meter._answers

    def hear(law, asked, draw):
        if made_up:
            return draw()
        query, calibration = measuring[-1]
        now = [(np.array(exact, dtype=float), t) for exact, t in asked]
        if like is None:
            noisy = draw()
        else:
            assert len(calls) < len(like.calls), "more answers than for the other table"
            before = like.calls[len(calls)]
            assert law == before.law and [t for _, t in now] == [t for _, t in before.asked], "the noise depends on it"
            shapes = [[exact.shape for exact, _ in each] for each in (now, before.asked)]
            assert shapes[0] == shapes[1], "the size of an answer depends on the table"
            noisy = before.noisy
        calls.append(Call(calibration.event, isinstance(query, TailChoice), law, now, noisy))
        return [np.array(each) for each in noisy]

    def watched_sum(rows, query, calibration, *rest):
        measuring.append((query, calibration))
        out = summed(rows, query, calibration, *rest)
        measuring.pop()
        return out

    def watched_rows(rows, query, calibration, *rest):
        batches = answers(rows, query, calibration, *rest)
        while True:
            measuring.append((query, calibration))
            batch = next(batches, None)
            measuring.pop()
            if batch is None:
                return
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        made_up = warming(patch)
        patch.setenv("ADUMBRA_THREADS", "1")  # so that an answer is noised while it is asked for
        patch.setattr(meter, "_summed", watched_sum)
        patch.setattr(meter, "_answers", watched_rows)
        patch.setattr(
            noise,
            "add_noise",
            lambda law, exact, t, step, **kw: hear(law, [(exact, t)], lambda: [plain(law, exact, t, step, **kw)])[0],
        )
        patch.setattr(
            noise,
            "add_l2_noise",
            lambda arrays: hear("by length", [(exact, t) for exact, t, _ in arrays], lambda: by_length(arrays)),
        )
        patch.setattr(
            noise,
            "add_l2_noise_by_row",
            lambda exact, t, step, **kw: hear("by row", [(exact, t)], lambda: [by_row(exact, t, step, **kw)])[0],
        )
        seed = ad.PublicSeed.given("moved")
        folder = ad.release(table, schema, mechanism, budget, seed=seed, row_bound=row_bound)
    return Released(folder, calls)


def published(folder: ad.Release) -> dict:
    """Every public field of a release folder but its own name, its date and the hashes that follow from them."""
    card = {**folder.card.model_dump(), "release_id": "", "created": "", "files": sorted(folder.card.files)}
    assert set(card) == set(Card.model_fields)
    arrays = {key: (value.dtype, value.shape, value.tobytes()) for key, value in folder.arrays.items()}
    with tempfile.TemporaryDirectory() as place:
        written = ad.Release(folder.record).save(Path(place) / "release")  # `folder` itself stays in memory
        pictures = {name: (written / name).read_text(encoding="utf-8") for name in folder.card.pictures}
        names = sorted(path.name for path in written.iterdir())
    return {"card": card, "table": folder.table, "arrays": arrays, "pictures": pictures, "files": names}


def same_in_public(one: ad.Release, other: ad.Release) -> None:
    """Nothing but what meets the noise may tell two tables apart; says where they differ, never the values."""
    here, there = published(one), published(other)
    different = [key for key in here["card"] if here["card"][key] != there["card"][key]]
    assert not different, f"something went around the noise: {', '.join(different)} of the card"
    assert here.pop("table").equals(there.pop("table")), "something went around the noise: the rows"
    for key, value in here.items():
        assert value == there[key], f"something went around the noise: {key}"


def changes_of(one: Released, other: Released) -> list[tuple[Call, list[np.ndarray]]]:
    """Of each call for noise: the change of what it was added to, in units of the noise."""
    assert len(one.calls) == len(other.calls), "fewer answers than for the other table"
    return [
        (call, [(exact - old) / t for (exact, t), (old, _) in zip(call.asked, before.asked, strict=True)])
        for call, before in zip(other.calls, one.calls, strict=True)
    ]


def moved(one, other, mechanism, budget, row_bound):
    """How far the second table is from the first in everything that meets noise: law and change, call by call."""
    first = released(one, SCHEMA, mechanism, budget, row_bound)
    second = released(other, SCHEMA, mechanism, budget, row_bound, like=first)
    same_in_public(first.folder, second.folder)
    return [(call.law, change) for call, change in changes_of(first, second)]


def paid_for(changes):
    """What these changes cost: mu of Gaussian noise, or epsilon of noise without a delta."""
    squares = epsilon = 0.0
    for law, found in changes:
        whole = np.concatenate([change.ravel() for change in found])
        if law == "gaussian":
            squares += float(whole @ whole)
        elif law == "laplace":
            epsilon += float(np.abs(whole).sum())
        elif law == "by length":
            epsilon += float(np.linalg.norm(whole))
        else:
            epsilon += float(np.linalg.norm(found[0], axis=1).sum())
    assert squares == 0 or epsilon == 0, "two kinds of noise in one release"
    return epsilon or math.sqrt(squares)


def event_by_event(one: Released, other: Released) -> list[tuple[Event, float]]:
    """For each event, how far its whole answer moves, in units of its scale.

    Of a noisy choice twice the score that moves most counts, however many there are (docs/proofs/strategies.md).
    """
    found: dict[int, tuple[Event, list]] = {}
    for (call, change), before in zip(changes_of(one, other), one.calls, strict=True):
        event, changes = found.setdefault(id(before.event), (before.event, []))
        assert call.event == event, "what was charged depends on the table"
        if call.chosen:
            changes.append(("laplace", [2 * np.abs(change[0]).max(keepdims=True)]))
        else:
            changes.append((call.law, change))
    return [(event, paid_for(changes)) for event, changes in found.values()]
