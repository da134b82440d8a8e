"""What is measured was planned and charged; only audits measure without a charge."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import adumbra as ad
from adumbra.noise import add as noise
from tests.at_the_noise import SCHEMA, warming
from tests.house import test_architecture
from tests.mechanisms import test_synthetic

real_add_noise = noise.add_noise


def test_a_later_look_that_was_not_planned_is_refused():
    """What an earlier answer suggests may change what is asked, never its noise: that was charged before."""

    class Other(ad.Moments):
        def queries(self, setting):
            asked = super().queries(setting)
            return asked | {"moments": dataclasses.replace(asked["moments"], second=2.0)}

    said = []

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="planned and charged"):
        made_up = warming(patch)

        def heard(law, exact, t, step, **kw):
            if not made_up:
                said.append(np.shape(exact))
            return real_add_noise(law, exact, t, step, **kw)

        patch.setattr(noise, "add_noise", heard)
        ad.release(test_synthetic.mixed(9), SCHEMA, Other(rows=3), ad.Budget(1.0))
    assert said == [(3,), (3,), (3,), (9,)]  # the first measurement: sums, squares, cells that are there, shares


def test_only_audits_measure_without_a_charge():
    """A door is made in one file, and the way around the ledger is for tables that are made up."""
    makers = {module for module, text in test_architecture.MODULES.items() if re.search(r"\bMeter\(", text)}
    assert makers - {"privacy/meter.py"} == {"rehearsal.py"}
    # the warm-up is tested to run on made-up tables; the pipeline, which has the real one, cannot rehearse it
    free = test_architecture.users_of("rehearse") - {"rehearsal.py", "warm_up.py"}
    assert all(module.startswith("audit/") for module in free), free
    (use,) = re.findall(r"^.*\brehearse\(.*$", test_architecture.MODULES["warm_up.py"], re.MULTILINE)
    assert use.strip() == "for draft in rehearse(made, watched, engine=engine):"
