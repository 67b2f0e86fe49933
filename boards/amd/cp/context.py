"""What every queue of the board shares: its views of memory, its faults, its signals."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from boards.amd.cp.engine_types import Chip, Host, PacketFault, QueueSpec, Scope, Space
from boards.amd.wave.types import Strict
from boards.machine.arrays import Addresses, Words

LOW32 = 0xFFFFFFFF
LOW64 = (1 << 64) - 1


def xccs_of(spec: QueueSpec, chip: Chip) -> tuple[int, ...]:
    """The dies that process a queue: all of them for AQL packets, the first one for PM4.

    # src: Linux 3c8bdb51be0e "drm/amdkfd: Add PM4 target XCC": "unlike AQL queues, the PM4 queue
    # src: will be only processed in one XCC", which CREATE_QUEUE names; kfd/queue.py refuses others
    """
    return tuple(range(chip.xccs)) if spec.kind == "aql" else (0,)


class Progress(enum.Enum):
    """What one step of a queue did."""

    IDLE = "idle"
    """Everything that was submitted is done."""
    WAITING = "waiting"
    """Parked: the same packet is tried again."""
    MOVED = "moved"


class Hung(Exception):
    """Silicon would run for ever here; the queue makes no more progress, without a report."""


class Endless(Hung):
    """A kernel does not end: its waves can be saved, so that its queue is destroyed."""


class WaveMemory:
    """Memory as the waves of one queue see it: data through some caches, code through another.

    Consecutive dispatches run on different compute units, so they take turns with two data
    caches: what one wrote, the next may read when the processor has waited for the first to end
    and has invalidated the caches since. The caches are the compute units', whichever queue fills
    them: an acquire acts for all queues, and a new queue finds what the others have filled. With
    `several_l2` the two lie behind different L2s, and neither behind that of the first XCC: so do
    most workgroups of a dispatch that all XCCs share.
    """

    def __init__(
        self, space: Space, queue_id: int, everyone: dict[int, WaveMemory], *,
        several_l2: bool = False,
    ) -> None:  # fmt: skip
        self.several_l2 = several_l2
        self._caches = (
            space.agent(f"waves of queue {queue_id}", l2=int(several_l2)),
            space.agent(f"next waves of queue {queue_id}", l2=2 * several_l2),
        )
        self.data = self._caches[0]
        self.code = space.agent(f"code of queue {queue_id}")
        self._everyone = everyone
        """Those of all queues of the process, by number; this one when it runs."""
        others = list(everyone.values())
        for cache in self._caches:
            cache.share([one for other in others for one in other._caches])
        self.code.share([other.code for other in others])
        self.in_flight = False
        """Whether a dispatch was started and not waited for."""
        self.unreleased = False
        """Whether the shared cache may hold what waves wrote: only this GPU sees it."""
        self._due: Scope | None = None
        """The scope of a release that waits for the dispatches in flight to end."""
        self._filled = False
        self.behind_host = False
        """Whether the caches hold what the host may have changed since: its doorbell came after."""
        self.ends: set[int] = set()
        """Where end-of-pipe values went since the last dispatch: who waits there waits for it."""

    def started(self) -> None:
        """A dispatch begins, on the other compute units."""
        self.data = self._caches[self.data is self._caches[0]]
        self.in_flight = self.unreleased = True
        for waves in self._everyone.values():
            waves._filled = True
        self.ends.clear()

    def rung(self) -> None:
        """The host has given the queue work, and may have written anything before."""
        self.behind_host = self._filled

    def ended(self) -> None:
        """The processor has waited for all dispatches to end."""
        self.in_flight = False
        self.settle()

    def release(self, scope: Scope = Scope.SYSTEM) -> None:
        """At the end of all dispatches so far: what they wrote is visible in this scope.

        The processor goes on at once: an acquire of its own before that end comes too early.
        """
        self._due = scope if self._due is None else max(scope, self._due)
        if scope is Scope.SYSTEM:
            self.unreleased = False
        if not self.in_flight:
            self.settle()

    def settle(self) -> None:
        """Time has passed: releases that were due have happened."""
        if self._due is not None:
            scope, self._due = self._due, None
            for cache in self._caches:
                cache.release(scope)

    def write_back(self, scope: Scope = Scope.SYSTEM) -> None:
        """Now: what a dispatch that is still running writes is not part of it."""
        if not self.in_flight:
            self.release(scope)

    def acquire(self, scope: Scope) -> None:
        """Invalidate the compute units' caches; ended dispatches have written through them.

        What a copy engine wrote is only seen past the L2, which is the system's scope.
        """
        self.write_back(Scope.L2)
        for waves in self._everyone.values():
            waves._filled = waves.behind_host = False
            for cache in waves._caches:
                cache.acquire(scope)

    def acquire_code(self, scope: Scope) -> None:
        """Invalidate the compute units' instruction caches."""
        for waves in self._everyone.values():
            waves.code.acquire(scope)

    def load(self, va: Addresses, nbytes: int) -> Words:
        """Elements through the data cache. Raises: MemoryFault."""
        return self.data.load(va, nbytes)

    def store(self, va: Addresses, data: Words, nbytes: int) -> None:
        """Elements through the data cache. Raises: MemoryFault."""
        self.data.store(va, data, nbytes)

    def fetch(self, va: int, nbytes: int) -> bytes:
        """Instructions through the code cache. Raises: MemoryFault."""
        return self.code.fetch(va, nbytes)


@dataclass(slots=True)
class Context:
    """One queue and what is around it. `va` and `words` are the present packet."""

    spec: QueueSpec
    host: Host
    own: Space
    """As the processor itself sees memory: nothing it reads or writes stays in a cache."""
    waves: WaveMemory
    all_waves: dict[int, WaveMemory]
    """Those of every queue of the process."""
    signals: dict[int, int]
    """Last value that any queue signalled to an address."""
    strict: Strict
    max_steps: int
    va: int = 0
    words: tuple[int, ...] = ()
    name: str = ""
    found: set[tuple[str, str]] = field(default_factory=set)
    copy_bytes_per_s: float = 0.0
    """How fast a copy engine is; 0: copies take no time."""
    late_stamps: list[tuple[int, int]] | None = None
    """Time stamps of RELEASE_MEM on their way to memory, and where to; None: none takes time."""

    def fault(self, kind: str, detail: str = "") -> PacketFault:
        """The fault of the current packet, to be raised."""
        where = f"{self.name}: {detail}" if self.name and detail else detail or self.name
        return PacketFault(kind, va=self.va, words=self.words[:8], detail=where)

    def find(self, kind: str, detail: str) -> None:
        """A strict violation about the current packet, once for each kind of packet."""
        if (kind, self.name) not in self.found:
            self.found.add((kind, self.name))
            where = f"queue {self.spec.queue_id}, {self.name} at {self.va:#x}"
            self.host.find(kind, f"{where}: {detail}")

    def read(self, va: int, nbytes: int) -> bytes:
        """Memory as it is now. Raises: MemoryFault."""
        for waves in self.all_waves.values():
            if waves is not self.waves:
                waves.settle()
        self.own.acquire()
        return self.own.read(va, nbytes)

    def read_int(self, va: int, nbytes: int) -> int:
        """A little-endian unsigned integer. Raises: MemoryFault."""
        return int.from_bytes(self.read(va, nbytes), "little")

    def write(self, va: int, data: bytes) -> None:
        """Memory that everybody sees from now on. Raises: MemoryFault."""
        self.own.write(va, data)
        self.own.release()

    def write_int(self, va: int, value: int, nbytes: int) -> None:
        """The low `nbytes` of an integer. Raises: MemoryFault."""
        self.write(va, (value & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little"))

    def signal(self, va: int, value: int, nbytes: int) -> None:
        """Write a value that somebody waits for; it should never become smaller."""
        last = self.signals.get(va)
        if last is not None and value < last and self.read_int(va, nbytes) == last:
            self.find("signal decreased", f"{va:#x} was signalled {last}, now {value}")
        self.signals[va] = value
        self.write_int(va, value, nbytes)

    def stamp(self, va: int) -> None:
        """Write the clock at the end of the pipe: now, or when `stamps_arrive`."""
        if self.late_stamps is None:
            self.write_int(va, self.host.ticks(), 8)
        else:
            self.late_stamps.append((va, self.host.ticks()))

    def stamps_arrive(self) -> None:
        """Those on their way are in memory."""
        while self.late_stamps:
            self.write_int(*self.late_stamps.pop(0), 8)

    def interrupt(self, event_id: int, *, data: bool = True) -> None:
        """Wake whoever waits for the event: the host, which sees only what is written back.

        Without `data` the event says that a time stamp is there, and nothing of what waves stored.
        """
        if self.waves.unreleased and data:
            self.find(
                "unreleased", "the host is signalled, and stores of waves are in a cache still"
            )
        self.host.trace("interrupt", queue=self.spec.queue_id, event=event_id)
        self.host.interrupt(event_id)

    def aligned(self, va: int, nbytes: int) -> int:
        """The address, when it is aligned. Raises: PacketFault."""
        if va % nbytes:
            raise self.fault("misaligned", f"{va:#x} is no multiple of {nbytes}")
        return va


def join(low: int, high: int) -> int:
    """A 64-bit value of two dwords."""
    return low | high << 32


def bits(word: int, high: int, low: int) -> int:
    """The field [high:low] of a word."""
    return word >> low & (1 << high - low + 1) - 1


def dwords(data: bytes) -> tuple[int, ...]:
    """Little-endian 32-bit words of bytes."""
    return tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4))


# src: nvd.h WAIT_REG_MEM_FUNCTION, *_sdma_pkt_open.h POLL_REGMEM func: the same codes.
COMPARE: dict[int, Callable[[int, int], bool]] = {
    0: lambda value, reference: True,
    1: lambda value, reference: value < reference,
    2: lambda value, reference: value <= reference,
    3: lambda value, reference: value == reference,
    4: lambda value, reference: value != reference,
    5: lambda value, reference: value >= reference,
    6: lambda value, reference: value > reference,
}
