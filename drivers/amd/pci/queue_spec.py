"""The parameters of a hardware queue: the same for compute and copies."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.amd.iface import QueueKind


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Addresses are of the VMID's address space; sizes are powers of two."""

    kind: QueueKind
    vmid: int
    ring_va: int
    ring_bytes: int
    read_va: int
    """Where the hardware reports how far it has read."""
    write_va: int
    """Where the write pointer lies for those who poll it."""
    eop_va: int
    eop_bytes: int
    doorbell: int
    """Which 64-bit doorbell of the doorbell BAR."""
    slot: int = 0
    """Compute: the queue of the first pipe. Copies: the engine."""

    def __str__(self) -> str:
        return f"{self.kind} queue {self.slot}"
