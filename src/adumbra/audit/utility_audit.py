"""`adumbra audit jupa`: adversaries against a utility-aware release, and a test of what it promises, if anything.

What is promised differs from release to release. An accuracy is refuted by an adversary that is surely better; an
epsilon for the label by answers that are surely likelier under one label than under another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import beta

from adumbra.audit.adversaries import STATEMENT, AdversaryReport, SeededCoins, attack_jupa
from adumbra.audit.findings import NOT_REFUTED, REFUTED
from adumbra.common.errors import InputError
from adumbra.common.randomness import Coins, PublicSeed
from adumbra.common.types import Progress
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.numerics.splits import parts
from adumbra.report.document import Document, Mark, Table, Text, Value

__all__ = ["JupaAudit", "audit_bundled", "audit_jupa", "bundled_records", "jupa_document", "label_epsilon_at_least"]


_SHARES = (2 / 3, 1 / 3)
"""Of the labelled records: the adversary's own, and those that are attacked."""
_DRAWS = 20_000
_NO_PROMISE, _NO_BOUND = "no promise", "no bound"


@dataclass(frozen=True)
class JupaAudit:
    """One release under attack: what adversaries got, and whether what was promised can hold."""

    title: str
    adversaries: AdversaryReport
    promise: str
    claimed: float | None
    """Accuracy that no adversary should exceed; None where none is promised, or on terms that records cannot show."""
    surely: float
    """The worst adaptive adversary is at least this good, with the stated confidence."""
    claimed_epsilon: float | None
    """Epsilon for the privacy label, by randomised response; None where there is none."""
    lower_bound: float | None
    """Epsilon for the label is at least this, with the stated confidence."""
    confidence: float
    promised: bool = True
    """Whether the kind of release promises anything at all."""

    @property
    def verdict(self) -> str:
        """REFUTED, not refuted; or that there is no promise, or none that guesses could refute."""
        if self.claimed is None and self.claimed_epsilon is None:
            return _NO_BOUND if self.promised else _NO_PROMISE
        by_accuracy = self.claimed is not None and self.surely > self.claimed
        by_label = self.claimed_epsilon is not None and (self.lower_bound or 0.0) > self.claimed_epsilon
        return REFUTED if by_accuracy or by_label else NOT_REFUTED

    def to_json(self) -> dict[str, Any]:
        """Plain values; `claimed` and `verdict` are what scripts look for."""
        return {
            "title": self.title,
            "promise": self.promise,
            "claimed": self.claimed,
            "surely": self.surely,
            "claimed_epsilon": self.claimed_epsilon,
            "lower_bound": self.lower_bound,
            "confidence": self.confidence,
            "verdict": self.verdict,
            **self.adversaries.to_dict(),
        }


def jupa_document(found: Sequence[JupaAudit]) -> Document:
    """Every release beside what adversaries got of it, in per cent right."""
    rows: list[dict[str, Value]] = []
    for one in found:
        seen = one.adversaries
        label = "-" if one.claimed_epsilon is None else f"{one.claimed_epsilon:g} (at least {one.lower_bound:.3f})"
        rows.append(
            {
                "release": one.title,
                "service": _percent(seen.utility),
                "paper's": _percent(seen.papers),
                **{name: _percent(seen.adaptive.get(name)) for name in ("svm", "forest", "boosting", "reader")},
                "worst": f"{_percent(seen.worst)} ± {_percent(seen.standard_error)}",
                "chance": _percent(seen.chance),
                "claimed": _percent(one.claimed),
                "label eps": label,
                "unreached": _percent(seen.not_reached),
                "verdict": Mark(one.verdict, "bad" if one.verdict == REFUTED else "plain"),
            }
        )
    return Document(
        "audit of utility-aware releases, per cent right",
        (Table.of(rows), Text(STATEMENT)),
        {"wording": STATEMENT, "audits": [one.to_json() for one in found]},
    )


def _percent(share: float | None) -> str:
    return "-" if share is None or share != share else f"{100 * share:.1f}"


def audit_jupa(
    model: JupaModel,
    records: pl.DataFrame,
    *,
    title: str | None = None,
    seed: int = 0,
    quick: bool = False,
    confidence: float = 0.999,
    progress: Progress | None = None,
) -> JupaAudit:
    """Attack a fitted model with labelled records that it was not fitted on.

    Two thirds of the `records` are the adversary's own, one third is attacked; `seed` decides which. `surely` and
    `lower_bound` hold together with `confidence`. An average that is promised over the draw of public records is taken
    as if it held for these. `title` names the audit; `quick` trains smaller adversaries; `progress(step, done, total)`
    is called before each adversary.
    """
    if not 0 < confidence < 1:
        raise InputError("a confidence between 0 and 1", f"{confidence}", "give 0.999, for example")
    strata = model.labels_of(records, "utility") * len(model.privacy.classes) + model.labels_of(records, "privacy")
    drawn = PublicSeed.given(f"audit of a utility-aware release {seed}")
    own, attacked = (records[part] for part in parts(drawn.value, strata, _SHARES))
    report = attack_jupa(model, own, attacked, coins=SeededCoins(seed), quick=quick, progress=progress)
    words = model.words
    respond = words.label_epsilon is not None
    # each class's share of every adversary, and the two shares behind an epsilon
    tail = (1.0 - confidence) / (sum(len(found) for found in report.hits.values()) + (2 if respond else 0) or 1)
    return JupaAudit(
        title or model.recipe.release,
        report,
        words.promise,
        None if respond else words.accuracy_bound,
        max((_mean_at_least(found, tail) for found in report.hits.values()), default=0.0),
        words.label_epsilon,
        label_epsilon_at_least(model, attacked, tail) if respond else None,
        confidence,
        model.recipe.kind.promises,
    )


def label_epsilon_at_least(model: JupaModel, records: pl.DataFrame, tail: float) -> float:
    """A lower bound on the epsilon of the label: how often a label is answered where it is true and where it is not.

    The same `records` are released with one label and with another, and each bound fails with probability `tail`.
    What is drawn tells which label was answered.
    """
    rows = model.features.encode(records)
    rows = rows[np.resize(np.arange(len(rows)), _DRAWS)]
    said = []
    for truth in (0, 1):
        answer = model.step.answered(rows, np.full(len(rows), truth, dtype=np.int64), Coins())
        if answer is None:
            raise TypeError("only a release that answers a label at random has an epsilon for it")
        said.append(float((answer == 0).mean()))
    likely, unlikely = _at_least(said[0], _DRAWS, tail), _at_most(said[1], _DRAWS, tail)
    return max(0.0, math.log(likely / unlikely)) if likely > 0 else 0.0


def _mean_at_least(hits: Sequence[tuple[int, int]], tail: float) -> float:
    """Of the mean over classes: every class's lower end, averaged."""
    return float(np.mean([_at_least(right / there, there, tail) for right, there in hits]))


def _at_least(share: float, count: int, tail: float) -> float:
    """Clopper and Pearson's lower end."""
    hits = round(share * count) if count and math.isfinite(share) else 0
    return 0.0 if hits == 0 else float(beta.ppf(tail, hits, count - hits + 1))


def _at_most(share: float, count: int, tail: float) -> float:
    hits = round(share * count)
    return 1.0 if hits >= count else float(beta.ppf(1 - tail, hits + 1, count - hits))


def bundled_records() -> pl.DataFrame:
    """scikit-learn's handwritten digits: 64 grey levels, `parity` to predict and `high` (5 or more) to hide."""
    from sklearn.datasets import load_digits

    found = load_digits()
    columns = {f"pixel{i}": found.data[:, i] for i in range(found.data.shape[1])}
    digit = found.target
    return pl.DataFrame(
        columns | {"parity": np.where(digit % 2 == 0, "even", "odd"), "high": np.where(digit >= 5, "5 to 9", "0 to 4")}
    )


def audit_bundled(
    epsilon: float, *, quick: bool = True, confidence: float = 0.999, progress: Progress | None = None
) -> list[JupaAudit]:
    """Every kind of release on scikit-learn's digits: two fifths to fit on, the rest to attack with and to attack.

    `epsilon` is that of releases that have one. `quick` trains smaller adversaries, bounds hold with `confidence`, and
    `progress(title, done, total)` is called before each release.
    """
    frame = bundled_records()
    strata = np.unique(frame["parity"].to_numpy() + frame["high"].to_numpy(), return_inverse=True)[1]
    public, labelled = (frame[part] for part in parts(b"audit jupa", strata, (0.4, 0.6)))
    releases = [one for kind in release_kinds().values() for one in kind.audited(epsilon)]
    found = []
    for number, (title, release) in enumerate(releases):
        if progress is not None:
            progress(title, number, len(releases))
        model = fit_jupa(public, JupaRecipe("parity", "high", kind=release), seed=PublicSeed.given("audit jupa"))
        found.append(audit_jupa(model, labelled, title=title, quick=quick, confidence=confidence))
    return found
