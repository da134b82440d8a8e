"""Text files that others wrote, read within limits: size, nesting and length of a number are looked at first.

A parser that is handed a hostile text can take gigabytes (a TOML key of 50,000 dots), stop at Python's own limits (a
number of 5,000 digits) or run out of stack (brackets in brackets). What passes here can do none of that.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from adumbra.common.errors import InputError

__all__ = ["MOST_CARD_BYTES", "MOST_SCHEMA_BYTES", "json_document", "read_at_most", "toml_document"]

MOST_SCHEMA_BYTES = 16 * 2**20
"""Of a schema file; 20,000 columns take about 1 MB."""
MOST_CARD_BYTES = 64 * 2**20
"""Of a card, which holds its schema and more."""
MOST_NESTED = 32
"""Brackets within brackets."""
MOST_PARTS = 16
"""Parts of a dotted key."""
MOST_WORD = 1000
"""Characters of a number or of a key without quotes."""

_TOML = re.compile(
    r'''(?P<text>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')'''
    r"|(?P<skip>\#[^\n]*+|[ \t]++)|(?P<word>[A-Za-z0-9_+-]++)|(?P<dot>\.)|(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<other>.)",
    re.DOTALL,
)
_JSON = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def read_at_most(path: Path, most: int, what: str) -> bytes:
    """The content of the file at `path`, refused above `most` bytes; `what` names it in the refusal.

    An `OSError` is the caller's.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{what} of at most {most // 2**10:,} kB", f"{path}, which is larger", "give a smaller file")
    return content


def toml_document(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Edge cases: a `ValueError` that says what is wrong, and no other exception."""
    text = text.removeprefix("\ufeff")
    _check_toml(text)
    return tomllib.loads(text)


def _check_toml(text: str) -> None:
    """Refuse what makes the parser slow, large or deep; everything else is the parser's to judge."""
    depth = dots = 0
    for token in _TOML.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots >= MOST_PARTS:
                raise ValueError(f"a key of more than {MOST_PARTS} parts ({_line(text, token.start())})")
        elif kind == "open":
            depth, dots = depth + 1, 0
            if depth > MOST_NESTED:
                raise ValueError(f"too many nested brackets ({_line(text, token.start())})")
        elif kind == "close":
            depth, dots = max(depth - 1, 0), 0
        elif kind == "word":
            if token.end() - token.start() > MOST_WORD:
                raise ValueError(
                    f"a number or name of more than {MOST_WORD:,} characters ({_line(text, token.start())})"
                )
        elif kind == "other":
            dots = 0


def _line(text: str, place: int) -> str:
    return f"at line {text.count(chr(10), 0, place) + 1}"


def json_document(content: bytes) -> Any:
    """The value of a JSON text. Edge cases: a `ValueError`, whatever is wrong with it."""
    depth = 0
    for token in _JSON.finditer(content):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth > MOST_NESTED:
                raise ValueError("too many nested brackets")
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return json.loads(content)
