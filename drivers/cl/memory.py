"""Memory of an OpenCL context: shared virtual memory where the host may see it, else cl_mem.

FINE     clSVMAlloc, fine grain: kernels and host see one address at any time
COARSE   clSVMAlloc: one address, which the host reaches by copies
BUFFER   clCreateBuffer: OpenCL gives no address, so that `gpu_va` is a number of this driver,
         which only tells buffers apart
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from drivers.base import forks
from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Device
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.base.undo import Step
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.world.native import memory_at

if TYPE_CHECKING:
    from drivers.cl.device import ClDevice

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

    __slots__ = ("gpu_va", "handle", "nbytes", "orphaned", "used", "views")

    def __init__(self, gpu_va: int, nbytes: int, handle: int) -> None:
        self.gpu_va, self.nbytes, self.handle = gpu_va, nbytes, handle
        self.views = 0
        """Of the host, which keep it mapped."""
        self.orphaned = False
        self.used = 0
        """Position of the compute ring until which a previous owner uses it."""


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
            block = Block(self._next, nbytes, handle)
            self._next += nbytes + -nbytes % ALIGN_BYTES
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


class ClBuffer(FreedOnce):
    """A block of a device, given back by name, once, or by the finaliser."""

    __slots__ = ("_block", "device")

    def __init__(self, device: ClDevice, block: Block, nbytes: int) -> None:
        super().__init__(block.gpu_va, nbytes)
        self.device, self._block = device, block

    @property
    def block(self) -> Block:
        """Its memory. Raises: UseAfterFree."""
        _ = self.gpu_va
        return self._block

    @property
    def host(self) -> memoryview | None:
        va = self.gpu_va
        if self.device.memory_kind != FINE:
            return None
        if not self.nbytes:
            return memoryview(bytearray())
        block, raw = self._block, self.device.raw
        with self.device.lock:
            self.device.check_open()
            self.device.heap.settle(block)
            block.views += 1
        return memory_at(va, self.nbytes, partial(raw.view_gone, block)).cast("B")

    def view(self) -> memoryview:
        found = self.host
        if found is None:
            raise Unsupported(
                f"the host does not see memory of {self.device.name}", hint="use copy_out()"
            )
        return found

    def map_to(self, other: Device) -> int:
        va = self.gpu_va
        if other is not self.device:
            raise Unsupported(f"memory of {self.device.name} stays there", hint="copy it")
        return va

    def free(self) -> None:
        self._end()
        self.device.give_back(self._block)

    def __del__(self) -> None:
        try:
            del self.gpu_va
        except AttributeError:
            return  # freed by name
        self.device.give_back(self._block)
