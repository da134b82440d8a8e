"""Strangers find the field's words: what they stumbled over is not written any more (house/words.py has the list)."""

from __future__ import annotations

import tomllib

import pytest
from house.__main__ import HOME, LIMITS
from house.words import WORDS, stumbles

KNOWN = tomllib.loads(LIMITS.read_text(encoding="utf-8"))["words"]


def test_no_file_has_more_of_them_than_it_had():
    """Files that are not clean yet are listed with their number in limits.toml; none may join, none may get more."""
    more = {file: places for file, places in stumbles(HOME).items() if len(places) > KNOWN.get(file, 0)}
    assert not more, "\n".join(f"{file}, {place}" for file, places in more.items() for place in places)


@pytest.mark.parametrize(
    "text",
    ["a second look that", "both looks", "write 3, say.", "(say 3)", "foretold", "a milliard", "columns hang together"],
)
def test_they_are_recognised(text):
    assert any(pattern.search(text) for pattern in WORDS)


@pytest.mark.parametrize("text", ["look at this", "cards say, and", "it looks like", "a look at it", "they say so"])
def test_other_uses_are_not(text):
    assert not any(pattern.search(text) for pattern in WORDS)
