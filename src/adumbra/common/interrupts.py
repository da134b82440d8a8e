"""A wish to stop that cannot be lost.

Python answers Ctrl-C by raising `KeyboardInterrupt` wherever it happens to be. Inside a finalizer, or a function that
a library calls from compiled code, nobody can catch it: it is printed as "Exception ignored" and the work goes on. So
the handler also remembers the wish, and whoever is about to do something that cannot be undone asks `stop_if_asked`.

Inside numba, which compiles our kernels at their first call, nothing is raised at all: llvmlite hands objects over to
LLVM in two steps, and an exception between them lets both sides free the same object, so that the process crashes when
the exception is thrown away. The wish is remembered and tried again a moment later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["asked_to_stop", "checkpoint", "listening", "stop_if_asked"]


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_COMPILER = ("numba", "llvmlite")
_AGAIN = 0.02
"""Seconds until an interrupt that came inside the compiler is tried again."""


class _Wish:
    """Whether somebody asked this process to stop."""

    stop = False


def asked_to_stop() -> bool:
    """Whether a signal asked to stop since `listening` began, even if its exception was lost."""
    return _Wish.stop


def stop_if_asked() -> None:
    """Raise the interrupt that was lost; else do nothing.

    >>> stop_if_asked()
    """
    if _Wish.stop:
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    _Wish.stop = True
    if _is_compiling(frame):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        return
    raise KeyboardInterrupt


def _is_compiling(frame: FrameType | None) -> bool:
    """Whether numba or llvmlite is at work anywhere below `frame`."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _COMPILER:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """While a command runs: both signals interrupt it at once, are remembered, and are never printed as ignored.

    Afterwards everything is as it was found. Outside the main thread, where Python takes no signals, nothing changes.
    """
    _Wish.stop = False
    before: dict[int, Any] = {}
    hook = sys.unraisablehook

    def without_interrupts(ignored: Any) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):  # those are remembered
            hook(ignored)

    sys.unraisablehook = without_interrupts
    try:
        with contextlib.suppress(ValueError):
            before.update({number: signal.signal(number, _remember) for number in (*_SIGNALS, signal.SIGALRM)})
        yield
    finally:
        if before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        _Wish.stop = False


# Named places in the code where the crash tests may end the process.
#
# A promise such as "the charge is wholly there or wholly absent" can only be tested by dying between two
# statements. `checkpoint` does nothing unless the environment variable ADUMBRA_TEST_KILL_AT names the place.


def checkpoint(name: str) -> None:
    """Do nothing; or, when a crash test asked for this place, die here without any clean-up.

    >>> checkpoint("anywhere")
    """
    if os.environ.get("ADUMBRA_TEST_KILL_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
