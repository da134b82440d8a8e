"""The scikit-learn estimator of utility-aware releases: what it leaves, states and refuses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from adumbra.sklearn import JUPA
from tests.jupa.records import _records


def test_the_estimator_states_no_accuracy_that_depends_on_an_if() -> None:
    records = _records(900, 5, unequal=0.35)
    fitted = JUPA(release="respond", epsilon=0.1, model="linear", seed=1)
    fitted.fit(records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), privacy=records["s"].to_numpy())
    assert fitted.accuracy_bound_ is None or fitted.accuracy_bound_ >= 0.75


def test_a_noisy_transform_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    records = _records(100, 9)
    rows = records.select("a", "b", "c").to_numpy()
    fitted = JUPA(release="laplace", epsilon=1.0, n_components=1).fit(
        rows, records["u"].to_numpy(), privacy=records["s"]
    )
    fitted.transform(rows)
    assert list(tmp_path.iterdir()) == []


def test_an_audit_of_the_estimator_refuses_labels_it_never_saw() -> None:
    records = _records(100, 9)
    rows, u, s = records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), records["s"].to_numpy()
    fitted = JUPA(release="coarse").fit(rows, u, privacy=s)
    with pytest.raises(ValueError, match="label"):
        fitted.audit(rows, u + 7, s, quick=True)


def test_privacy_labels_that_are_missing_are_refused_with_words() -> None:
    records = _records(100, 9)
    labels = np.array(["x", None] * 50, dtype=object)
    with pytest.raises(ValueError, match="label"):
        JUPA(release="coarse").fit(records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), privacy=labels)
