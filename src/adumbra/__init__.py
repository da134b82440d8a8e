"""adumbra: release wide tables privately, and prove what it gives away.

>>> import adumbra as ad
>>> ad.Budget(epsilon=1.0, delta=1e-6).epsilon
1.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adumbra.api import plan as plan
    from adumbra.api import project as project
    from adumbra.api import public_axes as public_axes
    from adumbra.api import public_dictionary as public_dictionary
    from adumbra.api import release as release
    from adumbra.audit.audit_all import audit_catalogue as audit_catalogue
    from adumbra.audit.audit_all import audit_mechanism as audit_mechanism
    from adumbra.common.errors import AdumbraError as AdumbraError
    from adumbra.common.errors import AfterCharge as AfterCharge
    from adumbra.common.errors import InputError as InputError
    from adumbra.common.errors import Refused as Refused
    from adumbra.common.randomness import PublicSeed as PublicSeed
    from adumbra.declare.guarantee import Budget as Budget
    from adumbra.declare.guarantee import Neighbours as Neighbours
    from adumbra.declare.guarantee import Relation as Relation
    from adumbra.declare.guarantee import Unit as Unit
    from adumbra.declare.schema import Schema as Schema
    from adumbra.evaluate.report import Evaluation as Evaluation
    from adumbra.evaluate.report import evaluate_release as evaluate_release
    from adumbra.jupa.apply import apply_jupa as apply_jupa
    from adumbra.jupa.model import JupaModel as JupaModel
    from adumbra.jupa.model import fit_jupa as fit_jupa
    from adumbra.jupa.recipe import JupaRecipe as JupaRecipe
    from adumbra.kinds.estimates import CountEstimate as CountEstimate
    from adumbra.kinds.estimates import Estimate as Estimate
    from adumbra.ledger.ledger import Ledger as Ledger
    from adumbra.mechanisms.analyze_gauss import AnalyzeGauss as AnalyzeGauss
    from adumbra.mechanisms.auto import Auto as Auto
    from adumbra.mechanisms.csm import CSM as CSM
    from adumbra.mechanisms.dppro import DPPro as DPPro
    from adumbra.mechanisms.dprp import DPRP as DPRP
    from adumbra.mechanisms.fourier import Fourier as Fourier
    from adumbra.mechanisms.hierarchical import Hierarchical as Hierarchical
    from adumbra.mechanisms.histogram import Histogram as Histogram
    from adumbra.mechanisms.hybrid import Hybrid as Hybrid
    from adumbra.mechanisms.items import Items as Items
    from adumbra.mechanisms.laplace import Laplace as Laplace
    from adumbra.mechanisms.lip import LIP as LIP
    from adumbra.mechanisms.lop import LOP as LOP
    from adumbra.mechanisms.moments import Moments as Moments
    from adumbra.mechanisms.noisy_rows import NoisyRows as NoisyRows
    from adumbra.mechanisms.pairs import Pairs as Pairs
    from adumbra.mechanisms.power_method import PowerMethod as PowerMethod
    from adumbra.mechanisms.privelet import Privelet as Privelet
    from adumbra.mechanisms.sparse import Sparse as Sparse
    from adumbra.mechanisms.tables import Tables as Tables
    from adumbra.releases.card import Card as Card
    from adumbra.releases.folder import UtilityFolder as UtilityFolder
    from adumbra.result import Release as Release
    from adumbra.result import load as load
    from adumbra.tables.row_source import OwnerNotes as OwnerNotes

__version__ = "0.3.0"

# Where each public name lives. Names are imported when first used: numpy, polars and numba take a second to load,
# and `adumbra --help` needs none of them. A test holds this table to the imports above, which type checkers read.
_HOMES = {
    "CountEstimate": "kinds.estimates",
    "Estimate": "kinds.estimates",
    "Release": "result",
    "load": "result",
    "plan": "api",
    "project": "api",
    "public_axes": "api",
    "public_dictionary": "api",
    "release": "api",
    "audit_catalogue": "audit.audit_all",
    "audit_mechanism": "audit.audit_all",
    "Card": "releases.card",
    "AdumbraError": "common.errors",
    "AfterCharge": "common.errors",
    "InputError": "common.errors",
    "Refused": "common.errors",
    "Budget": "declare.guarantee",
    "Neighbours": "declare.guarantee",
    "Relation": "declare.guarantee",
    "Unit": "declare.guarantee",
    "PublicSeed": "common.randomness",
    "UtilityFolder": "releases.folder",
    "Schema": "declare.schema",
    "Evaluation": "evaluate.report",
    "evaluate_release": "evaluate.report",
    "apply_jupa": "jupa.apply",
    "JupaModel": "jupa.model",
    "fit_jupa": "jupa.model",
    "JupaRecipe": "jupa.recipe",
    "AnalyzeGauss": "mechanisms.analyze_gauss",
    "Auto": "mechanisms.auto",
    "CSM": "mechanisms.csm",
    "DPPro": "mechanisms.dppro",
    "DPRP": "mechanisms.dprp",
    "Fourier": "mechanisms.fourier",
    "Hierarchical": "mechanisms.hierarchical",
    "Histogram": "mechanisms.histogram",
    "Hybrid": "mechanisms.hybrid",
    "Items": "mechanisms.items",
    "Laplace": "mechanisms.laplace",
    "LIP": "mechanisms.lip",
    "LOP": "mechanisms.lop",
    "Moments": "mechanisms.moments",
    "NoisyRows": "mechanisms.noisy_rows",
    "Pairs": "mechanisms.pairs",
    "PowerMethod": "mechanisms.power_method",
    "Privelet": "mechanisms.privelet",
    "Sparse": "mechanisms.sparse",
    "Tables": "mechanisms.tables",
    "OwnerNotes": "tables.row_source",
    "Ledger": "ledger.ledger",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a public name on first use."""
        from importlib import import_module

        if name == "sklearn":  # the whole module: scikit-learn is loaded only for those who ask
            return import_module("adumbra.sklearn")
        if name not in _HOMES:
            raise AttributeError(f"module 'adumbra' has no attribute {name!r}")
        value = getattr(import_module(f"adumbra.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """Public names, loaded or not."""
        return sorted({*globals(), *_HOMES})
