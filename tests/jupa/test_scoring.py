"""Public classifiers as arrays: they say what scikit-learn's say, and learn as well as they should."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from adumbra.common.errors import InputError
from adumbra.jupa.learning import classifiers
from adumbra.jupa.learning.classifiers import exported, fit_folds, fit_public_model, out_of_fold
from adumbra.jupa.scoring import MODELS, PublicModel, lead

SEED = b"scoring"


@pytest.fixture
def short(monkeypatch):
    """A tenth of the trees, for tests that are not about how well they learn."""
    monkeypatch.setattr(classifiers, "_stages", lambda labels: 20)


def table(classes: int, count: int = 400, columns: int = 7, seed: int = 0):
    """Overlapping clusters, of unequal size, that no straight line parts."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes + 1, count) % classes
    centres = rng.normal(size=(classes, columns))
    rows = centres[labels] * rng.choice([-1.0, 1.0], p=[0.2, 0.8], size=(count, 1)) + 0.8 * rng.normal(
        size=(count, columns)
    )
    return rows, labels.astype(np.int64)


def estimators():
    return {
        "linear": LogisticRegression(C=0.7),
        "kernel": SVC(C=3.0, gamma=0.2, break_ties=True),
        "boosting": GradientBoostingClassifier(
            n_estimators=40, max_depth=3, subsample=0.6, max_features="sqrt", random_state=1
        ),
    }


def decision(model: PublicModel, rows) -> np.ndarray:
    scores = model.scores(rows)
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def through_a_file(model: PublicModel) -> PublicModel:
    file = io.BytesIO()
    np.savez(file, **model.arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return PublicModel.from_arrays(arrays)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("kind", MODELS)
def test_an_export_is_the_estimator(kind, classes):
    rows, labels = table(classes)
    fresh, _ = table(classes, 1300, seed=1)  # several blocks, the last one short
    estimator = estimators()[kind].fit(rows, labels)
    model = exported(estimator, classes)
    assert model.kind == kind
    assert np.abs(decision(model, fresh) - estimator.decision_function(fresh)).max() < 1e-9
    assert (model.predict(fresh) == estimator.predict(fresh)).all()
    assert len(np.unique(model.predict(fresh))) == classes


def test_votes_decide_before_confidence():
    """With several classes an SVC of scikit-learn's own tie rule differs only where votes are equal."""
    rows, labels = table(6)
    fresh, _ = table(6, 2000, seed=1)
    estimator = SVC(C=3.0, gamma=0.2).fit(rows, labels)
    scores = exported(estimator, 6).scores(fresh)
    differ = np.argmax(scores, axis=1) != estimator.predict(fresh)
    top = np.sort(np.rint(scores), axis=1)
    assert 0 < differ.sum() < 100
    assert (top[differ, -1] == top[differ, -2]).all()


def test_trees_compare_in_float32():
    """A threshold may stand between a number and its float32; the estimator sees only the latter."""
    rng = np.random.default_rng(3)
    grid = rng.normal(size=(300, 2))
    labels = (grid.sum(axis=1) > 0).astype(np.int64)
    estimator = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(grid, labels)
    cuts = np.concatenate([tree.tree_.threshold[tree.tree_.feature == 0] for tree in estimator.estimators_[:, 0]])
    near = cuts[:, None] + np.linspace(-1e-7, 1e-7, 41) * np.maximum(1, np.abs(cuts))[:, None]
    rows = np.stack([near.ravel(), np.zeros(near.size)], axis=1)
    narrow = near.astype(np.float32) <= cuts[:, None]
    assert (narrow != (near <= cuts[:, None])).any()
    assert np.abs(decision(exported(estimator, 2), rows) - estimator.decision_function(rows)).max() < 1e-9


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", MODELS)
def test_standardising_is_part_of_the_model(kind):
    """Columns of any size and place, one of them constant, give what standardised ones give."""
    rows, labels = table(3)
    sizes, places = 10.0 ** np.arange(-3, 4), 1e6 * np.arange(7)
    wide = np.column_stack([rows * sizes + places, np.full(len(rows), 5.0)])
    model = fit_public_model(kind, rows, labels, 3, seed=SEED)
    other = fit_public_model(kind, wide, labels, 3, seed=SEED)
    assert np.mean(model.predict(rows) == labels) > 0.6
    agree = np.mean(model.predict(rows) == other.predict(wide))
    assert agree > (0.85 if kind == "boosting" else 0.99)  # one column more changes what trees draw
    assert (other.scale > 0).all()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", [*MODELS, "auto"])
@pytest.mark.parametrize("classes", [2, 6])
def test_the_same_seed_gives_the_same_model_and_files_keep_it(kind, classes):
    rows, labels = table(classes, 200)
    fresh, _ = table(classes, 700, seed=1)
    model = fit_public_model(kind, rows, labels, classes, seed=SEED)
    again = fit_public_model(kind, rows, labels, classes, seed=SEED)
    back = through_a_file(model)
    assert model.kind == again.kind == back.kind
    assert back.classes == classes and np.array_equal(back.accuracy, model.accuracy, equal_nan=True)
    for other in (again, back):
        assert {k: v.tobytes() for k, v in other.arrays().items()} == {
            k: v.tobytes() for k, v in model.arrays().items()
        }
        assert (other.scores(fresh) == model.scores(fresh)).all()


@pytest.mark.usefixtures("short")
def test_another_seed_gives_another_forest():
    rows, labels = table(2, 200)
    one, other = (fit_public_model("boosting", rows, labels, 2, seed=seed) for seed in (b"1", b"2"))
    assert (one.scores(rows) != other.scores(rows)).any()


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("kind", MODELS)
def test_a_row_is_scored_alone(kind, classes):
    """To the last bit: neither its place nor its neighbours matter."""
    rows, labels = table(classes, 300, columns=19)
    model = exported(estimators()[kind].fit(rows, labels), classes)
    whole = model.scores(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    assert (model.scores(rows[order]) == whole[order]).all()
    assert all((model.scores(rows[i : i + 1])[0] == whole[i]).all() for i in range(0, 300, 23))
    assert (model.scores(np.asfortranarray(rows)) == whole).all()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", MODELS)
def test_margins(kind):
    rows, labels = table(3)
    model = fit_public_model(kind, rows, labels, 3, seed=SEED)
    scores = model.scores(rows)
    margin = lead(scores, labels)
    others = np.where(np.arange(3) == labels[:, None], -np.inf, scores).max(axis=1)
    assert np.allclose(margin, scores[np.arange(len(rows)), labels] - others)
    assert ((margin > 0) == (model.predict(rows) == labels)).all()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", MODELS)
def test_a_class_never_seen_is_never_predicted(kind):
    rows, labels = table(3)
    model = fit_public_model(kind, rows, 2 * labels, 6, seed=SEED)  # classes 1, 3 and 5 have no rows
    scores = model.scores(rows)
    assert scores.shape == (400, 6) and np.isfinite(scores).all()
    assert set(model.predict(rows)) == {0, 2, 4}
    assert (scores[:, 1] == scores[:, [0, 2, 4]].min(axis=1) - 1).all()
    assert (scores == through_a_file(model).scores(rows)).all()
    plain = fit_public_model(kind, rows, labels, 3, seed=SEED)
    assert (plain.scores(rows) == scores[:, ::2]).all()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", [*MODELS, "auto"])
def test_a_handful_of_rows_is_enough(kind):
    rows = np.array([[0.0, 1.0], [1.0, 1.0], [1.1, 1.0]])
    model = fit_public_model(kind, rows[:2], [0, 1], 2, seed=SEED)
    assert np.isnan(model.accuracy) and model.scores(rows).shape == (3, 2)
    fit_public_model(kind, rows, [0, 1, 1], 2, seed=SEED)
    fit_public_model(kind, rows[[0, 0, 1, 2]], [0, 0, 1, 1], 2, seed=SEED)
    assert model.scores(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", MODELS)
def test_a_sample_keeps_rare_classes(kind, monkeypatch):
    """Three rows among 900 stay in, however small the sample: no class is lost."""
    monkeypatch.setattr(classifiers, "_COMPARED", 60)
    monkeypatch.setattr(classifiers, "_MOST_ROWS", dict.fromkeys(MODELS, 90))
    rows, labels = table(2, 900)
    labels[:3] = 2
    model = fit_public_model(kind, rows, labels, 3, seed=SEED)
    assert model.present.tolist() == [0, 1, 2]
    if kind == "kernel":
        assert len(model.vectors) <= 93
    assert (np.bincount(classifiers._sample(rows, labels, 90, SEED)[1]) >= [20, 20, 3]).all()


@pytest.mark.parametrize("kind", MODELS)
def test_a_million_records_need_little_memory(kind):
    """Far less than a second copy of the rows; tried on fewer records than that."""
    rows, labels = table(2, 60)
    model = exported(estimators()[kind].fit(rows, labels), 2)
    many = np.tile(rows, (1000, 1))
    model.scores(many[:10])
    tracemalloc.start()
    scores = model.scores(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - scores.nbytes < many.nbytes / 4
    assert (scores.reshape(1000, 60, 2) == scores[:60]).all()


@pytest.mark.parametrize("kind", MODELS)
def test_a_number_of_any_size_has_a_score(kind):
    rows, labels = table(3, 60)
    model = exported(estimators()[kind].fit(rows, labels), 3, mean=np.full(7, -1.0), scale=np.full(7, 0.5))
    far = np.array([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0]])
    assert np.isfinite(model.scores(far * np.finfo(float).max)).all()
    if kind == "boosting":  # on the same side of every threshold
        assert (model.scores(far * np.finfo(float).max) == model.scores(far * 1e9)).all()


# ---- learning


def test_auto_takes_what_fits_the_data():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(900, 4))
    shapes = {
        "linear": rows[:, 0] + rows[:, 1] + 0.5 * rng.normal(size=900) > 0,
        "kernel": (rows**2).sum(axis=1) > 3.36,
        "boosting": (rows[:, 0] > 0.3) ^ (np.abs(rows[:, 1]) > 1),
    }
    found = {name: fit_public_model("auto", rows, label.astype(int), 2, seed=SEED) for name, label in shapes.items()}
    assert {name: model.kind for name, model in found.items()} == {name: name for name in shapes}
    assert all(model.accuracy > 0.85 for model in found.values())


def test_tuning_takes_the_better_setting():
    """Labels of noise call for the smoothest setting, clear ones for the sharpest."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(240, 20))
    noise, clear = rng.integers(0, 2, 240), (rows[:, 0] > 0).astype(int)
    assert classifiers._tuned("linear", rows, noise, SEED) == {"C": 0.01}
    assert classifiers._tuned("linear", rows, clear, SEED) == {"C": 1.0}
    rings = (np.floor(1.5 * np.linalg.norm(rows[:, :2], axis=1)) % 2).astype(int)
    assert classifiers._tuned("kernel", rows[:, :2], rings, SEED) == {"C": 10.0, "spread": 1.0}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", ["kernel", "boosting"])
def test_a_comparison_asks_for_no_label_it_has_seen(kind):
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(400, 6)), rng.integers(0, 2, 400)
    setting = classifiers._SETTINGS[kind][-1]
    assert abs(classifiers._validated(kind, setting, rows, labels, SEED) - 0.5) < 0.1


def test_auto_leaves_out_what_is_slow():
    labels = np.arange(20_000) % 2
    assert classifiers._affordable("kernel", np.empty((10_000, 561)), labels)
    assert not classifiers._affordable("kernel", np.empty((10_001, 5)), labels)
    assert not classifiers._affordable("kernel", np.empty((9_000, 2_000)), labels)
    assert classifiers._affordable("boosting", np.empty((10_000, 561)), np.arange(600) % 6)
    assert not classifiers._affordable("boosting", np.empty((50_000, 561)), np.arange(600) % 6)
    assert classifiers._affordable("linear", np.empty((10**6, 561)), labels)


@pytest.mark.usefixtures("short")
def test_accuracy_is_what_fresh_rows_see():
    """The stated share is cross-validated, not the share of rows learnt by heart."""
    both, labels = table(3, 4600, columns=12)
    rows, fresh = both[:600], both[600:]
    model = fit_public_model("auto", rows, labels[:600], 3, seed=SEED)
    seen = np.mean(model.predict(fresh) == labels[600:])
    assert abs(model.accuracy - seen) < 0.06


def test_out_of_fold_scores_come_from_others():
    """Labels of pure noise cannot be guessed by a model that did not see them, and can by one that did."""
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(300, 6)), rng.integers(0, 2, 300)
    folds = np.arange(300) % 3
    scores = out_of_fold("boosting", rows, labels, 2, folds, seed=SEED)
    assert abs(np.mean(np.argmax(scores, axis=1) == labels) - 0.5) < 0.1
    assert np.mean(fit_public_model("boosting", rows, labels, 2, seed=SEED).predict(rows) == labels) > 0.9


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", [*MODELS, "auto"])
def test_a_fold_has_no_part_in_its_model(kind):
    rows, labels = table(2, 150)
    folds = np.arange(150) % 3 + 4  # any numbers will do
    changed, other = rows.copy(), labels.copy()
    changed[folds == 5] *= -100
    other[folds == 5] = 1 - other[folds == 5]
    models = fit_folds(kind, rows, labels, 2, folds, seed=SEED)
    again = fit_folds(kind, changed, other, 2, folds, seed=SEED)
    same = [(a.kind == b.kind) and (a.scores(rows) == b.scores(rows)).all() for a, b in zip(models, again, strict=True)]
    assert same == [False, True, False]
    scores = out_of_fold(kind, rows, labels, 2, folds, seed=SEED)
    for number, model in zip((4, 5, 6), models, strict=True):
        assert (scores[folds == number] == model.scores(rows[folds == number])).all()


def binary_coded(frame: pl.DataFrame) -> np.ndarray:
    """Numbers as they are, categories as the binary digits of their rank."""
    out = []
    for column in frame:
        if column.dtype.is_numeric():
            out.append(column.cast(float).to_numpy()[:, None])
            continue
        codes = np.unique(column.to_numpy(), return_inverse=True)[1]
        digits = max(1, int(np.ceil(np.log2(codes.max() + 1))))
        out.append(((codes[:, None] >> np.arange(digits)) & 1).astype(float))
    return np.hstack(out)


def balanced(strata: np.ndarray, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`each` rows of every stratum to learn from and twice as many others to test on."""
    rng = np.random.default_rng(seed)
    places = [rng.permutation(np.flatnonzero(strata == s)) for s in np.unique(strata)]
    return np.concatenate([p[:each] for p in places]), np.concatenate([p[each : 3 * each] for p in places])


@pytest.mark.parametrize(("target", "hope"), [("income", 0.81), ("sex", 0.86)])
def test_adult(shared_data, target, hope):
    """300 rows of each combination of income and sex; two points are two standard errors of a split."""
    frame = pl.read_csv(shared_data / "adult.csv.gz").drop("split")
    frame = frame.filter(~pl.any_horizontal(pl.col(pl.String) == "?"))
    rows = binary_coded(frame.drop("income", "sex"))
    codes = {name: np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in ("income", "sex")}
    taught, fresh = balanced(2 * codes["income"] + codes["sex"], 300, 0)
    model = fit_public_model("boosting", rows[taught], codes[target][taught], 2, seed=SEED)
    assert len(taught) == 1200
    assert np.mean(model.predict(rows[fresh]) == codes[target][fresh]) > hope - 0.02


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_har(shared_data, kind):
    """Eight rows of each person and activity: 1,440 of 561 columns."""
    frame = pl.read_parquet(shared_data / "har.parquet")
    rows = frame[:, :561].to_numpy().astype(float)
    activity, person = (np.unique(frame[c].to_numpy(), return_inverse=True)[1] for c in ("activity", "subject"))
    taught, fresh = balanced(100 * activity + person, 8, 0)
    model = fit_public_model(kind, rows[taught], activity[taught], 6, seed=SEED)
    assert np.mean(model.predict(rows[fresh]) == activity[fresh]) > 0.96


# ---- refusals


def test_refusals():
    rows, labels = table(2, 50)
    model = fit_public_model("linear", rows, labels, 2, seed=SEED)
    gap = rows.copy()
    gap[3, 2] = np.nan
    for given in (gap, rows[0], rows[:, :3], rows.astype(str), rows.astype(object)):
        with pytest.raises(InputError):
            model.scores(given)
    for given, answers in [
        (gap, labels),
        (rows[0], labels),
        (rows, labels[:-1]),
        (rows, labels - 1),
        (rows, labels + 1),
        (rows, labels * 0),
        (rows, labels * 0.5),
        (rows.astype(str), labels.astype(str)),
        ([["a"]], [0]),
        (rows[:0], labels[:0]),
    ]:
        with pytest.raises(InputError):
            fit_public_model("linear", given, answers, 2, seed=SEED)
    with pytest.raises(InputError, match="kind"):
        fit_public_model("deep", rows, labels, 2, seed=SEED)
    for folds in (np.zeros(50, int), np.arange(49)):
        with pytest.raises(InputError, match="fold"):
            out_of_fold("linear", rows, labels, 2, folds, seed=SEED)
    for estimator in (SVC(), SVC(kernel="linear"), GradientBoostingClassifier(init="zero", n_estimators=2)):
        with pytest.raises(InputError, match="fit_public_model"):
            exported(estimator.fit(rows, labels), 2)


def tampered(arrays, **changes):
    return arrays | {name: np.asarray(change(arrays[name])) for name, change in changes.items()}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", MODELS)
def test_arrays_that_do_not_fit_are_refused(kind):
    rows, labels = table(3, 60)
    arrays = fit_public_model(kind, rows, labels, 3, seed=SEED).arrays()
    for name in arrays:
        with pytest.raises(InputError):
            PublicModel.from_arrays({key: array for key, array in arrays.items() if key != name})
    broken = [
        tampered(arrays, kind=lambda _: "deep"),
        tampered(arrays, classes=lambda _: 2),
        tampered(arrays, present=lambda a: a[::-1]),
        tampered(arrays, present=lambda a: a - 1),
        tampered(arrays, present=lambda a: a[:1]),
        tampered(arrays, mean=lambda a: a[1:]),
        tampered(arrays, mean=lambda a: a * np.nan),
        tampered(arrays, scale=lambda a: a * 0),
        tampered(arrays, scale=lambda a: a[None]),
        tampered(arrays, constants=lambda a: a[1:]),
        tampered(arrays, constants=lambda a: a * np.inf),
        tampered(arrays, constants=lambda _: "text"),
    ]
    if kind != "boosting":
        broken += [tampered(arrays, weights=lambda a: a[1:])]
    if kind == "kernel":
        broken += [tampered(arrays, owner=lambda a: a + 1), tampered(arrays, vectors=lambda a: a[:, 1:])]
    if kind == "boosting":
        broken += [
            tampered(arrays, left=lambda a: np.where(a < 0, a, 0)),  # a walk that never ends
            tampered(arrays, right=lambda a: np.where(a < 0, a, 10**9)),
            tampered(arrays, right=lambda a: a * 0 - 1),
            tampered(arrays, feature=lambda a: a + 7),
            tampered(arrays, roots=lambda a: a + 10**6),
            tampered(arrays, roots=lambda a: a[:, 1:]),
            tampered(arrays, value=lambda a: a[1:]),
        ]
    for given in broken:
        with pytest.raises(InputError, match="arrays of a public model"):
            PublicModel.from_arrays(given)
    PublicModel.from_arrays(arrays)
