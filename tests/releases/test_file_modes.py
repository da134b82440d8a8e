"""Who may read what is written, and what is left when writing fails: private files are private, half files are gone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

import adumbra as ad
from adumbra.cli.main import app
from adumbra.common.files import partial_beside, remove_leftovers
from tests.conftest import Home, Result, finished, spawn

Cli = Callable[..., Result]
JOB = ("t.csv", "--schema", "s.toml", "--epsilon", "8", "--mechanism", "dppro")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# ---- who may read


def test_what_holds_the_truth_is_for_its_owner_alone(cli: Cli, home: Home) -> None:
    with umask(0o000):
        assert cli("schema", "t.csv", "--out", "draft.toml").code == 0
        assert cli("release", *JOB, "--out", "r").code == 0
        assert cli("evaluate", "r", "--truth", "t.csv", "--out", "report.json").code == 0
        job = ("--mechanism", "lip", "--components", "2", "--relation", "replace")
        assert cli("release", *JOB[:-2], *job, "--out", "axes").code == 0
        assert cli("answer", "axes", "project", "t.csv", "--out", "own.csv").code == 0
        assert cli("keygen", "key").code == 0
    for name in ("draft.toml", "report.json", "own.csv", "key"):
        assert mode(home.path / name) == 0o600, name
    report = json.loads((home.path / "report.json").read_text())
    assert report["notice"].startswith("CONTAINS PRIVATE INFORMATION")
    assert report == json.loads(cli("evaluate", "r", "--truth", "t.csv", "--json").out)
    assert cli("evaluate", "r", "--truth", "t.csv", "--out", "report.json").code == 2
    assert json.loads((home.path / "report.json").read_text()) == report


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077, 0o027])
def test_what_may_be_published_is_as_the_umask_says(cli: Cli, home: Home, mask: int) -> None:
    with umask(mask):
        assert cli("release", *JOB, "--csv", "--out", "r").code == 0
        assert cli("basis", "t.csv", "--schema", "s.toml", "--components", "1", "--out", "axes.npy").code == 0
        assert cli("answer", "r", "reconstruct", "--out", "back.csv").code == 0
        assert cli("keygen", "key").code == 0
        ad.load(home.path / "r").save(home.path / "copy")
    for folder in ("r", "copy"):
        assert mode(home.path / folder) == 0o777 & ~mask
        for file in (home.path / folder).iterdir():
            assert mode(file) == 0o666 & ~mask, file.name
    for name in ("axes.npy", "back.csv", "key.pub"):
        assert mode(home.path / name) == 0o666 & ~mask, name
    assert mode(home.path / "key") == 0o600 & ~mask


def test_a_private_key_that_others_can_read_is_refused(cli: Cli, home: Home) -> None:
    assert cli("keygen", "key").code == 0
    for loose in (0o640, 0o604, 0o644, 0o660, 0o666):
        (home.path / "key").chmod(loose)
        refused = cli("release", *JOB, "--sign", "key", "--out", "r")
        assert refused.code == 2
        assert "chmod 600 key" in refused.err and f"{loose:04o}" in refused.err
        with pytest.raises(ad.InputError, match="chmod 600"):
            ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0), signing_key="key")
    assert home.charges() == 0 and not (home.path / "r").exists()
    for tight in (0o600, 0o400):
        (home.path / "key").chmod(tight)
        assert cli("release", *JOB, "--sign", "key", "--out", f"r{tight}").code == 0


# ---- what a killed process left

MARK = "adumbra-0123456789abcdef"


def left_behind(place: Path, name: str, *, folder: bool = True) -> Path:
    path = place / name
    if folder:
        path.mkdir()
        (path / "data.parquet").write_bytes(b"noisy numbers")
    else:
        path.write_bytes(b"half a draft")
    return path


NEXT = {
    "a release to another place": ("release", *JOB, "--out", "another"),
    "verify": ("verify", "r"),
    "answer": ("answer", "r", "distance", "--random", "1"),
    "evaluate": ("evaluate", "r", "--truth", "t.csv"),
    "schema": ("schema", "t.csv", "--out", "draft.toml"),
    "basis": ("basis", "t.csv", "--schema", "s.toml", "--components", "1", "--out", "axes.npy"),
    "keygen": ("keygen", "key"),
}


@pytest.mark.parametrize("command", NEXT)
def test_the_next_command_removes_what_a_killed_one_left(cli: Cli, home: Home, command: str) -> None:
    assert cli("release", *JOB, "--out", "r").code == 0
    left_behind(home.path, f".gone.{MARK}.partial")
    left_behind(home.path, f".draft.toml.{MARK}.partial", folder=False)
    living = left_behind(home.path, f".alive.{MARK}.partial")
    writing = left_behind(home.path, f".alive.toml.{MARK}.partial", folder=False)
    others = [left_behind(home.path, name) for name in (".x.partial", f"x.{MARK}.partial", ".x.0123abcd.partial")]
    link = home.path / f".link.{MARK}.partial"
    link.symlink_to(home.path / "r")
    locks = [hold(living), hold(writing)]
    assert cli(*NEXT[command]).code == 0
    for lock in locks:
        os.close(lock)
    assert not (home.path / f".gone.{MARK}.partial").exists()
    assert not (home.path / f".draft.toml.{MARK}.partial").exists()
    for path in (living, writing, *others, link, home.path / "r" / "card.json"):
        assert path.exists(), path.name


@pytest.mark.parametrize(
    "name",
    [
        ".backup.20240101.partial",
        ".r.0123abcd.partial",
        ".x.0123456789abcdef.partial",
        ".x.adumbra-0123.partial",
        f".{MARK}.partial",
        f".x.{MARK}.partial.old",
        f".x.{MARK.upper()}.partial",
    ],
)
@pytest.mark.parametrize("folder", [False, True])
def test_files_of_other_programs_are_left_alone(home: Home, name: str, folder: bool) -> None:
    theirs = left_behind(home.path, name, folder=folder)
    remove_leftovers(home.path)
    assert theirs.exists()


def test_a_name_for_what_is_not_finished_is_found_again(home: Home) -> None:
    for name in ("r", "draft.toml", ".hidden", "größe"):
        partial_beside(home.path / name).mkdir()
    assert len(home.leftovers()) == 4
    remove_leftovers(home.path)
    assert home.leftovers() == []


def hold(path: Path) -> int:
    """As a living process holds what it is writing."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def test_what_belongs_to_somebody_else_is_left_alone(cli: Cli, home: Home) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    theirs = left_behind(home.path, f".theirs.{MARK}.partial")
    os.chown(theirs, 12345, 12345)
    assert cli("schema", "t.csv", "--out", "draft.toml").code == 0
    assert theirs.exists()


def test_a_release_killed_on_the_way_is_tidied_up_by_verify(cli: Cli, home: Home) -> None:
    assert cli("release", *JOB, "--out", "r").code == 0
    killed = finished(spawn(home, "release", *JOB, "--out", "other", ADUMBRA_TEST_KILL_AT="before the rename"))
    assert killed.code < 0
    assert home.leftovers() != []
    assert cli("verify", "r").code == 0
    assert home.leftovers() == []


# ---- a full disk


@contextlib.contextmanager
def no_room(most: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: writing fails in the middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))  # python ignores the signal, so that writing fails
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SCHEMA = ("--schema", "s.toml")
WRITERS = {
    "schema": ("schema", "t.csv", "--out", "new.toml"),
    "basis": ("basis", "t.csv", *SCHEMA, "--components", "4", "--out", "new.npy"),
    "dictionary": ("dictionary", "t.csv", *SCHEMA, "--columns", "sex", "--atoms", "4", "--out", "new.npy"),
    "answer as CSV": ("answer", "r", "reconstruct", "--out", "new.csv"),
    "answer as Parquet": ("answer", "r", "reconstruct", "--out", "new.parquet"),
    "evaluate": ("evaluate", "r", "--truth", "t.csv", "--out", "new.json"),
    "keygen": ("keygen", "new"),
    "jupa fit": ("jupa", "fit", "t.csv", "--utility", "smoker", "--privacy", "sex", "--drop", "id",
                 "--release", "coarse", "--out", "new"),
    "jupa reference": ("jupa", "reference", "m", "t.csv", "--out", "new.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk_leaves_nothing(cli: Cli, home: Home, command: str) -> None:
    words = list(WRITERS[command])
    if "r" in words:
        assert cli("release", *JOB, "--out", "r").code == 0
    if "m" in words:
        assert cli(*WRITERS["jupa fit"][:-1], "m").code == 0
    before = {path.name for path in home.path.iterdir()}
    real, seen = app, []

    def limited(*arguments: object, **options: object) -> object:
        with no_room(100):
            seen.append(True)
            return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adumbra.cli.main.app", limited)
        patch.setattr("adumbra.cli.output._notes", Console(file=io.StringIO()))  # a captured stderr is a file too
        result = cli(*words)
    assert seen and result.code == 2, result.err
    assert {path.name for path in home.path.iterdir()} == before
    assert cli(*words).code == 0


def test_a_file_that_appears_meanwhile_is_not_replaced(home: Home) -> None:
    from adumbra.common.files import new_file

    with pytest.raises(ad.InputError, match="exists"), new_file(home.path / "new") as file:
        file.write(b"mine")
        home.write("new", "theirs")
    assert (home.path / "new").read_text() == "theirs"
    assert home.leftovers() == []


def test_a_file_system_without_links_is_written_to_all_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from adumbra.common.files import new_file

    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with new_file(home.path / "new") as file:
        file.write(b"mine")
    assert (home.path / "new").read_bytes() == b"mine"
    with pytest.raises(ad.InputError, match="exists"), new_file(home.path / "other") as file:
        home.write("other", "theirs")
    assert (home.path / "other").read_text() == "theirs"
    assert home.leftovers() == []


def test_an_interrupt_leaves_nothing(home: Home) -> None:
    from adumbra.common.files import new_file

    with pytest.raises(KeyboardInterrupt), new_file(home.path / "new") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert not (home.path / "new").exists()
    assert home.leftovers() == []
