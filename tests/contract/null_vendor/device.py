"""The made-up vendor's device: what the contracts ask for, composed of `drivers/gpu`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from threading import RLock
from typing import Any, Final, Self

from drivers.base import forks, launches
from drivers.base.buffer import checked_size, flat, host_nbytes
from drivers.base.contracts import (
    Binary,
    Buffer,
    Grid,
    Limits,
    MemoryStats,
    Program,
    World,
)  # fmt: skip
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceError, Hang, MalformedInput, UseAfterFree
from drivers.base.life import Life
from drivers.gpu import arguments
from drivers.gpu.buffer import GpuBuffer
from drivers.gpu.faults import unsignalled
from drivers.gpu.heap import Allocation, Heap
from drivers.gpu.signal import GpuSignal
from drivers.gpu.slots import Slots
from tests.contract.null_vendor.compiler import ARCH
from tests.contract.null_vendor.machine import (
    CODE,
    CODE_BYTES,
    MEMORY_BYTES,
    WAVE,
    NullMachine,
    Packet,
)
from tests.contract.null_vendor.memory import NullIface
from tests.contract.null_vendor.queue import NullQueue

COMPUTE, COPY = 0, 1
PATIENCE_S: Final = 10.0


class NullProgram:
    """A kernel in the GPU's memory."""

    def __init__(self, device: NullDevice, binary: Binary) -> None:
        self.device, self.name, self.needs = device, binary.name, binary.resources
        self._code = device.alloc(len(binary.image))
        self._code.host_bytes()[:] = binary.image
        self.close = self._code.free

    @property
    def gpu_va(self) -> int:
        return self._code.gpu_va


class NullDevice:
    """One made-up GPU."""

    limits = Limits(
        dtypes=frozenset({"int32", "float32"}), memory_bytes=MEMORY_BYTES,
        max_grid=(1 << 16, 8, 8), max_block=64, shared_bytes=1024, wave_lanes=WAVE, signal_bits=16,
    )  # fmt: skip
    arch, compilers = ARCH, ("NULL",)
    refusal: DeviceError | None = None
    given, moment = 0, (None, 0)

    def __init__(self, name: str, world: World, machine: NullMachine) -> None:
        self.name, self.machine, self.iface = name, machine, NullIface(world, machine)
        self.life, self._slots, self._lock = Life(name), Slots(self.iface), RLock()
        self.heap = Heap(self.life, self.iface, self._slots, self, MEMORY_BYTES, unified=True)
        self.heap.overlap()  # its two rings run side by side
        self.wrap, self.freed_mark = self.heap.wrap, object()
        forks.inherit(self)

    def after_fork(self) -> None:
        self._lock = RLock()
        self.refusal = UseAfterFree(f"{self.name} was opened before a fork", hint="open it again")

    def _pump(self) -> bool:
        """Let the machine run; whether it has finished everything."""
        with self._lock:
            self.life.check()
            if self.refusal is not None:
                raise self.refusal
            self.machine.pump()
            return not any(self.machine.rings)

    def push(self, ring: int, packets: Sequence[Packet], check: Callable[[], None]) -> None:
        with self._lock:
            self._pump()
            check()
            self.machine.rings[ring].extend(packets)
            self._pump()

    @property
    def idle(self) -> tuple[bool, bool]:
        compute, copies = self.machine.rings
        return not compute, not copies

    def alloc(self, nbytes: int) -> GpuBuffer:
        checked_size(nbytes)
        with self._lock:
            self._pump()
            return GpuBuffer(self, nbytes, self.heap.block(nbytes))

    def memory_stats(self) -> MemoryStats:
        with self._lock:
            return self.heap.memory_stats()

    def give_back(self, held: Allocation) -> None:
        self.freed_mark = object()
        self.heap.give_back(held)

    def new_signal(self, value: int = 0) -> GpuSignal:
        self.life.check()
        return GpuSignal(self, self._slots, self.signal_value(value))

    def signal_value(self, value: int) -> int:
        launches.check_signal_value(value, self.limits)
        return value

    def load(self, binary: Binary) -> NullProgram:
        launches.check_binary(binary, self.arch, self.limits)
        number = int.from_bytes(binary.image, "little")
        known = len(binary.image) == CODE_BYTES and not binary.entry and number < len(CODE)
        if not known or binary.resources.args is None:
            raise MalformedInput(f"{binary.name} is no code of {self.arch}")
        return NullProgram(self, binary)

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        self.compute_queue().exec(program, args, (grid, 1, 1)).submit()

    def compute_queue(self) -> NullQueue:
        return NullQueue(self, COMPUTE, "its compute queue", can_exec=True)

    def copy_queue(self) -> NullQueue:
        return NullQueue(self, COPY, "its copy queue", can_exec=False)

    def check_alive(self, things: Sequence[object]) -> None:
        for thing in things:
            if isinstance(thing, GpuBuffer | GpuSignal | NullProgram):
                _ = thing.gpu_va

    def check_launch(self, program: Any, nargs: int, grid: Grid, block: Grid | None) -> int:
        """For queues: lanes of its workgroups."""
        if not isinstance(program, NullProgram) or program.device is not self:
            raise launches.bad_program(self.name, program)
        _, args = program.gpu_va, program.needs.args or ()
        if nargs != len(args):
            raise BadArgument(f"{nargs} arguments", hint=f"{program.name} takes {len(args)}")
        launches.check_grid(grid, self.limits)
        if block is None:
            return program.needs.block
        launches.check_block(block, program.needs.max_block, program.name)
        return prod(block)

    # Copies, waiting and closing

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        arguments.copy_va(self, dst, host_nbytes(src), write=True)
        self.synchronize()
        dst.host_bytes()[: src.nbytes] = flat(src)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        arguments.copy_va(self, src, host_nbytes(dst), write=False)
        arguments.check_destination(dst)
        self.synchronize()
        dst.cast("B")[:] = src.host_bytes()[: dst.nbytes]

    def wait_until(
        self, signal: GpuSignal, reached: Callable[[], bool], value: int, timeout_s: float = inf
    ) -> None:
        for _ in polls(min(timeout_s, PATIENCE_S), self.iface.world):
            busy = not self._pump()
            if reached():
                return
        raise unsignalled(self.name, signal.value, value, timeout_s, busy=busy)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        if any(self._pump() for _ in polls(timeout_s, self.iface.world)):
            return
        dump = "\n".join(str(packet) for ring in self.machine.rings for packet in ring)
        raise Hang(f"{self.name} waits", queue=self.name, dump=dump, hint="set what it waits for")

    def close(self) -> None:
        self.life.close(lambda: [self.heap.close], lambda: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
