"""Tables of every kind of cell, the whole way: what is read, what meets the noise, and what leaves without it.

Two tables get one set of noisy answers (`tests/at_the_noise.py`). What is not measured (ids, derived and dependent
columns, dropped ones) and what is declared about drawn rows (rules) may then make no difference at all, and a
neighbour none but what was paid for: not in the rows, their number, their types, or which of their cells are empty.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.accounting import calibrate
from adumbra.declare.guarantee import Relation, Unit
from adumbra.families.synthetic import DrawnTable
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.tables.encode import decode, encode
from tests.at_the_noise import Released, changes_of, paid_for, released, same_in_public

DRAWN = [name for name, cls in catalogue().items() if issubclass(cls, DrawnTable)]
COLUMNS = {
    "patient": {"role": "id", "pattern": "P-@@##"},
    "admitted": {"kind": "date", "low": "2020-01-01", "high": "2020-03-31"},
    "hour": {"kind": "time", "step": "hour"},
    "age": {"kind": "number", "low": 0, "high": 110, "integer": True, "spikes": [0]},
    "cost": {"kind": "number", "low": 0, "high": 100_000, "scale": "log", "blank": [-9]},
    "grade": {"kind": "ordinal", "values": [1, 2, 3, 8]},
    "grade_name": {"kind": "category", "values": ["I", "II", "III", "other"]},
    "smoker": {"kind": "flag", "values": ["no", "yes"]},
    "ward": {"kind": "category", "values": ["north", "south", "west"]},
    "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
    "half": {"kind": "number", "low": 0, "high": 55, "derived": "age / 2"},
    "notes": {"role": "drop"},
}
RULES = [
    {"check": "if ward = 'north' then age >= 18"},
    {"check": "if smoker = 'yes' then grade >= 2"},
    {"columns": ["grade", "grade_name"], "rows": [[1, "I"], [2, "II"], [3, "III"], [8, "other"]]},
]
SCHEMA = ad.Schema.from_dict({"columns": COLUMNS, "rules": RULES})
UNREAD = ("patient", "grade_name", "half", "notes")
EMPTY = dict.fromkeys(COLUMNS)
BREAKS = {
    "patient": "P-ZZ99", "admitted": "2020-03-31", "hour": "23:00", "age": "0", "cost": "100000", "grade": "1",
    "grade_name": "other", "smoker": "yes", "ward": "north", "ill": "yes", "half": "55", "notes": "died",
}  # fmt: skip
OBEYS = {
    "patient": "P-AA00", "admitted": "2020-01-01", "hour": "00:00", "age": "110", "cost": "0", "grade": "8",
    "grade_name": "I", "smoker": "no", "ward": "west", "ill": "no", "half": "0", "notes": "well",
}  # fmt: skip
PARTLY = {**OBEYS, "admitted": None, "cost": "-9", "smoker": "?", "ill": None, "patient": None}


def people(rows: int, seed: int = 0, empty: float = 0.3) -> pl.DataFrame:
    """So many rows of text; of the first three columns that are measured and the label a share is empty."""
    rng = np.random.default_rng(seed)
    days = np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 91, rows))
    columns = {
        "patient": [f"P-{i}" for i in range(rows)],
        "admitted": days.tolist(),
        "hour": [f"{h:02}:00" for h in rng.integers(0, 24, rows)],
        "age": rng.integers(0, 111, rows).astype(str).tolist(),
        "cost": np.round(10 ** rng.uniform(0, 5, rows)).astype(int).astype(str).tolist(),
        "grade": rng.choice(["1", "2", "3", "8"], rows).tolist(),
        "grade_name": rng.choice(["I", "II", "III", "other"], rows).tolist(),
        "smoker": rng.choice(["no", "yes"], rows).tolist(),
        "ward": rng.choice(["north", "south", "west"], rows).tolist(),
        "ill": rng.choice(["no", "yes"], rows).tolist(),
        "half": ["1"] * rows,
        "notes": ["private"] * rows,
    }
    for name in ("admitted", "hour", "cost", "ill"):
        gone = rng.random(rows) < empty
        columns[name] = [None if lost else cell for cell, lost in zip(columns[name], gone, strict=True)]
    return pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))


def with_row(row, rest: pl.DataFrame) -> pl.DataFrame:
    return rest if row is None else pl.concat([rest, pl.DataFrame([row], schema=rest.schema)])


def pair(one, other, mechanism, budget, schemas=(SCHEMA, SCHEMA)) -> tuple[Released, Released]:
    """Two releases, of which the second gets the noisy answers of the first."""
    first = released(one, schemas[0], mechanism, budget)
    return first, released(other, schemas[1], mechanism, budget, like=first)


def nothing_moved(first: Released, second: Released) -> None:
    for call, change in changes_of(first, second):
        assert all(not part.any() for part in change), f"an answer with {call.law} noise differs"


def budgets(relation: Relation):
    return [ad.Budget(2.0, delta, Unit.ROW, relation) for delta in (1e-5, 0.0)]


def neighbours_of(relation: Relation, rest: pl.DataFrame):
    rows = [BREAKS, OBEYS, PARTLY, EMPTY]
    if relation is Relation.ADD_REMOVE:
        return [(with_row(row, rest), rest) for row in (BREAKS, OBEYS, EMPTY)]
    if relation is Relation.ZERO_OUT:
        return [(with_row(row, rest), with_row(EMPTY, rest)) for row in rows[:3]]
    return [(with_row(BREAKS, rest), with_row(other, rest)) for other in rows[1:]]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", DRAWN)
def test_no_neighbour_moves_any_kind_of_cell_by_more_than_was_paid(name, relation):
    """Nor, by a single bit, anything that did not meet the noise: as many rows are drawn as the noise lets believe."""
    rest, mechanism = people(40), build(name, {})
    for budget in budgets(relation):
        paid = calibrate.mu_for(2.0, 1e-5) if budget.delta else 2.0
        tried = neighbours_of(relation, rest)
        moved = []
        for tables in tried if budget.delta else tried[:1]:
            first, second = pair(*tables, mechanism, budget)
            same_in_public(first.folder, second.folder)
            moved.append(paid_for([(call.law, change) for call, change in changes_of(first, second)]))
        assert max(moved) <= paid, f"{max(moved):.4g} moved, {paid:.4g} paid"
        assert budget.delta == 0 or max(moved) >= 0.25 * paid, f"no power: {max(moved):.4g} of {paid:.4g}"


@pytest.mark.parametrize("name", [*DRAWN, "dppro", "laplace"])
def test_what_is_not_measured_is_not_read(name):
    """Ids, derived, dependent and dropped columns of garbage, turned round or absent: the same numbers to the bit."""
    options = {"laplace": {"columns": ("age", "grade"), "bins": 8}, "dppro": {"dimension": 4}}.get(name, {"rows": 30})
    table, mechanism, budget = people(60), build(name, options), ad.Budget(2.0, 1e-5)
    garbage = table.with_columns(pl.Series(column, [f"{i}\u0000junk"[:i] for i in range(60)]) for column in UNREAD)
    turned = table.with_columns(table[column].reverse() for column in UNREAD)
    nothing = table.with_columns(pl.lit(None, pl.String).alias(column) for column in UNREAD)
    for other in (garbage, turned, nothing, table.drop(UNREAD)):
        first, second = pair(table, other, mechanism, budget)
        nothing_moved(first, second)
        same_in_public(first.folder, second.folder)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", DRAWN)
def test_rules_touch_no_private_row(name, relation):
    """With the rules and without them the same numbers meet the noise, though many rows break one."""
    table, mechanism = people(80), build(name, {"rows": 30})
    plain = {column: fields for column, fields in COLUMNS.items() if column != "grade_name"}
    drop = {"grade_name": {"role": "drop"}}
    without = ad.Schema.from_dict({"columns": {**plain, **drop}})
    broken = SCHEMA.rules.broken(SCHEMA.rules.complete(_decoded(table)))
    assert broken.select(pl.any_horizontal(pl.all()).sum()).item() > 10
    for budget in budgets(relation):
        first, second = pair(table, table, mechanism, budget, (SCHEMA, without))
        nothing_moved(first, second)
        drawn = first.folder.table
        assert not SCHEMA.rules.broken(drawn).select(pl.any_horizontal(pl.all()).any()).item()


def _decoded(table: pl.DataFrame) -> pl.DataFrame:
    """The measured columns in their own types."""
    return decode(encode(table, SCHEMA).values, SCHEMA)


def test_what_is_computed_costs_nothing():
    """Noise grows with the columns that are measured, and with no other."""
    dropped = {name: {"role": "drop"} if name in UNREAD else fields for name, fields in COLUMNS.items()}
    scales = []
    for schema in (SCHEMA, ad.Schema.from_dict({"columns": dropped})):
        planned = ad.plan(people(60), schema, build("hybrid", {}), ad.Budget(2.0, 1e-5))
        scales.append([calibration.event.scale for calibration in planned.calibrations.values()])
        assert not set(UNREAD) & {column.name for column in schema.measured}
    assert scales[0] == scales[1]


@pytest.mark.parametrize("name", DRAWN)
def test_ids_are_fresh_and_say_nothing_but_their_place(name):
    table = people(50)
    out = ad.release(table, SCHEMA, build(name, {"rows": 30}), ad.Budget(2.0, 1e-5)).table
    assert out["patient"].to_list() == [f"P-AA{i:02}" for i in range(30)]
    assert not set(out["patient"]) & set(table["patient"])


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_missing_is_decided_by_noisy_numbers(name):
    """Two tables that differ in nothing but what is missing, and one set of noisy answers: the same cells are empty."""
    mechanism, budget = build(name, {}), ad.Budget(2.0, 1e-5)
    for one, other in ((0.5, 0.0), (0.0, 0.5), (0.02, 0.0)):
        first, second = pair(people(300, empty=one), people(300, empty=other), mechanism, budget)
        assert first.folder.table.equals(second.folder.table)
        assert any(change[0].any() for _, change in changes_of(first, second))


@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("name", DRAWN)
def test_where_n_is_private_a_release_follows_the_noisy_number_and_what_was_planned(name, delta):
    """From a handful of rows to thousands, with few columns and many: no later look costs other than was charged."""
    for columns in (1, 2, 3, 5, 6, 7):
        chosen = {f"c{place}": {"kind": "number", "low": 0, "high": 1} for place in range(columns)}
        label = {"ill": {"kind": "category", "values": ["no", "yes"], "role": "label"}}
        schema = ad.Schema.from_dict({"columns": {**chosen, **label}})
        for rows in (1, 30, 3000):
            rng = np.random.default_rng(rows)
            cells = {column: rng.random(rows) for column in chosen}
            table = pl.DataFrame({**cells, "ill": rng.choice(["no", "yes"], rows)})
            out = ad.release(table, schema, build(name, {}), ad.Budget(2.0, delta, Unit.ROW, Relation.ADD_REMOVE))
            assert out.card.table_rows is None and out.table.height >= 1
            assert out.table.height == pytest.approx(rows, abs=1000)
