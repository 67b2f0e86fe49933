"""What the parts of a board exchange: a chip, address spaces, queues, a host around engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from boards.amd.wave.types import Memory

Version = tuple[int, int, int]


class Scope(IntEnum):
    """Who takes part in a release or an acquire: users of one L2, a whole GPU, everybody."""

    L2, AGENT, SYSTEM = range(3)


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of GPU: what engines, page tables and sysfs need to know of it."""

    name: str
    """"gfx1100"."""
    family: str
    """"gfx9", "gfx10", "gfx11" or "gfx12": packets, page tables and machine code differ by it."""
    target_version: int
    """gfx_target_version as sysfs prints it: 110000."""
    lanes: int
    """Lanes of a wave unless a kernel asks otherwise: what wave_front_size says."""
    xccs: int
    """Dies that each run every dispatch of a queue together."""
    cus: int
    """Compute units, all XCCs together."""
    lds_bytes: int
    """LDS of one workgroup at most."""
    gc: Version
    """Version of the graphics and compute block."""
    sdma: Version
    """Version of the copy engines."""
    sdma_engines: int
    """Copy engines, those for XGMI not counted."""
    sdma_xgmi_engines: int
    sdma_queues: int
    """Queues of one copy engine."""
    ip: Mapping[str, Version] = field(default_factory=dict)
    """Version of every block of the discovery table, by its name there ("NBIF")."""
    properties: Mapping[str, int] = field(default_factory=dict)
    """The node's properties as sysfs prints them, in that order."""
    carveout_bytes: int = 0
    """Of a processor's GPU (APU): memory that firmware keeps for it. A card has 0."""


class PacketFault(Exception):
    """A command processor or copy engine read a packet it cannot run; the queue stops.

    kind: "unknown opcode", "wrong length", "reserved bits", ...; `va` is where the packet lies,
    `words` its first dwords.
    """

    def __init__(
        self, kind: str, *, va: int = 0, words: tuple[int, ...] = (), detail: str = ""
    ) -> None:
        self.kind, self.va, self.words, self.detail = kind, va, words, detail
        shown = " ".join(f"{word:08x}" for word in words)
        tail = f": {detail}" if detail else ""
        super().__init__(f"{kind} in a packet at {va:#x} [{shown}]{tail}")


class Space(Memory, Protocol):
    """One process's GPU addresses as one agent ("CP", "SDMA0", "waves of queue 3") sees them.

    All accesses raise MemoryFault with kind "unmapped", "read-only", "no-execute" or "misaligned".
    """

    def read(self, va: int, nbytes: int) -> bytes:
        """`nbytes` bytes at `va`, any alignment."""

    def write(self, va: int, data: bytes) -> None:
        """All of `data` at `va`, any alignment; nothing is written when any byte faults."""

    def agent(self, name: str, *, l2: int = 0) -> Space:
        """The same tables as another agent sees them, through a cache of its own.

        The same name gives the same agent. `l2` is the L2 behind that cache, of several.
        """

    def release(self, scope: Scope = Scope.SYSTEM) -> None:
        """What this agent wrote is visible to those in `scope` who acquire from now on."""

    def acquire(self, scope: Scope = Scope.SYSTEM) -> None:
        """What this agent has cached is dropped: it sees what those in `scope` released."""

    def share(self, others: Sequence[Any]) -> None:
        """This agent's caches are those of the other agents, which may have filled them."""


@dataclass(slots=True)
class QueueSpec:
    """What CREATE_QUEUE said, and UPDATE_QUEUE changes in place."""

    queue_id: int
    """Unique in its process, over all its GPUs."""
    kind: str
    """"pm4", "aql" or "sdma"."""
    ring_va: int
    ring_bytes: int
    rptr_va: int
    wptr_va: int
    eop_va: int = 0
    eop_bytes: int = 0
    save_va: int = 0
    save_bytes: int = 0
    engine: int = 0
    """Of an SDMA queue: number of the copy engine."""
    start: int = 0
    """Read and write pointer to begin with, in the queue's own units."""
    trap: tuple[int, int] = (0, 0)
    """Addresses of the process's own trap handler and of its memory; 0: waves only stop."""
    kernel_trap_va: int = 0
    """Memory of the kernel's own trap handler (TMA), which has those two addresses instead."""
    kernel: Any = None
    """Of the kernel's own queues: what they reach beyond a process's (boards/amd/cp/kernel.py)."""
    active: bool = True
    """False while the kernel has it unmapped (percentage 0, evicted): doorbells wait."""


class Host(Protocol):
    """What the engines of one process on one GPU ask of the board around them."""

    chip: Chip

    @property
    def shared_base(self) -> int:
        """Flat aperture of LDS, as GET_PROCESS_APERTURES gave it to the process."""

    @property
    def private_base(self) -> int:
        """Flat aperture of scratch."""

    def interrupt(self, event_id: int) -> None:
        """An end-of-pipe or trap interrupt with this context id."""

    def message(self, data: int) -> None:
        """MSG_INTERRUPT of a wave in a trap handler, with the 24 bits of its M0."""

    def queue_fault(self, spec: QueueSpec, error: Exception) -> None:
        """A WaveFault, MemoryFault or PacketFault stopped a queue; the kernel raises events."""

    def ticks(self) -> int:
        """The 100 MHz counter that timestamps come from."""

    def find(self, kind: str, what: str) -> None:
        """A strict violation: silicon would let it pass, the board reports it once per place."""

    def trace(self, name: str, **facts: int | str) -> None:
        """One event of the timeline; costs nothing when tracing is off."""


class QueueEngines(Protocol):
    """All queues of one process on one GPU: what `engines.Engines` is, and test fakes are."""

    endless: set[int]
    """Those of the hung queues that an endless kernel stopped: a kernel driver can save it."""
    hung: set[int]
    """Queues that make no progress any more; the fault panel adds to them."""

    def create(self, spec: QueueSpec, space: Space, host: Host | None = None) -> None:
        """A new queue; its space is that of the process, for engines to take agents of.

        `host` gets this queue's interrupts and faults, where it is not the one that all share.
        """

    def destroy(self, queue_id: int) -> None:
        """The queue is gone, whatever it was doing."""

    def doorbell(self, queue_id: int, value: int) -> None:
        """A store of a write pointer; then everything runs that can."""

    def pump(self) -> bool:
        """Run what can run; whether anything moved."""

    def idle(self, queue_id: int) -> bool:
        """Whether a queue has done all its work."""

    def stopped(self, queue_id: int) -> bool:
        """Whether a fault has stopped a queue."""

    def read_pointer(self, queue_id: int) -> int:
        """How far a queue has come, in its own units."""
