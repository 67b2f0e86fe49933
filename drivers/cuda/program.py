"""Programs: a kernel of a module that libcuda loaded from a cubin."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from drivers.base.contracts import Binary, Grid
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.undo import Step, Undo
from drivers.cuda import abi
from drivers.cuda.api import Api, Words
from drivers.world.native import address_of
from queues.cuda.kernel_code import Params, check_cubin, dynamic_bytes

_WORD_BYTES: Final = 8
_LETTERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Kernel:
    """A function, and the block of memory that its arguments are put into for a call.

    libcuda copies the arguments before a call returns. Used with the device's lock held.
    """

    def __init__(self, function: int, name: str, params: Params, dynamic: int = 0) -> None:
        self.function, self.name, self.dynamic = function, name, dynamic
        """`dynamic`: bytes of shared memory that each launch asks for."""
        self._allowed = dynamic
        """How many cuFuncSetAttribute has allowed."""
        self.masks = tuple((1 << 8 * nbytes) - 1 for _, nbytes in params.places)
        self._whole = all(nbytes == _WORD_BYTES for _, nbytes in params.places)
        self._order, text = _packed(params)
        self._pack = struct.Struct(text).pack_into
        self._block = bytearray(max(params.nbytes, 1))
        self._size = Words([params.nbytes])
        block = address_of(self._block)
        self._extra = Words([
            abi.PARAM_BUFFER_POINTER, block, abi.PARAM_BUFFER_SIZE, self._size.at, abi.PARAM_END,
        ])  # fmt: skip

    def cut(self, words: Sequence[int]) -> tuple[int, ...]:
        """Words cut to the sizes of the arguments."""
        return tuple(words) if self._whole else tuple(map(int.__and__, words, self.masks))

    def put(self, words: Sequence[int]) -> int:
        """Put arguments in place: the address of the `extra` list of a call."""
        if self._order is not None:
            words = [words[number] for number in self._order]
        self._pack(self._block, 0, *words)
        return self._extra.at

    def allow(self, api: Api, added: int) -> None:
        """Let launches add so much shared memory; above 48 KiB the library must be asked.

        # src: CUDA driver API, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        """
        wanted = self.dynamic + added
        if wanted > self._allowed:
            which = abi.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES
            api.do("cuFuncSetAttribute", self.function, which, wanted)
            self._allowed = wanted

    def node(self, words: Sequence[int], grid: Grid, block: Grid, added: int) -> bytes:
        """CUDA_KERNEL_NODE_PARAMS of a launch, valid until the next arguments are put."""
        return abi.KERNEL_NODE.pack(
            self.function, *grid, *block, self.dynamic + added, 0, self.put(words), 0, 0
        )


def _packed(params: Params) -> tuple[list[int] | None, str]:
    """(numbers of arguments by their offsets, None where they are in order; format of a struct)."""
    order = sorted(range(len(params.places)), key=lambda number: params.places[number])
    text, at = "<", 0
    for number in order:
        offset, nbytes = params.places[number]
        text += "x" * (offset - at) + _LETTERS[nbytes]
        at = offset + nbytes
    return (None if order == list(range(len(order))) else order), text


class ProgramOwner(Protocol):
    """The device, as far as a program needs it."""

    name: str

    def drop(self, release: Step) -> None:
        """Finalisers call this at any moment: it runs once nothing is running."""


class CudaProgram:
    """A loaded kernel. `gpu_va` is its CUfunction: libcuda shows no address of its code."""

    def __init__(
        self, device: ProgramOwner, kernel: Kernel, block: int, max_block: int, unload: Step,
        declared_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.device, self.name, self.kernel = device, kernel.name, kernel
        self.nargs, self.block, self.max_block = len(kernel.masks), block, max_block
        self.declared_bytes = declared_bytes
        """Shared memory that every launch has."""
        self._unload: Callable[[], object] | None = unload
        self.gpu_va = kernel.function

    def __repr__(self) -> str:
        return f"CudaProgram({self.name})"

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(f"{self.name} was used after close()", hint="load it again")
        raise AttributeError(name)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._unload is None

    def close(self) -> None:
        _ = self.gpu_va
        unload, self._unload = self._unload, None
        del self.gpu_va
        if unload is not None:
            self.device.drop(unload)

    def __del__(self) -> None:
        if not self.closed:
            self.close()


def load(api: Api, device: ProgramOwner, binary: Binary, most: int) -> CudaProgram:
    """A program of a checked binary. Raises: MalformedInput, Unsupported, OutOfMemory."""
    params, needs, dynamic = Params.of(binary), binary.resources, dynamic_bytes(binary)
    check_cubin(binary.name, binary.image)
    if binary.entry:
        raise MalformedInput(f"{binary.name}: entry {binary.entry:#x}", hint="compile it anew")
    module = api.make("cuModuleLoadData", address_of(binary.image))
    with Undo() as undo:
        unload = partial(api.do, "cuModuleUnload", module)
        undo.add(unload)
        name = bytearray(binary.name.encode() + b"\0")
        function = api.make("cuModuleGetFunction", module, address_of(name))
        allowed = api.number("cuFuncGetAttribute", abi.FUNC_MAX_THREADS_PER_BLOCK, function)
        largest = min(needs.max_block or most, most)
        block = needs.block or largest
        if not 0 < block <= largest:
            raise MalformedInput(
                f"{binary.name}: {block} of {largest} lanes in a workgroup", hint="compile it anew"
            )
        if block > allowed:
            raise Unsupported(
                f"{binary.name} has workgroups of {block} lanes, and CUDA runs it with at most "
                f"{allowed} (CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)",
                hint="report this kernel with the name of the GPU",
            )
        if dynamic:
            which = abi.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES
            api.do("cuFuncSetAttribute", function, which, dynamic)
        kernel, shared = Kernel(function, binary.name, params, dynamic), needs.shared_bytes or 0
        return CudaProgram(device, kernel, block, min(largest, allowed), unload, shared)
