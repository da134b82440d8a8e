"""Where the lines of a ledger are kept: what a storage must do. What the lines mean is the `Ledger`'s.

A storage keeps rows of three values in order (number, text, hash), a head that says how many there are and what the
last hash is, the number of a format, and short notes. It knows nothing of charges, caps or hashes. `ledger/sqlite.py`
is one; another can be written anywhere and given to `Ledger(storage)`.

What a ledger promises rests on four duties of its storage:

1. `writing` is exclusive: nobody else writes between its beginning and its end, and what is read inside is what the
   last writer left.
2. What was appended inside `writing` is kept wholly when the block ends without an error, so that it survives a crash
   from then on; and not at all when an error leaves the block or the process dies in it.
3. `reading` sees the ledger as it stood between two writers.
4. `remembered` returns a note only while nothing that is stored was changed but by `append` and `remember`. A storage
   that cannot tell returns None, always; the ledger then reads all lines before each charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from adumbra.common.errors import InputError

__all__ = ["DamagedLedger", "LedgerStorage", "OpenLedger", "StoredLedger", "StoredRow"]

StoredRow = tuple[object, object, object]
"""Number, text and hash of a line, as found: whoever can write to the storage can have put anything there."""


class DamagedLedger(InputError):
    """The storage began as a ledger and can no longer be read; `got` says why."""


class StoredLedger(Protocol):
    """A ledger while it is read."""

    def format(self) -> object:
        """The number given to `raise_format` last; 1 before."""
        ...

    def head(self) -> tuple[object, object] | None:
        """How many lines there are and the hash of the last one, (0, `lines.GENESIS`) before the first.

        None where that cannot be told: the ledger is then damaged.
        """
        ...

    def rows(self, after: int | None = None) -> Sequence[StoredRow]:
        """All lines in order, or those with a number above `after`."""
        ...

    def faults(self, *, thorough: bool = False) -> list[str]:
        """What is wrong with the storage itself, one sentence each; `thorough` takes as long as it needs."""
        ...

    def remembered(self, key: str) -> str | None:
        """The note of that name, if nothing but `append` and `remember` changed the storage since; else None."""
        ...


class OpenLedger(StoredLedger, Protocol):
    """A ledger while it is written to. All of it happens, or nothing."""

    def append(self, rows: Sequence[tuple[int, str, str]]) -> None:
        """Add lines (number, text, hash) and move the head to the last of them."""
        ...

    def remember(self, notes: Mapping[str, str], *, forget: bool) -> None:
        """Keep notes under their names, in the place of earlier ones; `forget`: all other notes go."""
        ...

    def raise_format(self, number: int) -> None:
        """From now on a program that does not know this format must refuse the ledger."""
        ...


@runtime_checkable
class LedgerStorage(Protocol):
    """A place for one ledger, which need not have been begun."""

    @property
    def name(self) -> str:
        """What to call it in messages: a path, an address."""
        ...

    def exists(self) -> bool:
        """Whether it was begun."""
        ...

    def reading(self) -> AbstractContextManager[StoredLedger]:
        """Open it for reading; InputError where there is none, DamagedLedger where it cannot be read."""
        ...

    def writing(self) -> AbstractContextManager[OpenLedger]:
        """Open it for writing, alone; begin it where there is none."""
        ...
