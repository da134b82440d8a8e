"""The installed command: an interrupt is answered from the first moment, before the command line is loaded."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

__all__ = ["leave_quietly", "run"]


def run() -> None:
    """Load the command line and run it."""
    leave_quietly()
    from adumbra.cli import main

    main.run()


def leave_quietly() -> None:
    """Until a command listens by itself, an interrupt ends the process with nothing on the screen.

    Nothing was begun that would have to be cleaned up. For entry points only: a program that imports adumbra keeps its
    own handlers.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # whoever started us does not want to be interrupted
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(130)
