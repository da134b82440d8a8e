"""That a look at an object (`tests/contents.py`) sees all there is to see."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.contents import contents, differing, reachable


class Holder:
    """All the places where something can stay."""

    __slots__ = ("__dict__", "slot")

    @property
    def doubled(self):
        return self.slot * 2


@pytest.mark.parametrize(
    "hide",
    [
        lambda holder, value: setattr(holder, "plain", value),
        lambda holder, value: setattr(holder, "_deep", {"a": [(value,)]}),
        lambda holder, value: setattr(holder, "slot", value),
        lambda holder, value: setattr(holder, "array", np.array([1.0, value])),
        lambda holder, value: setattr(holder, "objects", np.array([None, value], dtype=object)),
        lambda holder, value: setattr(holder, "frame", pl.DataFrame({"a": [value]})),
        lambda holder, value: setattr(holder, "pandas", pd.DataFrame({"a": [value]})),
        lambda holder, value: setattr(holder, "closure", lambda: value),
        lambda holder, value: setattr(holder, "default", lambda x=value: x),
        lambda holder, value: setattr(holder, "other", SimpleNamespace(far={frozenset([value])})),
    ],
)
def test_a_look_finds_the_last_bit_wherever_it_hides(hide):
    found = []
    for value in (0.1, np.nextafter(0.1, 1.0)):
        holder = Holder()
        holder.slot = 1.0
        hide(holder, float(value))
        found.append(contents(holder))
    assert differing(*found)
    assert differing(found[0], found[0]) == []


def test_what_is_held_can_be_reached_however_deep():
    secret = np.arange(3.0)
    holder = Holder()
    holder.slot = [{"a": lambda: secret}]
    assert any(held is secret for held in reachable(holder))
    assert not any(held is secret for held in reachable(Holder()))


def test_an_object_that_holds_itself_is_looked_at_once():
    holder = Holder()
    holder.slot = [holder]
    assert contents(holder) == contents(holder)
