"""An OpenCL device: what the contracts ask for, over two in-order queues of one context."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock
from typing import Any, Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes
from drivers.base.contracts import Binary, Buffer, Program, World
from drivers.base.deadline import polls
from drivers.base.errors import DeviceFault, DeviceGone, MalformedInput, Unsupported
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step as Undoing
from drivers.base.undo import Undo, run_all
from drivers.cl import commands
from drivers.cl.api import Words
from drivers.cl.building import HIDDEN_ARGS, Builder
from drivers.cl.derived import Derived, plain
from drivers.cl.event import Event
from drivers.cl.facts import Facts
from drivers.cl.heap import MAX_SCRATCH_BYTES, Heap
from drivers.cl.memory import Block, ClBuffer, RawMemory, seen
from drivers.cl.program import ClProgram
from drivers.cl.queue import ClCommands, ClQueue
from drivers.cl.recorder import read_recorder
from drivers.cl.ring import Command, Ring
from drivers.cl.signal import PATIENCE_S, ClMarkers, ClSignal
from drivers.hosted.buffer import HostedBuffer, check_destination
from drivers.hosted.owned import (
    check_alive,
    own_buffer,
    own_code,
    own_program,
)
from drivers.hosted.pending import pump, stuck, waiting
from drivers.hosted.signal import HostedSignal
from drivers.hosted.standing import Standing
from drivers.world.native import address_of
from queues.cl.kernel_code import ENTRY, ClCode
from queues.graph import Recording

COMPILERS: Final = ("OPENCL",)


class ClDevice:
    """One device of one platform; `drivers.cl.opening` makes it."""

    def __init__(
        self, name: str, world: World, facts: Facts, builder: Builder, raw: RawMemory,
        rings: tuple[Ring, Ring], release: Undoing,
    ) -> None:  # fmt: skip
        self.name, self.world, self.facts = name, world, facts
        self.compilers: tuple[str, ...] = COMPILERS
        self.arch, self.limits, self.units = facts.arch, facts.limits, facts.units
        self.api, self.raw, self.memory_kind = facts.found.api, raw, raw.kind
        self.hidden_args = HIDDEN_ARGS if facts.processor else 0
        found = facts.found
        self.recorder = read_recorder(self.api, found.platform, found.device, facts.extensions)
        self.lock = RLock()
        self.freed_mark: object = object()
        """Another object whenever something was freed."""
        self.builder, self._release = builder, release
        self._compute, self._copy = self.rings = rings
        self.heap = Heap(name, raw, rings, self.finish, self.limits.memory_bytes)
        self._dropped: deque[Undoing] = deque()
        """What finalisers gave back: they only append, and `collect` empties it."""
        self._lent: deque[Undoing] = deque()
        self._standing = Standing(name)
        self._commands = tuple(ClCommands(self, ring) for ring in rings)
        self._closed = False
        forks.inherit(self)

    def __repr__(self) -> str:
        return f"ClDevice({self.name}, {self.facts.found.title})"

    def after_fork(self) -> None:
        self.lock = RLock()
        self._standing.forked()
        self._closed = False  # what other libraries lent stays the parent's
        self.heap.after_fork()

    def check_open(self) -> None:
        """Raises: UseAfterFree."""
        self._standing.check()

    def enter(self) -> None:
        """What every call does before it takes the lock.

        A handler of a signal, or a finaliser, runs in the middle of a call; the lock lets its own
        thread in. Raises: Unsupported, with nothing touched.
        """
        lock: Any = self.lock
        if lock._is_owned():
            raise Unsupported(
                f"{self.name} was called inside of one of its own calls",
                hint="set a flag in the signal handler, and do the work outside of it",
            )

    def working(self) -> AbstractContextManager[object]:
        """The lock, entered. Raises: Unsupported inside of another call."""
        self.enter()
        return self.lock

    # Memory

    def memory_stats(self) -> MemoryStats:
        """Of its allocator, with what was given back counted as such."""
        with self.lock:
            return self.heap.memory_stats()

    def alloc(self, nbytes: int) -> ClBuffer:
        checked_size(nbytes)
        self.enter()
        with self.lock:
            return self.take(nbytes)

    def take(self, nbytes: int) -> ClBuffer:
        """With the lock held: the same."""
        self.check_open()
        self.collect()
        return HostedBuffer(self, self.heap.alloc(nbytes), nbytes)

    def seen(self, buffer: ClBuffer) -> memoryview | None:
        """What the host sees of a live buffer."""
        return seen(buffer)

    def wrap(self, memory: memoryview) -> Buffer:
        raise Unsupported(f"{self.name} has memory of its own alone", hint="copy_in() it")

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self.heap.give_back(block)

    def drop_program(self, program: int, kernel: int) -> None:
        """The same for a program."""
        do = self.api.do
        self.drop(
            [partial(do, "clReleaseKernel", kernel), partial(do, "clReleaseProgram", program)]
        )

    def drop_lent(self, release: Undoing) -> None:
        """The same for memory of other libraries: it is kept until its last work is done."""
        self.freed_mark = object()
        self._lent.append(release)
        if self._closed:  # also when it closes in another thread meanwhile: one of both sees it
            self._end_lent()

    def _end_lent(self) -> None:
        """Nothing uses it any more."""
        run_all([self._end_one] * len(self._lent))

    def _end_one(self) -> None:
        try:
            release = self._lent.popleft()
        except IndexError:
            return  # another thread ended it
        release()

    def drop_events(self, events: Sequence[Event]) -> None:
        """The same for the markers of a signal."""
        self.drop(event.release for event in events)

    def drop(self, releases: Iterable[Undoing]) -> None:
        """The same for other objects."""
        self.freed_mark = object()
        self._dropped.extend(releases)

    def collect(self) -> None:
        """With the lock held: release objects that nothing refers to any more."""
        if not waiting(self.rings):
            run_all([self._dropped.popleft() for _ in range(len(self._dropped))])
            if self._lent:
                for ring in self.rings:
                    self.finish(ring)
                self._end_lent()

    # Programs and work

    def load(self, binary: Binary) -> ClProgram:
        self.enter()
        with self.lock:
            self.check_open()
            launches.check_binary(binary, self.arch, self.limits)
            code, needs = ClCode.decode(binary.image), binary.resources
            own_code(self.arch, binary, code.nargs)
            if needs.scratch_bytes * self.units > MAX_SCRATCH_BYTES:
                raise MalformedInput(
                    f"{binary.name}: {needs.scratch_bytes} bytes of scratch", hint="compile it"
                )
            self.collect()
            handles = self.builder.kernel(code, ENTRY + binary.name)
            program = ClProgram(
                self, binary.name, handles, code.nargs, needs.block or code.block,
                code.max_block, needs.scratch_bytes, code.source, code.shared_bytes,
            )  # fmt: skip
            self._standing.programs.add(program)
            return program

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        own = own_program(self, ClProgram, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        self.enter()
        with self.lock:
            self.check_open()
            kernel = own_program(self, ClProgram, own, len(args)).kernel
            blocks = [commands.buffer_block(self, arg) for arg in args]
            shape, block = (grid, 1, 1), (max(own.block, 1), 1, 1)
            ring = self._compute
            made = commands.Launch(self, ring, own, kernel, blocks, shape, block)
            if ring.pending:
                ring.pending.append(made)
            else:
                made()
                ring.flush()

    def compute_queue(self) -> ClQueue:
        return ClQueue(self._commands[0], can_exec=True)

    def copy_queue(self) -> ClQueue:
        return ClQueue(self._commands[1], can_exec=False)

    def new_signal(self, value: int = 0) -> ClSignal:
        launches.check_signal_value(value, self.limits)
        with self.lock:
            self.check_open()
            signal: ClSignal = HostedSignal(self, ClMarkers(self, value), PATIENCE_S)
            self._standing.signals.add(signal)
            return signal

    # What queues ask for

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        check_alive(things, ClProgram)

    def derive(self, one: Derived) -> None:
        """With the lock held: close it with the device."""
        self._standing.derived.add(one)

    def begin(self, ring: Ring) -> None:
        """With the lock held: a ring is about to run something."""
        if ring is self._copy:
            self.heap.overlap()

    def settle(self, block: Block) -> None:
        """With the lock held: return when the host can access a block."""
        self.heap.settle(block)

    def push(self, ring: Ring, ready: Sequence[Command]) -> None:
        """With the lock held: run checked commands."""
        ring.pending.extend(ready)
        self.pump()

    def register(self, graph: Recording[Any]) -> None:
        """With the lock held: close it with the device."""
        self._standing.graphs.add(graph)

    def pump(self) -> None:
        """With the lock held: enqueue what no longer waits."""
        self.check_open()
        pump(self.rings, Ring.advance)

    # Copies, waiting and closing

    def _end(self, value: Any, nbytes: int, *, write: bool) -> Block:
        found: ClBuffer = own_buffer(self, value)
        launches.check_copy(found, nbytes, write=write)
        return plain(found.block)

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        block, data = self._end(dst, host_nbytes(src), write=True), flat(src)
        self.synchronize()
        if data.nbytes:
            self._transfer(block, data, write=True)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        block = self._end(src, host_nbytes(dst), write=False)
        check_destination(dst)
        self.synchronize()
        if dst.nbytes:
            self._transfer(block, dst.cast("B"), write=False)

    def _transfer(self, block: Block, memory: memoryview, *, write: bool) -> None:
        """A blocking copy between host memory and the start of a block; the device is idle.

        A blocking write may return before the write itself: only `memory` may be reused then.
        # src: OpenCL API 3.0, clEnqueueWriteBuffer, blocking_write
        """
        host, nbytes, queue = address_of(memory), memory.nbytes, self._copy.handle
        with self.lock:
            self.check_open()
            if block.handle and write:
                event = Words([0])
                self.api.do(
                    "clEnqueueWriteBuffer", queue, block.handle, 1, 0, nbytes, host, 0, 0, event.at
                )
                written = Event(self.api, event.words[0])
                self._copy.finished(written, self.world, PATIENCE_S)
            elif block.handle:
                self.api.do("clEnqueueReadBuffer", queue, block.handle, 1, 0, nbytes, host, 0, 0, 0)
            else:
                ends = (block.gpu_va, host) if write else (host, block.gpu_va)
                self.api.do("clEnqueueSVMMemcpy", queue, 1, *ends, nbytes, 0, 0, 0)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        self.enter()
        for _ in polls(timeout_s, self.world):
            with self.lock:
                self.pump()
                if not waiting(self.rings):
                    break
        else:
            raise stuck(self.rings)
        for ring in self.rings:
            self._drain(ring, timeout_s)

    def finish(self, ring: Ring) -> None:
        """Wait until everything enqueued is done."""
        self._drain(ring, PATIENCE_S)

    def _drain(self, ring: Ring, timeout_s: float) -> None:
        """Wait for what was enqueued. Raises: Hang, DeviceFault."""
        with self.lock:
            if not ring.busy:
                return
            event, upto = ring.marker(), ring.enqueued
            with Undo() as undo:
                undo.add(event.release)
                ring.flush()
        ring.finished(event, self.world, timeout_s)
        with self.lock:
            ring.done = max(ring.done, upto)

    def close(self) -> None:
        """Drop work that waits, end what runs, release everything. A second close does nothing.

        Raises: Hang when a kernel does not return: nothing is released below it, and the next
        close tries again. The first error, after all steps have run: also of a lost device.
        """
        self.enter()
        with self.lock:
            if self._standing.refused:
                return
            failed = [error for ring in self.rings for error in self._ended(ring)]
            self.builder.withdraw()
            try:
                self._standing.close(failed, [self.collect, self.heap.close, self._close_queues])
            finally:
                self._closed = True
                self._end_lent()

    def _ended(self, ring: Ring) -> list[DeviceFault | DeviceGone]:
        """Drop what waits and end what runs; why it failed, of a device that runs nothing more."""
        ring.pending.clear()
        try:
            self.finish(ring)
        except (DeviceFault, DeviceGone) as error:
            ring.done = ring.enqueued
            return [error]
        return []

    def _close_queues(self) -> None:
        queues = [partial(self.api.do, "clReleaseCommandQueue", ring.handle) for ring in self.rings]
        run_all([*queues, partial(self.raw.close, self._release)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
