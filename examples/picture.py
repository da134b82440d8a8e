"""The picture in the README: squared distances estimated from one release, against the truth.

    pip install matplotlib        # not a dependency of adumbra
    python examples/picture.py OUT

Writes OUT/distances.png (docs/images/distances.png is a copy of it). Scikit-learn's breast cancer data, unit cell,
delta 1e-6. Left: single pairs of one release, each with its own 95 % interval. Right: averages over all pairs of a
tenth of the true distances; the bars span 95 % of 40 repeated releases. Repeating releases is only for the picture:
each would be charged in earnest.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from demo import breast_cancer, schema_text

import adumbra as ad

EPSILON, DIMENSION, REPEATS, SHOWN = 8.0, 16, 40, 60
INK, BLUE, ORANGE, GREY = "#22313f", "#1f6f9f", "#d9731a", "#b8c2cc"


def true_squared_distances(schema: ad.Schema) -> np.ndarray:
    """In encoded units: numbers over their declared range, 1 for a different diagnosis."""
    table = breast_cancer()
    columns = [c for c in schema.columns if c.kind == "number"]
    x = np.column_stack([(table[c.name].to_numpy() - c.low) / (c.high - c.low) for c in columns])
    x = np.column_stack([x, (table["diagnosis"] == "malignant").to_numpy()])
    squares = (x * x).sum(1)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * x @ x.T, 0.0)


def main() -> None:
    try:
        import matplotlib
    except ImportError:
        print("this picture needs matplotlib: pip install matplotlib")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    (out / "patients.toml").write_text(schema_text(), encoding="utf-8")
    schema = ad.Schema.load(out / "patients.toml")
    truth = true_squared_distances(schema)
    budget = ad.Budget(epsilon=EPSILON, unit=ad.Unit.CELL)
    mechanism = ad.DPPro(dimension=DIMENSION)
    releases = [ad.release(breast_cancer(), schema, mechanism, budget) for _ in range(REPEATS)]

    upper = np.triu_indices(len(truth), 1)
    tenth = np.searchsorted(np.quantile(truth[upper], np.linspace(0.1, 0.9, 9)), truth[upper])
    centre = np.array([truth[upper][tenth == t].mean() for t in range(10)])
    estimates = [r.distance_matrix(clip=False)[upper] for r in releases]
    averages = np.array([[e[tenth == t].mean() for t in range(10)] for e in estimates])

    pairs = releases[0].random_pairs(SHOWN, seed=3)
    answer = releases[0].distances(pairs)
    actual = truth[pairs[:, 0], pairs[:, 1]]

    plt.rcParams |= {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY}
    plt.rcParams |= {"xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
    inside = (np.abs(answer["squared_distance"] - actual) < 1.96 * answer["standard_error"]).to_numpy()
    for chosen, colour in ((inside, BLUE), (~inside, ORANGE)):
        if chosen.any():
            left.errorbar(
                actual[chosen],
                answer["squared_distance"].to_numpy()[chosen],
                1.96 * answer["standard_error"].to_numpy()[chosen],
                fmt="o", ms=4, color=colour, elinewidth=0.9, alpha=0.8,
                label=f"{chosen.sum()} intervals {'hold' if colour == BLUE else 'miss'} the truth",
            )  # fmt: skip
    left.set_title("One pair of people: mostly noise", loc="left", fontsize=11, fontweight="bold")

    low, high = np.quantile(averages, [0.025, 0.975], axis=0)
    right.fill_between(centre, low, high, color=BLUE, alpha=0.16, lw=0, label=f"95 % of {REPEATS} repeated releases")
    right.plot(centre, averages[0], "o", ms=6, color=BLUE, label="one release, averages of about 16,000 pairs")
    right.set_title("Averages over many pairs: useful", loc="left", fontsize=11, fontweight="bold")
    for axis, top in ((left, actual.max()), (right, 1.15 * centre[-1])):
        axis.plot([0, top], [0, top], color=INK, lw=1.1, ls=(0, (4, 3)), zorder=1, label="truth")
        axis.set_xlabel("true squared distance")
        axis.grid(axis="y", color=GREY, lw=0.5, alpha=0.5)
        axis.legend(frameon=False, fontsize=9, loc="upper left")
        axis.set_axisbelow(True)
    left.set_ylabel("estimated from the release")
    left.set_ylim(top=left.get_ylim()[1] * 1.25)
    card = releases[0].card
    figure.suptitle(
        f"Breast cancer Wisconsin, 569 rows x 31 columns, released as {DIMENSION} noisy numbers a row; "
        f"epsilon {card.epsilon:g}, delta {card.delta:g}, unit {card.unit}, relation {card.relation}",
        fontsize=9.5, color="#5b6b7a", x=0.01, ha="left",
    )  # fmt: skip
    figure.savefig(out / "distances.png", dpi=130)
    print(f"{out / 'distances.png'}: {inside.sum()} of {SHOWN} intervals hold the truth")


if __name__ == "__main__":
    main()
