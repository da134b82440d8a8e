"""CPU time, wall time and memory. Ratios of one run compare across machines, seconds do not."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numba

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, float, Result]:
    """Wall seconds, CPU seconds of all threads, and what came out."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def in_turn(
    work: Mapping[str, Callable[[], Result]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, Result]]:
    """Rounds in which everything has its turn: wall and CPU seconds of each, and what came out last."""
    wall: dict[str, list[float]] = {name: [] for name in work}
    cpu: dict[str, list[float]] = {name: [] for name in work}
    results = {}
    for _ in range(rounds):
        for name, call in work.items():
            seconds, used, results[name] = timed(call)
            wall[name].append(seconds)
            cpu[name].append(used)
    return wall, cpu, results


@numba.njit(nogil=True)
def spin(n: int) -> int:
    """Arithmetic that cannot be skipped."""
    x = 1
    for i in range(n):
        x = (x * 1103515245 + i) & 0x7FFFFFFF
    return x


def spin_threads(threads: int, work: int) -> None:
    """The same work, shared out: says what several threads can give on this machine at all."""
    workers = [threading.Thread(target=spin, args=(work // threads,)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def peak_mb() -> float:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def child_usage(command: Sequence[str], **environment: Any) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of a process of its own, and of what it starts."""
    child = subprocess.Popen(command, env=os.environ | environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit("a run failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
