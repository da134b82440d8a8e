"""Two randomnesses, two types.

`PublicSeed` draws projections; it is stored in the release and anybody may repeat the draw. The noise has no
seed: `privacy.noise` keys it from the operating system at every call, and no public function takes a key. A
function that takes the one cannot be given the other.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Literal

from adumbra.core.errors import InputError

__all__ = ["PublicSeed"]


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
        if len(value) != 32:
            raise InputError("a seed of 32 bytes", f"{len(value)} bytes", "use PublicSeed.given(text)")
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
        try:
            value = bytes.fromhex(text)
        except ValueError:
            value = b""
        if len(value) != 32 or len(text) != 64:
            value = hashlib.sha256(b"adumbra public seed\0" + text.encode()).digest()
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
