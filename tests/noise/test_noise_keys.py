"""Where the noise comes from: 32 bytes of the operating system for every draw, all of them used, none of them twice.

A short or shared key is not seen in the noise itself, which looks as random as before. So each bit of the key is
flipped and must change every number, and everything that can draw (calls, threads, forks, new processes, laws, parts)
is asked for numbers so wide that two equal ones are as good as impossible: at most 1e-9 for each test.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import adumbra as ad
from adumbra.common.randomness import Coins, randomised_response
from adumbra.declare.guarantee import Relation, Unit
from adumbra.mechanisms.catalogue import build
from adumbra.noise import add as noise
from tests.mechanisms.test_contract import NAMES, SCHEMA, people

KEY = hashlib.sha256(b"a key for tests").digest()
WIDE = 2.0**50
SIDES = 2**61
LAWS = {
    "gaussian": lambda shape: noise.add_noise("gaussian", np.zeros(shape), WIDE, 1.0),
    "laplace": lambda shape: noise.add_noise("laplace", np.zeros(shape), WIDE, 1.0),
    "by length": lambda shape: noise.add_l2_noise([(np.zeros(shape), WIDE, 1.0)])[0],
    "by row": lambda shape: noise.add_l2_noise_by_row(np.zeros(shape), WIDE, 1.0),
}
COINS = {
    "sides": lambda shape: Coins().below(SIDES, shape[0] * shape[1]).astype(float),
    "shares": lambda shape: Coins().uniform(shape[0] * shape[1]),
}
DRAWS = LAWS | COINS


class Source:
    """Stands in for the operating system: says what it is told, or counts, and notes how much was asked for."""

    def __init__(self, patch, key=None):
        self.asked, self.given, self._key = [], [], key
        patch.setattr(os, "urandom", self)

    def __call__(self, size):
        self.asked.append(size)
        if self._key is not None:
            said = (self._key * (size // len(self._key) + 1))[:size]
        else:
            said = b"".join(hashlib.sha256(f"{len(self.asked)}/{i}".encode()).digest() for i in range(size // 32 + 1))
        self.given.append(said[:size])
        return said[:size]


def drawn(shape=(2, 4)):
    """Some of everything that draws, in one row of numbers."""
    return np.concatenate([np.ravel(draw(shape)) for draw in DRAWS.values()])


def shares(*draws):
    """Numbers that stand in more than one place; the sign does not make them different."""
    every = np.abs(np.concatenate([np.ravel(draw) for draw in draws]))
    return every.size - np.unique(every).size


# ---- the key


def test_a_key_is_all_of_32_bytes_of_the_operating_system(monkeypatch):
    source = Source(monkeypatch)
    keys = [noise.operating_system_key() for _ in range(3)]
    assert source.asked == [32, 32, 32]
    assert keys == source.given


@pytest.mark.parametrize("law", LAWS)
def test_each_bit_of_the_key_changes_every_number(law, monkeypatch):
    """257 keys, a bit apart each: 257 streams that share nothing. A key of 16 bits would give 17."""
    keys = [KEY, *((int.from_bytes(KEY, "big") ^ (1 << bit)).to_bytes(32, "big") for bit in range(256))]
    streams = []
    for key in keys:
        source = Source(monkeypatch, key)
        streams.append(LAWS[law]((1, 3)))
        assert source.asked == [32]
    assert shares(*streams) == 0
    Source(monkeypatch, KEY)
    assert np.array_equal(LAWS[law]((1, 3)), streams[0])  # nothing but the key decides


def test_each_bit_of_a_word_reaches_the_coins(monkeypatch):
    """A coin of 2^61 sides uses 61 bits, a share of one 53; the rest are thrown away."""
    word = KEY[:8]
    flipped = [(int.from_bytes(word, "little") ^ (1 << bit)).to_bytes(8, "little") for bit in range(64)]
    for draw, used in ((lambda: Coins().below(SIDES, 1), range(61)), (lambda: Coins().uniform(1), range(11, 64))):
        Source(monkeypatch, word)
        plain, found = draw()[0], []
        for key in flipped:
            source = Source(monkeypatch, key)
            found.append(draw()[0] != plain)
            assert source.asked == [8]
        assert [bit for bit in range(64) if found[bit]] == list(used)


@pytest.mark.parametrize("name", NAMES)
def test_every_draw_of_a_release_has_a_key_of_its_own(name, monkeypatch):
    """From the table to the folder, private choices and second looks among them: 32 bytes each time, never the same."""
    source, keys, real = Source(monkeypatch), [], noise.KeyStream
    monkeypatch.setattr(noise, "KeyStream", lambda key: keys.append(key) or real(key))
    budget = ad.Budget(1.0, 1e-6, Unit.ROW, Relation.REPLACE)
    looks = ad.release(people(20), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("keys")).card.noise
    assert len(keys) >= len(looks)
    assert all(len(key) == 32 for key in keys) and len(set(keys)) == len(keys)
    assert set(keys) <= {given for given, size in zip(source.given, source.asked, strict=True) if size == 32}


# ---- who draws


@pytest.mark.parametrize("law", DRAWS)
def test_rows_columns_and_calls_share_nothing(law):
    assert shares(*(DRAWS[law]((40, 15)) for _ in range(3))) == 0


def test_every_row_has_a_length_of_its_own():
    """The directions of noise by row may differ and its lengths be one: a reader of two rows then knows the rest."""
    lengths = np.sort(np.linalg.norm(LAWS["by row"]((30, 4)), axis=1))
    assert (np.diff(lengths) / lengths[1:]).min() > 1e-12


def test_laws_and_parts_share_nothing():
    parts = noise.add_l2_noise([(np.zeros((3, 5)), WIDE, 1.0), (np.zeros(4), WIDE / 3, 1.0)])
    assert shares(*parts, *(draw((8, 5)) for draw in LAWS.values())) == 0


def test_chunks_and_workers_share_nothing(monkeypatch):
    """Numbers that are drawn some at a time, by one worker or by several."""
    monkeypatch.setattr(noise, "CHUNK", 64)
    monkeypatch.setattr(noise, "L2_CHUNK", 60)
    zeros = np.zeros((40, 12))
    whole = [noise.add_noise(law, zeros, WIDE, 1.0, threads) for law in ("gaussian", "laplace") for threads in (1, 3)]
    whole += [noise.add_l2_noise_by_row(zeros, WIDE, 1.0, threads) for threads in (1, 3)]
    assert shares(*whole, *noise.add_l2_noise([(zeros, WIDE, 1.0)])) == 0


def test_answers_given_at_random_are_drawn_anew_each_time():
    """Randomised response at epsilon 0 is all noise: 400 coins of 64 sides, thrown twice."""
    truth = np.zeros(400, dtype=np.int64)
    one, two = (randomised_response(0.0, truth, 64, Coins()) for _ in range(2))
    assert not np.array_equal(one, two) and not np.array_equal(one, np.roll(two, 1))


def test_every_call_takes_a_new_key_in_every_thread(monkeypatch):
    """No thread keeps a generator: as many keys as calls, in the thread that starts the others too."""
    source, found = Source(monkeypatch), []
    wall = threading.Barrier(4)

    def work():
        wall.wait()
        found.extend(draw((1, 3)) for _ in range(3) for draw in LAWS.values())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found += [draw((1, 3)) for _ in range(3) for draw in LAWS.values()]
    assert source.asked == [32] * len(found) == [32] * 60
    assert shares(*found) == 0


def in_a_fork(work):
    """What `work` returns in a copy of this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(said)  # noqa: S301 - written above


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_share_nothing_with_each_other_or_with_their_parent():
    before = drawn()  # whatever state a call could leave behind is there now
    children = [in_a_fork(drawn) for _ in range(2)]
    grandchild = in_a_fork(lambda: in_a_fork(drawn))
    assert shares(before, *children, grandchild, drawn()) == 0


def test_a_new_process_shares_nothing():
    """One that is started afresh, with nothing of this one in it but the code."""
    code = """if True:
        import sys
        import numpy as np
        from adumbra.noise import add as noise
        zeros = np.zeros((2, 4))
        found = [noise.add_noise(law, zeros, 2.0**50, 1.0) for law in ("gaussian", "laplace")]
        found += [noise.add_l2_noise_by_row(zeros, 2.0**50, 1.0), *noise.add_l2_noise([(zeros, 2.0**50, 1.0)])]
        sys.stdout.buffer.write(np.concatenate(found).tobytes())"""
    repeated = os.environ | {"PYTHONHASHSEED": "0"}
    one, two = (subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=repeated) for _ in range(2))
    theirs = [np.frombuffer(process.communicate(timeout=120)[0]) for process in (one, two)]
    assert [numbers.size for numbers in theirs] == [32, 32]
    assert shares(*theirs, *(draw((2, 4)) for draw in LAWS.values())) == 0
