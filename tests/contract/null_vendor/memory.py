"""The way to the made-up GPU: pieces of its memory, its clock, and that it is pumped."""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.gpu.iface import Use
from tests.contract.null_vendor.machine import BASE, MEMORY_BYTES, NullMachine


class NullMemory:
    """Some bytes of the GPU's memory, which the host sees at another address."""

    def __init__(self, iface: NullIface, name: str, gpu_va: int, nbytes: int) -> None:
        self._iface, self.name, self.gpu_va, self.nbytes = iface, name, gpu_va, nbytes

    def view(self) -> memoryview:
        return self._iface.machine.at(self.gpu_va, self.nbytes)

    def map_to(self, other: object) -> None:
        """It is mapped to the only GPU that shares it."""

    def free(self) -> None:
        self._iface.pieces.remove(self)


class NullIface:
    """What `drivers/gpu` asks of it: memory, first fit; its clock counts packets."""

    def __init__(self, world: World, machine: NullMachine) -> None:
        self.world, self.machine, self.clock = world, machine, self
        self.peeks: list[object] = []
        self.pieces: list[NullMemory] = []
        self.nanoseconds, self.publish = int, machine.pump

    def now_ticks(self) -> int:
        return self.machine.ticks

    def shares(self, other: object) -> bool:
        return other is self

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> NullMemory:
        at = BASE
        for piece in sorted(self.pieces, key=lambda piece: piece.gpu_va):
            if piece.gpu_va - at >= nbytes:
                break
            at = piece.gpu_va + piece.nbytes
        if at + nbytes > BASE + MEMORY_BYTES:
            used = sum(piece.nbytes for piece in self.pieces)
            raise OutOfMemory(name, requested=nbytes, used=used, cached=0, limit=MEMORY_BYTES)
        made = NullMemory(self, name, at, nbytes)
        self.pieces.append(made)
        return made

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> NullMemory:
        raise Unsupported(f"{name} is not the GPU's own memory", hint="copy_in() it")
