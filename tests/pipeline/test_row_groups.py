"""What the layout of a released file tells of the table: nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import adumbra as ad
from adumbra.tables import text

CELL = ad.Budget(1.0, unit="cell")


ONE = ad.Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})


TWO = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": 0, "high": 1} for c in "ab"}})


def row_groups(folder):
    file = pq.ParquetFile(folder / "data.parquet")
    return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]


def test_row_groups_do_not_tell_how_long_the_private_cells_are(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK", 4096)
    shapes = []
    for name, cell in (("short", "0.5"), ("long", "0." + "5" * 100)):
        (tmp_path / f"{name}.csv").write_text("a,b\n" + f"{cell},0.5\n" + "0.125,0.125\n" * 999)
        ad.release(tmp_path / f"{name}.csv", TWO, ad.DPPro(dimension=1), CELL, out=tmp_path / name)
        shapes.append(row_groups(tmp_path / name))
    assert shapes[0] == shapes[1]


def test_row_groups_do_not_tell_the_layout_of_the_source(tmp_path):
    shapes = []
    for name, parts in (("x", (10, 290)), ("y", (150, 150))):
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), pa.schema([("a", pa.float64())])) as file:
            for rows in parts:
                file.write_batch(pa.record_batch([pa.array(np.full(rows, 0.5))], names=["a"]))
        ad.release(tmp_path / f"{name}.arrow", ONE, ad.DPPro(dimension=1), CELL, out=tmp_path / name)
        shapes.append(row_groups(tmp_path / name))
    assert shapes[0] == shapes[1]
