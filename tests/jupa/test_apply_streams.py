"""A release of records is written batch by batch, and where the reader's batches end leaves no trace."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from adumbra.common import interrupts
from adumbra.jupa import apply as module
from adumbra.jupa.apply import apply_jupa, batches_of
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.reference import write_reference
from adumbra.ledger.ledger import Ledger
from adumbra.releases.staging import ParquetFrames, regrouped_frames


def people(count, seed):
    rng = np.random.default_rng(seed)
    u, s = np.arange(count) % 2, np.arange(count) // 2 % 2
    return pl.DataFrame({"a": rng.normal(2 * u), "b": rng.normal(s), "u": u, "s": s})


@pytest.fixture(scope="module")
def model():
    return fit_jupa(people(200, 0), JupaRecipe("u", "s", release="coarse"), seed=1)


def batches_end(monkeypatch, rows):
    monkeypatch.setattr(module, "batches_of", lambda opened, fitted, tell: batches_of(opened, fitted, tell, rows))


@pytest.mark.parametrize("rows", [3, 10, 11, 1000])
def test_row_groups_do_not_depend_on_batches(model, rows, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_GROUP", 10)
    batches_end(monkeypatch, rows)
    private = people(35, 1)
    folder = apply_jupa(model, private, tmp_path / "out", csv=True)
    meta = pq.ParquetFile(folder.path / "data.parquet").metadata
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [10, 10, 10, 5]
    assert folder.table().to_numpy() == pytest.approx(model.unperturbed(private))
    assert pl.read_csv(folder.path / "data.csv").height == 35


def test_rows_are_written_before_the_last_are_read(model, monkeypatch, tmp_path):
    events = []
    monkeypatch.setattr(module, "_GROUP", 10)

    def read(opened, fitted, tell):
        for frame in batches_of(opened, fitted, tell, 10):
            events.append("read")
            yield frame

    def written(self, frame, real=ParquetFrames.write):
        events.append("write")
        real(self, frame)

    monkeypatch.setattr(module, "batches_of", read)
    monkeypatch.setattr(ParquetFrames, "write", written)
    apply_jupa(model, people(40, 1), tmp_path / "out")
    assert events == ["read", "write"] * 4


def test_a_charged_release_is_projected_batch_by_batch_and_its_owner_hears_once(monkeypatch, tmp_path):
    noisy = fit_jupa(people(200, 0), JupaRecipe("u", "s", release="laplace", epsilon=20.0, clip=9.0), seed=1)
    batches_end(monkeypatch, 7)
    private, told = people(40, 1).with_columns(a=pl.lit("what?")), []
    ledger = Ledger(tmp_path / "ledger.db")
    folder = apply_jupa(noisy, private, tmp_path / "out", ledger=ledger, tell=told.append)
    assert folder.table().height == 40
    assert len([line for line in told if "40 that the public table does not know" in line]) == 1


def test_an_interrupt_is_heard_between_batches_and_leaves_nothing(model, monkeypatch, tmp_path):
    batches_end(monkeypatch, 7)
    monkeypatch.setattr(interrupts._Wish, "stop", True)
    with pytest.raises(KeyboardInterrupt):
        apply_jupa(model, people(40, 1), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sizes", [[], [0], [5], [3, 3, 3, 3], [25], [0, 10, 0], [9, 1, 1]])
def test_regrouping_keeps_every_row_in_order(sizes):
    ends = np.cumsum([0, *sizes])
    frames = [pl.DataFrame({"x": np.arange(a, b)}) for a, b in itertools.pairwise(ends)]
    found = list(regrouped_frames(iter(frames), 5))
    assert [x for frame in found for x in frame["x"].to_list()] == list(range(ends[-1]))
    assert all(frame.height == 5 for frame in found[:-1]) and all(0 < frame.height <= 5 for frame in found)


def test_a_reference_is_written_batch_by_batch(model, tmp_path):
    people(40_000, 2).write_parquet(tmp_path / "public.parquet")
    count, columns = write_reference(model, tmp_path / "public.parquet", tmp_path / "r.parquet")
    assert (count, columns) == (40_000, ["z1", "u", "s"])
    assert pq.ParquetFile(tmp_path / "r.parquet").metadata.num_row_groups > 1
