"""The few exceptions adumbra raises on purpose.

Every one says three things: what was expected, what came, what to do. The command line prints exactly
that and exits with `exit_code`; no message carries a private value into a release.
"""

from __future__ import annotations

__all__ = ["PAID", "AdumbraError", "AfterCharge", "InputError", "Refused", "after_charge"]

PAID = "after the charge: "
"""How the note begins that a defect carries if it shows up after the charge."""


class AdumbraError(Exception):
    """Base of every error a user can cause or cure."""

    exit_code = 2

    def __init__(self, expected: str, got: str, remedy: str) -> None:
        super().__init__(f"expected {expected}; got {got}; {remedy}")
        self.expected = expected
        self.got = got
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[AdumbraError], tuple[str, str, str]]:
        """Keep the three parts across process borders."""
        return type(self), (self.expected, self.got, self.remedy)


class InputError(AdumbraError):
    """Bad usage, bad input or a machine that cannot do it (exit code 2): nothing was spent, nothing was published."""


class Refused(AdumbraError):
    """The question was well put and the answer is no: budget exhausted, verification failed (exit code 1)."""

    exit_code = 1


class AfterCharge(AdumbraError):
    """Something failed after the charge (exit code 4). The charge stays; the remedy says whether a release exists."""

    exit_code = 4


def after_charge(error: BaseException, paid: str, state: str) -> BaseException:
    """What to raise for an error after the charge. A defect stays what it is, with a note that says what was paid."""
    if isinstance(error, AdumbraError):
        return AfterCharge(error.expected, error.got, f"{paid}, and {state}; {error.remedy}")
    if isinstance(error, OSError | MemoryError):  # its text is left out: a library may have put a cell there
        reason = getattr(error, "strerror", None) or type(error).__name__
        return AfterCharge("to finish the release", reason, f"{paid}, and {state}")
    error.add_note(f"{PAID}{paid}, and {state}")
    return error
