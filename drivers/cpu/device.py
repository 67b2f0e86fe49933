"""The CPU as a device: packets in memory, a command processor that runs them, a doorbell."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes, wrapped_bytes
from drivers.base.contracts import Binary, Buffer, Grid, Program, Region, Signal, World
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    DeviceTimeout,
    MalformedInput,
    UseAfterFree,
)
from drivers.base.life import Life
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step, run_all
from drivers.cpu import arguments
from drivers.cpu.buffer import CpuBuffer
from drivers.cpu.features import Processor
from drivers.cpu.heap import Allocation, HostHeap
from drivers.cpu.program import MAX_SCRATCH_BYTES, QUICK_ARGS, CpuProgram
from drivers.cpu.ring import RING_BYTES, CpuRing
from drivers.cpu.signal import CpuSignal
from drivers.cpu.workers import Workers
from drivers.world import native
from queues.cpu import packets
from queues.cpu.queue import CpuCommands, CpuQueue

if TYPE_CHECKING:
    from drivers.cpu.owner import SignalValue

Run = Callable[[int, int, int], int]
"""(state address, packets' address, words) -> words done."""

DRAIN_S: Final = 10.0
"""How long loading a program or changing the threads waits for parked work."""
_HEADER_WORDS: Final = packets.EXEC_ARGS_WORD
_MAX_GRID: Final = packets.MAX_GRID
_PACKERS: Final = tuple(
    struct.Struct(f"={_HEADER_WORDS + nargs}Q").pack_into for nargs in range(QUICK_ARGS)
)
_HEADERS: Final = tuple(
    packets.exec_packet(entry=0, grid=0, args=[0] * nargs)[0] for nargs in range(QUICK_ARGS)
)


class CpuDevice:
    """One CPU device; `drivers.cpu.open_cpu` makes it.

    Kernels run in the thread that submits them, together with the worker threads. Only work that
    has to wait for a signal moves to an engine thread, and later work of the same ring is queued
    after it. After a fork the child computes on one thread until `set_threads`.
    """

    def __init__(
        self,
        name: str,
        world: World,
        processor: Processor,
        compilers: tuple[str, ...],
        workers: Workers,
        run: Run,
        rings: tuple[Region, Region],
        on_close: Step,
    ) -> None:
        self.name, self.world, self.compilers = name, world, compilers
        self.arch, self.limits = processor.arch, processor.limits
        self.life = Life(name)
        self.heap = HostHeap(self.life, world, self.limits.memory_bytes, self)
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        self.futex, self._workers, self._on_close = workers.futex, workers, on_close
        self.host_lock = RLock()
        """Held by a host thread that changes a signal or how it is used; for microseconds."""
        self._run, self._state_va = run, workers.region.cpu_va
        self._compute = self._ring("compute", rings[0], can_exec=True)
        self._copy = self._ring("copy", rings[1], can_exec=False)
        self._bytes = self._compute.words.cast("B")
        self._commands = CpuCommands(self, self._compute), CpuCommands(self, self._copy)
        self._programs: weakref.WeakSet[CpuProgram] = weakref.WeakSet()
        forks.inherit(self)

    def _ring(self, name: str, region: Region, *, can_exec: bool) -> CpuRing:
        label = f"{self.name} {name}"
        return CpuRing(label, self._run, self._state_va, region, self.alloc, can_exec)

    def __repr__(self) -> str:
        return f"CpuDevice({self.name}, {self.arch}, {self._workers.wanted} threads)"

    @property
    def idle(self) -> bool:
        """Whether no work is parked."""
        return not (self._compute.pending or self._copy.pending)

    def running(self) -> list[partial[bool]]:
        """For each ring that a thread runs work on now: whether that work may still be running."""
        rings = self._compute, self._copy
        return [partial(ring.running, ring.turn) for ring in rings if ring.depth]

    # Memory

    def alloc(self, nbytes: int) -> CpuBuffer:
        """Uninitialised memory. Raises: OutOfMemory with the sizes; BadArgument."""
        storage = self.heap.storage(checked_size(nbytes))
        return CpuBuffer(self, nbytes, storage.cpu_va, storage, False)

    def wrap(self, memory: memoryview) -> CpuBuffer:
        """Host memory as a buffer, without a copy; it is kept alive until the buffer is freed.

        Raises: BadArgument when it is not contiguous.
        """
        view = wrapped_bytes(memory)
        self.life.check()
        if not view.nbytes:
            return self.alloc(0)
        return CpuBuffer(self, view.nbytes, native.address_of(view), view, memory.readonly)

    def freed(self, held: Allocation) -> None:
        """Take back the memory of a buffer, signal or program without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        self.freed_mark = object()
        self.heap.freed(held)

    def released(self, held: Allocation) -> None:
        """Take back what was freed explicitly, which other threads may be using right now.

        The mark changes first: a thread that takes a ring's lock after that finds it freed.
        """
        self.freed_mark = object()
        self.heap.released(held)

    def trim(self) -> int:
        """Give cached memory back to the system; how many bytes."""
        return self.heap.trim()

    def memory_stats(self) -> MemoryStats:
        """What the allocator holds and did."""
        return self.heap.memory_stats()

    # Programs and threads

    def load(self, binary: Binary) -> CpuProgram:
        """Map machine code. Raises: Unsupported, MalformedInput, NotFound (a missing symbol)."""
        self.heap.take_back()
        self.life.check()
        launches.check_binary(binary, self.arch, self.limits)
        scratch_bytes = binary.resources.scratch_bytes
        if not 0 <= scratch_bytes <= MAX_SCRATCH_BYTES:
            raise MalformedInput(f"{binary.name}: {scratch_bytes} bytes of scratch for each thread")
        if not self._workers.ready_for(scratch_bytes):
            with self._compute.quiet(DRAIN_S):
                self._workers.prepare(scratch_bytes)
        program = CpuProgram(self, binary)
        self._programs.add(program)
        return program

    def set_threads(self, count: int) -> None:
        """How many threads compute, the submitting one included. Raises: BadArgument, Hang."""
        self.life.check()
        with self._compute.quiet(DRAIN_S):
            self._workers.start(count)

    @property
    def threads(self) -> int:
        """How many threads compute, the submitting one included."""
        return self._workers.wanted

    # Work

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        """Run one kernel over `grid` work items after everything submitted before.

        Returns when it is done, unless earlier work waits for a signal. Python signals are
        handled meanwhile; what a handler raises (Ctrl-C) stops a kernel that takes long.
        Raises: BadArgument, UseAfterFree, before anything runs.
        """
        if not isinstance(program, CpuProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        if type(grid) is not int or not 0 < grid <= _MAX_GRID:
            raise launches.bad_grid(grid, self.limits)
        ring = self._compute
        with ring.lock:
            outer, ring.depth = ring.depth, ring.depth + 1
            try:
                ring.turn += not outer
                words = [
                    arg.gpu_va
                    if isinstance(arg, CpuBuffer) and arg.device is self
                    else arguments.word(self, arg)
                    for arg in args
                ]
                nargs = len(words)
                if nargs in program.quick and not ring.pending and not outer:
                    _PACKERS[nargs](
                        self._bytes, 0, _HEADERS[nargs], program.gpu_va, grid, program.chunk, *words
                    )
                    count = _HEADER_WORDS + nargs
                    if not ring.pending and self._run(self._state_va, ring.va, count) == count:
                        return
                    follow = ring.background(ring.words[:count], ())
                else:
                    entry, chunk = program.gpu_va, program.chunk
                    arguments.check_count(program, nargs)
                    packet = packets.exec_packet(entry=entry, grid=grid, chunk=chunk, args=words)
                    follow = ring.submit(packet, ())
            finally:
                ring.depth = outer
        if follow is not None:
            follow()

    def compute_queue(self) -> CpuQueue:
        """A builder for the compute ring."""
        return CpuQueue(self._commands[0])

    def copy_queue(self) -> CpuQueue:
        """A builder for the copy ring, which runs concurrently with the compute ring."""
        return CpuQueue(self._commands[1])

    def new_signal(self, value: int = 0) -> CpuSignal:
        """A signal at `value`."""
        launches.check_signal_value(value, self.limits)
        return CpuSignal(self, self.heap.storage(packets.SIGNAL_BYTES), value)

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        """Copy host memory to the start of `dst`, after everything submitted before."""
        arguments.copy_va(self, dst, host_nbytes(src), write=True)
        self.synchronize()
        dst.view()[: src.nbytes] = flat(src)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        """Copy the start of `src` to host memory, after everything submitted before."""
        arguments.copy_va(self, src, host_nbytes(dst), write=False)
        if dst.readonly or not dst.c_contiguous:
            raise BadArgument(
                "the destination is read-only or not contiguous", hint="pass writable memory"
            )
        self.synchronize()
        if dst.nbytes:
            dst.cast("B")[:] = src.view()[: dst.nbytes]

    # Validation for queues

    def program_words(
        self, program: Program, nargs: int, grid: Grid, block: Grid | None
    ) -> tuple[int, int]:
        """(entry, chunk) of a live program of this device. Raises: BadArgument, UseAfterFree."""
        if not isinstance(program, CpuProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        arguments.check_count(program, nargs)
        launches.check_grid(grid, self.limits)
        if block is not None:
            launches.check_block(block, self.limits.max_block, repr(program))
        return program.gpu_va, program.chunk

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
        return arguments.word(self, value)

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""
        return arguments.copy_va(self, value, nbytes, write=write)

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal of this device. Raises: BadArgument, UseAfterFree."""
        if not isinstance(signal, CpuSignal) or signal.device is not self:
            raise BadArgument(f"{signal!r} is not a signal of {self.name}", hint="use new_signal()")
        return signal.gpu_va

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        for thing in things:
            if isinstance(thing, CpuBuffer | CpuProgram | CpuSignal):
                _ = thing.gpu_va

    # Waiting and closing

    def run_host_packet(self, words_va: int, nwords: int) -> None:
        """With `host_lock` held: run a host thread's SIGNAL packet, independent of the rings."""
        self._run(self._state_va, words_va, nwords)

    def why_not(self, signal: SignalValue, value: int, timeout_s: float) -> DeviceError:
        """The error for a signal that was not reached: what a queue waits for, if one does."""
        for ring in (self._compute, self._copy):
            if ring.pending:
                return ring.hang(timeout_s)
            if ring.fault is not None:
                return ring.fault
        return DeviceTimeout(
            f"a signal is at {signal.value} after {timeout_s:g} s, not at {value}, "
            f"and {self.name} has no work left",
            register="signal",
            last=signal.value,
            hint="submit the work that signals it",
        )

    def synchronize(self, timeout_s: float = DRAIN_S) -> None:
        """Return when everything submitted is done. Raises: Hang, DeviceFault, UseAfterFree."""
        self.life.check()
        self._compute.drain(timeout_s)
        self._copy.drain(timeout_s)

    def close(self) -> None:
        """Stop the threads, drop parked work, unmap everything. A second close does nothing.

        Raises: Hang when a kernel does not return: nothing is unmapped below it, and the next
        close tries again. The first error of unmapping, after all steps have run.
        """
        if not self.life.open:
            return
        with self.host_lock:
            self._run = _closed
        stop_compute, stop_copy = (partial(r.stop, _closed) for r in (self._compute, self._copy))
        run_all([stop_compute, stop_copy, self._workers.stop])
        self._bytes = memoryview(bytearray(RING_BYTES))
        programs = [program.drop for program in list(self._programs)]
        parts = [part.close for part in (self._compute, self._copy, self._workers)]
        run_all([*programs, self.heap.close, *parts, self._on_close])

    def after_fork(self) -> None:
        """In a child: it has no thread of the parent, and parked work stays the parent's."""
        self.host_lock = RLock()
        self.heap.after_fork()
        self._compute.after_fork()
        self._copy.after_fork()
        self._workers.after_fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _closed(state_va: int, words_va: int, nwords: int) -> int:
    """The doorbell of a closed device."""
    raise UseAfterFree("a closed device was used", hint="open it again")
