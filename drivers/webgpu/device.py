"""A WebGPU device: what the contracts ask for, over the one queue that it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes
from drivers.base.contracts import Binary, Buffer, Program, World
from drivers.base.deadline import polls
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    Hang,
    Unsupported,
)
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step as Undoing
from drivers.base.undo import run_all
from drivers.hosted.buffer import HostedBuffer, check_destination
from drivers.hosted.owned import check_alive, own_buffer, own_code, own_program
from drivers.hosted.pending import pump, stuck, waiting
from drivers.hosted.signal import HostedSignal
from drivers.hosted.standing import Standing
from drivers.webgpu.clock import Clock
from drivers.webgpu.copies import Copies
from drivers.webgpu.facts import Facts
from drivers.webgpu.link import Link
from drivers.webgpu.memory import Block, Heap, WebGpuBuffer
from drivers.webgpu.modules import Builder
from drivers.webgpu.owner import WebGpuOwner
from drivers.webgpu.program import BindLayouts, WebGpuProgram
from drivers.webgpu.queue import Launch, Step, WebGpuQueue
from drivers.webgpu.ring import Ring
from drivers.webgpu.signal import PATIENCE_S, WebGpuMarkers, WebGpuSignal
from drivers.webgpu.stream import Stream
from queues.builder import Built
from queues.webgpu.kernel_code import WgslCode

COMPILERS: Final = ("WGSL",)


class WebGpuDevice:
    """One adapter's device; `drivers.webgpu.opening` makes it."""

    def __init__(self, name: str, world: World, facts: Facts, link: Link, stream: Stream) -> None:
        self.name, self.world, self.facts, self.link = name, world, facts, link
        self.compilers: tuple[str, ...] = COMPILERS
        self.arch, self.limits = facts.arch, facts.limits
        self.freed_mark: object = object()
        """Another object whenever something was freed."""
        self.stream, self.copies, self.clock = stream, Copies(stream), Clock(stream)
        self.layouts, self.builder = BindLayouts(link), Builder(link, facts.arch)
        self._compute, self._copy = self.rings = _rings(name)
        self.heap = Heap(
            name, stream, facts.max_buffer_bytes, self.limits.memory_bytes, self._waits,
            self._forget,
        )  # fmt: skip
        self._dropped: deque[Undoing] = deque()
        """What finalisers gave back: they only append, and `_collect` empties it."""
        self._standing = Standing(name)
        forks.inherit(self)

    def __repr__(self) -> str:
        return f"WebGpuDevice({self.name}, {self.facts.about.title})"

    def after_fork(self) -> None:
        self._standing.forked()
        self.link.after_fork()
        self.heap.after_fork()

    def check_open(self) -> None:
        """Raises: UseAfterFree."""
        self._standing.check()

    def working(self) -> AbstractContextManager[object]:
        """Its lock. Raises: Unsupported inside of another call."""
        return self.link.alone()

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of them is gone."""
        check_alive(things, WebGpuProgram)

    def _waits(self) -> bool:
        return waiting(self.rings)

    def now_ns(self) -> int:
        """The host's clock, for signals that the host sets."""
        return self.clock.host_ns()

    # Memory

    def memory_stats(self) -> MemoryStats:
        """Of its allocator, with what was given back counted as such."""
        with self.link.alone():
            return self.heap.memory_stats()

    def alloc(self, nbytes: int) -> WebGpuBuffer:
        checked_size(nbytes)
        with self.link.alone():
            self.check_open()
            self._collect()
            return HostedBuffer(self, self.heap.alloc(nbytes), nbytes)

    def seen(self, buffer: WebGpuBuffer) -> None:
        """Nothing: the host has no mapping of storage buffers."""

    def wrap(self, memory: memoryview) -> Buffer:
        raise Unsupported(f"{self.name} has memory of its own alone", hint="copy_in() it")

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self.heap.give_back(block)

    def drop_program(self, release: Undoing) -> None:
        """The same for a program's objects."""
        self.freed_mark = object()
        if not self._standing.refused:
            self._dropped.append(release)

    def _collect(self) -> None:
        """With the lock held: release objects that nothing refers to any more."""
        if self._dropped and not self._waits():
            self.stream.submit()
            run_all([self._dropped.popleft() for _ in range(len(self._dropped))])

    def _forget(self, block: Block) -> None:
        for program in list(self._standing.programs):
            program.forget(block)

    def apart(
        self, program: WebGpuProgram, blocks: tuple[Block, ...]
    ) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """(arguments, copies): WebGPU binds nothing twice in a kernel that writes it, so what is
        also read is read from a copy. Raises: BadArgument where it is written twice."""
        written = program.written(blocks)
        if len(set(written)) != len(written):
            raise BadArgument(
                f"{program.name} would write one buffer as two", hint="pass different buffers"
            )
        copies: dict[Block, Block] = {}
        try:
            for block in dict.fromkeys(blocks):
                if block in written and blocks.count(block) > 1:
                    copies[block] = self.heap.alloc(block.nbytes)
                    self.stream.copy(copies[block].handle, block.handle, block.nbytes)
        except BaseException:
            self.heap.give_back(*copies.values())
            raise
        return program.read_from(blocks, copies), tuple(copies.values())

    # Programs and work

    def load(self, binary: Binary) -> WebGpuProgram:
        with self.link.alone():
            self.check_open()
            launches.check_binary(binary, self.arch, self.limits)
            code = WgslCode.decode(binary.image)
            own_code(self.arch, binary, len(code.access))
            self._collect()
            program = WebGpuProgram(self, binary.name, code, binary.resources.block)
            self._standing.programs.add(program)
            return program

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        own = own_program(self, WebGpuProgram, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        with self.link.alone():
            self.check_open()
            own_program(self, WebGpuProgram, own, len(args))
            blocks = tuple(own_buffer(self, arg).block for arg in args)
            step = Launch(own, blocks, (grid, 1, 1), own.block)
            if self._compute.pending:
                self._compute.pending.append(step)
                self.pump()
            else:
                step.run(self)

    def compute_queue(self) -> WebGpuQueue:
        return WebGpuQueue(self, self._compute, can_exec=True)

    def copy_queue(self) -> WebGpuQueue:
        return WebGpuQueue(self, self._copy, can_exec=False)

    def new_signal(self, value: int = 0) -> WebGpuSignal:
        launches.check_signal_value(value, self.limits)
        with self.link.alone():
            self.check_open()
            signal: WebGpuSignal = HostedSignal(self, WebGpuMarkers(self, value), PATIENCE_S)
            self._standing.signals.add(signal)
            return signal

    def run(self, ring: Ring[WebGpuOwner], built: Built[Step]) -> None:
        """Run steps in order, after earlier ones of the ring."""
        with self.link.alone():
            self.check_open()
            built.check()
            if ring.pending:
                ring.pending.extend(built.steps)
                self.pump()
                return
            for place, step in enumerate(built.steps):
                if not step.run(self):
                    ring.pending.extend(built.steps[place:])
                    break
            self.pump()
            self.stream.submit()

    def pump(self) -> None:
        """With the lock held: encode what no longer waits."""
        self.check_open()
        pump(self.rings, lambda ring: ring.advance(self))

    # Copies, waiting and closing

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        buffer: WebGpuBuffer = own_buffer(self, dst)
        block = buffer.block
        launches.check_copy(buffer, host_nbytes(src), write=True)
        data = flat(src)
        self._settle(PATIENCE_S)
        if data.nbytes:
            with self.link.alone():
                self.check_open()
                self.copies.write(block, data, buffer.nbytes)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        buffer: WebGpuBuffer = own_buffer(self, src)
        block = buffer.block
        launches.check_copy(buffer, host_nbytes(dst), write=False)
        check_destination(dst)
        self._settle(PATIENCE_S)
        if dst.nbytes:
            with self.link.alone():
                self.check_open()
                self.stream.read(block.handle, 0, dst.cast("B"))

    def _settle(self, timeout_s: float) -> None:
        """Return when no step waits for a signal. Raises: Hang."""
        for _ in polls(timeout_s, self.world):
            with self.link.alone():
                self.pump()
                if not self._waits():
                    return
        raise stuck(self.rings)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        self._settle(timeout_s)
        with self.link.alone():
            self.check_open()
            position = self.stream.flush()
        for _ in polls(timeout_s, self.world):
            with self.link.alone():
                self.check_open()
                if self.stream.reached(position):
                    return
        raise Hang(
            f"{self.name} is not done after {timeout_s:g} s", queue=self._compute.name,
            dump=self._compute.dump(), hint="wait longer, or make smaller kernels",
        )  # fmt: skip

    def close(self) -> None:
        """Drop work that waits, end what runs, release everything. A second close does nothing.

        Raises: Hang when a kernel does not return: nothing is released below it, and the next
        close tries again. The first error, after all steps have run: also of a lost device.
        """
        with self.link.alone():
            if self._standing.refused:
                return
            failed = self._ended()
            self.builder.withdraw()
            self._standing.close(failed, [
                self._release_dropped, self.layouts.close, self.heap.close,
                *self.stream.close_steps(), self.link.close,
            ])  # fmt: skip

    def _release_dropped(self) -> None:
        run_all([self._dropped.popleft() for _ in range(len(self._dropped))])

    def _ended(self) -> list[DeviceError]:
        """Drop what waits and end what runs; why it failed, of a device that runs nothing more."""
        for ring in self.rings:
            ring.pending.clear()
        try:
            self.stream.wait(self.stream.position, PATIENCE_S, self.name)
        except Hang:
            raise
        except DeviceError as error:
            return [error]
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _rings(name: str) -> tuple[Ring[WebGpuOwner], Ring[WebGpuOwner]]:
    return Ring(f"{name} compute"), Ring(f"{name} copy")
