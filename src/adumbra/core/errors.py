"""The few exceptions adumbra raises on purpose.

Every one says three things: what was expected, what came, what to do. The command line prints exactly
that and exits with `exit_code`; no message carries a private value into a release.
"""

from __future__ import annotations

__all__ = ["AdumbraError", "InputError", "Refused"]

_LONGEST = 2000
"""Characters of one part of a message: a name of a megabyte is not repeated whole."""


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


class AdumbraError(Exception):
    """Base of every error a user can cause or cure."""

    exit_code = 2

    def __init__(self, expected: str, got: str, remedy: str) -> None:
        expected, got, remedy = _brief(expected), _brief(got), _brief(remedy)
        super().__init__(f"expected {expected}; got {got}; {remedy}")
        self.expected = expected
        self.got = got
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[AdumbraError], tuple[str, str, str]]:
        """Keep the three parts across process borders."""
        return type(self), (self.expected, self.got, self.remedy)


class InputError(AdumbraError):
    """Bad usage or bad input (exit code 2): nothing was published. A charge made before it was found stays."""


class Refused(AdumbraError):
    """The question was well put and the answer is no: budget exhausted, verification failed (exit code 1)."""

    exit_code = 1
