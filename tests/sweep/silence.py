"""Which failures have to be noticed, and why the others need not be.

Need not be: a read of a register that gives all ones is read again; a register that is stuck, or
gives nonsense once, may hold what was wanted; a write is posted, and where nothing reads it back
or needs it in a short life, its loss leaves nothing to see. Those that must be are named here.
A command to the bootloader (C2PMSG_35) is not among them: the mailbox goes on saying "ready" from
the stage before, and where no later stage needs this one, the boot goes on without it. Nor is a
request to gfx942's memory hubs, whose answer to the request before still stands.
"""

from __future__ import annotations

import re
from typing import Final

from boards.machine.pci.panel import Kind
from boards.machine.pci.world import PciWorld
from tests.sweep.words import registers_at

WRITES: Final = {
    "the security processor never answers": r"MP(0|ASP)_SMN_C2PMSG_(64|67|69|70|71)",
    "the order to reset never arrives": r"MP1_SMN_C2PMSG_75",
    "the memory hub never answers": r"MMVM_INVALIDATE_ENG17_REQ",
    "the compute queue reads or writes elsewhere": (
        r"CP_HQD_(PQ_BASE|PQ_BASE_HI|PQ_CONTROL|PQ_DOORBELL_CONTROL|PQ_WPTR_POLL_ADDR|VMID)"
    ),
    "the copy queue reads or writes elsewhere": (
        r"SDMA(0_QUEUE0|_GFX)_RB_(BASE|BASE_HI|RPTR_ADDR_LO|RPTR_ADDR_HI)"
    ),
}
"""Writes whose loss must be noticed; of several graphics cores at the first, which runs the life's
one workgroup."""
STOPPING: Final = r"CP_HQD_ACTIVE|SDMA(0_QUEUE0|_GFX)_CONTEXT_STATUS"
"""Closing waits for these: a time-out is a queue that does not stop, and has its waves dropped."""
ORDER: Final = r"MP1_SMN_C2PMSG_(66|82|90)"
"""A message to the SMU; the one that orders a mode-1 reset may fail where the function's own reset
did its work in the same life."""
COMMAND: Final = "config 0x4"


def must_be_noticed(
    board: PciWorld, kind: Kind, broke: str, *, closing: bool, reset: bool = False
) -> str:
    """Why a life whose access went wrong may not go well; "" where it may.

    `closing`: the access is one of closing; `reset`: the function was reset in that life.
    """
    access, _, where = broke.partition(" ")
    if access == "call":
        return "a request was refused"
    if where == COMMAND and kind is Kind.ONES and access == "read":
        return "COMMAND reads all ones"
    bar, _, offset = where.rpartition(" ")
    found = registers_at(board, int(offset, 16)) if bar == "BAR 5" else []
    if kind is Kind.TIMEOUT:
        stopping = any(re.fullmatch(STOPPING, name) for _, name in found)
        order = any(re.fullmatch(ORDER, name) for _, name in found)
        excused = (closing and access == "read" and stopping) or (reset and order)
        return "" if excused else "nobody answered"
    if kind is Kind.GONE:
        return "the GPU is gone"
    if access == "read":
        return ""
    for why, names in WRITES.items():
        if any(re.fullmatch(names, name) for instance, name in found if instance == 0):
            return why
    return ""
