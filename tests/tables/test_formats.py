"""A file format that an installed package adds: found by its entry point, released, evaluated; never a built-in one."""

from __future__ import annotations

import importlib
import sys

import polars as pl
import pytest

import adumbra as ad
from adumbra.tables.read import open_table
from adumbra.tables.row_source import RowSource
from adumbra.tables.text import TextTable

MODULE = """
import json
import polars as pl
from adumbra.tables.read import TableFormat
from adumbra.tables.table import Table, check_names, reading


class JsonLinesTable(Table):
    def __init__(self, opener, name):
        self._opener, self.name = opener, name
        with reading(name, "JSON lines file"):
            first = next(self._lines())
        self.columns = check_names(list(first), name)

    def _lines(self):
        for line in self._opener().read().decode().splitlines():
            yield json.loads(line)

    @property
    def types(self):
        return dict.fromkeys(self.columns, "text")

    def _rows(self):
        with reading(self.name, "JSON lines file"):
            return sum(1 for _ in self._lines())

    def _batches(self, columns, rows):
        with reading(self.name, "JSON lines file"):
            cells = [[None if line[c] is None else str(line[c]) for c in columns] for line in self._lines()]
            for start in range(0, len(cells), rows):
                yield pl.DataFrame(cells[start : start + rows], schema=dict.fromkeys(columns, pl.String), orient="row")


FORMAT = TableFormat("JSON lines", (".jsonl",), JsonLinesTable)
CSV = TableFormat("another CSV", (".csv", ".parquet"), JsonLinesTable)
NONE = 5
"""
SCHEMA = ad.Schema.from_dict(
    {"columns": {"age": {"kind": "number", "low": 0, "high": 110}, "smoker": {"kind": "flag"}}}
)
PEOPLE = pl.DataFrame({"age": [34, 71, 8, None] * 5, "smoker": ["yes", "no", "no", "yes"] * 5})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package that offers `FORMAT`, or another thing, as an entry point."""

    def installed(offered: str = "FORMAT", module: str = MODULE) -> None:
        site = tmp_path / "site"
        (site / "jsonlines_adumbra-1.0.dist-info").mkdir(parents=True)
        (site / "jsonlines_for_adumbra.py").write_text(module)
        info = site / "jsonlines_adumbra-1.0.dist-info"
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jsonlines-adumbra\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[adumbra.formats]\njsonl = jsonlines_for_adumbra:{offered}\n")
        monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()

    yield installed
    sys.modules.pop("jsonlines_for_adumbra", None)


def test_a_format_from_outside_is_released_and_evaluated(install, tmp_path):
    file = tmp_path / "people.jsonl"
    file.write_text(PEOPLE.write_ndjson())
    with pytest.raises(ad.InputError, match="a table as CSV, TSV, Parquet or Arrow"):
        open_table(file)
    install()
    assert open_table(file).count() == 20 and open_table(file).name == "people"
    rows = RowSource.open(file, SCHEMA).whole()
    assert (rows == RowSource.open(PEOPLE, SCHEMA).whole()).all()
    done = ad.release(file, SCHEMA, ad.Tables(rows=5), ad.Budget(1.0), out=tmp_path / "r")
    assert done.card.table == "people" and ad.evaluate_release(tmp_path / "r", file).truth_rows == 20
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ad.InputError, match="CSV, TSV, JSON lines, Parquet or Arrow"):
        open_table(tmp_path / "t.json")
    (tmp_path / "t.jsonl.gz").write_bytes(b"x")
    with pytest.raises(ad.InputError, match=r"compressed \.jsonl"):
        open_table(tmp_path / "t.jsonl.gz")


def test_a_damaged_file_of_a_format_from_outside_says_nothing_of_its_cells(install, tmp_path):
    install()
    (tmp_path / "t.jsonl").write_text('{"age": 34}\n{"age": secret}\n')
    with pytest.raises(ad.InputError, match="damaged") as error:
        open_table(tmp_path / "t.jsonl").count()
    assert "secret" not in str(error.value)


def test_what_is_built_in_cannot_be_replaced(install, tmp_path):
    install("CSV")
    PEOPLE.write_csv(tmp_path / "t.csv")
    PEOPLE.write_parquet(tmp_path / "t.parquet")
    assert isinstance(open_table(tmp_path / "t.csv"), TextTable)
    assert open_table(tmp_path / "t.parquet").types["age"] == "number"


@pytest.mark.parametrize(("offered", "module"), [("NONE", MODULE), ("ABSENT", MODULE), ("FORMAT", "1 / 0")])
def test_a_package_that_offers_no_format_is_named(offered, module, install, tmp_path):
    install(offered, module)
    (tmp_path / "t.jsonl").write_text("{}")
    with pytest.raises(ad.InputError, match=r"jsonl \(jsonlines_for_adumbra"):
        open_table(tmp_path / "t.jsonl")
