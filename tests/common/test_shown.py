"""Text of others is shown harmlessly: no name repaints a terminal, turns a line around, hides, or is markup."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra.audit.frontier_picture import frontier_svg
from adumbra.families.scree import scree_svg
from adumbra.releases.card import CardWords
from adumbra.report.svg import escaped
from tests.conftest import Home, Result

Cli = Callable[..., Result]

HOSTILE = "a\x1b[2J\x1b]0;x\x07\x9b1A\x7f\u202efdp\u2066\u200b\ufeff\u2028\U000e0041b"
"""Clears the screen, names the window, moves up, turns what follows, and hides letters."""
FORGED = "x\nverified: all is well"
"""A name that goes on in a line of its own."""
LETTERS = "größe, Łódź, גיל, السن, 年齢, उम्र, ηλικία, e\u0301, 1\u00a0000, \u2713 \U0001f600 \u2764\ufe0f"
VISIBLE_FORMAT = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
"""Signs that Unicode calls format characters although they are seen: they stand around numbers and hieroglyphs."""


def harmless(text: str) -> bool:
    """Whether nothing in a text steers or hides; line breaks are the program's own."""
    return not any(
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and c != "\n" and ord(c) not in VISIBLE_FORMAT
        for c in text
    )


def test_every_character_that_steers_or_hides_is_escaped_and_no_other() -> None:
    from adumbra.common.shown import shown

    fillers = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE0F)}
    for code in range(sys.maxunicode + 1):
        character, kind = chr(code), unicodedata.category(chr(code))
        if kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and code not in VISIBLE_FORMAT:
            assert shown(character) != character, hex(code)
            assert shown(character).isascii() and shown(character).isprintable()
        elif kind[0] in "LMNPSZ" and code not in fillers and not 0xE0000 <= code < 0xE1000:
            assert shown(character) == character, hex(code)
        elif code in fillers:
            assert shown(character) != character, hex(code)


def test_letters_of_all_scripts_stay() -> None:
    from adumbra.common.shown import shown

    assert shown(LETTERS) == LETTERS
    assert shown("a\x1b\x9b\u202e\U000e0041\n\t") == "a\\x1b\\x9b\\u202e\\U000e0041\\n\\t"


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_shown_twice_is_shown_once(text: str) -> None:
    from adumbra.common.shown import shown, shown_lines

    assert harmless(shown(text)) and "\n" not in shown(text)
    assert shown(shown(text)) == shown(text)
    assert harmless(shown_lines(text)) and shown_lines(text).count("\n") == text.count("\n")


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_json_says_the_same_and_is_harmless(text: str) -> None:
    from adumbra.common.shown import shown_json

    document = shown_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(document) == {text: [text]}
    assert harmless(document)


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_toml_says_the_same_and_is_harmless(text: str) -> None:
    from adumbra.declare.column import heading, toml_text

    assert harmless(toml_text(text))
    parsed = (
        tomllib.loads(f"{heading(text)}\nvalues = {toml_text([text])}\n")
        if text
        else {"columns": {"": {"values": [""]}}}
    )
    assert parsed == {"columns": {text: {"values": [text]}}}


@pytest.mark.parametrize("text", [HOSTILE, FORGED])
def test_an_error_shows_what_it_quotes_harmlessly(text: str) -> None:
    for kind in (ad.InputError, ad.Refused):
        error = kind(f"a {text}", text, f"not {text}")
        for said in (str(error), error.expected, error.got, error.remedy, *error.args):
            assert harmless(said) and "\n" not in said
        assert type(error)(*error.__reduce__()[1]).got == error.got
    schema = ad.Schema.from_dict({"table": {"name": text}, "columns": {"a": {"kind": "flag"}}})
    done = ad.release(pl.DataFrame({"a": [True, False]}), schema, ad.DPPro(), ad.Budget(1.0))
    assert harmless(repr(done)) and "\n" not in repr(done)
    with pytest.raises(ad.InputError) as caught:
        ad.load(f"no such {text}")
    assert harmless(str(caught.value)) and "\n" not in str(caught.value)


# ---- the command line


def hostile_schema(home: Home) -> None:
    """A table and a schema whose every name and value is hostile."""
    from_json = json.dumps(HOSTILE)  # ASCII, so that it reads as TOML on any code; \ud... pairs are not TOML
    quoted = re.sub(r"\\udb40\\udc41", r"\\U000e0041", from_json)
    home.write(
        "s.toml",
        f'[table]\nname = {quoted}\n[columns.{quoted}]\nkind = "number"\nlow = 0\nhigh = 1\n'
        f'[columns.kind]\nkind = "category"\nvalues = [{quoted}, "=1+1"]\n',
    )
    frame = pl.DataFrame({HOSTILE: [0.25, 0.5, 0.75], "kind": [HOSTILE, "=1+1", HOSTILE]})
    frame.write_csv(home.table)
    frame.write_parquet(home.path / "t.parquet")


def said(result: Result, code: int = 0) -> Result:
    assert result.code == code, result.err
    assert harmless(result.err), ascii(result.err)
    assert harmless(result.out), ascii(result.out)
    return result


JOB = ("--schema", "s.toml", "--epsilon", "1")


def test_no_command_prints_a_hostile_name_raw(cli: Cli, home: Home) -> None:
    hostile_schema(home)
    out = home.path / HOSTILE
    said(cli("schema", "t.parquet"))
    said(cli("schema", "t.parquet", "--json"))
    said(cli("plan", "t.parquet", *JOB))
    said(cli("plan", "t.parquet", *JOB, "--json"))
    said(cli("release", "t.parquet", *JOB, "--mechanism", "laplace", "--columns", "kind", "--out", out))
    said(cli("release", "t.parquet", *JOB, "--mechanism", "tables", "--rows", "50", "--out", "r", "--json"))
    said(cli("ledger", "show"))
    assert json.loads(said(cli("ledger", "show", "--json")).out)["entries"][0]["table"] == HOSTILE
    said(cli("verify", out))
    assert json.loads(said(cli("verify", out, "--json")).out)["folder"] == str(out)
    said(cli("evaluate", "r", "--truth", "t.parquet"))
    said(cli("evaluate", "r", "--truth", "t.parquet", "--json"))
    said(cli("answer", out, "marginal", "--columns", "kind", "--json"))
    (out / f"{HOSTILE}\nfiles: all as the card says").write_text("x")
    changed = said(cli("verify", out), 1)
    assert "is not part of the release" in changed.err
    assert not [line for line in changed.err.splitlines() if line.startswith("files:")]
    for page in (out / "card.md", home.path / "r" / "card.md", out / "card.json"):
        assert harmless(page.read_text()), page.name


def test_a_line_break_in_a_name_makes_no_line(cli: Cli, home: Home) -> None:
    (home.path / FORGED).mkdir()
    for words in (
        ("verify", FORGED),
        ("answer", FORGED, "mean", "--column", "a"),
        ("evaluate", FORGED, "--truth", "t.csv"),
    ):
        result = said(cli(*words), 2)
        assert "got" in result.err
        assert not [line for line in (result.out + result.err).splitlines() if line.startswith("verified")]
    said(cli("ledger", "cap", FORGED, "--epsilon", "1"))
    shown = said(cli("ledger", "show")).out
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("verified")]


def test_a_terminal_gets_no_control_of_others(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the only controls are the colours of the program itself."""
    from rich.console import Console

    from adumbra.cli import output

    page = io.StringIO()
    for name in ("_out", "_notes"):
        monkeypatch.setattr(output, name, Console(file=page, force_terminal=True, width=500, highlight=False))
    output.note(HOSTILE)
    output.print_error(ad.InputError(HOSTILE, HOSTILE, HOSTILE))
    output.print_table(HOSTILE, [HOSTILE, "b"], [[HOSTILE, 1.5], [None, HOSTILE]])
    output.print_frame(pl.DataFrame({HOSTILE: [HOSTILE]}), as_json=False)
    output.print_markdown(f"# {HOSTILE}\n\n{HOSTILE}")
    left = re.sub(r"\x1b\[[0-9;]*m", "", page.getvalue())
    assert harmless(left), ascii(left)
    assert left.count("\\u202e") == 12


def test_answers_that_are_piped_are_exact(cli: Cli, home: Home) -> None:
    """Data is data: CSV on a pipe holds what the release holds, to the letter."""
    hostile_schema(home)
    assert cli("release", "t.parquet", *JOB, "--mechanism", "laplace", "--columns", "kind", "--out", "r").code == 0
    rows = list(csv.reader(io.StringIO(cli("answer", "r", "marginal", "--columns", "kind").out)))
    assert [row[0] for row in rows] == ["kind", HOSTILE, "=1+1", ""]  # the last is what is missing


# ---- the card's page

MARKUP = [
    "</td></tr></table><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[verified](javascript:alert(1))",
    "![x](https://evil.example/x.png)",
    "https://evil.example/ and www.evil.example",
    "`code` ``` and | a | cell |",
    "*a* _b_ __c__ ~~d~~ **e**",
    "&lt;b&gt; &#x202e; &amp;",
    "a\n\n# Release of another\n\n| x | y |\n|---|---|\n",
    "back\\slash\\",
    HOSTILE,
]


def tokens(page: str) -> list[tuple[str, str]]:
    """All Markdown of a page: kind and content of every token."""
    from markdown_it import MarkdownIt

    found = []
    for token in MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"]).parse(page):
        found.append((token.type, token.content if not token.children else ""))
        found += [(child.type, child.content) for child in token.children or []]
    return found


def shape(page: str) -> list[str]:
    return [kind for kind, _ in tokens(page) if kind not in ("text", "text_special", "code_inline")]


def test_names_are_inert_on_the_card(tmp_path: Path) -> None:
    """Whatever the table, its columns and their values are called, the page has the same build and shows the names."""
    from adumbra.common.shown import shown

    pages = []
    for index, name in enumerate(["plain", *MARKUP]):
        schema = ad.Schema.from_dict(
            {"table": {"name": name}, "columns": {name: {"kind": "category", "values": [name, "b"]}}}
        )
        frame = pl.DataFrame({name: [name, "b", name]})
        ad.release(frame, schema, ad.Laplace(columns=[name]), ad.Budget(1.0), out=tmp_path / str(index))
        pages.append((tmp_path / str(index) / "card.md").read_text())
    for name, page in zip(MARKUP, pages[1:], strict=True):
        assert shape(page) == shape(pages[0]), name
        assert not re.search(r"(?<!\\)https?:|(?<!\\)\bwww\.", page)
        heading = tokens(page)[1:]
        said = "".join(content for kind, content in heading[: [k for k, _ in heading].index("heading_close")])
        assert said == "Release of " + shown(" ".join(name.split()))
        assert harmless(page)
    assert not {"html_inline", "html_block", "link_open", "image", "em_open", "s_open"} & set(shape(pages[0]))


def test_every_field_of_a_strange_card_is_inert(tmp_path: Path) -> None:
    """A card may come from anybody: its sentences are as inert as its names."""
    from adumbra.releases.folder import ReleaseFolder, page_of

    frame = pl.DataFrame({"a": ["x", "y"]})
    schema = ad.Schema.from_dict({"columns": {"a": {"kind": "category", "values": ["x", "y"]}}})
    ad.release(frame, schema, ad.Laplace(), ad.Budget(1.0), out=tmp_path / "r")
    card = ReleaseFolder.open(tmp_path / "r").card
    for text in MARKUP:
        noise = next(iter(card.noise.values())).model_copy(update={"law": text, "parts": {text: 1.0, "b": 2.0}})
        words = {name: text for name, value in card.model_dump().items() if isinstance(value, str)}
        strange = card.model_copy(
            update=words
            | {"choice": text}
            | {"noise": {text: noise}, "options": {text: {text: [text]}}}
            | {"facts": {text: text}, "measured": {text: {text: text}}, "words": strange_words(text)}
            | {"pictures": (text, "javascript:x.svg"), "answers": (text,), "references": (text,)}
            | {"files": {text: text}, "costs": {f"{text}/{text}": 1.0}}
            | {"seed": card.seed.model_copy(update={"value": text, "origin": text})}
        )
        page = page_of(strange)
        assert not {"html_inline", "html_block", "link_open", "image", "em_open", "s_open"} & set(shape(page)), text
        assert shape(page).count("heading_open") == 7
        assert harmless(page)


def strange_words(text: str) -> CardWords:
    """Words of a kind that nobody knows."""
    return CardWords(
        row=text,
        facts={text: {text: [text]}},
        tables={text: [{text: text}]},
        row_bound=text,
        noise_unit=text,
        questions=(text,),
    )


def test_pictures_and_pages_escape_names() -> None:
    row = {"release": "fine", "utility": 0.9, "utility_sd": 0.1, "worst": 0.5, "worst_sd": 0.1, "holds": True}
    for text in MARKUP:
        assert not set(escaped(text)) & set("<>") and harmless(escaped(text))
        scree = scree_svg([2.0, 1.0], [1.0, 0.0], [3.0, 2.0], 1.5, 1, title=text, unit=text)
        frontier = frontier_svg([row | {"label": text}], chance=0.5, within=0.1, title=text)
        for picture in (scree, frontier):
            kinds = {part.tag.rpartition("}")[2] for part in ElementTree.fromstring(picture).iter()}
            assert kinds <= {"svg", "title", "style", "desc", "g", "rect", "path", "circle", "line", "text", "polygon"}
            assert harmless(picture)


# ---- spreadsheets

RUNS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1", "=cmd|' /C calc'!A0"]
QUIET = ["a=b", "1-2", "x@y", "", "plain", "'=1"]


def test_formula_safe_text(tmp_path: Path) -> None:
    from adumbra.common.csv_forms import write_csv

    values = [*RUNS, *QUIET]
    frame = pl.DataFrame({"=head": values, "'=head": values, "n": [-1.5] * len(values), "i": [-2] * len(values)})
    page = io.BytesIO()
    write_csv(frame, page, "formula-safe")
    header, *rows = csv.reader(io.StringIO(page.getvalue().decode(), newline=""))
    assert header == ["'=head", "'=head", "n", "i"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in RUNS), *QUIET]
    assert {(row[2], row[3]) for row in rows} == {("-1.5", "-2")}
    plain = io.BytesIO()
    write_csv(frame, plain, True)
    assert plain.getvalue().decode() == frame.write_csv()


def test_formula_safe_csv_of_releases_and_answers(cli: Cli, home: Home) -> None:
    quoted = ", ".join(json.dumps(text) for text in ("=1+1", "@x", "b"))
    home.write(
        "s.toml",
        f'[columns."-c"]\nkind = "category"\nvalues = [{quoted}]\n[columns.n]\nkind="number"\nlow=-3\nhigh=-1\n',
    )
    home.write("t.csv", "-c,n\n=1+1,-1\n@x,-2\nb,-3\n")
    job = ("release", "t.csv", *JOB, "--mechanism", "tables", "--rows", "200", "--csv")
    assert cli(*job, "--formula-safe", "--out", "safe").code == 0
    assert cli(*job, "--out", "plain").code == 0
    safe = pl.read_csv(home.path / "safe" / "data.csv")
    assert safe.columns == ["'-c", "n"]
    assert set(safe["'-c"]) <= {"'=1+1", "'@x", "b"}
    truth = pl.read_parquet(home.path / "safe" / "data.parquet")
    assert safe["n"].to_list() == truth["n"].to_list() and min(truth["n"]) < 0
    assert (home.path / "plain" / "data.csv").read_text() == pl.read_parquet("plain/data.parquet").write_csv()
    assert cli("verify", "safe").code == 0
    assert cli(*job[:-1], "--formula-safe", "--out", "x").code == 2

    assert cli("release", "t.csv", *JOB, "--mechanism", "laplace", "--columns", "-c", "--out", "counts").code == 0
    ask = ("answer", "counts", "marginal", "--columns", "-c")
    assert cli(*ask, "--formula-safe").out.splitlines()[0].startswith('"\'-c"')
    assert cli(*ask).out.splitlines()[0].startswith("-c,")
    from_python = ad.release("t.csv", "s.toml", ad.Tables(rows=20), ad.Budget(1.0), csv="formula-safe", out="python")
    assert pl.read_csv(from_python.path / "data.csv").columns == ["'-c", "n"]
    with pytest.raises(ad.InputError, match="formula-safe"):
        ad.release("t.csv", "s.toml", ad.Tables(rows=20), ad.Budget(1.0), csv="yes")  # type: ignore[arg-type]
