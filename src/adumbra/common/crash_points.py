"""Named places in the code where the crash tests may end the process.

A promise such as "the charge is wholly there or wholly absent" can only be tested by dying between two
statements. `checkpoint` does nothing unless the environment variable ADUMBRA_TEST_KILL_AT names the place.
"""

from __future__ import annotations

import os
import signal

__all__ = ["checkpoint"]


def checkpoint(name: str) -> None:
    """Do nothing; or, when a crash test asked for this place, die here without any clean-up.

    >>> checkpoint("anywhere")
    """
    if os.environ.get("ADUMBRA_TEST_KILL_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
