"""Projected records: the options of a projection, and the map that it was fitted to be.

Zhuang and Chang, "Utility-aware Privacy-preserving Data Releasing", equations 1 to 9; see `learning/discriminant.py`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between
from adumbra.jupa.features import Guard
from adumbra.jupa.learning.discriminant import KINDS, FittedProjection, fit_projection
from adumbra.jupa.learning.kernel_features import FEATURE_KERNELS, KernelMap, kernel_map
from adumbra.jupa.ranks import Arrays, Public, under
from adumbra.jupa.release_kind import JupaRelease, option

__all__ = ["Projected", "ProjectingRelease", "Subspace"]

_FOR_PROJECTIONS = {
    "components": ("jupa", "dca", "mdr", "ruca", "pca", "random"),
    "rho0": ("jupa", "dca", "mdr", "ruca"),
    "rho1": ("jupa", "ruca"),
    "rho1_prime": ("jupa",),
}


@dataclass(frozen=True)
class ProjectingRelease(JupaRelease, ABC):
    """The options of kinds that project a record first."""

    projection: str = option("jupa", ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}", choices=KINDS, label="{}", column=True)
    components: int | None = option(
        None,
        "K, numbers that a record becomes",
        default_words="utility classes - 1",
        label="K={}",
        column=True,
    )
    rho0: float = option(1e-3, "floor of the denominator, relative to trace/d", column=True)
    rho1: tuple[float, ...] = option((1.0,), "weight of a privacy target in the denominator")
    rho1_prime: tuple[float, ...] = option(
        (1.0,), "weight of a privacy target in the numerator; it does not protect anything"
    )
    kernel: str = option(
        "linear", "linear, rbf, laplacian or polynomial projections", choices=("linear", *FEATURE_KERNELS)
    )
    landmarks: int = option(400, "public records that a kernel is spanned by")

    def check_options(self) -> None:
        """Weights of 0 or more, at least one component and one landmark."""
        for name in ("rho1", "rho1_prime"):
            object.__setattr__(self, name, _weights(name, getattr(self, name)))
        between(0.0, 1e12, "give a floor of 0 or more; 1e-3 is usual", rho0=self.rho0)
        if self.components is not None:
            at_least(1, "give at least one component", components=self.components)
        at_least(1, "give at least one landmark", landmarks=self.landmarks)

    def unused(self, name: str) -> str:
        """Projections differ in their options; landmarks are a kernel's."""
        if self.projection not in _FOR_PROJECTIONS.get(name, KINDS):
            return f"with projection {' or '.join(_FOR_PROJECTIONS[name])}"
        return "with a kernel other than linear" if name == "landmarks" and self.kernel == "linear" else ""

    def check_recipe(self, privacies: int, encoding: str) -> None:
        """One weight for all privacy columns, or one for each."""
        for name, weights in (("rho1", self.rho1), ("rho1_prime", self.rho1_prime)):
            if len(weights) not in (1, privacies):
                raise InputError(
                    f"one {name}, or one for each privacy column", f"{len(weights)}", "give as many as columns"
                )

    def fit_subspace(self, public: Public) -> Subspace:
        """Learn the projection."""
        guard = Guard.of(public.rows)
        rows, kernel = guard.mend(public.rows), None
        if self.kernel != "linear":
            kernel = kernel_map(self.kernel, rows, min(self.landmarks, len(rows)), None, public.seed)
            rows = kernel.apply(rows)
        components = self.components or max(1, min(public.utilities - 1, rows.shape[1]))
        projection = fit_projection(
            self.fitted_projection,
            rows,
            public.utility_parts,
            public.privacy_parts,
            components,
            rho0=self.rho0,
            rho1=self.rho1,
            rho1_prime=self.rho1_prime,
            seed=public.seed,
        )
        return Subspace(guard, projection, kernel)

    @property
    def fitted_projection(self) -> str:
        """The projection that is fitted."""
        return self.projection


@dataclass(frozen=True, eq=False)
class Subspace:
    """Rows to K numbers: mended by what public records hold, a kernel's features if there is one, then projected."""

    guard: Guard
    projection: FittedProjection
    kernel: KernelMap | None = None

    def apply(self, rows: Reals) -> Reals:
        """Projected rows, each number of unit variance on the public records."""
        mended = self.guard.mend(rows)
        return self.projection.apply(mended if self.kernel is None else self.kernel.apply(mended))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the K numbers."""
        return tuple(f"z{i + 1}" for i in range(self.projection.matrix.shape[1]))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        kernel = {} if self.kernel is None else {f"kernel.{k}": v for k, v in self.kernel.arrays().items()}
        return {f"projection.{k}": v for k, v in self.projection.arrays().items()} | kernel | self.guard.arrays()

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Subspace:
        """Read back."""
        kernel = under("kernel.", arrays)
        return Subspace(
            Guard.from_arrays(arrays),
            FittedProjection.from_arrays(under("projection.", arrays)),
            KernelMap.from_arrays(kernel) if kernel else None,
        )


class Projected:
    """What every fitted kind has that projects a record first; for the one it is mixed into."""

    subspace: Subspace

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each component."""
        return self.subspace.columns

    @property
    def directions(self) -> Reals:
        """Of the projection."""
        return self.subspace.projection.matrix

    def unperturbed(self, rows: Reals) -> Reals:
        """The projected record."""
        return self.subspace.apply(rows)

    def arrays(self) -> Arrays:
        """As plain arrays."""
        return self.subspace.arrays()


def _weights(name: str, given: object) -> tuple[float, ...]:
    weights = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    return tuple(float(between(0.0, 1e12, "give a weight of 0 or more", **{name: weight})) for weight in weights)
