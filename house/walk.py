"""A release walked with a profiler: which files it crosses, who calls up, and which files it opens.

Runs in a process of its own, on the package that is on the path, and prints JSON: `python -m house.walk TREE`.
"""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

TABLE = "age,sex,smoker,dose\n" + "".join(
    f"{20 + 7 * i % 60},{'FM'[i % 2]},{('yes', 'no')[i % 3 == 0]},{i * 37 % 101 / 10}\n" for i in range(60)
)
SCHEMA = """[table]
name = "walked"
[columns.age]
kind = "number"
low = 0
high = 110
[columns.sex]
kind = "category"
values = ["F", "M"]
[columns.smoker]
kind = "flag"
[columns.dose]
kind = "number"
low = 0
high = 10
"""
PROGRESS = re.compile(r"progress|Reporter|<lambda>.*silent", re.IGNORECASE)
"""Calls that tell how far the work is: the one thing that may be called from below."""
LIBRARY = re.compile(
    r"\.(py|pyc|so|nbi|nbc|pth|typed)$|-packages/|\.(egg|dist)-info/|__pycache__|^/(proc|sys|dev|usr|etc)/|/lib/python"
)


def layers(contract: Path) -> dict[str, int]:
    """Module below the package -> how high it stands, from the layers of the import contract."""
    parser = configparser.ConfigParser()
    parser.read(contract, encoding="utf-8")
    for section in parser.sections():
        if parser[section].get("type") == "layers":
            rows = [row.strip() for row in parser[section]["layers"].splitlines() if row.strip()]
            return {
                module.strip().removeprefix("adumbra."): len(rows) - place
                for place, row in enumerate(rows)
                for module in row.split("|")
            }
    raise SystemExit(f"no layers in {contract}")


class Walk:
    """What a profiler sees: files, and calls between files."""

    def __init__(self, package: Path) -> None:
        self.root = f"{package}{os.sep}"
        self.files: set[str] = set()
        self.calls: dict[tuple[str, str], set[str]] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """See one event."""
        if event != "call" or (here := self._file(frame.f_code)) is None:
            return
        self.files.add(here)
        back = frame.f_back
        while back is not None and (caller := self._file(back.f_code)) is None:
            back = back.f_back
        if back is not None and caller is not None and caller != here:
            self.calls.setdefault((caller, here), set()).add(frame.f_code.co_qualname)

    def _file(self, code: CodeType) -> str | None:
        inside = code.co_filename.startswith(self.root) and code.co_name != "<module>"
        return code.co_filename[len(self.root) : -3] if inside else None

    def up(self, height: dict[str, int]) -> list[str]:
        """Calls from a lower layer into a higher one, progress aside."""
        found = []
        for (caller, callee), names in sorted(self.calls.items()):
            told = sorted(name for name in names if not PROGRESS.search(name))
            if told and _height(caller, height) < _height(callee, height):
                found += [f"{caller} -> {callee}: {name}" for name in told]
        return found


def _height(file: str, height: dict[str, int]) -> int:
    """How high a file stands; one in no layer stands at the bottom, and is never called up to."""
    parts = file.split("/")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((height[name] for name in names if name in height), 0)


@contextlib.contextmanager
def _profiled(walk: Walk) -> Iterator[None]:
    sys.setprofile(walk)
    try:
        yield
    finally:
        sys.setprofile(None)


class Opened:
    """Files that are opened while it listens, imports of libraries aside."""

    def __init__(self) -> None:
        self.listening = False
        self.found: set[str] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.listening or event not in ("open", "sqlite3.connect", "os.mkdir"):
            return
        name = os.fsdecode(args[0]) if isinstance(args[0], str | bytes | os.PathLike) else ""
        if name and not LIBRARY.search(name):
            self.found.add(name)

    def during(self, work: Callable[[], object]) -> list[str]:
        """Files and folders that a second run of some work opens: the first may import and compile."""
        work()
        self.found, self.listening = set(), True
        try:
            work()
        finally:
            self.listening = False
        return sorted(Path(name).name for name in self.found)


def _command(*words: object) -> None:
    from adumbra.cli import main

    sys.argv = ["adumbra", *map(str, words)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main.command()
    if code != 0:
        raise SystemExit(f"adumbra {' '.join(map(str, words))}: exit {code}\n{said.getvalue()}")


def main(tree: Path) -> dict[str, object]:
    """Walk the package of this tree."""
    import numpy as np
    import polars as pl

    import adumbra as ad
    from adumbra.sklearn import PrivatePCA

    walk = Walk(tree / "src" / "adumbra")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["ADUMBRA_LEDGER"] = str(place / "ledger.db")
        (place / "t.csv").write_text(TABLE)
        (place / "s.toml").write_text(SCHEMA)
        words = ["release", place / "t.csv", "--schema", place / "s.toml", "--mechanism", "hybrid", "--epsilon", "1"]
        _command(*words, "--delta", "1e-6", "--out", place / "first")  # imports and compiles
        with _profiled(walk):
            _command(*words, "--delta", "1e-6", "--out", place / "second")
    opened = Opened()
    rows = np.random.default_rng(0).random((60, 4))
    table = pl.DataFrame({name: rows[:, i] for i, name in enumerate("abcd")})
    schema = ad.Schema.from_dict({"columns": {name: {"kind": "number", "low": 0, "high": 1} for name in "abcd"}})
    return {
        "files": sorted(walk.files),
        "up": walk.up(layers(tree / ".importlinter")),
        "pca": opened.during(lambda: PrivatePCA(low=0, high=1, n_components=2).fit(rows)),
        "release": opened.during(lambda: ad.release(table, schema, ad.Moments(), ad.Budget(1.0))),
    }


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]).resolve()), sys.stdout)
