"""Budgets, shapes and texts that a release cannot have are refused before anything is paid."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.privacy.meter import Meter, check_countable
from adumbra.queries.second_moment import Gram

ONE = ad.Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})


def test_a_noise_scale_beyond_the_sampler_is_refused_before_the_charge(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    with pytest.raises(ad.InputError):
        ad.release(
            pl.DataFrame({"a": [0.1, 0.2]}),
            ONE,
            ad.DPPro(dimension=1),
            ad.Budget(1e-9, 0.0, "cell"),
            ledger=ledger,
            name="t",
        )
    assert not ledger.path.exists() or not ledger.events("t")


NUMBER = {"kind": "number", "low": 0, "high": 1}


def charged_nothing(tmp_path, table, schema, mechanism, budget):
    ledger = ad.Ledger(tmp_path / "second.db")
    with pytest.raises(ad.InputError):
        ad.release(table, ad.Schema.from_dict({"columns": schema}), mechanism, budget, ledger=ledger)
    assert not (tmp_path / "second.db").exists()


def test_a_second_look_that_cannot_be_held_is_refused_before_the_first_is_paid(tmp_path):
    values = [str(i) for i in range(16_500)]
    table = pl.DataFrame({"k": values[:5]})
    schema = {"k": {"kind": "category", "values": values}}
    for mechanism in (ad.Moments(rows=5), ad.Hybrid(rows=5), ad.DPRP()):
        charged_nothing(tmp_path, table, schema, mechanism, ad.Budget(1.0))
    assert (
        ad.release(table, ad.Schema.from_dict({"columns": schema}), ad.Auto(rows=5), ad.Budget(1.0)).card.mechanism
        == "tables"
    )


def test_more_cells_than_memory_are_refused_before_any_charge():
    """Bins beyond those of a domain by their own limit; a second moment of very many columns by the answer's."""
    with pytest.raises(ad.InputError):
        ad.Tables(bins=200_000_000)
    with pytest.raises(ad.InputError, match="an answer of at most"):
        check_countable(Gram(17_000), 1)


def test_lines_leave_room_for_each_others_slack(tmp_path):
    """Epsilon 80 at a tiny delta: together the lines cost more than was promised, found when all was paid."""
    schema = {f"c{i}": NUMBER for i in range(50)}
    table = pl.DataFrame({f"c{i}": [0.1, 0.9] for i in range(50)})
    for delta in (1e-15, 5e-18):
        charged_nothing(tmp_path, table, schema, ad.Hybrid(rows=5), ad.Budget(80.0, delta))
    charged_nothing(tmp_path, table, schema, ad.Tables(rows=5), ad.Budget(1000.0, 0.0))


def test_text_that_no_card_can_hold_is_refused_before_any_charge(tmp_path):
    table = pl.DataFrame({"k": ["a"]})
    charged_nothing(
        tmp_path, table, {"k": {"kind": "category", "values": ["a", "\ud800"]}}, ad.Tables(), ad.Budget(1.0)
    )


def test_a_refused_charge_cannot_be_passed_by(tmp_path):
    """A mechanism that swallows the refusal and asks for its next line must be refused again."""
    ledger = ad.Ledger(tmp_path / "cap.db")
    ledger.set_cap("t", ad.Neighbours.parse("row/replace"), 0.5, 1e-6)

    @dataclasses.dataclass(frozen=True)
    class Stubborn(ad.Moments):
        def run(self, door, setting):
            if not isinstance(door, Meter):  # a made-up table before the charge
                return super().run(door, setting)
            for line, query in self.queries(setting).items():
                with contextlib.suppress(ad.Refused):
                    door.measure(line, query)
                    raise AssertionError("measured what was refused")
            raise ad.InputError("nothing", "more", "to do")

    schema = ad.Schema.from_dict({"table": {"name": "t"}, "columns": {"a": NUMBER}})
    with pytest.raises(ad.InputError, match="nothing"):
        ad.release(pl.DataFrame({"a": [0.1]}), schema, Stubborn(), ad.Budget(1.0), ledger=ledger)
    with pytest.raises(ad.Refused, match=r"\(0 is already spent\)"):
        ad.release(pl.DataFrame({"a": [0.1]}), schema, ad.Moments(), ad.Budget(1.0), ledger=ledger)


@pytest.mark.parametrize("epsilon", [100.0, 1e-12])
def test_a_budget_that_rows_cannot_have_is_refused_before_the_axes_are_paid_for(epsilon, tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    private = ad.sklearn.PrivatePCA(low=0, high=1, n_components=1, transform_epsilon=epsilon, ledger=ledger)
    with pytest.raises(ad.InputError):
        private.fit(np.full((20, 3), 0.4))
    assert not (tmp_path / "ledger.db").exists() and not hasattr(private, "components_")


def test_noise_that_the_sampler_by_length_cannot_draw_is_refused_before_the_charge(tmp_path):
    schema = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(300)}})
    frame = pl.DataFrame({f"c{i}": [0.1, 0.2] for i in range(300)})
    ledger = ad.Ledger(tmp_path / "ledger.db")
    with pytest.raises(ad.InputError, match="sampler can draw"):
        ad.release(frame, schema, ad.LIP(noise="l2-laplace"), ad.Budget(2e-5, 0.0), ledger=ledger)
    assert not (tmp_path / "ledger.db").exists()
