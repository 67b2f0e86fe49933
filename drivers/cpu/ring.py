"""Rings: packets run in the calling thread up to a WAIT, and from there on in an engine thread."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import TIMEOUT_MAX, Condition, Lock, Thread
from typing import Final

from drivers.base.contracts import Buffer, Region
from drivers.base.errors import DeviceError, DeviceFault, Hang, UseAfterFree
from drivers.cpu.signal import CpuSignal
from drivers.cpu.threads import start_thread
from queues import cpu_packets as packets

RING_BYTES: Final = 64 << 10
JOIN_S: Final = 10.0
_SLICE_S: Final = 0.05


@dataclass(slots=True)
class Parked:
    """Packets that wait, in memory of their own; `at` is the first word not done yet."""

    memory: Buffer
    words: memoryview
    signals: dict[int, CpuSignal]
    at: int = 0


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
        """Grows each time `lock` is taken to run something, before what that names is looked at."""
        self._stopping = False
        self.after_fork()

    def after_fork(self) -> None:
        """A child has no engine thread, and must not wait for work of its parent."""
        self.lock = Lock()
        self._changed = Condition(self.lock)
        self._engine: Thread | None = None
        self.pending.clear()

    def running(self, turn: int) -> bool:
        """Whether what some thread ran at `turn` may not have returned yet."""
        return self.turn == turn and self.lock.locked()

    def submit(self, words: Sequence[int], keep: Sequence[object]) -> None:
        """With `lock` held: run the packets now, or line them up."""
        packed = array("Q", words)
        if self.pending:
            self._park(memoryview(packed), keep)
        elif len(packed) <= len(self.words):
            view = self.words[: len(packed)]
            view[:] = packed
            self.doorbell(view, self.va, keep)
        else:
            memory = self._alloc(len(packed) * packets.WORD_BYTES)
            view = memory.view().cast("Q")
            view[:] = packed
            self.doorbell(view, memory.gpu_va, keep)

    def doorbell(self, words: memoryview, words_va: int, keep: Sequence[object]) -> None:
        """With `lock` held: run packets in device memory; what has to wait is copied first."""
        count = len(words)
        done = 0
        if not self.pending:
            done = self.run(self.state_va, words_va, count)
            if done == count:
                return
        self._park(words[done:], keep)

    def _park(self, words: memoryview, keep: Sequence[object]) -> None:
        if self._stopping:
            raise UseAfterFree(f"{self.name} is closed", hint="open the device again")
        self._raise_fault()
        self._start_engine()
        memory = self._alloc(words.nbytes)
        view = memory.view()[: words.nbytes].cast("Q")
        view[:] = words
        signals = {thing.va: thing for thing in keep if isinstance(thing, CpuSignal)}
        self.pending.append(Parked(memory, view, signals))
        self._changed.notify_all()

    def _start_engine(self) -> None:
        if self._engine is None:
            engine = Thread(target=self._serve, name=f"unbound {self.name}", daemon=True)
            start_thread(engine)
            self._engine = engine

    def _serve(self) -> None:
        """The engine thread: parked lists one after the other, until the ring closes."""
        for parked in iter(self._next, None):
            try:
                self._finish(parked)
            except DeviceError as error:
                self.fault = error
            with self.lock:
                if self.pending and self.pending[0] is parked:
                    self.pending.popleft()
                    parked.memory.free()
                if self.fault is not None:
                    self.pending.clear()
                self._changed.notify_all()

    def _next(self) -> Parked | None:
        with self.lock:
            self._changed.wait_for(lambda: self._stopping or self.pending)
            return None if self._stopping else self.pending[0]

    def _finish(self, parked: Parked) -> None:
        """Run one list to its end; it may wait as long as its signals take."""
        base_va, count = parked.memory.gpu_va, len(parked.words)
        while parked.at < count and not self._stopping:
            va = base_va + parked.at * packets.WORD_BYTES
            parked.at += self.run(self.state_va, va, count - parked.at)
            if parked.at == count:
                return
            packet = next(packets.decode(parked.words, parked.at))
            if packet.name != "WAIT":
                raise DeviceFault(
                    f"{self.name}: the command processor stopped at {packet}", kind="packet"
                )
            signal = parked.signals[packet.fields["signal"]]
            signal.sleep(packet.fields["value"], _SLICE_S)

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
            drained = self._changed.wait_for(lambda: not self.pending, longest_s)
            if drained:
                self._raise_fault()
                yield
        if not drained:
            raise self.hang(timeout_s)

    def _raise_fault(self) -> None:
        """Tell what went wrong in the background, once."""
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def hang(self, timeout_s: float) -> Hang:
        """The error that says what this ring waits for."""
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
            self._changed.notify_all()
        finally:
            self.lock.release()
        engine = self._engine
        if engine is not None:
            engine.join(JOIN_S)
            if engine.is_alive():
                raise self.hang(JOIN_S)
        self._engine = None
        self.pending.clear()

    def close(self) -> None:
        """After `stop`: give the ring's memory back."""
        self.words = memoryview(bytearray(packets.WORD_BYTES)).cast("Q")
        self._region.close()
