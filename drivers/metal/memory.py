"""Memory of a Metal device: shared buffers, which the host sees at an address of its own.

Buffers of other libraries may be private: the host does not see these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Protocol, TypeAlias

from drivers.base.undo import Undo
from drivers.hosted.buffer import Home, HostedBuffer
from drivers.metal import abi
from drivers.metal.api import Api, Owned, retained
from drivers.metal.errors import no_memory
from drivers.world.native import memory_at

SHARED: Final = abi.CONSTANTS["MTL::ResourceStorageModeShared"]
PAGE_BYTES: Final = 16 << 10
"""Of Apple silicon; memory without a copy is whole pages.
# src: Apple, newBufferWithBytesNoCopy:length:options:deallocator:, vm_page_size of arm64"""


class Block:
    """One MTLBuffer."""

    __slots__ = ("contents", "gpu_va", "handle", "nbytes", "owned", "owner", "views", "wrapped")

    def __init__(
        self, owned: Owned, contents: int, gpu_va: int, nbytes: int,
        wrapped: memoryview | None = None,
    ) -> None:  # fmt: skip
        self.owned, self.handle = owned, owned.handle
        self.contents, self.gpu_va, self.nbytes = contents, gpu_va, nbytes
        """`contents` is the host's address; 0 of private memory."""
        self.owner: object = None
        """Of another library's MTLBuffer, kept as long as it is."""
        self.wrapped = wrapped
        """The host's memory that it is, kept alive."""
        self.views = 0
        """Of the host, and of others that have its handle: while there is one, it stays."""


class RawMemory:
    """Buffers of one device."""

    def __init__(self, api: Api, device: int, max_bytes: int) -> None:
        self.api, self.device, self.max_bytes = api, device, max_bytes
        self.live = 0
        """Buffers that were not released."""
        self._orphans: list[Block] = []
        self._forked = False

    def after_fork(self) -> None:
        """In a child: Metal's objects are the parent's. Nothing is released."""
        self._forked = True

    def alloc(self, nbytes: int) -> Block:
        """Raises: OutOfMemory."""
        if nbytes > self.max_bytes:
            raise no_memory(f"{nbytes:,} bytes in one buffer", nbytes, self.max_bytes)
        found = self.api.send["newBufferWithLength:options:"](self.device, nbytes, SHARED)
        return self._block(found, nbytes, None)

    def wrap(self, memory: memoryview, address: int) -> Block:
        """Whole pages of the host's memory, which stays alive with the block."""
        find = self.api.send["newBufferWithBytesNoCopy:length:options:deallocator:"]
        found = find(self.device, address, memory.nbytes, SHARED, 0)
        return self._block(found, memory.nbytes, memory)

    def lent(self, handle: int, owner: object, *, shared: bool) -> Block:
        """A reference to another library's MTLBuffer; `shared`: the host sees it."""
        send, owned = self.api.send, retained(self.api, handle)
        with Undo() as undo:
            undo.add(owned.release)
            contents = send["contents"](handle) if shared else 0
            made = Block(owned, contents, send["gpuAddress"](handle), send["length"](handle))
        made.owner = owner
        self.live += 1
        return made

    def _block(self, found: int, nbytes: int, memory: memoryview | None) -> Block:
        if not 0 < found < 1 << 56:
            raise no_memory(f"Metal gives no buffer of {nbytes:,} bytes", nbytes, self.max_bytes)
        send, owned = self.api.send, Owned(self.api, found)
        with Undo() as undo:
            undo.add(owned.release)
            made = Block(owned, send["contents"](found), send["gpuAddress"](found), nbytes, memory)
        self.live += 1
        return made

    def free(self, block: Block) -> None:
        """Nothing may still be running in it. While the host has a view of it, it stays."""
        if block.views:
            self._orphans.append(block)
        else:
            self._release(block)

    def view_gone(self, block: Block) -> None:
        """A view ended."""
        block.views -= 1
        if not block.views and block in self._orphans:
            self._orphans.remove(block)
            self._release(block)

    def _release(self, block: Block) -> None:
        if not self._forked:
            self.live -= 1
            block.owned.release()
            block.wrapped = block.owner = None


class BufferOwner(Home, Protocol):
    """The device, as far as a buffer needs it."""

    raw: RawMemory

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while memory changes hands."""

    def check_open(self) -> None:
        """Raises: UseAfterFree."""


MetalBuffer: TypeAlias = HostedBuffer[BufferOwner, Block]


def seen(buffer: MetalBuffer) -> memoryview | None:
    """Of a live buffer, to read; of wrapped memory, that memory; None of private."""
    block, device = buffer.block, buffer.device
    if block.wrapped is not None:
        return block.wrapped
    if not buffer.nbytes:
        return memoryview(b"")
    if not block.contents:
        return None
    with device.lock:
        device.check_open()
        block.views += 1
    gone = partial(device.raw.view_gone, block)
    return memory_at(block.contents, buffer.nbytes, gone).cast("B").toreadonly()
