"""A few hundred damaged files of every kind that adumbra reads; `python -m tests.fuzz` runs as many as you like.

Each must read or be refused by an error of ours, before anything is charged: no other exception, no crash, no hang, no
more than a gigabyte, and no cell in the message.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz import SECRET, Kind, mutated, mutation, outcome, run
from tests.fuzz_kinds import KINDS

COUNTS = {"arrow": 400, "stream": 250, "npz": 100, "data": 100, "model": 100, "signature": 100, "ledger": 80}
COUNT = int(os.environ.get("ADUMBRA_FUZZ", "0"))
"""Mutations of each kind, for a longer run."""


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_or_refused(name):
    found = dict(run(name, COUNT or COUNTS.get(name, 200)))
    assert len(found) == (COUNT or COUNTS.get(name, 200))
    assert {number: what for number, what in found.items() if what not in ("read", "refused")} == {}


def test_mutations_are_many_and_follow_from_their_numbers():
    content = bytes(range(256)) * 4
    examples = {"a": content, "b": content[::-1]}
    kind = Kind(lambda _: examples, lambda path, charge: None)
    made = [mutation(kind, "x", 0, number, examples) for number in range(200)]
    assert made == [mutation(kind, "x", 0, number, examples) for number in range(200)]
    assert len(set(made)) > 190
    assert made[0] != mutation(kind, "x", 1, 0, examples)
    assert mutated(b"", random.Random(0)) == b""


def test_what_goes_wrong_is_noticed(tmp_path):
    """The fuzzer itself: every wrong end of a read is told apart from the two right ones."""
    from adumbra.common.errors import InputError

    def reader(*steps):
        def read(path, charge):
            for step in steps:
                if step == "charge":
                    charge()
                else:
                    raise step

        return Kind(lambda _: {}, read)

    refusal, telling = InputError("a", "b", "c"), InputError("a", f"cell {SECRET[2:]}", "c")
    ends = [
        (reader(), "read"),
        (reader("charge"), "read"),
        (reader(refusal), "refused"),
        (reader("charge", refusal), "refused too late"),
        (reader(telling), "a cell in the message"),
        (reader(KeyError("x")), "KeyError at"),
        (reader(SystemExit(1)), "SystemExit at"),
    ]
    for kind, wanted in ends:
        assert outcome(kind, tmp_path, "f", b"").startswith(wanted)
