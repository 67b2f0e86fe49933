"""Where the samples of a test run begin: another place every day, or UNBOUND_SWEEP_OFFSET.

The default run tries a few accesses of many. Each day it tries the next ones, so that all of them
are tried in time; all workers of a run try the same, and failures show the offset.
"""

from __future__ import annotations

import os
from datetime import date


def offset() -> int:
    """Today's, and every worker's that is started from here on."""
    return int(os.environ.setdefault("UNBOUND_SWEEP_OFFSET", str(date.today().toordinal())))


def sample(total: int, count: int, salt: int = 0) -> range:
    """`count` of the numbers 1...total, or one more; `salt` lets kinds try different ones."""
    stride = max(total // count, 1)
    return range(1 + (offset() + salt * stride // 5) % stride, total + 1, stride)


def reproduced() -> str:
    """How to run the same sample again, for failures."""
    return f"UNBOUND_SWEEP_OFFSET={offset()}"
