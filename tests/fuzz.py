"""Damage files in many ways and read them: each must read or be refused by an error of ours, and nothing else.

    python -m tests.fuzz --kind arrow --count 100000 [--seed 1]
    python -m tests.fuzz --kind arrow --only 1234            # one mutation again, with its traceback

Mutations are numbered and follow from kind, seed and number alone. They run in a process of their own, one after the
other: a crash, a hang or too much memory ends that process, is noted under the mutation's number, and a new process
goes on after it. `tests/tables/test_fuzz_readers.py` runs a few hundred of each kind.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Mutate = Callable[[bytes, random.Random], bytes]
SECRET = "SECRETCELL"
"""Stands in every private cell of text; no message may hold a piece of it."""
_PIECES = [SECRET[start : start + 5] for start in range(len(SECRET) - 4)]
_NUMBERS = [0, 1, 2**7, 2**8 - 1, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
_SECONDS, _MEMORY = 60, 2**30


@dataclass(frozen=True)
class Kind:
    """One kind of file: whole examples by file name, what may stand in one, and how it is read.

    `examples` may put further files into the folder. `read` is given the damaged file, and a function to call from
    where on nothing may fail any more. `inside` damages what checksums would otherwise keep from being looked at.
    """

    examples: Callable[[Path], dict[str, bytes]]
    read: Callable[[Path, Callable[[], None]], None]
    inside: Callable[[str, bytes, random.Random, Mutate], bytes] | None = None
    words: tuple[bytes, ...] = ()


def mutated(content: bytes, rng: random.Random, words: tuple[bytes, ...] = ()) -> bytes:
    """Bits flipped, numbers overwritten, pieces moved, cut out or put in, the end cut off: one to four of these."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not data:
            break
        place, other = rng.randrange(len(data)), rng.randrange(len(data))
        piece = rng.choice((1, 4, 8, 16, 64, 512))
        way = rng.randrange(11 if words else 10)
        if way < 4:
            data[place] ^= 1 << rng.randrange(8)
        elif way < 6:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(_NUMBERS) % 2 ** (8 * width)
            start = place - place % width if rng.random() < 0.7 else place
            data[start : start + width] = number.to_bytes(width, "little")
        elif way == 6:
            data[place : place + piece] = data[other : other + piece]
        elif way == 7:
            data[place:place] = data[other : other + piece]
        elif way == 8:
            del data[place : place + piece]
        elif way == 9:
            del data[place:]
        else:
            data[place : place + rng.choice((0, 0, 1, 4))] = rng.choice(words)
    return bytes(data)


def mutation(kind: Kind, name: str, seed: int, number: int, examples: dict[str, bytes]) -> tuple[str, bytes]:
    """The name of a file and its damaged content."""
    rng = random.Random(f"{name} {seed} {number}")
    file = rng.choice(sorted(examples))
    if kind.inside is not None and rng.random() < 0.5:
        return file, kind.inside(file, examples[file], rng, lambda data, rng: mutated(data, rng, kind.words))
    return file, mutated(examples[file], rng, kind.words)


def outcome(kind: Kind, folder: Path, file: str, content: bytes, *, loud: bool = False) -> str:
    """ "read", "refused", or what went wrong."""
    from adumbra.common.errors import AdumbraError

    (folder / file).write_bytes(content)
    charged = False

    def charge() -> None:
        nonlocal charged
        charged = True

    try:
        kind.read(folder / file, charge)
    except AdumbraError as error:
        if loud:
            traceback.print_exc()
        if charged:
            return f"refused too late: {error}"
        leaked = any(piece in str(error) for piece in _PIECES)
        return f"a cell in the message: {error}" if leaked else "refused"
    except BaseException as error:
        if loud:
            traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}, line {place.lineno}: {str(error)[:200]}"
    return "read"


def _work(name: str, seed: int, numbers: range, *, loud: bool) -> None:
    """Run some mutations in this process; one line of JSON before and after each."""
    from tests.fuzz_kinds import KINDS

    kind = KINDS[name]
    with tempfile.TemporaryDirectory(prefix="adumbra-fuzz-") as place:
        folder = Path(place)
        examples = kind.examples(folder)
        for file, content in examples.items():  # each example is read as it is, which loads what reading needs
            if (whole := outcome(kind, folder, file, content, loud=True)) != "read":
                raise AssertionError(f"{file} is whole, yet: {whole}")
        _limit_memory()
        for number in numbers:
            file, content = mutation(kind, name, seed, number, examples)
            _say(json.dumps([number]))
            faulthandler.dump_traceback_later(_SECONDS, exit=True)
            found = outcome(kind, folder, file, content, loud=loud)
            faulthandler.cancel_dump_traceback_later()
            _say(json.dumps([number, found]))
            (folder / file).write_bytes(examples[file])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))


def run(name: str, count: int, seed: int = 0) -> Iterator[tuple[int, str]]:
    """Number and outcome of each mutation; crashes are outcomes too."""
    start = 0
    while start < count:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--kind", name, "--seed", str(seed)]
        threads = dict.fromkeys(("ADUMBRA_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_NUM_THREADS"), "1")
        with tempfile.TemporaryFile("w+") as said:
            worker = subprocess.Popen(
                [*command, "--work", str(start), str(count)],
                cwd=Path(__file__).parents[1],
                env=os.environ | threads,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
            begun: int | None = None
            assert worker.stdout is not None
            with worker.stdout as lines:
                for line in lines:
                    number, *found = json.loads(line)
                    begun = None if found else number
                    start = number + 1
                    if found:
                        yield number, found[0]
            code = worker.wait()
            said.seek(0)
            report = said.read()
        if begun is not None:
            where = [line.strip() for line in report.splitlines() if line.startswith("  File")][:3]
            yield begun, f"the process ended with {code}: {' <- '.join(where)}"
        elif code != 0:
            raise RuntimeError(f"the worker failed between mutations ({code}): {report[-2000:]}")


def main() -> None:
    """The long form, by hand."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", required=True, help="kind of file, or all")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        _work(given.kind, given.seed, range(given.only, given.only + 1), loud=True)
    elif given.work is not None:
        _work(given.kind, given.seed, range(*given.work), loud=False)
    else:
        from tests.fuzz_kinds import KINDS

        bad = 0
        for name in KINDS if given.kind == "all" else [given.kind]:
            tally = {"read": 0, "refused": 0}
            for number, found in run(name, given.count, given.seed):
                if found in tally:
                    tally[found] += 1
                else:
                    bad += 1
                    _say(f"{name} {number}: {found}")
            _say(f"{name}: {tally}")
        sys.exit(1 if bad else 0)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
