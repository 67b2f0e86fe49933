"""Programs, and kernel objects with their arguments set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from drivers.base.contracts import Grid
from drivers.base.errors import UseAfterFree
from drivers.cl.api import Api, Words
from drivers.cl.errors import error_of, signed
from drivers.cl.memory import Block

_BITS32: Final = (1 << 32) - 1
_WORD_BYTES: Final = 8
ITEMS_OF_UNIT: Final = 16
"""Work items for each compute unit of a processor: so that units that end early take another."""
SCRATCH_ITEMS_OF_UNIT: Final = 2
"""The same of kernels with scratch memory, of which each item has a block."""
DIMENSIONS: Final = 3


class Kernel:
    """One cl_kernel. Its arguments are set where they change; use it under the device's lock."""

    __slots__ = (
        "_api", "_cell", "_count", "_set", "_shared", "_sizes", "_svm", "_value",
        "handle", "holds", "local", "whole",
    )  # fmt: skip

    def __init__(self, api: Api, handle: int, places: int) -> None:
        self._api, self.handle = api, handle
        self._set: list[Block | None] = [None] * places
        self._cell, self._sizes = Words([0]), Words([0] * (2 * DIMENSIONS))
        self.whole, self.local = self._sizes.at, self._sizes.at + DIMENSIONS * _WORD_BYTES
        """Addresses of the global and the local size."""
        self.holds: Sequence[Block] | None = None
        """The list whose memory its arguments are, with the sizes of that launch."""
        self._count, self._shared = -1, 0
        self._svm = api.functions.get("clSetKernelArgSVMPointer")
        self._value = api.functions["clSetKernelArg"]

    def arguments(self, blocks: Sequence[Block]) -> None:
        """Buffers from the first argument on."""
        known = self._set
        for place, block in enumerate(blocks):
            if known[place] is block:
                continue
            known[place] = None
            if block.handle or self._svm is None:
                self._cell.words[0] = block.handle
                status = self._value(self.handle, place, _WORD_BYTES, self._cell.at)
                call = "clSetKernelArg"
            else:
                status = self._svm(self.handle, place, block.gpu_va)
                call = "clSetKernelArgSVMPointer"
            if status & _BITS32:
                raise error_of(call, signed(status))
            known[place] = block

    def number(self, place: int, value: int) -> None:
        """A 64-bit number by value."""
        if self._count == value:
            return
        self._count = -1
        self._cell.words[0] = value
        status = self._value(self.handle, place, _WORD_BYTES, self._cell.at)
        if status & _BITS32:
            raise error_of("clSetKernelArg", signed(status))
        self._count = value

    def shared(self, place: int, nbytes: int) -> None:
        """Local memory of a workgroup, as the argument at `place`."""
        known = self._shared
        if known == nbytes:
            return
        self._shared = 0
        status = self._value(self.handle, place, nbytes, 0)
        if status & _BITS32:
            raise error_of("clSetKernelArg", signed(status))
        self._shared = nbytes

    def sizes(self, grid: Grid, block: Grid) -> None:
        """Work items and those of a workgroup, for the next launch."""
        words = self._sizes.words
        for axis in range(DIMENSIONS):
            words[axis] = grid[axis] * block[axis]
            words[DIMENSIONS + axis] = block[axis]


class ProgramOwner(Protocol):
    """The device, as far as a program needs it."""

    api: Api
    hidden_args: int

    def drop_program(self, program: int, kernel: int) -> None:
        """Finalisers call this at any moment: release both later."""


class ClProgram:
    """A loaded kernel. `gpu_va` is the address of its cl_kernel: OpenCL shows no other."""

    def __init__(
        self, device: ProgramOwner, name: str, handles: tuple[int, int], nargs: int, block: int,
        max_block: int, scratch_bytes: int, source: bytes, shared_bytes: int = 0,
    ) -> None:  # fmt: skip
        self._kernel: Kernel | None = None
        self.device, self.name, self.nargs = device, name, nargs
        self.block, self.max_block, self.scratch_bytes = block, max_block, scratch_bytes
        self.source, self.shared_bytes = source, shared_bytes
        self._program, handle = handles
        self._kernel = Kernel(device.api, handle, nargs + device.hidden_args)
        self.gpu_va = handle

    def __repr__(self) -> str:
        return f"ClProgram({self.name})"

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise self._gone()
        raise AttributeError(name)

    def _gone(self) -> UseAfterFree:
        return UseAfterFree(f"{self.name} was used after close()", hint="load it again")

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._kernel is None

    @property
    def kernel(self) -> Kernel:
        """Raises: UseAfterFree."""
        if self._kernel is None:
            raise self._gone()
        return self._kernel

    @property
    def program(self) -> int:
        """Its cl_program."""
        return self._program

    def close(self) -> None:
        handle = self.kernel.handle
        self._kernel = None
        del self.gpu_va
        self.device.drop_program(self._program, handle)

    def __del__(self) -> None:
        if not self.closed:
            self.close()
