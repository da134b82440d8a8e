"""The numbers of docs/proofs/published-dprp.md: DPRP as the paper prints it, measured by the exact Gaussian curve.

    python examples/published_dprp.py

Reads no data and draws nothing.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.accounting.calibrate import chi2_cells, fresh_sigma_for, gaussian_delta, mu_for, paper_sigma, smallest
from adumbra.published.dprp_paper import imputed, theorem_a_sigma, theorem_b_sigma, unit_rows

DELTA = 1e-4  # the paper's
EPSILONS = (1, 2, 4, 6, 8)  # the paper's
DIMENSION = 320  # ten times the width of the paper's second table; the paper's own are "always > d"
DELTA_2 = 0.15 * DELTA


def exact_delta(epsilon: float, dimension: int, rows: float, moment: float, runs: int = 1) -> tuple[float, float]:
    """Lower and upper end of delta(epsilon) for (R, P', X_C + M_2) together, at one pair of tables.

    Squared mu is rows * chi2_k1 / k1 + moment: `rows` and `moment` are the squared changes of X and of the upper
    triangle of X'X, each over its noise variance. The average over the chi-square law is bracketed by its two Riemann
    sums. `runs` independent runs add up.
    """
    ends, masses, rest = chi2_cells(dimension * runs)
    starts = np.concatenate([[0.0], ends[:-1] * (1 - 3e-9)])  # the cells' ends are moved up by 1e-9; undone here
    low = masses @ gaussian_delta(epsilon, np.sqrt(runs * (rows * starts + moment)))
    high = rest + masses @ gaussian_delta(epsilon, np.sqrt(runs * (rows * ends + moment)))
    return float(low), float(high)


def pair_ends(epsilon: float, claimed: float, cosine: float, dimension: int, runs: int = 1) -> tuple[float, float]:
    """Delta of the printed noise (Z = 1, 80/15) where one unit row is replaced by another at this cosine.

    |x - y|^2 = 2 - 2c and |xx' - yy'|^2 = 2 - 2c^2, all of it on the diagonal in the worst basis. Without negative
    entries c >= 0, and c = 0 is the worst pair, since both terms fall from there.
    """
    rows = (2 - 2 * cosine) / theorem_a_sigma(0.8 * claimed, 0.8 * DELTA, dimension) ** 2
    moment = (2 - 2 * cosine**2) / theorem_b_sigma(0.15 * claimed, DELTA_2) ** 2
    return exact_delta(epsilon, dimension, rows, moment, runs)


def antipodal(epsilon: float, claimed: float, dimension: int = DIMENSION) -> float:
    """From below: what refutes a claim."""
    return pair_ends(epsilon, claimed, -1.0, dimension)[0]


def non_negative(epsilon: float, claimed: float, dimension: int = DIMENSION) -> float:
    """From above: what supports one."""
    return pair_ends(epsilon, claimed, 0.0, dimension)[1]


def theorem_2() -> None:
    print("Both outputs, Z = 1, k1 = 320: exact delta where 9.5e-05 is claimed at 0.95 epsilon, and 1e-04 at epsilon")
    print("claimed  sigma_1  sigma_2  antipodal  antipodal at the whole epsilon  non-negative  zero-out")
    for e in EPSILONS:
        s1, s2 = theorem_a_sigma(0.8 * e, 0.8 * DELTA, DIMENSION), theorem_b_sigma(0.15 * e, DELTA_2)
        emptied = exact_delta(0.95 * e, DIMENSION, s1**-2, s2**-2)[1]
        print(
            f"{e:<8} {s1:<8.3f} {s2:<8.2f} {antipodal(0.95 * e, e):<10.1e} {antipodal(e, e):<31.1e} "
            f"{non_negative(0.95 * e, e):<13.1e} {emptied:.1e}"
        )


def by_dimension() -> None:
    print("\nThe same by k1, claimed epsilon 1 and 8: antipodal at 0.95 epsilon, at the whole epsilon; non-negative")
    for k in (32, 64, 320, 1600, 3200, 10**6):
        found = [
            f"{antipodal(0.95 * e, e, k):.1e} {antipodal(e, e, k):.1e} {non_negative(0.95 * e, e, k):.1e}"
            for e in (1, 8)
        ]
        stretch = theorem_a_sigma(0.8, 0.8 * DELTA, k) / paper_sigma(0.8, 0.8 * DELTA, 1.0)
        print(f"k1 {k:<8} {'   '.join(found)}   tail bound {stretch:.2f}")


def true_epsilons() -> None:
    print("\nTrue epsilon at delta 1e-04, k1 = 320: antipodal, non-negative")
    for e in EPSILONS:
        signed, positive = (smallest(lambda x, f=f, e=e: f(x, e) <= DELTA, 1.0) for f in (antipodal, non_negative))
        print(f"claimed {e}: {signed:.2f}  {positive:.2f}")


def theorem_a() -> None:
    print("\nTheorem A alone, antipodal rows: exact delta where 8e-05 is claimed")
    print("epsilon_1  k1 = 32   k1 = 320  k1 = 3200")
    for e in EPSILONS:
        found = []
        for k in (32, 320, 3200):
            sigma = theorem_a_sigma(0.8 * e, 0.8 * DELTA, k)
            found.append(f"{exact_delta(0.8 * e, k, 4 / sigma**2, 0.0)[0]:<9.1e}")
        print(f"{0.8 * e:<10.1f} {' '.join(found)}")


def theorem_b() -> None:
    print("\nTheorem B alone: exact delta where 1.5e-05 is claimed")
    print("epsilon_2  sigma_2  replaced (sqrt 2)  emptied (1)  replaced, (8) read as a variance")
    for e in EPSILONS:
        epsilon, sigma = 0.15 * e, theorem_b_sigma(0.15 * e, DELTA_2)
        found = [gaussian_delta(epsilon, m) for m in (math.sqrt(2) / sigma, 1 / sigma, math.sqrt(2 / sigma))]
        print(f"{epsilon:<10.2f} {sigma:<8.2f} {found[0]:<18.1e} {found[1]:<12.1e} {found[2]:.1e}")
    fails = smallest(lambda x: gaussian_delta(x, math.sqrt(2) / theorem_b_sigma(x, DELTA_2)) > DELTA_2, 0.1)
    print(f"false from epsilon_2 = {fails:.3f} on")


def imputation() -> None:
    print("\nColumn means: 100 records, column 1 missing in m of them; record 0 changes its value there by 2")
    print("m   rows that change   change of the table   of the unit rows   true epsilon of P' at 1e-04, claimed 0.8")
    for missing in (0, 50, 90, 99):
        one, other = np.full((100, 2), 0.01), np.full((100, 2), 0.01)
        for table, value in ((one, 1.0), (other, -1.0)):
            table[:, 0] = 0.0
            table[100 - missing :, 0] = np.nan
            table[0, 0] = value
        change = imputed(one) - imputed(other)
        units = float(np.linalg.norm(unit_rows(imputed(one)) - unit_rows(imputed(other))))
        variance = theorem_a_sigma(0.8, 0.8 * DELTA, DIMENSION) ** 2
        # Every row moves along one direction, so the change of XR is that direction's image times the length.
        found = smallest(lambda x, u=units, v=variance: exact_delta(x, DIMENSION, u**2 / v, 0.0)[0] <= DELTA, 1.0)
        moved = np.count_nonzero(np.abs(change).sum(axis=1))
        print(f"{missing:<3} {moved:<18} {np.linalg.norm(change):<21.3f} {units:<18.2f} {found:.2f}")
    print("a column of 858 with 787 missing: one value over the whole range moves the imputed cells by")
    print(f"{math.sqrt(787) / 71:.2f} of the range")


def search() -> None:
    print("\nThe search for k1: delta at 0.95 if all candidates' outputs count, claimed 1, non-negative rows, k1 = 320")
    for runs in (1, 2, 3, 5, 10):
        print(f"{runs} candidates: {pair_ends(0.95, 1, 0.0, DIMENSION, runs)[0]:.1e}")


def dimensions() -> None:
    print("\nNoise for unit distance at epsilon 1, delta 1e-04: (6), fresh projection exactly, no projection")
    print("and squared row noise after least squares over that of no projection, d = 32")
    direct = 1 / mu_for(1.0, DELTA)
    for k in (4, 16, 64, 320, 3200):
        fresh = fresh_sigma_for(1.0, DELTA, k, 1.0)
        ratio = f"{k / (k - 33) * (fresh / direct) ** 2:.2f}" if k > 33 else "-"
        print(f"k1 {k:<5} {theorem_a_sigma(1.0, DELTA, k):<6.2f} {fresh:<5.2f} {direct:<6.3f} {ratio}")


def norms() -> None:
    print("\nZ bounds a difference in (6) and a norm in (8): rows (M, 0) and (M + 1, 0) move X'X by")
    for m in (0, 10, 1000):
        x, y = np.array([m, 0.0]), np.array([m + 1, 0.0])
        print(f"M = {m}: {np.linalg.norm(np.outer(x, x) - np.outer(y, y)):.0f}")


PARTS = (theorem_2, by_dimension, true_epsilons, theorem_a, theorem_b, imputation, search, dimensions, norms)

if __name__ == "__main__":
    for part in PARTS:
        part()
