"""Estimators for scikit-learn pipelines: a thin coat over `adumbra.release`, with the same door and the same ledger.

| name | `fit` | `transform` |
|---|---|---|
| `DPProTransformer` | spends nothing | releases the rows it is given, along random directions |
| `PrivatePCA` | releases principal axes | releases the rows it is given, along those axes |

`search_cost` says beforehand what a search over a pipeline with either of them will spend.
"""

from adumbra.sklearn.components import PrivatePCA
from adumbra.sklearn.projection import DPProTransformer
from adumbra.sklearn.search import SearchCost, search_cost

__all__ = ["DPProTransformer", "PrivatePCA", "SearchCost", "search_cost"]
