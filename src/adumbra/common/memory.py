"""How much memory this process may still take, as far as the system says so.

Asked before a charge, as the disk is: a release that runs out of memory half-way has spent its budget for nothing.
Where nothing is known (another operating system, a container that hides its limits) nothing is refused.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from adumbra.common.errors import InputError

__all__ = ["available_memory", "check_memory"]

_PROC = Path("/proc")
_CONTROL = Path("/sys/fs/cgroup")
_THREAD_BYTES = 72 << 20
"""Address space of a thread before it does anything: its stack and its own heap."""


def available_memory(threads: int = 0) -> int | None:
    """Bytes that are free, or None if nobody says; where addresses are limited, less what `threads` reserve."""
    free = [_machine(), _control_groups()]
    addresses = _addresses()
    if addresses is not None:
        free.append(max(addresses - threads * _THREAD_BYTES, 0))
    known = [size for size in free if size is not None]
    return min(known, default=None)


def check_memory(needed: int, threads: int = 0) -> None:
    """Refuse what is certain not to fit, before any charge."""
    free = available_memory(threads)
    if free is not None and free < needed:
        raise InputError(
            f"about {needed / 1e6:.0f} MB of free memory for the release",
            f"{free / 1e6:.0f} MB",
            "free some memory or raise the limit, set ADUMBRA_THREADS=1, or release fewer columns or values; nothing "
            "was charged",
        )


def _machine() -> int | None:
    """What the machine can give without pushing others out, and its free swap."""
    sizes = _table(_PROC / "meminfo")
    return None if "MemAvailable:" not in sizes else 1024 * (sizes["MemAvailable:"] + sizes.get("SwapFree:", 0))


def _control_groups() -> int | None:
    """The tightest limit of the control groups that the process is in, less what is used and cannot be reclaimed."""
    own = ""
    with contextlib.suppress(OSError, ValueError):
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
        own = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "")
    folder = _CONTROL / own.lstrip("/")
    free = []
    for group in (folder, *folder.parents):
        limit, used = _number(group / "memory.max"), _number(group / "memory.current")
        if limit is not None and used is not None:
            stat = _table(group / "memory.stat")
            cached = stat.get("inactive_file", 0) + stat.get("active_file", 0)
            free.append(max(limit - max(used - cached, 0), 0))
        if group == _CONTROL:
            break
    return min(free, default=None)


def _addresses() -> int | None:
    """What is left of the limit on addresses, if there is one (ulimit -v)."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        used = int((_PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
    return max(limit - used, 0)


def _number(file: Path) -> int | None:
    """A file that holds one number; None for "max" and for no file."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _table(file: Path) -> dict[str, int]:
    """A file of lines that begin with a name and a number."""
    found = {}
    with contextlib.suppress(OSError):
        for line in file.read_text().splitlines():
            name, *rest = line.split()
            if rest and rest[0].isdigit():
                found[name] = int(rest[0])
    return found
