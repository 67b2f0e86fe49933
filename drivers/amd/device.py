"""An AMD GPU: kernels on its compute queue, copies on its SDMA engine.

The device composes what `drivers/gpu` has for every vendor with AMD's queues, programs and graphs:

    slots  pair <- recovery <- waits <- heap, transfers      (drivers/gpu)
    maker, reporter <- recovery      programs, recordings <- reporter
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Self

from drivers.amd.arguments import MAX_GRID, bad_count, checked_launch
from drivers.amd.compute_ring import AmdComputeRing
from drivers.amd.faults import AmdReporter
from drivers.amd.graphs import AmdGraphMemory, AqlGraph, Pm4Graph
from drivers.amd.iface import Apertures, Iface
from drivers.amd.limits import HANG_S, limits_of
from drivers.amd.look import Look
from drivers.amd.memory import AmdBuffer
from drivers.amd.pair import AmdPair, AmdRecovery, AmdTransfers, AmdWaits
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.program import AmdProgram
from drivers.amd.programs import Programs
from drivers.amd.queue_maker import QueueMaker
from drivers.amd.scratch import ScratchMemory
from drivers.amd.sdma_ring import SdmaRing
from drivers.amd.signal import AmdSignal, checked_value, new_signal
from drivers.amd.zeroing import zero
from drivers.base import forks, launches
from drivers.base.buffer import checked_size, host_nbytes
from drivers.base.contracts import Binary, Buffer, Program, Signal
from drivers.base.errors import DeviceError, DeviceFault, UseAfterFree
from drivers.base.life import Life
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step, Undo
from drivers.gpu import arguments
from drivers.gpu.blocks import Block
from drivers.gpu.heap import Allocation, Heap
from drivers.gpu.iface import Memory, signal_at
from drivers.gpu.recordings import Recordings
from drivers.gpu.slots import Slots
from queues.amd.compute_queue import AmdComputeQueue
from queues.amd.contracts import Item
from queues.amd.copy_queue import AmdCopyQueue
from queues.amd.pm4 import flavour_of
from queues.amd.pm4_launch import Target
from queues.amd.sdma import Engine

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner, SignalValue

MAX_WORD: Final = (1 << 64) - 1


class AmdDevice:
    """One GPU; `drivers.amd.opening.open_amd` makes it."""

    def __init__(
        self,
        name: str,
        iface: Iface,
        apertures: Apertures | None,
        compilers: tuple[str, ...],
        hang_s: float = HANG_S,
    ) -> None:
        """With `apertures` the compute queue reads AQL packets, else PM4."""
        node, chip = iface.node, iface.chip
        self.name, self.iface, self.node, self.chip = name, iface, node, chip
        self.arch, self.compilers, self.clock = chip.name, compilers, iface.clock
        self.limits = limits_of(chip, node)
        self.mailbox_va, self.event_id = iface.mailbox_va, iface.event_id
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        # src: Linux 3c8bdb51be0e "Add PM4 target XCC": one XCC alone processes a PM4 queue, so its
        # src: kernels share one L2; an AQL queue is processed by all
        xccs = node.num_xcc if apertures is not None else 1
        self.target = Target(
            flavour_of(chip.name), chip.family.architected_scratch, chip.privileged, xccs
        )
        self.life, self.slots = Life(name), Slots(iface)
        self.pair, self.recordings = AmdPair(), Recordings()
        self.scratch = ScratchMemory(iface, xccs)
        self.programs = Programs(self.target, self.pair, self.scratch, self.recordings)
        reporter = AmdReporter(
            name, self.target, self.pair, self.programs, self.recordings,
            lambda: self.heap.blocks(), partial(signal_at, iface),
        )  # fmt: skip
        self.maker = QueueMaker(
            name, iface, self.target, apertures, self.pair, self.slots, self.scratch, hang_s
        )
        self.recovery = AmdRecovery(iface, self.pair, self.maker, reporter)
        self.waits = AmdWaits(self.life, iface.world, self.pair, self.recovery, reporter, hang_s)
        self.heap = Heap(
            self.life, iface, self.slots, self.waits, node.memory_bytes, unified=node.unified
        )
        self.look = Look(iface, self.waits.check_runs)
        stager = None if iface.remote is None else iface.remote.stager
        self.transfers = AmdTransfers(iface, self.pair, self.waits, self.give_back, stager)

    def open_queues(self) -> None:
        """Create both queues; a failure destroys what was created."""
        with Undo() as undo:
            undo.add(self.slots.close)
            self.maker.take_cells()
            self.recovery.open()
            undo.add(self.pair.close)
            self.iface.zero_with(partial(zero, self.pair, self.recovery, self.waits))
            forks.inherit(self)

    def __repr__(self) -> str:
        return f"AmdDevice({self.name}, {self.arch})"

    @property
    def compute(self) -> AmdComputeRing:
        """The queue of kernels; another one after a fault."""
        return self.pair.compute

    @property
    def copies(self) -> SdmaRing:
        """The queue of copies; another one after a fault."""
        return self.pair.copies

    def program_names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code or descriptor is at the address."""
        return self.programs.names(code_va=code_va, descriptor_va=descriptor_va)

    def engine_ring(self, number: int) -> AbstractContextManager[SdmaRing]:
        """A queue on copy engine `number`, those for XGMI after the others, to test it."""
        return self.maker.engine_ring(number, self.recovery)

    # Memory

    def alloc(self, nbytes: int) -> AmdBuffer:
        """Uninitialised memory on the card. Raises: OutOfMemory with the sizes; BadArgument."""
        return AmdBuffer(self, nbytes, self.heap.block(checked_size(nbytes)))

    def wrap(self, memory: memoryview) -> AmdBuffer:
        """Whole pages of host memory as a buffer, without a copy; kept alive until it is freed.

        Raises: Unsupported for memory that does not begin and end with a page; BadArgument.
        """
        wrapped = self.heap.wrap(memory)
        return AmdBuffer(self, wrapped.memory.nbytes, wrapped)

    def import_dmabuf(self, fd: int, first: int, nbytes: int, owner: object) -> AmdBuffer:
        """`nbytes` from byte `first` of a dma-buf on. Raises: BadArgument, Unsupported."""
        held = self.heap.import_dmabuf(fd, first, nbytes, owner)
        self.pair.share_outside()
        made = AmdBuffer(self, held.bo.nbytes, held)
        made.narrow(first, nbytes)
        return made

    def export_dmabuf(self, block: Block) -> int:
        """A new descriptor of a dma-buf of a block. Raises: Unsupported."""
        fd = self.heap.export_dmabuf(block)
        self.pair.share_outside()
        return fd

    def new_signal(self, value: int = 0) -> AmdSignal:
        """A signal at `value`."""
        checked_value(value)
        self.life.check()
        return new_signal(self, self.slots, value, self.iface.remote)

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
        if isinstance(other, AmdDevice):
            self.pair.share_with(other.pair)

    @property
    def refusal(self) -> DeviceError | None:
        """Why it takes no work any more; None while it does."""
        return self.compute.broken

    # Programs and work

    def load(self, binary: Binary) -> AmdProgram:
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
        if not isinstance(program, AmdProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        if type(grid) is not int or not 0 < grid <= MAX_GRID:
            raise launches.bad_grid(grid, self.limits)
        words = [
            arg.gpu_va
            if isinstance(arg, AmdBuffer) and arg.device is self
            else arg
            if type(arg) is int and 0 <= arg <= MAX_WORD
            else arguments.word(self, arg)
            for arg in args
        ]
        if len(words) != program.count:
            raise bad_count(program, len(words))
        for number, mask in program.narrow:
            words[number] &= mask
        _ = program.gpu_va
        if self.look.on:
            self.look()
        ring = self.pair.compute
        with ring.lock:
            if ring.stale:
                ring.refresh()
            ring.quick(program.launcher, words, grid)  # the launcher is of the ring's format

    # Validation for queues

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
        return arguments.word(self, value)

    def argument_words(self, values: Sequence[Buffer | int]) -> list[int]:
        """Those of several. Raises: BadArgument, UseAfterFree."""
        return [
            value.gpu_va
            if isinstance(value, AmdBuffer) and value.device is self
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

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        for thing in things:
            if isinstance(thing, AmdBuffer | AmdProgram | AmdSignal):
                _ = thing.gpu_va

    launch_item = checked_launch
    """A launch of a queue, everything checked. Raises: BadArgument, UseAfterFree."""

    # Queues and graphs

    def compute_queue(self) -> AmdComputeQueue:
        """A builder for the compute queue."""
        return AmdComputeQueue(self)

    def copy_queue(self) -> AmdCopyQueue:
        """A builder for the copy queue, which runs concurrently with the compute queue."""
        self.heap.overlap()
        return AmdCopyQueue(self)

    @property
    def engine(self) -> Engine:
        """The version of the copy engine."""
        return self.copies.engine

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give steps to the compute queue, in order."""
        self.look()
        ring = self.compute
        with ring.lock:
            check()
            if ring.stale:
                ring.refresh()
            for item in items:
                if isinstance(item.program, AmdProgram):
                    launcher = item.program.for_block(item.block, shared_bytes=item.shared_bytes)
                    ring.launch(launcher, item.values, item.grid)
                else:
                    ring.emit(item.words)

    def run_copies(self, packets: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give packets to the copy queue, in order."""
        self.look()
        ring = self.copies
        with ring.lock:
            check()
            self.pair.copied = True
            ring.emit(packets)

    def bind(self, items: Sequence[Item]) -> AmdGraphMemory:
        """Write steps to memory once. Raises: OutOfMemory, Unsupported."""
        self.heap.take_back()
        self.life.check()
        ring = self.compute
        made: AmdGraphMemory
        if isinstance(ring, Pm4Ring):
            made = Pm4Graph(self, items, ring)
        else:
            made = AqlGraph(self, items, self.target)
        self.recordings.add(made)
        return made

    # Copies, waiting, forks

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        """Copy host memory to the start of `dst`, after everything submitted before."""
        self.look()
        self.transfers.copy_in(dst, self.copy_word(dst, host_nbytes(src), write=True), src)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        """Copy the start of `src` to host memory, after everything submitted before."""
        self.look()
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
        self.look()
        self.waits.synchronize(timeout_s)

    def after_fork(self) -> None:
        """In a child: its rings are the parent's memory, its doorbells are not mapped.

        # src: kfd_doorbell.c kfd_doorbell_mmap(): VM_DONTCOPY; amdgpu_gem.c
        # src: amdgpu_gem_object_mmap() lets memory be shared
        """
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

        A second close gives back what the first one could not, and otherwise does nothing; one
        inside the first, from a finaliser for instance, does nothing.
        Raises: the first error, after all steps have run; a fault not reported yet is one.
        """
        self.life.close(self._parts, self.iface.close)

    def _parts(self) -> list[Step]:
        """What closing does, in order."""
        first: list[Step] = [self.recovery.last_fault, self.pair.close, self.scratch.close]
        first += [self.transfers.close, *self.programs.old_scratch]
        held = [*self.recordings.closers, *self.programs.closers]
        return [*first, *held, self.heap.close, self.iface.close]

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
