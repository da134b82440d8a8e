"""Write a release folder so that it is either wholly there or not there at all.

Everything goes to a temporary folder beside the target; the card is written last, with the hash of every file; one
rename publishes. Nothing in this module sees a private row: it receives what came out of the door.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adumbra.common.array_files import save_arrays
from adumbra.common.csv_forms import Csv, write_csv
from adumbra.common.errors import InputError
from adumbra.common.files import claim_folder, partial_beside, sync
from adumbra.common.interrupts import checkpoint
from adumbra.common.shown import shown_json
from adumbra.releases.card import Card, UtilityCard
from adumbra.releases.folder import CARD, CARD_TEXT, DATA, DATA_CSV, MODEL, SIGNATURE, ReleaseFolder, page_of, sha256
from adumbra.releases.record import ReleaseInMemory
from adumbra.releases.signature import sign

__all__ = [
    "ParquetFrames",
    "RowFiles",
    "as_read",
    "check_target",
    "move_into_place",
    "place_of",
    "regrouped_frames",
    "save_release",
    "seal",
    "staged",
    "write_arrays",
    "write_card",
]


# Rows on their way into a release folder: batch by batch, so that none has to hold them all.


class ParquetFrames(contextlib.AbstractContextManager["ParquetFrames"]):
    """A Parquet file that is written frame by frame, each a row group; `written` counts the rows."""

    def __init__(self, place: Path | BinaryIO) -> None:
        self._place = place
        self._writer: pq.ParquetWriter | None = None
        self.written = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    @property
    def first(self) -> bool:
        """Whether no frame has been written yet."""
        return self._writer is None

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; all frames have the columns of the first. A disk that is full is an OSError."""
        table = frame.to_arrow()
        if self._writer is None:
            # noise never repeats, so a dictionary of it would only cost time and room; few values do repeat
            repeating = [f.name for f in table.schema if not pa.types.is_floating(f.type)] or False
            self._writer = pq.ParquetWriter(self._place, table.schema, use_dictionary=repeating, compression="snappy")
        try:
            # a table is one row group, written out; write_batch would hold a million rows back in memory
            self._writer.write_table(table)
        except pa.ArrowException:
            raise OSError(errno.EIO, "writing stopped: is the disk full?") from None
        self.written += frame.height


class RowFiles(contextlib.AbstractContextManager["RowFiles"]):
    """data.parquet of a release folder, and data.csv if asked for, written batch by batch; `written` counts rows."""

    def __init__(self, folder: Path, csv: Csv) -> None:
        self._parquet, self._csv = ParquetFrames(folder / DATA), csv
        self._text = (folder / DATA_CSV).open("wb") if csv else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._text or contextlib.nullcontext(), self._parquet:
            pass

    @property
    def written(self) -> int:
        """Rows so far."""
        return self._parquet.written

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows; the first batch says which columns there are."""
        header = self._parquet.first
        self._parquet.write(frame)  # first: of the two it says why the system refused
        if self._text is not None:
            write_csv(frame, self._text, self._csv, header=header)


def regrouped_frames(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows, `rows` at a time: where a reader's batches end may depend on private text, and is not written."""
    held: list[pl.DataFrame] = []
    for frame in frames:
        held.append(frame)
        if sum(part.height for part in held) >= rows:
            whole = pl.concat(held)
            for start in range(0, whole.height - rows + 1, rows):
                yield whole[start : start + rows]
            held = [whole[whole.height - whole.height % rows :]]
    rest = pl.concat(held) if held else pl.DataFrame()
    if rest.height:
        yield rest


@contextlib.contextmanager
def place_of(out: str | Path | None) -> Iterator[Path]:
    """Where a release goes: `out`, or without it a temporary place, which a failure takes away again."""
    target = Path(tempfile.mkdtemp(prefix="adumbra-")) / "release" if out is None else Path(out)
    try:
        yield target
    except BaseException:
        if out is None:
            shutil.rmtree(target.parent, ignore_errors=True)
        raise


AnyCard = TypeVar("AnyCard", Card, UtilityCard)
_ROWS = 65536
"""Rows that a release in memory is written by."""


def check_target(target: Path) -> None:
    """Refuse a place where something stands already, before any work is done."""
    if target.name in ("", ".."):
        raise _exists(target)
    try:
        target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise _no_place(target, error) from None
    raise _exists(target)


@contextlib.contextmanager
def staged(target: Path, *, numbers: int, csv: Csv) -> Iterator[tuple[Path, Path]]:
    """Open the temporary folder; on any failure remove it, so that no half release is left.

    `numbers` is how many values will be written: a disk that cannot hold them is refused before any charge. A
    process that is killed cannot clean up; the next command that works in the same place removes what it left.
    """
    check_target(target)
    target = target.absolute()
    new_parents = [parent for parent in target.parents if not parent.exists()]
    # Named before it is made: an interrupt at any moment finds its name here and removes it.
    folder = partial_beside(target)
    lock = None
    try:
        try:
            lock = claim_folder(folder)
        except OSError as error:
            raise _no_place(folder.parent, error) from None
        needed = numbers * (34 if csv else 9) + (1 << 16)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise InputError(
                f"about {needed / 1e6:.1f} MB free for the release",
                f"{free / 1e6:.1f} MB",
                "free some room first; nothing was charged",
            )
        yield folder, target
    except OSError as error:
        # Whatever the system refuses at this point (full disk, quota, a removed folder), the user hears the same.
        raise InputError(
            "to write the release to the end",
            error.strerror or type(error).__name__,
            "correct the cause and release again",
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(new_parents)
        if lock is not None:
            os.close(lock)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Take back folders made on the way, innermost first, as far as nothing was put in them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _exists(target: Path) -> InputError:
    return InputError("an --out that does not exist yet", f"{target} exists", "choose another name or remove it")


def _no_place(target: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError("a place to write the release", f"{target} ({reason})", "choose another --out")


def write_arrays(folder: Path, arrays: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
    """Write the public `arrays` of a release, if it has any, and its `pictures` by file name, into `folder`."""
    if arrays:
        save_arrays(folder / MODEL, arrays)
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")


def seal(folder: Path, target: Path, card: AnyCard, signing_key: Ed25519PrivateKey | None) -> tuple[AnyCard, str]:
    """Write the card with the hash of every file, sign it, and rename the temporary folder into place.

    `folder` becomes `target`; `card` is everything but the hashes, `signing_key` the owner's, if he signs. Returns the
    card as it was written, and the hash of its file.
    """
    written = write_card(folder, card, signing_key)
    for file in (*folder.iterdir(), folder):
        sync(file)
    move_into_place(folder, target)
    return written


def move_into_place(folder: Path, target: Path) -> None:
    """Rename the temporary folder, whose files are on the disk already; refuse if something took the place meanwhile.

    A rename alone would replace an empty folder that somebody made there.
    """
    checkpoint("before the rename")
    check_target(target)
    folder.rename(target)
    with contextlib.suppress(OSError):  # the release is there; only a power cut now could lose its name
        sync(target.parent)


def as_read(card: AnyCard) -> AnyCard:
    """The card as a reader will find it, so that the page made from it there is the same."""
    return type(card).model_validate_json(card.model_dump_json())


def write_card(folder: Path, card: AnyCard, signing_key: Ed25519PrivateKey | None) -> tuple[AnyCard, str]:
    """Write the `card` beside the files of a release in `folder`, with the hash of each, and sign it (`signing_key`).

    Returns the card as it was written, and the hash of its file.
    """
    files = {p.name: sha256(p) for p in sorted(folder.iterdir())}
    read_back = as_read(card)
    page = page_of(read_back.model_copy(update={"files": files}))
    (folder / CARD_TEXT).write_bytes(page.encode())
    files[CARD_TEXT] = sha256(folder / CARD_TEXT)
    whole = read_back.model_copy(update={"files": files})
    text = (shown_json(whole.model_dump_json(indent=2)) + "\n").encode()
    (folder / CARD).write_bytes(text)
    if signing_key is not None:
        (folder / SIGNATURE).write_text(sign(text, signing_key), encoding="utf-8")
    return whole, hashlib.sha256(text).hexdigest()


def save_release(release: ReleaseInMemory, target: Path, signing_key: Ed25519PrivateKey | None) -> ReleaseFolder:
    """Write a release that is in memory as a folder `target`, which must not exist; sign its card with `signing_key`.

    The folder is the one that would have been written at once; the `release` itself stays as it is.
    """
    with staged(target, numbers=release.rows.height * release.rows.width, csv=release.csv) as (folder, place):
        with RowFiles(folder, release.csv) as files:
            for frame in release.rows.iter_slices(_ROWS) if release.rows.height else [release.rows]:
                files.write(frame)
        write_arrays(folder, release.public, release.pictures)
        return ReleaseFolder(place, *seal(folder, place, release.as_published(), signing_key))
