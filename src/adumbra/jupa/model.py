"""A fitted utility-aware release: learnt from a public table, applied to private records one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.array_files import load_arrays, load_frame, save_arrays
from adumbra.common.csv_forms import write_parquet
from adumbra.common.errors import InputError
from adumbra.common.files import MOST_CARD_BYTES, json_document, open_regular, remove_leftovers
from adumbra.common.plugins import library
from adumbra.common.randomness import Coins, CoinsLike, PublicSeed
from adumbra.common.types import Integers, Progress, Reals, silent
from adumbra.common.validation import path_of
from adumbra.job import Job
from adumbra.jupa.features import Features, Target
from adumbra.jupa.ranks import Public
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.release_kind import ChargedRelease, FittedRelease, Statement
from adumbra.numerics.integer_kernels import one_thread_each
from adumbra.releases.staging import move_into_place, staged
from adumbra.tables.read import open_table

__all__ = ["JupaModel", "Released", "fit_jupa"]


FORMAT = "adumbra-jupa/2"
_FIRST_FORMAT = "adumbra-jupa/1"
"""It held the options of all releases, and no hash of its words; it is read all the same."""
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
    step: FittedRelease
    seed: PublicSeed
    public_rows: int
    known: NDArray[np.uint64]
    """A short hash of every public record, to notice when an audit is given the same ones."""
    records: pl.DataFrame | None = None
    """The public records that may be released whole, in the order of the pools; None unless the recipe says so."""
    read_from: Mapping[str, Any] | None = None
    """The recipe as the file had it that the model was read from: hashed and saved again as it was."""

    def __repr__(self) -> str:
        """In a line; the arrays are long."""
        serves, hides = ", ".join(self.utility.columns), ", ".join(self.privacy.columns)
        return f"<JupaModel {self.recipe.release}: serves {serves}, hides {hides}, {self.public_rows} public records>"

    @property
    def needs_privacy_label(self) -> bool:
        """Whether `release_rows` looks at the privacy class of a record."""
        return self.recipe.kind.needs_privacy_label

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the released numbers."""
        return self.step.columns

    @cached_property
    def words(self) -> Statement:
        """What the release promises, and to whom."""
        return self.step.statement(len(self.utility.classes), len(self.privacy.classes))

    @property
    def promise(self) -> str:
        """The promise in words; it begins with "No differential privacy" where that is so."""
        return self.words.promise

    def facts(self) -> dict[str, Any]:
        """What was fitted, in a few lines for people."""
        return {
            "release": f"{self.recipe.release}: {self.words.title}",
            "serves": f"{', '.join(self.recipe.utility)} ({len(self.utility.classes)} classes)",
            "hides": f"{', '.join(self.recipe.privacy)} ({len(self.privacy.classes)} classes)",
            "public records": self.public_rows,
            "features": f"{len(self.features.columns)} columns, {self.features.width} numbers",
            "released": ", ".join(self.columns[:8]) + (" ..." if len(self.columns) > 8 else ""),
            "promise": self.promise,
            "to whom": self.words.to_whom,
            "care": self.words.caution,
        }

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

        To release private records use `apply_jupa`, which writes the card. `frame` has the columns of the public table,
        and the privacy label where the kind needs it. `coins` are the operating system's if None. `progress(step, done,
        total)` is called as records are done. A release with differential privacy is refused here: its noise is the
        meter's, and charged.
        """
        coins = Coins() if coins is None else coins
        rows = self.features.encode(frame)
        privacy = self._privacy_of(frame, coins) if self.needs_privacy_label else None
        out = self.step.apply(rows, privacy, coins, progress)
        whole = None if self.records is None or out.drawn is None else self.records[out.drawn]
        released = _frame(self.columns, out.rows) if whole is None else whole
        return Released(out.rows, out.kept, out.not_reached, self.columns, released)

    def charged_job(self, frame: pl.DataFrame, name: str = "records") -> Job | None:
        """The job of a release of these records that is charged to a ledger; None where the release is not."""
        if not isinstance(self.step, ChargedRelease):
            return None
        rows = self.unperturbed(frame)
        return self.step.job(lambda: iter([rows]), len(rows), name)

    def known_share(self, frame: pl.DataFrame) -> float:
        """Share of records that read like one that the model was fitted on."""
        return float(np.isin(_hashes(self.features.encode(frame)), self.known).mean()) if frame.height else 0.0

    def fingerprint(self) -> str:
        """One hash over everything that was learnt, so that a card names its model; over no sentence."""
        recipe = self.recipe.to_dict() if self.read_from is None else self.read_from
        said = [recipe, self.features.to_dict(), self.utility.to_dict(), self.privacy.to_dict()]
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
            save_arrays(partial / _ARRAYS, arrays)
            content = {
                "format": FORMAT,
                "library": library(),
                "recipe": self.recipe.to_dict() if self.read_from is None else dict(self.read_from),
                "features": self.features.to_dict(),
                "utility": self.utility.to_dict(),
                "privacy": self.privacy.to_dict(),
                "public_rows": self.public_rows,
                "seed": {"value": self.seed.hex, "origin": self.seed.origin},
                "promise": self.promise,
                "sha256": self.fingerprint(),
            }
            content["document_sha256"] = _document_hash(content)
            if self.records is not None:
                with (partial / _RECORDS).open("wb") as file:
                    write_parquet(self.records, file)
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (partial / _MODEL).write_text(text, encoding="utf-8")
            move_into_place(partial, place)

    @staticmethod
    def load(folder: str | Path) -> JupaModel:
        """Read a model back; it holds no code and no pickles."""
        path = path_of(folder, "a model, or its folder")
        remove_leftovers(path.absolute().parent)
        try:
            with open_regular(path / _MODEL) as file:
                content = json_document(file.read(MOST_CARD_BYTES))
        except (OSError, ValueError):
            raise InputError(f"a model folder with a {_MODEL}", f"{path}", "make one with adumbra jupa fit") from None
        if not isinstance(content, dict) or content.get("format") not in (FORMAT, _FIRST_FORMAT):
            raise InputError(f"a model of format {FORMAT}", f"{path}", "fit it again with this version of adumbra")
        try:
            model = _read(path, content)
            whole = model.fingerprint() == content["sha256"]
            if content["format"] == FORMAT:  # its words too are as they were written, whatever we say today
                whole = whole and _document_hash(content) == content["document_sha256"]
        except InputError:
            raise
        except _UNREADABLE:
            whole = False
        if not whole:
            raise InputError(
                f"a model folder as {content.get('library', 'adumbra')} wrote it",
                f"{path}, which does not read so with {library()}",
                "fit it again: it was changed, or written by another version",
            )
        return model


def _read(path: Path, content: Mapping[str, Any]) -> JupaModel:
    """The model of a folder; errors of every kind where it is none. No sentence of it is read."""
    open_regular(path / _ARRAYS).close()
    arrays = load_arrays(path / _ARRAYS)
    recipe = JupaRecipe.from_dict(content["recipe"])
    step = recipe.kind.load(arrays)
    records = None
    if step.whole_records is not None:
        open_regular(path / _RECORDS).close()
        records = load_frame(path / _RECORDS)
    model = JupaModel(
        recipe,
        Features.from_dict(content["features"]),
        Target.from_dict(content["utility"]),
        Target.from_dict(content["privacy"]),
        step,
        PublicSeed(bytes.fromhex(content["seed"]["value"]), content["seed"]["origin"]),
        int(content["public_rows"]),
        arrays["known"],
        records,
        content["recipe"],
    )
    _check_whole(model, arrays)
    return model


def _document_hash(content: Mapping[str, Any]) -> str:
    """Of model.json but for this hash itself."""
    said = {key: value for key, value in content.items() if key != "document_sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


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

    `public` is a file or a frame (`delimiter`: of a text file), `recipe` says what is to be learnt. Everything learnt
    is public and goes into the model: means, categories, public records that may be drawn. At most 100,000 records are
    used. `seed` makes the fit repeatable; it is public too. `progress(step, done, total)` is called now and then.
    """
    with one_thread_each():  # threads of the linear algebra would wait for each other on a busy machine
        given = PublicSeed.fresh() if seed is None else seed
        public_seed = given if isinstance(given, PublicSeed) else PublicSeed.given(str(given))
        return _fitted(public, recipe, public_seed, delimiter, progress or silent)


def _fitted(public: Any, recipe: JupaRecipe, seed: PublicSeed, delimiter: str | None, progress: Progress) -> JupaModel:
    table = open_table(public, delimiter=delimiter)
    progress("reading the public table", 0, 0)
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
    recipe.kind.check_public(utility, privacy, u, s)
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
    progress(f"learning {recipe.release}", 0, 0)
    step = recipe.kind.fit(data, progress)
    records = None if step.whole_records is None else features.typed(frame)[step.whole_records]
    return JupaModel(recipe, features, utility, privacy, step, seed, frame.height, _hashes(data.rows), records)


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
    model.step.check_classes(len(model.utility.classes), len(model.privacy.classes))
    for name, array in arrays.items():
        # how well a model did where that was not measured is the only number that may be missing
        if array.dtype.kind == "f" and not name.endswith("accuracy") and not np.isfinite(array).all():
            raise ValueError("numbers that are none")
    model.step.unperturbed(np.zeros((1, model.features.width)))


def _some_rows(frame: pl.DataFrame, seed: PublicSeed) -> pl.DataFrame:
    if frame.height <= _MOST_PUBLIC:
        return frame
    return frame.sample(_MOST_PUBLIC, seed=int.from_bytes(seed.value[:8], "big") >> 1)
