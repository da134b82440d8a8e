"""Estimators for scikit-learn pipelines: a thin coat over `adumbra.release`, with the same door and the same ledger.

| name | `fit` | `transform` |
|---|---|---|
| `DPProTransformer` | spends nothing | releases the rows it is given, along random directions |
| `PrivatePCA` | releases principal axes | releases the rows it is given, along those axes |
| `JUPA` | learns from public rows | serves one label, hides another: no differential privacy, except `laplace` |

`search_cost` says beforehand what a search over a pipeline with one of the first two will spend.
"""

from adumbra.sklearn.jupa_estimator import JUPA
from adumbra.sklearn.pca import PrivatePCA
from adumbra.sklearn.projection import DPProTransformer
from adumbra.sklearn.search import SearchCost, search_cost

__all__ = ["JUPA", "DPProTransformer", "PrivatePCA", "SearchCost", "search_cost"]
