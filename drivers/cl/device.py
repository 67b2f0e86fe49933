"""An OpenCL device: what the contracts ask for, over two in-order queues of one context."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from threading import RLock
from typing import Any, Final, Self

from drivers.base import forks, launches
from drivers.base.allocator import Statistics
from drivers.base.buffer import checked_size, flat
from drivers.base.contracts import Binary, Buffer, Program, World
from drivers.base.deadline import polls
from drivers.base.errors import (
    BadArgument,
    DeviceFault,
    DeviceGone,
    Hang,
    MalformedInput,
    Unsupported,
    UseAfterFree,
)
from drivers.base.undo import Step as Undoing
from drivers.base.undo import run_all
from drivers.cl import commands
from drivers.cl.building import HIDDEN_ARGS, Builder
from drivers.cl.errors import not_its
from drivers.cl.facts import Facts
from drivers.cl.graph import Prepared
from drivers.cl.heap import MAX_SCRATCH_BYTES, Heap
from drivers.cl.memory import Block, ClBuffer, RawMemory
from drivers.cl.program import ClProgram
from drivers.cl.ring import Ring
from drivers.cl.signal import PATIENCE_S, ClSignal, Event
from drivers.world.native import address_of
from queues.cl.kernel_code import ENTRY, ClCode
from queues.cl.queue import ClQueue
from queues.cl.steps import Step

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
        self.lock = RLock()
        self.freed_mark: object = object()
        """Another object whenever something was freed."""
        self.builder, self._release = builder, release
        self._compute, self._copy = self.rings = rings
        self.heap = Heap(name, raw, rings, self.finish, self.limits.memory_bytes)
        self._dropped: deque[Undoing] = deque()
        """What finalisers gave back: they only append, and `_collect` empties it."""
        self._programs: weakref.WeakSet[ClProgram] = weakref.WeakSet()
        self._signals: weakref.WeakSet[ClSignal] = weakref.WeakSet()
        self._graphs: weakref.WeakSet[Prepared] = weakref.WeakSet()
        self._refused = ""
        forks.inherit(self)

    def __repr__(self) -> str:
        return f"ClDevice({self.name}, {self.facts.found.title})"

    def after_fork(self) -> None:
        self.lock, self._refused = RLock(), "was opened before a fork"
        self.heap.after_fork()

    def check_open(self) -> None:
        """Raises: UseAfterFree."""
        if self._refused:
            raise UseAfterFree(f"{self.name} {self._refused}", hint="open it again")

    # Memory

    @property
    def statistics(self) -> Statistics:
        """Of its allocator, with what was given back counted as such."""
        with self.lock:
            return self.heap.statistics

    def alloc(self, nbytes: int) -> ClBuffer:
        checked_size(nbytes)
        with self.lock:
            self.check_open()
            self._collect()
            return ClBuffer(self, self.heap.alloc(nbytes), nbytes)

    def wrap(self, memory: memoryview) -> Buffer:
        raise Unsupported(f"{self.name} has memory of its own alone", hint="copy_in() it")

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self.heap.give_back(block)

    def drop_program(self, program: int, kernel: int) -> None:
        """The same for a program."""
        self.freed_mark = object()
        self._dropped.append(partial(self.api.do, "clReleaseKernel", kernel))
        self._dropped.append(partial(self.api.do, "clReleaseProgram", program))

    def drop_kernels(self, kernels: Sequence[int]) -> None:
        """The same for kernel objects of a graph."""
        for kernel in kernels:
            self._dropped.append(partial(self.api.do, "clReleaseKernel", kernel))

    def drop_events(self, events: Sequence[Event]) -> None:
        """The same for markers."""
        self._dropped.extend(event.release for event in events)

    def _collect(self) -> None:
        """With the lock held: release objects that nothing refers to any more."""
        if not any(ring.pending for ring in self.rings):
            run_all([self._dropped.popleft() for _ in range(len(self._dropped))])

    # Programs and work

    def load(self, binary: Binary) -> ClProgram:
        with self.lock:
            self.check_open()
            launches.check_binary(binary, self.arch, self.limits)
            code, needs = ClCode.decode(binary.image), binary.resources
            if binary.entry or needs.args is None or len(needs.args) != code.nargs:
                raise MalformedInput(f"{binary.name} is no code of {self.arch}", hint="compile it")
            if needs.scratch_bytes * self.units > MAX_SCRATCH_BYTES:
                raise MalformedInput(
                    f"{binary.name}: {needs.scratch_bytes} bytes of scratch", hint="compile it"
                )
            self._collect()
            handles = self.builder.kernel(code, ENTRY + binary.name)
            program = ClProgram(
                self, binary.name, handles, code.nargs, needs.block or code.block,
                code.max_block, needs.scratch_bytes, code.source,
            )  # fmt: skip
            self._programs.add(program)
            return program

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        if not isinstance(program, ClProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        with self.lock:
            self.check_open()
            kernel = commands.checked_program(self, program, len(args)).kernel
            blocks = [commands.buffer_block(self, arg, ()) for arg in args]
            shape, block = (grid, 1, 1), (max(program.block, 1), 1, 1)
            ring = self._compute
            if ring.pending:
                ring.pending.append(
                    commands.Launch(self, ring, program, kernel, blocks, shape, block)
                )
            else:
                commands.enqueue(self, ring, program, kernel, blocks, shape, block)
                ring.flush()

    def compute_queue(self) -> ClQueue:
        return ClQueue(self, self._compute, self.limits, can_exec=True)

    def copy_queue(self) -> ClQueue:
        return ClQueue(self, self._copy, self.limits, can_exec=False)

    def new_signal(self, value: int = 0) -> ClSignal:
        launches.check_signal_value(value, self.limits)
        with self.lock:
            self.check_open()
            signal = ClSignal(self, value)
            self._signals.add(signal)
            return signal

    # What queues ask for

    def check(self, step: Step) -> None:
        """Raises: BadArgument, UseAfterFree for what it cannot run; Params stay open."""
        commands.command(self, self._compute, step, ())

    def run(self, ring: Ring, steps: Sequence[Step]) -> None:
        """Check all steps once more, then run them in order, after earlier ones of the ring."""
        with self.lock:
            self.check_open()
            ready = [commands.command(self, ring, step, ()) for step in steps]
            self.begin(ring)
            self.push(ring, ready)

    def begin(self, ring: Ring) -> None:
        """With the lock held: a ring is about to run something."""
        if ring is self._copy:
            self.heap.overlap()

    def push(self, ring: Ring, ready: Sequence[Any]) -> None:
        """With the lock held: run checked commands."""
        ring.pending.extend(ready)
        self.pump()

    def record(self, ring: Ring, steps: Sequence[Step], params: int) -> Prepared:
        """Prepare steps for being run often."""
        with self.lock:
            self.check_open()
            made = Prepared(self, ring, steps, params)
            self._graphs.add(made)
            return made

    def pump(self) -> None:
        """With the lock held: enqueue what no longer waits."""
        self.check_open()
        waiting = sum(len(ring.pending) for ring in self.rings)
        for _ in range(waiting):
            moved = [ring.advance() for ring in self.rings if ring.pending]
            if not any(moved):
                return

    # Copies, waiting and closing

    def _end(self, value: Any, nbytes: int) -> Block:
        if not isinstance(value, ClBuffer) or value.device is not self:
            raise not_its("buffer", value, self.name, "copy it there")
        block = value.block
        if nbytes > value.nbytes:
            raise BadArgument(f"{nbytes} bytes are outside of {value.nbytes}", hint="copy less")
        return block

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        block, data = self._end(dst, src.nbytes), flat(src)
        self.synchronize()
        if data.nbytes:
            self._transfer(block, data, write=True)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        block = self._end(src, dst.nbytes)
        if dst.readonly or not dst.c_contiguous:
            raise BadArgument("the destination is read-only or not contiguous", hint="another one")
        self.synchronize()
        if dst.nbytes:
            self._transfer(block, dst.cast("B"), write=False)

    def _transfer(self, block: Block, memory: memoryview, *, write: bool) -> None:
        """A blocking copy between host memory and the start of a block; the device is idle."""
        host, nbytes, queue = address_of(memory), memory.nbytes, self._copy.handle
        with self.lock:
            self.check_open()
            if block.handle:
                call = "clEnqueueWriteBuffer" if write else "clEnqueueReadBuffer"
                self.api.do(call, queue, block.handle, 1, 0, nbytes, host, 0, 0, 0)
            else:
                ends = (block.gpu_va, host) if write else (host, block.gpu_va)
                self.api.do("clEnqueueSVMMemcpy", queue, 1, *ends, nbytes, 0, 0, 0)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        for _ in polls(timeout_s, self.world):
            with self.lock:
                self.pump()
                if not any(ring.pending for ring in self.rings):
                    break
        else:
            waiting = next((ring for ring in self.rings if ring.pending), self._compute)
            raise Hang(
                f"{waiting.name} waits for a signal", queue=waiting.name, dump=waiting.dump(),
                hint="set what it waits for",
            )  # fmt: skip
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
            ring.flush()
        ring.finished(event, self.world, timeout_s)
        with self.lock:
            ring.done = max(ring.done, upto)

    def close(self) -> None:
        """Drop work that waits, end what runs, release everything. A second close does nothing.

        Raises: Hang when a kernel does not return: nothing is released below it, and the next
        close tries again. The first error, after all steps have run: also of a lost device.
        """
        with self.lock:
            if self._refused:
                return
            failed = [error for ring in self.rings for error in self._ended(ring)]
            self.builder.withdraw()
            programs = [one.close for one in self._programs if not one.closed]
            signals = [one.close for one in self._signals if not one.closed]
            graphs = [one.close for one in self._graphs]
            try:
                run_all(
                    [
                        *(partial(_raise, error) for error in failed),
                        *graphs,
                        *programs,
                        *signals,
                        self._collect,
                        self.heap.close,
                        self._close_queues,
                    ]
                )
            finally:
                self._refused = "is closed"

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


def _raise(error: Exception) -> None:
    raise error
