"""The tie between an address space of UVM and the memory of a process: UVM_MM_INITIALIZE.

src: open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm.c uvm_api_mm_initialize() and
uvm_release_mm(), uvm_va_space_mm.c uvm_va_space_mm_shutdown(): the same rules in 535.43.02,
535.288.01, 550.163.01, 570.211.01, 580.142, 590.48.01 and 595.45.04. 525 has no such request.
"""

from __future__ import annotations

from enum import Enum, auto

from boards.nv import status
from boards.nv.status import RmError

MULTI_PROCESS_SHARING = 0x2
"""src: uvm_types.h UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE"""


class MmState(Enum):
    """src: uvm_va_space_mm.h uvm_va_space_mm_state_t"""

    UNINITIALIZED = auto()
    ALIVE = auto()
    RELEASED = auto()


class ProcessMemory:
    """What a space of UVM knows of the process whose memory it is for."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        """Whether the space has such a tie at all: uvm_va_space_mm_enabled()."""
        self.state = MmState.UNINITIALIZED

    @property
    def usable(self) -> bool:
        """Whether new work is allowed: uvm_va_space_mm_or_current_retain()."""
        return not self.enabled or self.state is MmState.ALIVE

    def begin(self) -> None:
        """UVM_MM_INITIALIZE. Raises: RmError INVALID_STATE, PAGE_TABLE_NOT_AVAIL."""
        if self.state is MmState.ALIVE:
            raise RmError(status.INVALID_STATE, "the space has a file of this kind")
        if self.state is MmState.RELEASED:
            raise RmError(status.PAGE_TABLE_NOT_AVAIL, "the space's file of this kind was closed")
        self.state = MmState.ALIVE
