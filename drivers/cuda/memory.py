"""Memory of a CUDA device: video memory, pages of the host that it reaches, memory of others."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from drivers.base.contracts import Device
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.base.undo import Undo
from drivers.cuda import abi
from drivers.cuda.api import Api, Words
from drivers.cuda.context import Context
from drivers.hosted.buffer import Home, HostedBuffer

DEVICE: Final = "device"
WRAPPED: Final = "wrapped"
LENT: Final = "lent"


class Block:
    """Some memory that the device has an address of."""

    __slots__ = ("cpu_va", "gpu_va", "kind", "nbytes", "owner", "peers")

    def __init__(
        self, gpu_va: int, nbytes: int, kind: str, cpu_va: int = 0, owner: object = None
    ) -> None:
        self.gpu_va, self.nbytes, self.kind, self.cpu_va = gpu_va, nbytes, kind, cpu_va
        self.owner = owner
        """Whose memory it is, kept as long as it is."""
        self.peers: list[Peer] = []
        """Other devices that use it, too."""


class Peer(Protocol):
    """Another device, as far as memory of this one needs it."""

    def quiet(self) -> bool:
        """Whether none of its queues has work. Called with the lock of another device held."""


class RawMemory:
    """Blocks of one context. Called with that context current."""

    def __init__(self, api: Api, max_bytes: int) -> None:
        self.api, self.max_bytes = api, max_bytes
        self.live = 0
        """Blocks that were not given back."""
        self.forked = False

    def alloc(self, nbytes: int) -> Block:
        """Video memory. Raises: OutOfMemory."""
        if nbytes > self.max_bytes:
            raise OutOfMemory(
                f"{nbytes:,} bytes in one buffer", requested=nbytes, used=0, cached=0,
                limit=self.max_bytes, hint="work on smaller pieces",
            )  # fmt: skip
        made = Block(self.api.make("cuMemAlloc_v2", nbytes, nbytes=nbytes), nbytes, DEVICE)
        self.live += 1
        return made

    def wrap(self, memory: memoryview, cpu_va: int) -> Block:
        """Whole pages of the process, which stay alive with the block.

        They are pinned for every context: a kernel of another GPU that used pages which are not
        would end with ILLEGAL_ADDRESS, and its context with it.
        # src: cuda.h, cuMemHostRegister: CU_MEMHOSTREGISTER_PORTABLE
        """
        api, flags = self.api, abi.HOST_PORTABLE | abi.HOST_DEVICEMAP
        api.do("cuMemHostRegister_v2", cpu_va, memory.nbytes, flags)
        with Undo() as undo:
            undo.add(partial(api.do, "cuMemHostUnregister", cpu_va))
            gpu_va = api.make("cuMemHostGetDevicePointer_v2", cpu_va, 0)
        self.live += 1
        return Block(gpu_va, memory.nbytes, WRAPPED, cpu_va, memory)

    def lent(self, gpu_va: int, nbytes: int, owner: object) -> Block:
        """Memory of another library of this process: nothing is made."""
        self.live += 1
        return Block(gpu_va, nbytes, LENT, 0, owner)

    def free(self, block: Block) -> None:
        """Nothing may still be running in it."""
        if self.forked:
            return
        self.live -= 1
        block.owner = None
        if block.kind == DEVICE:
            self.api.do("cuMemFree_v2", block.gpu_va)
        elif block.kind == WRAPPED:
            self.api.do("cuMemHostUnregister", block.cpu_va)

    def range_of(self, pointer: int) -> tuple[int, int, int, int]:
        """(kind of memory, device, start, bytes) of an address; kind 0: CUDA does not know it."""
        which = (
            abi.POINTER_MEMORY_TYPE, abi.POINTER_DEVICE_ORDINAL, abi.POINTER_RANGE_START_ADDR,
            abi.POINTER_RANGE_SIZE,
        )  # fmt: skip
        names = Words([which[0] | which[1] << 32, which[2] | which[3] << 32])
        cells = [Words() for _ in which]
        places = Words([cell.at for cell in cells])
        self.api.do("cuPointerGetAttributes", len(which), names.at, places.at, pointer)
        kind, device, start, nbytes = cells
        return kind.low32, device.low32, start.word, nbytes.word


class BufferOwner(Home, Protocol):
    """The device, as far as a buffer needs it."""

    raw: RawMemory
    context: Context

    def reach(self, buffer: CudaBuffer, other: Device) -> int:
        """Give another device access to memory. Raises: Unsupported."""


class CudaBuffer(HostedBuffer[BufferOwner, Block]):
    """A block of a device, which others may reach."""

    __slots__ = ()

    def map_to(self, other: Device) -> int:
        return self.gpu_va if other is self.device else self.device.reach(self, other)


def seen(buffer: Any) -> memoryview | None:
    """What the host sees of a live buffer: nothing of video memory."""
    block: Block = buffer.block
    if block.kind == WRAPPED and isinstance(block.owner, memoryview):
        return block.owner[: buffer.nbytes]
    return None if buffer.nbytes else memoryview(b"")


def no_peer(name: str, other: object) -> Unsupported:
    """The error for a device that cannot reach memory of another one."""
    return Unsupported(f"{other!r:.80} does not reach memory of {name}", hint="copy it")
