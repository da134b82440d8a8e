"""What every table can do, whatever it is read from, and what the readers share.

A table can be read any number of times and is never held whole by the reader (a frame that is already in
memory stays there). `Table.count()` reads everything once. Whatever is wrong with the shape of a file is found
there, before any budget is spent. No message carries the content of a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, NoReturn, cast

import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from adumbra.common.errors import InputError, is_panic

__all__ = ["CellType", "Native", "Opener", "Table", "check_names", "empty_file", "reading"]

Native = Literal["polars", "pandas", "pyarrow"]
CellType = Literal["text", "number", "boolean", "time", "other"]
Opener = Callable[[], Any]


class Table(ABC):
    """A private table that can be read again and again.

    `columns` are its column names, `types` what kind of cell each holds, `name` the file's stem or "table",
    `native` the library that frames should come back in. Text files hold nothing but text.
    """

    columns: tuple[str, ...]
    name: str = "table"
    native: Native = "polars"
    origin: tuple[str, str | None] | None = None
    """Where it can be opened again, and with which delimiter: a file or a pattern; None for all else."""

    @property
    @abstractmethod
    def types(self) -> dict[str, CellType]:
        """Cell type of each column: known from the file's own schema or the frame's types."""

    @abstractmethod
    def _rows(self) -> int: ...

    @abstractmethod
    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]: ...

    @cached_property
    def _counted(self) -> int:
        total = self._rows()
        if total == 0:
            raise InputError("a table with rows", f"{self.name} has columns but no rows", "give a table with data")
        return total

    def count(self) -> int:
        """Number of rows, after reading everything once; every structural error is raised here."""
        return self._counted

    def batches(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame]:
        """Those columns, in that order, at most `rows` rows at a time. Each call starts from the top."""
        types = self.types
        for name in columns:
            if name not in types:
                raise InputError(f"a column of {self.name}", repr(name), "check the spelling in the schema")
            if types[name] == "other":
                raise InputError(
                    f"column {name!r} with plain cells (text, numbers, true and false)",
                    "lists, records, raw bytes or another type without single values",
                    'write role = "drop" for it in the schema, or convert it',
                )
        self.count()
        return self._unchanged(list(columns), rows)

    def _unchanged(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        try:
            yield from self._batches(columns, rows)
        except InputError:  # it was sound when it was counted
            raise InputError(
                f"{self.name} as it was when its rows were counted",
                "something that no longer reads",
                "the table changed while it was read; keep it still and start again",
            ) from None

    def blocks(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame | NDArray[Any]]:
        """The same for encoding: frames, or arrays of those columns where a table holds its numbers in arrays."""
        return self.batches(columns, rows)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private table is neither copied nor pickled, nor is a plan, which holds it")

    def __repr__(self) -> str:
        return f"<Table {self.name!r}, {len(self.columns)} columns>"


def check_names(names: Sequence[object], name: str) -> tuple[str, ...]:
    """The column names of the table `name`, if there are any and each is text, not empty and there once."""
    for position, column in enumerate(names, start=1):
        if not isinstance(column, str):
            raise InputError("column names as text", f"column {position} has another type", "rename the columns")
        if not column:
            raise InputError("a name for every column", f"column {position} of {name} has none", "name it")
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError("each column name once", f"{twice[0]!r} twice in {name}", "rename one of them")
    if not names:
        raise InputError("a table with columns", f"{name} has none", "give a table with data")
    return cast(tuple[str, ...], tuple(names))


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Turn the error of a reader of `what`, whose text may quote cells, into ours, which does not."""
    damaged = InputError(f"a readable {what}", f"{name} is damaged or cut short", "write it again")
    try:
        yield
    except MemoryError:
        raise InputError(
            f"{what} whose parts fit into memory",
            f"a part of {name} that does not, or a damaged length",
            "write it again in smaller parts (batches, row groups)",
        ) from None
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, EOFError):
        raise damaged from None
    except BaseException as error:
        if is_panic(error):
            raise damaged from None
        raise


def empty_file(name: str) -> InputError:
    """The error for a file or stream without a byte."""
    return InputError("a table with a header and rows", f"{name} is empty", "give a file with data")
