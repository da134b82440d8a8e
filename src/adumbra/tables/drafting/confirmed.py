"""What a draft becomes once every suggestion is confirmed, and which questions must be left out so that it loads."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import TypeVar

from adumbra.common.errors import InputError
from adumbra.declare.column import CELL_KINDS, Column, heading
from adumbra.declare.schema import Schema

__all__ = ["column_loads", "confirmed", "loads", "most_that_load"]

Part = TypeVar("Part")


def confirmed(draft: str) -> str:
    """The draft with every suggestion confirmed: each leading "# " deleted.

    >>> confirmed("## a remark\\n# low = 0\\n")
    '## a remark\\nlow = 0\\n'
    """
    return re.sub(r"(?m)^# ", "", draft)


def loads(draft: str) -> bool:
    """Whether the draft loads once every suggestion is confirmed."""
    try:
        Schema.parse(confirmed(draft))
    except InputError:
        return False
    return True


def column_loads(name: str, lines: Sequence[str]) -> bool:
    """Whether the `lines` of a column called `name` make one once they are confirmed."""
    text = confirmed("\n".join([heading(name), *lines]))
    fields = tomllib.loads(text)["columns"][name]
    if fields.get("kind", "number") not in CELL_KINDS:
        return True
    try:
        Column(name, **fields)
    except InputError:
        return False
    return True


def most_that_load(parts: list[Part], fit: Callable[[list[Part]], bool]) -> list[Part]:
    """As many of the parts as `fit` together, found by halves: few calls where few do not."""
    if not parts or fit(parts):
        return parts
    if len(parts) == 1:
        return []
    middle = len(parts) // 2
    first = most_that_load(parts[:middle], fit)
    return first + most_that_load(parts[middle:], lambda more: fit(first + more))
