"""Statistical tests that come out the same every time.

Importing `repeatable` into a test module replaces the operating system's entropy, for that module's tests, by a
counter through SHA-256: the noise is as random as before and the verdict never flickers. Tests that are about entropy
itself (freshness, forks, two runs that must differ) do not use it.
"""

from __future__ import annotations

import hashlib
import itertools
import os

import pytest


@pytest.fixture(autouse=True)
def repeatable(request, monkeypatch):
    counter = itertools.count()
    name = request.node.name

    def stream(size: int) -> bytes:
        out = b""
        while len(out) < size:
            out += hashlib.sha256(f"{name}/{next(counter)}".encode()).digest()
        return out[:size]

    monkeypatch.setattr(os, "urandom", stream)
    monkeypatch.setenv("ADUMBRA_THREADS", "1")  # one worker, so that keys are drawn in order
