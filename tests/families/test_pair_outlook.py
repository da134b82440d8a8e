"""What a plan and a card say of pairs before the truth is looked at."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest

import adumbra as ad
from adumbra.families.pair_outlook import compared_columns, pair_outlook, supposed_columns
from adumbra.models.joint_layout import supposed_layout
from adumbra.models.pair_error import PairColumn, predicted_pair_error

COLUMNS = [PairColumn.supposed(c, ordered=c > 20) for c in (2, 5, 32, 9)]
TABLES = list(combinations(range(4), 2))


def test_an_outlook_is_the_mean_over_the_pairs_and_leaves_triples_aside():
    sds = [10.0 * (i + 1) for i in range(6)]
    found = pair_outlook(COLUMNS, [*TABLES, (0, 1, 2)], [*sds, 1e9], 5000)
    each = [predicted_pair_error(COLUMNS[a], COLUMNS[b], sd, 5000) for (a, b), sd in zip(TABLES, sds, strict=True)]
    assert found.error == pytest.approx(np.mean(each)) and (found.pairs, found.of_pairs) == (6, 6)
    assert 0 < found.least <= found.kept_above <= found.most < 1
    less = pair_outlook(COLUMNS, TABLES[:4], sds[:4], 50_000)
    assert less.error < found.error and less.kept_above < found.kept_above and (less.pairs, less.of_pairs) == (4, 6)


def test_a_plan_says_it_in_words():
    lines = dict(pair_outlook(COLUMNS, TABLES[:5], [30.0] * 5, 40_000).lines())
    assert lines["pairs of columns measured"] == "5 of 6"
    assert "error of about 0.0" in lines["a pair of columns"]
    assert "above about 0.0" in lines["dependence that is kept"]


def test_very_many_pairs_are_a_part_of_them():
    columns = [PairColumn.supposed(2, ordered=False)] * 60
    tables = list(combinations(range(60), 2))
    found = pair_outlook(columns, tables, [10.0] * len(tables), 5000)
    assert found.pairs == 1770 and found.error == pytest.approx(predicted_pair_error(*columns[:2], 10.0, 5000))


def test_joint_cells_are_put_into_the_cells_of_the_comparison():
    spec = {
        "x": {"kind": "number", "low": 0, "high": 1, "missing": 0.5},
        "c": {"kind": "category", "values": [f"v{k}" for k in range(40)]},
        "f": {"kind": "flag"},
    }
    schema = ad.Schema.from_dict({"columns": spec})
    layout = supposed_layout(schema.space().blocks, 16)
    x, c, f = compared_columns(layout, schema, 0.1)
    for j, column in enumerate((x, c, f)):
        assert column.shares is layout.shares[j] and column.error == 0.1
        assert column.compared.sum(axis=0) == pytest.approx(1.0)
    assert x.compared.shape[0] == 11 and x.compared[-1].sum() == 0  # the empty cell is never drawn
    assert np.count_nonzero(x.compared[0]) in (1, 2, 3) and (x.compared @ x.shares)[:10] == pytest.approx(0.1, abs=0.02)
    assert c.compared.shape == (21, 41) and np.array_equal(c.compared[0].nonzero()[0], [0, 1])
    assert c.compared[-1].nonzero()[0].tolist() == [40]
    assert f.compared.tolist() == np.eye(3).tolist()
    assert compared_columns(layout, None, 0.1)[1].compared is None


def test_a_category_of_many_values_is_compared_in_little_memory():
    """A number for each value and each of its points would be 3 GB here, and 50 GB for 10,000 values."""
    values = [f"v{k}" for k in range(2500)]
    schema = ad.Schema.from_dict({"columns": {"c": {"kind": "category", "values": values}}})
    layout = supposed_layout(schema.space().blocks, 16)
    tracemalloc.start()
    (found,) = compared_columns(layout, schema, 0.1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.compared.shape == (21, 2501) and most < 50e6
    assert found.compared.argmax(axis=0).tolist() == [*(k * 20 // 2500 for k in range(2500)), 20]


def test_columns_of_which_nothing_is_known_are_supposed_to_be_whole_and_have_errors_of_their_own():
    spec = {"x": {"kind": "number", "low": 0, "high": 1}, "f": {"kind": "flag"}}
    blocks = ad.Schema.from_dict({"columns": spec}).space().blocks
    x, f = supposed_columns(supposed_layout(blocks, 16).cells, 20.0, 5000)
    assert 11 < len(x.shares) == x.compared.shape[1] < 17 and f.shares.tolist() == [0.8, 0.2]
    assert 0.001 < f.error < x.error < 0.02
    assert supposed_columns(supposed_layout(blocks, 16).cells, 20.0, 50_000)[0].error < x.error / 5
