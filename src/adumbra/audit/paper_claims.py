"""Attack the papers' own algorithms at the pairs of tables where their proofs break.

Each case names a paper's form, a pair of neighbours and a score of one output: the log-likelihood ratio of the two
tables (or, for LIP and LOP, whether a record fits the released row space). The exact epsilon of the pair stands beside
what sampling shows. The two answer different questions: `exact` trusts the formula, `lower_bound` trusts only the
draws, and the verdict is by `lower_bound`.

LIP, LOP and CSM promise delta = 0, so they are judged at delta 0, whatever delta is asked for.

Gaussian noise is judged by a Gaussian fit: for one pair and one matrix the true trade-off curve is Gaussian, and a few
per cent of mu are seen where an event of probability delta never is. DPRP's promise is over a fresh matrix, so its
curve is a mixture of Gaussian ones; the fit at likelihood ratio 1 stays a lower bound there (`_antipodal` says why).

The draws come from a statistical generator with a fixed seed. Nothing private is here: all tables are made up.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Callable

import numpy as np

from adumbra.audit.bounds import by_family, by_threshold, measured_curve
from adumbra.audit.findings import AuditReport, Finding
from adumbra.audit.paper_cases import PUBLISHED, Case, PaperPromise
from adumbra.common.errors import InputError
from adumbra.common.plugins import library
from adumbra.common.validation import at_least, between, one_of, positive

__all__ = ["audit_published", "published_report"]

_FEWEST = 200


def audit_published(
    name: str,
    epsilon: float,
    delta: float = 1e-5,
    confidence: float = 0.95,
    runs: int = 1_000_000,
    seed: int = 0,
    noise: float = 1.0,
) -> tuple[Finding, ...]:
    """All cases of one paper, each with a lower bound that holds with `confidence` by itself.

    `runs` are draws on each table where a draw is cheap; costly forms get fewer, and each finding says how many.
    `noise` multiplies the printed noise: a control, to see that a verdict follows the noise. The same arguments give
    the same findings.
    """
    one_of(tuple(PUBLISHED), name=name)
    _check_promise(name, epsilon, delta)
    positive(noise=noise)
    at_least(1, "give the number of draws on each table", runs=runs)
    promise = PaperPromise(epsilon, delta, noise)
    return tuple(_found(name, case, promise, confidence, runs, seed) for case in PUBLISHED[name])


def _check_promise(name: str, epsilon: float, delta: float) -> None:
    positive(epsilon=epsilon)
    if not all(case.pure for case in PUBLISHED[name]):
        positive("the paper promises (epsilon, delta) with delta above 0", delta=delta)
        between(0.0, 0.5, "the paper's theorems are stated for delta below 1/2", delta=delta)


def published_report(
    name: str | None,
    epsilon: float,
    delta: float = 1e-5,
    *,
    confidence: float = 0.999,
    runs: int = 1_000_000,
    progress: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> AuditReport:
    """One paper, or all of them; with `confidence` all lower bounds hold at once."""
    if name is not None and name not in PUBLISHED:
        raise InputError(
            f"a paper's form ({', '.join(PUBLISHED)})",
            f"{name!r}",
            "see adumbra audit --all --published for all of them",
        )
    if not 0 < confidence < 1:
        raise InputError("a confidence between 0 and 1", f"{confidence}", "give for example 0.999")
    names = list(PUBLISHED) if name is None else [name]
    for chosen in names:
        _check_promise(chosen, epsilon, delta)
    each = 1 - (1 - confidence) / sum(len(PUBLISHED[chosen]) for chosen in names)
    findings: list[Finding] = []
    for done, chosen in enumerate(names):
        progress(f"published {chosen}", done, len(names))
        findings += audit_published(chosen, epsilon, delta, each, runs)
    progress("published", len(names), len(names))
    return AuditReport(tuple(findings), confidence, library())


def _found(name: str, case: Case, promise: PaperPromise, confidence: float, runs: int, seed: int) -> Finding:
    began = time.perf_counter()
    target = f"published/{name} {case.reading}"
    if case.pure:
        promise = dataclasses.replace(promise, delta=0.0)
    rng = np.random.default_rng([seed, zlib.crc32(target.encode())])
    seen = case.attack(promise, max(runs // case.cost, _FEWEST), rng)
    if seen.cut is None:
        bound = by_threshold(seen.one, seen.other, promise.delta, confidence)
    else:
        bound = by_family(seen.one, seen.other, seen.family, promise.delta, confidence, cut=seen.cut)
    drawn = len(seen.one) + len(seen.other)
    note = seen.note
    if bound.epsilon <= promise.epsilon < seen.exact:
        note = f"exact curve: {seen.exact:.4g} at this delta, above the claim; {drawn} draws cannot show it. {note}"
    return Finding(
        target=target,
        neighbours=case.neighbours,
        pair=case.pair,
        epsilon=promise.epsilon,
        delta=promise.delta,
        lower_bound=bound.epsilon,
        confidence=confidence,
        method=bound.method,
        runs=drawn,
        seconds=time.perf_counter() - began,
        exact=seen.exact,
        family=seen.family,
        measured=measured_curve(seen.one, seen.other),
        note=note.strip(),
    )
