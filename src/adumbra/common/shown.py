r"""Text that is not ours, made safe to show.

Folders, file names, tables, schemas and ledgers come from others. A name may hold an escape that repaints the
terminal, a mark that turns the direction of what follows, or a character that nobody sees; shown raw, such a name could
print "verified" over what was really said. Here every such character becomes its escape: `\x1b`, `\u202e`. Letters of
all scripts stay as they are, those written from right to left too. Long runs of blanks become two: on a terminal that
folds lines, they could push what follows to where a line of ours begins.

>>> shown("age\x1b[2J"), shown("\u202egnp.exe"), shown("größe, גיל, 年齢")
('age\\x1b[2J', '\\u202egnp.exe', 'größe, גיל, 年齢')
>>> shown("a" + 70 * " " + "signature: valid")
'a  signature: valid'
"""

from __future__ import annotations

import re

__all__ = ["shown", "shown_json", "shown_lines", "shown_toml"]

_UNSAFE = (
    "\x00-\x1f\x7f-\x9f"  # controls: C0, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers, marks that nobody sees
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero widths, direction marks, separators of lines and paragraphs
    "\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # fillers, selectors, byte-order mark, annotations
    "\ud800-\udfff\ue000-\uf8ff"  # halves of pairs, which are no characters; private ones, which mean nothing agreed
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # controls of shorthand and of music
    "\U000e0000-\U000e0fff"  # tags: a whole alphabet that nobody sees
    "\U000f0000-\U0010ffff"  # private ones again
)
"""Characters that steer a terminal or a reader, or that cannot be seen."""
_ALL = re.compile(f"[{_UNSAFE}]")
_ALL_BUT_NEW_LINES = re.compile(f"(?!\n)[{_UNSAFE}]")
_BLANKS = re.compile("[ \xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]{3,}")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str) -> str:
    """One line that can be shown: whatever could steer the terminal or hide is an escape, new lines too.

    A run of more than two blanks is shown as two.
    """
    return _BLANKS.sub("  ", _ALL.sub(_named, text))


def shown_lines(text: str) -> str:
    """The same for text of several lines, whose line breaks are ours."""
    return _ALL_BUT_NEW_LINES.sub(_named, text)


def shown_json(document: str) -> str:
    r"""A JSON document that says the same with such characters escaped as JSON has it; stays valid.

    >>> shown_json('{"name": "\x9b2J\U000e0041"}')
    '{"name": "\\u009b2J\\udb40\\udc41"}'
    """
    return _ALL_BUT_NEW_LINES.sub(_paired, document)


def shown_toml(text: str) -> str:
    r"""A quoted TOML string that says the same with such characters escaped as TOML has it.

    >>> shown_toml('"\u202e\U000e0041"')
    '"\\u202e\\U000e0041"'
    """
    return _ALL_BUT_NEW_LINES.sub(lambda match: _numbered(ord(match[0])), text)


def _named(match: re.Match[str]) -> str:
    character = match[0]
    return _NAMED.get(character) or (f"\\x{ord(character):02x}" if character < "\u0100" else _numbered(ord(character)))


def _numbered(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _paired(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
