"""The block shared with the command processor, per-worker scratch memory, and worker threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Final

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, Hang
from drivers.cpu.futex import Futex
from queues import cpu_state as state

SPINS: Final = 400
"""Looks for the next kernel before a worker sleeps: some 20 us on current processors."""
MIN_SCRATCH_BYTES: Final = 4096
MAX_THREADS: Final = 1024
JOIN_S: Final = 10.0
_PAGE_BYTES: Final = 4096


class Workers:
    """Worker 0 is whoever submits; the others are threads inside the command processor.

    They are daemon threads and hold no lock while idle: a device that is never closed does not
    keep the interpreter from exiting.
    """

    def __init__(self, world: World, arch: str) -> None:
        self._world = world
        self.region = world.mmap(-1, state.STATE_BYTES)
        self.futex = Futex(world, arch, self.region, state.TIMESPECS)
        self.wanted = 1
        """Threads asked for; they start with the first program."""
        self._started = False
        self._run: Callable[[int, int, int], int] | None = None
        self._threads: list[Thread] = []
        self._scratch: Region = world.mmap(-1, MIN_SCRATCH_BYTES)
        self._stride_bytes = MIN_SCRATCH_BYTES
        self._write_state(1)

    def _write_state(self, threads: int) -> None:
        region = self.region
        region.write64(state.SCRATCH_BASE, self._scratch.cpu_va)
        region.write64(state.SCRATCH_STRIDE, self._stride_bytes)
        region.write64(state.SPINS, SPINS)
        region.write64(state.THREADS, threads)

    def use_firmware(self, run: Callable[[int, int, int], int]) -> None:
        """Workers can only live in the native command processor."""
        self._run = run

    @property
    def running(self) -> int:
        """Threads that take part in a kernel now, the submitting one included."""
        return 1 + len(self._threads)

    def ready_for(self, scratch_bytes: int) -> bool:
        """Whether a program with that need can run as things are."""
        return self._started and scratch_bytes <= self._stride_bytes

    def prepare(self, scratch_bytes: int) -> None:
        """With nothing running: threads and scratch memory for a program."""
        if not self._started:
            self.start(self.wanted)
        self.reserve(scratch_bytes)

    def reserve(self, scratch_bytes: int) -> None:
        """With nothing running: scratch blocks of at least that size. Raises: OutOfMemory."""
        needed = -(-scratch_bytes // _PAGE_BYTES) * _PAGE_BYTES
        stride = max(self._stride_bytes, needed)
        total = stride * max(self.wanted, self.running)
        if stride == self._stride_bytes and total <= self._scratch.nbytes:
            return
        if total > self._scratch.nbytes:
            grown = self._world.mmap(-1, total)
            self._scratch.close()
            self._scratch = grown
        self._stride_bytes = stride
        self._write_state(self.running)

    def start(self, count: int) -> None:
        """With nothing running: `count` threads in all. Raises: BadArgument, Hang."""
        if type(count) is not int or not 1 <= count <= MAX_THREADS:
            raise BadArgument(f"{count!r} is no number of threads", hint=f"1 ... {MAX_THREADS}")
        self.stop()
        self.wanted, self._started = count, True
        self.reserve(0)
        if self._run is not None and count > 1:
            self._threads = [
                Thread(
                    target=self._run,
                    args=(self.region.cpu_va, 0, index),
                    name=f"unbound worker {index}",
                    daemon=True,
                )
                for index in range(1, count)
            ]
            for thread in self._threads:
                thread.start()
        self._write_state(self.running)

    def stop(self) -> None:
        """Tell every worker to return and join it. Raises: Hang when one does not."""
        threads, self._threads = self._threads, []
        region = self.region
        region.write64(state.THREADS, 1)
        if not threads:
            return
        region.write64(state.STOP, 1)
        region.write32(state.GENERATION, (region.read32(state.GENERATION) + 1) & 0xFFFFFFFF)
        self.futex.wake(region.cpu_va + state.GENERATION)
        for thread in threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                raise Hang(f"{thread.name} does not return", queue="compute")
        region.write64(state.STOP, 0)

    def after_fork(self) -> None:
        """A child has no workers: it computes on one thread until start() is called."""
        self._threads = []
        region = self.region
        for off in (state.OPEN, state.STOP, state.SUBMITTER_SLEEPS, state.SLEEPERS):
            region.write64(off, 0)
        region.write32(state.ACTIVE, 0)
        region.write64(state.THREADS, 1)

    def close(self) -> None:
        """After `stop`: give the memory back."""
        self._scratch.close()
        self.region.close()
