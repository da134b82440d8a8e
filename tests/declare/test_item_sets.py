"""Sets in a cell: which values count, at most how many, and what is refused in a declaration."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra.declare.item_sets import set_places
from adumbra.declare.space import CATEGORY_STEPS, GRID, set_steps
from adumbra.tables.encode import encode

ITEMS = ("milk", "bread", "beer", "eggs")


def schema(**more) -> ad.Schema:
    return ad.Schema.from_dict({"columns": {"basket": {"kind": "set", "values": list(ITEMS), "most": 2} | more}})


def plainly(cell: str | None, separator: str, most: int) -> list[float]:
    """The definition, cell by cell."""
    named = {part.strip() for part in (cell or "").split(separator)}
    kept = [item for item in ITEMS if item in named][:most]
    return [float(item in kept) for item in ITEMS]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.none() | st.lists(st.sampled_from([*ITEMS, "wine", " milk ", ""]), max_size=7), min_size=1, max_size=6),
    st.sampled_from([",", " ", ";", " | "]),
    st.integers(1, 5),
)
def test_every_cell_is_read_by_itself_as_the_definition_says(cells, separator, most):
    texts = [None if cell is None else separator.join(cell) for cell in cells]
    found = set_places(pl.Series(texts, dtype=pl.String), ITEMS, separator, most)
    assert found.tolist() == [plainly(text, separator, most) for text in texts]
    assert found.sum(axis=1).max() <= most
    alone = [set_places(pl.Series([text], dtype=pl.String), ITEMS, separator, most)[0].tolist() for text in texts]
    assert found.tolist() == alone
    lists = pl.Series([None if cell is None else list(cell) for cell in cells], dtype=pl.List(pl.String))
    if separator != " ":  # a space parts " milk " too
        assert set_places(lists, ITEMS, separator, most).tolist() == found.tolist()


def test_of_too_many_the_first_in_declared_order_stay_wherever_they_stand():
    found = set_places(pl.Series(["eggs,beer,bread,milk", "eggs,beer,beer"]), ITEMS, ",", 2)
    assert found.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_numbers_are_items_whatever_type_they_come_in():
    values = (39, 48, 100)
    for cells in (
        pl.Series(["39 48", "100", None]),
        pl.Series([[39, 48], [100], None]),
        pl.Series([[39.0, 48.0], [100.0], []]),
        pl.Series([["39", "48"], ["100"], [None]]),
    ):
        assert set_places(cells, values, " ", 3).tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert set_places(pl.Series([39, None, 7]), values, " ", 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_steps_put_two_full_sets_one_range_apart():
    assert set_steps(1) == CATEGORY_STEPS
    for most in (1, 2, 7, 10, 1000):
        assert 2 * most * set_steps(most) ** 2 <= GRID**2 < 2 * most * (set_steps(most) + 1) ** 2


def test_a_column_of_sets_is_encoded_and_its_repairs_are_counted():
    declared = schema()
    frame = pl.DataFrame({"basket": ["milk, eggs", "wine", None, "beer,eggs,milk"]})
    encoded = encode(frame, declared)
    steps = set_steps(2)
    assert encoded.values.tolist() == [[steps, 0, 0, steps], [0] * 4, [0] * 4, [steps, 0, steps, 0]]
    repairs = encoded.repairs["basket"]
    assert (repairs.missing, repairs.unknown, repairs.clipped) == (1, 1, 1)
    (block,) = declared.space().blocks
    assert (block.kind, block.width, block.most, block.keeps) == ("set", 4, 2, True)
    assert np.square(encoded.values).sum(axis=1).max() <= block.reach_squared
    assert ad.Schema.from_dict(declared.to_dict()) == declared and ad.Schema.parse(declared.to_toml()) == declared


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"most": None}, "a declared most"),
        ({"most": 0}, "above 0"),
        ({"most": 2.5}, "above 0"),
        ({"most": True}, "above 0"),
        ({"missing": "milk"}, "no missing for a set"),
        ({"separator": ""}, "a separator"),
        ({"separator": "e"}, "without the separator"),
        ({"type": "int64"}, "type"),
        ({"low": 0}, "no low for kind set"),
        ({"values": []}, "declared values"),
    ],
)
def test_a_wrong_declaration_is_refused(declared, says):
    with pytest.raises(ad.InputError, match=says):
        schema(**declared)
