"""A CUDA device: what the contracts ask for, over two streams of its primary context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes
from drivers.base.contracts import Binary, Buffer, Device, Program
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceError, Hang, OutOfMemory
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step
from drivers.cuda.api import Api
from drivers.cuda.commands import Launch, Place, start
from drivers.cuda.context import Context, Working
from drivers.cuda.events import Events
from drivers.cuda.facts import Facts
from drivers.cuda.heap import Heap
from drivers.cuda.memory import CudaBuffer, RawMemory, seen
from drivers.cuda.peers import Peers
from drivers.cuda.program import CudaProgram, load
from drivers.cuda.queue import CudaQueue
from drivers.cuda.ring import PATIENCE_S, Ring
from drivers.cuda.signal import CudaMarkers, CudaSignal
from drivers.hosted.buffer import check_destination
from drivers.hosted.owned import check_alive, own_buffer, own_program
from drivers.hosted.pending import pump
from drivers.hosted.signal import HostedSignal
from drivers.hosted.standing import FORKED, Standing
from drivers.world.native import address_of
from queues.builder import Built
from queues.graph import Recording


class CudaDevice:
    """One GPU; `drivers.cuda.opening` makes it."""

    def __init__(
        self, name: str, api: Api, facts: Facts, context: Context, rings: tuple[Ring, Ring],
        events: Events, compilers: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.name, self.world, self.api, self.facts = name, api.world, api, facts
        self.compilers, self.context, self.events = compilers, context, events
        self.arch, self.limits = facts.arch, facts.limits
        self._work = Working(name, context)
        self.freed_mark: object = object()
        """Another object whenever something was freed."""
        self._compute, self._copy = self.rings = rings
        api.running = self._running
        self.raw = RawMemory(api, self.limits.memory_bytes)
        self.heap = Heap(name, self.raw, rings, self.limits.memory_bytes)
        self.peers = Peers(self)
        self._standing = Standing(name)
        forks.inherit(self)

    def __repr__(self) -> str:
        return f"CudaDevice({self.name}, {self.facts.title})"

    def after_fork(self) -> None:
        self._work.after_fork()
        self._standing.forked()
        self.heap.after_fork()

    def check_open(self) -> None:
        """Raises: UseAfterFree; DeviceGone on a lost context."""
        self._standing.check()
        if self.api.lost:
            raise self.api.gone()

    def working(self) -> Working:
        """The lock, with the context current. Raises: Unsupported inside of another call."""
        return self._work

    def _running(self) -> tuple[str, str]:
        """The queues that may be running, and kernels on them."""
        busy = [ring for ring in self.rings if ring.busy] or [self._compute]
        names = dict.fromkeys(name for ring in busy for name in ring.kernels)
        return " and ".join(ring.name for ring in busy), ", ".join(names)

    # Memory

    def memory_stats(self) -> MemoryStats:
        """Of its allocator, with what was given back counted as such."""
        with self._work:
            return self.heap.memory_stats()

    def alloc(self, nbytes: int) -> CudaBuffer:
        checked_size(nbytes)
        try:
            return self._alloc(nbytes)
        except OutOfMemory as error:
            self.heap.full(error)
        self.synchronize()
        return self._alloc(nbytes)

    def _alloc(self, nbytes: int) -> CudaBuffer:
        self.check_open()
        with self._work:
            self.check_open()
            return CudaBuffer(self, self.heap.alloc(nbytes), nbytes)

    def wrap(self, memory: memoryview) -> CudaBuffer:
        self.check_open()
        with self._work:
            self.check_open()
            block = self.heap.wrap(memory)
            return CudaBuffer(self, block, block.nbytes)

    def lend(self, gpu_va: int, nbytes: int, owner: object, *, readonly: bool) -> CudaBuffer:
        """With the lock held: checked memory of another library."""
        made = CudaBuffer(self, self.heap.lend(gpu_va, nbytes, owner), nbytes)
        made.readonly = readonly
        return made

    def seen(self, buffer: CudaBuffer) -> memoryview | None:
        """What the host sees of a live buffer."""
        return seen(buffer)

    def give_back(self, block: Any) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self.heap.give_back(block)

    def drop(self, release: Step) -> None:
        """The same for any other object."""
        self.freed_mark = object()
        if self._standing.refused != FORKED:
            self.heap.drop(release)

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        check_alive(things, CudaProgram)

    def reach(self, buffer: CudaBuffer, other: Device) -> int:
        """Give another device access to memory; its address there. Raises: Unsupported."""
        return self.peers.reach(buffer, other)

    # Arguments

    def word(self, value: object) -> int:
        """Of a kernel's argument. Raises: BadArgument, UseAfterFree."""
        if isinstance(value, CudaBuffer):
            self.peers.check_reached(value)
            return value.block.gpu_va
        return launches.integer_word(value)

    def place(self, value: object, nbytes: int, *, write: bool) -> Place:
        """Of a side of a copy, of any open CUDA device. Raises: BadArgument, UseAfterFree."""
        buffer = self.peers.copied(value) if isinstance(value, CudaBuffer) else None
        if buffer is None:
            raise BadArgument(f"{value!r:.80} is not a buffer to copy", hint="pass a buffer")
        launches.check_copy(buffer, nbytes, write=write)
        return Place(buffer.block.gpu_va, buffer.device.context.handle)

    # Programs and work

    def load(self, binary: Binary) -> CudaProgram:
        self.check_open()
        launches.check_binary(binary, self.arch, self.limits)
        with self._work:
            self.check_open()
            self.heap.collect()
            program = load(self.api, self, binary, self.limits.max_block)
            self._standing.programs.add(program)
            return program

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        own = own_program(self, CudaProgram, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        self.check_open()
        with self._work:
            self.check_open()
            own_program(self, CudaProgram, own, len(args))
            kernel, ring = own.kernel, self._compute
            words = kernel.cut([
                value.gpu_va if type(value) is CudaBuffer and value.device is self
                else self.word(value)
                for value in args
            ])  # fmt: skip
            if ring.pending:
                ring.pending.append(Launch(ring, kernel, words, (grid, 1, 1), (own.block, 1, 1)))
            else:
                start(ring, kernel, words, (grid, 1, 1), (own.block, 1, 1))

    def compute_queue(self) -> CudaQueue:
        return CudaQueue(self, self._compute, can_exec=True)

    def copy_queue(self) -> CudaQueue:
        return CudaQueue(self, self._copy, can_exec=False)

    def new_signal(self, value: int = 0) -> CudaSignal:
        launches.check_signal_value(value, self.limits)
        self.check_open()
        signal: CudaSignal = HostedSignal(self, CudaMarkers(self, value), PATIENCE_S)
        self._standing.signals.add(signal)
        return signal

    def run(self, ring: Ring, built: Built[Any]) -> None:
        """Run steps in order, after earlier ones of the ring. Raises: UseAfterFree, before."""
        self.check_open()
        with self._work:
            self.check_open()
            built.check()
            self.push(ring, built.steps)

    def push(self, ring: Ring, steps: Sequence[Any]) -> None:
        """With the lock held: run checked commands."""
        ring.pending.extend(steps)
        self.pump()

    def register(self, graph: Recording[Any]) -> None:
        """Close it with the device. Raises: UseAfterFree."""
        self.check_open()
        self._standing.graphs.add(graph)

    def pump(self) -> None:
        """With the lock held: enqueue what no longer waits."""
        self.check_open()
        pump(self.rings, Ring.advance)

    # Copies, waiting and closing

    def _host(self, value: Any, nbytes: int, *, write: bool) -> CudaBuffer:
        """A buffer of which so many bytes are copied. Raises: BadArgument, UseAfterFree."""
        found: Any = own_buffer(self, value)
        launches.check_copy(found, nbytes, write=write)
        return cast(CudaBuffer, found)

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        buffer, data = self._host(dst, host_nbytes(src), write=True), flat(src)
        self.synchronize()
        self._copied("cuMemcpyHtoDAsync_v2", buffer, data, to_host=False)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        buffer = self._host(src, host_nbytes(dst), write=False)
        check_destination(dst)
        self.synchronize()
        self._copied("cuMemcpyDtoHAsync_v2", buffer, dst.cast("B"), to_host=True)

    def _copied(self, call: str, buffer: CudaBuffer, data: memoryview, *, to_host: bool) -> None:
        """A copy between a buffer and the host, when this returns.

        On the stream of kernels, and waited for: a copy of pageable memory may return before it
        reached the device. # src: CUDA driver API, "API synchronization behavior"
        """
        if not data.nbytes:
            return
        with self._work:
            ends = address_of(data), buffer.block.gpu_va
            dst, src = ends if to_host else reversed(ends)
            self.api.do(call, dst, src, data.nbytes, self._compute.stream)
            self._compute.count()
            self._compute.settle()

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        self.check_open()
        for _ in polls(timeout_s, self.world):
            with self._work:
                self.pump()
                for ring in self.rings:
                    ring.collect()
                if not any(ring.pending or ring.busy for ring in self.rings):
                    return
        waits = next((ring for ring in self.rings if ring.pending or ring.busy), self._compute)
        raise waits.hang(timeout_s)

    def close(self) -> None:
        """Drop work that waits, end what runs, release everything. A second close does nothing.

        Raises: Hang when a kernel does not return, and what libcuda says where the context cannot
        be made current: nothing is released then, and the next close tries again. The first error,
        after all steps have run.
        """
        if self._closed():
            return
        with self._work.closing():
            if self._closed():
                return
            failed = self._ended()
            self._standing.close(failed, [
                self.heap.release, self.heap.close, self.peers.close, self.events.close,
                *(ring.close for ring in self.rings), self._work.leave_current,
                self.context.release,
            ])  # fmt: skip

    def _closed(self) -> bool:
        return bool(self._standing.refused)

    def _ended(self) -> list[DeviceError]:
        """With the lock held: drop what waits and end what runs; why it failed. Raises: Hang."""
        for ring in self.rings:
            ring.pending.clear()
        try:
            for ring in self.rings:
                if not self.api.lost:
                    ring.settle()
        except DeviceError as error:
            if isinstance(error, Hang) and not self.api.lost:
                raise
            return [error]
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
