"""Names of columns and words in cells that tell what they are, before any statistics."""

from __future__ import annotations

import re

from adumbra.declare.spelling import BLANK

__all__ = [
    "BLANK_NUMBERS",
    "known_range",
    "like_blank",
    "names_clock",
    "names_id",
    "names_person",
    "rule_name",
    "stop_words",
    "tokens",
    "word_set",
]


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_ID = re.compile(r"(^|[_ .-])(id|ids|uuid|guid|ssn|mrn|index|row|key|nr)$", re.IGNORECASE)
_WHO = word_set("subject patient person customer client user participant respondent household member")
_ID_CAMEL = re.compile(r"[a-z]I[dD]$")
_PERSON = word_set(
    "name names firstname lastname fullname surname forename forenames email mail phone telephone mobile fax "
    "address street"
)
_NAMED = word_set("first last full given family maiden middle sur fore user patient person customer client")
_NOT_A_PERSON = word_set("ip mac file column variable")
_BLANK = word_set(
    "n.a. n.a n/d nd unknown unk missing miss undefined unspecified blank (blank) (null) (none) nil void "
    "none_given not_given not_known not_available not_applicable not_stated not_recorded not_specified not_reported "
    "no_answer no_data no_response refused don't_know dont_know -- --- ... n.d. xxx #null! #ref! #value! tbd"
)
BLANK_NUMBERS = tuple(sorted(map(float, word_set("-1 -7 -8 -9 -77 -88 -99 -999 -9999 -99999 99 999 9999 99999"))))
"""Numbers that people write where there is none."""
_CLOCK = word_set("time hour hhmm clock")
_STOP = word_set("the and of with for to in on a an is are was no not at by from or")
_RANGES: dict[str, tuple[float, float]] = {
    "month": (1, 12),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "quarter": (1, 4),
    "week": (1, 53),
    "day": (1, 31),
    "percent": (0, 100),
    "age": (0, 110),
    "latitude": (-90, 90),
    "lat": (-90, 90),
    "longitude": (-180, 180),
    "lon": (-180, 180),
    "lng": (-180, 180),
}
"""What everybody knows of a number by its name, before any row."""
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RULE_WORDS = word_set("if then and or not is missing in true false")


def tokens(name: str) -> list[str]:
    """Words of a column's name, in small letters.

    >>> tokens("schedDep_time (h)")
    ['sched', 'dep', 'time', 'h']
    """
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", split) if word]


def names_id(name: str) -> bool:
    """Whether a column's name says that it identifies something."""
    return bool(_ID.search(name) or _ID_CAMEL.search(name) or name.lower() in _WHO)


def names_person(name: str) -> bool:
    """Whether a column's name says that it holds names or addresses of people.

    >>> names_person("fake_first_name"), names_person("clinic_name"), names_person("email")
    (True, False, True)
    """
    words = tokens(name)
    if not words or _NOT_A_PERSON & set(words):
        return False
    if words[-1] in ("name", "names") and len(words) > 1:
        return bool(_NAMED & set(words))
    return bool(_PERSON & set(words[-1:])) or words[0] in ("email", "phone", "surname", "firstname", "lastname")


def names_clock(name: str) -> bool:
    """Whether a column's name says that it holds times of day."""
    return bool(_CLOCK & set(tokens(name)))


def known_range(name: str, low: float, high: float) -> tuple[float, float] | None:
    """The range that a number of this name has everywhere, if `low` and `high`, seen in the rows, are inside it.

    >>> known_range("day", 1, 31), known_range("stay_days", 1, 400), known_range("pan_day", 4, 107)
    ((1, 31), None, None)
    """
    words = tokens(name)
    for word in words[:1] + words[-1:]:
        known = _RANGES.get(word)
        if known is not None and known[0] <= low and high <= known[1] and high - low >= (known[1] - known[0]) / 4:
            return known
    return None


def like_blank(word: str) -> bool:
    """Whether a word that no reader takes for nothing may mean it all the same.

    >>> like_blank("Not applicable"), like_blank("unknown"), like_blank("NA"), like_blank("blue")
    (True, True, False, False)
    """
    plain = word.strip().lower()
    return plain not in BLANK and re.sub(r"\s+", "_", plain) in _BLANK


def stop_words(items: set[str]) -> bool:
    """Whether words that only sentences have are among the items."""
    return len(_STOP & {item.lower() for item in items}) > 1


def rule_name(name: str) -> str:
    """A column's name as rules write it.

    >>> rule_name("age"), rule_name("Smokes (years)")
    ('age', '`Smokes (years)`')
    """
    bare = _BARE.fullmatch(name) and name.lower() not in _RULE_WORDS
    return name if bare else f"`{name}`"
