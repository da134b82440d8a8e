"""CPU time of one charge by the number of lines in the ledger: python benchmarks/ledger.py [--quick] [--json].

Each is measured twice: by its running totals, and with the file touched before each charge, so that all lines
are read and counted anew. A cap stands for
the table; the past is Gaussian, or half of it pure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from adumbra.accounting.events import Event
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.ledger import Ledger

ROW = Neighbours.parse("row/replace")
MOST = 200
"""Lines charged at once, so that the past is written in seconds."""


def charged(ledger: Ledger, number: int, pure: bool) -> None:
    laplace, gaussian = Event("laplace", 1e4, {"row/replace": 1.0}), Event("gaussian", 1e4, {"row/replace": 1.0})
    ledger.charge(
        table="patients",
        release_id="r",
        mechanism="m",
        promise=Promise(1.0, 1e-6, ROW),
        events={f"line {i}": laplace if pure and i % 2 else gaussian for i in range(number)},
    )


def past(path: Path, lines: int, pure: bool) -> Ledger:
    """A ledger with a cap and this many lines in all."""
    ledger = Ledger(path)
    left = lines - 1
    while left:
        charged(ledger, min(left, MOST), pure)
        left -= min(left, MOST)
    ledger.set_cap("patients", ROW, 5.0, 1e-6)
    return ledger


def cpu_ms(call: Callable[[], None], before: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        before()
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def measured(lines: int, pure: bool, rounds: int) -> dict[str, float | str]:
    """Milliseconds of a charge to a ledger of this many lines, by its totals and by all of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = past(path, lines, pure)
        noted = cpu_ms(lambda: charged(ledger, 1, pure), lambda: None, rounds)
        read = cpu_ms(lambda: charged(ledger, 1, pure), lambda: os.utime(path), rounds)
    return {"lines": lines, "past": "half pure" if pure else "Gaussian", "noted": noted, "read": read}


def main() -> None:
    """Print one row for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 1,000 lines, few rounds")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    asked = parser.parse_args()
    lengths = (10, 1000) if asked.quick else (10, 1000, 10_000)
    found = [measured(lines, pure, 5 if asked.quick else 9) for pure in (False, True) for lines in lengths]
    if asked.json:
        print(json.dumps(found))
        return
    print(f"{'past':>10} {'lines':>7} {'by totals':>12} {'by all lines':>14}   (ms of CPU per charge, median)")
    for row in found:
        print(f"{row['past']:>10} {row['lines']:>7} {row['noted']:>12.2f} {row['read']:>14.2f}")


if __name__ == "__main__":
    main()
