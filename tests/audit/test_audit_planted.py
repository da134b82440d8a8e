"""What the audit itself notices of the planted bugs: run on broken code, it must say REFUTED or be stopped at the door.

docs/planted-bugs.md lists the same, and what an audit cannot see.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adumbra.audit import transcripts
from adumbra.audit.findings import REFUTED
from adumbra.audit.mechanism_attacks import Effort, Task, attack
from adumbra.mechanisms.catalogue import catalogue
from tests import plant_report
from tests.planted import (
    test_planted_cells,
    test_planted_meter,
    test_planted_noise,
    test_planted_pipeline,
    test_planted_queries,
    test_planted_sensitivity,
)
from tests.repeatable import repeatable  # noqa: F401

PAGE = Path(__file__).parents[2] / "docs" / "planted-bugs.md"
FEW = Effort(60, 60, 0.0, canaries=1000, releases=90)
MANY = Effort(800, 800, 0.0, canaries=1000, releases=60)


def task(
    name: str, neighbours: str, kind: str = "transcript", effort: Effort = FEW, delta: float = 1e-6, fresh: bool = False
) -> Task:
    index = [(str(c.neighbours), c.fresh) for c in catalogue()[name].challenges()].index((neighbours, fresh))
    return Task(kind, name, index, 4.0 if kind == "transcript" else 0.5, delta, effort)  # type: ignore[arg-type]


CAUGHT = {
    test_planted_noise.half_noise: task("tables", "row/replace", effort=MANY),
    test_planted_noise.two_thirds_noise: task("tables", "row/replace", effort=MANY),
    test_planted_meter.half_noise_on_one_part: task("dprp", "row/replace", effort=MANY),
    test_planted_noise.half_sigma: task("tables", "row/replace"),
    test_planted_pipeline.skipped_row_clip: task("dprp", "row/replace"),
    test_planted_pipeline.skipped_range_clip: task("tables", "row/replace"),
    test_planted_queries.scores_not_clipped: task("moments", "row/replace"),
    test_planted_pipeline.row_count_always_public: task("moments", "row/add-remove", "release"),
    test_planted_pipeline.row_count_on_the_card: task("tables", "row/add-remove", "release"),
    test_planted_noise.same_noise_twice: task("tables", "row/replace", effort=MANY),
    test_planted_sensitivity.one_hot_as_one_column: task("dppro", "cell/replace"),
    test_planted_sensitivity.replace_as_zero_out: task("dppro", "row/replace"),
    test_planted_sensitivity.fresh_rows_taken_for_emptied_ones: task("dppro", "row/replace", fresh=True),
    test_planted_sensitivity.added_row_for_a_replaced_one: task("tables", "row/replace"),
    test_planted_sensitivity.gram_without_root_two: task("dprp", "row/replace"),
    test_planted_queries.upper_triangle_weighed(2.0): task("dprp", "row/replace"),
    test_planted_noise.model_sees_the_exact_sums: task("hybrid", "row/replace"),
    test_planted_meter.class_sizes_taken_for_public: task("moments", "row/replace", "numbers"),
    test_planted_meter.label_passed_around_the_noise: task("dppro", "row/replace", "numbers"),
    test_planted_sensitivity.triangle_of_one_row: task("lip", "row/replace", delta=0.0),
    test_planted_sensitivity.products_without_root_two: task("power_method", "row/replace"),
    test_planted_queries.rows_about_a_centre_not_cut: task("analyze_gauss", "row/replace"),
    test_planted_sensitivity.rows_along_axes_paid_as_emptied: task("lop", "row/replace", delta=0.0),
    test_planted_noise.coordinates_without_noise: task("lop", "row/replace", "one-run", delta=0.0),
    test_planted_noise.half_l2_noise: task("lop", "row/replace", effort=MANY, delta=0.0),
    test_planted_cells.empty_cell_outside_its_range: task("tables", "row/zero-out"),
    test_planted_cells.empty_cell_counted_as_a_value_too: task("tables", "row/zero-out"),
    test_planted_cells.emptied_cell_thought_nowhere: task("tables", "row/zero-out"),
}


@pytest.mark.parametrize("plant", CAUGHT, ids=lambda plant: plant.__name__)
def test_the_audit_notices(plant, monkeypatch, record_property):
    record_property(plant_report.CASE, (plant.__name__, plant_report.AUDIT))
    transcripts._encoded_row.cache_clear()  # rows as the sound code or another bug encoded them
    plant(monkeypatch)
    try:
        found = attack(CAUGHT[plant])
    except RuntimeError as stopped:
        assert "at the door" in str(stopped)
    else:
        assert found.verdict == REFUTED, found
    finally:
        transcripts._encoded_row.cache_clear()


def test_the_page_lists_what_the_audit_notices():
    section = PAGE.read_text().split("## What the audit notices", 1)[1]
    listed = re.findall(r"^\| `([a-z0-9_.]+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(plant.__name__ for plant in CAUGHT)
