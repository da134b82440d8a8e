"""Recipes that make no sense are refused with words."""

from __future__ import annotations

import pytest

from adumbra.common.errors import InputError
from adumbra.jupa.recipe import JupaRecipe


@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": 5},
        {"projection": "dca", "rho1": 5.0},
        {"projection": "dca", "rho1_prime": 5.0},
        {"projection": "ruca", "rho1_prime": 3.0},
        {"projection": "mdr", "rho1": 3.0},
        {"projection": "mdr", "rho1_prime": 3.0},
        {"projection": "pca", "rho0": 0.5},
        {"projection": "pca", "rho1": 0.5},
        {"projection": "random", "rho0": 0.5},
        {"projection": "none", "components": 3},
        {"projection": "none", "rho0": 0.5},
        {"whole": True, "projection": "pca"},
        {"whole": True, "components": 3},
        {"whole": True, "rho1": 3.0},
        {"whole": True, "kernel": "rbf"},
        {"drop": ("wants",)},
    ],
    ids=str,
)
def test_an_option_that_would_be_ignored_is_refused(options):
    """Ignored because of another option, not of the release: a card would print them as if they were used."""
    with pytest.raises(InputError):
        JupaRecipe("wants", "secret", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"pool": "x"},
        {"rho1": "abc"},
        {"rho1": None},
        {"utility": 3},
        {"equalise": "no"},
        {"whole": "no"},
        {"drop": None},
    ],
    ids=str,
)
def test_recipes_of_the_wrong_types(options):
    """An error that says what to do; no text counts as yes."""
    with pytest.raises(InputError):
        JupaRecipe(**({"utility": "wants", "privacy": "secret"} | options))
