"""What a utility-aware release is made of: targets, projection, and what is done to a record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least, between, one_of, positive
from adumbra.jupa.features import ENCODINGS
from adumbra.jupa.scoring import MODELS
from adumbra.linalg.discriminant import FEATURE_KERNELS, KINDS
from adumbra.linalg.mmd import KERNELS as FINE_KERNELS

__all__ = ["RELEASES", "JupaRecipe"]

RELEASES = ("coarse", "fine", "resample", "respond", "repair", "laplace")

_PROJECTED = ("coarse", "fine", "resample", "respond", "laplace")
_FOR_RELEASES = {
    **dict.fromkeys(("projection", "components", "rho0", "rho1", "rho1_prime", "kernel", "landmarks"), _PROJECTED),
    "epsilon": ("respond", "laplace"),
    "equalise": ("resample", "respond"),
    "pool": ("resample", "respond"),
    "whole": ("resample", "respond"),
    "model": ("resample", "respond", "repair"),
    "bins": ("repair",),
    "fine_kernel": ("fine",),
    "bandwidth": ("fine",),
    "step": ("fine",),
    "most_steps": ("fine",),
    "keep_unreached": ("fine",),
    "source": ("fine",),
    "clip": ("laplace",),
}
_FOR_PROJECTIONS = {
    "components": ("jupa", "dca", "mdr", "ruca", "pca", "random"),
    "rho0": ("jupa", "dca", "mdr", "ruca"),
    "rho1": ("jupa", "ruca"),
    "rho1_prime": ("jupa",),
}
_OF_A_SUBSPACE = ("projection", "components", "rho0", "rho1", "rho1_prime", "kernel", "landmarks")


@dataclass(frozen=True)
class JupaRecipe:
    """Everything that `fit_jupa` is told, all of it public.

    * `utility`, `privacy`: label columns. Several of a kind are summed in the projection (equation 9) and count as one
      joint label everywhere else.
    * `projection`: jupa, dca, mdr, ruca, pca, random, none; `components` is K (default: utility classes - 1);
      `rho0` relative to trace/d; `rho1`, `rho1_prime`: one for each privacy column, or one for all. `kernel`: linear,
      or rbf, laplacian, polynomial on `landmarks` public records.
    * `release`: what is done to a record.
      coarse: projected, nothing else. fine: moved towards a random class (equations 10 to 14), a heuristic.
      resample: a public record with the predicted utility class and a random privacy class.
      respond: the same with a privacy class by randomised response, `epsilon` for the label.
      repair: a utility score whose rank among public records of the same privacy class is kept, to `bins` places.
      laplace: the projected record, cut to `clip` deviations, with Laplace noise: `epsilon` for the whole record.
    * `equalise` (resample, respond): make the predicted utility class equally frequent in every privacy class.
    * `whole` (resample, respond): release whole public records instead of projected ones. `pool`: the share of public
      records of a pair of classes, the most typical first, that may be drawn.
    * `model`: which public classifier predicts the utility class: linear, kernel, boosting, auto.
    * `keep_unreached` (fine): release records that did not reach their class too.
    * `encoding`: onehot, or binary as in the paper. `drop`: columns that are no features.
    """

    utility: tuple[str, ...]
    privacy: tuple[str, ...]
    projection: str = "jupa"
    components: int | None = None
    rho0: float = 1e-3
    rho1: tuple[float, ...] = (1.0,)
    rho1_prime: tuple[float, ...] = (1.0,)
    kernel: str = "linear"
    landmarks: int = 400
    release: str = "resample"
    epsilon: float | None = None
    equalise: bool = False
    pool: float = 1 / 3
    whole: bool = False
    model: str = "auto"
    bins: int = 2
    fine_kernel: str = "auto"
    bandwidth: float | None = None
    step: float = 1.0
    most_steps: int = 200
    keep_unreached: bool = False
    source: str = "predicted"
    clip: float = 2.0
    encoding: str = "onehot"
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("utility", "privacy", "drop"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name in ("rho1", "rho1_prime"):
            object.__setattr__(self, name, _weights(name, getattr(self, name), len(self.privacy)))
        if not self.utility or not self.privacy:
            raise InputError(
                "a utility and a privacy column",
                "no utility column" if not self.utility else "no privacy column",
                "name at least one of each (--utility COL --privacy COL)",
            )
        named = (*self.utility, *self.privacy, *self.drop)
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise InputError("each target column once", f"{twice[0]!r} twice", "one column has one purpose")
        for name in ("equalise", "whole", "keep_unreached"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} as True or False", type(getattr(self, name)).__name__, "give one of them")
        one_of(KINDS, projection=self.projection)
        one_of(RELEASES, release=self.release)
        one_of(("linear", *FEATURE_KERNELS), kernel=self.kernel)
        one_of(ENCODINGS, encoding=self.encoding)
        one_of(("auto", *MODELS), model=self.model)
        one_of(("auto", *FINE_KERNELS), fine_kernel=self.fine_kernel)
        between(0.0, 1e12, "give a floor of 0 or more; 1e-3 is usual", rho0=self.rho0)
        if self.components is not None:
            at_least(1, "give at least one component", components=self.components)
        at_least(1, "give at least one landmark", landmarks=self.landmarks)
        at_least(2, "give at least two bins: one would say nothing", bins=self.bins)
        at_least(1, "allow at least one step", most_steps=self.most_steps)
        positive("give a positive step in units of the bandwidth", step=self.step)
        positive("give a positive number of deviations", clip=self.clip)
        if self.bandwidth is not None:
            positive("give a positive multiple of the median distance", bandwidth=self.bandwidth)
        if positive("give the share of public records to draw from", pool=self.pool) > 1.0:
            raise InputError("0 < pool <= 1", f"pool = {self.pool:g}", "give the share of public records to draw from")
        if self.source != "predicted":
            raise InputError(
                "the source class of the fine step as its own rule predicts it (equation 10)",
                f"source = {self.source!r}",
                "leave it out: with the true label as source the moved record gives the label away (an adversary who "
                "simulates the step read 53 % of 30 identities that way, 11 % before)",
            )
        self._check_used()
        self._check_epsilon()
        if self.encoding == "binary" and (self.release == "repair" or self.equalise):
            raise InputError(
                "encoding onehot for repair and for equalise",
                "encoding binary",
                "leave it out: values share bits, so that a value nobody has seen would be taken for another one",
            )

    def _check_used(self) -> None:
        """Refuse what would be ignored."""
        for field in dataclasses.fields(self):
            reason = self._unused(field.name)
            if reason and getattr(self, field.name) != field.default:
                raise InputError(f"{field.name} only {reason}", f"{field.name} with another", "leave one of them out")

    def _unused(self, name: str) -> str:
        """Where an option would be used, if it is not; empty if it is."""
        if self.release not in _FOR_RELEASES.get(name, RELEASES):
            return f"with release {' or '.join(_FOR_RELEASES[name])}"
        if self.whole and name in _OF_A_SUBSPACE:
            return "without whole, which projects nothing"
        if self.projection not in _FOR_PROJECTIONS.get(name, KINDS):
            return f"with projection {' or '.join(_FOR_PROJECTIONS[name])}"
        return "with a kernel other than linear" if name == "landmarks" and self.kernel == "linear" else ""

    def _check_epsilon(self) -> None:
        if self.release not in _FOR_RELEASES["epsilon"]:
            return
        if self.epsilon is None:
            raise InputError(
                f"an epsilon for release {self.release!r}",
                "none",
                "give --epsilon, such as 0.5; resample needs none",
            )
        remedy = "give a positive one" + ("; resample is respond at epsilon 0" if self.release == "respond" else "")
        positive(remedy, epsilon=self.epsilon)
        if self.epsilon > 20.0:
            raise InputError("epsilon <= 20", f"epsilon = {self.epsilon:g}", "a larger one promises nothing")

    @property
    def needs_privacy_label(self) -> bool:
        """Whether the owner must know the privacy class of every record."""
        return self.release in ("respond", "repair") or self.equalise

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(self).items()}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> JupaRecipe:
        """Read back what `to_dict` wrote."""
        known = {field.name for field in dataclasses.fields(JupaRecipe)}
        if set(content) - known:
            raise InputError("a recipe of this version", f"unknown {sorted(set(content) - known)[0]!r}", "fit again")
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
        return JupaRecipe(**fields)

    def used(self) -> dict[str, Any]:
        """The options that are used, for a card."""
        return {name: value for name, value in self.to_dict().items() if not self._unused(name)}


def _names(name: str, given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(one, str) for one in names):
        raise InputError(f"{name} as names of columns", type(given).__name__, "give text, or a list of texts")
    return tuple(names)


def _weights(name: str, given: object, targets: int) -> tuple[float, ...]:
    weights = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if len(weights) not in (1, targets):
        raise InputError(f"one {name}, or one for each privacy column", f"{len(weights)}", "give as many as columns")
    return tuple(float(between(0.0, 1e12, "give a weight of 0 or more", **{name: weight})) for weight in weights)
