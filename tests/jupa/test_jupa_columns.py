"""How a column's cells are read, whatever they are stored as."""

from __future__ import annotations

import numpy as np
import polars as pl

from adumbra.jupa.apply import apply_jupa
from adumbra.jupa.features import Features
from tests.jupa.records import _fitted, _records


def test_true_and_false_mean_the_same_however_they_are_written() -> None:
    """A public Parquet file and a private CSV file: one has booleans, the other words, or Python's, or numbers."""
    public = _records(200, 8).with_columns(f=pl.col("a") > 1.0)
    model = _fitted(public, release="coarse")
    word = public["f"].cast(pl.String)
    for column in (word, word.str.to_titlecase(), word.str.to_uppercase(), public["f"].cast(pl.Float64)):
        np.testing.assert_array_equal(model.unperturbed(public.with_columns(f=column)), model.unperturbed(public))


def test_a_column_of_other_things_is_told_to_the_owner_and_not_refused() -> None:
    """Every cell of a number column is a word: nobody should get that unawares, and no refusal may depend on cells."""
    public, told = _records(200, 8), []
    apply_jupa(_fitted(public), public.with_columns(a=pl.lit("abc")), tell=told.append)
    assert any("a: no number in the whole table" in line for line in told)


def test_true_and_false_are_the_same_however_they_are_stored():
    """A Boolean column of the public table and the text of a private CSV are the same values."""
    book = Features.fit(pl.DataFrame({"a": [True, False, True, True]}), columns=["a"])
    as_text = book.encode(pl.DataFrame({"a": ["true", "false"]}))
    assert as_text.tolist() == book.encode(pl.DataFrame({"a": [True, False]})).tolist()
