"""A release in the hands of its user: the table, the card, and the questions it can answer."""

from __future__ import annotations

import contextlib
import inspect
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError, Refused
from adumbra.common.files import open_regular, sync
from adumbra.common.shown import shown
from adumbra.common.validation import path_of
from adumbra.declare.guarantee import promise_in_words
from adumbra.declare.schema import Schema
from adumbra.kinds.counted_cells import CountedCells
from adumbra.kinds.estimates import CountEstimate, Estimate
from adumbra.kinds.kind import Content, Kind, kind_named
from adumbra.kinds.principal_components import PrincipalComponents
from adumbra.kinds.projection_answers import ProjectedAnswers
from adumbra.releases.card import Card
from adumbra.releases.folder import ReleaseFolder
from adumbra.releases.record import ReleaseInMemory, ReleaseRecord
from adumbra.releases.signature import PublicKey, read_signing_key
from adumbra.releases.staging import move_into_place, save_release, staged
from adumbra.tables.columnar import give_back
from adumbra.tables.table import Native

__all__ = ["Release", "load"]

_UNFIT = (LookupError, TypeError, ValueError, ArithmeticError)
"""What numpy, polars and we raise at arrays, rows or facts of another shape or type (a `LinAlgError` is one)."""


class Release:
    """A release with its answers: in a folder, or in memory until it is saved.

    Made by `adumbra.release` and `adumbra.load`. Everything in it may be published. Its pickle is the absolute place
    of its folder, the sha256 of the card and the library its frames come in, no more; it opens where that folder can
    be read and still has that card. A release that is only in memory must be saved before it is pickled or copied.
    """

    def __init__(self, record: ReleaseRecord, native: Native = "polars") -> None:
        self._record = record
        self._native = native
        self._home = record.path.absolute() if isinstance(record, ReleaseFolder) else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None or not isinstance(self._record, ReleaseFolder):
            raise InputError(
                "a release that was saved, to copy or pickle it",
                "one in memory, which goes away with this object",
                "save it first: release.save(FOLDER)",
            )
        return _opened, (str(self._home), self._native, self._record.card_sha256)

    def __repr__(self) -> str:
        card = self.card
        return (
            f"Release({shown(card.table)}: {card.rows} rows by {shown(card.mechanism)}, "
            f"{promise_in_words(card.epsilon, card.delta, shown(card.unit), shown(card.relation))})"
        )

    @property
    def card(self) -> Card:
        """The statement that travels with the release; it lists the files of a folder, and none before there is one."""
        return self._record.card

    @property
    def record(self) -> ReleaseRecord:
        """Where its content is kept: a folder, or memory."""
        return self._record

    @property
    def content(self) -> Content:
        """What its kind reads: card, rows as polars has them, arrays."""
        return self._record

    @property
    def path(self) -> Path:
        """The folder it lives in; a release that was never saved has none, and says so."""
        if not isinstance(self._record, ReleaseFolder):
            raise InputError(
                "a release with a folder", "one in memory, which has none yet", "save it first: release.save(FOLDER)"
            )
        return self._record.path

    @cached_property
    def table(self) -> Any:
        """The released rows, as a frame of the library the table came in (polars for files)."""
        return give_back(self._record.table(), self._native, self._schema)

    @property
    def _schema(self) -> Schema | None:
        """The declared columns; None where the card of a folder has none that can be read."""
        try:
            return Schema.from_dict(self.card.table_schema)
        except InputError:
            return None

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays of the mechanism."""
        return self._record.arrays()

    def save(self, out: str | Path, *, signing_key: str | Path | None = None) -> Path:
        """Write the release to the folder `out`, in one step; `out` must not exist.

        A release in memory gets its files, their hashes on its card, and, with the path of an Ed25519 private key as
        `signing_key`, a signature; from then on it is that folder, and can be pickled as such. A release that has a
        folder already is copied as it is, signature and all; it cannot be signed again.
        """
        target = path_of(out, "a folder to create")
        if isinstance(self._record, ReleaseInMemory):
            key = None if signing_key is None else read_signing_key(signing_key)
            self._record = saved = save_release(self._record, target, key)
            self._home = saved.path
            return target
        if signing_key is not None:
            raise InputError(
                "a signing_key for a release that has no folder yet",
                f"one in {self.path}, whose card is written",
                "leave signing_key out to copy it",
            )
        try:
            size = sum(file.lstat().st_size for file in self.path.iterdir())
        except OSError as error:
            raise InputError(
                "a release folder to copy", f"{self.path} ({error.strerror})", "put it back, or get it from its owner"
            ) from None
        with staged(target, numbers=size // 8, csv=False) as (partial, place):
            for file in self.path.iterdir():
                with open_regular(file) as source, (partial / file.name).open("xb") as copy:
                    shutil.copyfileobj(source, copy)
                sync(partial / file.name)
            move_into_place(partial, place)
        return target

    def verify(self, public_key: PublicKey | None = None) -> list[str]:
        """Problems with the release, none if it is as its card says; with a key, its holder must have signed."""
        return self._record.verify(public_key)

    def demand(self, public_key: PublicKey | None = None) -> None:
        """Raise `Refused` if the release is not as its card says, or the key's holder did not sign it."""
        self._record.demand(public_key)

    @cached_property
    def kind(self) -> Kind[Any]:
        """What kind of release it is: which questions it answers, how it is compared with the truth, and more."""
        return kind_named(self.card.kind)

    @property
    def facts(self) -> Any:
        """The facts on its card, of the type that its kind has for them (`ComponentsFacts`, `CountsFacts`, ...)."""
        return self.kind.facts(self.card)

    def ask(self, question: str, *given: Any, **named: Any) -> Any:
        """The answer to any question of `card.answers`; the methods below are the same for those of this package."""
        answering = self._asked(question)
        method = getattr(answering, self.kind.questions[question])
        try:
            inspect.signature(method).bind(*given, **named)
        except TypeError as error:
            parts = ", ".join(inspect.signature(method).parameters) or "nothing more"
            raise InputError(f"the question {question} with {parts}", f"{error}", "ask for these") from None
        with self.reading():
            return method(*given, **named)

    def _asked(self, question: str) -> Any:
        """What answers a question; refused if this kind of release does not."""
        if not isinstance(question, str):
            raise InputError("the name of a question", f"a {type(question).__name__}", "see card.answers")
        if question in self.kind.questions:
            return self._answers
        raise InputError(
            f"a release that answers {question}",
            f"one of {self.card.mechanism}, which does not",
            f"ask it for one of: {', '.join(self.card.answers)}"
            if self.card.answers
            else "it answers no questions: read its data.parquet with any tool",
        )

    @cached_property
    def _answers(self) -> Any:
        with self.reading():
            return self.kind.answers(self.content)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read, compare or view the content inside: what fails there over a folder is the folder's fault.

        Its hashes may fit and its content not. A release in memory was made here, so what fails over it is a defect.
        """
        try:
            yield
        except _UNFIT:
            if isinstance(self._record, ReleaseInMemory):
                raise
            raise self.misfit() from None

    def misfit(self) -> InputError:
        """What to raise where the card describes other files than there are."""
        place = "a release in memory" if isinstance(self._record, ReleaseInMemory) else f"{self.path}"
        return InputError(
            "a card and files that fit together",
            f"{place}, where they do not",
            "run adumbra verify; get the folder again from its owner",
        )

    @property
    def _rows(self) -> ProjectedAnswers:
        return cast(ProjectedAnswers, self._asked("distance"))

    def distances(self, pairs: Sequence[tuple[int, int]] | NDArray[np.int64]) -> pl.DataFrame:
        """Squared distances of pairs of rows: i, j, squared_distance, standard_error."""
        return cast(pl.DataFrame, self.ask("distance", pairs))

    @property
    def band_weights(self) -> list[float]:
        """Share of each band's projection in an estimated distance."""
        with self.reading():
            return self._rows.weights

    def random_pairs(self, count: int, seed: int = 0) -> NDArray[np.int64]:
        """Pairs of different rows, drawn evenly and repeatably."""
        with self.reading():
            return self._rows.random_pairs(count, seed)

    def distance_matrix(self, *, clip: bool = True) -> NDArray[np.float64]:
        """All squared distances at once, ready for clustering."""
        with self.reading():
            return self._rows.distance_matrix(clip=clip)

    def neighbours(self, row: int, k: int) -> pl.DataFrame:
        """The k nearest rows by estimated distance."""
        return cast(pl.DataFrame, self.ask("neighbours", row, k))

    def mean(self, column: str) -> Estimate:
        """Mean of a number column, share of yes of a flag."""
        return cast(Estimate, self.ask("mean", column))

    def linear(self, weights: Mapping[str, float]) -> Estimate:
        """Mean over rows of a weighted sum of number and flag columns."""
        return cast(Estimate, self.ask("linear", weights))

    def count(
        self, column: str, value: Any, where: Mapping[str, Any] | None = None, mu: float = 0.05
    ) -> Estimate | CountEstimate:
        """Rows with this value of a column.

        Counted cells answer with an eta, and take further conditions (`where`) as `range` does; projected rows answer
        for a category or flag alone.
        """
        return cast(Estimate | CountEstimate, self.ask("count", column, value, where, mu))

    def range(
        self,
        column: str,
        low: Any = None,
        high: Any = None,
        where: Mapping[str, Any] | None = None,
        mu: float = 0.05,
    ) -> CountEstimate:
        """Rows whose value lies from `low` to `high`, both included; either end may be left open.

        `where` sets conditions on other columns: a value, or a pair (low, high). The answer is off by its `eta` or
        more with probability at most `mu`.
        """
        return cast(CountEstimate, self.ask("range", column, low, high, where, mu))

    def marginal(self, columns: Sequence[str], mu: float = 0.05) -> pl.DataFrame:
        """The count of every combination of cells of some columns: those, value, standard_error, mu, eta, basis."""
        return cast(pl.DataFrame, self.ask("marginal", [columns] if isinstance(columns, str) else columns, mu))

    def workload(
        self, queries: str | Path | Sequence[Mapping[str, Any]] | Mapping[str, Any], mu: float = 0.05
    ) -> pl.DataFrame:
        """Many queries at once, from a CSV or JSON file or a list: query, value, standard_error, mu, eta, basis."""
        return cast(pl.DataFrame, self.ask("workload", queries, mu))

    @property
    def counted(self) -> CountedCells:
        """The counted cells, where the release has some."""
        return cast(CountedCells, self._asked("range"))

    def covariance(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Covariances of number and flag columns."""
        return cast(pl.DataFrame, self.ask("moment", columns))

    @property
    def components(self) -> PrincipalComponents:
        """The principal axes, where the release has some."""
        return cast(PrincipalComponents, self._asked("axes"))

    def axes(self, top: int = 3) -> pl.DataFrame:
        """Principal components: variance, error bars and the `top` largest loadings of each."""
        return cast(pl.DataFrame, self.ask("axes", top))

    def loadings(self) -> pl.DataFrame:
        """Loadings of all encoded coordinates on all components."""
        with self.reading():
            return self.components.loadings()

    def reconstruct(self) -> Any:
        """Least-squares rows in the schema's own columns."""
        return give_back(self.ask("reconstruct"), self._native, self._schema)


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
