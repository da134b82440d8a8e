"""A folder from anybody: what is no regular file is not opened, and verify says no more than was proved."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import adumbra as ad
from tests.conftest import Home, Result

Cli = Callable[..., Result]
FILES = ("card.json", "card.md", "card.sig", "data.parquet", "model.npz")


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Fail rather than wait for ever."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def small(place: Path, key: Path | None = None) -> Path:
    """A release, the same each time but for its noise."""
    schema = ad.Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})
    frame = pl.DataFrame({"a": [0.25, 0.5, 0.75, 1.0]})
    ad.release(frame, schema, ad.DPPro(dimension=1), ad.Budget(1.0), out=place, name="t", signing_key=key)
    return place


def key_pair(place: Path, name: str) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / name).write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (place / name).chmod(0o600)
    (place / f"{name}.pub").write_bytes(pem(key.public_key()))
    return key


def pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def problems(path: Path, key: Path | None = None) -> str:
    """What is wrong with a folder, opened as anybody would."""
    from adumbra.releases.folder import open_folder

    try:
        return "; ".join(open_folder(path).verify(None if key is None else key))  # type: ignore[arg-type]
    except ad.InputError as error:
        return str(error)


# ---- files that are none


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "link to a device"])
def test_what_is_no_regular_file_is_refused_at_once(name: str, kind: str, tmp_path: Path) -> None:
    key_pair(tmp_path, "key")
    path = small(tmp_path / "r", tmp_path / "key")
    assert problems(path) == ""
    away = (path / name).rename(tmp_path / "away")
    if kind == "pipe":
        os.mkfifo(path / name)
    elif kind == "link":
        (path / name).symlink_to(away)  # the very same content: still another file of the reader's machine
    elif kind == "folder":
        (path / name).mkdir()
    else:
        (path / name).symlink_to("/dev/zero")
    with at_once():
        assert "not a regular file" in problems(path)
        if name in ("data.parquet", "model.npz"):
            release = ad.load(path)
            with pytest.raises(ad.InputError):
                _ = release.table if name == "data.parquet" else release.arrays


def test_commands_do_not_wait_for_a_pipe(cli: Cli, home: Home) -> None:
    path = small(home.path / "r")
    shutil.copytree(path, home.path / "card")
    for folder, name in ((path, "data.parquet"), (home.path / "card", "card.json")):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    with at_once():
        assert cli("verify", "r").code == 1
        assert cli("answer", "r", "distance", "--random", "1").code == 1
        assert cli("evaluate", "r", "--truth", "t.csv").code == 1
        for words in (("verify", "card"), ("answer", "card", "mean", "--column", "a")):
            assert cli(*words).code == 2


@pytest.mark.parametrize("name", ["card.json", "card.sig"])
@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"a":' * 200_000, b'{"format":' * 100_000 + b"1" + b"}" * 100_000]
)
def test_deeply_nested_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    key_pair(tmp_path, "key")
    path = small(tmp_path / "r", tmp_path / "key")
    (path / name).write_bytes(content)
    assert problems(path) != ""


# ---- the card and its page


def edited(path: Path, **changes: object) -> None:
    """Change the card and nothing else."""
    card = json.loads((path / "card.json").read_text())
    (path / "card.json").write_text(json.dumps(card | changes))


def test_a_card_edited_against_its_page_is_found(tmp_path: Path) -> None:
    path = small(tmp_path / "r")
    card = json.loads((path / "card.json").read_text())
    for change in (
        {"epsilon": 0.1},
        {"delta": 1e-9},
        {"unit": "cell"},
        {"table": "another"},
        {"promise": card["promise"].replace("cannot", "can never")},
        {"costs": dict.fromkeys(card["costs"], 0.01)},
        {"options": card["options"] | {"dimension": 7}},
        {"facts": card["facts"] | {"bands": [card["facts"]["bands"][0] | {"share": 0.5}]}},
        {"kind": "noisy_coordinates"},
        {"measured": {"rows": {"rows": "matrix"}}},
        {"words": card["words"] | {"questions": ["Anything."]}},
        {"rows": 5},
        {"noise": {"rows": card["noise"]["rows"] | {"standard_deviation": 0.001}}},
    ):
        (path / "card.json").write_text(json.dumps(card))
        assert problems(path) == ""
        edited(path, **change)
        assert problems(path) == "card.md is not what card.json says", change


def test_a_utility_card_edited_against_its_page_is_found(tmp_path: Path) -> None:
    from adumbra.releases.card import CardSeed, UtilityCard
    from adumbra.releases.staging import seal

    (tmp_path / "new").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "new" / "data.parquet")
    card = UtilityCard(
        release_id="1", created="now", library=f"adumbra {ad.__version__}", table="t_", rows=1, table_rows=1,
        not_reached=0, kind="resample", title="a", promise="No differential privacy. Not at all.", to_whom="b",
        caution="c", label_epsilon=None, accuracy_bound=None, told_by_prediction=None,
        utility={"columns": ["a"], "classes": ["x"]}, privacy={"columns": ["b"], "classes": ["y"]},
        options={}, shown={"columns": ("a", "b"), "pool": 1 / 3}, model_sha256="0",
        seed=CardSeed(value="0", origin="given"),
        theorem="d", references=(), bibtex=(), files={},
    )  # fmt: skip
    seal(tmp_path / "new", tmp_path / "r", card, None)
    assert problems(tmp_path / "r") == ""
    edited(tmp_path / "r", promise="Differential privacy. All of it.")
    assert problems(tmp_path / "r") == "card.md is not what card.json says"


def test_a_card_that_no_page_can_be_made_of_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    path = small(tmp_path / "r")
    card = json.loads((path / "card.json").read_text())
    for change in (
        {"noise": {"x": card["noise"]["rows"] | {"account": "?"}}},
        {"words": {"tables": {"a": [{"b": 1}, {}]}}},
    ):
        edited(path, **change)
        assert problems(path) == "card.md is not what card.json says"
        (path / "card.json").write_text(json.dumps(card))


def test_the_page_of_another_version_is_said_not_to_be_checked(cli: Cli, home: Home) -> None:
    path = small(home.path / "r")
    edited(path, library="adumbra 0.0.1", epsilon=0.5)
    result = cli("verify", "r")
    assert result.code == 0
    assert "page: card.md was not checked: written by adumbra 0.0.1" in result.out
    assert json.loads(cli("verify", "r", "--json").out)["page"] == "not checked: written by adumbra 0.0.1"
    (path / "card.md").write_text("# another")
    assert "sha256 differs" in cli("verify", "r").err


def test_a_page_that_was_not_checked_is_the_first_thing_said(cli: Cli, home: Home) -> None:
    """Unless the signer is known: the signature covers its hash."""
    key = key_pair(home.path, "mine")
    path = small(home.path / "r", home.path / "mine")
    assert json.loads(cli("verify", "r", "--json").out)["page_checked"] is True
    edited(path, library="adumbra 0.0.1", epsilon=0.5)
    from adumbra.releases.signature import sign

    (path / "card.sig").write_text(sign((path / "card.json").read_bytes(), key))
    first = "page: card.md was not checked: written by adumbra 0.0.1; "
    for words, then in (
        ((), "it may say other than card.json"),
        (("--public-key", "mine.pub"), "it is the signer's"),
    ):
        assert cli("verify", "r", *words).out.startswith(first + then)
        facts = json.loads(cli("verify", "r", "--json", *words).out)
        assert facts["page_checked"] is False and facts["verified"] is True


@pytest.mark.parametrize(
    "library",
    [
        "adumbra 0.1.0" + 80 * " " + "signature: valid for the trusted key owner.pub (fingerprint 00)",
        "adumbra 0.1.0 page: card.md is what card.json says",
        "adumbra",
        "adumbra 0.1.",
        "adumbra 0.1.0\n",
        "adumbra \u0661.0",
        "adumbra " + 100 * "1",
        "another 0.1.0",
        "",
    ],
)
def test_only_a_version_excuses_a_page_from_being_checked(cli: Cli, home: Home, library: str) -> None:
    """The name of the library is the folder's own word; it must not become a line of ours."""
    path = small(home.path / "r")
    edited(path, library=library, epsilon=0.5)
    refused = cli("verify", "r")
    assert refused.code == 1 and "card.md is not what card.json says" in refused.err
    assert "signature" not in refused.out + refused.err
    facts = json.loads(cli("verify", "r", "--json").out)
    assert facts["verified"] is False and facts["page_checked"] is False and library not in facts["page"].split(": ")


def test_blanks_make_no_line_of_their_own(cli: Cli, home: Home) -> None:
    path = small(home.path / "r")
    blanks = " \u00a0\u2003\u3000" * 20
    (path / f"x{blanks}signature: valid").write_text("")
    assert "x  signature: valid is not part of the release" in cli("verify", "r").err


def test_what_is_verified_is_the_card_in_use(tmp_path: Path) -> None:
    """A forged card that is swapped for the genuine one before it is verified."""
    key_pair(tmp_path, "mine")
    path = small(tmp_path / "r", tmp_path / "mine")
    genuine = (path / "card.json").read_bytes()
    edited(path, epsilon=0.001)
    forged = ad.load(path)
    (path / "card.json").write_bytes(genuine)
    for key in (None, tmp_path / "mine.pub"):
        assert "card.json changed since it was opened" in forged.verify(key)
        with pytest.raises(ad.Refused, match="changed since"):
            forged.demand(key)
        assert ad.load(path).verify(key) == []
    unsigned = small(tmp_path / "unsigned")
    opened = ad.load(unsigned)
    (unsigned / "card.json").unlink()
    assert "card.json changed since it was opened" in opened.verify()


# ---- what was proved


def test_three_lines_say_what_was_proved(cli: Cli, home: Home) -> None:
    mine = key_pair(home.path, "mine")
    small(home.path / "plain")
    small(home.path / "signed", home.path / "mine")
    from adumbra.releases.signature import fingerprint

    name = fingerprint(mine.public_key())
    raw = mine.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    assert name == hashlib.sha256(raw).hexdigest()[:32]
    plain = cli("verify", "plain")
    assert plain.out.splitlines() == [
        "files: 3 as the card says, and no others",
        "page: card.md is what card.json says",
        "signature: none: nothing shows who made this folder, or whether somebody changed all of it",
    ]
    carried = cli("verify", "signed").out
    assert f"signature: valid for the key it carries (fingerprint {name}), which proves nothing about who" in carried
    assert cli("verify", "signed", "--public-key", "mine.pub").out.splitlines()[2] == (
        f"signature: valid for the key given (fingerprint {name})"
    )
    for words in ("verified", "signed by"):
        assert words not in plain.out + carried
    facts = json.loads(cli("verify", "signed", "--json").out)
    assert (facts["signed"], facts["signer_proved"], facts["fingerprint"], facts["page"]) == (
        True, False, name, "matches"
    )  # fmt: skip
    assert json.loads(cli("verify", "signed", "--json", "--public-key", "mine.pub").out)["signer_proved"] is True


def test_trusted_keys_name_the_signer(cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "other"):
        key_pair(home.path, name)
    small(home.path / "r", home.path / "mine")
    monkeypatch.delenv("ADUMBRA_TRUSTED_KEYS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.path / "config"))
    assert cli("verify", "r", "--trusted").code == 2  # nobody is trusted yet
    keys = home.path / "config" / "adumbra" / "trusted-keys"
    keys.mkdir(parents=True)
    shutil.copy(home.path / "other.pub", keys / "other.pub")
    assert cli("verify", "r", "--trusted").code == 1
    shutil.copy(home.path / "mine.pub", keys / "registry office.pub")
    assert "valid for the trusted key registry office.pub (fingerprint" in cli("verify", "r", "--trusted").out
    assert cli("verify", "r", "--trusted", "--public-key", "mine.pub").code == 2
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("ADUMBRA_TRUSTED_KEYS", str(elsewhere))
    assert cli("verify", "r", "--trusted").code == 2
    (elsewhere / "broken.pub").write_text("no key")
    assert cli("verify", "r", "--trusted").code == 2


def test_folders_are_verified_with_the_key_before_they_are_used(cli: Cli, home: Home) -> None:
    for name in ("mine", "other"):
        key_pair(home.path, name)
    job = ("t.csv", "--schema", "s.toml", "--epsilon", "8", "--mechanism", "dppro")
    assert cli("release", *job, "--sign", "mine", "--out", "r").code == 0
    assert cli("release", *job, "--out", "unsigned").code == 0
    uses = [
        ("answer", "{}", "mean", "--column", "age"),
        ("evaluate", "{}", "--truth", "t.csv"),
    ]
    for use in uses:
        for folder, key, code in (("r", "mine", 0), ("r", "other", 1), ("unsigned", "mine", 1)):
            words = [word.format(folder) for word in use]
            assert cli(*words, "--public-key", f"{key}.pub").code == code, (words, key)
            assert cli(*words, f"--public-key={key}.pub").code == code
    assert cli("answer", "--public-key", "mine.pub", "r", "mean", "--column", "age").code == 0
    home.write("holdout.csv", home.table.read_text())
    audit = ("audit", "unsigned", "--truth", "t.csv", "--holdout", "holdout.csv")
    refused = cli(*audit, "--public-key", "mine.pub")
    assert refused.code == 1 and "not signed" in refused.err
    assert cli("audit", "dppro", "--public-key", "mine.pub").code == 2  # nothing there to verify


def test_python_takes_a_key_too(tmp_path: Path) -> None:
    mine, other = key_pair(tmp_path, "mine"), key_pair(tmp_path, "other")
    path = small(tmp_path / "r", tmp_path / "mine")
    assert ad.load(path, tmp_path / "mine.pub").verify(mine.public_key()) == []
    assert ad.load(path, public_key=mine.public_key()).verify() == []
    with pytest.raises(ad.Refused, match="the key given"):
        ad.load(path, tmp_path / "other.pub")
    from adumbra.releases.signature import fingerprint

    signed, given = fingerprint(mine.public_key()), fingerprint(other.public_key())
    assert ad.load(path).verify(other.public_key()) == [
        f"the signature is valid for a key of fingerprint {signed}, which is not the key given (fingerprint {given})"
    ]
    card = path / "card.json"
    loaded = card.read_bytes()
    card.write_bytes(loaded + b" ")
    assert ad.load(path).verify(other.public_key()) == [
        f"the signature does not fit card.json and the key given (fingerprint {given})"
    ]
    card.write_bytes(loaded)
    with pytest.raises(ad.Refused):
        ad.evaluate_release(path, pl.DataFrame({"a": [0.25, 0.5, 0.75, 1.0]}), public_key=tmp_path / "other.pub")


def test_another_signer_is_named_beside_the_key_given(cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is intact: getting it again would not help."""
    from adumbra.releases.signature import fingerprint

    mine, other = (fingerprint(key_pair(home.path, name).public_key()) for name in ("mine", "other"))
    path = small(home.path / "r", home.path / "mine")
    refused = cli("verify", "r", "--public-key", "other.pub")
    assert refused.code == 1 and mine in refused.err and other in refused.err
    assert "check whose key you were given" in refused.err and "get it again" not in refused.err
    keys = home.path / "keys"
    keys.mkdir()
    monkeypatch.setenv("ADUMBRA_TRUSTED_KEYS", str(keys))
    for name in ("a", "b"):
        shutil.copy(home.path / "other.pub", keys / f"{name}.pub")
    refused = cli("verify", "r", "--trusted")
    assert refused.code == 1 and mine in refused.err and "any of the 2 trusted keys" in refused.err
    (path / "data.parquet").write_bytes(b"changed")
    assert "get it again from its owner" in cli("verify", "r", "--public-key", "other.pub").err


def test_what_is_no_public_key_is_named(cli: Cli, home: Home) -> None:
    key_pair(home.path, "mine")
    small(home.path / "r", home.path / "mine")
    home.write("text", "no key")
    for name, words in (("nosuch", "no such file"), ("mine", "a private key"), ("text", "does not read as one")):
        refused = cli("verify", "r", "--public-key", name)
        assert refused.code == 2 and f"{words}" in refused.err, name


# ---- keys that bind nobody

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493
Point = tuple[int, int]


def added(a: Point, b: Point) -> Point:
    product = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P) % P
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P


def times(number: int, point: Point) -> Point:
    total = (0, 1)
    for bit in bin(number)[2:]:
        total = added(total, total)
        total = added(total, point) if bit == "1" else total
    return total


def points_of_small_order() -> set[Point]:
    """Found by multiplying points of the curve by the order of the large subgroup."""
    found: set[Point] = set()
    y = 2
    while len(found) < 8:
        square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
        x = pow(square, (P + 3) // 8, P)
        x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
        if x * x % P == square:
            low = times(ORDER, (x, y))
            found |= {times(k, low) for k in range(8)}
        y += 1
    return found


def spellings() -> set[bytes]:
    """The eight points, and every other way to write them in 32 bytes."""
    ways = set()
    for x, y in points_of_small_order():
        for same in (y, y + P):
            for sign in (x & 1, 1 - (x & 1)) if x == 0 else (x & 1,):
                if same < 2**255:
                    ways.add((same | sign << 255).to_bytes(32, "little"))
    return ways


def test_no_key_of_small_order_is_taken(tmp_path: Path) -> None:
    """The identity as a key: S = 0 and R = identity is a signature of everything by nobody."""
    path = small(tmp_path / "r")
    assert len(spellings()) == 14
    for raw in sorted(spellings()):
        key = Ed25519PublicKey.from_public_bytes(raw)
        nothing = (1).to_bytes(32, "little") + bytes(32)
        content = {"algorithm": "ed25519", "public_key": raw.hex(), "signature": nothing.hex()}
        (path / "card.sig").write_text(json.dumps(content))
        assert problems(path) == "card.sig carries a key that binds nobody (of small order, or wrongly written)"
        (tmp_path / "weak.pub").write_bytes(pem(key))
        with pytest.raises(ad.InputError, match="small order"):
            ad.load(path).verify(tmp_path / "weak.pub")
        with pytest.raises(ad.InputError, match="small order"):
            ad.load(path, public_key=key)


def test_no_key_with_another_spelling_is_taken(tmp_path: Path) -> None:
    path = small(tmp_path / "r")
    for y in (P, P + 3, P + 18):
        content = {"public_key": y.to_bytes(32, "little").hex(), "signature": bytes(64).hex()}
        (path / "card.sig").write_text(json.dumps(content))
        assert "binds nobody" in problems(path)


def test_honest_keys_are_taken(tmp_path: Path) -> None:
    for index in range(50):
        key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(bytes([index])).digest()).public_key()
        (tmp_path / "k.pub").write_bytes(pem(key))
        from adumbra.releases.signature import read_public_key

        assert pem(read_public_key(tmp_path / "k.pub")) == pem(key)
