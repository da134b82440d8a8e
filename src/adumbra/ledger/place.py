"""Which file is the ledger where nobody named one: a cap holds only if the next release finds it."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from adumbra.common.errors import InputError

__all__ = ["VARIABLE", "from_environment", "make_folder", "of_the_user"]

VARIABLE = "ADUMBRA_LEDGER"
_OLD = "adumbra-ledger.db"
"""The default of earlier versions, in whatever folder was the current one."""


def from_environment() -> Path | None:
    """The file that $ADUMBRA_LEDGER names; it must be the same wherever the command is run."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_absolute():
        raise InputError(
            f"${VARIABLE} with the whole path of the ledger",
            f"{named}, another file in every folder",
            f"write export {VARIABLE}={shlex.quote(str(path.absolute()))}, or name a file with --ledger",
        )
    return path


def of_the_user() -> Path:
    """One ledger per user, in the state directory of the system; refused while one of the old default stands here."""
    import platformdirs

    try:
        folder = platformdirs.user_state_path("adumbra", appauthor=False)
    except RuntimeError:  # so newer versions say that there is no home
        folder = Path()
    if not folder.is_absolute():
        raise InputError(
            "a home folder for the ledger of this user",
            "none with a whole path",
            f"set HOME or XDG_STATE_HOME to a whole path, or name the ledger with --ledger or ${VARIABLE}",
        )
    path = folder / "ledger.db"
    if os.path.lexists(_OLD):
        raise _left_behind(path)
    return path


def _left_behind(path: Path) -> InputError:
    """Two ledgers could be meant. Using either without a word would forget what the other holds."""
    got = f"none named, and an {_OLD} of an earlier version in this folder"
    name_it = f"name it with --ledger {_OLD}, or with [table] ledger in the schema"
    if os.path.lexists(path):
        return InputError(
            "to know which ledger is meant",
            f"{got}, while {path} exists too",
            f"{name_it}; once no table needs it under this name any more, rename it",
        )
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    move = f"adumbra ledger check --ledger {_OLD} && mkdir -p -m 700 {folder} && mv -n {_OLD} {file}"
    return InputError("to know which ledger is meant", got, f"make it the ledger of this user: {move}; or {name_it}")


def make_folder(folder: Path) -> None:
    """Make the state directory for its owner only, as the systems' conventions ask; others may be making it too."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        for parent in reversed(missing):
            with contextlib.suppress(FileExistsError):
                parent.mkdir(mode=0o700)
    except OSError as error:
        raise InputError(
            "a folder for the ledger of this user",
            f"{folder}: {error.strerror}",
            f"make it, or name the ledger with --ledger or ${VARIABLE}",
        ) from error
