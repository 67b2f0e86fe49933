"""An NVIDIA GPU: kernels on a compute channel, copies on a copy engine's channel.

The device composes what `drivers/gpu` has for every vendor with NVIDIA's channels and programs:

    slots  pair <- recovery <- waits <- heap, transfers      (drivers/gpu)
    maker, reporter <- recovery      programs, recordings <- reporter, maker
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, host_nbytes
from drivers.base.contracts import Binary, Buffer, Grid, Program, Signal
from drivers.base.errors import BadArgument, DeviceError, DeviceFault, UseAfterFree
from drivers.base.life import Life
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step, Undo
from drivers.gpu import arguments
from drivers.gpu.buffer import GpuBuffer
from drivers.gpu.heap import Allocation, Heap
from drivers.gpu.iface import Memory, signal_at
from drivers.gpu.recordings import Recordings
from drivers.gpu.slots import Slots
from drivers.nv.faults import NvReporter
from drivers.nv.graphs import NvGraph
from drivers.nv.limits import limits_of
from drivers.nv.local_memory import LocalMemory
from drivers.nv.nvk.iface import NvkIface
from drivers.nv.program import NvProgram
from drivers.nv.programs import Programs
from drivers.nv.queue_maker import QueueMaker
from drivers.nv.rings import NvComputeRing, NvCopyRing, NvPair, NvRecovery, NvTransfers, NvWaits
from drivers.nv.signal import TIME_OFF, NvSignal, checked_value
from queues.nv.compute_queue import NvComputeQueue
from queues.nv.contracts import Item
from queues.nv.copy_queue import NvCopyQueue
from queues.nv.generations import target_of
from queues.nv.occupancy import check_block

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner, SignalValue

HANG_S: Final = 60.0
"""How long one kernel may take before its queue counts as hung, where NV_HANG_S does not say."""


class NvBuffer(GpuBuffer):
    """Memory on an NVIDIA card, or host memory that it reaches."""

    __slots__ = ()


class NvDevice:
    """One GPU; `drivers.nv.opening.open_nv` makes it."""

    def __init__(
        self, name: str, iface: NvkIface, compilers: tuple[str, ...], hang_s: float = HANG_S,
        *, rounds: bool = False,
    ) -> None:  # fmt: skip
        facts, generation = iface.facts, iface.generation
        self.name, self.iface, self.compilers, self.clock = name, iface, compilers, iface.clock
        self.limits = limits_of(generation, facts, rounds=rounds)
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        self.target = target_of(generation, facts.sm_version)
        self.arch = arch_of(self.target.sm)
        self.life, self.slots = Life(name), Slots(iface)
        self.pair, self.local, self.recordings = NvPair(), LocalMemory(iface, facts), Recordings()
        self.programs = Programs(self.target, self.pair, self.local, self.synchronize)
        reporter = NvReporter(
            name, generation, self.pair, self.programs, lambda: self.heap.blocks(),
            partial(signal_at, iface),
        )  # fmt: skip
        self.maker = QueueMaker(
            name, iface, self.target, self.pair, self.slots, self.local, hang_s,
            self.recordings.packets,
        )  # fmt: skip
        self.recovery = NvRecovery(iface, self.pair, self.maker, reporter)
        self.waits = NvWaits(self.life, iface.world, self.pair, self.recovery, reporter, hang_s)
        self.heap = Heap(
            self.life, iface, self.slots, self.waits, facts.memory_bytes, unified=False
        )
        self.transfers = NvTransfers(iface, self.pair, self.waits, self.give_back)

    def open_queues(self) -> None:
        """Create both queues; a failure destroys what was created."""
        with Undo() as undo:
            undo.add(self.slots.close)
            self.maker.take_cells()
            self.recovery.open()
            undo.add(self.pair.close)
            forks.inherit(self)

    def __repr__(self) -> str:
        return f"NvDevice({self.name}, {self.arch})"

    @property
    def compute(self) -> NvComputeRing:
        """The queue of kernels; another one after a fault."""
        return self.pair.compute

    @property
    def copies(self) -> NvCopyRing:
        """The queue of copies; another one after a fault."""
        return self.pair.copies

    def program_names(self, *, code_va: int = 0) -> list[str]:
        """Programs whose code is at the address."""
        return self.programs.names(code_va)

    # Memory

    def alloc(self, nbytes: int) -> NvBuffer:
        """Uninitialised memory on the card. Raises: OutOfMemory with the sizes; BadArgument."""
        return NvBuffer(self, nbytes, self.heap.block(checked_size(nbytes)))

    def wrap(self, memory: memoryview) -> NvBuffer:
        """Whole pages of host memory as a buffer, without a copy; kept alive until it is freed.

        Raises: Unsupported for memory that does not begin and end with a page; BadArgument.
        """
        wrapped = self.heap.wrap(memory)
        return NvBuffer(self, wrapped.memory.nbytes, wrapped)

    def new_signal(self, value: int = 0) -> NvSignal:
        """A signal at `value`."""
        checked_value(value)
        self.life.check()
        made = NvSignal(self, self.slots, value)
        made.clear_time()
        return made

    def give_back(self, held: Allocation) -> None:
        """Take back memory without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        self.freed_mark = object()
        self.heap.give_back(held)

    def trim(self) -> int:
        """Give cached memory back; how many bytes."""
        return self.heap.trim()

    def memory_stats(self) -> MemoryStats:
        """What the allocator holds and did."""
        return self.heap.memory_stats()

    def share_with(self, other: Owner) -> None:
        """From now on `other` reaches memory of this device."""
        self.heap.overlap()
        self.heap.reached_by(other.heap)

    @property
    def refusal(self) -> DeviceError | None:
        """Why it takes no work any more; None while it does."""
        return self.compute.broken

    # Programs and work

    def load(self, binary: Binary) -> NvProgram:
        """Copy a kernel to the card. Raises: Unsupported, MalformedInput, OutOfMemory."""
        self.life.check()
        self.heap.take_back()
        return self.programs.load(self, binary)

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the card; the compute queue sees it from its next work on."""
        self.transfers.upload(memory, data)

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        """Run one kernel over `grid` workgroups after everything submitted before.

        Raises: BadArgument, UseAfterFree, before anything runs; Hang when the queue stays full.
        """
        if not isinstance(program, NvProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        words = [
            arg.gpu_va
            if isinstance(arg, NvBuffer) and arg.device is self
            else arguments.word(self, arg)
            for arg in args
        ]
        if len(words) != program.count:
            raise bad_count(program, len(words))
        for number, mask in program.narrow:
            words[number] &= mask
        _ = program.gpu_va
        ring = self.pair.compute
        with ring.lock:
            if ring.stale:
                ring.refresh()
            ring.launch(program.launcher, words, (grid, 1, 1))

    # Validation for queues

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
        return arguments.word(self, value)

    def argument_words(self, values: Sequence[Buffer | int]) -> list[int]:
        """Those of several. Raises: BadArgument, UseAfterFree."""
        return [
            value.gpu_va
            if isinstance(value, NvBuffer) and value.device is self
            else arguments.word(self, value)
            for value in values
        ]

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""
        return arguments.copy_va(self, value, nbytes, write=write)

    def signal_value(self, value: int) -> int:
        """A value that queues can compare. Raises: BadArgument."""
        return checked_value(value)

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""
        return arguments.signal_va(self, signal)

    def time_word(self, signal: Signal) -> int:
        """Where a time alone is written. Raises: BadArgument, UseAfterFree."""
        return arguments.signal_va(self, signal) + TIME_OFF

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        for thing in things:
            if isinstance(thing, NvBuffer | NvProgram | NvSignal):
                _ = thing.gpu_va

    def launch_item(
        self,
        program: Program,
        values: Sequence[int],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int = 0,
    ) -> Item:
        """A launch of a queue, everything checked. Raises: BadArgument, UseAfterFree."""
        if not isinstance(program, NvProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        _ = program.gpu_va
        if len(values) != program.count:
            raise bad_count(program, len(values))
        launches.check_grid(grid, self.limits)
        if block is None:
            block = program.kernel.block
        else:
            launches.check_block(block, program.kernel.max_block, repr(program))
            check_block(program.name, program.kernel.code.registers, (block[0], block[1], block[2]))
        launches.check_shared(shared_bytes, program.declared_bytes, self.limits, repr(program))
        return Item((), program, program.masked([*values]), grid, block, shared_bytes)

    # Queues and graphs

    def compute_queue(self) -> NvComputeQueue:
        """A builder for the compute queue."""
        return NvComputeQueue(self)

    def copy_queue(self) -> NvCopyQueue:
        """A builder for the copy queue, which runs concurrently with the compute queue."""
        self.heap.overlap()
        return NvCopyQueue(self)

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give steps to the compute queue, in order."""
        ring = self.compute
        with ring.lock:
            check()
            if ring.stale:
                ring.refresh()
            for item in items:
                if isinstance(item.program, NvProgram):
                    launcher = item.program.for_block(item.block, item.shared_bytes)
                    ring.launch(launcher, item.values, item.grid)
                else:
                    ring.emit(item.words)

    def bind(self, items: Sequence[Item]) -> NvGraph:
        """Write steps to memory once. Raises: OutOfMemory, Unsupported."""
        self.heap.take_back()
        self.life.check()
        made = NvGraph(self, items)
        self.recordings.add(made)
        return made

    def run_copies(self, parts: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give words to the copy queue, in order."""
        ring = self.copies
        with ring.lock:
            check()
            self.pair.copied = True
            ring.emit_all(parts)

    # Copies, waiting, forks

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        """Copy host memory to the start of `dst`, after everything submitted before."""
        self.transfers.copy_in(dst, self.copy_word(dst, host_nbytes(src), write=True), src)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        """Copy the start of `src` to host memory, after everything submitted before."""
        va = self.copy_word(src, host_nbytes(dst), write=False)
        arguments.check_destination(dst)
        self.transfers.copy_out(dst, src, va)

    def wait_until(
        self, signal: SignalValue, reached: Callable[[], bool], value: int, timeout_s: float
    ) -> None:
        """Return once `reached()`. Raises: DeviceTimeout, Hang, DeviceFault."""
        self.waits.wait_until(signal, reached, value, timeout_s)

    def synchronize(self, timeout_s: float = inf) -> None:
        """Return when everything submitted is done and visible, however long that takes.

        Raises: DeviceTimeout after `timeout_s`, which stops nothing; Hang, DeviceFault.
        """
        self.waits.synchronize(timeout_s)

    def after_fork(self) -> None:
        """In a child: its channels and its client of RM are the parent's."""
        gone = UseAfterFree(
            f"{self.name} belongs to the process that this one was forked from",
            hint="open a device of its own in every process, after the fork",
        )
        self.heap.after_fork()
        self.recovery.after_fork()
        self.pair.after_fork(gone)
        self.recordings.after_fork(self.pair.compute_lock)

    # Closing

    def close(self) -> None:
        """Destroy the queues, free everything; Ctrl-C waits for the end of it.

        A second close does nothing.
        Raises: the first error, after all steps have run; a fault not reported yet is one.
        """
        self.life.close(self._parts, self.iface.close)

    def _parts(self) -> list[Step]:
        """What closing does, in order."""
        first: list[Step] = [self.recovery.last_fault, self.pair.close, self.local.close]
        held = [*self.recordings.closers, *self.programs.closers]
        rest = [*held, self.heap.close, self.iface.close]
        return [*first, self.transfers.close, *rest]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        error = exc[1]
        try:
            self.close()
        except DeviceFault as fault:
            if not isinstance(error, BaseException):
                raise
            error.add_note(f"and a fault was reported at close: {fault}")


def bad_count(program: NvProgram, count: int) -> BadArgument:
    """The error for too many or too few arguments."""
    return BadArgument(
        f"{program!r} takes {program.count} arguments, not {count}", hint="pass them all"
    )


def arch_of(sm: int) -> str:
    """The name of an architecture as compilers have it: Hopper's is the one with its own forms."""
    return f"sm_{sm}a" if sm == _HOPPER else f"sm_{sm}"


_HOPPER: Final = 90
