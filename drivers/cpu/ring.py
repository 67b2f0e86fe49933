"""Rings: packets run in the calling thread up to a WAIT or to a kernel that takes long, then in an
engine thread. The caller waits for a long kernel, and Python signals are handled meanwhile.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import TIMEOUT_MAX, Condition, RLock, Thread
from typing import Final

from drivers.base.contracts import Buffer, Region
from drivers.base.errors import DeviceError, DeviceFault, Hang, UseAfterFree
from drivers.cpu.signal import CpuSignal
from drivers.cpu.threads import start_thread
from queues.cpu import packets
from queues.cpu.contracts import Follow

RING_BYTES: Final = 64 << 10
JOIN_S: Final = 10.0
_SLICE_S: Final = 0.05


@dataclass(eq=False, slots=True)
class Parked:
    """Packets that wait, in their own memory; `at` is the first word not done yet."""

    memory: Buffer
    words: memoryview
    signals: dict[int, CpuSignal]
    at: int = 0
    running: bool = False
    """Whether the command processor runs it now."""
    dropped: bool = False
    """Whether the rest of it is cancelled."""
    waits: bool = True
    """Whether it waits for a signal, or for work that does: its caller does not wait."""
    left: bool = False
    """Whether the engine has finished it."""
    fault: DeviceError | None = None
    """Why it was not done."""

    @property
    def held(self) -> bool:
        """Whether a kernel that takes long is next."""
        words, at = self.words, self.at
        return bool(
            words[at] & packets.OPCODE_MASK == packets.EXEC
            and words[at + packets.EXEC_CHUNK_WORD] & packets.HOLD
        )

    def allow(self) -> bool:
        """With the ring's lock: let the next packet begin; False where it was dropped."""
        if self.held and not self.dropped:
            self.words[self.at + packets.EXEC_CHUNK_WORD] &= ~packets.HOLD
        return not self.dropped

    def drop(self) -> None:
        """With the ring's lock: cancel it; no packet begins, and a kernel that polls returns."""
        self.dropped, at = True, self.at
        if at < len(self.words) and self.words[at] & packets.OPCODE_MASK == packets.EXEC:
            self.words[at + packets.EXEC_CHUNK_WORD] |= packets.HOLD


class CpuRing:
    """One ordered queue of the device: "compute" or "copy"."""

    def __init__(
        self,
        name: str,
        run: Callable[[int, int, int], int],
        state_va: int,
        region: Region,
        alloc: Callable[[int], Buffer],
        can_exec: bool,
    ) -> None:
        self.name, self.can_exec, self.run = name, can_exec, run
        self.state_va, self.va = state_va, region.cpu_va
        self.words = region.view().cast("Q")
        self._region, self._alloc = region, alloc
        self.pending: deque[Parked] = deque()
        self.fault: DeviceError | None = None
        self.turn = 0
        """Grows with each run that begins at `depth` 0, before its arguments are read."""
        self._stopping = False
        self.after_fork()

    def after_fork(self) -> None:
        """A child has no engine thread, and must not wait for work of its parent."""
        self.lock = RLock()
        self._changed = Condition(self.lock)
        self.depth = 0
        """Nested runs with `lock` held: two where a signal handler computes."""
        self._engine: Thread | None = None
        self.pending.clear()

    def running(self, turn: int) -> bool:
        """Whether the run of a thread at `turn` may not have returned yet."""
        return self.turn == turn and self.depth > 0

    def submit(self, words: Sequence[int], keep: Sequence[object]) -> Follow | None:
        """With `lock` held: run the packets now, or queue them."""
        packed = array("Q", words)
        if self.pending:
            return self.background(memoryview(packed), keep)
        if len(packed) <= len(self.words) and self.depth < 2:
            view = self.words[: len(packed)]
            view[:] = packed
            return self.doorbell(view, self.va, keep)
        memory = self._alloc(len(packed) * packets.WORD_BYTES)
        view = memory.view().cast("Q")
        view[:] = packed
        return self.doorbell(view, memory.gpu_va, keep)

    def doorbell(self, words: memoryview, words_va: int, keep: Sequence[object]) -> Follow | None:
        """With `lock` held: run packets in device memory; any that have to wait are copied."""
        count = len(words)
        if self.pending:
            return self.background(words, keep)
        done = self.run(self.state_va, words_va, count)
        if done == count:
            return None
        return self.background(words[done:], keep)

    def background(self, words: memoryview, keep: Sequence[object]) -> Follow | None:
        """With `lock` held: pass packets to the engine; how to wait, unless they wait, too."""
        parked = self._park(words, keep)
        return None if parked.waits else partial(self._follow, parked)

    def _follow(self, parked: Parked) -> None:
        """Without the lock: wait for work that takes long. Python signals are handled; what a
        handler raises drops the work: its kernel stops, and nothing after it is run.
        """
        try:
            with self.lock:
                self._changed.wait_for(lambda: parked.left or parked.waits)
        except BaseException:
            with self.lock:
                parked.drop()
            raise
        if parked.fault is not None:
            with self.lock:
                if self.fault is parked.fault:
                    self.fault = None
            raise parked.fault
        if parked.left and parked.at < len(parked.words):
            raise UseAfterFree(f"{self.name} was closed at work", hint="open the device again")

    def _park(self, words: memoryview, keep: Sequence[object]) -> Parked:
        if self._stopping:
            raise UseAfterFree(f"{self.name} is closed", hint="open the device again")
        self._raise_fault()
        self._start_engine()
        memory = self._alloc(words.nbytes)
        view = memory.view()[: words.nbytes].cast("Q")
        view[:] = words
        signals = {thing.va: thing for thing in keep if isinstance(thing, CpuSignal)}
        parked = Parked(memory, view, signals)
        parked.waits = self.pending[-1].waits if self.pending else not parked.held
        self.pending.append(parked)
        self._changed.notify_all()
        return parked

    def _start_engine(self) -> None:
        if self._engine is None:
            engine = Thread(target=self._serve, name=f"unbound {self.name}", daemon=True)
            start_thread(engine)
            self._engine = engine

    def _serve(self) -> None:
        """The engine thread: parked lists one after the other, until the ring closes.

        It outlives any error of a list: work that is parked later needs it.
        """
        for parked in iter(self._next, None):
            failed: BaseException | None = None
            try:
                self._finish(parked)
            except BaseException as error:
                failed = error
            with self.lock:
                self._retire(parked, failed)

    def _retire(self, parked: Parked, failed: BaseException | None) -> None:
        """With `lock` held: the first list is done, or has failed with all lists after it."""
        try:
            if self.pending and self.pending[0] is parked:
                self.pending.popleft()
                parked.memory.free()
        except BaseException as error:
            failed = failed or error
        parked.left = True
        if failed is not None:
            self.fault = parked.fault = self._reported(failed)
            self._forget()
        self._changed.notify_all()

    def _reported(self, failed: BaseException) -> DeviceError:
        """The error that callers get."""
        if isinstance(failed, DeviceError):
            return failed
        fault = DeviceFault(f"{self.name}: its thread met {failed!r}", kind="engine",
                            queue=self.name, hint="Submit again what was queued")  # fmt: skip
        fault.__cause__ = failed
        return fault

    def _forget(self) -> None:
        """With `lock` held: drop everything that waits; `fault`, if any, is the cause."""
        for parked in self.pending:
            parked.left = True
            if self.fault is not None:
                parked.fault = DeviceFault(
                    f"{self.name}: dropped, since work in front of it failed: {self.fault.message}",
                    kind="dropped", queue=self.name, hint="Submit it again",
                )  # fmt: skip
                parked.fault.__cause__ = self.fault
        self.pending.clear()

    def _next(self) -> Parked | None:
        with self.lock:
            self._changed.wait_for(lambda: self._stopping or self.pending)
            return None if self._stopping else self.pending[0]

    def _finish(self, parked: Parked) -> None:
        """Run one list to its end; it may wait as long as its signals take."""
        base_va, count = parked.memory.gpu_va, len(parked.words)
        while parked.at < count and not self._stopping:
            with self.lock:
                if not parked.allow():
                    return
                parked.running = True
            va = base_va + parked.at * packets.WORD_BYTES
            parked.at += self.run(self.state_va, va, count - parked.at)
            parked.running = False
            if parked.at == count:
                return
            if parked.held:
                continue
            packet = next(packets.decode(parked.words, parked.at))
            if packet.name != "WAIT":
                raise DeviceFault(
                    f"{self.name}: the command processor stopped at {packet}", kind="packet"
                )
            self._wait_behind()
            signal = parked.signals[packet.fields["signal"]]
            signal.sleep(packet.fields["value"], _SLICE_S)

    def _wait_behind(self) -> None:
        """The first list waits for a signal: release all callers that wait for parked work."""
        with self.lock:
            for parked in self.pending:
                parked.waits = True
            self._changed.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Return when nothing is parked. Raises: Hang with the dump, or the fault."""
        if self.pending:
            with self.quiet(timeout_s):
                return
        self._raise_fault()

    @contextmanager
    def quiet(self, timeout_s: float) -> Iterator[None]:
        """Hold `lock` while nothing is parked and nothing runs. Raises: Hang, or the fault."""
        longest_s = min(timeout_s, TIMEOUT_MAX)
        with self.lock:
            drained = self._drained(longest_s)
            if drained:
                self._raise_fault()
                yield
        if not drained:
            raise self.hang(timeout_s)

    def _drained(self, longest_s: float) -> bool:
        """With `lock` held: wait until nothing is parked; False after so long without progress.

        A finished packet is progress, and so is a running kernel, unless it was dropped and does
        not stop.
        """
        before = self._place()
        while not self._changed.wait_for(lambda: not self.pending, longest_s):
            first, now = self.pending[0], self._place()
            if first.dropped or (now == before and not first.running):
                return False
            before = now
        return True

    def _place(self) -> tuple[Parked, int] | None:
        """With `lock` held: the next list and word."""
        return (self.pending[0], self.pending[0].at) if self.pending else None

    def _raise_fault(self) -> None:
        """Raise a background fault, once."""
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def hang(self, timeout_s: float) -> Hang:
        """The error with what this ring waits for."""
        dump = self.dump()
        return Hang(
            f"{self.name} made no progress for {timeout_s:g} s; it waits at\n{dump}\n",
            queue=self.name,
            dump=dump,
            hint="Signal what it waits for, or submit the work that does",
        )

    def dump(self) -> str:
        """What is parked, decoded, the oldest first."""
        with self.lock:
            return "\n".join(packets.dump(p.words, p.at) for p in list(self.pending)[:4])

    def stop(self, closed: Callable[[int, int, int], int]) -> None:
        """End the engine; parked work is dropped, and `closed` answers every later doorbell.

        Raises: Hang when a kernel does not return.
        """
        if not self.lock.acquire(timeout=JOIN_S):
            raise Hang(f"{self.name}: a kernel does not return", queue=self.name)
        try:
            self.run = closed
            self._stopping = True
            for parked in self.pending:
                parked.drop()
            self._changed.notify_all()
        finally:
            self.lock.release()
        engine = self._engine
        if engine is not None:
            engine.join(JOIN_S)
            if engine.is_alive():
                raise self.hang(JOIN_S)
        self._engine = None
        with self.lock:
            self._forget()
            self._changed.notify_all()

    def close(self) -> None:
        """After `stop`: give the ring's memory back."""
        self.words = memoryview(bytearray(packets.WORD_BYTES)).cast("Q")
        self._region.close()
