"""An Adreno: kernels in one context of its kernel driver, copies in another.

The device composes what `drivers/gpu` has for every vendor with Adreno's streams and programs:

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
from drivers.base.errors import DeviceError, DeviceFault, UseAfterFree
from drivers.base.life import Life
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step, Undo
from drivers.gpu import arguments
from drivers.gpu.blocks import Block, Imported
from drivers.gpu.heap import Allocation, Heap
from drivers.gpu.iface import Memory, signal_at
from drivers.gpu.recordings import Recordings
from drivers.gpu.slots import Slots
from drivers.qcom.buffer import QcomBuffer
from drivers.qcom.clock import Awake, stamp
from drivers.qcom.copier import Copier
from drivers.qcom.faults import QcomReporter
from drivers.qcom.gate import Gate
from drivers.qcom.graphs import QcomGraph
from drivers.qcom.iface import QcomIface
from drivers.qcom.limits import limits_of
from drivers.qcom.private_memory import PrivateMemory
from drivers.qcom.program import QcomProgram
from drivers.qcom.programs import Programs, bad_count, is_long
from drivers.qcom.queue_maker import QueueMaker
from drivers.qcom.rings import (
    QcomComputeRing,
    QcomCopyRing,
    QcomPair,
    QcomRecovery,
    QcomTransfers,
    QcomWaits,
)
from drivers.qcom.signal import TIME_OFF, QcomSignal, checked_value
from queues.qcom.compute_queue import QcomComputeQueue
from queues.qcom.contracts import Item
from queues.qcom.copy_queue import QcomCopyQueue
from queues.qcom.words import syncs_of, writes_time

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner, SignalValue

HANG_S: Final = 60.0
"""How long one kernel may take before its queue counts as hung, where QCOM_HANG_S does not say."""


class QcomDevice:
    """One GPU; `drivers.qcom.opening.open_qcom` makes it."""

    def __init__(
        self, name: str, iface: QcomIface, compilers: tuple[str, ...], hang_s: float = HANG_S,
        *, features: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        chip = iface.chip
        self.name, self.iface, self.compilers, self.clock = name, iface, compilers, iface.clock
        self.limits, self.chip = limits_of(chip, iface.memory_bytes, features), chip
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        self.arch = chip.name
        self.life, self.slots = Life(name), Slots(iface)
        self.pair, self.private = QcomPair(), PrivateMemory(iface, chip)
        self.recordings = Recordings()
        self.programs = Programs(chip, self.pair, self.private, iface.budget_s)
        reporter = QcomReporter(
            name, self.pair, self.programs, lambda: self.heap.blocks(), partial(signal_at, iface)
        )
        self.gate = Gate(partial(signal_at, iface))
        iface.published.append(self.gate.let_go)
        self.maker = QueueMaker(
            name, iface, self.pair, self.slots, self.gate, hang_s, self.recordings.packets
        )
        self.recovery = QcomRecovery(iface, self.pair, self.maker, reporter)
        self.waits = QcomWaits(self.life, iface.world, self.pair, self.recovery, reporter, hang_s)
        self.heap = Heap(self.life, iface, self.slots, self.waits, iface.memory_bytes, unified=True)
        self.copier = Copier(iface, chip)
        self.awake = Awake(
            iface.clock, iface.world, iface.sleeps, partial(stamp, self), self.life.check
        )
        self.transfers = QcomTransfers(iface, self.pair, self.waits, self.give_back)

    def open_queues(self) -> None:
        """Create both queues; a failure destroys what was created."""
        with Undo() as undo:
            undo.add(self.slots.close)
            self.maker.take_cells()
            self.recovery.open()
            undo.add(self.pair.close)
            forks.inherit(self)

    def __repr__(self) -> str:
        return f"QcomDevice({self.name}, {self.arch})"

    @property
    def compute(self) -> QcomComputeRing:
        """The queue of kernels; another one after a fault."""
        return self.pair.compute

    @property
    def copies(self) -> QcomCopyRing:
        """The queue of copies; another one after a fault."""
        return self.pair.copies

    def program_names(self, *, code_va: int = 0) -> list[str]:
        """Programs whose code is at the address."""
        return self.programs.names(code_va)

    # Memory

    def alloc(self, nbytes: int) -> QcomBuffer:
        """Uninitialised memory in the machine. Raises: OutOfMemory with the sizes; BadArgument."""
        return QcomBuffer(self, nbytes, self.heap.block(checked_size(nbytes)))

    def wrap(self, memory: memoryview) -> QcomBuffer:
        """Whole pages of host memory as a buffer, without a copy; kept alive until it is freed.

        Raises: Unsupported for memory that does not begin and end with a page; BadArgument.
        """
        wrapped = self.heap.wrap(memory)
        return QcomBuffer(self, wrapped.memory.nbytes, wrapped)

    def import_address(self, gpu_va: int, nbytes: int, owner: object) -> QcomBuffer:
        """Memory of another library of this process. Raises: BadArgument, Unsupported."""
        self.life.check()
        self.heap.take_back()
        held = Imported(self.iface.lent(gpu_va, nbytes), owner)
        self.heap.imported.append(held)
        self.pair.share_outside()
        return QcomBuffer(self, nbytes, held)

    def import_dmabuf(self, fd: int, first: int, nbytes: int, owner: object) -> QcomBuffer:
        """`nbytes` from byte `first` of a dma-buf on. Raises: BadArgument, Unsupported."""
        held = self.heap.import_dmabuf(fd, first, nbytes, owner)
        self.pair.share_outside()
        made = QcomBuffer(self, held.bo.nbytes, held)
        made.narrow(first, nbytes)
        return made

    def export_dmabuf(self, block: Block) -> int:
        """A new descriptor of a dma-buf of a block. Raises: Unsupported."""
        fd = self.heap.export_dmabuf(block)
        self.pair.share_outside()
        return fd

    def new_signal(self, value: int = 0) -> QcomSignal:
        """A signal at `value`."""
        checked_value(value)
        self.life.check()
        made = QcomSignal(self, self.slots, value)
        self.gate.forget(made.gpu_va)
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

    def load(self, binary: Binary) -> QcomProgram:
        """Copy a kernel to the GPU. Raises: Unsupported, MalformedInput, OutOfMemory."""
        self.life.check()
        self.heap.take_back()
        return self.programs.load(self, binary)

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the GPU; the compute queue sees it from its next work on."""
        self.transfers.upload(memory, data)

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        """Run one kernel over `grid` workgroups after everything submitted before.

        Raises: BadArgument, UseAfterFree, before anything runs; Hang when the queue stays full.
        """
        if not isinstance(program, QcomProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        if type(grid) is not int or not 0 < grid <= self.limits.max_grid[0]:
            raise launches.bad_grid(grid, self.limits)
        words = [
            arg.gpu_va
            if isinstance(arg, QcomBuffer) and arg.device is self
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
            go = ring.launch if grid <= program.launcher.most_groups else ring.launch_all
            go(program.launcher, words, (grid, 1, 1))

    # Validation for queues

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
        return arguments.word(self, value)

    def argument_words(self, values: Sequence[Buffer | int]) -> list[int]:
        """Those of several. Raises: BadArgument, UseAfterFree."""
        return [
            value.gpu_va
            if isinstance(value, QcomBuffer) and value.device is self
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
            if isinstance(thing, QcomBuffer | QcomProgram | QcomSignal):
                _ = thing.gpu_va

    def launch_item(
        self, program: Program, values: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        """A launch of a queue, everything checked. Raises: BadArgument, UseAfterFree."""
        if not isinstance(program, QcomProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        _ = program.gpu_va
        if len(values) != program.count:
            raise bad_count(program, len(values))
        launches.check_grid(grid, self.limits)
        if block is None:
            block = program.kernel.block
        else:
            launches.check_block(block, program.kernel.max_block, repr(program))
        return Item((), program, program.masked([*values]), grid, block)

    # Queues and graphs

    def compute_queue(self) -> QcomComputeQueue:
        """A builder for the compute queue."""
        return QcomComputeQueue(self)

    def copy_queue(self) -> QcomCopyQueue:
        """A builder for the copy queue, which runs concurrently with the compute queue."""
        self.heap.overlap()
        return QcomCopyQueue(self)

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give steps to the compute queue, in order."""
        if any(writes_time(item.words) for item in items):
            self.awake.look(all(self.pair.idle))
        ring = self.compute
        with ring.lock:
            check()
            if ring.stale:
                ring.refresh()
            for item in items:
                if isinstance(item.program, QcomProgram):
                    ring.launch_all(item.program.for_block(item.block), item.values, item.grid)
                else:
                    ring.emit(item.words, syncs_of(item.words))

    def in_pieces(self, items: Sequence[Item]) -> bool:
        """Whether a launch among them is so long that it is one in pieces."""
        return any(map(is_long, items))

    def bind(self, items: Sequence[Item]) -> QcomGraph:
        """Write steps to memory once. Raises: OutOfMemory, Unsupported."""
        self.heap.take_back()
        self.life.check()
        made = QcomGraph(self, items)
        self.recordings.add(made)
        return made

    def run_copies(self, parts: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give words to the copy queue, in order."""
        parts = [*parts]
        if any(map(writes_time, parts)):
            self.awake.look(all(self.pair.idle))
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
        """In a child: its contexts and its mappings are the parent's."""
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
        first: list[Step] = [self.recovery.last_fault, self.pair.close, self.private.close]
        held = [*self.recordings.closers, *self.programs.closers]
        rest = [*held, self.copier.close, self.heap.close, self.iface.close]
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
