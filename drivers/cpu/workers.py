"""The block shared with the command processor, per-worker scratch memory, and worker threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Final, Self

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, Hang
from drivers.base.undo import Undo, run_all
from drivers.cpu.futex import Futex
from drivers.cpu.threads import start_thread
from queues.cpu import state

SPINS: Final = 400
"""Polls for the next kernel before a worker sleeps: some 20 us on current processors."""
MIN_SCRATCH_BYTES: Final = 4096
MAX_THREADS: Final = 1024
JOIN_S: Final = 10.0
_CALL_AGAIN_S: Final = 0.1
_PAGE_BYTES: Final = 4096


class Workers:
    """Worker 0 is the submitting thread; the others run inside the command processor.

    They are daemon threads and hold no lock while idle: a device that is never closed does not
    keep the interpreter from exiting.
    """

    def __init__(
        self, world: World, futex: Futex, region: Region, scratch: Region, wanted: int
    ) -> None:
        self._world, self.futex, self.region = world, futex, region
        self.wanted = wanted
        """Threads asked for; they start with the first program."""
        self._started = False
        self._run: Callable[[int, int, int], int] | None = None
        self._threads: list[Thread] = []
        self._words, self._halves = region.view().cast("Q"), region.view().cast("I")
        self._scratch, self._stride_bytes = scratch, scratch.nbytes
        self._write_state(1)

    @classmethod
    def open(cls, world: World, arch: str, wanted: int) -> Self:
        """The shared block and one worker's scratch memory. Raises: OutOfMemory, NotFound."""
        with Undo() as undo:
            region = world.mmap(-1, state.STATE_BYTES)
            undo.add(region.close)
            futex = Futex(world, arch, region, state.TIMESPECS)
            scratch = world.mmap(-1, MIN_SCRATCH_BYTES)
        return cls(world, futex, region, scratch, wanted)

    def _write(self, off: int, value: int) -> None:
        """A word of the shared block: plain memory, so that signalling workers cannot fail."""
        self._words[off // self._words.itemsize] = value

    def _write_half(self, off: int, value: int) -> None:
        self._halves[off // self._halves.itemsize] = value

    def _write_state(self, threads: int) -> None:
        self._write(state.SCRATCH_BASE, self._scratch.cpu_va)
        self._write(state.SCRATCH_STRIDE, self._stride_bytes)
        self._write(state.SPINS, SPINS)
        self._write(state.THREADS, threads)

    def use_firmware(self, run: Callable[[int, int, int], int]) -> None:
        """Workers can only live in the native command processor."""
        self._run = run

    @property
    def running(self) -> int:
        """Threads that take part in a kernel now, the submitting one included."""
        return 1 + len(self._threads)

    def ready_for(self, scratch_bytes: int) -> bool:
        """Whether a program with that much scratch can run without a change."""
        return self._started and scratch_bytes <= self._stride_bytes

    def prepare(self, scratch_bytes: int) -> None:
        """While idle: threads and scratch memory for a program."""
        if not self._started:
            self.start(self.wanted)
        self.reserve(scratch_bytes)

    def reserve(self, scratch_bytes: int) -> None:
        """While idle: scratch blocks of at least that size. Raises: OutOfMemory."""
        needed = -(-scratch_bytes // _PAGE_BYTES) * _PAGE_BYTES
        stride = max(self._stride_bytes, needed)
        total = stride * max(self.wanted, self.running)
        if stride == self._stride_bytes and total <= self._scratch.nbytes:
            return
        if total > self._scratch.nbytes:
            outgrown, self._scratch = self._scratch, self._world.mmap(-1, total)
        else:
            outgrown = None
        self._stride_bytes = stride
        self._write_state(self.running)
        if outgrown is not None:
            outgrown.close()

    def start(self, count: int) -> None:
        """While idle: `count` threads in all.

        Raises: BadArgument; Hang when one does not stop; DeviceError when one does not start.
        """
        if type(count) is not int or not 1 <= count <= MAX_THREADS:
            raise BadArgument(f"{count!r} is not a number of threads", hint=f"1 ... {MAX_THREADS}")
        self.stop()
        self.wanted, self._started = count, False
        self.reserve(0)
        for index in range(1, count if self._run is not None else 1):
            name = f"unbound worker {index}"
            args = self.region.cpu_va, 0, index
            thread = Thread(target=self._run, args=args, name=name, daemon=True)
            start_thread(thread)
            self._threads.append(thread)
        self._started = True
        self._write_state(self.running)

    def stop(self, timeout_s: float = JOIN_S) -> None:
        """Set STOP, then join every worker. Raises: Hang when one does not return."""
        self._write(state.THREADS, 1)
        if not self._threads:
            return
        self._write(state.STOP, 1)
        deadline_s = self._world.monotonic_s() + timeout_s
        for thread in self._threads:
            self._call()
            while thread.is_alive() and self._world.monotonic_s() < deadline_s:
                thread.join(_CALL_AGAIN_S)
                self._call()
            if thread.is_alive():
                raise Hang(f"{thread.name} does not return", queue="compute")
        self._threads = []
        self._write(state.STOP, 0)

    def _call(self) -> None:
        """Wake every worker to read STOP.

        These are plain stores: a processor with weak ordering may show a worker the generation
        before STOP, and it sleeps again. So the caller repeats this.
        """
        generation = self._halves[state.GENERATION // self._halves.itemsize]
        self._write_half(state.GENERATION, (generation + 1) & 0xFFFFFFFF)
        self.futex.wake(self.region.cpu_va + state.GENERATION)

    def after_fork(self) -> None:
        """A child has no workers: it computes on one thread until start() is called."""
        self._threads = []
        for off in (state.OPEN, state.STOP, state.SUBMITTER_SLEEPS, state.SLEEPERS):
            self._write(off, 0)
        self._write_half(state.ACTIVE, 0)
        self._write(state.THREADS, 1)

    def close(self) -> None:
        """After `stop`: give the memory back."""
        nothing = memoryview(bytearray(state.STATE_BYTES))
        self._words, self._halves = nothing.cast("Q"), nothing.cast("I")
        run_all([self._scratch.close, self.region.close])
