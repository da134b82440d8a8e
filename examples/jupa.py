"""Serve one purpose, hide another: utility-aware releases of handwritten digits, and two adversaries side by side.

    python examples/jupa.py OUT

The records are scikit-learn's digits. A service is to learn whether a digit is even or odd; whether it is 5 or more is
nobody's business. Two fifths of the records are public, a fifth are the owner's, and two fifths belong to whoever
attacks: the paper's adversary learns from untouched records, the adaptive one runs the public release on its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_digits

import adumbra as ad
from adumbra.audit.adversaries import attack_jupa

OPTIONS = {  # what is tried: a name for the table, and what the recipe is told
    "coarse, 5 numbers": {"release": "coarse", "components": 5},
    "coarse, 1 number": {"release": "coarse", "components": 1},
    "fine step, 5 numbers": {"release": "fine", "components": 5},
    "resample": {"release": "resample", "components": 5, "model": "kernel"},
    "resample, equalised": {"release": "resample", "components": 5, "model": "kernel", "equalise": True},
    "respond, epsilon 1": {"release": "respond", "components": 5, "model": "kernel", "epsilon": 1.0},
    "repair, 2 bins": {"release": "repair", "model": "kernel", "bins": 2},
    "laplace, epsilon 4": {"release": "laplace", "components": 1, "epsilon": 4.0},
}
RELEASED = "resample, equalised"


def digits() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """64 grey levels and two labels: public records, the owner's, and the adversary's."""
    found = load_digits()
    digit = found.target
    frame = pl.DataFrame({f"pixel{i}": found.data[:, i] for i in range(64)}).with_columns(
        parity=pl.Series(np.where(digit % 2, "odd", "even")), high=pl.Series(np.where(digit >= 5, "5 to 9", "0 to 4"))
    )
    order = np.random.default_rng(0).permutation(len(digit))
    ends = np.round(np.array([0.4, 0.6]) * len(digit)).astype(int)
    public, owner, adversary = (frame[np.sort(part)] for part in np.split(order, ends))
    return public, owner, adversary


def promised(model: ad.JupaModel) -> str:
    """What the card says, in a few words."""
    words = model.words
    if words.label_epsilon is not None:
        return f"epsilon {words.label_epsilon:g} for the label, beside what parity tells ({words.told:.1%})"
    if words.accuracy_bound is not None:
        return f"at most {words.accuracy_bound:.1%}"
    return "nothing" if words.told is None else f"what parity tells, and no more ({words.told:.1%})"


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    public, owner, adversary = digits()
    print(f"{public.height} public records, {owner.height} of the owner, {adversary.height} of the adversary")
    print(f"\n{'share of right answers':24}{'service':>9}{'paper':>9}{'adaptive':>10}  by        promised")
    trained: dict[bytes, object] = {}  # machines on untouched records, shared between the releases
    for name, options in OPTIONS.items():
        recipe = ad.JupaRecipe(utility="parity", privacy="high", **options)
        model = ad.fit_jupa(public, recipe, seed=ad.PublicSeed.given("digits"))
        seen = attack_jupa(model, adversary, owner, quick=True, trained=trained)
        shares = f"{seen.utility:9.1%}{seen.papers:9.1%}{seen.worst:10.1%}"
        print(f"{name:24}{shares}  {seen.strongest:10}{promised(model)}")
        if name == RELEASED:
            model.save(out / "jupa-model")
    print(f"{'guessing':24}{'':9}{seen.chance:9.1%}{seen.chance:10.1%}")
    print(f"(one split, {owner.height} records: read no difference below {2 * seen.standard_error:.0%})\n")

    release = ad.apply_jupa(out / "jupa-model", owner, out / "jupa-release", name="digits")
    print(release.table().head(3))
    print(release.card.promise)
    print(f"To whom: {release.card.to_whom}")


if __name__ == "__main__":
    main()
