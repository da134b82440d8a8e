"""The few exceptions adumbra raises on purpose.

Every one says three things: what was expected, what came, what to do. The command line prints exactly
that and exits with `exit_code`; no message carries a private value into a release. What a message quotes is made safe
to show (`common/shown.py`): file names and folders come from others.
"""

from __future__ import annotations

from adumbra.common.shown import shown

__all__ = ["PAID", "AdumbraError", "AfterCharge", "InputError", "Refused", "after_charge", "is_panic"]

PAID = "after the charge: "
"""How the note begins that a defect carries if it shows up after the charge."""

_LONGEST = 2000
"""Characters of one part of a message: a name of a megabyte is not repeated whole."""


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


class AdumbraError(Exception):
    """Base of every error a user can cause or cure."""

    exit_code = 2

    def __init__(self, expected: str, got: str, remedy: str) -> None:
        self.expected, self.got, self.remedy = (shown(_brief(part)) for part in (expected, got, remedy))
        super().__init__(f"expected {self.expected}; got {self.got}; {self.remedy}")

    def __reduce__(self) -> tuple[type[AdumbraError], tuple[str, str, str]]:
        """Keep the three parts across process borders."""
        return type(self), (self.expected, self.got, self.remedy)


class InputError(AdumbraError):
    """Bad usage, bad input or a machine that cannot do it (exit code 2): nothing was spent, nothing was published."""


class Refused(AdumbraError):
    """The question was well put and the answer is no: budget exhausted, verification failed (exit code 1)."""

    exit_code = 1


class AfterCharge(AdumbraError):
    """Something failed after the charge (exit code 4). The charge stays; the remedy says whether a release exists.

    The command line says it too of other work that is done and stays, where only its result could not be printed.
    """

    exit_code = 4


def after_charge(error: BaseException, paid: str, state: str) -> BaseException:
    """What to raise in place of `error` once a release was charged.

    `paid` says what was charged, `state` what became of the release. A defect stays what it is, with both as a note.
    """
    if isinstance(error, AdumbraError):
        return AfterCharge(error.expected, error.got, f"{paid}, and {state}; {error.remedy}")
    if isinstance(error, OSError | MemoryError):  # its text is left out: a library may have put a cell there
        reason = getattr(error, "strerror", None) or type(error).__name__
        return AfterCharge("to finish the release", reason, f"{paid}, and {state}")
    error.add_note(f"{PAID}{paid}, and {state}")
    return error


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust gave up: its exception is no `Exception`, and its text may quote cells."""
    return any(kind.__module__ == "pyo3_runtime" for kind in type(error).__mro__)
