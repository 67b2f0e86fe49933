"""Memory of an OpenCL context: shared virtual memory where the host may see it, else cl_mem.

FINE     clSVMAlloc, fine grain: kernels and host see one address at any time
COARSE   clSVMAlloc: one address, which the host reaches by copies
BUFFER   clCreateBuffer: OpenCL gives no address, so that `gpu_va` is a number of this driver,
         which only tells buffers apart
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Protocol, TypeAlias

from drivers.base import forks
from drivers.base.errors import OutOfMemory
from drivers.base.undo import Step
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.hosted.buffer import Home, HostedBuffer
from drivers.world.native import memory_at

FINE: Final = "FINE"
COARSE: Final = "COARSE"
BUFFER: Final = "BUFFER"
KINDS: Final = (FINE, COARSE, BUFFER)
ALIGN_BYTES: Final = 128
"""Of every block; what OpenCL promises at most is the size of long16.
# src: OpenCL API 3.0, clSVMAlloc: alignment"""
_NUMBERS_FROM: Final = 1 << 40


def best_kind(svm: int) -> str:
    """The memory that suits CL_DEVICE_SVM_CAPABILITIES."""
    if svm & abi.SVM_FINE_GRAIN_BUFFER:
        return FINE
    return COARSE if svm & abi.SVM_COARSE_GRAIN_BUFFER else BUFFER


class Block:
    """Some memory. `handle` is its cl_mem, 0 of shared virtual memory."""

    __slots__ = (
        "gpu_va", "handle", "image", "nbytes", "origin", "orphaned", "over", "used", "views",
    )  # fmt: skip

    def __init__(self, gpu_va: int, nbytes: int, handle: int) -> None:
        self.gpu_va, self.nbytes, self.handle = gpu_va, nbytes, handle
        self.views = 0
        """Of the host, which keep it mapped."""
        self.orphaned = False
        self.used = 0
        """Position of the compute ring until which a previous owner uses it."""
        self.over: Block | None = None
        self.origin, self.image = 0, False
        """Of a part or an image: the block that it lies in, and its first byte there."""

    @property
    def base(self) -> Block:
        """The block of the device that it is, or lies in."""
        return self.over or self


class RawMemory:
    """Blocks of one context."""

    def __init__(self, api: Api, context: int, kind: str, max_bytes: int) -> None:
        self.api, self.context, self.kind, self.max_bytes = api, context, kind, max_bytes
        self.live = 0
        """Blocks that were not given back."""
        self._forked = False
        forks.inherit(self)
        self._next = _NUMBERS_FROM
        self._on_empty: Step | None = None

    def alloc(self, nbytes: int) -> Block:
        """Raises: OutOfMemory."""
        if nbytes > self.max_bytes:
            raise OutOfMemory(
                f"{nbytes:,} bytes in one buffer", requested=nbytes, used=0, cached=0,
                limit=self.max_bytes, hint=f"this device allows {self.max_bytes:,} in one",
            )  # fmt: skip
        if self.kind == BUFFER:
            handle = self.api.make(
                "clCreateBuffer", self.context, abi.MEM_READ_WRITE, nbytes, 0, nbytes=nbytes
            )
            block = self.number(nbytes, handle)
        else:
            flags = abi.MEM_READ_WRITE | abi.MEM_SVM_FINE_GRAIN_BUFFER * (self.kind == FINE)
            svm_alloc = self.api.functions["clSVMAlloc"]
            gpu_va = svm_alloc(self.context, flags, nbytes, ALIGN_BYTES)
            if not 0 < gpu_va < 1 << 64:
                raise OutOfMemory(
                    f"clSVMAlloc of {nbytes:,} bytes fails", requested=nbytes, used=0, cached=0,
                    limit=0, hint="free tensors that are not needed, or work on smaller pieces",
                )  # fmt: skip
            block = Block(gpu_va, nbytes, 0)
        self.live += 1
        return block

    def number(self, nbytes: int, handle: int) -> Block:
        """A cl_mem, with a number in place of an address."""
        block = Block(self._next, nbytes, handle)
        self._next += nbytes + -nbytes % ALIGN_BYTES
        return block

    def free(self, block: Block) -> None:
        """Nothing may still be running in it. While the host has a view of it, it stays."""
        block.orphaned = block.views > 0
        if not block.orphaned:
            self._release(block)

    def view_gone(self, block: Block) -> None:
        """The host's last view of a block ended."""
        block.views -= 1
        if block.orphaned and not block.views:
            self._release(block)
            if self._on_empty is not None and not self.live:
                self._on_empty()

    def close(self, release_context: Step) -> None:
        """`release_context` runs when the last block is gone: now, or after the host's views."""
        if self.live:
            self._on_empty = release_context
        else:
            release_context()

    def after_fork(self) -> None:
        """In a child: the library's locks and threads are the parent's. Nothing is released."""
        self._forked = True

    def _release(self, block: Block) -> None:
        if self._forked:
            return
        self.live -= 1
        if block.handle:
            self.api.do("clReleaseMemObject", block.handle)
        else:
            self.api.functions["clSVMFree"](self.context, block.gpu_va)


class BufferOwner(Home, Protocol):
    """The device, as far as a buffer needs it."""

    memory_kind: str
    raw: RawMemory

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while memory changes hands."""

    def check_open(self) -> None:
        """Raises: UseAfterFree."""

    def enter(self) -> None:
        """Before the lock is taken. Raises: Unsupported inside of another call."""

    def settle(self, block: Block) -> None:
        """With the lock held: return when the host can access a block."""

    def collect(self) -> None:
        """With the lock held: release objects that nothing refers to any more."""

    def drop_lent(self, release: Step) -> None:
        """Finalisers call this at any moment: memory of other libraries is given back."""


ClBuffer: TypeAlias = HostedBuffer[BufferOwner, Block]


def seen(buffer: ClBuffer) -> memoryview | None:
    """What the host sees of a live buffer, once no work of an earlier owner uses it."""
    device, block = buffer.device, buffer.block
    base = block.base
    if device.memory_kind != FINE or block.handle:
        return None
    if not buffer.nbytes:
        return memoryview(bytearray())
    with device.lock:
        device.check_open()
        device.settle(base)
        base.views += 1
    gone = partial(device.raw.view_gone, base)
    found = memory_at(block.gpu_va, buffer.nbytes, gone).cast("B")
    return found.toreadonly() if buffer.readonly else found
