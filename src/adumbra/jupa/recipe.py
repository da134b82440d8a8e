"""What a utility-aware release is made of: targets, features, and a kind of release with its options."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adumbra.common.errors import InputError
from adumbra.common.validation import one_of
from adumbra.jupa.features import ENCODINGS
from adumbra.jupa.release_catalogue import DeclaredOption, declared_options, kind_named, release_kinds, users_of
from adumbra.jupa.release_kind import JupaRelease, OptionNotes, notes_of, option

__all__ = ["DEFAULT_RELEASE", "JupaRecipe", "recipe_options"]

DEFAULT_RELEASE = "resample"
_OWN = ("utility", "privacy", "release", "encoding", "drop")


@dataclass(frozen=True, init=False)
class JupaRecipe:
    """Everything that `fit_jupa` is given, all of it public.

    * `utility`, `privacy`: label columns. Several of a kind are summed in the projection (equation 9) and count as one
      joint label everywhere else.
    * `release`: what is done to a record, by name; its options follow as keywords, or `kind` is the release itself
      with them.
      coarse: projected, nothing else. fine: moved towards a random class (equations 10 to 14), a heuristic.
      resample: a public record with the predicted utility class and a random privacy class.
      respond: the same with a privacy class by randomised response, `epsilon` for the label.
      repair: a utility score whose rank among public records of the same privacy class is kept, to `bins` places.
      laplace: the projected record, clipped to `clip` deviations, with Laplace noise: `epsilon` for the whole record.
    * `projection` (all but repair): jupa, dca, mdr, ruca, pca, random, none; `components` is K (default: utility
      classes - 1); `rho0` relative to trace/d; `rho1`, `rho1_prime`: one for each privacy column, or one for all.
      `kernel`: linear, or rbf, laplacian, polynomial on `landmarks` public records.
    * `equalise` (resample, respond): make the predicted utility class equally frequent in every privacy class.
    * `whole` (resample, respond): release whole public records instead of projected ones. `pool`: the share of public
      records of a pair of classes, the most typical first, that may be drawn.
    * `model` (resample, respond, repair): which public classifier predicts the utility class: linear, kernel, boosting,
      auto.
    * `keep_unreached` (fine): release records that did not reach their class too.
    * `encoding`: onehot, or binary as in the paper. `drop`: columns that are no features.

    An option that the release would ignore is refused unless it has its default.

    >>> JupaRecipe("buys", "sex", release="repair", bins=4).kind
    Repair(model='auto', bins=4)
    """

    kind: JupaRelease
    utility: tuple[str, ...] = option(help="label column that the release is to serve; may be repeated")
    privacy: tuple[str, ...] = option(help="label column that the release is to hide; may be repeated")
    encoding: str = option("onehot", "of categories: onehot, or binary as in the paper", choices=ENCODINGS)
    drop: tuple[str, ...] = option((), "column that is no feature; may be repeated")

    def __init__(
        self,
        utility: str | Sequence[str],
        privacy: str | Sequence[str],
        release: str | None = None,
        *,
        kind: JupaRelease | None = None,
        encoding: str = "onehot",
        drop: str | Sequence[str] = (),
        **options: Any,
    ) -> None:
        for name, names in (("utility", utility), ("privacy", privacy), ("drop", drop)):
            object.__setattr__(self, name, _names(name, names))
        object.__setattr__(self, "encoding", encoding)
        self._check_columns()
        one_of(ENCODINGS, encoding=encoding)
        object.__setattr__(self, "kind", _kind(release, kind, options))
        self.kind.check_recipe(len(self.privacy), encoding)

    @property
    def release(self) -> str:
        """The name of the kind."""
        return self.kind.name

    def _check_columns(self) -> None:
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the name of the release beside all of its options."""
        own = {"utility": self.utility, "privacy": self.privacy, "release": self.release}
        found = own | dataclasses.asdict(self.kind) | {"encoding": self.encoding, "drop": self.drop}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> JupaRecipe:
        """Read back what `to_dict` wrote, of this version or of 0.2."""
        known = {*_OWN, *declared_options()}
        if set(content) - known:
            raise InputError("a recipe of this version", f"unknown {sorted(set(content) - known)[0]!r}", "fit again")
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
        return JupaRecipe(**fields)

    def used(self) -> dict[str, Any]:
        """The options that are used, for a card."""
        return {name: value for name, value in self.to_dict().items() if not self.kind.unused(name)}


def recipe_options() -> list[DeclaredOption]:
    """Every keyword of `JupaRecipe`, for whoever makes a form of it: targets, release, its options, features."""
    own = {field.name: field for field in dataclasses.fields(JupaRecipe)}
    hints = typing.get_type_hints(JupaRecipe)

    def declared(name: str) -> DeclaredOption:
        notes = notes_of(own[name])
        return DeclaredOption(name, hints[name], own[name].default, notes, notes.help)

    *names, last = release_kinds()
    help = f"{', '.join(names)} or {last}; what each promises: docs/jupa.md"
    release = DeclaredOption("release", str, DEFAULT_RELEASE, OptionNotes(help, choices=(*names, last)), help)
    first, then = (declared("utility"), declared("privacy"), release), (declared("encoding"), declared("drop"))
    return [*first, *declared_options().values(), *then]


def _kind(release: str | None, given: JupaRelease | None, options: Mapping[str, Any]) -> JupaRelease:
    """The release of this name, or the one given, with options changed; what it would ignore is refused."""
    changed = dict(options)
    if given is not None and release in (None, given.name):
        cls: type[JupaRelease] = type(given)
        changed = _options_of(given) | changed
    else:
        cls = kind_named(DEFAULT_RELEASE if release is None else release)
        if given is not None:
            changed = _options_of(given) | changed
    declared = declared_options()
    for name in [name for name in changed if name not in cls.__dataclass_fields__]:
        if name not in declared:
            raise InputError(
                f"an option of release {cls.name}", f"{name}", "check the spelling; see adumbra.JupaRecipe"
            )
        if _plain(changed[name], declared[name].default) != declared[name].default:
            users = " or ".join(users_of(name))
            raise InputError(f"{name} only with release {users}", f"{name} with another", "leave one of them out")
        del changed[name]
    return cls(**changed)


def _options_of(kind: JupaRelease) -> dict[str, Any]:
    return {field.name: getattr(kind, field.name) for field in dataclasses.fields(kind)}


def _plain(value: Any, default: Any) -> Any:
    """A value of several as its default is: a tuple."""
    if isinstance(default, tuple):
        return tuple(value) if isinstance(value, list | tuple) else (value,)
    return value


def _names(name: str, given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(one, str) for one in names):
        raise InputError(f"{name} as names of columns", type(given).__name__, "give text, or a list of texts")
    return tuple(names)
