"""The fine step: what a plain loop over records does, for every kernel, however it is compiled, split and saved."""

from __future__ import annotations

import inspect
import io
import threading
import tracemalloc

import numpy as np
import pytest

from adumbra.common.errors import InputError
from adumbra.jupa.learning import kernel_choice, kernel_passes
from adumbra.jupa.learning.kernel_choice import choose_kernel, fit_fine_step, median_distance
from adumbra.jupa.learning.mmd import KERNELS, FineStep, LabelRule, Moved

SEED = b"a public seed of some length...."

FORM = {
    "rbf": lambda q: np.exp(-q / 2),
    "laplacian": lambda q: np.exp(-np.sqrt(q)),
    "inverse-multiquadric": lambda q: 1 / np.sqrt(1 + q),
    "cauchy": lambda q: 1 / (1 + q / 2),
}
SLOPE = {  # -2 f'(q)
    "rbf": lambda q: np.exp(-q / 2),
    "laplacian": lambda q: np.exp(-np.sqrt(q)) / np.where(q > 0, np.sqrt(q), np.inf),
    "inverse-multiquadric": lambda q: (1 + q) ** -1.5,
    "cauchy": lambda q: (1 + q / 2) ** -2.0,
}


def clouds(count, classes, width, apart=1.0, seed=0):
    """Normal clouds around random centres, and the number of the cloud of each row."""
    centres = np.random.default_rng(7).normal(size=(classes, width)) * apart
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    labels[:classes] = np.arange(classes)
    return centres[labels] + rng.normal(size=(count, width)), labels


def kernel_matrix(kernel, h, a, b):
    return FORM[kernel](((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2) / h**2)


def explicit_distances(rule, z):
    """Equation (10) as it is written, for one row."""
    out = []
    for label in range(rule.classes):
        rows = rule.rows[rule.labels == label]
        inner = kernel_matrix(rule.kernel, rule.bandwidth, rows, rows).sum() / len(rows) ** 2
        cross = 2 / len(rows) * kernel_matrix(rule.kernel, rule.bandwidth, rows, z[None]).sum()
        out.append(inner - cross + 1.0)
    return np.array(out)


def half_loss(fine, first, theta, source, target):
    """Half of the kernel part of (12), which is what (13) is the gradient of, and the damping."""
    z = (first + theta)[None]
    total = 0.0
    for label, sign in ((target, 1.0), (source, -1.0)):
        rows = fine.rows[fine.labels == label]
        inner = kernel_matrix(fine.kernel, fine.bandwidth, rows, rows).mean()
        total += sign * (inner - 2 * kernel_matrix(fine.kernel, fine.bandwidth, rows, z).mean()) / 2
    return total + fine.damping / fine.bandwidth**2 / 2 * theta @ theta


def one_by_one(fine, rows, targets):
    """The definition: one record after the other, one step after the other, all distances in every step."""
    h = fine.bandwidth
    out, reached, steps, sources = rows.copy(), [], [], []
    for i, (first, target) in enumerate(zip(rows, targets, strict=True)):
        source = label = int(np.argmin(explicit_distances(fine.rule, first)))
        theta, taken = np.zeros(len(first)), 0
        while label != target and taken < fine.most_steps:
            z = first + theta
            gradient = fine.damping / h**2 * theta
            for which, sign in ((source, 1.0), (target, -1.0)):
                members = fine.rows[fine.labels == which]
                q = ((members - z) ** 2).sum(axis=1) / h**2
                gradient = gradient + sign * (SLOPE[fine.kernel](q)[:, None] * (members - z) / h**2).mean(axis=0)
            theta = theta - fine.step * h**2 * gradient
            theta = theta * min(1.0, fine.farthest * h / np.linalg.norm(theta))
            taken += 1
            label = int(np.argmin(explicit_distances(fine.rule, first + theta)))
        out[i] = first + theta
        reached.append(label == target)
        steps.append(taken)
        sources.append(source)
    return Moved(out, np.array(reached), np.array(steps), np.array(sources))


def step_on(kernel, classes, width, *, factor=1.0, count=120, seed=0, **options):
    rows, labels = clouds(count, classes, width, seed=seed)
    return fit_fine_step(rows, labels, classes, seed=SEED, kernel=kernel, bandwidth=factor, **options)


def same(one: Moved, two: Moved):
    """Equal bit by bit."""
    return all(getattr(one, name).tobytes() == getattr(two, name).tobytes() for name in vars(one))


# ---- against the definition


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("classes", "width"), [(2, 1), (2, 3), (5, 2)])
def test_moves_are_those_of_a_loop_over_records(kernel, classes, width):
    fine = step_on(kernel, classes, width, most_steps=12, farthest=0.7, damping=0.01, step=0.5)
    rows, _ = clouds(45, classes, width, seed=1)
    rows[0] = fine.rows[0]  # at a row itself the laplacian kernel has a peak
    targets = np.random.default_rng(2).integers(0, classes, len(rows))
    ours, theirs = fine.move(rows, targets), one_by_one(fine, rows, targets)
    assert np.abs(ours.rows - theirs.rows).max() < 1e-10
    for name in ("reached", "steps", "source"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist()
    assert np.any(ours.reached) and np.any(ours.steps > 2) and np.any(ours.steps == 0)
    assert np.array_equal(ours.source, fine.rule.label(rows))


def test_slope_and_label_may_have_kernels_of_their_own():
    rows, labels = clouds(80, 3, 2)
    rule = LabelRule(rows[:40], labels[:40], 3, "cauchy", 0.7)
    fine = FineStep(rows[40:], labels[40:], rule, "rbf", 1.3, most_steps=20)
    records, _ = clouds(30, 3, 2, seed=4)
    targets = np.arange(30) % 3
    ours, theirs = fine.move(records, targets), one_by_one(fine, records, targets)
    assert np.abs(ours.rows - theirs.rows).max() < 1e-10
    assert ours.steps.tolist() == theirs.steps.tolist()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_step_goes_down_the_gradient_of_the_loss(kernel):
    settings = {"damping": 0.3, "step": 0.8}
    rows, _ = clouds(40, 3, 2, seed=1)
    targets = np.random.default_rng(2).integers(0, 3, len(rows))
    runs = [step_on(kernel, 3, 2, most_steps=most, **settings).move(rows, targets).rows for most in (1, 2, 3)]
    fine = step_on(kernel, 3, 2, most_steps=3, **settings)
    moved = fine.move(rows, targets)
    checked = 0
    for i in np.flatnonzero(moved.steps == 3):
        before = rows[i]
        for after in (run[i] for run in runs):
            theta, gradient = before - rows[i], np.empty(2)
            for c in range(2):
                nudge = np.zeros(2)
                nudge[c] = 1e-5
                ends = [half_loss(fine, rows[i], theta + s * nudge, moved.source[i], targets[i]) for s in (1, -1)]
                gradient[c] = (ends[0] - ends[1]) / 2e-5
            assert np.allclose(after - before, -fine.step * fine.bandwidth**2 * gradient, atol=1e-7)
            before = after
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("kernel", KERNELS)
def test_labels_and_distances_are_those_of_equation_10(kernel):
    rows, labels = clouds(90, 4, 3)
    rule = LabelRule(rows, labels, 4, kernel, 1.4)
    records, _ = clouds(70, 4, 3, seed=3)
    expected = np.array([explicit_distances(rule, record) for record in records])
    assert np.abs(rule.distances(records) - expected).max() < 1e-13
    assert np.array_equal(rule.label(records), expected.argmin(axis=1))
    assert (rule.label(rows) == labels).mean() > 0.4


def test_a_distance_is_that_of_kernel_means():
    rule = LabelRule(np.array([[0.0], [0.0], [9.0]]), np.array([0, 0, 1]), 2, "rbf", 1.0)
    assert rule.distances(np.array([[0.0]]))[0, 0] == 0.0  # the mean of class 0 is the image of 0 itself
    assert rule.distances(np.array([[0.0]]))[0, 1] == pytest.approx(2 - 2 * np.exp(-40.5), abs=1e-15)


def test_exponentials_are_those_of_the_library():
    powers = -np.concatenate([np.linspace(0, 40, 20_001), np.linspace(40, 708, 20_001), [1e-300, 1e-17]])
    found, turns = powers.copy(), np.empty(len(powers))
    kernel_passes._exponentials(found, found.view(np.int64), turns, turns.view(np.int64))
    assert np.abs(found / np.exp(powers) - 1).max() < 1e-15
    far, turns = np.array([-709.0, -1e300, -np.inf, 0.0]), np.empty(4)
    kernel_passes._exponentials(far, far.view(np.int64), turns, turns.view(np.int64))
    assert np.all(far[:3] < 1e-307) and far[3] == 1.0


# ---- where rows stop


def test_rows_whose_label_is_the_target_stay_as_they_are():
    fine = step_on("rbf", 3, 2)
    rows, _ = clouds(50, 3, 2, seed=1)
    given = rows.copy()
    moved = fine.move(rows, fine.rule.label(rows))
    assert moved.rows.tobytes() == rows.tobytes() == given.tobytes()
    assert moved.reached.all() and not moved.steps.any()
    assert not np.shares_memory(moved.rows, rows)


def test_the_given_rows_are_not_written_to():
    fine = step_on("rbf", 2, 2)
    rows, _ = clouds(50, 2, 2, seed=1)
    given = rows.copy()
    moved = fine.move(rows, 1 - fine.rule.label(rows))
    assert rows.tobytes() == given.tobytes()
    assert np.all(np.any(moved.rows != rows, axis=1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_reached_means_that_the_label_is_the_target(kernel):
    fine = step_on(kernel, 5, 2, count=200)
    rows, _ = clouds(200, 5, 2, seed=1)
    targets = np.random.default_rng(2).integers(0, 5, len(rows))
    moved = fine.move(rows, targets)
    assert np.array_equal(moved.reached, fine.rule.label(moved.rows) == targets)
    assert np.all(moved.steps[~moved.reached] == fine.most_steps)
    assert 0.2 < moved.reached.mean() < 1.0


def test_targets_without_a_place_are_never_reached():
    rows = np.concatenate([np.linspace(-1, 1, 20)] * 2)[:, None]
    labels = np.repeat([0, 1], 20)  # both classes are the same, and the first of equals counts
    fine = FineStep(rows, labels, LabelRule(rows, labels, 2, "rbf", 1.0), "rbf", 1.0, most_steps=17)
    moved = fine.move(np.array([[0.0], [0.5], [90.0]]), np.array([1, 0, 1]))
    assert moved.reached.tolist() == [False, True, False]
    assert moved.steps.tolist() == [17, 0, 17]
    assert moved.source.tolist() == [0, 0, 0]
    assert moved.rows.ravel().tolist() == [0.0, 0.5, 90.0]  # equal pulls from both sides


def test_far_from_all_rows_one_class_counts_and_nothing_breaks():
    for kernel in KERNELS:
        fine = step_on(kernel, 3, 2)
        away = np.array([[1e90, -1e90], [1e99, 0.0]])
        labels = fine.rule.label(away)
        assert labels[0] == labels[1] == np.argmin(fine.rule.distances(away)[0])
        moved = fine.move(away, (labels + 1) % 3)
        assert not moved.reached.any() and np.isfinite(moved.rows).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_row_goes_farther_than_the_cap(kernel):
    rows, labels = clouds(60, 2, 2, seed=1)
    fine = step_on(kernel, 2, 2, farthest=0.3, step=20.0, most_steps=40)
    ways = np.linalg.norm(fine.move(rows, 1 - labels).rows - rows, axis=1)
    assert ways.max() <= 0.3 * fine.bandwidth * (1 + 1e-12)
    assert ways.max() > 0.3 * fine.bandwidth * (1 - 1e-12)
    free = step_on(kernel, 2, 2, step=20.0, most_steps=40)
    assert np.linalg.norm(free.move(rows, 1 - labels).rows - rows, axis=1).max() > 0.3 * fine.bandwidth


@pytest.mark.parametrize("extreme", [{"step": 9e5}, {"damping": 9e5}, {"farthest": 9e5, "step": 9e5, "damping": 9e5}])
def test_wild_settings_still_give_numbers(extreme):
    rows, labels = clouds(40, 2, 2, seed=1)
    moved = step_on("laplacian", 2, 2, **extreme).move(rows, 1 - labels)
    assert np.isfinite(moved.rows).all()


# ---- units, threads, order


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 250.0])
def test_another_unit_and_origin_change_nothing(kernel, unit):
    origin = np.array([3.0, -2.0]) * unit
    rows, labels = clouds(120, 3, 2)
    records, _ = clouds(60, 3, 2, seed=1)
    targets = np.random.default_rng(2).integers(0, 3, len(records))
    options = {"kernel": kernel, "bandwidth": 1.0, "most_steps": 40, "damping": 0.05, "farthest": 1.5}
    one = fit_fine_step(rows, labels, 3, seed=SEED, **options)
    two = fit_fine_step(rows * unit + origin, labels, 3, seed=SEED, **options)
    assert two.bandwidth == pytest.approx(unit * one.bandwidth)
    here, there = one.move(records, targets), two.move(records * unit + origin, targets)
    assert here.steps.tolist() == there.steps.tolist()
    assert np.abs((there.rows - origin) / unit - here.rows).max() < 1e-9
    assert np.any(here.steps == 40)


def test_threads_order_and_company_change_no_bit(monkeypatch):
    fine = step_on("laplacian", 4, 3)
    rows, _ = clouds(150, 4, 3, seed=1)
    targets = np.random.default_rng(2).integers(0, 4, len(rows))
    monkeypatch.setenv("ADUMBRA_THREADS", "1")
    alone = fine.move(rows, targets)
    distances = fine.rule.distances(rows)
    monkeypatch.setenv("ADUMBRA_THREADS", "3")
    assert same(fine.move(rows, targets), alone)
    assert fine.rule.distances(rows).tobytes() == distances.tobytes()
    order = np.random.default_rng(3).permutation(len(rows))[:70]
    some = fine.move(rows[order], targets[order])
    assert some.rows.tobytes() == alone.rows[order].tobytes()
    assert some.steps.tolist() == alone.steps[order].tolist()
    none = fine.move(rows[:0], targets[:0])
    assert none.rows.shape == (0, 3) and none.steps.shape == (0,)


def test_progress_is_told_in_order_by_the_calling_thread(monkeypatch):
    fine = step_on("rbf", 2, 1)
    rows, _ = clouds(100, 2, 1, seed=1)
    told = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ADUMBRA_THREADS", threads)
        told.clear()
        fine.move(rows, np.zeros(100, int), progress=lambda *what: told.append((*what, threading.get_ident())))
        assert {what[0] for what in told} == {"fine step"} and {what[3] for what in told} == {threading.get_ident()}
        assert [what[1] for what in told] == [32, 64, 96, 100] and {what[2] for what in told} == {100}


def test_memory_is_that_of_rows_not_of_pairs(monkeypatch):
    monkeypatch.setenv("ADUMBRA_THREADS", "2")
    public, labels = clouds(6000, 2, 2)
    fine = fit_fine_step(public, labels, 2, seed=SEED, kernel="cauchy", bandwidth=1.0, most_steps=2)
    rows, _ = clouds(3000, 2, 2, seed=1)
    fine.move(rows[:2], np.array([0, 1]))
    tracemalloc.start()
    fine.move(rows, np.zeros(3000, int))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20  # pairs would be 69 MB


def test_nobody_can_hand_over_a_true_label():
    assert list(inspect.signature(FineStep.move).parameters) == ["self", "z", "targets", "progress"]


# ---- fitting


def test_halves_are_disjoint_and_have_every_class():
    rows, labels = clouds(203, 5, 2)
    fine = fit_fine_step(rows, labels, 5, seed=SEED, kernel="rbf", bandwidth=2.0)
    place = {row.tobytes(): i for i, row in enumerate(rows)}
    ground = [place[row.tobytes()] for row in fine.rows]
    verification = [place[row.tobytes()] for row in fine.rule.rows]
    assert sorted(ground + verification) == list(range(203))
    assert labels[ground].tolist() == fine.labels.tolist()
    assert labels[verification].tolist() == fine.rule.labels.tolist()
    counts = np.bincount(fine.labels), np.bincount(fine.rule.labels)
    assert np.abs(counts[0] - counts[1]).max() <= 1
    assert fine.bandwidth == fine.rule.bandwidth == 2.0 * median_distance(rows)
    assert fine.kernel == fine.rule.kernel == "rbf" and fine.choice is None


def test_a_seed_decides_everything():
    rows, labels = clouds(90, 3, 2)
    records, _ = clouds(40, 3, 2, seed=1)
    targets = np.arange(40) % 3
    options = {"kernel": "auto", "bandwidth": 1.0, "most_steps": 20}
    one, two, other = (fit_fine_step(rows, labels, 3, seed=seed, **options) for seed in (SEED, SEED, b"another"))
    assert same(one.move(records, targets), two.move(records, targets)) and one.choice == two.choice
    assert one.rows.tobytes() != other.rows.tobytes()


@pytest.mark.parametrize("kernel", ["auto", "cauchy"])
def test_saved_arrays_give_the_same_step(kernel):
    rows, labels = clouds(90, 3, 2)
    fine = fit_fine_step(
        rows,
        labels,
        3,
        seed=SEED,
        kernel=kernel,
        bandwidth=1.5,
        step=0.7,
        damping=0.02,
        most_steps=25,
        farthest=3.0,
    )
    file = io.BytesIO()
    np.savez(file, **fine.arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        again = FineStep.from_arrays(dict(arrays))
    for name in ("kernel", "bandwidth", "step", "damping", "most_steps", "farthest", "choice"):
        assert getattr(again, name) == getattr(fine, name)
    assert (again.rule.kernel, again.rule.bandwidth) == (fine.rule.kernel, fine.rule.bandwidth)
    records, _ = clouds(40, 3, 2, seed=1)
    assert same(again.move(records, np.arange(40) % 3), fine.move(records, np.arange(40) % 3))


@pytest.mark.parametrize("lost", ["ground", "verification_labels", "numbers", "kernels", "tried"])
def test_arrays_of_another_form_are_refused(lost):
    arrays = step_on("rbf", 2, 1).arrays()
    with pytest.raises(InputError, match="arrays of a fine step"):
        FineStep.from_arrays({name: array for name, array in arrays.items() if name != lost})
    with pytest.raises(InputError):
        FineStep.from_arrays({**arrays, "numbers": arrays["numbers"][:3]})


def test_the_median_is_that_of_rows_that_differ():
    rows = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    # squared distances 25, 25, 18, 1, 1 and 0, which does not count
    assert median_distance(rows) == pytest.approx(np.sqrt(18 / 2))
    many = np.random.default_rng(0).normal(size=(4000, 1))
    assert median_distance(many) == pytest.approx(0.6745, rel=0.05)  # of N(0, 2), squared, halved
    assert median_distance(many[:1500]) == pytest.approx(0.6745, rel=0.05)


# ---- the choice of a kernel


def test_the_choice_is_the_best_of_its_table():
    rows, labels = clouds(150, 3, 2)
    told = []
    for by, then in (("reach", "label"), ("label", "reach")):
        told.clear()
        choice = choose_kernel(
            rows,
            labels,
            3,
            factors=(0.1, 1.0),
            seed=SEED,
            by=by,
            most_steps=20,
            progress=lambda *what: told.append(what),
        )
        assert told == [("kernel", i + 1, 8) for i in range(8)]
        assert [(row["kernel"], row["factor"]) for row in choice.table] == [(k, f) for k in KERNELS for f in (0.1, 1.0)]
        best = max(choice.table, key=lambda row: (row[by], row[then]))
        assert (choice.kernel, choice.bandwidth) == (best["kernel"], best["factor"] * median_distance(rows))
        assert all(0 <= row["reach"] <= 1 and 0 <= row["label"] <= 1 for row in choice.table)


def test_equal_reach_is_decided_by_labels(monkeypatch):
    rows, labels = clouds(120, 2, 1, apart=2.0)

    def all_arrive(self, z, targets, *, progress=None):
        return Moved(z, np.ones(len(z), bool), np.zeros(len(z), np.int64), np.zeros(len(z), np.int64))

    monkeypatch.setattr(FineStep, "move", all_arrive)
    choice = choose_kernel(rows, labels, 2, kernels=("rbf",), factors=(1e-6, 1.0), seed=SEED)
    assert [row["reach"] for row in choice.table] == [1.0, 1.0]
    assert choice.table[0]["label"] < choice.table[1]["label"]
    assert choice.bandwidth == median_distance(rows)


def test_labels_near_chance_mislead_the_choice_by_label_and_not_the_one_by_reach():
    """Classes that only single rows tell apart, in pairs of equal rows: the label rule is best where nothing moves."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(60, 4)), 4, axis=0)
    labels = np.repeat(rng.integers(0, 2, 60), 4)
    found = {
        by: choose_kernel(rows, labels, 2, kernels=("rbf",), factors=(0.05, 2.0), seed=SEED, by=by)
        for by in kernel_choice.CHOICES
    }
    small, wide = found["label"].table
    assert small["label"] > wide["label"] and small["reach"] < wide["reach"]
    assert found["label"].bandwidth < found["reach"].bandwidth


def test_labels_are_counted_on_rows_that_were_held_out():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(400, 10)), rng.integers(0, 2, 400)  # nothing to be learnt
    choice = choose_kernel(rows, labels, 2, kernels=("rbf",), factors=(0.3,), seed=SEED, most_steps=3)
    assert abs(choice.table[0]["label"] - 0.5) < 0.1  # with the rows themselves it would be near 1


def test_reach_is_the_share_of_held_out_rows_that_arrive():
    """Far apart, with steps that cannot get there: only those whose random target is their own label arrive."""
    rows, labels = clouds(300, 3, 2, apart=200.0)
    choice = choose_kernel(rows, labels, 3, kernels=("rbf",), factors=(0.05,), seed=SEED, most_steps=5)
    assert choice.table[0]["label"] == 1.0
    assert abs(choice.table[0]["reach"] - 1 / 3) < 0.09


def test_what_is_given_is_not_chosen():
    rows, labels = clouds(90, 2, 1)
    fixed = fit_fine_step(rows, labels, 2, seed=SEED, kernel="cauchy", most_steps=5)
    assert {row["kernel"] for row in fixed.choice.table} == {"cauchy"} and fixed.kernel == "cauchy"
    assert [row["factor"] for row in fixed.choice.table] == list(kernel_choice.FACTORS)
    fixed = fit_fine_step(rows, labels, 2, seed=SEED, bandwidth=3.0, most_steps=5)
    assert {row["factor"] for row in fixed.choice.table} == {3.0}
    assert fixed.bandwidth == 3.0 * median_distance(rows)
    assert [row["kernel"] for row in fixed.choice.table] == list(KERNELS)


def test_the_cost_of_a_choice_is_bounded(monkeypatch):
    rows, labels = clouds(20_000, 4, 2)
    seen = []
    monkeypatch.setattr(FineStep, "__post_init__", lambda self: seen.append(len(self.rows) + len(self.rule.rows)))
    monkeypatch.setattr(
        FineStep,
        "move",
        lambda self, z, targets: Moved(z, np.ones(len(z), bool), np.zeros(len(z), int), np.zeros(len(z), int)),
    )
    choose_kernel(rows, labels, 4, kernels=("cauchy",), factors=(1.0,), seed=SEED)
    assert seen == [1000] * 3  # two thirds of 1,500


# ---- bad input

ROWS, LABELS = clouds(30, 2, 2)


def rule(**change):
    return LabelRule(**{"rows": ROWS, "labels": LABELS, "classes": 2, "kernel": "rbf", "bandwidth": 1.0, **change})


def fine_step(**change):
    given = {"rows": ROWS, "labels": LABELS, "rule": rule(), "kernel": "rbf", "bandwidth": 1.0, **change}
    return FineStep(**given)


def fit(**change):
    given = {"z_public": ROWS, "labels": LABELS, "classes": 2, "seed": SEED, "kernel": "rbf", "bandwidth": 1.0}
    return fit_fine_step(**{**given, **change})


def choose(**change):
    return choose_kernel(**{"rows": ROWS, "labels": LABELS, "classes": 2, "seed": SEED, **change})


WITH_NAN = ROWS.copy()
WITH_NAN[3, 1] = np.nan

BAD = {
    "no number": (lambda: rule(rows=WITH_NAN), "finite numbers"),
    "too large": (lambda: rule(rows=ROWS * 1e120), "finite numbers"),
    "text": (lambda: rule(rows=[["a"]]), "real numbers"),
    "ragged": (lambda: rule(rows=[[1.0], [1.0, 2.0]]), "real numbers"),
    "one dimension": (lambda: rule(rows=ROWS[:, 0]), "rows and columns"),
    "no columns": (lambda: rule(rows=ROWS[:, :0]), "rows and columns"),
    "labels too few": (lambda: rule(labels=LABELS[1:]), "a label for each row"),
    "labels as reals": (lambda: rule(labels=LABELS + 0.5), "whole numbers"),
    "label too high": (lambda: rule(labels=LABELS + 1), "labels from 0 to 1"),
    "label below 0": (lambda: rule(labels=LABELS - 1), "labels from 0 to 1"),
    "one class": (lambda: rule(classes=1, labels=LABELS * 0), "classes >= 2"),
    "class without rows": (lambda: rule(classes=3), "none of class 2"),
    "kernel": (lambda: rule(kernel="linear"), "kernel one of rbf"),
    "bandwidth 0": (lambda: rule(bandwidth=0.0), "bandwidth > 0"),
    "bandwidth tiny": (lambda: rule(bandwidth=1e-200), "bandwidth"),
    "other width": (lambda: rule().label(ROWS[:, :1]), "z of 2 columns"),
    "other width moved": (lambda: fine_step().move(ROWS[:, :1], LABELS), "z of 2 columns"),
    "halves of other width": (lambda: fine_step(rows=ROWS[:, :1]), "as wide as"),
    "step": (lambda: fine_step(step=0.0), "step > 0"),
    "step too large": (lambda: fine_step(step=1e9), "step"),
    "damping": (lambda: fine_step(damping=-1.0), "damping"),
    "most_steps": (lambda: fine_step(most_steps=0), "most_steps >= 1"),
    "farthest too large": (lambda: fine_step(farthest=1e9), "farthest"),
    "farthest": (lambda: fine_step(farthest=0.0), "farthest > 0"),
    "step kernel": (lambda: fine_step(kernel="auto"), "kernel one of"),
    "targets too few": (lambda: fine_step().move(ROWS, LABELS[1:]), "a target for each row"),
    "target too high": (lambda: fine_step().move(ROWS, LABELS + 1), "targets from 0 to 1"),
    "private no number": (lambda: fine_step().move(WITH_NAN, LABELS), "finite numbers"),
    "fit kernel": (lambda: fit(kernel="poly"), "kernel one of auto"),
    "fit bandwidth": (lambda: fit(bandwidth=-1.0), "bandwidth > 0"),
    "fit by": (lambda: fit(by="speed"), "by one of"),
    "one row of a class": (lambda: fit(labels=np.arange(30) == 0), "whole numbers"),
    "a lonely class": (lambda: fit(labels=(np.arange(30) == 0).astype(int)), "too few of class 1"),
    "too few to choose": (lambda: choose(labels=(np.arange(30) < 2).astype(int)), "too few of class 1"),
    "no kernels": (lambda: choose(kernels=()), "at least one kernel"),
    "no factors": (lambda: choose(factors=()), "at least one kernel"),
    "factor": (lambda: choose(factors=(0.0,)), "factor > 0"),
    "one fold": (lambda: choose(folds=1), "folds >= 2"),
    "choose by": (lambda: choose(by="speed"), "by one of"),
    "choose steps": (lambda: choose(most_steps=0), "most_steps >= 1"),
    "all the same": (lambda: median_distance(np.ones((5, 2))), "rows that differ"),
    "one row": (lambda: median_distance(np.ones((1, 2))), "rows that differ"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, words = BAD[case]
    with pytest.raises(InputError, match=words):
        call()


def test_messages_carry_no_private_number():
    spoilt = np.full((3, 2), 123456.5)
    spoilt[1, 1] = np.inf
    for call in (lambda: fine_step().move(spoilt, LABELS[:3]), lambda: fine_step().move(ROWS, LABELS + 98765)):
        with pytest.raises(InputError) as caught:
            call()
        assert "123456" not in str(caught.value) and "98765" not in str(caught.value)
