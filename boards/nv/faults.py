"""How work fails: error codes, notifiers, what the debugger's controls then have to report.

src: open-gpu-kernel-modules, nverror.h, nvgputypes.h, kernel_rc_notification.c; notes section 6
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

GR_EXCEPTION, MMU_FAULT, PBDMA_ERROR = 13, 31, 32
GR_CLASS_ERROR, ECC_DBE, PREEMPTIVE_REMOVAL = 69, 48, 45
FALLEN_OFF_THE_BUS = 79
_CE_CODES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85)
"""ROBUST_CHANNEL_CE0_ERROR and so on: not in a row."""
_NOTIFIER_DONE = 0xFFFF
_NOTIFIER = "<QIHH"
NOTIFIER_BYTES, TOKEN_NOTIFIER = 16, 1
"""Size of an entry, and which has the work submit token. src: cl906f.h"""


class RcError(Exception):
    """Something for which RM tears a channel's group down."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class MmuReport:
    """The last MMU fault of a channel group."""

    va: int
    fault: int
    access: int


@dataclass(frozen=True, slots=True)
class SmReport:
    """One SM's error registers."""

    warp_esr: int
    pc: int
    address: int
    sm: int = 0
    """Whose they are, counted over the whole GPU."""


def copy_engine_code(engine: int) -> int:
    """What an error of a copy engine is called."""
    return _CE_CODES[engine] if engine < len(_CE_CODES) else _CE_CODES[-1]


def notifier(now_ns: int, code: int, engine: int) -> bytes:
    """NvNotification: time, code, engine, status."""
    return struct.pack(_NOTIFIER, now_ns, code, engine, _NOTIFIER_DONE)
