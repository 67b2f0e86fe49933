"""What rings of all kinds share: a hardware queue, its write position, and its progress.

A ring counts what it gives the hardware (`put`) and the hardware writes back how much of that is
done (`done`), both in units of the ring. Nothing is overwritten before it is done.

`lock` excludes other threads. A signal handler that launches interrupts at the start of a
function or after a call (# src: CPython ceval.c, CHECK_EVAL_BREAKER). So code that writes packets
checks before each store that `put` has not changed, and retries where a handler changed it. It
moves `put` and rings the doorbell without a call in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from drivers.base.errors import DeviceError, Hang, UseAfterFree
from drivers.base.undo import Step, run_all
from drivers.gpu.iface import HardwareQueue
from queues.decode import decoder, dump, words_of

SPIN_S: Final = 200e-6
"""Time for which a wait polls memory before it sleeps.

# src: ROCR interrupt_signal.cpp InterruptSignal::WaitRelaxed(), kMaxElapsed = 200 us
"""
MOST_SPINS: Final = 100_000
"""Most polls in that time."""
FIRST_SLEEP_MS: Final = 1
"""The kernel makes 8 ms of it where nothing interrupts: two ticks at HZ 250.

# src: kfd_events.c user_timeout_to_jiffies(): msecs_to_jiffies(ms) + 1
"""
LONGEST_SLEEP_MS: Final = 50
SLACK_BYTES: Final = 64
"""Of a ring that are never filled: so full differs from empty."""
DUMP_BYTES: Final = 1024
DUMP_LINES: Final = 48
_POINTER_BYTES: Final = 8

Sleep: TypeAlias = Callable[[int], None]
"""Sleeps until a queue interrupts, at most so many milliseconds; raises the device's fault."""


class Waited(Enum):
    """How a wait ended."""

    DONE = "what was waited for is there"
    LATE = "the caller's time is over"
    STUCK = "nothing moved for as long as the device allows"


@dataclass(frozen=True, slots=True)
class RingParts:
    """What a device gives to its ring."""

    name: str
    arch: str
    clock: Callable[[], float]
    sleep: Sleep
    progress: Callable[[], memoryview]
    """Eight bytes to which the hardware writes its progress, at `progress_va` for the GPU.

    Only a ring holds a view: one in the traceback of an opening that failed would keep the memory.
    """
    progress_va: int
    lock: AbstractContextManager[object]
    """Also of the ring that replaces this one."""
    hang_s: float
    """How long a queue without progress is waited for; infinite for no limit."""
    wait: Callable[[tuple[Ring], Callable[[], bool]], Waited]
    """Waits for a ring for as long as queues progress."""
    foreign: bool = False
    """Whether others than the device's queues write its memory."""
    spin_s: float = SPIN_S
    """How long waits poll memory before they sleep; 0 where memory has to be fetched."""


class Ring(ABC):
    """One queue of the device. Everything is used with `lock` held."""

    decode_as = ""
    """The format of its packets, as `queues.decode` names it."""
    unit_bytes = 1
    """Bytes of ring that one step of `put` is."""

    def __init__(self, parts: RingParts, hw: HardwareQueue) -> None:
        self.name, self.arch, self.hw, self.clock = parts.name, parts.arch, hw, parts.clock
        self.progress_va, self.sleep = parts.progress_va, parts.sleep
        self.lock, self.hang_s, self._wait = parts.lock, parts.hang_s, parts.wait
        self.spin_s = parts.spin_s
        self.broken: DeviceError | None = None
        """Why the hardware stopped here; work is refused until the device replaced the ring."""
        self.gone = False
        """Whether the hardware queue was destroyed."""
        self.afterwards: tuple[Step, ...] = ()
        """What frees memory of the ring's own, once the hardware queue is gone."""
        self.limit = 0
        """How far packets may be written without reading `done`."""
        self.put = 0
        self.asked = 0
        """Position of the last requested interrupt."""
        self._interrupts: deque[int] = deque()
        """Positions of interrupts that may not have come yet."""
        self.ring_bytes = hw.ring_view.nbytes
        self.bytes = hw.ring_view
        self.ring_va = hw.ring.gpu_va
        self.write_pointer, self.ring_doorbell = hw.write_pointer, hw.doorbell

    @property
    @abstractmethod
    def done(self) -> int:
        """How much of `put` the hardware has finished."""

    @property
    def size(self) -> int:
        """Units of the whole ring."""
        return self.ring_bytes // self.unit_bytes

    @property
    def idle(self) -> bool:
        """Whether everything is finished."""
        return self.done >= self.put

    def steps(self) -> object:
        """Changes whenever the hardware progresses: finer than `done` within a graph."""
        return self.done

    def wait_done(self, mark: int, timeout_s: float) -> Waited:
        """Wait until `mark` is done. Raises: the device's fault."""
        return self.wait_for(lambda: self.done >= mark, timeout_s, mark=mark)

    def wait_for(
        self,
        reached: Callable[[], bool],
        timeout_s: float,
        steps: Callable[[], object] | None = None,
        mark: int = 0,
    ) -> Waited:
        """Wait until `reached()`, until `timeout_s` are over, or `steps` stays the same too long.

        Every step restarts the ring's time. It sleeps only after a request for an interrupt at
        `mark`; 0 where the request is in the ring already. Raises: the device's fault.
        """
        if self.spin(reached, min(self.spin_s, timeout_s)):
            return Waited.DONE
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        self.settle(mark or self.put)
        self.ask(mark)
        steps = steps or self.steps
        before, now_s, sleep_ms = steps(), self.clock(), FIRST_SLEEP_MS
        deadline_s, stuck_s = now_s + timeout_s, now_s + self.hang_s
        while (left_s := min(deadline_s, stuck_s) - self.clock()) > 0:
            self.sleep(max(1, int(min(sleep_ms, left_s * 1000))))
            if reached():
                return Waited.DONE
            if self.broken is not None:
                raise self.broken.with_traceback(None)
            if (after := steps()) != before:
                before, stuck_s = after, self.clock() + self.hang_s
            sleep_ms = min(2 * sleep_ms, LONGEST_SLEEP_MS)
        self.sleep(0)
        if reached():
            return Waited.DONE
        return Waited.LATE if deadline_s <= stuck_s else Waited.STUCK

    def spin(self, reached: Callable[[], bool], longest_s: float) -> bool:
        """Whether `reached()` in that time."""
        if reached():
            return True
        clock = self.clock
        until_s = clock() + longest_s
        for _ in range(MOST_SPINS):
            if reached():
                return True
            if clock() >= until_s:
                break
        return False

    def settle(self, mark: int) -> bool:
        """Give the hardware what an interrupted call has left of the work up to `mark`.

        False where one store gives it: nothing is left. Raises: Busy in a signal handler in the
        middle of such a call. See `drivers/base/turns.py`.
        """
        return False

    def ask(self, mark: int) -> None:
        """Request an interrupt once `mark` is done, unless one is requested or `mark` is done."""
        if mark <= self.asked or self.done >= mark:
            return
        with self.lock:
            if mark > self.asked and self.broken is None:
                self.flush()
                self.asks(self.put)

    def asks(self, mark: int) -> None:
        """Note that packets which interrupt were written, up to `mark`."""
        interrupts, done = self._interrupts, self.done
        while interrupts and interrupts[0] <= done:
            interrupts.popleft()
        if mark > self.asked:
            self.asked = mark
            interrupts.append(mark)

    def wait_free(self, mark: int) -> None:
        """Return once `mark` is done, so that the ring has room. Nothing is destroyed.

        It sleeps until the next interrupt after that. Raises: Hang when that does not come; the
        device's fault.
        """
        if self.done >= mark:
            return
        mark = next((one for one in list(self._interrupts) if one >= mark), mark)
        if self._wait((self,), lambda: self.done >= mark) is not Waited.DONE:
            dump = self.dump()
            raise Hang(
                f"{self.name} is full and made no progress for {self.hang_s:g} s; it waits at\n"
                f"{dump}\n",
                queue=self.name,
                dump=dump,
                hint="signal what it waits for, or synchronize() to recover",
            )

    def due(self, put: int, half: int) -> tuple[bool, int]:
        """Whether to request an interrupt at `put` now, and the position of the next check.

        A thread that waits for room later is to wake once `half` of the ring is free. While the
        hardware keeps up no thread waits; if it stops, it finds the next check's request.
        """
        ahead = put - min(self.done, put)
        behind = ahead > half // 2
        return behind, put + half - (0 if behind else ahead)

    @abstractmethod
    def flush(self) -> int:
        """Interrupt once everything before is done; the position to wait for."""

    @property
    def where(self) -> int:
        """Byte of the ring up to which the hardware is done."""
        return self.done * self.unit_bytes % self.ring_bytes

    def pending_bytes(self) -> bytes:
        """Bytes that the hardware has not finished, at most DUMP_BYTES of them."""
        first, last = self.done * self.unit_bytes, self.put * self.unit_bytes
        count = min(last - first, DUMP_BYTES)
        at = first % self.ring_bytes
        data = bytes(self.bytes[at : at + count])
        return data + bytes(self.bytes[: count - len(data)])

    def packets_at(self, va: int, nbytes: int) -> bytes:
        """Packets that one of the ring's packets jumps to, where the ring has them; or b""."""
        return b""

    def dump(self) -> str:
        """The first unfinished packets, decoded."""
        words = words_of(self.pending_bytes())
        return dump(decoder(self.decode_as, self.arch), words, limit=DUMP_LINES)

    def stop(self, error: DeviceError) -> None:
        """Refuse all work from now on, with this error."""
        self.broken, self.limit = error, -1

    def close(self) -> None:
        """Destroy the hardware queue and free its memory.

        A launch that a signal handler interrupted to close the ring writes to unused memory, and is
        refused at the doorbell.
        """
        closed = UseAfterFree(f"{self.name} is closed", hint="open it again")
        self.stop(closed if self.broken is None else without_frames(self.broken))
        self.bytes = memoryview(bytearray(self.ring_bytes))
        self.write_pointer = memoryview(bytearray(_POINTER_BYTES)).cast("Q")
        self.ring_doorbell = self._refuse
        self._let_go()
        self.gone = True
        run_all([self.hw.close, *self.afterwards])

    def _refuse(self, value: int) -> None:
        """The doorbell of a closed ring."""
        if self.broken is not None:
            raise self.broken.with_traceback(None)

    @abstractmethod
    def _let_go(self) -> None:
        """Drop views of the hardware queue's memory."""


class ComputeRing(Ring):
    """The queue of kernels, with what its caches may not have seen."""

    def __init__(self, parts: RingParts, hw: HardwareQueue) -> None:
        super().__init__(parts, hw)
        self.stale: object = True
        """Whether memory was written past its caches since their last acquire."""
        self.foreign = parts.foreign
        """Whether others may write memory at any time: every work then acquires first."""
        self.clean = -1
        """`put` when everything before was last flushed."""

    def refresh(self) -> None:
        """With its lock held: invalidate its caches after writes that bypassed them."""
        mark = self.stale = object()
        self.acquire()
        if self.stale is mark:  # a signal handler may have written since
            self.stale = self.foreign

    @abstractmethod
    def acquire(self) -> None:
        """Packets that invalidate its caches, for all later work."""


class CopyRing(Ring):
    """A queue of a copy engine."""

    @abstractmethod
    def copy(self, *, dst: int, src: int, nbytes: int) -> None:
        """Copy between GPU addresses, then write the progress and interrupt."""


def without_frames(error: DeviceError) -> DeviceError:
    """The same error for later callers: the one that is raised now keeps its caller's frames.

    Marks of freed memory keep a closed ring, and those frames hold programs and buffers.
    """
    kind = type(error)
    made = kind.__new__(kind, *error.args)
    made.__dict__.update(error.__dict__)
    made.__cause__ = error.__cause__
    return made
