"""An AMD GPU: kernels on its compute queue, copies on its SDMA engine."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Final, Self

from drivers.amd import arguments
from drivers.amd.aql_ring import AqlRing
from drivers.amd.arguments import MAX_GRID
from drivers.amd.chips import MAX_WORKGROUP_LANES, Chip
from drivers.amd.graph_memory import GraphMemory
from drivers.amd.graphs import AqlGraph, Pm4Graph
from drivers.amd.heap import State
from drivers.amd.host_copies import HostCopies
from drivers.amd.iface import Apertures, Iface, Memory
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.memory import AmdBuffer
from drivers.amd.patience import HANG_S
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.program import AmdProgram, load
from drivers.amd.recovery import ComputeRing
from drivers.amd.scratch import ScratchMemory
from drivers.amd.signal import MAX_VALUE, AmdSignal, checked_value
from drivers.base import launches
from drivers.base.contracts import Binary, Buffer, Grid, Limits, Program, Signal
from drivers.base.errors import DeviceFault
from drivers.base.interrupts import deferred
from drivers.base.undo import run_all
from queues.amd import words as amd_words
from queues.amd.aql_launch import AqlLauncher
from queues.amd.compute_queue import AmdComputeQueue
from queues.amd.contracts import Item
from queues.amd.copy_queue import AmdCopyQueue
from queues.amd.hidden import HiddenAqlLauncher, HiddenLauncher
from queues.amd.pm4 import flavour_of
from queues.amd.pm4_launch import Block, Kernel, Launcher, Scratch, Target
from queues.amd.sdma import Engine

VECTOR_BYTES: Final = 16
"""Most bytes that one lane loads at once."""
MAX_WORD: Final = (1 << 64) - 1
_DTYPES: Final = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | {"bool", "float16", "bfloat16", "float32", "float64"}


class AmdDevice(HostCopies):
    """One GPU; `drivers.amd.opening.open_amd` makes it."""

    def __init__(
        self,
        name: str,
        iface: Iface,
        apertures: Apertures | None,
        compilers: tuple[str, ...],
        hang_s: float = HANG_S,
    ) -> None:
        self.node, self.compilers = iface.node, compilers
        node, chip = iface.node, iface.chip
        # src: Linux 3c8bdb51be0e "Add PM4 target XCC": one XCC alone processes a PM4 queue, so its
        # src: kernels share one L2; an AQL queue is processed by all
        xccs = node.num_xcc if apertures is not None else 1
        target = Target(
            flavour_of(chip.name), chip.family.architected_scratch, chip.privileged, xccs
        )
        super().__init__(name, iface, target, apertures, node.memory_bytes, hang_s)
        self.limits = _limits(chip, node)
        self._scratch = ScratchMemory(iface)
        self._programs: weakref.WeakSet[AmdProgram] = weakref.WeakSet()
        self.mailbox_va, self.event_id = iface.mailbox_va, iface.event_id
        self._graphs: weakref.WeakSet[GraphMemory] = weakref.WeakSet()
        self._old_scratch: list[Memory] = []

    def __repr__(self) -> str:
        return f"AmdDevice({self.name}, {self.arch})"

    # Programs

    def load(self, binary: Binary) -> AmdProgram:
        """Copy a kernel to the card. Raises: Unsupported, MalformedInput, OutOfMemory."""
        if self._closed:
            self._refuse()
        if self._returned:
            self._reclaim()
        program = load(self, self.chip, binary)
        self._programs.add(program)
        return program

    def prepare(self, kernel: Kernel, block: Block, reports: bool) -> Launcher | AqlLauncher:
        """A launch of `kernel` that only needs its arguments."""
        if isinstance(self.compute, AqlRing):
            return (HiddenAqlLauncher if kernel.hidden else AqlLauncher)(kernel, block)
        scratch = self._scratch.now if kernel.private_bytes else Scratch()
        ring = self.compute
        va = ring.progress_va if reports else ring.step_va
        kind = HiddenLauncher if kernel.hidden else Launcher
        return kind(self.target, kernel, scratch, block, va, in_graph=not reports)

    def ensure_scratch(self, kernel: Kernel) -> None:
        """Grow scratch for `kernel` and rebuild prepared launches."""
        if kernel.private_bytes <= self._scratch.lane_bytes:
            return
        self.synchronize()
        old = self._scratch.grow(kernel.private_bytes)
        for program in list(self._programs):
            program.renew()
        self.set_scratch(self.compute)
        if old is not None and any(graph.scratch for graph in list(self._graphs)):
            self._old_scratch.append(old)  # a graph's packets hold its address
        elif old is not None:
            old.free()

    def set_scratch(self, ring: ComputeRing) -> None:
        """Write the scratch that there is to an AQL queue's amd_queue_t."""
        if isinstance(ring, AqlRing):
            ring.set_scratch(self._scratch.now, self._scratch.lane_bytes)

    @property
    def last_cu_and_wave(self) -> tuple[int, int]:
        node = self.node
        return node.cus - 1, node.max_waves_per_simd * node.simd_per_cu - 1

    def program_names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code or descriptor is at the address."""
        return [
            program.name
            for program in list(self._programs)
            if program.holds(code_va) or descriptor_va == program.kernel.descriptor_va
        ]

    def graph_names(self, va: int) -> list[str]:
        """Programs of the graph whose packets are at the address."""
        found = [graph for graph in list(self._graphs) if graph.find(va) is not None]
        return [name for graph in found for name in graph.names]

    def graph_packets(self, va: int, nbytes: int) -> bytes:
        """The packets of a graph at the address."""
        for graph in list(self._graphs):
            copy = graph.find(va)
            if copy is not None and va + nbytes <= copy.gpu_va + graph.nbytes:
                return bytes(copy.view[va - copy.gpu_va :][:nbytes])
        return b""

    # Work

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
        if len(words) != len(program.masks):
            raise arguments.bad_count(program, len(words))
        for number, mask in program.narrow:
            words[number] &= mask
        _ = program.gpu_va
        ring = self.compute
        with ring.lock:
            if self.stale:
                self.refresh()
            ring.quick(program.launcher, words, grid)  # the launcher is of the ring's format

    def refresh(self) -> None:
        """With the compute queue's lock: invalidate its caches after writes that bypassed them."""
        mark = self.stale = object()
        self.compute.emit(amd_words.acquire(self.target))
        if self.stale is mark:  # a signal handler may have written since
            self.stale = False

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

    def compute_queue(self) -> AmdComputeQueue:
        """A builder for the compute queue."""
        return AmdComputeQueue(self)

    def copy_queue(self) -> AmdCopyQueue:
        """A builder for the copy queue, which runs concurrently with the compute queue."""
        self.overlap()
        return AmdCopyQueue(self)

    @property
    def engine(self) -> Engine:
        """The version of the copy engine."""
        return self.copies.engine

    def launch_item(
        self, program: Program, values: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        """A launch of a queue, everything checked. Raises: BadArgument, UseAfterFree."""
        return arguments.launch_item(self, program, values, grid, block)

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give steps to the compute queue, in order."""
        ring = self.compute
        with ring.lock:
            check()
            if self.stale:
                self.refresh()
            for item in items:
                if isinstance(item.program, AmdProgram):
                    launcher = item.program.for_block(item.block)
                    ring.launch(launcher, item.values, item.grid)
                else:
                    ring.emit(item.words)

    def bind(self, items: Sequence[Item]) -> GraphMemory:
        """Write steps to memory once. Raises: OutOfMemory, Unsupported."""
        if self._returned:
            self._reclaim()
        if self._closed:
            self._refuse()
        ring = self.compute
        made = Pm4Graph(self, items, ring) if isinstance(ring, Pm4Ring) else AqlGraph(self, items)
        self._graphs.add(made)
        return made

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""
        return arguments.signal_va(self, signal)

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
        for thing in things:
            if isinstance(thing, AmdBuffer | AmdProgram | AmdSignal):
                _ = thing.gpu_va

    # Closing

    def close(self) -> None:
        """Destroy the queues, free everything; Ctrl-C waits for the end of it.

        A second close gives back what the first one could not, and otherwise does nothing; one
        inside the first, from a finaliser for instance, does nothing.
        Raises: the first error, after all steps have run; a fault not reported yet is one.
        """
        with deferred():
            if self._state is State.OPEN:
                self._close()
            elif self._state is State.CLOSED:
                self.iface.close()

    def _close(self) -> None:
        self._state = State.CLOSING
        parts = [self.last_fault, self.close_queues, self._scratch.close]
        if self._staging is not None:
            parts.append(self._staging.close)
        parts += [bo.free for bo in self._old_scratch]
        parts += [graph.close for graph in list(self._graphs)]
        programs = [program.close for program in list(self._programs) if program.alive]
        run_all([*parts, *programs, self._close_memory, self.iface.close])

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


def _limits(chip: Chip, node: GpuNode) -> Limits:
    return Limits(
        dtypes=_DTYPES,
        memory_bytes=node.memory_bytes,
        threads=node.cus,
        vector_bytes=VECTOR_BYTES,
        max_grid=(MAX_GRID, MAX_GRID, MAX_GRID),
        max_block=MAX_WORKGROUP_LANES,
        shared_bytes=chip.lds_bytes,
        wave_lanes=chip.family.wave_lanes,
        signal_bits=MAX_VALUE.bit_length(),
    )
