"""When packets are submitted: in order, and not before what they wait for is on its way.

The GPU has one command processor. Where its kernel driver gives all contexts one ring buffer, work
runs in the order of submission: a wait for something submitted later would never end, and counts as
a hang after half a second or two. So a block that waits for a signal is held until that value is
there, or is signalled by a submission before it. The command processor then waits for it.

What lets a held block go is another submission, or the host that sets a signal: no thread. A block
that a signal handler adds in the middle of a submission goes out behind it: `drivers/base/turns.py`
has the rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

from drivers.base.errors import DeviceError
from drivers.base.turns import Turns, interrupted
from drivers.gpu.iface import Memory
from queues.qcom.words import Sync

SignalAt: TypeAlias = Callable[[int], "int | None"]
_MOST_ROUNDS: Final = 1 << 16


Played: TypeAlias = tuple[Memory, int, int]
"""Packets of a graph: (memory, address, bytes)."""
Block: TypeAlias = tuple[int, int, int, int, Sequence[Sync], "Played | None"]
"""Packets in a ring: (position after them, position that they were written at, address, bytes,
signals, what is played in front of them)."""


class Taker(Protocol):
    """Who gives blocks to the kernel driver."""

    def submit(self, va: int, nbytes: int) -> None:
        """One ioctl. Raises: what the kernel driver refuses."""

    def submit_with(self, memory: Memory, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        """Packets in other memory, then `tail` bytes. Raises: what the kernel driver refuses."""

    def taken(self) -> bool:
        """Whether the kernel driver has the block whose ioctl was ended by a handler."""


class Lane:
    """The blocks of one queue, in order.

    The ring submits the usual one itself: with its lock, where `held` is empty and `direct` is
    None, it sets `direct` meanwhile. Others it adds by `held += (block,)`, then `let_go`. Either
    stands without a call behind what counts the block.
    """

    def __init__(self, gate: Gate, taker: Taker, refused: Callable[[Block], object]) -> None:
        """`refused`: what takes back a block that the kernel driver does not run."""
        self._gate, self._taker, self._refused = gate, taker, refused
        self.held: deque[Block] = deque()
        """Those that the kernel driver does not have."""
        self.direct: Block | None = None
        """The one that the ring submits now: all others wait."""
        self.given = 0
        """Mark of the last one that it has."""
        gate.lanes = (*gate.lanes, self)

    def settle(self, mark: int, lock: AbstractContextManager[object]) -> bool:
        """Submit what an interrupted call has left; whether there was something.

        `lock` is the ring's. Raises: Busy in the middle of such a call, where a handler waits for a
        block of it.
        """
        held, direct = self.held, self.direct
        if direct is not None and direct[0] <= mark:
            with lock:  # where it is another thread's, that has finished now
                if self.direct is direct:
                    raise interrupted("a wait")
        if not held or held[0][0] > mark:
            return False
        gate = self._gate
        gate.let_go()
        if held and held[0][0] <= mark:
            gate.turns.refuse("a wait")
        return True

    def failed(self, block: Block, error: BaseException) -> bool:
        """The ring's own submission ended by this; False where a handler has closed the queue."""
        if self.direct is not block:
            return False
        if isinstance(error, DeviceError):
            self._refused(block)
        elif self._taker.taken():
            self.given = block[0]
        else:
            self.held.appendleft(block)  # it goes out with the next call
        self.direct = None
        return True

    def first(self) -> bool:
        """Submit the first block, if it may go. Raises: what the kernel driver refuses."""
        held, gate = self.held, self._gate
        if self.direct is not None:
            return False
        block = held[0]
        mark, _, va, nbytes, syncs, played = block
        if syncs and not gate.may_go(syncs):
            return False
        try:
            if played is None:
                self._taker.submit(va, nbytes)
            else:
                self._taker.submit_with(*played, va, nbytes)
        except DeviceError:
            if not self._over(block):  # a handler closed the queue in the middle of it
                return True
            self._refused(block)
            raise
        except BaseException:
            if self._taker.taken():
                self.given = mark
                self._over(block)
            raise
        self.given = mark
        if held and held[0] is block:  # no handler can run from here to the next line
            held.popleft()
        if syncs:
            gate.promise(syncs)
        return True

    def _over(self, block: Block) -> bool:
        """Whether it was still held."""
        held = self.held
        if held and held[0] is block:
            held.popleft()
            return True
        return False

    def close(self) -> None:
        """Forget what is held."""
        gate = self._gate
        with gate.turns.lock:
            self.held.clear()
            self.direct = None
            gate.lanes = tuple(one for one in gate.lanes if one is not self)


class Gate:
    """Of one device. `signal_at` reads a signal's value."""

    def __init__(self, signal_at: SignalAt) -> None:
        self._signal_at = signal_at
        self._promised: dict[int, int] = {}
        """Address of a signal -> the highest value that submitted work will give it."""
        self.lanes: tuple[Lane, ...] = ()
        self.turns = Turns(self._submit)
        self.let_go = self.turns.run
        """Submit what need not be held any more. Raises: what the kernel driver refuses."""

    def may_go(self, syncs: Sequence[Sync]) -> bool:
        """Whether everything that these wait for is there or on its way."""
        own: dict[int, int] = {}
        for sync in syncs:
            if sync.signals:
                own[sync.va] = sync.value
                continue
            coming = max(own.get(sync.va, 0), self._promised.get(sync.va, 0))
            if coming < sync.value and (self._signal_at(sync.va) or 0) < sync.value:
                return False
        return True

    def promise(self, syncs: Sequence[Sync]) -> None:
        """These were submitted."""
        promised = self._promised
        for sync in syncs:
            if sync.signals:
                promised[sync.va] = max(promised.get(sync.va, 0), sync.value)

    def forget(self, va: int) -> None:
        """Another signal is at this address now."""
        self._promised.pop(va, None)

    def _submit(self) -> None:
        """A block of each queue in turn, as long as one may go."""
        for _ in range(_MOST_ROUNDS):
            gone = False
            for lane in self.lanes:
                if lane.held and lane.first():
                    gone = True
            if not gone:
                break
