"""Single numbers as answers, each with what it may be off by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CountEstimate", "Estimate"]


@dataclass(frozen=True)
class Estimate:
    """One number with its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class CountEstimate(Estimate):
    """A count with its standard error: off by `eta` or more with probability at most `mu`."""

    mu: float
    eta: float
    basis: str
    """`proved`, or `estimated` from the standard error."""
