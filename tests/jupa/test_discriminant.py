"""The discriminant maps are the eigenvectors they say, turn into one another at their limits, and refuse the rest."""

from __future__ import annotations

import io
import re

import numpy as np
import polars as pl
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from adumbra.common.errors import InputError
from adumbra.jupa.learning import discriminant, row_blocks
from adumbra.jupa.learning.class_scatter import scatter
from adumbra.jupa.learning.discriminant import KINDS, FittedProjection, fit_projection, floor_unit
from adumbra.jupa.learning.kernel_features import FEATURE_KERNELS, KernelMap, kernel_map

LABELLED = ("jupa", "dca", "ruca", "mdr")


def made_up(seed=0, count=240, width=7, utility=4, privacy=3):
    """Rows whose columns are correlated and of uneven size, and whose classes differ in their means."""
    rng = np.random.default_rng(seed)
    u, s = rng.integers(0, utility, count), rng.integers(0, privacy, count)
    rows = rng.standard_normal((count, width)) @ rng.standard_normal((width, width))
    rows += 2.0 * rng.standard_normal((utility, width))[u] + 2.0 * rng.standard_normal((privacy, width))[s]
    return rows + 3.0, u, s


def naive(rows, labels):
    """Equations 1 to 4, a row at a time, about the mean."""
    rows = np.asarray(rows, dtype=np.float64)
    mean = rows.mean(axis=0)
    within, between = np.zeros((2, rows.shape[1], rows.shape[1]))
    for label in set(labels.tolist()):
        members = [row for row, of in zip(rows, labels, strict=True) if of == label]
        own = sum(members) / len(members)
        for row in members:
            within += np.outer(row - own, row - own)
        between += len(members) * np.outer(own - mean, own - mean)
    return within, between


def solved(numerator, denominator, components):
    values, vectors = scipy.linalg.eigh(numerator, denominator)
    return values[::-1][:components], vectors[:, ::-1][:, :components]


def floor(matrix, rho0):
    return rho0 * np.trace(matrix) / len(matrix) * np.eye(len(matrix))


def same_directions(one, other, tolerance=1e-7):
    one, other = (m / np.linalg.norm(m, axis=0) for m in (one, other))
    return np.allclose(np.abs((one * other).sum(axis=0)), 1.0, atol=tolerance)


def fit(kind, rows, u, s, components=2, **options):
    options = {"seed": b"seed"} | options
    return fit_projection(kind, rows, [u], [s], components, **options)


def angle(one, other):
    return float(scipy.linalg.subspace_angles(one.matrix, other.matrix).max())


# --- scatters


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(4, 40),
    width=st.integers(1, 6),
    classes=st.integers(2, 5),
    offset=st.sampled_from([0.0, -3.0, 1e4]),
)
def test_scatters_are_the_sums_over_classes(seed, count, width, classes, offset):
    rng = np.random.default_rng(seed)
    labels = np.array([11, -4, 7, 8, 30])[np.r_[0, 1, rng.integers(0, classes, count - 2)]]
    rows = rng.standard_normal((count, width)) + offset
    found = scatter(rows, labels)
    within, between = naive(rows, labels)
    assert np.allclose(found.within, within, rtol=1e-9, atol=1e-9)
    assert np.allclose(found.between, between, rtol=1e-9, atol=1e-9)
    centred = rows - rows.mean(axis=0)
    assert np.allclose(found.within + found.between, centred.T @ centred, rtol=1e-9, atol=1e-9)


def test_scatters_are_float64_whatever_comes_in():
    rows, u, _ = made_up()
    narrow = rows.astype(np.float32)
    found, wide = scatter(narrow, u), scatter(narrow.astype(np.float64), u)
    assert found.within.dtype == found.between.dtype == np.float64
    assert np.array_equal(found.within, wide.within)
    assert np.array_equal(found.between, wide.between)
    whole = np.rint(rows).astype(np.int16)
    assert np.array_equal(scatter(whole, u).within, scatter(whole.astype(float), u).within)


def test_a_large_offset_costs_no_digits():
    rows, u, _ = made_up(count=3000)
    rows = np.rint(rows * 64) / 64  # so that the shift itself is exact
    near, far = scatter(rows, u), scatter(rows + 2.0**30, u)
    assert np.allclose(near.within, far.within, rtol=0, atol=1e-9 * np.abs(near.within).max())
    assert np.allclose(near.between, far.between, rtol=0, atol=1e-9 * np.abs(near.within).max())


def test_rows_are_read_in_blocks_without_a_trace(monkeypatch):
    rows, u, s = made_up()
    at_once = fit("jupa", rows, u, s)
    monkeypatch.setattr(row_blocks, "_BLOCK", 7 * 11)  # 11 rows at a time, the last block shorter
    in_blocks = fit("jupa", rows, u, s)
    assert np.allclose(at_once.matrix, in_blocks.matrix, atol=1e-9)
    assert np.allclose(at_once.apply(rows), in_blocks.apply(rows), atol=1e-8)


# --- which pencil each kind solves


def test_jupa_solves_equation_8():
    rows, u, s = made_up()
    (wu, bu), (wp, bp) = naive(rows, u), naive(rows, s)
    denominator = wu + 5.0 * bp
    values, vectors = solved(bu + 0.3 * wp, denominator + floor(denominator, 0.02), 5)
    found = fit("jupa", rows, u, s, 5, rho0=0.02, rho1=5.0, rho1_prime=0.3)
    assert np.allclose(found.values, values, rtol=1e-8)
    assert same_directions(found.matrix, vectors)


def test_several_targets_are_equation_9():
    rows, u, s = made_up()
    rng = np.random.default_rng(9)
    second_u, second_s = (u + rng.integers(0, 2, len(u))) % 2, rng.integers(0, 5, len(s))
    scatters = [naive(rows, labels) for labels in (u, second_u, s, second_s)]
    numerator = scatters[0][1] + scatters[1][1] + 0.5 * scatters[2][0] + 4.0 * scatters[3][0]
    denominator = scatters[0][0] + scatters[1][0] + 2.0 * scatters[2][1] + 30.0 * scatters[3][1]
    values, vectors = solved(numerator, denominator + floor(denominator, 1e-3), 4)
    found = fit_projection(
        "jupa", rows, [u, second_u], [s, second_s], 4, rho1=(2.0, 30.0), rho1_prime=[0.5, 4.0], seed=b""
    )
    assert np.allclose(found.values, values, rtol=1e-8)
    assert same_directions(found.matrix, vectors)
    swapped = fit_projection(
        "jupa", rows, [u, second_u], [s, second_s], 4, rho1=(30.0, 2.0), rho1_prime=[4.0, 0.5], seed=b""
    )
    assert not np.allclose(found.values, swapped.values, rtol=1e-3)


def test_one_weight_stands_for_every_privacy_target():
    rows, u, s = made_up()
    other = np.arange(len(rows)) % 2
    results = [
        fit_projection("jupa", rows, [u], [s, other], 3, rho1=rho, rho1_prime=rho, seed=b"").values
        for rho in (2.0, (2.0,), (2.0, 2.0))
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_dca_is_jupa_without_weights_and_the_papers_pencil():
    rows, u, s = made_up()
    found = fit("dca", rows, u, s, 3, rho0=0.05)
    corner = fit("jupa", rows, u, s, 3, rho0=0.05, rho1=0.0, rho1_prime=0.0)
    assert np.allclose(found.matrix, corner.matrix, atol=1e-12)
    assert np.allclose(found.values, corner.values, rtol=1e-12)
    within, between = naive(rows, u)
    values, vectors = solved(between, within + between + floor(within, 0.05), 3)
    assert same_directions(found.matrix, vectors)
    assert np.allclose(found.values / (1 + found.values), values, rtol=1e-9)


def test_ruca_is_jupa_without_rho1_prime():
    rows, u, s = made_up()
    found = fit("ruca", rows, u, s, 3, rho1=7.0, rho1_prime=9.0)
    corner = fit("jupa", rows, u, s, 3, rho1=7.0, rho1_prime=0.0)
    assert np.allclose(found.matrix, corner.matrix, atol=1e-12)
    assert angle(found, fit("dca", rows, u, s, 3)) > 0.01
    assert angle(found, fit("jupa", rows, u, s, 3, rho1=7.0, rho1_prime=9.0)) > 0.01


def test_mdr_is_its_own_pencil_and_what_ruca_tends_to():
    rows, u, s = made_up()
    bu, bp = naive(rows, u)[1], naive(rows, s)[1]
    limit = fit("mdr", rows, u, s, 3, rho0=0.01, rho1=123.0)
    values, vectors = solved(bu, bp + floor(bp, 0.01), 3)
    assert np.allclose(limit.values, values, rtol=1e-8)
    assert same_directions(limit.matrix, vectors)
    angles = [
        angle(fit("jupa", rows, u, s, 3, rho0=0.01, rho1=10.0**power, rho1_prime=0.0), limit) for power in (2, 4, 6, 8)
    ]
    assert angles[0] > 0.02
    for nearer, further in zip(angles[1:], angles, strict=False):
        assert nearer < further / 20  # the distance falls like 1 / rho1
    assert angles[-1] < 1e-5


def test_without_a_privacy_target_jupa_and_ruca_are_dca():
    rows, u, _ = made_up()
    expected = fit_projection("dca", rows, [u], [], 3, seed=b"").matrix
    for kind in ("jupa", "ruca"):
        assert np.array_equal(fit_projection(kind, rows, [u], [], 3, rho1=5.0, seed=b"").matrix, expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(LABELLED), rho1=st.sampled_from([0.0, 0.1, 10.0]))
def test_no_direction_has_a_higher_ratio(seed, kind, rho1):
    rows, u, s = made_up(seed, count=80, width=5)
    found = fit(kind, rows, u, s, 1, rho1=rho1, rho1_prime=0.2)
    (wu, bu), (wp, bp) = naive(rows, u), naive(rows, s)
    numerator = bu + (0.2 * wp if kind == "jupa" else 0)
    denominator = {"mdr": bp, "dca": wu}.get(kind, wu + rho1 * bp)
    denominator = denominator + floor(denominator, 1e-3)

    def ratio(direction):
        return direction @ numerator @ direction / (direction @ denominator @ direction)

    assert ratio(found.matrix[:, 0]) == pytest.approx(found.values[0], rel=1e-7)
    tried = np.random.default_rng(seed).standard_normal((200, 5))
    nearby = found.matrix[:, 0] + 0.02 * tried
    assert max(map(ratio, [*tried, *nearby])) <= found.values[0] * (1 + 1e-9)


def test_more_columns_than_rows():
    rows, u, s = made_up(count=40, width=90)
    (wu, bu), (wp, bp) = naive(rows, u), naive(rows, s)
    denominator = wu + bp
    denominator = denominator + floor(denominator, 1e-3)
    found = fit("jupa", rows, u, s, 6)
    left, right = (bu + wp) @ found.matrix, denominator @ found.matrix * found.values
    assert np.abs(left - right).max() < 1e-8 * np.abs(left).max()
    assert (np.diff(found.values) <= 0).all()
    with pytest.raises(InputError, match="rank 36 of 90"):  # 40 rows less 4 class means
        fit("dca", rows, u, s, 2, rho0=0.0)


# --- scale and sign


@pytest.mark.parametrize("kind", KINDS)
def test_projected_rows_have_mean_0_and_variance_1_and_a_fixed_sign(kind):
    rows, u, s = made_up()
    found = fit(kind, rows, u, s, 3)
    z = found.apply(rows)
    assert z.shape == (len(rows), 7 if kind == "none" else 3)
    assert z.dtype == np.float64
    assert np.allclose(z.mean(axis=0), 0.0, atol=1e-9)
    assert np.allclose(z.std(axis=0), 1.0, atol=1e-9)
    assert np.allclose(np.linalg.norm(found.matrix, axis=0), 1.0)
    largest = np.abs(found.matrix).argmax(axis=0)
    assert (found.matrix[largest, np.arange(found.matrix.shape[1])] > 0).all()
    assert np.allclose(found.apply(rows[:5]), z[:5], atol=1e-12)
    other = np.random.default_rng(1).standard_normal((6, 7))
    assert np.allclose(found.apply(other) * found.scale + found.mean, other @ found.matrix)


@pytest.mark.parametrize("kind", ["jupa", "dca", "mdr", "ruca", "pca"])
def test_the_solvers_own_scale_and_sign_do_not_matter(kind, monkeypatch):
    rows, u, s = made_up()
    before = fit(kind, rows, u, s, 3)
    solver = scipy.linalg.eigh

    def perverse(*args, **options):
        values, vectors = solver(*args, **options)
        return values, vectors * np.array([-3.0, 0.5, -1e-3])

    monkeypatch.setattr(scipy.linalg, "eigh", perverse)
    after = fit(kind, rows, u, s, 3)
    assert np.allclose(before.matrix, after.matrix, atol=1e-12)
    assert np.allclose(before.apply(rows), after.apply(rows), atol=1e-9)


def test_entries_that_tie_but_for_rounding_give_one_sign():
    rows = made_up(count=60, width=2)[0]
    for nudge in (-1e-14, 1e-14):
        tied = discriminant._finished(rows, rows.mean(axis=0), np.array([[-1.0], [1.0 + nudge]]), np.empty(0))
        assert tied.matrix[0, 0] > 0


@pytest.mark.parametrize("kind", ["jupa", "dca", "ruca"])
def test_the_unit_of_a_column_does_not_matter_as_rho0_falls(kind):
    rows, u, s = made_up()
    scaled = rows * np.array([0.1, 1.0, 10.0, 5.0, 0.2, 2.0, 0.5])

    def alike(rho0):
        one, other = (fit(kind, x, u, s, 3, rho0=rho0).apply(x) for x in (rows, scaled))
        return np.abs((one * other).mean(axis=0)).min()

    assert alike(0.0) == pytest.approx(1.0, abs=1e-9)
    assert alike(1e-8) == pytest.approx(1.0, abs=1e-8)
    assert alike(0.1) < 0.99


@pytest.mark.parametrize("kind", LABELLED)
def test_rho0_is_relative(kind):
    rows, u, s = made_up()
    one, other = fit(kind, rows, u, s, 3, rho0=0.2), fit(kind, rows * 1e4, u, s, 3, rho0=0.2)
    assert np.allclose(one.matrix, other.matrix, atol=1e-9)
    twice = np.vstack([rows, rows])
    assert np.allclose(
        one.matrix, fit(kind, twice, np.tile(u, 2), np.tile(s, 2), 3, rho0=0.2).matrix, atol=1e-9
    )  # nor does the number of rows


def test_floor_unit_converts_an_absolute_floor():
    rows, u, s = made_up()
    (wu, bu), (wp, bp) = naive(rows, u), naive(rows, s)
    for kind, numerator, denominator in (
        ("jupa", bu + wp, wu + 3.0 * bp),
        ("ruca", bu, wu + 3.0 * bp),
        ("dca", bu, wu),
        ("mdr", bu, bp),
    ):
        unit = floor_unit(kind, rows, [u], [s], rho1=3.0)
        assert unit == pytest.approx(np.trace(denominator) / 7, rel=1e-10)
        values, vectors = solved(numerator, denominator + 50.0 * np.eye(7), 3)
        found = fit(kind, rows, u, s, 3, rho0=50.0 / unit, rho1=3.0)
        assert np.allclose(found.values, values, rtol=1e-9)
        assert same_directions(found.matrix, vectors)
    with pytest.raises(InputError, match="a projection with a floor"):
        floor_unit("pca", rows, [u], [s])


# --- what is refused


def deficient():
    """Five columns of rank 3: a copy and a sum."""
    rows, u, s = made_up(width=3)
    return np.column_stack([rows, rows[:, 0], rows[:, 1] + rows[:, 2]]), u, s


@pytest.mark.parametrize("kind", ["jupa", "dca", "ruca"])
@pytest.mark.parametrize("rho0", [0.0, 1e-16])
def test_a_singular_pencil_says_its_rank_and_what_to_give(kind, rho0):
    rows, u, s = deficient()
    with pytest.raises(InputError, match="rank 3 of 5") as caught:
        fit(kind, rows, u, s, 2, rho0=rho0)
    assert "give rho0 0.001" in caught.value.remedy
    smallest = float(re.search(r"any from (\S+) on", caught.value.remedy)[1])
    found = fit(kind, rows, u, s, 2, rho0=smallest)
    without_copies = fit(kind, rows[:, :3], u, s, 2, rho0=smallest)
    assert np.allclose(np.abs((found.apply(rows) * without_copies.apply(rows[:, :3])).mean(axis=0)), 1.0, atol=1e-3)


def test_rounding_does_not_hide_a_singular_pencil():
    for seed in range(30):  # in some of them a Cholesky factor exists, of rounding errors
        rows, u, s = made_up(seed, count=60, width=4)
        rows = np.column_stack([rows, rows @ np.random.default_rng(seed).standard_normal(4)])
        with pytest.raises(InputError, match="rank 4 of 5"):
            fit("dca", rows, u, s, 1, rho0=0.0)


def test_mdr_needs_a_floor_unless_the_privacy_classes_fill_the_space():
    rows, u, s = made_up()
    with pytest.raises(InputError, match="rank 2 of 7"):
        fit("mdr", rows, u, s, 2, rho0=0.0)
    assert fit("mdr", rows[:, :2], u, s, 2, rho0=0.0).matrix.shape == (2, 2)


def test_uneven_units_are_not_taken_for_a_singular_pencil():
    rows, u, s = made_up()
    uneven = rows * 10.0 ** np.arange(-9, 12, 3)
    one, other = fit("dca", rows, u, s, 3, rho0=0.0), fit("dca", uneven, u, s, 3, rho0=0.0)
    assert np.allclose(one.values, other.values, rtol=1e-6)


def test_activity_recordings_are_singular_without_a_floor(shared_data):
    har = pl.read_parquet(shared_data / "har.parquet")
    classes = har.select("activity", "subject")
    sample = (
        classes.with_row_index()
        .filter(pl.int_range(pl.len()).over("activity", "subject") < 8)
        .get_column("index")
        .to_numpy()
    )
    u, s = (np.unique(classes[name].to_numpy()[sample], return_inverse=True)[1] for name in classes.columns)
    rows = har.select(har.columns[:561]).to_numpy()[sample].astype(np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    assert rows.shape == (1440, 561)
    with pytest.raises(InputError, match="of 561") as caught:
        fit("dca", rows, u, s, 5, rho0=0.0)
    rank = int(re.search(r"rank (\d+) of 561", str(caught.value))[1])
    assert 455 <= rank <= 480
    with pytest.raises(InputError, match="rank 29 of 561"):
        fit("mdr", rows, u, s, 5, rho0=0.0)
    with pytest.raises(InputError, match="at most 5 components"):
        fit("dca", rows, u, s, 6)
    found = fit("jupa", rows.astype(np.float32), u, s, 5)
    z = found.apply(rows)
    own = np.stack([z[u == label].mean(axis=0) for label in range(6)])
    nearest = ((z[:, None] - own) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == u).mean() > 0.93


@pytest.mark.parametrize("kind", ["dca", "ruca", "mdr", "jupa"])
def test_no_more_components_than_class_means_span(kind):
    rows, u, s = made_up()
    second = np.arange(len(rows)) % 2
    options = {"rho1_prime": 0.0} if kind == "jupa" else {}
    assert fit(kind, rows, u, s, 3, **options).matrix.shape == (7, 3)
    with pytest.raises(InputError, match="at most 3 components") as caught:
        fit(kind, rows, u, s, 4, **options)
    assert "rho1_prime above 0" in caught.value.remedy
    assert fit_projection(kind, rows, [u, second], [s], 4, seed=b"", **options).matrix.shape == (7, 4)
    with pytest.raises(InputError, match="at most 4 components"):
        fit_projection(kind, rows, [u, second], [s], 5, seed=b"", **options)


def test_class_means_on_a_line_span_one_dimension():
    cloud = np.random.default_rng(0).standard_normal((30, 4))
    cloud = np.vstack([cloud, -cloud])  # so that every class has exactly the mean it is moved to
    u = np.repeat([0, 1, 2], 60)
    rows = np.tile(cloud, (3, 1)) + np.outer(u, [1.0, 2.0, 0.0, -1.0])
    with pytest.raises(InputError, match="at most 1 components"):
        fit_projection("dca", rows, [u], [], 2, seed=b"")
    with pytest.raises(InputError, match="at most 0 components") as caught:
        fit_projection("dca", np.tile(cloud, (3, 1)), [u], [], 1, seed=b"")
    assert "add columns" in caught.value.remedy


def test_rho1_prime_defines_further_components_up_to_the_rank_of_the_rows():
    rows, u, s = deficient()
    assert fit("jupa", rows, u, s, 3, rho1_prime=1e-3).matrix.shape == (5, 3)
    with pytest.raises(InputError, match="at most 3 components: the rows span 3"):
        fit("jupa", rows, u, s, 4)
    with pytest.raises(InputError, match="at most 3 components: the rows span 3"):
        fit("pca", rows, u, s, 4)
    for kind in ("jupa", "pca", "random"):
        with pytest.raises(InputError, match="1 to 5 components"):
            fit(kind, rows, u, s, 6)
        with pytest.raises(InputError, match="1 to 5 components"):
            fit(kind, rows, u, s, 0)


@pytest.mark.parametrize("kind", ["jupa", "dca", "ruca", "mdr", "pca"])
def test_a_column_that_does_not_vary_is_left_out(kind):
    rows, u, s = made_up(count=300)
    jitter = np.random.default_rng(0).integers(-2, 3, len(rows)) * np.spacing(0.1)  # the last digit of the constant
    with_constant = np.column_stack([rows, 0.1 + jitter])
    one, other = fit(kind, rows, u, s, 3), fit(kind, with_constant, u, s, 3, rho0=1e-3 * 8 / 7)
    assert np.abs(other.matrix[7]).max() < 1e-9
    assert np.allclose(one.matrix, other.matrix[:7], atol=1e-9)
    with pytest.raises(InputError, match="at most"):
        fit(kind, with_constant, u, s, 8 if kind == "pca" else 4, rho1_prime=0.0)


@pytest.mark.parametrize("kind", LABELLED)
def test_bad_targets_are_refused(kind):
    rows, u, s = made_up()
    one_class = np.zeros(len(rows), dtype=int)
    for utility, privacy, said in (
        ([one_class], [s], "utility target 1: two classes"),
        ([u, one_class], [s], "utility target 2: two classes"),
        ([u], [one_class], "privacy target 1: two classes"),
        ([u[:-1]], [s], "utility target 1: one label for each of 240 rows"),
        (u, [s], "utility target 1: one label for each"),
        ([u], [s * 1.0], "privacy target 1: class numbers"),
        ([], [s], "a utility target"),
    ):
        with pytest.raises(InputError, match=said):
            fit_projection(kind, rows, utility, privacy, 1, seed=b"")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_with_holes_are_refused(kind, bad):
    rows, u, s = made_up()
    found = fit(kind, rows, u, s, 2)
    rows[17, 3] = bad
    with pytest.raises(InputError, match="rows of finite numbers"):
        fit(kind, rows, u, s, 2)
    with pytest.raises(InputError, match="rows of finite numbers"):
        found.apply(rows)


def test_other_bad_input_is_refused():
    rows, u, s = made_up()
    for options, said in (
        ({"rho0": -1.0}, "a rho0 from 0"),
        ({"rho0": np.nan}, "a rho0 from 0"),
        ({"rho1": -1.0}, "a rho1 from 0"),
        ({"rho1_prime": np.inf}, "a rho1_prime from 0"),
        ({"rho1": 1e13}, "a rho1 from 0 to 1e\\+12"),
        ({"rho1": (1.0, 2.0)}, "each of 1 privacy targets"),
    ):
        with pytest.raises(InputError, match=said):
            fit("jupa", rows, u, s, **options)
    with pytest.raises(InputError, match="a projection out of"):
        fit("lda", rows, u, s)
    with pytest.raises(InputError, match="a privacy target for mdr"):
        fit_projection("mdr", rows, [u], [], 1, seed=b"")
    with pytest.raises(InputError, match="a table of numbers"):
        fit("dca", rows[0], u, s)
    with pytest.raises(InputError, match="a table of numbers"):
        fit("dca", rows.astype(str), u, s)
    with pytest.raises(InputError, match="squares can be added"):
        fit("dca", rows * 1e200, u, s)
    with pytest.raises(InputError, match="differ within classes"):
        fit("dca", np.eye(4)[u], u, s)
    mirrored = np.vstack([rows, 6.0 - rows])
    with pytest.raises(InputError, match="class means of the privacy targets that differ"):
        fit("mdr", np.vstack([mirrored, mirrored]), np.tile(u, 4), np.repeat([0, 1], 480), 1)
    with pytest.raises(InputError, match="rows of 7 numbers"):
        fit("dca", rows, u, s).apply(rows[:, :6])


# --- the kinds without labels, and files


def test_pca_is_the_singular_vectors():
    rows, u, s = made_up()
    found = fit("pca", rows, u, s, 3)
    _, sizes, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    assert same_directions(found.matrix, axes[:3].T)
    assert np.allclose(found.values, sizes[:3] ** 2 / len(rows))


def test_random_directions_follow_the_seed_and_no_row():
    rows, u, s = made_up()
    found = fit("random", rows, u, s, 3, seed=b"a")
    assert np.array_equal(found.matrix, fit("random", rows * 2 + 1, s, u, 3, seed=b"a").matrix)
    assert not np.allclose(found.matrix, fit("random", rows, u, s, 3, seed=b"b").matrix)
    drawn = fit("random", np.random.default_rng(0).standard_normal((3, 400)), u, s, 400, seed=b"c").matrix
    products = drawn.T @ drawn
    assert np.abs(products - np.eye(400)).max() < 0.3  # uniform directions: sd 0.05 off the diagonal
    assert products[~np.eye(400, dtype=bool)].std() == pytest.approx(0.05, rel=0.05)


def test_none_standardises_every_column():
    rows, u, s = made_up()
    rows[:, 2] = 0.1
    found = fit("none", rows, u, s, 1)
    assert np.array_equal(found.matrix, np.eye(7))
    z = found.apply(rows)
    kept = np.arange(7) != 2
    assert np.allclose(z[:, kept], ((rows - rows.mean(axis=0)) / rows.std(axis=0))[:, kept])
    assert np.abs(z[:, 2]).max() < 1e-12


def test_a_constant_in_many_rows_stays_a_constant():
    rows = np.tile([0.1, 0.0], (1_000_000, 1))
    rows[::2, 1] = 1.0
    z = fit_projection("none", rows, [], [], 2, seed=b"").apply(rows)
    assert np.abs(z[:, 0]).max() < 1e-12
    assert np.allclose(np.abs(z[:, 1]), 1.0)


def through_a_file(arrays):
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    buffer.seek(0)
    return dict(np.load(buffer, allow_pickle=False))


@pytest.mark.parametrize("kind", KINDS)
def test_a_projection_survives_a_file(kind):
    rows, u, s = made_up()
    found = fit(kind, rows, u, s, 3)
    again = FittedProjection.from_arrays(through_a_file(found.arrays()))
    assert np.array_equal(again.apply(rows), found.apply(rows))
    assert np.array_equal(again.values, found.values)


def test_damaged_arrays_are_refused():
    rows, u, s = made_up()
    good = fit("dca", rows, u, s, 3).arrays()
    for change in (
        {"mean": np.zeros(2)},
        {"scale": np.zeros(3)},
        {"scale": np.ones((3, 1))},
        {"values": np.ones(2)},
        {"matrix": np.full((7, 3), np.nan)},
        {"matrix": np.zeros(3)},
        {"matrix": np.array("x")},
    ):
        with pytest.raises(InputError, match="arrays of a fitted"):
            FittedProjection.from_arrays(good | change)
    with pytest.raises(InputError, match="no scale"):
        FittedProjection.from_arrays({name: good[name] for name in ("matrix", "mean", "values")})
    good = kernel_map("rbf", rows, 10, None, b"").arrays()
    for change in (
        {"kernel": np.array("linear")},
        {"gamma": np.array(-1.0)},
        {"gamma": np.ones(2)},
        {"weights": good["weights"][1:]},
        {"landmarks": np.ones(10)},
    ):
        with pytest.raises(InputError, match="arrays of a fitted"):
            KernelMap.from_arrays(good | change)
    with pytest.raises(InputError, match="no known kernel"):
        KernelMap.from_arrays({name: good[name] for name in ("gamma", "weights", "landmarks")})


# --- kernels


def true_kernel(kernel, x, y, gamma):
    if kernel == "polynomial":
        return pairwise.polynomial_kernel(x, y, degree=3, gamma=gamma, coef0=1)
    return {"rbf": pairwise.rbf_kernel, "laplacian": pairwise.laplacian_kernel}[kernel](x, y, gamma=gamma)


@pytest.mark.parametrize("kernel", FEATURE_KERNELS)
@pytest.mark.parametrize("gamma", [None, 0.05])
def test_features_multiply_to_the_kernel(kernel, gamma):
    rng = np.random.default_rng(2)
    rows, fresh = rng.standard_normal((300, 4)), rng.standard_normal((50, 4))
    exact = true_kernel(kernel, rows, rows, gamma or 0.25)
    everything = kernel_map(kernel, rows, 300, gamma, b"seed")
    features = everything.apply(rows)
    assert np.abs(features @ features.T - exact).max() < 1e-6 * exact.max()
    truth = true_kernel(kernel, fresh, fresh, gamma or 0.25)
    errors = []
    for landmarks in (5, 40, 300):
        features = kernel_map(kernel, rows, landmarks, gamma, b"seed").apply(fresh)
        assert features.shape[1] <= landmarks
        errors.append(np.linalg.norm(features @ features.T - truth) / np.linalg.norm(truth))
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.15


@pytest.mark.parametrize("kernel", FEATURE_KERNELS)
def test_landmarks_are_distinct_rows_chosen_by_the_seed(kernel):
    rows = np.random.default_rng(2).standard_normal((60, 3))
    found = kernel_map(kernel, rows, 20, None, b"a")
    places = [np.flatnonzero((rows == mark).all(axis=1)).item() for mark in found.landmarks]
    assert len(set(places)) == 20
    assert np.array_equal(found.landmarks, kernel_map(kernel, rows, 20, None, b"a").landmarks)
    assert not np.array_equal(found.landmarks, kernel_map(kernel, rows, 20, None, b"b").landmarks)
    assert len(kernel_map(kernel, rows, 400, None, b"a").landmarks) == 60
    exact = true_kernel(kernel, found.landmarks, found.landmarks, 1 / 3)
    features = found.apply(found.landmarks)
    assert np.allclose(features @ features.T, exact, rtol=1e-6, atol=1e-7)
    again = KernelMap.from_arrays(through_a_file(found.arrays()))
    assert np.array_equal(again.apply(rows), found.apply(rows))


def test_copies_of_a_landmark_add_no_feature():
    rows = np.repeat(np.random.default_rng(2).standard_normal((6, 3)), 5, axis=0)
    features = kernel_map("rbf", rows, 30, None, b"").apply(rows)
    assert features.shape == (30, 6)
    assert np.allclose(features @ features.T, true_kernel("rbf", rows, rows, 1 / 3), atol=1e-9)


def test_a_kernel_separates_what_no_line_can():
    rng = np.random.default_rng(0)
    u = np.repeat([0, 1], 200)
    turn = rng.uniform(0, 2 * np.pi, 400)
    rows = (1.0 + u + 0.1 * rng.standard_normal(400))[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])

    def told_apart(x):
        z = fit_projection("dca", x, [u], [], 1, seed=b"").apply(x)[:, 0]
        return max(((z > 0) == u).mean(), ((z < 0) == u).mean())

    assert told_apart(rows) < 0.65
    assert told_apart(kernel_map("rbf", rows, 60, None, b"").apply(rows)) > 0.99


def test_bad_kernels_are_refused():
    rows = made_up()[0]
    for kernel, landmarks, gamma, said in (
        ("linear", 10, None, "linear needs no map"),
        ("rbf", 0, None, "at least one landmark"),
        ("rbf", 10, 0.0, "a gamma above 0"),
        ("rbf", 10, np.inf, "a gamma above 0"),
    ):
        with pytest.raises(InputError, match=said):
            kernel_map(kernel, rows, landmarks, gamma, b"")
    for kernel in ("rbf", "polynomial"):
        with pytest.raises(InputError, match="scale the columns"):
            kernel_map(kernel, rows * 1e200, 10, None, b"")
    with pytest.raises(InputError, match="scale the columns"):
        kernel_map("polynomial", rows, 10, None, b"").apply(rows * 1e200)
    found = kernel_map("rbf", rows, 10, None, b"")
    assert not found.apply(rows * 1e200).any()  # far from every landmark
    with pytest.raises(InputError, match="rows of 7 numbers"):
        found.apply(rows[:, :3])
    rows[0, 0] = np.nan
    with pytest.raises(InputError, match="rows of finite numbers"):
        found.apply(rows)
    with pytest.raises(InputError, match="rows of finite numbers"):
        kernel_map("rbf", rows, len(rows), None, b"")
