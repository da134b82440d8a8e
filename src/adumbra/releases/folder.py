"""A release folder: all of it may be published, nothing else may.

data.parquet [data.csv]   the released rows
model.npz                 public arrays, no pickles
card.json, card.md        the promise, with a sha256 of every other file
card.sig                  optional Ed25519 signature over card.json

A folder may come from anybody: only regular files of it are opened, and what it says is checked, not believed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError

from adumbra.common.array_files import load_arrays, load_frame
from adumbra.common.errors import InputError, Refused
from adumbra.common.files import MOST_CARD_BYTES, irregular, json_document, open_regular, remove_leftovers
from adumbra.common.plugins import library
from adumbra.common.shown import shown
from adumbra.common.validation import path_of
from adumbra.releases.card import CARD_FORMAT, FORMAT_1, UTILITY_FORMAT, UTILITY_FORMATS, Card, UtilityCard
from adumbra.releases.card_page import card_markdown
from adumbra.releases.format_1 import format_2
from adumbra.releases.signature import OtherSigner, PublicKey, PublicKeys, Signer, check_signature, keys_of

__all__ = ["ReleaseFolder", "UtilityFolder", "Verification", "open_folder", "page_of", "sha256"]

CARD, CARD_TEXT, DATA, DATA_CSV, MODEL, SIGNATURE = (
    "card.json",
    "card.md",
    "data.parquet",
    "data.csv",
    "model.npz",
    "card.sig",
)
_MOST_SIGNATURE = 1 << 12
"""Bytes of the largest signature that is read."""
_VERSION = re.compile(r"adumbra [0-9]{1,9}(\.[0-9]{1,9}){0,4}")
"""What a card may call the library that wrote it: a version and no other words."""


def sha256(path: Path) -> str:
    """Hash of a regular file, read in pieces."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def page_of(card: Card | UtilityCard) -> str:
    """The text of card.md: it follows from the card, and names every file but itself."""
    told = card.model_copy(update={"files": {name: h for name, h in card.files.items() if name != CARD_TEXT}})
    return card_markdown(told)


@dataclass(frozen=True)
class Verification:
    """What was proved of a folder, and what was not."""

    files: int
    """Files that the card lists."""
    page: str
    """Whether card.md is what card.json says: "matches", "differs", or why it was not checked."""
    signed: bool
    signer: Signer | None
    """The key that the signature is valid for; who that is was proved only if the key has a name here."""
    problems: tuple[str, ...]
    other_signer: bool = False
    """Whether one of the problems is that another key signed than was asked for."""

    @property
    def page_checked(self) -> bool:
        """Whether card.md was compared with card.json."""
        return self.page in (_MATCHES, _DIFFERS)

    @property
    def signer_proved(self) -> bool:
        """Whether the signer is one that was asked for."""
        return self.signer is not None and self.signer.name is not None

    def refusal(self) -> Refused:
        """The problems as an error."""
        remedy = "get it again from its owner"
        if self.other_signer and len(self.problems) == 1:
            remedy = (
                "check whose key you were given: compare fingerprints with the owner, another way than by this folder; "
                "if the key is the owner's, the folder is not"
            )
        return Refused("a folder as its card describes", "; ".join(self.problems), remedy)

    def in_words(self) -> list[str]:
        """Three lines, if nothing is wrong; first the page if it was not checked."""
        page = "card.md is what card.json says"
        if not self.page_checked:
            page = f"card.md was {self.page}; " + (
                "it is the signer's, whose signature covers its hash"
                if self.signer_proved
                else "it may say other than card.json, which is the one to go by"
            )
        if self.signer is None:
            signature = "none: nothing shows who made this folder, or whether somebody changed all of it"
        elif self.signer.name is None:
            signature = (
                f"valid for the key it carries (fingerprint {self.signer.fingerprint}), which proves nothing about who "
                "signed: compare the fingerprint, or give --public-key or --trusted"
            )
        else:
            signature = f"valid for {self.signer.name} (fingerprint {self.signer.fingerprint})"
        lines = [f"files: {self.files} as the card says, and no others", f"page: {page}", f"signature: {signature}"]
        return lines if self.page_checked else [lines[1], lines[0], lines[2]]

    def to_dict(self) -> dict[str, Any]:
        """The same facts as plain values."""
        return {
            "verified": not self.problems,
            "files": self.files,
            "page": self.page,
            "page_checked": self.page_checked,
            "signed": self.signed,
            "fingerprint": None if self.signer is None else self.signer.fingerprint,
            "signer": None if self.signer is None else self.signer.name,
            "signer_proved": self.signer_proved,
            "problems": list(self.problems),
        }


_MATCHES, _DIFFERS, _NO_VERSION = "matches", "differs", "not checked: the card names no version of adumbra"


@dataclass(frozen=True)
class _Folder:
    """What every release on disk can do, whichever card it has."""

    path: Path
    card: Card | UtilityCard
    card_sha256: str
    """Of the card.json that `card` was read from: what is checked later must be the same."""

    def table(self) -> pl.DataFrame:
        """The released rows."""
        try:
            open_regular(self.path / DATA).close()
            return load_frame(self.path / DATA)
        except (OSError, ValueError):
            raise InputError(
                f"a readable {DATA}",
                f"{self.path}",
                "run adumbra verify; get the folder again from its owner",
            ) from None

    def data(self) -> Path:
        """The file of the released rows, to be read batch by batch."""
        return self.path / DATA

    def verify(self, public_key: PublicKey | None = None) -> list[str]:
        """Problems found; none means the folder is the one its card describes (and the key's holder signed).

        Without a key a signature is checked against the key it carries, which shows that the card was not
        changed since signing but not who signed. `examine` says what exactly was proved.
        """
        return list(self.examine(public_key).problems)

    def examine(self, public_key: PublicKey | None = None) -> Verification:
        """Check files, page and signature; with a key, its holder must have signed; with several, one of them."""
        keys = keys_of(public_key)
        problems = self._file_problems()
        page = self._page()
        if page == _DIFFERS:
            problems.append(f"{CARD_TEXT} is not what {CARD} says")
        elif page == _NO_VERSION:
            problems.append(f"{CARD_TEXT} is not what {CARD} says, and no version of adumbra is named that wrote it")
        signer = self._signer(keys)
        if isinstance(signer, str | OtherSigner):
            problems.append(signer if isinstance(signer, str) else signer.in_words())
        found = signer if isinstance(signer, Signer) else None
        other = isinstance(signer, OtherSigner)
        return Verification(len(self.card.files), page, self.signed, found, tuple(problems), other)

    def demand(self, public_key: PublicKey | None = None) -> None:
        """Refuse a folder that is not as its card says, or that the key's holder did not sign."""
        found = self.examine(public_key)
        if found.problems:
            raise found.refusal()

    def _file_problems(self) -> list[str]:
        files = self.card.files
        problems = [f"the card does not list {name}" for name in (DATA, CARD_TEXT) if name not in files]
        for name, wanted in files.items():
            if name in (CARD, SIGNATURE) or Path(name).name != name:
                problems.append(f"the card lists {name!r}, which is no file of a release")
                continue
            try:
                kind = irregular((self.path / name).lstat().st_mode)
                if kind is not None:
                    problems.append(f"{shown(name)} is {kind}, not a regular file")
                elif sha256(self.path / name) != wanted:
                    problems.append(f"{shown(name)} is not the file the card was written for (sha256 differs)")
            except (OSError, ValueError):
                problems.append(f"{shown(name)} is missing")
        try:
            extra = sorted(p.name for p in self.path.iterdir() if p.name not in {*files, CARD, SIGNATURE})
        except OSError as error:  # it was there when it was opened
            return [f"the folder cannot be read any more ({error.strerror})"]
        return problems + [f"{shown(name)} is not part of the release" for name in extra]

    def _page(self) -> str:
        """Whether card.md is what this version makes of card.json. Another version may have put it otherwise."""
        try:
            page = _content(self.path / CARD_TEXT, MOST_CARD_BYTES)
        except OSError:
            page = None
        if page is None or hashlib.sha256(page).hexdigest() != self.card.files.get(CARD_TEXT):
            return "not checked: it is not the file that the card lists"
        if self.card.format == FORMAT_1:  # its page was made by rules that are gone
            if self.card.library == library():  # which writes no such card: somebody would like it not to be compared
                return _DIFFERS
            named = _VERSION.fullmatch(self.card.library)
            return _NO_VERSION if named is None else f"not checked: written in format {FORMAT_1}"
        try:
            if page == page_of(self.card).encode():
                return _MATCHES
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
            pass  # a card that no page can be made from was not written by this library
        if self.card.library == library():
            return _DIFFERS
        named = _VERSION.fullmatch(self.card.library)
        return _NO_VERSION if named is None else f"not checked: written by {named[0]}"

    def _signer(self, keys: PublicKeys | None) -> Signer | OtherSigner | str | None:
        """Who signed the card in use; or what is wrong; or None if nobody signed and nobody had to."""
        try:
            card = _content(self.path / CARD, MOST_CARD_BYTES)
        except OSError:
            card = b""
        if hashlib.sha256(card).hexdigest() != self.card_sha256:
            return f"{CARD} changed since it was opened"
        if not self.signed:
            return None if keys is None else "the release is not signed"
        try:
            signature = _content(self.path / SIGNATURE, _MOST_SIGNATURE)
        except OSError as error:
            return f"{SIGNATURE} does not read as a signature ({error.strerror})"
        return check_signature(signature, card, keys)

    @property
    def signed(self) -> bool:
        """Whether a signature is there (not whether it is right)."""
        return os.path.lexists(self.path / SIGNATURE)


def _content(path: Path, most: int) -> bytes:
    """All of a regular file, unless it is larger than such a file can be."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most} bytes")
    return content


@dataclass(frozen=True)
class ReleaseFolder(_Folder):
    """A release on disk, opened by its card."""

    card: Card

    @staticmethod
    def open(path: str | Path) -> ReleaseFolder:
        """Read the card; the data is read when asked for."""
        found = open_folder(path)
        if isinstance(found, UtilityFolder):
            raise InputError(
                "a differentially private release",
                f"{found.path}, a utility-aware release without that promise",
                f"read its {DATA} with any tool; adumbra verify checks it",
            )
        return found

    def table(self) -> pl.DataFrame:
        """The released rows, in the types that they had in memory."""
        frame = super().table()
        try:  # not every version of polars reads the declared values, and their order, with the file
            kept = [column for column in self.card.table_schema["columns"] if column.get("type") == "categorical"]
            types = {c["name"]: pl.Enum(c["values"]) for c in kept if frame.schema.get(c["name"]) == pl.Categorical}
            return frame.cast(types)
        except (pl.exceptions.PolarsError, LookupError, TypeError, AttributeError, ValueError):
            return frame

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays; none where the card lists no file of them, as for a mechanism that has none."""
        if MODEL not in self.card.files:
            return {}
        try:
            open_regular(self.path / MODEL).close()
            return load_arrays(self.path / MODEL)
        except (OSError, ValueError):
            raise InputError(
                f"a readable {MODEL}",
                f"{self.path}",
                "run adumbra verify; get the folder again from its owner",
            ) from None


@dataclass(frozen=True)
class UtilityFolder(_Folder):
    """A utility-aware release on disk: no differential privacy, as its card says first."""

    card: UtilityCard

    @staticmethod
    def open(path: str | Path) -> UtilityFolder:
        """Read the card; the data is read when asked for."""
        found = open_folder(path)
        if isinstance(found, ReleaseFolder):
            raise InputError(
                "a utility-aware release", f"{found.path}, a differentially private one", "use adumbra answer on it"
            )
        return found


def open_folder(path: str | Path) -> ReleaseFolder | UtilityFolder:
    """A release folder of either kind, by the format its card names."""
    folder = path_of(path, "a release folder")
    remove_leftovers(folder.absolute().parent)
    try:
        content = _content(folder / CARD, MOST_CARD_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(
            f"a release folder with a {CARD}", f"{folder} ({reason})", "give the folder that adumbra release wrote"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    try:
        document = json_document(content)
        written = document.get("format")
        if written in UTILITY_FORMATS:
            return UtilityFolder(folder, UtilityCard.model_validate_json(content), digest)
        if written == FORMAT_1:
            return ReleaseFolder(folder, Card.model_validate(format_2(document)), digest)
        return ReleaseFolder(folder, Card.model_validate_json(content), digest)
    except (ValidationError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        raise InputError(
            f"a {CARD} of format {CARD_FORMAT}, {FORMAT_1} or {UTILITY_FORMAT}",
            f"{folder / CARD}, which does not read as one",
            "get the folder again from its owner, or use the adumbra version that wrote it",
        ) from None
