"""The made-up vendor's device: what the contracts ask for, composed of the shared parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from threading import RLock
from typing import Any, Final, Self

from drivers.base import forks, launches
from drivers.base.allocator import Allocator
from drivers.base.buffer import checked_size, flat
from drivers.base.contracts import Binary, Buffer, Grid, Limits, Program, World
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, Hang, MalformedInput, Unsupported, UseAfterFree
from tests.contract.null_vendor.compiler import ARCH
from tests.contract.null_vendor.machine import (
    CODE,
    CODE_BYTES,
    MEMORY_BYTES,
    WAVE,
    NullMachine,
    Packet,
)
from tests.contract.null_vendor.memory import (
    PATIENCE_S,
    Block,
    Held,
    NullBuffer,
    NullSignal,
    RawMemory,
)
from tests.contract.null_vendor.queue import NullQueue

COMPUTE, COPY = 0, 1
_U64: Final = (1 << 64) - 1


class NullProgram(Held):
    """A kernel in the GPU's memory."""

    def __init__(self, device: NullDevice, binary: Binary, block: Block) -> None:
        super().__init__(device, block, len(binary.image))
        self.name, self.needs = binary.name, binary.resources
        device.machine.at(self.gpu_va, self.nbytes)[:] = binary.image

    def close(self) -> None:
        self.free()


class NullDevice:
    """One made-up GPU."""

    limits = Limits(
        dtypes=frozenset({"int32", "float32"}), memory_bytes=MEMORY_BYTES,
        max_grid=(1 << 16, 8, 8), max_block=64, shared_bytes=1024, wave_lanes=WAVE, signal_bits=16,
    )  # fmt: skip
    arch, compilers = ARCH, ("NULL",)

    def __init__(self, name: str, world: World, machine: NullMachine) -> None:
        self.name, self.world, self.machine = name, world, machine
        raw = RawMemory()
        self._memory = Allocator(raw.alloc, raw.free, MEMORY_BYTES, name=name)
        self._lock = RLock()
        self._waiting: list[Block] = []
        """Given back while packets may name it."""
        self._refused = ""
        self.freed_mark = object()
        forks.inherit(self)

    def after_fork(self) -> None:
        self._lock, self._refused = RLock(), "was opened before a fork"

    def _check(self) -> None:
        if self._refused:
            raise UseAfterFree(f"{self.name} {self._refused}", hint="open it again")

    def pump(self) -> None:
        with self._lock:
            self._check()
            self.machine.pump()
            while self._waiting and not any(self.machine.rings):
                self._memory.free(self._waiting.pop())

    def push(self, ring: int, packets: Sequence[Packet], check: Callable[[], None]) -> None:
        with self._lock:
            self._check()
            check()
            self.machine.rings[ring].extend(packets)
            self.pump()

    def _block(self, nbytes: int) -> Block:
        with self._lock:
            self.pump()
            return self._memory.alloc(nbytes)

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        self.freed_mark = object()
        self._waiting.append(block)

    def alloc(self, nbytes: int) -> NullBuffer:
        return NullBuffer(self, self._block(checked_size(nbytes)), nbytes)

    def wrap(self, memory: memoryview) -> Buffer:
        raise Unsupported(f"{self.name} has memory of its own alone", hint="copy_in() it")

    def new_signal(self, value: int = 0) -> NullSignal:
        launches.check_signal_value(value, self.limits)
        return NullSignal(self, self._block(16), value)

    def load(self, binary: Binary) -> NullProgram:
        launches.check_binary(binary, self.arch, self.limits)
        number = int.from_bytes(binary.image, "little")
        known = len(binary.image) == CODE_BYTES and not binary.entry and number < len(CODE)
        if not known or binary.resources.args is None:
            raise MalformedInput(f"{binary.name} is no code of {self.arch}")
        return NullProgram(self, binary, self._block(len(binary.image)))

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        self.compute_queue().exec(program, args, (grid, 1, 1)).submit()

    def compute_queue(self) -> NullQueue:
        return NullQueue(self, COMPUTE, "its compute queue", can_exec=True)

    def copy_queue(self) -> NullQueue:
        return NullQueue(self, COPY, "its copy queue", can_exec=False)

    # What queues ask for

    def check_alive(self, things: Sequence[object]) -> None:
        for thing in things:
            if isinstance(thing, Held):
                _ = thing.gpu_va

    def check_launch(self, program: object, nargs: int, grid: Grid, block: Grid | None) -> int:
        """Lanes of its workgroups."""
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

    def word(self, value: Any) -> int:
        if isinstance(value, NullBuffer):
            return self.copy_va(value, 0)
        if type(value) is not int or not -(1 << 63) <= value <= _U64:
            raise BadArgument(f"{value!r} is no kernel argument", hint="a buffer or a 64-bit int")
        return value & _U64

    def copy_va(self, value: Any, nbytes: int) -> int:
        if not isinstance(value, NullBuffer) or value.device is not self:
            raise BadArgument(f"{value!r} is no buffer of {self.name}", hint="copy it there")
        if nbytes > value.nbytes:
            raise BadArgument(f"{nbytes} bytes are outside of {value.nbytes}", hint="copy less")
        return value.gpu_va

    def signal_va(self, value: object) -> int:
        if not isinstance(value, NullSignal) or value.device is not self:
            raise BadArgument(f"{value!r} is no signal of {self.name}", hint="use new_signal()")
        return value.gpu_va

    # Copies, waiting and closing

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        va = self.copy_va(dst, src.nbytes)
        self.synchronize()
        self.machine.at(va, src.nbytes)[:] = flat(src)

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        va = self.copy_va(src, dst.nbytes)
        if dst.readonly or not dst.c_contiguous:
            raise BadArgument("the destination is read-only or not contiguous", hint="another one")
        self.synchronize()
        dst.cast("B")[:] = self.machine.at(va, dst.nbytes)

    def synchronize(self, timeout_s: float = PATIENCE_S) -> None:
        for _ in polls(timeout_s, self.world):
            self.pump()
            if not any(self.machine.rings):
                return
        dump = "\n".join(str(packet) for ring in self.machine.rings for packet in ring)
        raise Hang(f"{self.name} waits", queue=self.name, dump=dump, hint="set what it waits for")

    def close(self) -> None:
        with self._lock:
            self._refused = self._refused or "is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
