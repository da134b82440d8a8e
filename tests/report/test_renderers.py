"""Documents in every form: what they hold is there, and no name that they hold does anything."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from adumbra.common.shown import shown
from adumbra.report.as_json import as_json
from adumbra.report.document import (
    PRIVATE,
    Document,
    Facts,
    Figure,
    Gauge,
    Link,
    Mark,
    Note,
    Part,
    Section,
    Table,
    Text,
    Verbatim,
)
from adumbra.report.html import html_page
from adumbra.report.markdown import markdown
from adumbra.report.svg import INKS, element, escaped, key, picture, round_ticks, said
from adumbra.report.terminal import plain_text
from tests.common.test_shown import HOSTILE, MARKUP, harmless, shape

RENDERERS = {"terminal": plain_text, "markdown": markdown, "html": html_page, "json": as_json}


def drawing(words: str = "words") -> str:
    return picture(40, 20, [said(1, 2, words)], label=words, title="A drawing")


def everything(name: str, *, private: bool = False) -> Document:
    """A document with this name in every place that takes one."""
    cells = (name, 1.23456789, None, True, [name, "b"], {name: 2}, Mark(name, "bad"), Gauge(name, 0.4))
    parts: tuple[Part, ...] = (
        Text(f"The table {name}"),
        Note(f"mind {name}", "caution", lead=name),
        Facts(((name, name), ("seed", Verbatim(name)), ("theorem", Text(name)))),
        Table((*"abcdefg", name), (cells,), f"caption {name}", (f"remark {name}",)),
        Table(("link",), ((Link(name, "picture"),),)),
        Figure("picture", drawing, f"shows {name}", title=name, mark=Mark(name), legend=((key(), name),)),
        Verbatim(f"adumbra {name}"),
        Section(name, (Text("inside"), Section(f"deeper {name}", (Text("far inside"),)))),
        Section(f"background {name}", (Text("for the few"),), folded=True),
    )
    return Document(f"Report on {name}", parts, {"name": name}, private=private)


class Elements(HTMLParser):
    """Every element that opens closes, in order; kinds of elements and attributes are counted."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)
        self.seen += [(tag, tuple(name for name, _ in attrs))] if tag != "wbr" else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_renderer_shows_what_the_document_holds() -> None:
    document = everything("age")
    for name, renderer in RENDERERS.items():
        page = renderer(document)
        assert "age" in page, name
        if name == "json":
            continue
        for words in ("Report on age", "The table age", "mind age", "shows age", "far inside", "adumbra age"):
            assert words in page, (name, words)
        for value in ("1.23457", "-", "yes"):
            assert value in page, (name, value)
    assert json.loads(as_json(document)) == {"name": "age"}
    assert "for the few" in html_page(document) and "for the few" in markdown(document)
    assert "for the few" not in plain_text(document)  # a terminal leaves the background out


@pytest.mark.parametrize("name", [*MARKUP, "</script><script>", "x`y", "`x` `y`", "-1", "# a", "\x9b2J", "a\u2028b"])
def test_no_name_does_anything(name: str) -> None:
    """The page is built the same whatever the name is, and holds no character that steers a reader."""
    plain, hostile = everything("plain"), everything(name)
    for what, renderer in RENDERERS.items():
        page = renderer(hostile)
        assert harmless(page), what
    kinds = {"html_inline", "html_block", "link_open", "em_open", "s_open"}
    found = shape(markdown(hostile))
    assert not kinds & set(found)
    assert found.count("heading_open") == shape(markdown(plain)).count("heading_open")
    assert found.count("td_open") == shape(markdown(plain)).count("td_open")
    # inside the library's own words backticks are code; everywhere else they are none, and nothing else ever is
    without_code = lambda page: [one for one in Elements(page).seen if one[0] != "code"]  # noqa: E731
    strip = lambda page: [(tag, tuple(a for a in names if a != "class")) for tag, names in without_code(page)]  # noqa: E731
    assert strip(html_page(hostile)) == strip(html_page(plain))
    assert json.loads(as_json(hostile)) == {"name": name}


def test_a_name_on_a_terminal_is_on_one_line() -> None:
    lines = plain_text(Document("t", (Table(("a", "b"), (("x\ny" + 90 * " " + "verified", 1),)),))).splitlines()
    assert len(lines) == 3 and "x\\ny  verified" in lines[2]


def test_private_documents_say_so_first() -> None:
    for name, renderer in RENDERERS.items():
        page, other = renderer(everything("age", private=True)), renderer(everything("age"))
        if name != "json":
            assert PRIVATE in page and PRIVATE not in other, name
            assert page.index(PRIVATE) < page.index("The table age"), name
    assert f'<p class="banner" role="note">{PRIVATE}</p>' in html_page(everything("age", private=True))


def test_a_page_is_one_file_that_everybody_can_read() -> None:
    page = html_page(everything("age"))
    assert '<html lang="en">' in page and "default-src 'none'" in page
    for way in ("<script", "<link", "<img", "src=", "url(", "@import", "://"):
        assert way not in page, way
    assert [int(level) for level in re.findall(r"<h(\d)>", page)] == [1, 2, 2, 3]
    assert page.count('scope="col"') == 9 and 'role="img" aria-label="words"' in page
    assert '<figure id="picture">' in page and 'href="#picture"' in page
    assert re.findall(r"<figcaption>(.*?)</figcaption>", page) == ["shows age"]


def test_figures_follow_the_page_into_the_dark() -> None:
    """A figure's own colours are those of a light page; the style sheet knows each of them by its value."""
    page = html_page(everything("age"))
    assert len(set(INKS.values())) == len(INKS)
    for name, colour in INKS.items():
        assert f'svg [fill="{colour}"]{{fill:var(--{name})}}' in page
        assert len(re.findall(rf"--{name}:#[0-9a-f]{{6}}\b", page)) == 2  # light and dark
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]+)"', drawing()))
    assert used and used <= set(INKS.values())


def test_a_drawing_is_sound_whatever_it_says() -> None:
    for name in (*MARKUP, HOSTILE):
        root = ElementTree.fromstring(drawing(name))
        assert harmless("".join(root.itertext())) and root.get("aria-label") is not None
        assert not set(escaped(name)) & set("<>\"'")
    assert element("path", d='M0 0"/><script>') == '<path d="M0 0&quot;/&gt;&lt;script&gt;"/>'


def test_ticks_are_round_and_inside() -> None:
    assert round_ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert round_ticks(48.3, 52.9, most=10, least=1.0) == [49.0, 50.0, 51.0, 52.0]
    assert round_ticks(-3e7, 9e7) == [step * 1e7 for step in (-2, 0, 2, 4, 6, 8)]


# ---- a section from outside the package


def with_weather(document: Document) -> Document:
    """What somebody else may add to any report: a table, a figure and words."""
    table = Table.of([{"day": "Monday", "rain": 0.25}, {"day": "<b>Tuesday</b>", "rain": 0.75}])
    figure = Figure("rain", lambda: picture(10, 10, [], label="rain", title="Rain"), "It rained on both days.")
    section = Section("Weather", (Text("How it rained, from `rain.csv`."), table, figure))
    return document.with_section(section, {"weather": {"Monday": 0.25, "Tuesday": 0.75}})


def test_a_section_can_be_added_from_outside() -> None:
    before = Document("Report", (Facts((("table", "age"),)),), {"rows": 3})
    after = with_weather(before)
    for name, renderer in RENDERERS.items():
        page = renderer(after)
        assert "Tuesday" in page and "Tuesday" not in renderer(before), name
        assert "<b>" not in page or name in ("terminal",), name
    assert "## Weather\n\nHow it rained, from `rain.csv`." in markdown(after)
    assert "<h2>Weather</h2>" in html_page(after) and "<code>rain.csv</code>" in html_page(after)
    assert "\nWeather\nHow it rained" in plain_text(after)
    assert json.loads(as_json(after)) == {"rows": 3, "weather": {"Monday": 0.25, "Tuesday": 0.75}}
    assert shown("<b>Tuesday</b>") in plain_text(after)
