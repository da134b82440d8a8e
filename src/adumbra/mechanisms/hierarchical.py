"""Hierarchical: noisy counts of all nodes of a tree over the cells, made consistent by least squares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from adumbra.common.validation import at_least
from adumbra.families.contract import Reference, Setting
from adumbra.families.counting import LeastSquares
from adumbra.families.forecast import best_strategy, least_error
from adumbra.numerics.strategies import Tree
from adumbra.queries.histograms import HistogramQuery

__all__ = ["Hierarchical"]


@dataclass(frozen=True)
class Hierarchical(LeastSquares):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    * `branching`: branches of a node; default: what gives random ranges the least error, by the noise alone.
    """

    branching: int | None = None

    name: ClassVar[str] = "hierarchical"
    title: ClassVar[str] = "noisy counts of a tree over the cells, made consistent"
    releases: ClassVar[str] = "an estimated count for every cell of a domain, whose noise nearly cancels in long ranges"
    suits: ClassVar[str] = "ranges of ordered columns, from some dozens of cells on"
    caution: ClassVar[str] = "single cells are noisier than with laplace; each further column multiplies the noise"
    theorem: ClassVar[str] = (
        "Laplace or Gaussian mechanism on the counts of all nodes (Hay et al. 2010); least squares afterwards is free "
        "(docs/proofs/strategies.md)"
    )
    differs: ClassVar[str] = (
        "From the paper: any number of branches, the best by default (Qardaji, Yang, Li 2013); several columns, each "
        "number with a tree of its own, categories and flags by their values; with a positive delta the noise is "
        "Gaussian. Counts are not forced to be positive, so that answers stay unbiased."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Hay, Rastogi, Miklau, Suciu (2010), Boosting the Accuracy of Differentially Private Histograms Through "
            "Consistency, PVLDB 3(1)",
            "@article{hay2010boosting, title={Boosting the Accuracy of Differentially Private Histograms Through "
            "Consistency}, author={Hay, Michael and Rastogi, Vibhor and Miklau, Gerome and Suciu, Dan}, "
            "journal={PVLDB}, volume={3}, number={1}, year={2010}}",
        ),
        Reference(
            "Qardaji, Yang, Li (2013), Understanding Hierarchical Methods for Differentially Private Histograms, "
            "PVLDB 6(14)",
            "@article{qardaji2013understanding, title={Understanding Hierarchical Methods for Differentially Private "
            "Histograms}, author={Qardaji, Wahbeh and Yang, Weining and Li, Ninghui}, journal={PVLDB}, volume={6}, "
            "number={14}, year={2013}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branching is not None:
            at_least(2, "give at least two branches", branching=self.branching)

    @lru_cache(maxsize=4)  # noqa: B019 - values are small, keys are public, and plan, outlook and run ask the same
    def strategy(self, setting: Setting) -> Tree:
        """A tree along each column."""
        domain = self.domain(setting)

        def sd(tree: Tree) -> float:
            return setting.preview(1.0, HistogramQuery(domain.groups, tree))

        if self.branching is None:
            return best_strategy(Tree, domain, sd)
        branches = min(self.branching, max(2, *domain.shape))
        apart = dict.fromkeys((domain.apart, ()))  # what is missing is outside the tree, or in it
        return least_error([Tree(domain.shape, branches, domain.unordered, own) for own in apart], domain, sd)
