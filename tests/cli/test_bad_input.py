"""Bad input of every kind: the right exit code, three plain phrases, nothing spent, left behind or given away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import adumbra as ad
from adumbra.releases import staging
from adumbra.releases.card import Card
from adumbra.releases.folder import page_of, sha256
from tests.conftest import SCHEMA, TABLE, Home, Result, finished, spawn

Cli = Callable[..., Result]
SECRET = "Zyzzogeton"
JOB = ("--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro")
HEADER = TABLE.splitlines()[0]


def explained(result: Result, code: int = 2) -> str:
    """The three phrases, no traceback, no private cell; returns what was said."""
    assert result.code == code, result.err
    for part in ("error: expected ", "\n       got ", "\n       to do: "):
        assert part in result.err
        assert result.err.split(part, 1)[1].split("\n", 1)[0].strip()
    for text in (result.out, result.err):
        assert "Traceback" not in text
        assert SECRET not in text
    return result.err


def untouched(home: Home, *more: str) -> None:
    """No release, no temporary folder, no charge."""
    assert home.charges() == 0
    assert home.leftovers() == []
    assert {p.name for p in home.path.iterdir()} <= {"t.csv", "s.toml", "adumbra-ledger.db", *more}


# ---- tables

TABLES: dict[str, tuple[str, bytes]] = {
    "empty file": ("t.csv", b""),
    "header only": ("t.csv", HEADER.encode() + b"\n"),
    "header without newline": ("t.csv", HEADER.encode()),
    "only newlines": ("t.csv", b"\n\n\n"),
    "row too short": ("t.csv", f"{HEADER}\n1,{SECRET}\n".encode()),
    "row too long": ("t.csv", f"{HEADER}\n1,34,F,yes,{SECRET},more\n".encode()),
    "duplicate columns": ("t.csv", TABLE.replace("smoker", "sex").encode()),
    "wrong delimiter": ("t.csv", TABLE.replace(",", ";").encode()),
    "tab instead of comma": ("t.csv", TABLE.replace(",", "\t").encode()),
    "latin-1": ("t.csv", TABLE.replace("alive", f"{SECRET}é").encode("latin-1")),
    "latin-1 header": ("t.csv", TABLE.replace("sex", "séx").encode("latin-1")),
    "utf-16": ("t.csv", TABLE.encode("utf-16")),
    "nul bytes": ("t.csv", b"\0" * 5000),
    "machine code": ("t.csv", bytes(range(256)) * 40),
    "open quote": ("t.csv", f'{HEADER}\n1,34,"F,yes,{SECRET}\n2,3,M,no,dead\n'.encode()),
    "unnamed column": ("t.csv", TABLE.replace("sex", "").encode()),
    "column not in schema": ("t.csv", TABLE.replace("\n", ",x\n").replace("outcome,x", "outcome,extra").encode()),
    "schema column not in table": ("t.csv", TABLE.replace("smoker", "vaper").encode()),
    "not gzip": ("t.csv.gz", TABLE.encode()),
    "not parquet": ("t.parquet", TABLE.encode()),
    "cut parquet": ("t.parquet", b"PAR1" + b"\0" * 100),
    "not arrow": ("t.arrow", SECRET.encode() * 100),
    "unknown ending": ("t.xlsx", TABLE.encode()),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("command", ["schema", "plan", "release"])
def test_bad_tables(cli: Cli, home: Home, case: str, command: str) -> None:
    name, content = TABLES[case]
    home.table.unlink()
    home.write(name, content)
    if command == "schema" and case in ("column not in schema", "schema column not in table"):
        pytest.skip("a draft has no schema to differ from")
    more = {"schema": (), "plan": JOB, "release": (*JOB, "--out", "r")}[command]
    explained(cli(command, name, *more))
    untouched(home, name)


def test_a_table_that_is_not_there_or_no_file(cli: Cli, home: Home) -> None:
    for name in ("absent.csv", ".", "no*.parquet", "", "t.csv/x", "a" * 300 + ".csv"):
        explained(cli("release", name, *JOB, "--out", "r"))
    untouched(home)


def test_a_delimiter_that_is_none(cli: Cli, home: Home) -> None:
    for delimiter in ("", ",,", "é", "\n"):
        explained(cli("release", "t.csv", *JOB, "--out", "r", "--delimiter", delimiter))
    untouched(home)


# ---- odd tables that are fine


def accepted(cli: Cli, home: Home, *more: object) -> dict[str, object]:
    result = cli("release", "t.csv", *JOB, "--out", "r", "--json", *more)
    assert result.code == 0, result.err
    assert SECRET not in result.out + result.err
    assert cli("verify", "r").code == 0
    assert home.charges() == 1
    shown: dict[str, object] = json.loads(result.out)
    return shown


ODD = ["nan", "NaN", "inf", "-inf", "1e308", "-1e308", "1e999", "1e-999", "", SECRET, "0x1f"]


def test_odd_numbers_are_repaired_silently(cli: Cli, home: Home) -> None:
    home.write("t.csv", f"{HEADER}\n" + "".join(f"1,{cell},F,yes,alive\n" for cell in ODD))
    assert accepted(cli, home)["rows"] == len(ODD)


def test_odd_numbers_in_a_typed_file(cli: Cli, home: Home) -> None:
    ages = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, None]
    frame = pl.read_csv(home.table).with_columns(age=pl.Series(ages))
    frame.write_parquet(home.path / "t.parquet")
    assert cli("release", "t.parquet", *JOB, "--out", "r").code == 0


def test_a_column_without_any_cell(cli: Cli, home: Home) -> None:
    home.write("t.csv", f"{HEADER}\n" + "1,,,,\n" * 5)
    accepted(cli, home)


def test_one_row(cli: Cli, home: Home) -> None:
    home.write("t.csv", f"{HEADER}\n1,34,F,yes,alive\n")
    assert accepted(cli, home)["rows"] == 1
    for words in (
        ("distance", "--random", "1"),
        ("neighbours", "--row", "0", "--k", "1"),
    ):
        explained(cli("answer", "r", *words))
    for words in (
        ("count", "--where", "sex=F"),
        ("mean", "--column", "age"),
        ("moment", "--columns", "age"),
        ("reconstruct", "--out", "x.csv"),
    ):
        assert cli("answer", "r", *words).code == 0


def test_categories_with_commas_quotes_and_emoji(cli: Cli, home: Home) -> None:
    values = ["a,b", 'say "hi"', "🦉", "x=y", "[bold]", "|", "línea\nnueva", "\\"]
    schema = f'[columns."w|é [red]"]\nkind = "category"\nvalues = {json.dumps(values, ensure_ascii=False)}\n'
    home.write("s.toml", schema + '[columns."💧"]\nkind = "flag"\n')
    pl.DataFrame({"w|é [red]": values, "💧": [True] * len(values)}).write_csv(home.table)
    card = accepted(cli, home)
    assert card["table_schema"]["columns"][0]["values"] == values  # type: ignore[index]
    for value in values:
        assert cli("answer", "r", "count", "--where", f"w|é [red]={value}").code == 0
    assert "w|é [red]" in explained(cli("answer", "r", "mean", "--column", "w|é [red]"))


def test_ten_thousand_columns(cli: Cli, home: Home) -> None:
    names = [f"c{i}" for i in range(10_000)]
    home.write("t.csv", ",".join(names) + "\n" + (",".join(["0.5"] * 10_000) + "\n") * 3)
    home.write("s.toml", "".join(f'[columns.{n}]\nkind = "number"\nlow = 0\nhigh = 1\n' for n in names))
    accepted(cli, home, "--dimension", "4", "--unit", "cell")


def test_another_delimiter_said_aloud(cli: Cli, home: Home) -> None:
    home.write("t.csv", TABLE.replace(",", ";"))
    accepted(cli, home, "--delimiter", ";")


# ---- schemas

SCHEMAS = {
    "absent": None,
    "empty": "",
    "not toml": "columns = [",
    "not utf-8": b"\xff\xfe",
    "typo in a key": SCHEMA.replace("high", "hihg"),
    "typo in a kind": SCHEMA.replace('"number"', '"numbre"'),
    "typo in a section": SCHEMA.replace("[table]", "[tabel]"),
    "no range": SCHEMA.replace("high = 110\n", ""),
    "low above high": SCHEMA.replace("low = 0", "low = 200"),
    "nan range": SCHEMA.replace("low = 0", "low = nan"),
    "infinite range": SCHEMA.replace("high = 110", "high = inf"),
    "other row count": SCHEMA.replace("[table]", "[table]\nrows = 7"),
    "unknown unit": SCHEMA.replace("[table]", '[table]\nunit = "person"'),
    "all dropped": '[columns.age]\nrole = "drop"\n',
    "a table instead": TABLE,
    "deeply nested": "x = " + "[" * 5000,
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_bad_schemas(cli: Cli, home: Home, case: str) -> None:
    content = SCHEMAS[case]
    home.schema.unlink()
    if content is not None:
        home.write("s.toml", content)
    explained(cli("release", "t.csv", *JOB, "--out", "r"))
    untouched(home)


def test_a_folder_as_schema(cli: Cli, home: Home) -> None:
    explained(cli("release", "t.csv", "--schema", ".", "--epsilon", "1", "--out", "r"))
    untouched(home)


# ---- options

OPTIONS = [
    *(("--epsilon", e) for e in ("0", "-1", "nan", "inf", "-inf", "abc", "", "1e400", "1e9")),
    *(("--delta", d) for d in ("1", "1.5", "-1e-9", "nan", "inf", "abc", "1e-320")),
    *(("--row-bound", b) for b in ("0", "-1", "nan", "inf", "abc", "1e-9")),
    ("--row-bound", "1", "--unit", "cell"),
    *(("--dimension", d) for d in ("0", "-3", "abc", "999999999999", "2.5", "1e3", "")),
    ("--dimension",),
    ("--dimension", "2", "--dimension=3"),
    ("--dimensoin", "2"),
    ("--expected", "-1"),
    ("--expected", "nan"),
    ("--bands", "1,x"),
    ("--bands", "1,2", "--dimension", "3"),
    ("--projection", "magic"),
    ("--mechanism", "dpro"),
    ("--mechanism", ""),
    ("--mechanism", "../dppro"),
    ("--unit", "person"),
    ("--relation", "swap"),
    ("--relation", "add-remove"),
    ("--relation", "add-remove", "--unit", "cell"),
    ("--label", "sex"),
    ("--rows", "5"),
    ("--rows", "x"),
    ("--frobnicate",),
    ("--frobnicate", "1"),
    ("-x",),
    ("stray",),
    ("--sign", "absent.pem"),
]


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_bad_options(cli: Cli, home: Home, words: tuple[str, ...]) -> None:
    for command, more in (("plan", ()), ("release", ("--out", "r"))):
        if command == "plan" and words[0] == "--sign":
            continue
        explained(cli(command, "t.csv", *JOB, *more, *words))
        untouched(home)


DRAWN = ("auto", "hybrid", "moments", "pairs", "tables")
OTHER_MECHANISMS = [
    *((name, "--label", label) for name in DRAWN for label in ("nobody", "id", "sex,nobody")),
    *((name, "--rows", rows) for name in DRAWN for rows in ("0", "-5", "1.5", "x", "99999999999999")),
    *((name, "--unit", "cell") for name in ("hybrid", "moments", "tables", "dprp")),
    *((name, "--dimension", "4") for name in DRAWN),
    *(("tables", "--bins", bins) for bins in ("0", "-1", "x", "2.5")),
    ("moments", "--narrow", "perhaps"),
    ("moments", "--narrow"),
    ("auto", "--need", "everything"),
    ("auto", "--need", "aligned-rows", "--relation", "add-remove"),
    ("auto", "--unit", "cell", "--relation", "add-remove"),
    ("dprp", "--relation", "add-remove"),
    ("dprp", "--label", "sex"),
    ("dprp", "--rows", "5"),
    ("dprp", "--reconstruction", "magic"),
    ("dprp", "--projection", "signs"),
    ("dprp", "--rank", "7", "--reconstruction", "pseudo-inverse"),  # the encoded row has 6 coordinates
    ("dprp", "--rank", "0", "--reconstruction", "pseudo-inverse"),
    ("dprp", "--rank", "3"),
    ("dprp", "--dimension", "4"),
    ("dprp", "--ensemble", "2"),
    ("dprp", "--ensemble", "0", "--projection", "gaussian"),
    ("dprp", "--dimension", "1025", "--projection", "gaussian"),
    *(("dprp", "--weight", weight) for weight in ("0", "-1", "nan", "inf", "x")),
]


@pytest.mark.parametrize("words", OTHER_MECHANISMS, ids=" ".join)
def test_bad_options_of_the_other_mechanisms(cli: Cli, home: Home, words: tuple[str, ...]) -> None:
    name, *rest = words
    for command, more in (("plan", ()), ("release", ("--out", "r"))):
        explained(cli(command, "t.csv", *JOB, "--mechanism", name, *more, *rest))
        untouched(home)


@pytest.mark.parametrize("name", [*DRAWN, "dprp"])
def test_odd_tables_are_fine_for_every_mechanism(cli: Cli, home: Home, name: str) -> None:
    """One row, no cell filled in, and numbers at and beyond the end of what a float can hold."""
    rows = ["1,34,F,yes,alive\n", "1,,,,\n" * 5, "".join(f"1,{cell},{SECRET},{SECRET},{SECRET}\n" for cell in ODD)]
    for index, text in enumerate(rows):
        home.write("t.csv", f"{HEADER}\n{text}")
        result = cli("release", "t.csv", *JOB, "--mechanism", name, "--out", f"r{index}")
        assert result.code == 0, result.err
        assert SECRET not in result.out + result.err
        assert cli("verify", f"r{index}").code == 0


@pytest.mark.parametrize("name", ["hybrid", "dprp"])
def test_distances_of_a_table_in_the_schemas_columns_are_refused(cli: Cli, home: Home, name: str) -> None:
    """What a release of projected rows answers, another says it cannot, and says what to do instead."""
    assert cli("release", "t.csv", *JOB, "--mechanism", name, "--out", "r").code == 0
    for words in (
        ("distance", "--random", "1"),
        ("neighbours", "--row", "0"),
        ("count", "--where", "sex=F"),
        ("mean", "--column", "age"),
        ("linear", "--weights", "age=1"),
        ("moment", "--columns", "age,smoker"),
        ("reconstruct", "--out", "x.csv"),
    ):
        said = explained(cli("answer", "r", *words))
        assert name in said
        assert "data.parquet" in said
    assert not (home.path / "x.csv").exists()


def test_pure_epsilon_and_odd_seeds_are_fine(cli: Cli, home: Home) -> None:
    odd = (("--delta", "0"), ("--seed", "🦉 [red] \\ -1"), ("--seed", "0" * 64))
    for index, words in enumerate(odd):
        result = cli("release", "t.csv", *JOB, "--out", f"r{index}", *words)
        assert result.code == 0, result.err


def test_missing_options_and_unknown_commands(cli: Cli, home: Home) -> None:
    for words in (
        ("release",),
        ("release", "t.csv"),
        ("release", "t.csv", *JOB),
        ("relase", "t.csv"),
        ("answer", "r"),
        ("answer", "r", "distnace"),
        ("ledger", "shwo"),
        ("verify",),
        ("--frobnicate",),
    ):
        result = cli(*words)
        assert result.code == 2
        assert "Traceback" not in result.err
        assert result.err.startswith(("error: expected", "Usage:"))
    assert "did you mean release?" in cli("relase").err
    untouched(home)


@pytest.mark.parametrize("option", ["--name", "--seed", "--out", "--ledger"])
def test_arguments_that_are_no_text(home: Home, option: str) -> None:
    words = ["release", "t.csv", *JOB, "--out", "r", option]
    command = [sys.executable, "-m", "adumbra.cli.main", *words]
    done = subprocess.run([*map(os.fsencode, command), b"\xff\xfe"], cwd=home.path, capture_output=True, check=False)
    explained(Result(done.returncode, done.stdout.decode(), done.stderr.decode()))
    untouched(home)


def test_a_name_the_card_cannot_carry_costs_nothing_in_python(home: Home) -> None:
    book = ad.Ledger(home.ledger)
    with pytest.raises(ad.InputError):
        ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0), ledger=book, name="\udcff", out=home.path / "r")
    untouched(home)


# ---- places to write


def test_an_out_that_cannot_be(cli: Cli, home: Home) -> None:
    (home.path / "there").mkdir()
    (home.path / "dangling").symlink_to("nowhere")
    home.write("file", "x")
    for out in ("there", "file", "dangling", "file/r", "/proc/r", ".", "..", "/", "new/..", "a" * 300, "dangling/r"):
        explained(cli("release", "t.csv", *JOB, "--out", out))
        untouched(home, "there", "dangling", "file")
    assert (home.path / "file").read_text() == "x"
    assert list((home.path / "there").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anywhere")
def test_a_folder_without_permission(home: Home) -> None:
    closed = home.path / "closed"
    closed.mkdir(mode=0o555)
    command = [sys.executable, "-m", "adumbra.cli.main", "release", "t.csv", *JOB, "--out", "closed/r"]
    if os.geteuid() == 0:
        # keep the identity, drop the right to ignore permissions
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, cwd=home.path, capture_output=True, text=True, check=False)
    assert "Permission denied" in explained(Result(done.returncode, done.stdout, done.stderr))
    untouched(home, "closed")
    assert list(closed.iterdir()) == []


def test_ledgers_that_are_none(cli: Cli, home: Home) -> None:
    home.write("garbage.db", b"not a ledger " * 100)
    home.write("empty.db", b"")
    for ledger in (".", "garbage.db", "empty.db", "absent/x.db", "t.csv", "a" * 300):
        explained(cli("release", "t.csv", *JOB, "--out", "r", "--ledger", ledger))
        explained(cli("ledger", "show", "--ledger", ledger))
        explained(cli("ledger", "check", "--ledger", ledger))
        untouched(home, "garbage.db", "empty.db")
    for ledger in (".", "garbage.db", "t.csv"):
        explained(cli("plan", "t.csv", *JOB, "--ledger", ledger))
    explained(cli("ledger", "show"))
    explained(cli("ledger", "cap", "t", "--epsilon", "-1"))
    explained(cli("ledger", "cap", "t", "--epsilon", "1", "--unit", "cell", "--relation", "add-remove"))
    untouched(home, "garbage.db", "empty.db")


def test_ledger_questions_that_make_no_sense(cli: Cli, home: Home) -> None:
    assert cli("release", "t.csv", *JOB, "--out", "r").code == 0
    for words in (("--delta", "1"), ("--delta", "nan"), ("--delta", "-1"), ("--table", "nobody")):
        explained(cli("ledger", "show", *words))


# ---- a full disk


@pytest.fixture
def small_disk(home: Home) -> Iterator[Path]:
    place = home.path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small disk cannot be mounted here (that needs root)")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def big_table(home: Home, rows: int = 30_000) -> None:
    home.write("t.csv", HEADER + "\n" + "1,34,F,yes,alive\n" * rows)


def test_a_full_disk_is_refused_before_the_charge(cli: Cli, home: Home, small_disk: Path) -> None:
    big_table(home)
    said = explained(cli("release", "t.csv", *JOB, "--out", "small/r"))
    assert "MB free" in said
    untouched(home, "small")
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("more", [(), ("--csv",)])
def test_a_disk_that_fills_up_meanwhile(
    cli: Cli, home: Home, small_disk: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    big_table(home)
    roomy = shutil.disk_usage(home.path)
    monkeypatch.setattr(staging.shutil, "disk_usage", lambda _: roomy)
    said = explained(cli("release", "t.csv", *JOB, "--out", "small/r", *more), code=4)
    assert "No space left" in said
    assert "the charge stays, and no release was written" in said
    assert list(small_disk.iterdir()) == []
    assert home.charges() == 1
    assert cli("ledger", "check").code == 0
    assert cli("release", "t.csv", *JOB, "--out", "r").code == 0


@pytest.mark.parametrize("more", [(), ("--csv",)])
def test_a_file_that_may_not_grow(home: Home, more: tuple[str, ...]) -> None:
    big_table(home)
    words = ["release", "t.csv", *JOB, "--out", "r", *more]
    code = (
        "import resource, sys\n"
        "from adumbra.cli.main import run\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"sys.argv = ['adumbra', *{words!r}]\n"
        "run()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=home.path, capture_output=True, text=True, check=False)
    assert "File too large" in explained(Result(done.returncode, done.stdout, done.stderr), code=4)
    assert home.leftovers() == []
    assert not (home.path / "r").exists()
    assert home.charges() == 1


def test_a_ledger_on_a_full_disk_releases_nothing(cli: Cli, home: Home, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (256 * 1024 - 4096))
    explained(cli("release", "t.csv", *JOB, "--out", "r", "--ledger", "small/l.db"))
    untouched(home, "small")
    assert {p.name for p in small_disk.iterdir()} == {"ballast"}


# ---- answers


def test_questions_to_something_that_is_no_release(cli: Cli, home: Home) -> None:
    (home.path / "folder").mkdir()
    for folder in ("absent", "folder", "t.csv", "."):
        explained(cli("answer", folder, "distance", "--random", "1"))
        explained(cli("verify", folder))
    untouched(home, "folder")


def test_bad_questions(cli: Cli, home: Home) -> None:
    assert cli("release", "t.csv", *JOB, "--out", "r", "--dimension", "1").code == 0
    pairs = {
        "no columns": "a,b\n0,1\n",
        "text": "i,j\n0,x\n",
        "fraction": "i,j\n0,1.5\n",
        "blank": "i,j\n0,\n",
        "huge": "i,j\n0,99999999999999999999\n",
        "outside": "i,j\n0,6\n",
        "negative": "i,j\n-1,0\n",
        "ragged": "i,j\n0\n0,1,2,3\n",
        "empty": "",
        "binary": "\0\1\2",
    }
    for name, content in pairs.items():
        home.write("pairs.csv", content)
        assert explained(cli("answer", "r", "distance", "--pairs", "pairs.csv")), name
    for words in (
        ("distance",),
        ("distance", "--random", "1", "--pairs", "pairs.csv"),
        ("distance", "--pairs", "absent.csv"),
        ("distance", "--pairs", "."),
        ("distance", "--random", "0"),
        ("distance", "--random", "-5"),
        ("distance", "--random", "x"),
        ("distance", "--random", "3", "--seed", "-1"),
        ("neighbours", "--row", "0", "--k", "6"),
        ("neighbours", "--row", "0", "--k", "0"),
        ("neighbours", "--row", "6"),
        ("neighbours", "--row", "-1", "--k", "2"),
        ("neighbours",),
        ("count", "--where", "sex"),
        ("count", "--where", "sex=Q"),
        ("count", "--where", "smoker=perhaps"),
        ("count", "--where", "age=34"),
        ("count", "--where", "nobody=1"),
        ("count", "--where", "id=1"),
        ("count", "--where", "="),
        ("mean", "--column", "sex"),
        ("mean", "--column", "nobody"),
        ("linear", "--weights", "age"),
        ("linear", "--weights", "age=x"),
        ("linear", "--weights", "age=nan"),
        ("linear", "--weights", "age=inf"),
        ("linear", "--weights", ""),
        ("moment", "--columns", "sex"),
        ("moment", "--columns", "nobody"),
        ("moment", "--columns", ""),
        ("moment", "--columns", "age"),  # one dimension is too few
        ("reconstruct", "--out", "absent/x.csv"),
        ("reconstruct", "--out", "t.csv"),
    ):
        explained(cli("answer", "r", *words))


def test_a_card_that_is_no_longer_one(cli: Cli, home: Home) -> None:
    assert cli("release", "t.csv", *JOB, "--out", "r").code == 0
    card = home.path / "r" / "card.json"
    content = json.loads(card.read_text())
    for change in (
        b"",
        b"{",
        b"\xff",
        b"[1]",
        json.dumps(content | {"format": "adumbra-card/9", "new": 1}).encode(),
        json.dumps(content | {"epsilon": "many"}).encode(),
        json.dumps({k: v for k, v in content.items() if k != "unit"}).encode(),
    ):
        card.write_bytes(change)
        explained(cli("verify", "r"))
        explained(cli("answer", "r", "distance", "--random", "1"))
    for facts in (
        {},
        {"bands": 3, "projection": "gaussian"},
        {"bands": [{}], "projection": "gaussian"},
        {"bands": [{"dimension": 2, "share": 0, "expected": 1}], "projection": "gaussian"},
        content["facts"] | {"projection": "magic"},
    ):
        sealed(home.path / "r", content | {"facts": facts})
        explained(cli("answer", "r", "distance", "--random", "1"))
    for kind in ("counts", "components", "nothing"):
        sealed(home.path / "r", content | {"kind": kind})
        explained(cli("answer", "r", "distance", "--random", "1"))
        explained(cli("answer", "r", "axes"))
    sealed(home.path / "r", content | {"table_schema": {"columns": []}})
    explained(cli("answer", "r", "distance", "--random", "1"))


def sealed(folder: Path, content: dict[str, Any]) -> None:
    """A card that verify has nothing to say against: its page is made from it."""
    card = Card.model_validate(content)
    (folder / "card.md").write_text(page_of(card))
    card.files["card.md"] = sha256(folder / "card.md")
    (folder / "card.json").write_text(card.model_dump_json())


def test_bad_input_in_a_process_of_its_own(home: Home) -> None:
    """Giving a file up half-way leaves threads behind; they must not change the exit code as Python ends."""
    home.write("t.csv", TABLES["row too short"][1])
    for _ in range(8):
        explained(finished(spawn(home, "schema", "t.csv")))
    untouched(home)
