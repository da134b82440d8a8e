"""adumbra: release wide tables privately, and prove what it gives away.

>>> import adumbra as ad
>>> ad.Budget(epsilon=1.0, delta=1e-6).epsilon
1.0
"""

from __future__ import annotations

from adumbra.answer.projected import Estimate as Estimate
from adumbra.answer.release import Release as Release
from adumbra.answer.release import load as load
from adumbra.api import plan as plan
from adumbra.api import release as release
from adumbra.core.card import Card as Card
from adumbra.core.errors import AdumbraError as AdumbraError
from adumbra.core.errors import InputError as InputError
from adumbra.core.errors import Refused as Refused
from adumbra.core.guarantee import Budget as Budget
from adumbra.core.guarantee import Neighbours as Neighbours
from adumbra.core.guarantee import Relation as Relation
from adumbra.core.guarantee import Unit as Unit
from adumbra.core.randomness import PublicSeed as PublicSeed
from adumbra.core.schema import Schema as Schema
from adumbra.mechanisms.dppro import DPPro as DPPro
from adumbra.privacy.ledger import Ledger as Ledger

__version__ = "0.1.0"
