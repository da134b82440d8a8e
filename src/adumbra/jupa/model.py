"""A fitted utility-aware release: learnt from a public table, applied to private records one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.core.documents import MOST_CARD_BYTES, json_document
from adumbra.core.errors import InputError
from adumbra.core.files import open_regular, remove_leftovers
from adumbra.core.randomness import Coins, CoinsLike, PublicSeed
from adumbra.core.stored import load_arrays, load_frame
from adumbra.core.tabular import write_parquet
from adumbra.jupa.features import Features, Target
from adumbra.jupa.promises import Words, words_of
from adumbra.jupa.ranks import Public
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.releases import Resample, Step, fit_step, step_from_arrays
from adumbra.linalg.rows import one_thread_each
from adumbra.publish import check_target, staged
from adumbra.table.read import Table, open_table

__all__ = ["JupaModel", "Released", "fit_jupa"]

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str, int, int], None]

FORMAT = "adumbra-jupa/1"
_MODEL, _ARRAYS, _RECORDS = "model.json", "model.npz", "records.parquet"
_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError,
    pl.exceptions.PolarsError,
)  # fmt: skip
KNOWN = 0.2
"""Share of records equal to public ones from which on their owner is asked whether they are the same."""
_MOST_PUBLIC = 100_000
"""Public records that are learnt from; of more, that many are drawn."""


@dataclass(frozen=True, eq=False)
class Released:
    """Released records: numbers, the positions of the records they stand for, and the frame that would be published."""

    rows: Reals
    kept: Integers
    not_reached: int
    columns: tuple[str, ...]
    frame: pl.DataFrame


@dataclass(frozen=True, eq=False)
class JupaModel:
    """A projection and a release, learnt from public records. Everything in it is public.

    `release_rows` is what the owner does to private records; anybody can do the same to records of their own, and an
    adversary will. `save` and `load` keep it as JSON and plain arrays.
    """

    recipe: JupaRecipe
    features: Features
    utility: Target
    privacy: Target
    step: Step
    seed: PublicSeed
    public_rows: int
    known: NDArray[np.uint64]
    """A short hash of every public record, to notice when an audit is given the same ones."""
    records: pl.DataFrame | None = None
    """The public records that may be released whole, in the order of the pools; None unless the recipe says so."""

    def __repr__(self) -> str:
        """In a line; the arrays are long."""
        serves, hides = ", ".join(self.utility.columns), ", ".join(self.privacy.columns)
        return f"<JupaModel {self.recipe.release}: serves {serves}, hides {hides}, {self.public_rows} public records>"

    @property
    def needs_privacy_label(self) -> bool:
        """Whether `release_rows` looks at the privacy class of a record."""
        return self.recipe.needs_privacy_label

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the released numbers."""
        return self.step.columns

    @cached_property
    def words(self) -> Words:
        """What the release promises, and to whom."""
        told = self.step.told if isinstance(self.step, Resample) and not self.recipe.equalise else None
        return words_of(self.recipe, len(self.utility.classes), len(self.privacy.classes), self.step.bound(), told)

    @property
    def promise(self) -> str:
        """The promise in words; it begins with "No differential privacy" where that is so."""
        return self.words.promise

    def labels_of(self, frame: pl.DataFrame, which: str) -> Integers:
        """The utility or privacy class of every record.

        Edge cases: a record whose label the public table does not hold is refused.
        """
        target = {"utility": self.utility, "privacy": self.privacy}[which]
        found = target.of(frame)
        if (found < 0).any():
            raise InputError(
                f"a {which} class of the public table in every record",
                f"{int((found < 0).sum())} of {len(found)} records with another, or none",
                "leave those records out, or fit on a public table that has their class",
            )
        return found

    def _privacy_of(self, frame: pl.DataFrame, coins: CoinsLike) -> Integers:
        """The privacy class of every record to release; a class drawn blindly where it has none of the public ones.

        Refusing the table would tell that somebody in it has another.
        """
        found = self.privacy.of(frame)
        other = np.flatnonzero(found < 0)
        if len(other):
            found[other] = coins.below(len(self.privacy.classes), len(other))
        return found

    def unperturbed(self, frame: pl.DataFrame) -> Reals:
        """What a service that trains on unprotected public records sees of these."""
        return self.step.unperturbed(self.features.encode(frame))

    def told_by(self, released: Reals) -> Integers | None:
        """What anybody can read off a released row: the utility class, the pool or the bin; None where nothing."""
        return self.step.told_by(released)

    def release_rows(
        self, frame: pl.DataFrame, coins: CoinsLike | None = None, *, progress: Progress | None = None
    ) -> Released:
        """What a release of these records would hold: for audits and for simulating it, as an adversary does.

        To release private records use `apply_jupa`, which writes the card. Coins are the operating system's unless
        given. A laplace release is refused here: its noise is the meter's, and charged.
        """
        coins = Coins() if coins is None else coins
        rows = self.features.encode(frame)
        if self.recipe.release == "laplace":
            raise InputError(
                "apply_jupa for a laplace release, which is charged to a ledger",
                "a simulation",
                "use apply_jupa; audits simulate it by themselves",
            )
        privacy = self._privacy_of(frame, coins) if self.needs_privacy_label else None
        if isinstance(self.step, Resample) and self.records is not None:
            drawn = self.step.draw(rows, privacy, coins)
            return Released(self.step.public_rows[drawn], np.arange(len(rows)), 0, self.columns, self.records[drawn])
        out = self.step.apply(rows, privacy, coins, progress)
        return Released(out.rows, out.kept, out.not_reached, self.columns, _frame(self.columns, out.rows))

    def known_share(self, frame: pl.DataFrame) -> float:
        """Share of records that read like one that the model was fitted on."""
        return float(np.isin(_hashes(self.features.encode(frame)), self.known).mean()) if frame.height else 0.0

    def fingerprint(self) -> str:
        """One hash over everything that was learnt, so that a card names its model."""
        said = [self.recipe.to_dict(), self.features.to_dict(), self.utility.to_dict(), self.privacy.to_dict()]
        digest = hashlib.sha256(json.dumps([*said, self.seed.hex, self.public_rows]).encode())
        if self.records is not None:
            digest.update(self.records.write_csv().encode())
        for name, array in sorted((self.step.arrays() | {"known": self.known}).items()):
            digest.update(name.encode() + str(array.dtype).encode() + str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write the model to a new folder: model.json, model.npz, and whole records if they are released."""
        target = Path(folder)
        arrays = self.step.arrays() | {"known": self.known}
        with staged(target, numbers=sum(a.size for a in arrays.values()), csv=False) as (partial, place):
            np.savez(partial / _ARRAYS, allow_pickle=False, **arrays)
            content = {
                "format": FORMAT,
                "library": f"adumbra {version('adumbra')}",
                "recipe": self.recipe.to_dict(),
                "features": self.features.to_dict(),
                "utility": self.utility.to_dict(),
                "privacy": self.privacy.to_dict(),
                "public_rows": self.public_rows,
                "seed": {"value": self.seed.hex, "origin": self.seed.origin},
                "promise": self.promise,
                "sha256": self.fingerprint(),
            }
            if self.records is not None:
                with (partial / _RECORDS).open("wb") as file:
                    write_parquet(self.records, file)
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (partial / _MODEL).write_text(text, encoding="utf-8")
            check_target(place)
            partial.rename(place)

    @staticmethod
    def load(folder: str | Path) -> JupaModel:
        """Read a model back; it holds no code and no pickles."""
        path = Path(folder)
        remove_leftovers(path.absolute().parent)
        try:
            with open_regular(path / _MODEL) as file:
                content = json_document(file.read(MOST_CARD_BYTES))
        except (OSError, ValueError):
            raise InputError(f"a model folder with a {_MODEL}", f"{path}", "make one with adumbra jupa fit") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"a model of format {FORMAT}", f"{path}", "fit it again with this version of adumbra")
        try:
            open_regular(path / _ARRAYS).close()
            arrays = load_arrays(path / _ARRAYS)
            recipe = JupaRecipe.from_dict(content["recipe"])
            if recipe.whole:
                open_regular(path / _RECORDS).close()
            records = load_frame(path / _RECORDS) if recipe.whole else None
            seed = PublicSeed(bytes.fromhex(content["seed"]["value"]), content["seed"]["origin"])
            model = JupaModel(
                recipe,
                Features.from_dict(content["features"]),
                Target.from_dict(content["utility"]),
                Target.from_dict(content["privacy"]),
                step_from_arrays(recipe, arrays),
                seed,
                int(content["public_rows"]),
                arrays["known"],
                records,
            )
            _check_whole(model, arrays)
            whole = model.fingerprint() == content["sha256"] and model.promise == content["promise"]
        except InputError:
            raise
        except _UNREADABLE:
            whole = False
        if not whole:
            raise InputError(
                f"a model folder as {content.get('library', 'adumbra')} wrote it",
                f"{path}, which does not read so with adumbra {version('adumbra')}",
                "fit it again: it was changed, or written by another version",
            )
        return model


def _frame(columns: tuple[str, ...], rows: Reals) -> pl.DataFrame:
    return pl.DataFrame({name: rows[:, i] for i, name in enumerate(columns)})


def fit_jupa(
    public: Any,
    recipe: JupaRecipe,
    *,
    seed: PublicSeed | str | int | None = None,
    delimiter: str | None = None,
    progress: Progress | None = None,
) -> JupaModel:
    """Learn a utility-aware release from a PUBLIC table with both labels. Never give it the private records.

    Everything learnt is public and goes into the model: means, categories, public records that may be drawn. At most
    100,000 records are used. `seed` makes the fit repeatable; it is public too.
    """
    with one_thread_each():  # threads of the linear algebra would wait for each other on a busy machine
        given = PublicSeed.fresh() if seed is None else seed
        public_seed = given if isinstance(given, PublicSeed) else PublicSeed.given(str(given))
        return _fitted(public, recipe, public_seed, delimiter, progress or _silent)


def _fitted(public: Any, recipe: JupaRecipe, seed: PublicSeed, delimiter: str | None, say: Progress) -> JupaModel:
    table = open_table(public, delimiter=delimiter)
    say("reading the public table", 0, 0)
    frame = _some_rows(pl.concat(table.batches(table.columns)), seed)
    utility = Target.fit(frame, recipe.utility, "utility")
    privacy = Target.fit(frame, recipe.privacy, "privacy")
    targets = {*recipe.utility, *recipe.privacy}
    unknown = [name for name in recipe.drop if name not in frame.columns]
    if unknown:
        raise InputError("columns of the table to drop", f"no {unknown[0]!r}", "check the spelling")
    columns = [name for name in frame.columns if name not in targets and name not in recipe.drop]
    features = Features.fit(frame, columns=columns, encoding=recipe.encoding)
    u, s = utility.of(frame), privacy.of(frame)
    if recipe.release in ("resample", "respond"):
        _check_pairs(utility, privacy, u, s)
    data = Public(
        features.encode(frame),
        u,
        s,
        utility.parts(u),
        privacy.parts(s),
        len(utility.classes),
        len(privacy.classes),
        seed.value,
    )
    say(f"learning {recipe.release}", 0, 0)
    step = fit_step(recipe, data, say)
    records = features.typed(frame)[step.origin] if isinstance(step, Resample) and step.whole else None
    return JupaModel(recipe, features, utility, privacy, step, seed, frame.height, _hashes(data.rows), records)


def _check_pairs(utility: Target, privacy: Target, u: Integers, s: Integers) -> None:
    """Resampling draws public records of every pair of classes."""
    table = np.zeros((len(utility.classes), len(privacy.classes)), dtype=np.int64)
    np.add.at(table, (u, s), 1)
    empty = [f"{utility.names[a]} with {privacy.names[b]}" for a, b in np.argwhere(table == 0)]
    if empty:
        more = "" if len(empty) <= 5 else f" and {len(empty) - 5} more"
        raise InputError(
            "public records of every pair of a utility and a privacy class",
            f"{len(empty)} of {table.size} pairs without one: {', '.join(empty[:5])}{more}",
            "give more public records, or group rare classes (a number into a few ranges)",
        )


def _hashes(rows: Reals) -> NDArray[np.uint64]:
    """Eight bytes of a hash of each row."""
    whole = np.where(np.isnan(rows), np.inf, rows) + 0.0  # one NaN, one zero
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(whole))
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _check_whole(model: JupaModel, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse parts that do not belong together, whoever wrote them: a model may come from somebody else."""
    targets = {*model.utility.columns, *model.privacy.columns}
    named = model.utility.columns == model.recipe.utility and model.privacy.columns == model.recipe.privacy
    if not named or targets & set(model.features.columns):
        raise ValueError("a target among the features")
    if isinstance(model.step, Resample) and (model.step.utilities, model.step.classes) != (
        len(model.utility.classes),
        len(model.privacy.classes),
    ):
        raise ValueError("pools of other classes")
    for name, array in arrays.items():
        # how well a model did where that was not measured is the only number that may be missing
        if array.dtype.kind == "f" and not name.endswith("accuracy") and not np.isfinite(array).all():
            raise ValueError("numbers that are none")
    model.step.unperturbed(np.zeros((1, model.features.width)))


def _some_rows(frame: pl.DataFrame, seed: PublicSeed) -> pl.DataFrame:
    if frame.height <= _MOST_PUBLIC:
        return frame
    return frame.sample(_MOST_PUBLIC, seed=int.from_bytes(seed.value[:8], "big") >> 1)


def _silent(step: str, done: int, total: int) -> None:
    """Say nothing."""


def batches_of(
    opened: Table, model: JupaModel, tell: Callable[[str], None], rows: int = 16384
) -> Iterator[pl.DataFrame]:
    """The columns of a private table that the model reads, batch by batch; then what its owner should know of it."""
    wanted = model.features.columns + (list(model.recipe.privacy) if model.needs_privacy_label else [])
    absent = [name for name in wanted if name not in opened.columns]
    if absent:
        raise InputError(
            "every column that the model reads in the table",
            f"no {absent[0]!r}",
            "give a table with the columns of the public one"
            + ("; this release needs the privacy column too" if absent[0] in model.recipe.privacy else ""),
        )
    unread: dict[str, tuple[int, int]] = {}
    known = count = 0.0
    unclassed = 0
    for frame in opened.batches(wanted, rows):
        for name, (empty, unknown) in model.features.unread(frame).items():
            before = unread.get(name, (0, 0))
            unread[name] = before[0] + empty, before[1] + unknown
        unclassed += int((model.privacy.of(frame) < 0).sum()) if model.needs_privacy_label else 0
        known += model.known_share(frame) * frame.height
        count += frame.height
        yield frame
    for name, (empty, unknown) in unread.items():
        if empty or unknown:
            tell(f"  {name}: {empty} empty, {unknown} that the public table does not know")
        if unknown and empty + unknown == count and model.features.is_number(name):
            # told, not refused: the release of a table that differs in one record would not be refused
            tell(f"  {name}: no number in the whole table: is this the right column, written as in the public table?")
    if unclassed:
        named = ", ".join(model.privacy.columns)
        tell(f"  {named}: {unclassed} without a class of the public table, which got one at random")
    if known > KNOWN * count:
        tell(
            f"  {100 * known / count:.0f} % of the records read like public ones that the model was fitted on: is this "
            "the right table?"
        )
