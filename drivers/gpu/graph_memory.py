"""Memory of a recording, in copies: while the GPU runs one, the host patches the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from threading import RLock
from typing import Any, Final, Generic, Protocol, TypeVar

from drivers.base.contracts import Program
from drivers.base.errors import OutOfMemory, Unsupported, UseAfterFree
from drivers.gpu.iface import GpuIface, Memory, Use
from drivers.gpu.ring import Ring

ALIGN_BYTES: Final = 64
MOST_COPIES: Final = 4
"""Three replays may be queued on the GPU while the host prepares the next one."""
PARAM_BYTES: Final = (1, 2, 4, 8)
COPIES_BYTES: Final = 4 << 20
"""Of all copies of one recording, unless two copies need more."""


class Item(Protocol):
    """One step: packets, or a launch."""

    @property
    def program(self) -> Program | None:
        """What it launches."""


def whole_place(at: int, nbytes: int, number: int) -> int:
    """Where an argument is, in units of its own size. Raises: Unsupported between two of them."""
    place, rest = divmod(at, nbytes) if nbytes in PARAM_BYTES else (0, 1)
    if rest:
        raise Unsupported(
            f"argument {number} has {nbytes} bytes at byte {at} and cannot be a Param",
            hint="leave aligned arguments open",
        )
    return place


S = TypeVar("S", bound=Item)


class Pair(Protocol):
    """The device's queues."""

    compute_lock: RLock


class Waits(Protocol):
    """How the device waits."""

    def wait_ring(self, ring: Ring, mark: int) -> None:
        """Return once the ring has done `mark`. Raises: Hang, DeviceFault."""


class Owner(Protocol):
    """The device of a recording."""

    @property
    def iface(self) -> GpuIface:
        """The way to its GPU."""

    @property
    def pair(self) -> Pair:
        """Its queues."""

    @property
    def waits(self) -> Waits:
        """How it waits for them."""

    def give_back(self, held: Memory) -> None:
        """Take back memory without references."""


class Copy:
    """A recording in memory of its own, with arguments of its own."""

    __slots__ = ("bo", "given", "gpu_va", "last", "packets", "packing", "view", "words")

    def __init__(self, bo: Memory) -> None:
        self.bo, self.gpu_va, self.view = bo, bo.gpu_va, bo.view()
        view = self.view
        self.words: Mapping[int, memoryview] = {
            8: view.cast("Q"), 4: view.cast("I"), 2: view.cast("H"), 1: view,
        }  # fmt: skip
        self.given: list[int] = []
        """The words of all Params that are in it; empty: none yet."""
        self.packing = False
        """Whether it is being patched or replayed: a signal handler takes another copy."""
        self.last: tuple[Ring | None, int] = (None, 0)
        """The ring of its last replay, and the position after that."""
        self.packets: Any = None
        """What its kind of graph writes to the ring; None for nothing."""

    @property
    def done(self) -> bool:
        """Whether no replay of it is under way, so that its words may change."""
        ring, mark = self.last
        return ring is None or ring.gone or ring.done >= mark


class GraphMemory(ABC, Generic[S]):
    """What recordings of all formats share: their copies, and where each step's arguments are."""

    def __init__(self, device: Owner, items: Sequence[S]) -> None:
        self._device, self._items = device, items
        self.lock = device.pair.compute_lock
        """Of whatever ring replays it."""
        head = self.head()
        self.nbytes = head + sum(self.size(item) for item in items)
        """Of one copy."""
        self._most = max(2, min(MOST_COPIES, COPIES_BYTES // max(self.nbytes, 1)))
        self._starts = list(accumulate(map(self.size, items), initial=head))
        """Byte where every step begins."""
        self.copies: list[Copy] = []
        self._closed = False
        self.names = [item.program.name for item in items if item.program is not None]
        self.scratch = any(map(self.uses_scratch, items))
        self.recent = self._new()
        """The copy that was prepared last."""
        self.copies.append(self.recent)
        self.reports = False
        """Whether replays interrupt: a thread may wait for a free copy."""

    def _new(self) -> Copy:
        """The recording once more. Raises: OutOfMemory."""
        size = max(self.nbytes, ALIGN_BYTES)
        bo = self._device.iface.allocate(size, Use.PACKETS, "graph", host=True)
        try:
            copy = Copy(bo)
            self.write(copy)
        except BaseException:
            bo.free()
            raise
        return copy

    @abstractmethod
    def size(self, item: S) -> int:
        """Bytes of memory that a step takes, in whole lines."""

    def head(self) -> int:
        """Bytes before those of the first step."""
        return 0

    @abstractmethod
    def arguments_off(self, item: S) -> int:
        """Where in those bytes its arguments begin."""

    def arguments_at(self, item: int) -> int:
        """Byte of the arguments of a step."""
        return self._starts[item] + self.arguments_off(self._items[item])

    @abstractmethod
    def write(self, copy: Copy) -> None:
        """All steps into a copy."""

    def uses_scratch(self, item: S) -> bool:
        """Whether its packets hold the address of scratch."""
        return False

    @abstractmethod
    def place(self, item: int, number: int) -> tuple[int, int]:
        """(bytes of argument `number` of a step, which word of so many bytes it is in a copy).

        Raises: BadArgument, Unsupported.
        """

    def prepare(self, given: list[int], patch: Callable[[Any, list[int]], None]) -> Copy | None:
        """With the lock held: a copy that has these words, patched where none has; else None.

        Its `given` is `given` unless a signal handler patched it since. Raises: UseAfterFree.
        """
        for copy in self.copies:
            if copy.given == given and not copy.packing:
                copy.given = given
                self.recent = copy
                return copy
        for copy in self.copies:
            last = copy.last
            if copy.done and not copy.packing and copy.last is last:  # else: a handler ran
                copy.packing = True
                try:
                    patch(copy, given)
                finally:
                    copy.packing = False
                self.recent = copy
                return copy
        self.check_open()
        return None

    @abstractmethod
    def play(self, copy: Copy) -> None:
        """With the lock held: run it. Raises: UseAfterFree; what the ring raises."""

    def check_open(self) -> None:
        """Raises: UseAfterFree once it is closed."""
        if self._closed:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")

    def settle(self) -> None:
        """No copy is free: make another one, or wait for the one that finishes first.

        Raises: Unsupported where signal handlers replay inside each other, too deep.
        """
        waiting = [copy for copy in list(self.copies) if not copy.packing]
        if len(self.copies) < self._most:
            for copy in waiting:  # from the second copy on each replay interrupts
                ring, mark = copy.last
                if ring is not None:
                    ring.ask(mark)
            if self._grow():
                return
        if not waiting and not self._closed:
            raise Unsupported(
                f"a graph is replayed by {len(self.copies)} signal handlers inside each other",
                hint="replay it when the handlers have returned",
            )
        pending = [copy.last for copy in waiting if not copy.done]
        ring, mark = min(pending, key=lambda last: last[1], default=(None, 0))
        if ring is not None and len(pending) == len(waiting):
            self._device.waits.wait_ring(ring, mark)

    def _grow(self) -> bool:
        """One copy more, where there is memory."""
        try:
            copy = self._new()
        except OutOfMemory:
            self._most = len(self.copies)  # replays share the copies there are
            return False
        with self.lock:
            kept = not self._closed and len(self.copies) < self._most
            if kept:
                self.reports = True
                self.copies.append(copy)
        if not kept:
            self._device.give_back(copy.bo)
        return True

    def find(self, va: int) -> Copy | None:
        """The copy that an address is in."""
        inside = (copy for copy in list(self.copies) if 0 <= va - copy.gpu_va < self.nbytes)
        return next(inside, None)

    def close(self) -> None:
        """Give the memory back once it is done. A replay of another thread ends first."""
        with self.lock:
            self._give_up()

    def _give_up(self) -> None:
        self._closed = True
        copies, self.copies = self.copies, []
        for copy in copies:
            copy.given, copy.packets = [], None  # no replay matches its words any more
            copy.view, copy.words = memoryview(b""), {}
            self._device.give_back(copy.bo)

    def __del__(self) -> None:
        if getattr(self, "copies", None):
            self._give_up()  # no lock: a finaliser runs inside any, and nobody replays


def lines(nbytes: int) -> int:
    """Bytes in whole lines."""
    return -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES
