"""Frames as files: Parquet, CSV as it is, or CSV such that no spreadsheet takes its text for a formula.

A spreadsheet runs a cell that begins with =, +, -, @, a tab or a line break. Names of columns and values of categories
come from the schema, hence from its owner; whoever opens the file of somebody else in a spreadsheet may ask for a form
in which such text begins with an apostrophe. Numbers stay as they are.
"""

from __future__ import annotations

import csv as text_csv
import datetime
import errno
import io
from typing import BinaryIO, Literal

import polars as pl

from adumbra.common.errors import InputError

__all__ = ["FORMULA_SAFE", "Csv", "csv_form", "formula_safe", "write_csv", "write_parquet"]

Csv = bool | Literal["formula-safe"]
"""No CSV, CSV as it is, or one for spreadsheets."""
FORMULA_SAFE: Literal["formula-safe"] = "formula-safe"

_RUNS = r"^[\t\r\n]|^\s*[=+\-@\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}]"
"""How text begins that a spreadsheet would run: also after blanks, and in the wide forms of those signs."""


def csv_form(csv: object) -> Csv:
    """The form that was asked for.

    >>> csv_form("formula-safe")
    'formula-safe'
    """
    if isinstance(csv, bool):
        return csv
    if csv == FORMULA_SAFE:
        return FORMULA_SAFE
    raise InputError(f"csv = True, False or {FORMULA_SAFE!r}", f"{csv!r}", "choose one of them")


def formula_safe(text: pl.Series) -> pl.Series:
    """The same texts, with an apostrophe before those that a spreadsheet would run.

    >>> formula_safe(pl.Series(["=1+1", "a=b", None, "-"])).to_list()
    ["'=1+1", 'a=b', None, "'-"]
    """
    plain = text.cast(pl.String)
    return ("'" + plain).zip_with(plain.str.contains(_RUNS).fill_null(False), plain).alias(text.name)


def write_csv(frame: pl.DataFrame, file: BinaryIO | io.BytesIO, form: Csv = True, *, header: bool = True) -> None:
    """Write the rows of `frame` to `file` as CSV, in UTF-8.

    `form` is True for plain CSV, or `FORMULA_SAFE`, which quotes text and defuses what a spreadsheet would run;
    `header` says whether a first line has the names of the columns.
    """
    frame = _times_as_text(frame)
    if form != FORMULA_SAFE:
        frame.write_csv(file, include_header=header)
        return
    if header:  # apart from the rows: two names may be the same after an apostrophe was put before one
        names = io.StringIO()
        text_csv.writer(names, quoting=text_csv.QUOTE_ALL, lineterminator="\n").writerow(
            formula_safe(pl.Series(frame.columns, dtype=pl.String))
        )
        file.write(names.getvalue().encode())
    texts = [c for c in frame.get_columns() if c.dtype in (pl.String, pl.Categorical, pl.Enum)]
    # Text is quoted: else a separator that only some spreadsheets know could begin a cell in its middle.
    frame.with_columns(formula_safe(c) for c in texts).write_csv(file, include_header=False, quote_style="non_numeric")


def _times_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Moments, times and durations as ISO 8601 has them, without parts of a second where there are none."""
    columns = []
    for cells in frame.get_columns():
        if isinstance(cells.dtype, pl.Datetime):
            cells = cells.dt.to_string("%Y-%m-%dT%H:%M:%S%.f" + ("%:z" if cells.dtype.time_zone else ""))
        elif cells.dtype == pl.Time:
            cells = cells.dt.to_string("%H:%M:%S%.f")
        elif isinstance(cells.dtype, pl.Duration):
            each = cells.unique().drop_nulls()
            words = pl.Series([_iso_span(one) for one in each.to_list()], dtype=pl.String)
            cells = cells.to_physical().replace_strict(each.to_physical(), words, default=None, return_dtype=pl.String)
        columns.append(cells)
    return pl.DataFrame(columns)


def _iso_span(span: datetime.timedelta) -> str:
    """A duration as ISO 8601 has it.

    >>> _iso_span(datetime.timedelta(days=3, hours=4)), _iso_span(-datetime.timedelta(seconds=90.5))
    ('P3DT4H', '-PT1M30.5S')
    """
    size = abs(span)
    hours, rest = divmod(size.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    tail = f".{size.microseconds:06}".rstrip("0").rstrip(".")
    clock = "".join(f"{part}{unit}" for part, unit in ((hours, "H"), (minutes, "M")) if part)
    clock += f"{seconds}{tail}S" if seconds or tail or not (size.days or clock) else ""
    days = f"{size.days}D" if size.days else ""
    return f"{'-' if span < datetime.timedelta() else ''}P{days}{'T' if clock else ''}{clock}"


def write_parquet(frame: pl.DataFrame, file: BinaryIO) -> None:
    """Write rows as Parquet; a disk that is full is an OSError, as anywhere else."""
    try:
        frame.write_parquet(file)
    except pl.exceptions.PolarsError:
        raise OSError(errno.EIO, "writing stopped: is the disk full?") from None
