"""Release folders to evaluate, and quick models."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import adumbra as ad
from adumbra.releases.folder import ReleaseFolder, page_of, sha256
from tests.evaluate.people import SCHEMA


@pytest.fixture(scope="session")
def some_card() -> ad.Card:
    """A real card, whatever fields a card has by now."""
    tiny = ad.Schema.from_dict({"columns": {"v": {"kind": "number", "low": 0, "high": 1}}})
    return ad.release(pl.DataFrame({"v": [0.1, 0.5]}), tiny, ad.DPPro(dimension=1), ad.Budget(1.0, unit="cell")).card


@pytest.fixture
def make(tmp_path: Path, some_card: ad.Card):
    """A release folder of rows in the schema's own columns, as a synthetic mechanism leaves it behind."""

    def folder(data: pl.DataFrame, schema: ad.Schema = SCHEMA, name: str = "release", **facts: object) -> Path:
        path = tmp_path / name
        path.mkdir()
        data.write_parquet(path / "data.parquet")
        changed = {
            "table": "people",
            "mechanism": "stand-in",
            "rows": len(data),
            "table_schema": schema.to_dict(),
            "kind": "synthetic_table",
            "options": {},
            "facts": facts,
            "measured": {},
            "files": {"data.parquet": sha256(path / "data.parquet")},
        }
        card = ad.Card.model_validate_json(some_card.model_copy(update=changed).model_dump_json())
        (path / "card.md").write_text(page_of(card))
        card.files["card.md"] = sha256(path / "card.md")
        (path / "card.json").write_text(card.model_dump_json())
        assert ReleaseFolder.open(path).verify() == []
        return path

    return folder


@pytest.fixture
def quick(monkeypatch):
    """Small forests: the tests are about what is trained and tested on what, not about how well."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    for kind in (RandomForestClassifier, RandomForestRegressor):
        monkeypatch.setattr(kind.__init__, "__defaults__", (10,))  # n_estimators
