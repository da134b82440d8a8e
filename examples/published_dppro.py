"""The numbers of docs/proofs/published-dppro.md: DPPro as the paper prints it, measured by the exact Gaussian curve.

    python examples/published_dppro.py

Reads no data. Each matrix is drawn as in the paper's Algorithm 1, from the seed printed, so the output repeats.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.accounting.calibrate import (
    eps_for,
    fresh_sigma_for,
    gaussian_delta,
    mu_for,
    paper_lemma4_applies,
    paper_lemma4_sigma,
    paper_sigma,
)
from adumbra.published.dppro_paper import best_dimension, theorem_2_sigma

DELTA = 1e-5
WIDTH = 50


def matrix(k: int, seed: int = 0) -> np.ndarray:
    """R as in Algorithm 1: iid N(0, 1/k)."""
    return np.random.default_rng([seed, k]).normal(0.0, 1.0 / math.sqrt(k), (WIDTH, k))


def theorem_2() -> None:
    print("Theorem 2, theta = 1: sound and loose")
    print("delta   epsilon  paper   exact   ratio  true delta at the paper's sigma")
    for delta, epsilon in ((1e-4, 0.1), (1e-4, 1), (1e-5, 0.05), (1e-5, 1), (1e-5, 8), (1e-6, 1)):
        paper, exact = paper_sigma(epsilon, delta, 1.0), 1 / mu_for(epsilon, delta)
        true = gaussian_delta(epsilon, 1 / paper)
        print(f"{delta:<7g} {epsilon:<8g} {paper:<7.4g} {exact:<7.4g} {exact / paper:<6.2f} {true:.1e}")


def one_hot() -> None:
    print("\nA category as ten 0/1 columns of 50: one change moves two coordinates")
    print("k   widest pair / theta   true delta where 1e-5 is claimed, at epsilon 0.2, 1, 4")
    for k in (8, 16, 32):
        r = matrix(k)
        theta = np.linalg.norm(r, axis=1).max()
        widest = max(np.linalg.norm(r[i] - r[j]) for i in range(10) for j in range(i))
        true = [gaussian_delta(e, widest / theorem_2_sigma(e, DELTA, r)) for e in (0.2, 1.0, 4.0)]
        print(f"{k:<3} {widest / theta:<21.3f} " + "  ".join(f"{t:.1e}" for t in true))
    print("two orthogonal rows of length theta (sqrt(2) apart), the same epsilons:")
    true = [gaussian_delta(e, math.sqrt(2) / paper_sigma(e, DELTA, 1.0)) for e in (0.2, 1.0, 4.0)]
    print(" " * 26 + "  ".join(f"{t:.1e}" for t in true))


def unscaled() -> None:
    print("\nA number with a range of 100, left unscaled: true epsilon at delta 1e-5 where 1 is claimed")
    print(f"{eps_for(100 / paper_sigma(1.0, DELTA, 1.0), DELTA):.0f}")


def experiments() -> None:
    print("\nThe experiments' sigma, d = 50: true epsilon at delta 1e-5, true delta at epsilon 1.6")
    for sigma in (0.1, 0.2):
        for k in (4, 12, 20):
            theta = np.linalg.norm(matrix(k), axis=1).max()
            epsilon, delta = eps_for(theta / sigma, DELTA), gaussian_delta(1.6, theta / sigma)
            print(f"sigma {sigma}  k {k:<3} theta {theta:.2f}  epsilon {epsilon:5.0f}  delta {delta:.4f}")
    needed = [f"{1 / mu_for(e, DELTA):.3g} at epsilon {e}" for e in (0.05, 0.2, 1.6)]
    print("needed for theta = 1: " + ", ".join(needed))
    print(f"Lemma 4 at epsilon 1, d = 50, k = 20: its conditions hold: {paper_lemma4_applies(1, DELTA, 50, 20)}")


def sigmas() -> None:
    r = matrix(16)
    theta = np.linalg.norm(r, axis=1).max()
    print("\nsigma at epsilon 1, delta 1e-5, d = 50, k = 16")
    print(f"Lemma 4                                {paper_lemma4_sigma(1.0, DELTA):.2f}")
    print(f"Theorem 2 at the drawn matrix          {theorem_2_sigma(1.0, DELTA, r):.2f}")
    print(f"exact curve at the drawn matrix        {theta / mu_for(1.0, DELTA):.2f}")
    print(f"fresh Gaussian matrix, averaged        {fresh_sigma_for(1.0, DELTA, 16, 1.0):.2f}")
    print(f"unit rows (what adumbra releases)      {1 / mu_for(1.0, DELTA):.2f}")
    norm = np.linalg.norm(np.random.default_rng(0).normal(0, 0.25, (500, 16)), 2)
    print("\nwhole rows, distance at most 2, d = 500, k = 16, epsilon 1, delta 1e-5")
    print(f"per matrix                             {2 * norm / mu_for(1.0, DELTA):.1f}")
    print(f"fresh Gaussian matrix                  {fresh_sigma_for(1.0, DELTA, 16, 2.0):.2f}")
    print(f"no projection                          {2 / mu_for(1.0, DELTA):.2f}")


def lemma_5() -> None:
    print("\nLemma 5 with a valid sigma (theta = 1), squared distance 20: best k")
    for epsilon in (0.2, 1.0, 4.0):
        print(f"epsilon {epsilon}: {best_dimension(20.0, 1 / mu_for(epsilon, DELTA)):.2f}")


if __name__ == "__main__":
    theorem_2()
    one_hot()
    unscaled()
    experiments()
    sigmas()
    lemma_5()
