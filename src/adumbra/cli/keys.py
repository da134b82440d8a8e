"""`adumbra verify` and `keygen`: who signed a folder, and whether it is what it says it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adumbra.cli.output import emit_json, emit_line, printing
from adumbra.cli.release_command import JsonOption
from adumbra.common.errors import InputError

if TYPE_CHECKING:
    from adumbra.releases.signature import PublicKeys

__all__ = ["PublicKeyOption", "TrustedOption", "keygen", "keys_of", "verify"]

PublicKeyOption = Annotated[
    Path | None,
    typer.Option(help="the signer's Ed25519 public key (PEM): the folder must be as it was signed with that key"),
]
TrustedOption = Annotated[
    bool,
    typer.Option(
        "--trusted",
        help="a trusted key must have signed: any NAME.pub in $ADUMBRA_TRUSTED_KEYS, else "
        "~/.config/adumbra/trusted-keys",
    ),
]


def keys_of(public_key: Path | None, trusted: bool) -> PublicKeys | None:
    """The keys of which one must have signed; None if no key was asked for."""
    from adumbra.releases.signature import keys_of as given_keys
    from adumbra.releases.signature import trusted_keys

    if public_key is not None and trusted:
        raise InputError("--public-key or --trusted", "both", "leave one out")
    return trusted_keys() if trusted else given_keys(public_key)


def verify(
    folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")],
    public_key: PublicKeyOption = None,
    trusted: TrustedOption = False,
    json: JsonOption = False,
) -> None:
    """Check a release folder: its files against the card, card.md against card.json, the signature if signed.

    Three lines say what was proved and what was not. Without a key of yours a signature does not say who signed.
    """
    from adumbra.releases.folder import open_folder

    keys = keys_of(public_key, trusted)
    found = open_folder(folder).examine(keys)
    if json:
        emit_json({"folder": str(folder)} | found.to_dict())
    if found.problems:
        raise found.refusal()
    if not json:
        for line in found.in_words():
            emit_line(line)


def keygen(
    file: Annotated[Path, typer.Argument(help="private key to write; FILE.pub gets the public one", metavar="FILE")],
    json: JsonOption = False,
) -> None:
    """Make an Ed25519 key pair for signing releases. Keep FILE to yourself; give FILE.pub to analysts."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from adumbra.common.files import new_file
    from adumbra.releases.signature import fingerprint

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    public_file = file.with_name(file.name + ".pub") if file.name else file
    try:
        # the public one first: if the second fails, no private key is left for which there is no public one
        with new_file(public_file) as out:
            out.write(public)
        try:
            with new_file(file, private=True) as out:
                out.write(private)
        except BaseException:
            public_file.unlink(missing_ok=True)  # half a pair is no use
            raise
    except InputError as error:
        raise InputError("new files FILE and FILE.pub for the keys", error.got, "choose another name") from None
    mark = fingerprint(key.public_key())
    with printing("the fingerprint", f"the keys are written: {file} and {public_file}"):
        if json:
            emit_json({"private_key": str(file), "public_key": str(public_file), "fingerprint": mark})
        else:
            emit_line(f"private key in {file}, public key in {public_file}, fingerprint {mark}")
