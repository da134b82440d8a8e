"""What libraries written in other languages do at the edge of a command: panic, and write to stderr by themselves."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from typing import Any

from adumbra.common.errors import is_panic

__all__ = ["Panicked", "called", "silence"]


class Panicked(Exception):
    """A library gave up. Its own exception is no `Exception`, and would pass everything that explains errors."""


def called(app: Callable[..., Any]) -> Any:
    """Run the commands' application; a panic comes out as an ordinary error, without its text."""
    try:
        return app(prog_name="adumbra", standalone_mode=False)  # whatever started it
    except BaseException as error:
        if not is_panic(error):
            raise
        panicked = Panicked(type(error).__name__).with_traceback(error.__traceback__)
        for said in getattr(error, "__notes__", ()):
            panicked.add_note(said)
        raise panicked from None


def silence() -> None:
    """Let only Python write to stderr from now on: a library that panics writes there what it met, maybe a cell.

    Not where whoever runs the command has asked for such reports.
    """
    if os.environ.get("ADUMBRA_TRACEBACK") or faulthandler.is_enabled():
        return
    try:
        place = sys.stderr.fileno()
        own = os.dup(place)
    except (OSError, ValueError):  # closed, or no file
        return
    sys.stderr.flush()
    stream = os.fdopen(own, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)
    sys.stderr = stream
