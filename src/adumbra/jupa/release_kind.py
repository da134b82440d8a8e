"""What a kind of utility-aware release is: its options, its words, how it is fitted, applied, stored and attacked.

A kind is a frozen dataclass derived from `JupaRelease`; its fields are its options, declared once with `option` and
read from there by the command line, Python and scikit-learn. Fitted to public records it gives a `FittedRelease`.
A file in `release_kinds/`, or an entry point of the group `adumbra.jupa_releases`, adds a kind; nothing else lists it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import one_of, positive
from adumbra.families.contract import Reference
from adumbra.job import Job
from adumbra.jupa.features import Target
from adumbra.jupa.ranks import Arrays, Public
from adumbra.mechanisms.bibliography import JUPA

__all__ = [
    "NO_DP",
    "ChargedRelease",
    "FittedRelease",
    "JupaRelease",
    "OptionNotes",
    "Outcome",
    "PictureMark",
    "Statement",
    "check_epsilon",
    "needed",
    "notes_of",
    "option",
    "percent",
    "refuse_binary",
]


NO_DP = "No differential privacy."
"""How the promise begins of every release that has none."""
_NOTES = "adumbra.jupa"


# ------------------------------------------------------------------------------------------------------- options


@dataclass(frozen=True)
class OptionNotes:
    """What is said about an option beside its type and default."""

    help: str
    choices: tuple[str, ...] = ()
    """Values of a text option; one of them is the only way to leave it."""
    default_words: str | None = None
    """What None means, where that is the default."""
    label: str = ""
    """How the option is named beside a release in a comparison, such as "{} bins"; empty for name=value."""
    always_labelled: bool = False
    """Whether a comparison names it even where all releases of the comparison agree in it."""
    column: bool = False
    """Whether it has a column of its own in the table of a comparison."""


def option(default: Any = dataclasses.MISSING, help: str = "", **notes: Any) -> Any:
    """A field of a kind: an option with its `default` and its `help`; `notes` as in `OptionNotes`."""
    return dataclasses.field(default=default, metadata={_NOTES: OptionNotes(help, **notes)})


def notes_of(field: dataclasses.Field[Any]) -> OptionNotes:
    """What `option` was given."""
    notes: OptionNotes = field.metadata.get(_NOTES, OptionNotes(""))
    return notes


# --------------------------------------------------------------------------------------------------------- words


@dataclass(frozen=True)
class Statement:
    """Title, promise, to whom it is made, and what to beware of; with the numbers that the words hold.

    For people: cards, help and reports print it, and nothing compares it or reads it back.
    """

    title: str
    promise: str
    to_whom: str
    caution: str
    label_epsilon: float | None = None
    """Epsilon of randomised response for the privacy label alone."""
    accuracy_bound: float | None = None
    """Accuracy that no guess among equally likely privacy classes exceeds, on the terms of `promise`."""
    told: float | None = None
    """Accuracy of the best guess from the predicted utility class alone, on public records: an estimate."""


def percent(share: float | None) -> str:
    """A share in words."""
    return "-" if share is None else f"{100 * share:.1f} %"


@dataclass(frozen=True)
class PictureMark:
    """How a kind is drawn in the picture of a comparison; colours should stay apart for the colour-blind."""

    colour: str = "text"
    """An ink of `report.svg`, which has a light and a dark form."""
    shape: str = "circle"
    """circle, square, diamond, triangle, wedge or cross."""


# --------------------------------------------------------------------------------------------------------- fitted


@dataclass(frozen=True, eq=False)
class Outcome:
    """Released rows, and which records they belong to (positions, in order)."""

    rows: Reals
    kept: Integers
    not_reached: int = 0
    drawn: Integers | None = None
    """Which of `FittedRelease.whole_records` stands for each, where public records are released whole."""


class FittedRelease(ABC):
    """A kind fitted to public records: a map from coded records to released ones.

    It sees standardised records with NaN where a number is missing, and takes its randomness from `coins`, which in a
    release are the operating system's. Proofs of what each kind promises are in docs/proofs/jupa.md.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the released numbers."""

    @abstractmethod
    def unperturbed(self, rows: Reals) -> Reals:
        """What the same records look like without the protection: what a service trains on."""

    @abstractmethod
    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Release records: `rows` with their `privacy` classes (None where the kind needs none).

        `coins` are the randomness of the release; `progress(step, done, total)` is called as records are done, if
        given.
        """

    @abstractmethod
    def statement(self, utilities: int, privacies: int) -> Statement:
        """The words, for so many utility and privacy classes."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything that was learnt, as plain arrays; `JupaRelease.load` takes them back."""

    def bound(self) -> float | None:
        """Accuracy that no adversary exceeds in guessing one of equally likely privacy classes, as the promise says."""
        return None

    def told_by(self, released: Reals) -> Integers | None:
        """What anybody can read off a released row: a class or a bin; None where the row is the record's own."""
        return None

    def answered(self, rows: Reals, privacy: Integers, coins: CoinsLike) -> Integers | None:
        """The privacy class that the release answers for each record, where it answers one at random; else None.

        `rows` are coded records, `privacy` their true classes, `coins` the randomness of the answer.
        """
        return None

    @property
    def whole_records(self) -> Integers | None:
        """Positions of the public records that may be released whole; None where none are."""
        return None

    @property
    def directions(self) -> Reals | None:
        """The projection, features x K; None where there is none."""
        return None

    def check_classes(self, utilities: int, privacies: int) -> None:
        """Raise ValueError unless what was read back is for so many classes."""
        return

    def nothing_released(self, records: int) -> InputError:
        """The error where none of so many records was released."""
        return InputError("at least one record that is released", f"none of {records}", "fit again with other options")


class ChargedRelease(FittedRelease):
    """A release with differential privacy: its noise is the meter's, and it is charged to a ledger."""

    @property
    @abstractmethod
    def made_by(self) -> str:
        """What made numbers of a record, in a word for the card."""

    @abstractmethod
    def job(self, batches: Callable[[], Iterator[Reals]], records: int, name: str, made_by: str | None = None) -> Job:
        """The release of what `unperturbed` gave, in `batches` of all `records`; checked, and nothing measured.

        `name` is the table's in the ledger; `made_by` says on the card where the numbers come from.
        """

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Refused, whatever `rows`, `privacy`, `coins` and `progress` are: there is no release without a charge."""
        raise InputError(
            "apply_jupa for a release with differential privacy, which is charged to a ledger",
            "a simulation",
            "use apply_jupa; audits simulate it by themselves",
        )


# ---------------------------------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class JupaRelease(ABC):
    """A kind of release; an instance holds its options, all of them public."""

    name: ClassVar[str]
    title: ClassVar[str]
    mark: ClassVar[PictureMark] = PictureMark()
    place: ClassVar[int] = 100
    """Where it stands in lists."""
    theorem: ClassVar[str] = "docs/proofs/jupa.md"
    cites: ClassVar[tuple[Reference, ...]] = (JUPA,)
    promises: ClassVar[bool] = True
    """Whether anything is promised at all; an audit says so."""
    random: ClassVar[bool] = True
    """Whether two releases of one record may differ."""
    leaves_out: ClassVar[bool] = False
    """Whether records may be left out; a column then says which record each released row stands for."""
    charged: ClassVar[bool] = False
    """Whether it is differentially private and charged; then fitted it is a `ChargedRelease`."""
    learns_privacy: ClassVar[bool] = True
    """Whether fitting is pointless without the privacy label of public records."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), notes_of(field).choices
            if isinstance(field.default, bool) and not isinstance(value, bool):
                raise InputError(f"{field.name} as True or False", type(value).__name__, "give one of them")
            if choices:
                one_of(choices, **{field.name: value})
        self.check_options()
        for field in dataclasses.fields(self):
            reason = self.unused(field.name)
            if reason and getattr(self, field.name) != field.default:
                raise InputError(f"{field.name} only {reason}", f"{field.name} with another", "leave one of them out")

    def check_options(self) -> None:
        """Refuse values that make no sense; choices and flags are checked already."""
        return

    def unused(self, name: str) -> str:
        """Where an option of this kind would be used, if other options leave it without effect; empty if it is."""
        return ""

    def check_recipe(self, privacies: int, encoding: str) -> None:
        """Refuse what does not go with so many privacy columns, or with this encoding of categories."""
        return

    def check_public(self, utility: Target, privacy: Target, u: Integers, s: Integers) -> None:
        """Refuse a public table with classes `u` of `utility` and `s` of `privacy` that cannot be learnt from."""
        return

    @property
    def needs_privacy_label(self) -> bool:
        """Whether the owner must know the privacy class of every record."""
        return False

    @abstractmethod
    def fit(self, public: Public, progress: Progress | None = None) -> FittedRelease:
        """Learn from public records."""

    @abstractmethod
    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedRelease:
        """What `FittedRelease.arrays` gave, again; arrays that do not fit together raise ValueError or InputError."""

    def label(self) -> str:
        """The first word of its name in a comparison."""
        return self.name

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """Releases, each with a title, that `adumbra audit jupa` attacks on its bundled table."""
        return ()

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """Releases worth comparing for `classes` utility classes and `columns` numbers per record (None: unknown).

        `quick` asks for a few of them that are fast to fit.
        """
        return ()


def needed(privacy: Integers | None) -> Integers:
    """The privacy classes, for kinds that need them."""
    if privacy is None:
        raise InputError(
            "the privacy class of every record", "none", "this release looks at it; give it, or choose resample"
        )
    return privacy


def check_epsilon(kind: JupaRelease, epsilon: float | None, remedy: str) -> None:
    """Refuse an `epsilon` of a `kind` that is missing, or that promises nothing; `remedy` if it is not positive."""
    if epsilon is None:
        raise InputError(
            f"an epsilon for release {kind.name!r}", "none", "give --epsilon, such as 0.5; resample needs none"
        )
    positive(remedy, epsilon=epsilon)
    if epsilon > 20.0:
        raise InputError("epsilon <= 20", f"epsilon = {epsilon:g}", "a larger one promises nothing")


def refuse_binary(encoding: str) -> None:
    """For kinds that compare a record with those of its class: an unknown value must be like no other."""
    if encoding == "binary":
        raise InputError(
            "encoding onehot for repair and for equalise",
            "encoding binary",
            "leave it out: values share bits, so that a value nobody has seen would be taken for another one",
        )
