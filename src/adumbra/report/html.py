"""Documents as one HTML file: no script, nothing loaded from outside; light and dark, on a phone and on paper."""

from __future__ import annotations

from html import escape
from typing import assert_never

from adumbra.common.shown import shown
from adumbra.report.document import (
    PRIVATE,
    Document,
    Facts,
    Figure,
    Gauge,
    Inline,
    Link,
    Mark,
    Note,
    Part,
    Section,
    Table,
    Text,
    Tone,
    Value,
    Verbatim,
    in_words,
)
from adumbra.report.style import STYLE
from adumbra.report.svg import NAMESPACE, gauge

__all__ = ["html_page"]

_SHORT, _LONG = 14, 24
"""Letters up to which a line of a cell is not broken, and from which on a cell is given room of its own."""


def html_page(document: Document) -> str:
    """The whole document as a file that a browser shows offline. Whatever text it holds is escaped."""
    banner = [f'<p class="banner" role="note">{escape(PRIVATE)}</p>'] if document.private else []
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_plain(document.title)}</title>",
        f"<style>{STYLE}</style></head><body><main>",
        *banner,
        f"<h1>{_plain(document.title)}</h1>",
        *(_part(part, 2) for part in document.parts),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _part(part: Part, level: int) -> str:
    match part:
        case Text(text):
            return f"<p>{_prose(text)}</p>"
        case Verbatim(text):
            lines = "\n".join(escape(shown(line)) for line in text.splitlines())
            return f"<pre><code>{lines}</code></pre>"
        case Note(text, weight, lead):
            first = f"<strong>{_prose(lead)}</strong> " if lead else ""
            return f'<p class="note {weight}" role="note">{first}{_prose(text)}</p>'
        case Facts(rows):
            pairs = (f"<div><dt>{_value(label)}</dt><dd>{_value(value)}</dd></div>" for label, value in rows)
            return f'<dl class="facts">{"".join(pairs)}</dl>'
        case Table():
            return _table(part)
        case Figure():
            return _figure(part, level)
        case Section():
            return _section(part, level)
        case _:
            assert_never(part)


def _section(section: Section, level: int) -> str:
    inner = "\n".join(_part(part, level + 1) for part in section.parts)
    if section.folded:
        return f"<details><summary>{_plain(section.title)}</summary>\n{inner}\n</details>"
    deep = min(level, 6)
    return f"<section><h{deep}>{_plain(section.title)}</h{deep}>\n{inner}\n</section>"


def _table(table: Table) -> str:
    """One body for each row: its cells and, across the whole width, what is remarked on it.

    On a phone a row becomes a list of labelled lines; the roles keep it a table for those who listen to it.
    """
    heads = "".join(f'<th role="columnheader" scope="col">{_plain(name)}</th>' for name in table.columns)
    out = ['<div class="scroll"><table role="table">']
    if table.caption:
        out.append(f"<caption>{_prose(table.caption)}</caption>")
    out.append(f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>')
    for row, note in zip(table.rows, table.notes or [""] * len(table.rows), strict=True):
        cells = "".join(_cell(name, value) for name, value in zip(table.columns, row, strict=True))
        out.append(f'<tbody role="rowgroup"><tr role="row">{cells}</tr>')
        if note:
            wide = f'<td role="cell" colspan="{len(table.columns)}">{_plain(note)}</td>'
            out.append(f'<tr role="row" class="remark">{wide}</tr>')
        out.append("</tbody>")
    return "\n".join([*out, "</table></div>"])


def _cell(name: str, value: Value) -> str:
    longest = max(len(line) for line in in_words(value, str, lambda one: one.text, between="\n").split("\n"))
    kind = "long" if longest >= _LONG else "short" if longest <= _SHORT and not isinstance(value, Link) else ""
    of_kind = f' class="{kind}"' if kind else ""
    return f'<td role="cell" data-label="{_plain(name)}"{of_kind}><div>{_value(value)}</div></td>'


def _figure(figure: Figure, level: int) -> str:
    drawn = figure.draw()
    panels = "\n".join((drawn,) if isinstance(drawn, str) else drawn).replace(NAMESPACE, "")
    mark = "" if figure.mark is None else f"{_inline(figure.mark)} "
    deep = min(level, 6)
    title = f"<h{deep}>{mark}{_plain(figure.title)}</h{deep}>" if figure.title else ""
    keys = "".join(f"<li>{key}{_plain(words)}</li>" for key, words in figure.legend)
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    return (
        f'<figure id="{_plain(figure.name)}">{title}<div class="panels">\n{panels}</div>{legend}'
        f"<figcaption>{_plain(figure.alt)}</figcaption></figure>"
    )


# ---------------------------------------------------------------------------------------------------------- words


def _plain(text: str) -> str:
    """Somebody's text, harmless in text and attributes."""
    return escape(shown(" ".join(text.split())))


def _prose(text: str) -> str:
    """The library's own words, which may hold code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a mark without its fellow
        return _plain(text)
    return "".join(f"<code>{escape(shown(p))}</code>" if i % 2 else _kept(p) for i, p in enumerate(parts))


def _kept(text: str) -> str:
    """Plain, with the blanks at its ends."""
    return f"{' ' * text[:1].isspace()}{_plain(text)}{' ' * (text[-1:].isspace() and bool(text.strip()))}"


def _value(value: Value) -> str:
    return in_words(value, _plain, _inline, between="<br>")


def _inline(value: Inline) -> str:
    match value:
        case Text(text):
            return _prose(text)
        case Verbatim(text):
            return f"<code>{_plain(text)}</code>"
        case Mark(text, tone):
            return f'<span class="mark {tone}">{_plain(text)}</span>'
        case Gauge(text, share, tone):
            return f"{gauge(share, _INK[tone])} {_plain(text)}"
        case Link(text, to):
            return f'<a href="#{_plain(to)}">{_plain(text).replace("/", "/<wbr>")}</a>'
        case _:
            assert_never(value)


_INK: dict[Tone, str] = {"plain": "slate", "bad": "red"}
