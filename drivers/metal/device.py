"""A Metal device: what the contracts ask for, over two command queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, RLock
from typing import Any, Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes
from drivers.base.contracts import Binary, Buffer, Program, World
from drivers.base.deadline import polls
from drivers.base.errors import (
    DeviceError,
    Hang,
    OutOfMemory,
    Unsupported,
)
from drivers.base.memory_stats import MemoryStats
from drivers.hosted.buffer import HostedBuffer, check_destination
from drivers.hosted.owned import check_alive, own_buffer, own_code, own_program
from drivers.hosted.pending import pump
from drivers.hosted.signal import HostedSignal
from drivers.hosted.standing import FORKED, Standing
from drivers.metal import private
from drivers.metal.api import Api, Owned
from drivers.metal.commands import Launch
from drivers.metal.facts import Facts
from drivers.metal.heap import Heap
from drivers.metal.memory import MetalBuffer, RawMemory, seen
from drivers.metal.program import MetalProgram, load_pipeline, make_pipeline
from drivers.metal.queue import MetalQueue
from drivers.metal.ring import MOST_BUFFERS, PATIENCE_S, Ring, Work
from drivers.metal.signal import MetalMarkers, MetalSignal
from drivers.world.native import memory_at
from queues.builder import Built
from queues.graph import Recording
from queues.metal.kernel_code import ENTRY, MetalCode

COMPILERS: Final = ("MSL",)
_SHOWN_ERRORS: Final = 4
"""At closing."""
TAIL: Final = "tail"
TAIL_SOURCE: Final = f"""#include <metal_stdlib>
using namespace metal;
kernel void {TAIL}(device uchar *dst [[buffer(0)]], const device uchar *src [[buffer(1)]],
uint lane [[thread_index_in_threadgroup]]) {{ dst[lane] = src[lane]; }}
"""


class MetalDevice:
    """One GPU; `drivers.metal.opening` makes it."""

    def __init__(
        self, name: str, world: World, api: Api, owned: Owned, facts: Facts,
        rings: tuple[Ring, Ring],
    ) -> None:  # fmt: skip
        self.name, self.world, self.api, self.facts = name, world, api, facts
        self.compilers: tuple[str, ...] = COMPILERS
        self.arch, self.limits = facts.arch, facts.limits
        self._owned, self.handle = owned, owned.handle
        self.lock, self._alone = RLock(), Lock()
        self.freed_mark: object = object()
        """Another object whenever something was freed."""
        self._compute, self._copy = self.rings = rings
        self.raw = RawMemory(api, self.handle, facts.max_alloc_bytes)
        self.heap = Heap(name, self.raw, rings, self.limits.memory_bytes)
        self._standing = Standing(name)
        self._tail: Owned | None = None
        forks.inherit(self)

    def __repr__(self) -> str:
        return f"MetalDevice({self.name}, {self.facts.title})"

    def after_fork(self) -> None:
        self.lock, self._alone = RLock(), Lock()
        self._standing.forked()
        self.heap.after_fork()

    def check_open(self) -> None:
        """Raises: UseAfterFree."""
        self._standing.check()

    def alone(self) -> AbstractContextManager[object]:
        """With the lock held: what is held while queues and memory change.

        Raises: Unsupported while it is: a handler of a signal interrupted this thread.
        """
        if self._alone.locked():
            raise Unsupported(
                f"a signal handler uses {self.name}, which it interrupted at work",
                hint="note the signal in the handler, and use the device after it",
            )
        return self._alone

    @contextmanager
    def working(self) -> Iterator[None]:
        """The lock, alone. Raises: Unsupported inside of another call."""
        with self.lock, self.alone():
            yield

    # Memory

    def memory_stats(self) -> MemoryStats:
        """Of its allocator, with what was given back counted as such."""
        with self.lock, self.alone():
            return self.heap.memory_stats()

    def alloc(self, nbytes: int) -> MetalBuffer:
        checked_size(nbytes)
        try:
            return self._alloc(nbytes)
        except OutOfMemory as error:
            self.heap.full(error)
        self.synchronize()
        return self._alloc(nbytes)

    def _alloc(self, nbytes: int) -> MetalBuffer:
        with self.lock, self.alone():
            self.check_open()
            return HostedBuffer(self, self.heap.alloc(nbytes), nbytes)

    def wrap(self, memory: memoryview) -> MetalBuffer:
        with self.lock, self.alone():
            self.check_open()
            block = self.heap.wrap(memory)
            return HostedBuffer(self, block, block.nbytes)

    def lend(self, handle: int, owner: object, *, shared: bool, readonly: bool) -> MetalBuffer:
        """With the lock held: a checked MTLBuffer of another library."""
        with self.alone():
            block = self.heap.lend(handle, owner, shared=shared)
        made: MetalBuffer = HostedBuffer(self, block, block.nbytes)
        made.readonly = readonly
        return made

    def seen(self, buffer: MetalBuffer) -> memoryview | None:
        """What the host sees of a live buffer."""
        return seen(buffer)

    def give_back(self, block: Any) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self.heap.give_back(block)

    def drop(self, owned: Owned) -> None:
        """The same for any other object."""
        self.freed_mark = object()
        if self._standing.refused != FORKED:
            self.heap.drop(owned)

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        check_alive(things, MetalProgram)

    # Programs and work

    def load(self, binary: Binary) -> MetalProgram:
        with self.lock:
            self.check_open()
            launches.check_binary(binary, self.arch, self.limits)
            code, needs = MetalCode.decode(binary.image), binary.resources
            own_code(self.arch, binary, code.nargs)
            with self.alone():
                self.heap.collect()
            pipeline = load_pipeline(
                self.api, self.handle, code, ENTRY + binary.name, self.limits.wave_lanes
            )
            block = needs.block or code.block
            program = MetalProgram(self, binary.name, pipeline, code, block)
            self._standing.programs.add(program)
            return program

    def tail_copy(self) -> int:
        """With the lock held: the pipeline that copies less than a word."""
        if self._tail is None:
            self._tail = make_pipeline(self.api, self.handle, TAIL_SOURCE, TAIL)
        return self._tail.handle

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        own = own_program(self, MetalProgram, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        with self.lock, self.alone():
            self.check_open()
            own_program(self, MetalProgram, own, len(args))
            blocks = tuple(own_buffer(self, arg).block for arg in args)
            ring = self._compute
            made = Launch(ring, own.gpu_va, blocks, (grid, 1, 1), (own.block, 1, 1))
            if ring.pending:
                ring.pending.append(made)
            else:
                made()
                ring.pace()

    def compute_queue(self) -> MetalQueue:
        return MetalQueue(self, self._compute, can_exec=True)

    def copy_queue(self) -> MetalQueue:
        return MetalQueue(self, self._copy, can_exec=False)

    def new_signal(self, value: int = 0) -> MetalSignal:
        launches.check_signal_value(value, self.limits)
        with self.lock:
            self.check_open()
            event = Owned(self.api, self.api.send["newSharedEvent"](self.handle))
            self.api.send["setSignaledValue:"](event.handle, value)
            signal: MetalSignal = HostedSignal(self, MetalMarkers(self, event, value), PATIENCE_S)
            self._standing.signals.add(signal)
            return signal

    def run(self, ring: Ring, built: Built[Any]) -> None:
        """Run steps in order, after earlier ones of the ring. Raises: UseAfterFree, before."""
        with self.lock, self.alone():
            self.check_open()
            built.check()
            self.push(ring, built.steps)

    def push(self, ring: Ring, steps: Sequence[Any]) -> None:
        """With the lock held: run checked commands."""
        ring.pending.extend(steps)
        self.pump()

    def register(self, graph: Recording[Any]) -> None:
        """With the lock held: close it with the device."""
        self._standing.graphs.add(graph)

    def pump(self) -> None:
        """With the lock held: encode what no longer waits."""
        self.check_open()
        pump(self.rings, Ring.advance)

    # Copies, waiting and closing

    def _host(self, value: Any, nbytes: int, *, write: bool) -> MetalBuffer:
        """A buffer of which so many bytes are copied. Raises: BadArgument, UseAfterFree."""
        found: MetalBuffer = own_buffer(self, value)
        launches.check_copy(found, nbytes, write=write)
        return found

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        buffer, data = self._host(dst, host_nbytes(src), write=True), flat(src)
        self.synchronize()
        if not buffer.block.contents:
            private.write(self, buffer, data)
        elif data.nbytes:
            memory_at(buffer.block.contents, data.nbytes, int).cast("B")[:] = data

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        buffer = self._host(src, host_nbytes(dst), write=False)
        check_destination(dst)
        self.synchronize()
        if not buffer.block.contents:
            private.read(self, dst, buffer)
        elif dst.nbytes:
            dst.cast("B")[:] = memory_at(buffer.block.contents, dst.nbytes, int).cast("B")

    def raise_failed(self) -> None:
        """Raises: the failure of a command buffer, once."""
        for ring in self.rings:
            ring.raise_failed()

    def _progress(self) -> tuple[int, ...]:
        return tuple(ring.ended for ring in self.rings)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        for _ in polls(timeout_s, self.world, self._progress):
            with self.lock, self.alone():
                self.pump()
                for ring in self.rings:
                    ring.flush()
                    ring.collect()
                self.raise_failed()
                if not any(ring.pending or ring.busy for ring in self.rings):
                    return
        waits = next((ring for ring in self.rings if ring.pending or ring.busy), self._compute)
        raise Hang(
            f"{waits.name} has ended nothing for {timeout_s:g} s",
            queue=waits.name, dump=waits.dump(),
            hint="set what it waits for, or make smaller kernels",
        )  # fmt: skip

    def reach(self, ring: Ring, work: Work | None) -> None:
        """With the lock held: wait until a command buffer of a ring has ended. Raises: Hang."""
        if work is None:
            return
        ring.flush()
        for _ in polls(PATIENCE_S, self.world, self._progress):
            ring.collect()
            if work not in ring.running:
                return
        raise Hang(
            f"{ring.name} has ended nothing for {PATIENCE_S:g} s",
            queue=ring.name, dump=ring.dump(),
            hint="make smaller kernels",
        )  # fmt: skip

    def close(self) -> None:
        """Drop work that waits, end what runs, release everything. A second close does nothing.

        Raises: Hang when a kernel does not return: nothing is released below it, and the next
        close tries again. The first error, after all steps have run: also of a lost device.
        """
        with self.lock:
            if self._standing.refused:
                return
            failed = self._ended()
            tail = [self._tail.release] if self._tail is not None else []
            steps: list[Callable[[], object]] = [
                *tail, self.heap.release, self.heap.close, *(ring.close for ring in self.rings),
                self._owned.release,
            ]  # fmt: skip
            with self.alone():
                self._standing.close(failed, steps)

    def _ended(self) -> list[DeviceError]:
        """Drop what waits and end what runs; why it failed. Raises: Hang."""
        with self.alone():
            for ring in self.rings:
                ring.pending.clear()
        errors: list[DeviceError] = []
        for _ in range(len(self.rings) * MOST_BUFFERS + 1):  # each may fail
            try:
                self.synchronize()
                break
            except DeviceError as error:
                if isinstance(error, Hang):
                    raise
                errors.append(error)
        return errors[:_SHOWN_ERRORS]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
