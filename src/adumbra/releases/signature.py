"""Ed25519 signatures of cards: who signs, who is trusted, and which keys bind nobody.

A signature that carries its own key shows that the card is as that key's holder left it. It says nothing about who that
is: anybody can make a key. Only a key that came another way, given or kept among the trusted ones, says who.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from adumbra.common.errors import InputError
from adumbra.common.shown import shown

__all__ = [
    "OtherSigner",
    "PublicKey",
    "PublicKeys",
    "Signer",
    "check_signature",
    "fingerprint",
    "keys_of",
    "read_public_key",
    "read_signing_key",
    "sign",
    "trusted_folder",
    "trusted_keys",
]

PublicKeys = Mapping[str, Ed25519PublicKey]
"""Keys of which one must have signed, by what to call them."""
PublicKey = Ed25519PublicKey | str | Path | PublicKeys
"""A key, its PEM file, or several keys."""

_FIELD = 2**255 - 19
_CURVE = -121665 * pow(121666, -1, _FIELD) % _FIELD
"""d of the curve -x^2 + y^2 = 1 + d x^2 y^2."""


@dataclass(frozen=True)
class Signer:
    """Whose key a signature is valid for."""

    fingerprint: str
    name: str | None
    """What the key was called that was asked for; None where the signature's own key was all there was."""


@dataclass(frozen=True)
class OtherSigner:
    """A signature that is valid, for a key that nobody asked for."""

    fingerprint: str
    asked: str
    """The keys of which one should have signed, in words."""

    def in_words(self) -> str:
        """Both sides, so that they can be compared."""
        return f"the signature is valid for a key of fingerprint {self.fingerprint}, which is not {self.asked}"


def sign(card: bytes, key: Ed25519PrivateKey) -> str:
    """Content of card.sig: the public key and the signature over the bytes of card.json, as hex."""
    content = {"algorithm": "ed25519", "public_key": _raw(key.public_key()).hex(), "signature": key.sign(card).hex()}
    return json.dumps(content) + "\n"


def fingerprint(key: Ed25519PublicKey) -> str:
    """32 hexadecimal digits that stand for a public key: what two people can read to each other."""
    return hashlib.sha256(_raw(key)).hexdigest()[:32]


def check_signature(content: bytes, card: bytes, keys: PublicKeys | None) -> Signer | OtherSigner | str:
    """Who signed, or what is wrong with the signature.

    `content` is that of card.sig, `card` the bytes of card.json. One of `keys` must have signed, by name; without keys
    (None) the one that the signature carries is taken, which shows that the card was not changed, not by whom it was
    signed.
    """
    try:
        found: dict[str, Any] = json.loads(content)
        raw, signature = bytes.fromhex(found["public_key"]), bytes.fromhex(found["signature"])
        carried = Ed25519PublicKey.from_public_bytes(raw)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "card.sig does not read as a signature"
    if _binds_nobody(raw):
        return "card.sig carries a key that binds nobody (of small order, or wrongly written)"
    candidates: Sequence[tuple[str | None, Ed25519PublicKey]] = [(None, carried)] if keys is None else [*keys.items()]
    for name, key in candidates:
        if _fits(signature, card, key):
            return Signer(fingerprint(key), name)
    if keys is not None and _fits(signature, card, carried):
        return OtherSigner(fingerprint(carried), _asked(keys))
    return "the signature does not fit card.json" + ("" if keys is None else f" and {_asked(keys)}")


def _fits(signature: bytes, card: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(signature, card)
    except InvalidSignature:
        return False
    return True


def _asked(keys: PublicKeys) -> str:
    if len(keys) == 1:
        return "".join(f"{name} (fingerprint {fingerprint(key)})" for name, key in keys.items())
    return f"any of the {len(keys)} trusted keys"


def _binds_nobody(raw: bytes) -> bool:
    """Whether a public key is a point of small order, or not written the one way that points are written.

    A signature that holds for such a key says nothing: for many messages, or for all, it can be written down without
    any private key. The points of order 1, 2 and 4 have y = 1, -1 and 0. Those of order 8 double to one of order 4,
    so that y^2 = -x^2, which with the equation of the curve gives d y^4 + 2 y^2 = 1.
    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)  # the last bit is the sign of x
    small = y in (0, 1, _FIELD - 1) or (_CURVE * pow(y, 4, _FIELD) + 2 * y * y - 1) % _FIELD == 0
    return y >= _FIELD or small


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def read_signing_key(path: str | Path) -> Ed25519PrivateKey:
    """An Ed25519 private key in PEM (`adumbra keygen`, or openssl) that nobody but its owner can read."""
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = serialization.load_pem_private_key(file.read(), password=None)
    except (OSError, ValueError, TypeError):
        key, mode = None, 0
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("an Ed25519 private key in PEM", f"{path}", "make one with adumbra keygen FILE")
    if os.name == "posix" and mode & 0o077:
        raise InputError(
            "a private key that only its owner can read",
            f"{path}, of mode {mode:04o}",
            f"chmod 600 {path}; if others had access to it, make a new one with adumbra keygen",
        )
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """An Ed25519 public key in PEM."""
    key, got, remedy = None, f"{path}, which does not read as one", "ask the signer for FILE.pub of adumbra keygen"
    try:
        content = Path(path).read_bytes()
        if b"PRIVATE KEY-----" in content:
            got, remedy = f"{path}, a private key", "give the public one (FILE.pub); a private key stays with its owner"
        else:
            key = serialization.load_pem_public_key(content)
    except FileNotFoundError:
        got = f"{path} (no such file)"
    except OSError as error:
        got = f"{path} ({error.strerror or type(error).__name__})"
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("an Ed25519 public key in PEM", got, remedy)
    return _binding(key, str(path))


def keys_of(key: PublicKey | None) -> PublicKeys | None:
    """The keys of which one must have signed; None where none was given."""
    if key is None:
        return None
    if isinstance(key, Mapping):
        return {name: _binding(one, name) for name, one in key.items()}
    given = key if isinstance(key, Ed25519PublicKey) else read_public_key(key)
    return {"the key given": _binding(given, "the key given")}


def _binding(key: Ed25519PublicKey, name: str) -> Ed25519PublicKey:
    """The same key, if signatures by it bind somebody."""
    if _binds_nobody(_raw(key)):
        raise InputError(
            "a public key that somebody holds the private key of",
            f"{name}, of small order or wrongly written: anybody can sign for it",
            "ask the signer for FILE.pub of adumbra keygen",
        )
    return key


def trusted_folder() -> Path:
    """Where the trusted keys are kept: `$ADUMBRA_TRUSTED_KEYS`, else trusted-keys in the user's configuration."""
    given = os.environ.get("ADUMBRA_TRUSTED_KEYS")
    if given:
        return Path(given)
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    home = configuration if configuration.is_absolute() else Path.home() / ".config"
    return home / "adumbra" / "trusted-keys"


def trusted_keys() -> PublicKeys:
    """All public keys (`*.pub`) of the folder of trusted ones, by file name."""
    folder = trusted_folder()
    found = {f"the trusted key {shown(path.name)}": read_public_key(path) for path in sorted(folder.glob("*.pub"))}
    if not found:
        raise InputError(
            "trusted keys (files NAME.pub)",
            f"none in {folder}",
            "put the signers' public keys there, or use --public-key",
        )
    return found
