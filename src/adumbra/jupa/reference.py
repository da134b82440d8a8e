"""Public records in the coordinates of a release, unprotected: what a service trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from adumbra.common.files import new_file
from adumbra.jupa.model import JupaModel
from adumbra.releases.staging import ParquetFrames
from adumbra.tables.read import open_table

__all__ = ["write_reference"]


def write_reference(model: JupaModel, public: Any, out: Path, *, delimiter: str | None = None) -> tuple[int, list[str]]:
    """Write PUBLIC records as `model` releases them without protection, with the labels that they have.

    `public` is a file or a frame (`delimiter`: of a text file), `out` the Parquet file to create. Returns how many
    records there were, and the columns. Never give it private records: nothing about them is protected.
    """
    opened = open_table(public, delimiter=delimiter)
    targets = (*model.utility.columns, *model.privacy.columns)
    labels = [name for name in targets if name in opened.columns]
    columns: list[str] = []
    with new_file(out) as file, ParquetFrames(file) as parquet:
        for frame in opened.batches(opened.columns):
            plain = model.unperturbed(frame)
            found = pl.DataFrame({name: plain[:, i] for i, name in enumerate(model.columns)}).hstack(frame[labels])
            columns = found.columns
            parquet.write(found)
    return parquet.written, columns
