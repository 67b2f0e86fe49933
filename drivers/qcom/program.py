"""Loading kernels: the code in memory, launches prepared once for each size of workgroup."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Protocol

from drivers.base.contracts import Binary, Limits
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.launches import check_binary
from drivers.base.undo import Undo
from drivers.gpu.iface import GpuIface, Memory, Use
from queues.qcom.chips import MAX_BLOCK, Chip
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, VEC4_BYTES, AdrenoCode
from queues.qcom.launch import PRIVATE_UNIT, Block, Kernel, Launcher, Private
from queues.qcom.textures import check as check_textures
from queues.qcom.textures import memory_bytes

MAX_IMAGE_BYTES: Final = 64 << 20
MAX_ARGS: Final = 512
MAX_PRIVATE_BYTES: Final = 128 * PRIVATE_UNIT
"""Of a lane: a power of two that MEMSIZEPERITEM holds."""
_ADDRESS_MASK: Final = (1 << 64) - 1
_ARG_SIZES: Final = frozenset({1, 2, 4, 8})


class Owner(Protocol):
    """The device of a program."""

    name: str
    limits: Limits
    arch: str

    @property
    def iface(self) -> GpuIface:
        """The way to its GPU."""

    def give_back(self, held: Memory) -> None:
        """Take back memory without references."""

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the GPU's memory."""


Prepare = Callable[[Kernel, Block], Launcher]


class QcomProgram:
    """A kernel in memory. `gpu_va` is its first instruction; gone after `close`."""

    def __init__(
        self, device: Owner, binary: Binary, kernel: Kernel, bos: Sequence[Memory], prepare: Prepare
    ) -> None:
        self.device, self.name, self.kernel = device, binary.name, kernel
        self.gpu_va = kernel.code_va
        self._bo: Memory | None = None
        self._more: Sequence[Memory] = ()
        """Of descriptors."""
        self._prepare = prepare
        self.masks = tuple((1 << 8 * nbytes) - 1 for _, nbytes in kernel.args)
        self.count = len(self.masks)
        """How many arguments a launch takes."""
        self.narrow = tuple(
            (number, mask) for number, mask in enumerate(self.masks) if mask != _ADDRESS_MASK
        )
        """Arguments smaller than a 64-bit word, with their masks."""
        self.forgotten: Callable[[], object] | None = None
        self._blocks: dict[Block, Launcher] = {}
        self.launcher = self.for_block(kernel.block)
        self._more = bos[1:]
        self._bo = bos[0]  # last: until here the caller frees it

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(
                f"program {self.name!r} was used after close()", hint="load the binary again"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"QcomProgram({self.name!r})"

    @property
    def code(self) -> range:
        """Addresses of its memory; empty after `close`."""
        bo = self._bo
        return range(bo.gpu_va, bo.gpu_va + bo.nbytes) if bo is not None else range(0)

    @property
    def alive(self) -> bool:
        """Whether it is not closed."""
        return self._bo is not None

    def for_block(self, block: Block) -> Launcher:
        """Launches with workgroups of this size."""
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = self._prepare(self.kernel, block)
        return found

    def masked(self, words: list[int]) -> list[int]:
        """Argument words, in place cut to the sizes that the kernel takes."""
        for number, mask in self.narrow:
            words[number] &= mask
        return words

    def close(self) -> None:
        """Give the code's memory back once nothing runs. Raises: UseAfterFree the second time."""
        if not self._forget():
            raise UseAfterFree(f"program {self.name!r} was closed twice", hint="close it once")

    def _forget(self) -> bool:
        try:
            del self.gpu_va
        except AttributeError:
            return False
        bo, self._bo = self._bo, None
        more, self._more = self._more, ()
        forgotten, self.forgotten = self.forgotten, None
        if forgotten is not None:
            forgotten()
        if bo is not None:
            for held in (bo, *more):
                self.device.give_back(held)
        return True

    def __del__(self) -> None:
        self._forget()


def load(
    device: Owner,
    binary: Binary,
    chip: Chip,
    private_of: Callable[[int], Private | None],
    prepare: Prepare,
) -> QcomProgram:
    """Copy a kernel to memory. Raises: Unsupported, MalformedInput, OutOfMemory."""
    check_binary(binary, device.arch, device.limits)
    code = AdrenoCode.of(binary)
    _check(binary, code, chip)
    with Undo() as undo:
        bo = device.iface.allocate(len(binary.image), Use.CODE, f"code of {binary.name}", host=True)
        undo.add(bo.free)
        bos = [bo]
        if code.textures:
            size = memory_bytes(len(code.textures))
            bos.append(device.iface.allocate(size, Use.SHARED, f"images of {binary.name}"))
            undo.add(bos[-1].free)
        kernel = _kernel(binary, code, [one.gpu_va for one in bos], private_of(code.private_bytes))
        program = QcomProgram(device, binary, kernel, bos, prepare)
        undo.hand_over(program.close)
        device.upload(bo, binary.image)
    return program


def _check(binary: Binary, code: AdrenoCode, chip: Chip) -> None:
    size = len(binary.image)
    if not 0 < size <= MAX_IMAGE_BYTES or binary.entry:
        raise MalformedInput(f"{binary.name}: {size} bytes of code, begun at {binary.entry:#x}")
    if code.generation != chip.generation:
        raise Unsupported(
            f"{binary.name} is code of generation {code.generation}, {chip.name} has another",
            hint="compile it for this chip",
        )
    if code.constlen > chip.most_constants:
        raise Unsupported(
            f"{binary.name}: {code.constlen} vec4 of constants, {chip.name} has "
            f"{chip.most_constants}",
            hint="compile it for this chip, with fewer constants",
        )
    if code.private_bytes > MAX_PRIVATE_BYTES:
        raise Unsupported(
            f"{binary.name}: {code.private_bytes} bytes of private memory",
            hint=f"a lane has {MAX_PRIVATE_BYTES}",
        )
    if binary.fixups:
        raise Unsupported(
            f"{binary.name} has addresses to fill in", hint="ir3 code takes them as arguments"
        )


def _kernel(
    binary: Binary, code: AdrenoCode, bases: Sequence[int], private: Private | None
) -> Kernel:
    needs = binary.resources
    most = needs.max_block or MAX_BLOCK
    block = needs.block or most
    if not 0 < block <= most <= MAX_BLOCK:
        raise MalformedInput(f"{binary.name}: {block} of {most} lanes in a workgroup")
    given = needs.args
    if given is None or len(given) > MAX_ARGS:
        raise MalformedInput(f"{binary.name}: no arguments, or more than {MAX_ARGS}")
    end = (code.constlen - code.param_vec4) * VEC4_BYTES
    for arg in given:
        inside = 0 <= arg.offset <= end - arg.nbytes
        if arg.nbytes not in _ARG_SIZES or not inside or arg.offset % arg.nbytes:
            raise MalformedInput(f"{binary.name}: an argument of {arg.nbytes} at {arg.offset}")
    places = sorted((arg.offset, arg.offset + arg.nbytes) for arg in given)
    if any(stop > start for (_, stop), (start, _) in pairwise(places)):
        raise MalformedInput(f"{binary.name}: arguments overlap")
    check_textures(binary.name, code.textures, [arg.nbytes for arg in given])
    first = code.instrlen * INSTR_UNIT_BYTES
    literals = struct.unpack_from(f"<{code.literal_words}I", binary.image, first)
    return Kernel(
        name=binary.name,
        code_va=bases[0],
        code=code,
        args=tuple((arg.offset, arg.nbytes) for arg in given),
        literals=literals,
        block=(block, 1, 1),
        max_block=most,
        shared_bytes=needs.shared_bytes,
        private=private,
        textures_va=bases[1] if code.textures else 0,
    )
