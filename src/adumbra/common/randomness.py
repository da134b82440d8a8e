"""Two randomnesses, two types.

`PublicSeed` draws projections; it is stored in the release and anybody may repeat the draw. The noise has no
seed: `noise.add` keys it from the operating system at every call, and no public function takes a key. A
function that takes the one cannot be given the other. `Coins` are the noise of releases that choose instead of adding:
labels answered at random, records drawn from a pool.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers

__all__ = ["Coins", "CoinsLike", "PublicSeed", "randomised_response"]


_TRUTH_BITS = 32
_LARGEST_EPSILON = 20.0
"""Above this epsilon the true label is reported except with probability 2e-9 for each other label."""


class PublicSeed:
    """32 public bytes from which projections are drawn.

    `PublicSeed.fresh()` takes them from the operating system; `PublicSeed.given(text)` from the user. Only a
    fresh seed may ever support the fresh-projection account, and only once: `claim_freshness` answers True the
    first time and False ever after, so a seed that was reused (or copied into a second release) gets the
    worst-case account instead.

    >>> PublicSeed.given("study 1") == PublicSeed.given("study 1")
    True
    >>> PublicSeed.given("study 1").claim_freshness()
    False
    """

    __slots__ = ("_lock", "_maker", "origin", "value")

    def __init__(self, value: bytes, origin: Literal["operating-system", "given"]) -> None:
        if not isinstance(value, bytes) or len(value) != 32:
            got = f"{len(value)} bytes" if isinstance(value, bytes) else f"a {type(value).__name__}"
            raise InputError("a seed of 32 bytes", got, "use PublicSeed.given(text)")
        self.value = value
        self.origin = origin
        self._lock = threading.Lock()
        self._maker: int | None = None
        """Process that may still claim freshness; a fork is another process and may not."""

    @classmethod
    def fresh(cls) -> PublicSeed:
        """Draw a new seed from the operating system."""
        seed = cls(os.urandom(32), "operating-system")
        seed._maker = os.getpid()
        return seed

    @classmethod
    def given(cls, text: str) -> PublicSeed:
        """Make a seed from what the user typed: 64 hex digits as they are, anything else through SHA-256."""
        if not isinstance(text, str):
            raise InputError("a seed as text", f"a {type(text).__name__}", "put quotes around it, or use str")
        if not text.strip():
            raise InputError("a seed as text", "an empty one", "leave it out for a fresh seed, or write one")
        try:
            value = bytes.fromhex(text)
        except ValueError:
            value = b""
        try:
            if len(value) != 32 or len(text) != 64:
                value = hashlib.sha256(b"adumbra public seed\0" + text.encode()).digest()
        except UnicodeEncodeError:
            raise InputError("a seed in UTF-8", "text that is none", "write it in other letters") from None
        return cls(value, "given")

    def claim_freshness(self) -> bool:
        """True once, for a seed this process drew from the operating system; the claim is then used up."""
        with self._lock:
            claim, self._maker = self._maker, None
        return claim == os.getpid()

    @property
    def is_fresh(self) -> bool:
        """Whether `claim_freshness` would still answer True."""
        return self._maker == os.getpid()

    @property
    def hex(self) -> str:
        """The seed as 64 hex digits; `given` of this text repeats the draw."""
        return self.value.hex()

    def __copy__(self) -> PublicSeed:
        return type(self)(self.value, self.origin)

    def __deepcopy__(self, memo: object) -> PublicSeed:
        return type(self)(self.value, self.origin)

    def __reduce__(self) -> tuple[type[PublicSeed], tuple[bytes, str]]:
        return type(self), (self.value, self.origin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicSeed) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"PublicSeed({self.hex}, {self.origin})"


class CoinsLike(Protocol):
    """Where private choices come from: the operating system in a release, a repeatable generator in a simulation."""

    def below(self, sides: int, size: int) -> Integers:
        """`size` independent whole numbers, each of 0 .. sides - 1 equally likely."""

    def uniform(self, size: int) -> NDArray[np.float64]:
        """`size` independent numbers in [0, 1), of 53 bits."""


class Coins:
    """Coins of the operating system. They have no seed and cannot be repeated.

    >>> sorted(set(Coins().below(2, 100).tolist()))
    [0, 1]
    """

    def below(self, sides: int, size: int) -> Integers:
        """Exactly uniform: a word that would favour some sides is thrown away and drawn again."""
        if not 1 <= sides < 2**62:
            raise ValueError("a coin has between 1 and 2^62 sides")
        fair = (2**64 // sides) * sides
        out = np.empty(size, dtype=np.int64)
        done = 0
        while done < size:
            words = np.frombuffer(os.urandom(8 * (size - done)), dtype=np.uint64)
            good = words if fair == 2**64 else words[words < np.uint64(fair)]
            out[done : done + len(good)] = (good % np.uint64(sides)).astype(np.int64)
            done += len(good)
        return out

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Multiples of 2^-53."""
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def randomised_response(epsilon: float, truth: Integers, classes: int, coins: CoinsLike) -> Integers:
    """k-ary randomised response: keep each label of `truth`, or report another one uniformly.

    Any answer is at most e^`epsilon` times likelier under one label than under another; `epsilon` is from 0 to 20, and
    0 answers without looking. Labels are 0 .. `classes` - 1; the draws come from `coins`.

    Guarantee: an answer equals the truth with probability w / (w + classes - 1), and every other label has the same
    share of the rest; w is e^epsilon rounded down to a whole number of 2^-32, and the draw is exact, so the ratio of
    the probabilities of an answer under two truths is w <= e^epsilon.

    >>> randomised_response(20.0, np.array([1, 0]), 2, Coins()).tolist()
    [1, 0]
    """
    if not 0.0 <= epsilon <= _LARGEST_EPSILON:
        raise InputError(f"0 <= epsilon <= {_LARGEST_EPSILON:g}", f"epsilon = {epsilon}", "give one in that range")
    one = 1 << _TRUTH_BITS
    # the last bits of a float64 exponential may be too high: a relative 2^-50 is more than its error
    weight = max(int(math.exp(epsilon) * (1.0 - 2.0**-50) * one), one)
    drawn = coins.below(weight + (classes - 1) * one, len(truth))
    other = 1 + np.maximum(drawn - weight, 0) // one  # the labels after the truth, round the circle
    return np.where(drawn < weight, truth, (truth + other) % classes).astype(np.int64)
