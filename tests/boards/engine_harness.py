"""Queues of the board over flat memory: a fake host, a fake space, streams of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boards.amd.cp.engine_types import Chip, QueueSpec, Scope
from boards.amd.cp.engines import Engines
from boards.amd.wave.types import LENIENT, MemoryFault
from tests.boards.wave_harness import FlatMemory

DATA = 0x7F_1000_0000
"""64 KiB that the golden words of the tests name; a buffer at +0x400, another at +0x500."""
RING = 0x7F_2000_0000
RING_BYTES = 4096
QUEUE = 0x7F_3000_0000
"""An amd_queue_t: write index at +56, read index at +128."""
WPTR, RPTR = QUEUE + 56, QUEUE + 128


def chip(name: str = "gfx1100", family: str = "gfx11", sdma=(6, 0, 0), xccs: int = 1) -> Chip:
    properties = {"array_count": 12, "simd_arrays_per_engine": 2}
    return Chip(
        name, family, 0, 32, xccs, 96, 65536, (11, 0, 0), sdma, 2, 0, 8, properties=properties
    )


class FakeSpace:
    """Flat memory under the name of an agent; who released and acquired is written down."""

    def __init__(self, memory: FlatMemory, log: list, name: str = "process") -> None:
        self.memory, self.log, self.name = memory, log, name
        self.load, self.store, self.fetch = memory.load, memory.store, memory.fetch

    def _place(self, va: int, nbytes: int, access: str) -> np.ndarray:
        for base, data, writable in self.memory.regions:
            if base <= va and va + nbytes <= base + len(data):
                if access == "write" and not writable:
                    raise MemoryFault("read-only", access, va)
                return data[va - base : va - base + nbytes]
        raise MemoryFault("unmapped", access, va)

    def read(self, va: int, nbytes: int) -> bytes:
        return self._place(va, nbytes, "read").tobytes()

    def write(self, va: int, data: bytes) -> None:
        self._place(va, len(data), "write")[:] = np.frombuffer(data, np.uint8)

    def agent(self, name: str, *, l2: int = 0) -> FakeSpace:
        return FakeSpace(self.memory, self.log, name)

    def release(self, scope: Scope = Scope.SYSTEM) -> None:
        self.log.append(("release", self.name))

    def acquire(self, scope: Scope = Scope.SYSTEM) -> None:
        self.log.append(("acquire", self.name))

    def share(self, others: Sequence[FakeSpace]) -> None:
        """Nothing is cached here."""


class FakeHost:
    """Writes down what the engines tell it; its clock is 1000, 1001, ..."""

    shared_base, private_base = 1 << 48, 2 << 48

    def __init__(self, which: Chip) -> None:
        self.chip = which
        self.interrupts: list[int] = []
        self.faults: list[Exception] = []
        self.violations: list[tuple[str, str]] = []
        self.events: list[tuple[str, dict]] = []
        self.now = 999

    def interrupt(self, event_id: int) -> None:
        self.interrupts.append(event_id)

    def queue_fault(self, spec: QueueSpec, error: Exception) -> None:
        self.faults.append(error)

    def ticks(self) -> int:
        self.now += 1
        return self.now

    def find(self, kind: str, what: str) -> None:
        self.violations.append((kind, what))

    def trace(self, name: str, **facts) -> None:
        self.events.append((name, facts))


class Rig:
    """One process on one GPU with queues in flat memory."""

    def __init__(self, which: Chip | None = None, strict=LENIENT, **options) -> None:
        self.host = FakeHost(which or chip())
        self.memory, self.log = FlatMemory(), []
        self.space = FakeSpace(self.memory, self.log)
        self.data = np.zeros(0x10000, np.uint8)
        self.memory.place(DATA, self.data)
        self.rings: dict[int, np.ndarray] = {}
        self.put: dict[int, int] = {}
        self.engines = Engines(self.host, strict, **options)

    def create(self, kind: str, queue_id: int = 1, **changes) -> int:
        """A queue with a ring and pointers of its own."""
        apart = (queue_id - 1) * 0x100000
        ring, queue = np.zeros(RING_BYTES, np.uint8), np.zeros(256, np.uint8)
        self.memory.place(RING + apart, ring)
        self.memory.place(QUEUE + apart, queue)
        self.rings[queue_id], self.put[queue_id] = ring, 0
        facts = {
            "ring_va": RING + apart, "ring_bytes": RING_BYTES, "rptr_va": RPTR + apart,
            "wptr_va": WPTR + apart, "eop_va": DATA, "eop_bytes": 4096,
        }  # fmt: skip
        self.engines.create(QueueSpec(queue_id, kind, **(facts | changes)), self.space)
        return queue_id

    def submit(self, words: list[int], queue_id: int = 1, *, scale: int = 1) -> None:
        """Put dwords into a ring and ring the doorbell; `scale` 4 counts bytes, as SDMA does."""
        ring = self.rings[queue_id].view(np.uint32)
        for i, word in enumerate(words):
            ring[(self.put[queue_id] + i) % len(ring)] = word
        self.put[queue_id] += len(words)
        self.ring(self.put[queue_id] * scale, queue_id)

    def ring(self, value: int, queue_id: int = 1) -> None:
        """Store the write pointer and ring the doorbell with it."""
        self.space.write(WPTR + (queue_id - 1) * 0x100000, value.to_bytes(8, "little"))
        self.engines.doorbell(queue_id, value)

    def put_words(self, offset: int, words: list[int]) -> None:
        """Dwords into the data region."""
        self.data[offset : offset + 4 * len(words)] = np.array(words, np.uint32).view(np.uint8)

    def word(self, offset: int, nbytes: int = 4) -> int:
        """An integer of the data region."""
        return int.from_bytes(self.data[offset : offset + nbytes].tobytes(), "little")

    def read_pointer(self, queue_id: int = 1, nbytes: int = 8) -> int:
        va = RPTR + (queue_id - 1) * 0x100000
        return int.from_bytes(self.space.read(va, nbytes), "little")

    def packets(self) -> list[str]:
        """Names of the packets that were executed."""
        return [facts["op"] for name, facts in self.host.events if name == "packet"]

    def fault(self):
        """The only fault there was."""
        if len(self.host.faults) != 1:
            raise AssertionError(f"faults: {self.host.faults}, not one")
        return self.host.faults[0]
