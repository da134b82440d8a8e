"""A release in the hands of its user: the table, the card, and the questions it can answer."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.answer.components import PrincipalComponents
from adumbra.answer.counted import CountedCells, CountEstimate
from adumbra.answer.projected import Estimate, ProjectedRows
from adumbra.answer.queries import read_queries, with_condition
from adumbra.core.card import Card
from adumbra.core.errors import InputError, Refused
from adumbra.core.files import open_regular, sync
from adumbra.core.release import ReleaseFolder
from adumbra.core.shown import shown
from adumbra.core.signature import PublicKey
from adumbra.publish import check_target, staged
from adumbra.synthesis.usefulness import checked_mu
from adumbra.table.columnar import give_back
from adumbra.table.table import Native

__all__ = ["Release", "load"]

_OF_CELLS = ("range", "marginal", "workload")
"""Questions that only counted cells answer."""


class Release:
    """A release folder with its answers.

    Made by `adumbra.release` and `adumbra.load`. Everything in it may be published. Its pickle is the absolute place
    of its folder, the sha256 of the card and the library its frames come in, no more; it opens where that folder can
    be read and still has that card.
    """

    def __init__(self, folder: ReleaseFolder, native: Native = "polars", temporary: bool = False) -> None:
        self._folder = folder
        self._native = native
        self._home = None if temporary else folder.path.absolute()
        if temporary:  # a release that was never saved goes away with the object
            self._cleaner = weakref.finalize(self, shutil.rmtree, folder.path.parent, True)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None:
            raise InputError(
                "a release that was saved, to copy or pickle it",
                "one in a temporary place, which goes away with this object",
                "save it first: release.save(FOLDER)",
            )
        return _opened, (str(self._home), self._native, self._folder.card_sha256)

    def __repr__(self) -> str:
        card = self.card
        return (
            f"Release({shown(card.table)}: {card.rows} rows by {shown(card.mechanism)}, epsilon {card.epsilon:g}, "
            f"delta {card.delta:g}, unit {shown(card.unit)}, relation {shown(card.relation)})"
        )

    @property
    def card(self) -> Card:
        """The statement that travels with the release."""
        return self._folder.card

    @property
    def path(self) -> Path:
        """The folder it lives in."""
        return self._folder.path

    @cached_property
    def table(self) -> Any:
        """The released rows, as a frame of the library the table came in (polars for files)."""
        return give_back(self._folder.table(), self._native)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays of the mechanism."""
        return self._folder.arrays()

    def save(self, out: str | Path) -> Path:
        """Copy the folder to `out`, in one step; `out` must not exist.

        A release that had only a temporary place can be pickled from then on, as the folder `out`.
        """
        target = Path(out)
        size = sum(file.stat().st_size for file in self.path.iterdir())
        with staged(target, numbers=size // 8, csv=False) as (partial, place):
            for file in self.path.iterdir():
                with open_regular(file) as source, (partial / file.name).open("xb") as copy:
                    shutil.copyfileobj(source, copy)
                sync(partial / file.name)
            check_target(place)
            partial.rename(place)
        if self._home is None:
            self._home = target.absolute()
        return target

    def verify(self, public_key: PublicKey | None = None) -> list[str]:
        """Problems with the folder, none if it is as its card says; with a key, its holder must have signed."""
        return self._folder.verify(public_key)

    def demand(self, public_key: PublicKey | None = None) -> None:
        """Raise `Refused` if the folder is not as its card says, or the key's holder did not sign it."""
        self._folder.demand(public_key)

    @cached_property
    def _rows(self) -> ProjectedRows:
        try:
            return ProjectedRows(self._folder)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise self._misfit() from None

    def distances(self, pairs: Sequence[tuple[int, int]] | NDArray[np.int64]) -> pl.DataFrame:
        """Squared distances of pairs of rows: i, j, squared_distance, standard_error."""
        return self._rows.distances(pairs)

    @property
    def band_weights(self) -> list[float]:
        """Share of each band's projection in an estimated distance."""
        return self._rows.weights

    def random_pairs(self, count: int, seed: int = 0) -> NDArray[np.int64]:
        """Pairs of different rows, drawn evenly and repeatably."""
        return self._rows.random_pairs(count, seed)

    def distance_matrix(self, *, clip: bool = True) -> NDArray[np.float64]:
        """All squared distances at once, ready for clustering."""
        return self._rows.distance_matrix(clip=clip)

    def neighbours(self, row: int, k: int) -> pl.DataFrame:
        """The k nearest rows by estimated distance."""
        return self._rows.neighbours(row, k)

    def mean(self, column: str) -> Estimate:
        """Mean of a number column, share of yes of a flag."""
        return self._rows.mean(column)

    def linear(self, weights: Mapping[str, float]) -> Estimate:
        """Mean over rows of a weighted sum of number and flag columns."""
        return self._rows.linear(weights)

    def count(
        self, column: str, value: Any, where: Mapping[str, Any] | None = None, mu: float = 0.05
    ) -> Estimate | CountEstimate:
        """Rows with this value of a column.

        Counted cells answer with an eta, and take further conditions (`where`) as `range` does; projected rows answer
        for a category or flag alone.
        """
        if self._is_counted:
            return self._counted("count").count(with_condition(column, value, where), mu)
        if where:
            raise InputError(
                "a release of counted cells for several conditions",
                f"one of {self.card.mechanism}",
                "ask for one value of one column",
            )
        checked_mu(mu)
        return self._rows.count(column, str(value))

    def range(
        self,
        column: str,
        low: float | None = None,
        high: float | None = None,
        where: Mapping[str, Any] | None = None,
        mu: float = 0.05,
    ) -> CountEstimate:
        """Rows whose value lies from `low` to `high`, both included; either end may be left open.

        `where` sets conditions on other columns: a value, or a pair (low, high). The answer is off by its `eta` or
        more with probability at most `mu`.
        """
        return self._counted("range").range(column, low, high, where, mu)

    def marginal(self, columns: Sequence[str], mu: float = 0.05) -> pl.DataFrame:
        """The count of every combination of cells of some columns: those, value, standard_error, mu, eta, basis."""
        return self._counted("marginal").marginal([columns] if isinstance(columns, str) else columns, mu)

    def workload(
        self, queries: str | Path | Sequence[Mapping[str, Any]] | Mapping[str, Any], mu: float = 0.05
    ) -> pl.DataFrame:
        """Many queries at once, from a CSV or JSON file or a list: query, value, standard_error, mu, eta, basis."""
        counted = self._counted("workload")
        return counted.workload(read_queries(queries, counted.domain), mu)

    @property
    def counted(self) -> CountedCells:
        """The counted cells, where the release has some."""
        return self._counted("count")

    @property
    def _is_counted(self) -> bool:
        return "domain" in self.card.parameters

    def _counted(self, question: str) -> CountedCells:
        if self._is_counted:
            return self._cells
        answers = [answer for answer in self.card.answers if answer not in _OF_CELLS]
        raise InputError(
            f"a release that answers {question}",
            f"one of {self.card.mechanism}, which does not",
            f"ask it for one of: {', '.join(answers)}"
            if answers
            else "it holds a table of the schema's own columns: read its data.parquet with any tool",
        )

    @cached_property
    def _cells(self) -> CountedCells:
        try:
            return CountedCells(self._folder)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise self._misfit() from None

    def _misfit(self) -> InputError:
        return InputError(
            "a card and files that fit together",
            f"{self.path}, where they do not",
            "run adumbra verify; get the folder again from its owner",
        )

    def covariance(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Covariances of number and flag columns."""
        return self._rows.covariance(columns)

    @cached_property
    def components(self) -> PrincipalComponents:
        """The principal axes, where the release has some."""
        return PrincipalComponents(self._folder)

    def axes(self, top: int = 3) -> pl.DataFrame:
        """Principal components: variance, error bars and the `top` largest loadings of each."""
        return self.components.components(top)

    def loadings(self) -> pl.DataFrame:
        """Loadings of all encoded coordinates on all components."""
        return self.components.loadings()

    def reconstruct(self) -> Any:
        """Least-squares rows in the schema's own columns."""
        return give_back(self._rows.reconstruct(), self._native)


def _opened(path: str, native: Native, card_sha256: str) -> Release:
    """A release that was pickled."""
    folder = ReleaseFolder.open(path)
    if folder.card_sha256 != card_sha256:
        raise Refused(
            "the release that was pickled",
            f"{path}: the folder changed since it was pickled",
            "put that release back, or adumbra.load what is there now and verify it",
        )
    return Release(folder, native)


def load(path: str | Path, public_key: PublicKey | None = None) -> Release:
    """Open a release folder that somebody published.

    With a public key the whole folder is verified first: `Refused` if the key's holder did not sign it, or if anything
    in it was changed since. The key is an `Ed25519PublicKey` of cryptography, the path (str or Path) of its PEM file,
    or a mapping of names to such keys, of which one must have signed. Without one nothing is verified;
    `Release.verify` does that.
    """
    folder = ReleaseFolder.open(path)
    if public_key is not None:
        folder.demand(public_key)
    return Release(folder)
