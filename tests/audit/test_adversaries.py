"""Adversaries of utility-aware releases: they find what is planted and nothing else."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits

from adumbra.audit import adversaries
from adumbra.audit.adversaries import ADVERSARIES, STATEMENT, SeededCoins, attack_jupa, train_and_score
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe


@dataclass
class Stand:
    """A model whose release is the given function of (plain rows, privacy classes, coins)."""

    how: object
    keep: object = None
    calls: list[int] = field(default_factory=list)

    @property
    def recipe(self):
        return SimpleNamespace(release="made up")

    def labels_of(self, frame, which):
        return frame[{"utility": "u", "privacy": "s"}[which]].to_numpy()

    def unperturbed(self, frame):
        return frame.select("a", "b").to_numpy().astype(float)

    def release_rows(self, frame, coins, *, progress=None):
        self.calls.append(frame.height)
        rows = self.how(self.unperturbed(frame), self.labels_of(frame, "privacy"), coins)
        kept = np.arange(frame.height) if self.keep is None else np.flatnonzero(self.keep(frame))
        return SimpleNamespace(rows=rows[kept], kept=kept, not_reached=frame.height - len(kept))


def as_is(rows, secret, coins):
    return rows


def noise(rows, secret, coins):
    return coins.uniform(2 * len(rows)).reshape(-1, 2)


def with_secret(rows, secret, coins):
    return np.column_stack([secret + 0.01 * coins.uniform(len(rows)), coins.uniform(len(rows))])


def flipped(rows, secret, coins):
    return -rows


def records(seed: int, size: int, classes: int = 2) -> pl.DataFrame:
    """Column a carries the privacy class, column b the utility class; the classes are independent and balanced."""
    rng = np.random.default_rng(seed)
    s, u = rng.permutation(np.arange(size) % classes), rng.permutation(np.arange(size) % 2)
    a, b = 4.0 * (s - (classes - 1) / 2) + rng.normal(size=size), 4.0 * (u - 0.5) + rng.normal(size=size)
    return pl.DataFrame({"a": a, "b": b, "u": u, "s": s})


OWN, TEST = records(1, 200), records(2, 160)


def test_a_planted_secret_is_found_by_every_adversary():
    report = attack_jupa(Stand(with_secret), OWN, TEST)
    assert min(report.adaptive.values()) > 0.98
    assert report.worst == max(report.adaptive.values()) == report.adaptive[report.strongest]
    assert not report.holds()
    assert report.chance == 0.5
    assert set(report.adaptive) == set(ADVERSARIES)


def test_noise_shows_nothing():
    """Also catches a model that was trained on the records it is tested on: a forest would remember them."""
    test = records(2, 2000)
    report = attack_jupa(Stand(noise), OWN, test)
    assert report.chance == 0.5
    assert abs(report.worst - 0.5) < 3 * math.sqrt(0.25 / 2000)
    assert abs(report.papers - 0.5) < 3 * math.sqrt(0.25 / 2000)
    assert report.utility < 0.56 and report.retrained < 0.56
    assert report.holds(0.035)


def test_only_the_adaptive_adversary_sees_through_a_flip():
    report = attack_jupa(Stand(flipped), OWN, TEST)
    assert report.papers < 0.1 and report.utility < 0.1
    assert report.worst > 0.93 and report.retrained > 0.93


def test_untouched_records_serve_both():
    report = attack_jupa(Stand(as_is), OWN, TEST)
    assert min(report.utility, report.retrained, report.papers, report.worst) > 0.93
    each = [right / there * (1 - right / there) / there for right, there in report.hits[report.strongest]]
    assert report.standard_error == pytest.approx(math.sqrt(sum(each)) / 2)
    assert report.records == 160 and report.not_reached == 0.0
    assert report.release == "made up"


def test_the_adaptive_adversary_beats_the_papers_on_a_fine_step():
    """Digits: the step fools who trained on untouched records and hides little (three seeds: 61 to 73, 87 to 89)."""
    digits = load_digits()
    frame = pl.DataFrame({f"p{i}": digits.data[:, i] for i in range(64)}).with_columns(
        u=pl.Series(digits.target % 2), s=pl.Series((digits.target >= 5).astype(int))
    )
    train, own, test = frame[:500], frame[500:1000], frame[1000:1500]
    recipe = JupaRecipe("u", "s", projection="pca", components=30, release="fine", most_steps=60, keep_unreached=True)
    model = fit_jupa(train, recipe, seed=PublicSeed.given("adversaries"))
    report = attack_jupa(model, own, test, repeats=1, quick=True)
    assert report.worst > report.papers + 0.08
    assert report.worst > report.chance + 0.3
    assert not report.holds()


def test_accuracy_is_over_released_records_and_chance_over_all():
    """Leaving out one class altogether tells the class of the others; it must not count as chance."""
    report = attack_jupa(Stand(noise, keep=lambda frame: frame["s"].to_numpy() == 1), OWN, TEST)
    assert report.chance == 0.5
    assert report.worst == 1.0 and not report.holds()
    assert report.records == 80
    assert report.not_reached == 0.5


def test_labels_follow_the_records_that_were_kept():
    report = attack_jupa(Stand(as_is, keep=lambda frame: frame["b"].to_numpy() > 0), OWN, TEST)
    assert report.worst > 0.93 and report.papers > 0.93
    assert report.utility > 0.93 and report.retrained > 0.93


def test_nothing_released_is_no_success():
    report = attack_jupa(Stand(as_is, keep=lambda frame: np.zeros(frame.height, dtype=bool)), OWN, TEST)
    assert math.isnan(report.worst) and math.isnan(report.utility) and report.not_reached == 1.0
    assert not report.holds() and report.records == 0 and report.strongest == ""
    content = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert content["worst"] is None and content["adaptive"]["forest"] is None and content["holds"] is False


def test_the_report_says_what_it_cannot_say():
    content = attack_jupa(Stand(as_is), OWN, TEST, quick=True).to_dict()
    assert content["statement"] == STATEMENT
    assert "lower bound" in STATEMENT and "never prove" in STATEMENT
    assert {"papers", "adaptive", "worst", "chance", "utility", "retrained", "not_reached"} <= set(content)


def test_the_same_attack_gives_the_same_numbers():
    first, second = (attack_jupa(Stand(noise), OWN, TEST, quick=True).to_dict() for _ in range(2))
    assert first == second
    other = attack_jupa(Stand(noise), OWN, TEST, coins=SeededCoins(5), quick=True).to_dict()
    assert other != first


def test_releases_are_simulated_as_often_as_asked_unless_all_are_the_same():
    chancy, fixed = Stand(noise), Stand(as_is)
    attack_jupa(chancy, OWN, TEST, repeats=4, quick=True)
    assert chancy.calls == [200] * 4 + [160]
    attack_jupa(fixed, OWN, TEST, repeats=4, quick=True)
    assert fixed.calls == [200] * 2 + [160]


def test_each_simulation_tosses_its_own_coins(monkeypatch):
    seen = []
    plain = adversaries.trained_adversary

    def watched(name, rows, labels, groups, *rest, **more):
        if len(rows) == 600:  # those who learn from unperturbed records see each once
            seen.append((name, rows, labels, groups))
        return plain(name, rows, labels, groups, *rest, **more)

    monkeypatch.setattr(adversaries, "trained_adversary", watched)
    attack_jupa(Stand(with_secret), OWN, TEST, repeats=3, quick=True)
    assert [name for name, *_ in seen] == ["svm", "forest", "boosting", "forest"]
    for number, (_, rows, learnt, groups) in enumerate(seen):
        assert len(np.unique(rows[:, 1])) == 600
        assert np.array_equal(groups, np.tile(np.arange(200), 3))
        assert np.array_equal(learnt, np.tile(OWN["s" if number < 3 else "u"].to_numpy(), 3))


def test_models_on_untouched_rows_are_trained_once():
    shared: dict[bytes, object] = {}
    alone = [attack_jupa(Stand(how), OWN, TEST, quick=True) for how in (as_is, flipped)]
    together = [attack_jupa(Stand(how), OWN, TEST, quick=True, trained=shared) for how in (as_is, flipped)]
    assert alone == together
    assert len(shared) == 2
    attack_jupa(Stand(as_is), OWN[:150], TEST, quick=True, trained=shared)
    assert len(shared) == 4


def test_progress_ends_before_its_total():
    seen = []
    attack_jupa(Stand(as_is), OWN, TEST, quick=True, progress=lambda *step: seen.append(step))
    assert [done for _, done, _ in seen] == list(range(len(seen)))
    assert {total for _, _, total in seen} == {len(seen)}


def test_many_classes():
    own, test = records(3, 600, classes=10), records(4, 300, classes=10)
    report = attack_jupa(Stand(as_is), own, test, quick=True)
    assert report.chance == 0.1
    assert min(report.adaptive.values()) > 0.85
    hidden = attack_jupa(Stand(noise), own, test, quick=True)
    assert hidden.worst < 0.1 + 3 * math.sqrt(0.09 / 300)


def test_releases_of_one_record_stay_on_one_side():
    """Five near copies of each record: across folds, a machine that remembers records would look best."""
    rng = np.random.default_rng(0)

    def draw(size):
        z = rng.normal(size=(size, 2))
        return z, (z[:, 0] + 1.5 * rng.normal(size=size) > 0).astype(int)

    (z, s), (fresh, truth) = draw(120), draw(4000)
    groups = np.tile(np.arange(120), 5)
    copies = np.tile(z, (5, 1)) + 1e-3 * rng.normal(size=(600, 2))
    together = train_and_score(copies, s[groups], fresh, truth, ("svm",), groups=groups)["svm"]
    apart = train_and_score(copies, s[groups], fresh, truth, ("svm",))["svm"]
    assert together > apart + 0.03


def test_large_sets_are_cut_down_for_the_machine_only():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(8000, 1))
    s = (z[:, 0] > 1.5).astype(int)
    found = adversaries.trained_adversary("svm", z, s, np.arange(8000), True)
    assert 5900 < found[-1].shape_fit_[0] < 6100
    assert found[-1].n_support_.min() > 0
    assert np.mean(found.predict(z) == s) > 0.98


def test_one_class_to_learn_from_gives_a_constant_answer():
    z = np.random.default_rng(0).normal(size=(20, 2))
    found = train_and_score(z, np.ones(20, dtype=int), z, np.arange(20) % 2)
    assert found == dict.fromkeys(ADVERSARIES, 0.5)


def test_rare_classes_do_not_stop_it():
    z = np.random.default_rng(0).normal(size=(40, 1))
    s = np.r_[np.zeros(38), 1, 2].astype(int)
    found = train_and_score(z, s, z, s)
    assert min(found.values()) >= 0.9


def test_nothing_to_test_is_no_number():
    z = np.zeros((4, 1))
    assert math.isnan(train_and_score(z, np.arange(4) % 2, np.empty((0, 1)), np.empty(0), ("forest",))["forest"])


def test_coins_repeat_and_are_fair():
    coins = SeededCoins(3)
    sides, shares = coins.below(5, 20000), coins.uniform(20000)
    again = SeededCoins(3)
    assert np.array_equal(again.below(5, 20000), sides) and np.array_equal(again.uniform(20000), shares)
    assert sides.dtype == np.int64
    assert np.abs(np.bincount(sides, minlength=5) / 20000 - 0.2).max() < 0.012
    assert shares.min() >= 0.0 and shares.max() < 1.0 and abs(shares.mean() - 0.5) < 0.01
    assert not np.array_equal(SeededCoins(4).uniform(5), SeededCoins(3).uniform(5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z: train_and_score(z, np.arange(4) % 2, z, np.arange(4) % 2, ("oracle",)), "svm, forest, boosting"),
        (lambda z: train_and_score(z, np.arange(4) % 2, z[:, :1], np.arange(4) % 2), "one width"),
        (lambda z: train_and_score(z, np.arange(3) % 2, z, np.arange(4) % 2), "a label each"),
        (lambda z: train_and_score(z[:0], np.arange(0), z, np.arange(4) % 2), "learn from"),
        (lambda z: attack_jupa(Stand(as_is), OWN, TEST, repeats=0), "repeats"),
        (lambda z: attack_jupa(Stand(as_is), OWN[:0], TEST), "records to learn from"),
        (lambda z: attack_jupa(Stand(as_is), OWN, TEST[:0]), "records to learn from"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call(np.zeros((4, 2)))
