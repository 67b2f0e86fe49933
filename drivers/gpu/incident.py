"""What a GPU, or its kernel driver, reports of a fault: no vendor's numbers, no queue yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ECC: Final = "ECC"
GPU_HANG: Final = "GPU hang"


@dataclass(frozen=True, slots=True)
class PageFault:
    """An access that the page tables do not allow."""

    gpu_va: int
    """Of the access, or of its page."""
    kind: str
    """"unmapped", "read-only", "no-execute", "memory" (where it is not known)."""
    access: str
    """"read" (also of code), "write", or "atomic" where the hardware tells it apart."""
    imprecise: bool = False
    client: str = ""
    """The unit that did it, in its vendor's word, where the hardware reports it."""


@dataclass(frozen=True, slots=True)
class Reset:
    """What a fault caused to be reset."""

    whole: bool
    """The whole GPU, not one engine."""
    memory_lost: bool


@dataclass(frozen=True, slots=True)
class Incident:
    """A page fault, or another `cause`."""

    page: PageFault | None = None
    cause: str = ""
    """ECC, GPU_HANG, or why a queue stopped: "bad packet", "illegal instruction"..."""
    reset: Reset | None = None
    """None: nothing was reset."""
    gone: bool = False
    """No queue runs on the GPU from now on: the report of it ends the device."""
    pc: int = 0
    """Program counter of the faulting wave, or 0 (not known). The instruction may be earlier."""
    unread: str = ""
    """Why a report of the kernel driver's could not be read, where it was asked for."""

    @property
    def stopped(self) -> bool:
        """Whether a compute queue reports why it stopped."""
        return self.page is None and self.reset is None and self.cause not in (ECC, GPU_HANG)
