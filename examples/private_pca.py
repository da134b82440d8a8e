"""Principal components of a survey that stays private: axes with error bars, rows with noise, and what it all costs.

    python examples/private_pca.py OUT

The survey is made up: 5,000 people answer 12 questions from 0 to 10, and three moods move their answers. The last
lines of each part step to the owner's side and compare with the truth, which nobody else can do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import adumbra as ad

QUESTIONS, PEOPLE = 12, 5_000
LOW, HIGH = 0, 10  # the answers one can give: public, and not read from the survey
EVERYBODY = ad.Neighbours(ad.Unit.ROW, ad.Relation.REPLACE)


def survey() -> np.ndarray:
    """Three moods, each moving four questions; the first more than the second, the second more than the third."""
    generator = np.random.default_rng(0)
    moods = generator.normal(size=(PEOPLE, 3)) * [2.4, 1.8, 1.2]
    return np.clip(5 + np.repeat(moods, 4, axis=1) + generator.normal(size=(PEOPLE, QUESTIONS)) * 0.5, LOW, HIGH)


def axes(answers: np.ndarray, ledger: ad.Ledger) -> ad.sklearn.PrivatePCA:
    """One release of axes, and what can be said of them."""
    pca = ad.sklearn.PrivatePCA(low=LOW, high=HIGH, epsilon=1.0, ledger=ledger, table_name="survey").fit(answers)
    print(f"epsilon 1 shows {pca.components_above_noise_} components above the noise and keeps {pca.n_components_}")
    print("  variance   95 % from        to   most about questions")
    for i, axis in enumerate(pca.components_):
        most = ", ".join(str(1 + q) for q in sorted(np.argsort(-np.abs(axis))[:4]))
        low, high = pca.explained_variance_low_[i], pca.explained_variance_high_[i]
        print(f"{pca.explained_variance_[i]:10.5f}  {low:10.5f}{high:10.5f}   {most}")
    print(f"  (the noise alone reaches {pca.noise_edge_:.5f}; rows were shortened to {pca.row_bound_:.2f})")
    true = PCA(pca.n_components_).fit(answers).components_
    overlap = np.linalg.svd(pca.components_ @ true.T)[1]
    print(f"owner's side: {np.degrees(np.arccos(overlap.clip(max=1))).max():.1f} degrees from scikit-learn's PCA\n")
    return pca


def rows(answers: np.ndarray, ledger: ad.Ledger) -> None:
    """Rows along the axes: each is a release, and needs more epsilon than the axes did."""
    content = answers[:, :4].mean(axis=1) > 5
    train, test = slice(0, PEOPLE // 2), slice(PEOPLE // 2, None)
    print("a classifier on released rows")
    for epsilon in (1.0, 8.0, 32.0):
        private = ad.sklearn.PrivatePCA(
            LOW, HIGH, n_components=3, transform_epsilon=epsilon, ledger=ledger, table_name=f"survey at {epsilon:g}"
        )
        pipe = make_pipeline(private, LogisticRegression()).fit(answers[train], content[train])
        right = pipe.score(answers[test], content[test])
        spent = ledger.spent(private.table_name, EVERYBODY, 1e-6)
        noise = f"noise of sd {private.sigma_:5.2f}"
        print(f"  transform_epsilon {epsilon:4g}: {noise}, {right:.0%} right; the ledger says epsilon {spent:.1f}")
    print("  (a row was released once, to train or to test; the ledger knows tables, not rows, and counts both)\n")


def search() -> None:
    """A grid search is many releases; counting them costs nothing."""
    pipe = make_pipeline(ad.sklearn.PrivatePCA(LOW, HIGH, transform_epsilon=8.0), LogisticRegression())
    grid = GridSearchCV(pipe, {"privatepca__n_components": [2, 3, 4]}, cv=5)
    print("a grid search over the number of components would cost")
    print(ad.sklearn.search_cost(grid))
    print("n_components=None lets the noise choose, and costs nothing more")


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    answers, ledger = survey(), ad.Ledger(out / "private-pca-ledger.db")
    pca = axes(answers, ledger)
    try:
        pca.set_params(transform_epsilon=None).fit_transform(answers)
    except ad.InputError as refusal:
        print(f"without a budget for rows they are refused:\n  {refusal.expected}\n")
    rows(answers, ledger)
    search()


if __name__ == "__main__":
    main()
