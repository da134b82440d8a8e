"""Tables with gaps, sets, spikes and ids on their way through a whole release."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.declare.column import Column


def baskets(rows: int = 400) -> tuple[pl.DataFrame, dict]:
    generator = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "age": generator.integers(0, 100, rows),
            "basket": generator.choice(["a", "a b", "b c", ""], rows),
            "ill": generator.choice(["no", "yes"], rows),
        }
    )
    columns = {
        "age": {"kind": "number", "low": 0, "high": 100, "integer": True},
        "basket": {"kind": "set", "values": ["a", "b", "c"], "most": 2, "separator": " "},
        "ill": {"kind": "flag", "values": ["no", "yes"], "role": "label"},
    }
    return frame, {"columns": columns}


@pytest.mark.parametrize("mechanism", ["auto", "pairs", "hybrid", "tables", "moments"])
def test_sets_are_drawn_beside_a_label(mechanism):
    frame, schema = baskets()
    made = ad.release(frame, schema, mechanism, 4.0).table
    assert made.columns == frame.columns
    assert set(made["ill"].drop_nulls()) <= {"no", "yes"}
    items = made["basket"].drop_nulls().str.split(" ")
    assert items.list.len().max() <= 2 and set(items.explode().drop_nulls()) <= {"a", "b", "c", ""}


def test_a_spike_is_itself_where_the_grid_is_coarser_than_the_column():
    column = Column("pay", "number", low=-200_000, high=1_400_000, integer=True, spikes=(0, 12_345))
    assert column.cells.levels is None
    places = np.array(column.cells.spikes, dtype=np.float64)
    assert column.cells.write(places).to_list() == [0, 12_345]


def test_spikes_of_moments_are_themselves_too():
    column = Column("t", "datetime", low="2010-01-01", high="2020-01-01", spikes=("2015-06-01T08:00:01",))
    assert column.cells.levels is None
    told = column.cells.write(np.array(column.cells.spikes, dtype=np.float64))
    assert told.dt.strftime("%Y-%m-%dT%H:%M:%S").to_list() == ["2015-06-01T08:00:01"]


def test_a_label_is_measured():
    columns = {
        "age": {"kind": "number", "low": 0, "high": 100, "integer": True},
        "adult": {"kind": "flag", "derived": "age >= 18", "role": "label"},
    }
    with pytest.raises(ad.InputError, match=r"a label that is measured.*'adult'"):
        ad.Schema.from_dict({"columns": columns})


def test_a_plan_tells_the_owner_what_cannot_be_read_at_no_cost(tmp_path):
    frame = pl.DataFrame({"day": ["03/17/2020", "12/01/2020", ""], "age": [1, 2, 300]})
    columns = {
        "day": {"kind": "date", "low": "2020-01-01", "high": "2020-12-31", "format": "%d.%m.%Y"},
        "age": {"kind": "number", "low": 0, "high": 110},
    }
    ledger = ad.Ledger(tmp_path / "ledger.db")
    plan = ad.plan(frame, {"columns": columns}, "tables", 1.0, ledger=ledger)
    assert plan.owner_notes().lines() == [
        "day: 1 missing, 2 unknown, 0 out of range",
        "age: 0 missing, 0 unknown, 1 out of range",
    ]
    assert not (tmp_path / "ledger.db").exists()


def test_a_private_number_of_rows_is_not_asked_of_a_pattern_and_ids_stay_apart():
    frame = pl.DataFrame({"id": range(150), "age": range(150)})
    schema = {
        "columns": {
            "id": {"role": "id", "pattern": "P#"},
            "age": {"kind": "number", "low": 0, "high": 200, "integer": True},
        }
    }
    made = ad.release(frame, schema, "tables", 4.0, relation="add-remove").table
    assert made["id"].n_unique() == made.height and made["id"].str.starts_with("P").all()
    with pytest.raises(ad.InputError, match="a pattern for 150 ids"):
        ad.plan(frame, schema, "tables", 4.0)


def test_the_command_line_is_a_module_too():
    done = subprocess.run([sys.executable, "-m", "adumbra", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("adumbra ")
