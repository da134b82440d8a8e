"""A release folder: all of it may be published, it says what it promises, and any change to it is found."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra.releases.card import Card
from adumbra.releases.card_page import card_markdown
from adumbra.releases.folder import ReleaseFolder, page_of, sha256
from adumbra.releases.signature import read_public_key, read_signing_key, sign
from tests.conftest import SCHEMA, TABLE, Home

# Private cells that are as easy to find as can be; none of them is in the schema.
NUMBER = 98765.4321
WORD = "Zyzzogeton"
SEED = ad.PublicSeed.given("public")


@pytest.fixture
def released(home: Home) -> ad.Release:
    home.write("t.csv", TABLE + f"{WORD}7,{NUMBER},{WORD},{WORD},{WORD}\n")
    return ad.release(
        home.table, home.schema, ad.DPPro(dimension=3), ad.Budget(2.0, 1e-6), out=home.path / "r", csv=True
    )


def test_the_card_comes_back_the_same_from_json(released: ad.Release) -> None:
    card = released.card
    assert Card.model_validate_json(card.model_dump_json()) == card
    assert Card.model_validate(json.loads((released.path / "card.json").read_text())) == card
    assert ad.load(released.path).card == card
    with pytest.raises(ValueError, match="frozen"):
        card.epsilon = 0.1  # type: ignore[misc]


def test_the_card_says_everything_the_contract_asks(released: ad.Release) -> None:
    card = json.loads((released.path / "card.json").read_text())
    assert (card["unit"], card["relation"], card["epsilon"], card["delta"]) == ("row", "replace", 2.0, 1e-6)
    assert card["mechanism"] == "dppro"
    assert (card["kind"], card["options"]["dimension"]) == ("projected_rows", 3)
    assert list(card["options"]) == [field.name for field in dataclasses.fields(ad.DPPro)]
    assert card["noise"]["rows"]["standard_deviation"] > 0
    assert 0 <= card["noise"]["rows"]["slack"] < 1e-6
    assert card["row_bound"] is None
    assert len(bytes.fromhex(card["seed"]["value"])) == 32
    assert card["table_schema"] == ad.Schema.parse(SCHEMA).to_dict()
    assert card["library"] == f"adumbra {ad.__version__}"
    assert card["references"]
    assert card["bibtex"]
    assert set(card["files"]) == {"data.parquet", "data.csv", "model.npz", "card.md"}
    assert "mu" in card
    for word in ("one person's whole row", "7.39", "1e-06"):
        assert word in card["promise"]


def test_mu_is_stated_where_the_guarantee_has_one(home: Home) -> None:
    card = ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0, unit=ad.Unit.CELL), seed=SEED).card
    noise = card.noise["rows"]
    assert card.mu == pytest.approx(noise.sensitivity / noise.scale)
    assert "whole row is protected less" in card.promise


def test_the_row_bound_is_on_the_card(home: Home) -> None:
    card = ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0), row_bound=0.5).card
    assert card.row_bound == 0.5
    assert "| row bound | 0.5 |" in card_markdown(card)


def test_hashes_are_those_of_the_files(released: ad.Release) -> None:
    for name, digest in released.card.files.items():
        assert hashlib.sha256((released.path / name).read_bytes()).hexdigest() == digest
    assert {p.name for p in released.path.iterdir()} == {*released.card.files, "card.json"}


def test_the_card_as_a_page_for_a_browser_shows_its_picture(cli, home: Home) -> None:
    words = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "analyze_gauss")
    done = cli(*words, "--out", "r", "--html", "card.html")
    assert (done.code, home.charges()) == (0, 1)
    page = (home.path / "card.html").read_text()
    assert "epsilon = 1, delta = 1e-06" in page and "Files" in page
    assert (home.path / "r" / "scree.svg").read_text().splitlines()[1] in page
    again = cli(*words, "--out", "other", "--html", "card.html")
    assert (again.code, home.charges()) == (2, 1) and "card.html exists" in again.err


def test_the_page_is_made_from_the_card(released: ad.Release) -> None:
    page = (released.path / "card.md").read_text()
    others = {name: digest for name, digest in released.card.files.items() if name != "card.md"}
    assert page == card_markdown(released.card.model_copy(update={"files": others}))
    for words in (released.card.promise, "> **epsilon = 2, delta = 1e-06", ", unit row, relation replace.**"):
        assert words in page


def test_the_model_loads_without_pickles(released: ad.Release) -> None:
    with np.load(released.path / "model.npz", allow_pickle=False) as arrays:
        matrix = arrays["matrix"] * float(arrays["step"])
    assert matrix.shape == (6, 3)
    assert np.isfinite(matrix).all()


def test_csv_and_parquet_hold_the_same_numbers(released: ad.Release) -> None:
    table = pl.read_parquet(released.path / "data.parquet")
    text = pl.read_csv(released.path / "data.csv")
    assert text.equals(table)
    assert table.columns == ["p1", "p2", "p3"]
    assert table.height == 7
    assert released.table.equals(table)


# ---- nothing private


def spellings() -> list[bytes]:
    """The secret cells as text, and the number as any eight bytes a binary file could hold it in."""
    steps = [NUMBER, NUMBER / 110, NUMBER / 110 - 0.5]
    raw = [np.array(v, dtype=t).tobytes() for v in steps for t in ("<f8", ">f8", "<f4")]
    return [WORD.encode(), WORD.lower().encode(), WORD.encode("utf-16-le"), b"98765", *raw]


def test_no_secret_cell_is_in_any_byte_of_the_folder(released: ad.Release) -> None:
    for path in released.path.rglob("*"):
        content = path.read_bytes()
        for spelling in spellings():
            assert spelling not in content, (path.name, spelling)
    with np.load(released.path / "model.npz") as arrays:
        unpacked = b"".join(arrays[name].tobytes() for name in arrays.files)
    assert not any(spelling in unpacked for spelling in spellings())


def test_the_secret_search_would_find_them(released: ad.Release) -> None:
    """The search above has power: the private file itself is caught by it."""
    private = (released.path.parent / "t.csv").read_bytes()
    assert sum(spelling in private for spelling in spellings()) >= 2


def test_the_public_part_does_not_depend_on_the_rows(home: Home) -> None:
    """Two tables of one shape: everything but noise, time and identity is the same to the byte."""
    home.write("other.csv", TABLE.splitlines()[0] + "\n" + f"{WORD},{NUMBER},{WORD},{WORD},{WORD}\n" * 6)
    cards, models = [], []
    for table in (home.table, home.path / "other.csv"):
        out = home.path / f"{table.stem}-released"
        done = ad.release(table, home.schema, ad.DPPro(), ad.Budget(1.0), seed=SEED, name="x", out=out)
        card: dict[str, Any] = done.card.model_dump()
        for changing in ("release_id", "created"):
            card.pop(changing)
        for changing in ("data.parquet", "card.md"):
            card["files"].pop(changing)
        cards.append(card)
        models.append(done.arrays["matrix"].tobytes())
    assert cards[0] == cards[1]
    assert models[0] == models[1]


def test_a_declared_number_of_rows_does_not_betray_a_private_one(home: Home) -> None:
    """Under add-remove a table with one row more is a neighbour: it must be treated the same, and not be counted."""
    home.write("s.toml", SCHEMA.replace("[table]", "[table]\nrows = 6"))
    home.write("fewer.csv", "".join(TABLE.splitlines(keepends=True)[:-1]))
    outcomes = []
    for table in (home.table, home.path / "fewer.csv"):
        try:
            ad.release(table, home.schema, ad.Auto(rows=9), ad.Budget(1.0, relation=ad.Relation.ADD_REMOVE))
            outcomes.append("released")
        except ad.InputError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


def test_noise_is_never_repeated(home: Home) -> None:
    """The public seed fixes the matrix and must not fix the noise."""
    one, two = (ad.release(home.table, home.schema, ad.DPPro(dimension=2), ad.Budget(1.0), seed=SEED) for _ in range(2))
    assert np.array_equal(one.arrays["matrix"], two.arrays["matrix"])
    assert not (one.table.to_numpy() == two.table.to_numpy()).any()


def test_released_numbers_are_noise_of_the_stated_size(home: Home) -> None:
    """Released minus exact projection, in units of the card's own noise, is standard normal."""
    home.write("t.csv", TABLE.splitlines()[0] + "\n" + "1,0,F,yes,alive\n" * 4000)
    done = ad.release(home.table, home.schema, ad.DPPro(dimension=4), ad.Budget(1.0, unit=ad.Unit.CELL), seed=SEED)
    values = done.table.to_numpy()
    noise = done.card.noise["rows"].standard_deviation
    exact = np.array([-0.5, 2**-0.5, 0, 0.5, 2**-0.5, 0]) @ (done.arrays["matrix"] * float(done.arrays["step"]))
    left = (values - exact) / noise
    # 16000 numbers: the mean is within 6 of its standard errors, the spread within 5 %
    assert abs(left.mean()) < 6 / math.sqrt(left.size)
    assert 0.95 < left.std() < 1.05


def test_the_temporary_folder_is_gone(released: ad.Release) -> None:
    assert [p.name for p in released.path.parent.iterdir() if "partial" in p.name] == []


# ---- verify


def problems(path: Path) -> list[str]:
    try:
        return ReleaseFolder.open(path).verify()
    except ad.InputError as error:
        return [str(error)]


def test_verify_accepts_what_was_released(released: ad.Release) -> None:
    assert released.verify() == []
    assert problems(released.path) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_verify_finds_any_changed_byte(released: ad.Release, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(released.card.files)))
    path = released.path / name
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(before)
    changed[place] ^= 1 << bit
    try:
        path.write_bytes(changed)
        assert problems(released.path) == [f"{name} is not the file the card was written for (sha256 differs)"]
        path.write_bytes(before[:-1])
        assert problems(released.path)
    finally:
        path.write_bytes(before)
    assert problems(released.path) == []


def test_verify_finds_missing_and_extra_files(released: ad.Release) -> None:
    for name in released.card.files:
        away = (released.path / name).rename(released.path.parent / "away")
        assert problems(released.path) == [f"{name} is missing"]
        away.rename(released.path / name)
    (released.path / "notes.txt").write_text("x")
    assert problems(released.path) == ["notes.txt is not part of the release"]
    (released.path / "notes.txt").unlink()
    (released.path / ".hidden").mkdir()
    assert problems(released.path) == [".hidden is not part of the release"]


@pytest.mark.parametrize("name", ["../t.csv", "/etc/hostname", "card.json", "card.sig", "sub/x"])
def test_a_card_may_only_list_files_of_its_folder(released: ad.Release, name: str) -> None:
    path = released.path / "card.json"
    content = json.loads(path.read_text())
    target = released.path / name
    content["files"][name] = hashlib.sha256(target.read_bytes() if target.is_file() else b"").hexdigest()
    path.write_text(json.dumps(content))
    assert any("no file of a release" in problem for problem in problems(released.path))


def test_a_card_must_list_the_data(released: ad.Release) -> None:
    path = released.path / "card.json"
    content = json.loads(path.read_text())
    for name in ("data.parquet", "card.md"):
        (released.path / name).unlink()
        del content["files"][name]
    path.write_text(json.dumps(content))
    assert problems(released.path) == ["the card does not list data.parquet", "the card does not list card.md"]


@pytest.fixture
def signed(home: Home, cli: Any) -> ReleaseFolder:
    cli("keygen", "mine")
    cli("keygen", "other")
    ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0), out="r", signing_key="mine")
    return ReleaseFolder.open("r")


def test_a_signature_binds_the_card_to_the_key(signed: ReleaseFolder) -> None:
    mine, other = read_public_key("mine.pub"), read_public_key("other.pub")
    assert signed.verify() == signed.verify(mine) == []
    (problem,) = signed.verify(other)
    assert "valid for a key of fingerprint" in problem and "which is not the key given" in problem
    card = signed.path / "card.json"
    before = card.read_bytes()
    card.write_bytes(before.replace(b'"epsilon": 1.0', b'"epsilon": 0.1'))
    assert card.read_bytes() != before
    assert ReleaseFolder.open("r").verify(mine)
    assert ReleaseFolder.open("r").verify()
    card.write_bytes(before + b"\n")
    assert signed.verify(mine)
    card.write_bytes(before)
    for content in ("", "{}", "[]", "null", '{"public_key": "zz", "signature": "zz"}', "\0"):
        (signed.path / "card.sig").write_text(content)
        assert signed.verify() == ["card.sig does not read as a signature"]
    (signed.path / "card.sig").unlink()
    assert signed.verify(mine) == ["the release is not signed"]


def test_a_forger_who_signs_anew_is_found_by_the_key(signed: ReleaseFolder) -> None:
    forged = signed.card.model_copy(update={"epsilon": 0.1})
    page = signed.path / "card.md"
    page.write_text(page_of(forged))
    text = forged.model_copy(update={"files": forged.files | {"card.md": sha256(page)}}).model_dump_json().encode()
    (signed.path / "card.json").write_bytes(text)
    (signed.path / "card.sig").write_text(sign(text, read_signing_key("other")))
    assert ReleaseFolder.open("r").verify() == []  # without a key nobody can know, and verify says so
    found = ReleaseFolder.open("r").examine()
    assert found.signer is not None and found.signer.name is None
    assert "proves nothing about who" in found.in_words()[2]
    assert ReleaseFolder.open("r").verify(read_public_key("mine.pub"))


# ---- saving


def test_save_copies_a_whole_folder(home: Home) -> None:
    done = ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0))
    place = done.save(home.path / "deep" / "copy")
    assert problems(place) == []
    assert ad.load(place).card == done.card
    with pytest.raises(ad.InputError, match="exists"):
        done.save(place)


def test_a_release_that_is_refused_leaves_no_temporary_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(home.path))
    book = ad.Ledger(home.ledger)
    book.set_cap("patients", ad.Neighbours(ad.Unit.ROW, ad.Relation.REPLACE), 0.5, 1e-6)
    with pytest.raises(ad.Refused):
        ad.release(home.table, home.schema, ad.DPPro(), ad.Budget(1.0), ledger=book)
    assert {p.name for p in home.path.iterdir()} == {"t.csv", "s.toml", home.ledger.name}


def test_a_linked_file_is_not_read_as_one_of_the_folder(tmp_path: Path) -> None:
    table = pl.DataFrame({"age": [34.0, 71.0, 8.0]})
    schema = ad.Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 110}}})
    folder = ad.release(table, schema, ad.Tables(rows=5), ad.Budget(1.0), out=tmp_path / "r").path
    (folder / "data.parquet").rename(tmp_path / "elsewhere.parquet")
    (folder / "data.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    assert any("link" in problem for problem in ad.load(folder).verify())
    with pytest.raises(ad.InputError):
        _ = ad.load(folder).table


def test_what_is_no_place_of_a_release_is_refused(home: Home, released: ad.Release) -> None:
    made = ad.release(home.table, home.schema, ad.DPPro(dimension=3), ad.Budget(2.0, 1e-6))
    wrong: Any
    for wrong in (5, 1.5, None, b"x", [], object()):
        for call in (ad.load, ad.UtilityFolder.open, made.save, released.save):
            with pytest.raises(ad.InputError):
                call(wrong)
        for function in (ad.evaluate_release, ad.project):
            with pytest.raises(ad.InputError):
                function(wrong, home.table)
    assert ad.load(str(made.save(home.path / "saved"))).verify() == []


def test_a_folder_that_went_away_or_holds_a_link_to_nothing(home: Home, released: ad.Release) -> None:
    (released.path / "dangling").symlink_to("nowhere")
    with pytest.raises(ad.InputError, match="symbolic link"):
        released.save(home.path / "copy")
    assert not (home.path / "copy").exists()
    assert any("dangling" in problem for problem in released.verify())
    shutil.rmtree(released.path)
    assert "cannot be read any more" in released.verify()[0]
    with pytest.raises(ad.Refused):
        released.demand()
    with pytest.raises(ad.InputError, match="a release folder to copy"):
        released.save(home.path / "copy")
