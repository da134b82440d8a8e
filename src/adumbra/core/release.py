"""A release folder: all of it may be published, nothing else may.

data.parquet [data.csv]   the released rows
model.npz                 public arrays, no pickles
card.json, card.md        the promise, with a sha256 of every other file
card.sig                  optional Ed25519 signature over card.json
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray
from pydantic import ValidationError

from adumbra.core.card import UTILITY_FORMAT, Card, UtilityCard
from adumbra.core.documents import MOST_CARD_BYTES, json_document, read_at_most
from adumbra.core.errors import InputError

__all__ = ["ReleaseFolder", "UtilityFolder", "open_folder", "read_public_key", "read_signing_key", "sha256", "sign"]

CARD, CARD_TEXT, DATA, DATA_CSV, MODEL, SIGNATURE = (
    "card.json",
    "card.md",
    "data.parquet",
    "data.csv",
    "model.npz",
    "card.sig",
)


_MOST_SIGNATURE = 2**16


def sha256(path: Path) -> str:
    """Hash of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


@dataclass(frozen=True)
class _Folder:
    """What every release on disk can do, whichever card it has."""

    path: Path
    card: Card | UtilityCard

    def table(self) -> pl.DataFrame:
        """The released rows."""
        try:
            return pl.read_parquet(self.path / DATA)
        except (OSError, pl.exceptions.PolarsError):
            raise InputError(
                f"a readable {DATA}",
                f"{self.path}",
                "run adumbra verify; get the folder again from its owner",
            ) from None

    def verify(self, public_key: Ed25519PublicKey | None = None) -> list[str]:
        """Problems found; none means the folder is the one its card describes (and its signer signed).

        Without a key a signature is checked against the key it carries, which shows that the card was not
        changed since signing but not who signed.
        """
        files = self.card.files
        problems = [f"the card does not list {name}" for name in (DATA, CARD_TEXT) if name not in files]
        for name, wanted in files.items():
            file = self.path / name
            if name in (CARD, SIGNATURE) or Path(name).name != name:
                problems.append(f"the card lists {name!r}, which is no file of a release")
            elif not file.is_file():
                problems.append(f"{name} is missing")
            elif sha256(file) != wanted:
                problems.append(f"{name} is not the file the card was written for (sha256 differs)")
        extra = sorted(p.name for p in self.path.iterdir() if p.name not in {*files, CARD, SIGNATURE})
        problems += [f"{name} is not part of the release" for name in extra]
        signature = self.path / SIGNATURE
        if signature.exists():
            problems += _check_signature(signature, (self.path / CARD).read_bytes(), public_key)
        elif public_key is not None:
            problems.append("the release is not signed")
        return problems

    @property
    def signed(self) -> bool:
        """Whether a signature is there (not whether it is right)."""
        return (self.path / SIGNATURE).exists()


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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays."""
        try:
            with np.load(self.path / MODEL, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
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
    folder = Path(path)
    try:
        content = read_at_most(folder / CARD, MOST_CARD_BYTES, f"a {CARD}")
    except OSError:
        raise InputError(
            f"a release folder with a {CARD}", f"{folder}", "give the folder that adumbra release wrote"
        ) from None
    try:
        if json_document(content).get("format") == UTILITY_FORMAT:
            return UtilityFolder(folder, UtilityCard.model_validate_json(content))
        return ReleaseFolder(folder, Card.model_validate_json(content))
    except (ValidationError, ValueError, AttributeError):
        raise InputError(
            f"a {CARD} of format adumbra-card/1 or {UTILITY_FORMAT}",
            f"{folder / CARD}, which does not read as one",
            "get the folder again from its owner, or use the adumbra version that wrote it",
        ) from None


def sign(card: bytes, key: Ed25519PrivateKey) -> str:
    """Content of card.sig: the public key and the signature over the bytes of card.json, as hex."""
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return json.dumps({"algorithm": "ed25519", "public_key": public.hex(), "signature": key.sign(card).hex()}) + "\n"


def _check_signature(path: Path, card: bytes, expected: Ed25519PublicKey | None) -> list[str]:
    try:
        content = json_document(read_at_most(path, _MOST_SIGNATURE, path.name))
        carried = Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["public_key"]))
        signature = bytes.fromhex(content["signature"])
    except (InputError, ValueError, KeyError, TypeError, OSError):
        return [f"{path.name} does not read as a signature"]
    try:
        (expected or carried).verify(signature, card)
    except InvalidSignature:
        return ["the signature does not fit card.json" + (" and the key given" if expected else "")]
    return []


def read_signing_key(path: str | Path) -> Ed25519PrivateKey:
    """An Ed25519 private key in PEM (`adumbra keygen`, or openssl)."""
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("an Ed25519 private key in PEM", f"{path}", "make one with adumbra keygen FILE")
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """An Ed25519 public key in PEM."""
    try:
        key = serialization.load_pem_public_key(Path(path).read_bytes())
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("an Ed25519 public key in PEM", f"{path}", "ask the signer for FILE.pub of adumbra keygen")
    return key
