"""What a search over a pipeline with a private step will spend, worked out before it starts.

A search fits every candidate on the training part of every split, transforms that part, transforms the test part to
score it, and at last fits the best candidate on all rows. Each time that touches private rows is a release. Counted for
one row it is less than for the table: a row is in the training part or in the test part of a split, never in both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ParameterGrid,
    ParameterSampler,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline

from adumbra.accounting.accountant import epsilon_of
from adumbra.accounting.calibrate import mu_for
from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import between, one_of
from adumbra.declare.guarantee import Budget, Neighbours, Relation, Unit
from adumbra.families.contract import promised_delta
from adumbra.sklearn.pca import MECHANISMS, PUBLIC, PrivatePCA, rows_epsilon
from adumbra.sklearn.projection import DPProTransformer

__all__ = ["SearchCost", "search_cost"]

_PARTITIONS = (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold)
_LISTS = ("steps", "transformer_list", "transformers")
_REPEATED = (RepeatedKFold, RepeatedStratifiedKFold)


@dataclass(frozen=True)
class SearchCost:
    """What a search will have spent when it ends; predictions made with its result come on top."""

    candidates: int
    """Fits of each split, over all rounds of a halving search."""
    folds: int
    releases: int
    """Charges to the ledger, a release of several measurements counted once."""
    releases_of_a_row: int
    """Releases that one row of the table is part of, at most."""
    epsilon: float
    """What all releases that a row is part of cost it together, at `delta`."""
    ledger_epsilon: float
    """What a ledger will say: it knows tables, not rows, and counts every release for everybody."""
    delta: float
    neighbours: str
    notes: tuple[str, ...] = ()
    """What the numbers do not cover."""

    def __str__(self) -> str:
        text = (
            f"{self.candidates} candidates x {self.folds} folds: {self.releases} releases, of which a row is part of "
            f"{self.releases_of_a_row}.\nOne row pays epsilon {_up(self.epsilon)} at delta {self.delta:g} "
            f"({self.neighbours}); a ledger under one name will say {_up(self.ledger_epsilon)}."
        )
        return "\n".join([text, *(f"Note: {note}." for note in self.notes)])


class _Cost(NamedTuple):
    """One release: what it promises."""

    epsilon: float
    delta: float

    def event(self, neighbours: Neighbours) -> Event:
        """The noise that keeps the promise exactly, on an answer that one row can move by 1."""
        if self.delta == 0.0:
            return Event("laplace", 1.0 / self.epsilon, {str(neighbours): 1.0})
        return Event("gaussian", 1.0 / mu_for(self.epsilon, self.delta), {str(neighbours): 1.0})


@dataclass(frozen=True)
class _Step:
    """A private step of a candidate."""

    neighbours: Neighbours
    fit: _Cost | None
    rows: _Cost | None
    """Of the rows it was fitted to; None where they are not transformed."""
    scored: _Cost | None
    """Of rows that are scored; None where they pass without noise."""
    unprotected: bool


@dataclass(frozen=True)
class _Splits:
    """How often a row is in a training part and in a test part, of `folds` splits."""

    folds: int
    trains: int
    tests: int


def search_cost(search: Any, delta: float | None = None) -> SearchCost:
    """What fitting this `search` (GridSearchCV, RandomizedSearchCV or their halving forms) will spend.

    Guarantee: `epsilon` at `delta` is an upper bound on what all releases of the search cost one row, if labels and
    splits do not depend on private cells. It is exact for one score and splits that test every row once. `delta` None
    is the largest delta of the candidates. Nothing is fitted and no data are needed.

    Edge cases: several scores may share a transform, and are counted as if they did not; a callable is taken to
    transform once. Of a halving search the dearest candidates are taken to survive, for as many rounds as there can
    be. A random search over a private step's own parameters needs a whole number as `random_state`. Private steps are
    found in pipelines, feature unions and column transformers; inside other estimators, which may fit them any number
    of times, they are refused. So is add-remove: folds move with the number of rows.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> pipe = make_pipeline(PrivatePCA(low=0, high=1, n_components=2), LogisticRegression())
    >>> print(search_cost(GridSearchCV(pipe, {"privatepca__n_components": [1, 2, 3]}, cv=5)))
    3 candidates x 5 folds: 47 releases, of which a row is part of 29.
    One row pays epsilon 19.1 at delta 1e-06 (row/replace); a ledger under one name will say 33.
    """
    rounds, splits, scores = _rounds(search), _splits(search), _scores(search)
    found = [_steps_of(search.estimator, parameters) for parameters in rounds.candidates]
    every = [step for steps in found for step in steps]
    neighbours = _neighbours(every)
    costs = [_candidate(steps, splits, scores, bool(search.return_train_score)) for steps in found]
    if delta is None:
        delta = max((cost.delta for step in every for cost in (step.fit, step.rows, step.scored) if cost), default=0.0)
    between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)

    def spent(counted: Counter[_Cost]) -> float:
        events = [event for cost, times in counted.items() for event in [cost.event(neighbours)] * times]
        return epsilon_of(events, neighbours, delta)

    dearest = sorted(costs, key=lambda cost: spent(cost.row), reverse=True) if len(rounds.sizes) > 1 else costs
    fitted = [cost for kept in rounds.sizes for cost in dearest[:kept]]
    row, table = (sum(found, Counter[_Cost]()) for found in ([c.row for c in fitted], [c.table for c in fitted]))
    # which candidate is fitted again is not known: whichever makes the sum largest
    again = _undominated([cost.refit for cost in costs] if search.refit is not False else [Counter()])
    return SearchCost(
        candidates=sum(rounds.sizes),
        folds=splits.folds,
        releases=table.total() + max(refit.total() for refit in again),
        releases_of_a_row=row.total() + max(refit.total() for refit in again),
        epsilon=max(spent(row + refit) for refit in again),
        ledger_epsilon=max(spent(table + refit) for refit in again),
        delta=delta,
        neighbours=str(neighbours),
        notes=_notes(search, every, scores),
    )


@dataclass(frozen=True)
class _Rounds:
    candidates: Sequence[Mapping[str, Any]]
    sizes: Sequence[int]
    """Candidates that are fitted in each round; one round, but for a halving search."""


def _rounds(search: Any) -> _Rounds:
    candidates = list(_candidates(search))
    sizes, factor = [len(candidates)], getattr(search, "factor", None)
    if factor is not None and candidates:
        resource = getattr(search, "resource", "n_samples")
        if resource != "n_samples" and _touches(search.estimator, [resource]):
            raise InputError(
                "a resource that is no parameter of a private step", resource, "search it by GridSearchCV instead"
            )
        if not factor > 1:
            raise InputError("factor > 1", f"factor = {factor}", "give by how much each round cuts them, such as 3")
        # as many rounds as leave fewer than `factor` candidates; a small table may end the search sooner
        for _ in range(math.floor(math.log(len(candidates), factor) + 1e-9)):
            sizes.append(math.ceil(sizes[-1] / factor))
    return _Rounds(candidates, sizes)


def _candidates(search: Any) -> Iterable[Mapping[str, Any]]:
    if hasattr(search, "param_grid"):
        return ParameterGrid(search.param_grid)  # type: ignore[no-any-return]  # scikit-learn ships no types
    if not hasattr(search, "param_distributions"):
        raise InputError(
            "a search with param_grid or param_distributions",
            type(search).__name__,
            "give a GridSearchCV, a RandomizedSearchCV or one of their halving forms, not fitted",
        )
    count = getattr(search, "n_iter", getattr(search, "n_candidates", None))
    if not isinstance(count, Integral):
        raise InputError("a number of candidates that is known beforehand", str(count), "give n_candidates a number")
    spaces = search.param_distributions
    if not isinstance(search.random_state, Integral) and any(
        _touches(search.estimator, space) or any(map(_offers_steps, space.values()))
        for space in ([spaces] if isinstance(spaces, Mapping) else spaces)
    ):
        raise InputError(
            "a random_state that is a whole number, since parameters of a private step are drawn",
            "another",
            "give random_state a number, so that the same candidates are drawn again",
        )
    return ParameterSampler(spaces, int(count), random_state=search.random_state)  # type: ignore[no-any-return] # same


def _touches(estimator: Any, names: Iterable[str]) -> bool:
    """Whether one of these parameters belongs to a private step, or to something that holds one."""
    if isinstance(estimator, PrivatePCA | DPProTransformer):
        return True
    return any(
        name == step or name.startswith(f"{step}__") or step.startswith(f"{name}__") or name in _LISTS
        for name in names
        for step in _private_steps(estimator)
    )


def _offers_steps(values: Any) -> bool:
    """Whether estimators are among the values to draw from: some may be private."""
    return isinstance(values, Sequence) and any(hasattr(value, "get_params") for value in values)


def _splits(search: Any) -> _Splits:
    cv = search.cv
    if isinstance(cv, Iterator):
        raise InputError(
            "splits that can be counted without using them up", "an iterator", "give a number of folds or a list"
        )
    checked = check_cv(cv, classifier=is_classifier(search.estimator))
    try:
        folds = int(checked.get_n_splits())
    except (TypeError, ValueError, AttributeError):
        raise InputError(
            "splits whose number does not depend on the data", type(checked).__name__, "give a number of folds"
        ) from None
    if isinstance(checked, _REPEATED):
        return _Splits(folds, folds - checked.n_repeats, checked.n_repeats)
    if isinstance(checked, _PARTITIONS):
        return _Splits(folds, folds - 1, 1)
    return _Splits(folds, folds, 0)


def _scores(search: Any) -> int:
    """How often a part is transformed to be scored, at most."""
    scoring = search.scoring
    return 1 if scoring is None or isinstance(scoring, str) or callable(scoring) else len(scoring)


class _Candidate(NamedTuple):
    row: Counter[_Cost]
    table: Counter[_Cost]
    refit: Counter[_Cost]


def _candidate(steps: Sequence[_Step], splits: _Splits, scores: int, train_scores: bool) -> _Candidate:
    row, table, refit = Counter[_Cost](), Counter[_Cost](), Counter[_Cost]()
    for step in steps:
        training = Counter(cost for cost in (step.fit, step.rows) if cost is not None)
        test = Counter[_Cost]()
        refit += training
        if step.scored is not None:
            test[step.scored] += scores
            if train_scores:
                training[step.scored] += scores
        table += _times(training, splits.folds) + _times(test, splits.folds)
        if splits.tests:
            row += _times(training, splits.trains) + _times(test, splits.tests)
        else:  # a row may be on either side of any split: whichever costs more
            row += _times(training | test, splits.folds)
    return _Candidate(row, table, refit)


def _undominated(counts: Sequence[Counter[_Cost]]) -> list[Counter[_Cost]]:
    """Those that can be the dearest: another of as many releases at the same deltas does not beat them in each."""
    by_deltas: dict[tuple[float, ...], list[tuple[tuple[float, ...], Counter[_Cost]]]] = {}
    for counted in counts:
        ordered = sorted(counted.elements(), key=lambda cost: (cost.delta, cost.epsilon))
        rivals = by_deltas.setdefault(tuple(cost.delta for cost in ordered), [])
        epsilons = tuple(cost.epsilon for cost in ordered)
        if not any(_at_least(rival, epsilons) for rival, _ in rivals):
            rivals[:] = [(rival, other) for rival, other in rivals if not _at_least(epsilons, rival)]
            rivals.append((epsilons, counted))
    return [counted for rivals in by_deltas.values() for _, counted in rivals]


def _at_least(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True))


def _times(counted: Counter[_Cost], times: int) -> Counter[_Cost]:
    return Counter({cost: count * times for cost, count in counted.items()})


def _steps_of(estimator: Any, parameters: Mapping[str, Any]) -> list[_Step]:
    candidate = clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in parameters.items()})
    return list(_steps(candidate, last=True))


def _steps(estimator: Any, last: bool) -> Iterator[_Step]:
    """Private steps; the last one of a pipeline is fitted without transforming."""
    if isinstance(estimator, DPProTransformer):
        yield _projection(estimator, last)
    elif isinstance(estimator, PrivatePCA):
        yield _components(estimator, last)
    elif isinstance(estimator, Pipeline):
        for i, (_, step) in enumerate(estimator.steps):
            yield from _steps(step, last and i == len(estimator.steps) - 1)
    elif isinstance(estimator, FeatureUnion):
        for _, step in estimator.transformer_list:
            yield from _steps(step, last)
    elif isinstance(estimator, ColumnTransformer):
        for _, step, _ in estimator.transformers:
            yield from _steps(step, last=False)  # its fit transforms, always
    elif hasattr(estimator, "get_params") and _private_steps(estimator):
        raise InputError(
            "private steps in a pipeline, a feature union or a column transformer",
            f"one inside {type(estimator).__name__}, which may fit it any number of times",
            "put it before that step, or read from a ledger what a trial on made-up rows costs",
        )


def _private_steps(estimator: Any) -> list[str]:
    return [name for name, value in estimator.get_params().items() if isinstance(value, PrivatePCA | DPProTransformer)]


def _projection(step: DPProTransformer, last: bool) -> _Step:
    one_of(tuple(Unit), unit=step.unit)
    one_of(tuple(Relation), relation=step.relation)
    budget = Budget(step.epsilon, step.delta)
    rows = _Cost(budget.epsilon, budget.delta)
    return _Step(Neighbours(Unit(step.unit), Relation(step.relation)), None, None if last else rows, rows, False)


def _components(step: PrivatePCA, last: bool) -> _Step:
    one_of(tuple(MECHANISMS), mechanism=step.mechanism)
    one_of(tuple(Relation), relation=step.relation)
    budget = Budget(step.epsilon, step.delta)
    fit = _Cost(budget.epsilon, promised_delta(MECHANISMS[step.mechanism](), budget.delta))
    each = rows_epsilon(step)
    if each is None and not last:
        raise InputError(
            "a transform_epsilon that is a number or 'same': a pipeline releases the rows it is fitted to",
            "transform_epsilon=None",
            "give it a number",
        )
    public = step.transform_rows == PUBLIC
    rows = None if each is None else _Cost(each, 0.0)
    neighbours = Neighbours(Unit.ROW, Relation(step.relation))
    return _Step(neighbours, fit, None if last else rows, None if public else rows, public)


def _neighbours(steps: Sequence[_Step]) -> Neighbours:
    kinds = {step.neighbours for step in steps}
    if len(kinds) != 1:
        raise InputError(
            "private steps that all have the same unit and relation",
            ", ".join(sorted(map(str, kinds))) or "no private step",
            "search over one kind at a time; a pipeline without a PrivatePCA or DPProTransformer has no such cost",
        )
    (neighbours,) = kinds
    if neighbours.relation is Relation.ADD_REMOVE:
        raise InputError(
            "relation replace or zero-out: with a row more or less, other rows change folds too",
            str(neighbours),
            "choose another relation for the search",
        )
    return neighbours


def _notes(search: Any, steps: Sequence[_Step], scores: int) -> tuple[str, ...]:
    notes = []
    if any(step.unprotected for step in steps):
        notes.append(
            "test rows are scored without noise (transform_rows='public'), so no epsilon covers the scores and the "
            "choice they lead to"
        )
    if scores > 1 or callable(search.scoring):
        notes.append("each score is counted as one transform")
    if getattr(search, "factor", None) is not None:
        notes.append("the dearest candidates are taken to survive every round")
    return tuple(notes)


def _up(epsilon: float) -> str:
    """Three digits, rounded up."""
    if not math.isfinite(epsilon) or epsilon <= 0:
        return f"{epsilon:g}"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"
