"""What this library calls itself on what it writes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

__all__ = ["library"]


@cache  # the version is read from a file of the installation, once
def library() -> str:
    """Name and version.

    >>> library().split()[0]
    'adumbra'
    """
    return f"adumbra {version('adumbra')}"
