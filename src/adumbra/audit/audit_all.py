"""Attack the promises of the catalogue: every mechanism, unit and relation, on the worst tables that can be built."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, Literal

from adumbra.audit.findings import AuditReport, Finding
from adumbra.audit.mechanism_attacks import DEEP, QUICK, Effort, Task, attack, built
from adumbra.audit.transcripts import job_of
from adumbra.common.errors import InputError
from adumbra.common.plugins import library
from adumbra.common.types import Progress
from adumbra.declare.guarantee import DEFAULT_DELTA, Budget, Relation, Unit
from adumbra.families.challenge import Challenge
from adumbra.families.contract import Chooser, Mechanism, promised_delta
from adumbra.mechanisms.catalogue import build, catalogue

__all__ = ["DEEP", "QUICK", "Effort", "audit_catalogue", "audit_mechanism", "carried_out"]

BLACK_BOX_EPSILON = 0.5
"""Attacks that believe nothing are made at this epsilon or less: a leak then shows in few runs, whatever its size."""
_BLIND: tuple[Literal["numbers"], Literal["release"]] = ("numbers", "release")
"""Attacks that believe nothing."""


def audit_mechanism(
    mechanism: str | Mechanism | Chooser,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    *,
    unit: Unit | None = None,
    relation: Relation | None = None,
    options: Mapping[str, Any] | None = None,
    effort: Effort = QUICK,
    confidence: float = 0.999,
    workers: int | None = None,
    progress: Progress = lambda step, done, total: None,
) -> AuditReport:
    """Try to refute what one mechanism promises at this epsilon and delta.

    Guarantee: a mechanism that keeps its promise is refuted with probability at most 1 - confidence, all findings
    together. An audit can refute, never prove. Edge cases: a mechanism is given by name, with `options`, or as it is
    given to `release`; a unit or relation that it does not support is refused; pure epsilon (delta = 0) is attacked as
    such, also where a mechanism promises it whatever delta was allowed.
    """
    Budget(epsilon, delta)  # refuses what is no budget
    if isinstance(mechanism, str):
        name, own = mechanism, dict(options or {})
    else:
        name, own = mechanism.name, _changed_options(mechanism) | dict(options or {})
    made = build(name, own)
    if not isinstance(made, Chooser):
        delta = promised_delta(made, delta)
    tasks = list(_tasks(name, epsilon, delta, effort, own, unit, relation))
    if not tasks:
        offers = ", ".join(dict.fromkeys(str(c.neighbours) for c in catalogue()[name].challenges()))
        asked = "/".join("any" if part is None else str(part) for part in (unit, relation))
        raise InputError(f"a promise that {name} makes ({offers})", asked, "choose another unit or relation")
    return carried_out(tasks, confidence, workers, progress)


def audit_catalogue(
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    *,
    effort: Effort = QUICK,
    confidence: float = 0.999,
    workers: int | None = None,
    progress: Progress = lambda step, done, total: None,
) -> AuditReport:
    """Try to refute every promise of the catalogue, at this delta and at delta = 0.

    A mechanism that promises delta = 0 whatever is allowed is attacked there alone; one that needs a delta, where there
    is one.

    `epsilon` and `delta` are the budget of each audited release. `effort` is the number of runs of each attack.
    `confidence` is the joint confidence level of all lower bounds. `workers` are processes (None: one per core),
    `progress(step, done, total)` is called after each attack.
    """
    Budget(epsilon, delta)
    tasks: list[Task] = []
    for name in catalogue():
        made = build(name, {})
        if isinstance(made, Chooser):  # what it chooses is attacked by itself
            own = _tasks(name, epsilon, delta, effort, {}, None, None)
            tasks += [task for task in own if task.kind in ("transcript", "release")]
            continue
        deltas = {"any": (delta, 0.0), "zero": (0.0,), "positive": (delta,) if delta > 0 else ()}[made.deltas]
        for place, promised in enumerate(dict.fromkeys(deltas)):
            own = _tasks(name, epsilon, promised, effort, {}, None, None)
            tasks += [task for task in own if place == 0 or task.kind not in _BLIND]
    return carried_out(tasks, confidence, workers, progress)


def _changed_options(mechanism: Mechanism | Chooser) -> dict[str, Any]:
    """What a mechanism was given beyond its defaults."""
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type] # all are dataclasses (contract suite)
    return {f.name: value for f in fields if (value := getattr(mechanism, f.name)) != f.default}


def _tasks(
    name: str,
    epsilon: float,
    delta: float,
    effort: Effort,
    options: Mapping[str, Any],
    unit: Unit | None,
    relation: Relation | None,
) -> Iterator[Task]:
    chosen = [
        (index, challenge)
        for index, challenge in enumerate(catalogue()[name].challenges())
        if unit in (None, challenge.neighbours.unit) and relation in (None, challenge.neighbours.relation)
    ]
    for index, challenge in chosen:
        if challenge.fresh and delta == 0:
            continue  # pure epsilon has no fresh account: the challenge beside it says the same
        yield Task("transcript", name, index, epsilon, delta, effort, options)
        if delta > 0 and _sums_by_class(name, challenge):
            fewer = replace(effort, transcripts=max(effort.transcripts // 2, 100))
            yield Task("all kinds", name, index, epsilon, delta, fewer, options)
        if not challenge.fresh and _row_by_row(name, challenge, options, Budget(epsilon, delta)):
            yield Task("one-run", name, index, epsilon, delta, effort, options)
    # Where the number of rows is private there is more to slip past the meter.
    private = [index for index, challenge in chosen if challenge.neighbours.relation is Relation.ADD_REMOVE]
    # both attacks make a table of their own, so that one challenge of a relation is enough
    for index in {chosen[0][0], *private[:1]} if chosen else ():
        for kind in _BLIND:
            yield Task(kind, name, index, min(epsilon, BLACK_BOX_EPSILON), delta, effort, options)


def _sums_by_class(name: str, challenge: Challenge) -> bool:
    """Whether something may exist with a label or a category only, which the challenge does not have.

    What a rule chooses is attacked by itself.
    """
    return challenge.neighbours.unit is Unit.ROW and not (
        challenge.fresh or challenge.schema.labels or isinstance(build(name, {}), Chooser)
    )


def _row_by_row(name: str, challenge: Challenge, options: Mapping[str, Any], budget: Budget) -> bool:
    """Whether every measurement has an answer for each row, so that each can be a canary."""
    budget = replace(budget, unit=challenge.neighbours.unit, relation=challenge.neighbours.relation)
    job = job_of(built(name, challenge, options, budget), challenge, budget, challenge.tables()[0])
    return all(query.per_row is not None for query in job.mechanism.queries(job.setting).values())


def carried_out(
    tasks: Sequence[Task],
    confidence: float,
    workers: int | None = None,
    progress: Progress = lambda step, done, total: None,
) -> AuditReport:
    """All `tasks`, on several processes; their lower bounds hold jointly at this `confidence` (Bonferroni).

    `workers` is the number of processes, at most one per task; None takes one per core, 1 stays in this process.
    `progress(step, done, total)` is called after each task.
    """
    if not 0 < confidence < 1:
        raise InputError("a confidence between 0 and 1", f"{confidence}", "give 0.999, for example")
    each = 1 - (1 - confidence) / max(len(tasks), 1)
    tasks = [replace(task, confidence=each) for task in tasks]
    count = min(workers or os.cpu_count() or 1, len(tasks))
    found: dict[int, Finding] = {}
    progress("auditing", 0, len(tasks))
    if count <= 1:
        for index, task in enumerate(tasks):
            found[index] = attack(task)
            progress(task.title, len(found), len(tasks))
    else:
        # a fresh interpreter for each worker: forking a process with threads in it can hang
        others = multiprocessing.active_children()
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
        try:
            with _as_workers_start():
                pending = {pool.submit(attack, task): index for index, task in enumerate(tasks)}
            for done in as_completed(pending):
                found[pending[done]] = done.result()
                progress(tasks[pending[done]].title, len(found), len(tasks))
        except BaseException:
            for worker in multiprocessing.active_children():
                if worker not in others:
                    worker.terminate()  # nobody waits for the rest
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return AuditReport(tuple(found[index] for index in range(len(tasks))), confidence, library())


@contextlib.contextmanager
def _as_workers_start() -> Iterator[None]:
    """What workers inherit: one thread each, as there are several of them, and no ear for Ctrl-C, which is ours."""
    threads = ("ADUMBRA_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in threads}
    ours = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if ours else None
    os.environ.update(dict.fromkeys(threads, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if ours:
            signal.signal(signal.SIGINT, handler)
