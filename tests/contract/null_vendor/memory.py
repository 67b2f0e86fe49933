"""The made-up vendor's memory, buffers and signals."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Device
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceTimeout, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.launches import check_signal_value
from tests.contract.null_vendor.machine import BASE, MEMORY_BYTES

if TYPE_CHECKING:
    from tests.contract.null_vendor.device import NullDevice

PATIENCE_S = 10.0


class Block:
    """Some bytes of the GPU's memory."""

    def __init__(self, gpu_va: int, nbytes: int) -> None:
        self.gpu_va, self.nbytes = gpu_va, nbytes


class RawMemory:
    """First fit; the caching allocator above keeps what is freed."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def alloc(self, nbytes: int) -> Block:
        at = BASE
        for block in self.blocks:
            if block.gpu_va - at >= nbytes:
                break
            at = block.gpu_va + block.nbytes
        used = sum(block.nbytes for block in self.blocks)
        if at + nbytes > BASE + MEMORY_BYTES:
            raise OutOfMemory(
                f"{nbytes} bytes", requested=nbytes, used=used, cached=0, limit=MEMORY_BYTES
            )
        made = Block(at, nbytes)
        self.blocks = sorted([*self.blocks, made], key=lambda block: block.gpu_va)
        return made

    def free(self, block: Block) -> None:
        self.blocks.remove(block)


class Held(FreedOnce):
    """What holds a block: given back by name, once, or by the finaliser."""

    def __init__(self, device: NullDevice, block: Block, nbytes: int) -> None:
        super().__init__(block.gpu_va, nbytes)
        self.device, self._block = device, block

    def free(self) -> None:
        self._end()
        self.device.give_back(self._block)

    def __del__(self) -> None:
        with suppress(UseAfterFree):
            self.free()


class NullBuffer(Held):
    """Memory of the GPU, which the host sees at another address."""

    @property
    def host(self) -> memoryview:
        return self.device.machine.at(self.gpu_va, self.nbytes)

    def view(self) -> memoryview:
        return self.host

    def map_to(self, other: Device) -> int:
        if other is not self.device:
            raise Unsupported(f"memory of {self.device.name} stays there", hint="copy it")
        return self.gpu_va


class NullSignal(Held):
    """Two words of the GPU's memory: a value and the time of its last change, in ticks."""

    def __init__(self, device: NullDevice, block: Block, value: int) -> None:
        super().__init__(device, block, 16)
        self._words = device.machine.at(block.gpu_va, 16).cast("Q")
        self._words[0], self._words[1] = value, 0

    @property
    def value(self) -> int:
        _ = self.gpu_va
        return self._words[0]

    @property
    def timestamp_ns(self) -> int:
        _ = self.gpu_va
        return self._words[1]

    def set(self, value: int) -> None:
        check_signal_value(value, self.device.limits)
        if value < self.value:
            raise BadArgument(f"a signal at {self.value} cannot go back to {value}", hint="no")
        self._words[0] = value
        self.device.pump()

    def wait(self, value: int, timeout_s: float = PATIENCE_S) -> None:
        for _ in polls(timeout_s, self.device.world):
            self.device.pump()
            if self.value >= value:
                return
        raise DeviceTimeout(
            f"a signal is at {self.value} after {timeout_s:g} s, not at {value}",
            register="signal", last=self.value, hint="submit the work that signals it",
        )  # fmt: skip

    def close(self) -> None:
        self.free()
