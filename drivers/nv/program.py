"""Loading kernels: the image in video memory, launches prepared once for each size of workgroup."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, Protocol

from drivers.base.contracts import Binary, Limits
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.launches import check_binary
from drivers.base.undo import Undo
from drivers.gpu.iface import GpuIface, Memory, Use
from queues.nv.constant_bank import bank_of
from queues.nv.generations import KIB, MAX_BLOCK, WARP_LANES
from queues.nv.kernel_code import NvCode
from queues.nv.launch import Block, Kernel, Launcher
from queues.nv.occupancy import warps_by_registers

MAX_IMAGE_BYTES: Final = 256 << 20
PREFETCH_BYTES: Final = 4 * KIB
"""Instructions are fetched ahead: so much memory follows the code."""
MOST_PREPARED: Final = 256
"""Launches of one program that are kept: of a size of workgroups and of shared memory each."""
MAX_ARGS: Final = 512
_ADDRESS_BYTES: Final = 8
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
        """Copy code to the card."""


Prepare = Callable[[Kernel, Block], Launcher]


class NvProgram:
    """A kernel on the card. `gpu_va` is its first instruction; gone after `close`."""

    def __init__(
        self, device: Owner, binary: Binary, kernel: Kernel, bo: Memory, prepare: Prepare
    ) -> None:
        self.device, self.name, self.kernel = device, binary.name, kernel
        self.gpu_va = kernel.code_va
        self._bo: Memory | None = None
        self._prepare = prepare
        self.masks = tuple((1 << 8 * nbytes) - 1 for _, nbytes in kernel.args)
        self.count = len(self.masks)
        """How many arguments a launch takes."""
        self.narrow = tuple(
            (number, mask) for number, mask in enumerate(self.masks) if mask != _ADDRESS_MASK
        )
        """Arguments smaller than a 64-bit word, with their masks."""
        self.forgotten: Callable[[], object] | None = None
        self._blocks: dict[tuple[Block, int], Launcher] = {}
        self.declared_bytes = binary.resources.shared_bytes
        """Shared memory that its code declares."""
        self.launcher = self.for_block(kernel.block)
        self._bo = bo  # last: until here the caller frees it

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(
                f"program {self.name!r} was used after close()", hint="load the binary again"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"NvProgram({self.name!r})"

    @property
    def code(self) -> range:
        """Addresses of its memory; empty after `close`."""
        bo = self._bo
        return range(bo.gpu_va, bo.gpu_va + bo.nbytes) if bo is not None else range(0)

    @property
    def alive(self) -> bool:
        """Whether it is not closed."""
        return self._bo is not None

    def for_block(self, block: Block, shared_bytes: int = 0) -> Launcher:
        """Launches with workgroups of this size and with `shared_bytes` beside the code's own."""
        key = block, shared_bytes
        found = self._blocks.get(key)
        if found is None:
            if len(self._blocks) >= MOST_PREPARED:
                self._blocks.clear()  # what runs holds its own
            found = self._prepare(self.kernel.with_shared(shared_bytes), block)
            self._blocks[key] = found
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
        forgotten, self.forgotten = self.forgotten, None
        if forgotten is not None:
            forgotten()
        if bo is not None:
            self.device.give_back(bo)
        return True

    def __del__(self) -> None:
        self._forget()


def load(
    device: Owner,
    binary: Binary,
    sm: int,
    ensure_local: Callable[[Kernel], object],
    prepare: Prepare,
) -> NvProgram:
    """Copy the image to the card, relocated. Raises: Unsupported, MalformedInput, OutOfMemory."""
    check_binary(binary, device.arch, device.limits)
    code = NvCode.of(binary)
    _check(binary, code, sm)
    with Undo() as undo:
        nbytes = len(binary.image) + PREFETCH_BYTES
        bo = device.iface.allocate(nbytes, Use.CODE, f"code of {binary.name}")
        undo.add(bo.free)
        kernel = _kernel(binary, code, bo.gpu_va)
        ensure_local(kernel)
        program = NvProgram(device, binary, kernel, bo, prepare)
        undo.hand_over(program.close)
        device.upload(bo, _fixed(binary, code, bo.gpu_va))
    return program


def _check(binary: Binary, code: NvCode, sm: int) -> None:
    size = len(binary.image)
    if not 0 < size <= MAX_IMAGE_BYTES or binary.entry != code.code_offset:
        raise MalformedInput(f"{binary.name}: code outside its image of {size} bytes")
    if code.sm != sm:
        raise Unsupported(
            f"{binary.name} is code of sm_{code.sm}, the GPU is sm_{sm}", hint="compile it for it"
        )
    if code.cluster_x or code.cluster_y or code.cluster_z:
        raise Unsupported(f"{binary.name} runs in clusters", hint="compile it without clusters")
    if binary.resources.args and code.param_offset < bank_of(sm).end:
        raise MalformedInput(f"{binary.name}: arguments at {code.param_offset:#x} of bank 0")
    for fixup in binary.fixups:
        if fixup.symbol:
            raise Unsupported(f"{binary.name} needs {fixup.symbol!r}, which a GPU does not have")
        if not 0 <= fixup.offset <= size - _ADDRESS_BYTES:
            raise MalformedInput(f"{binary.name}: fix-up at {fixup.offset:#x} outside the image")


def _fixed(binary: Binary, code: NvCode, base: int) -> bytes:
    image = bytearray(binary.image)
    for patch in code.patches:
        patch.apply(image, base)
    for fixup in binary.fixups:
        address = base + fixup.addend & _ADDRESS_MASK
        image[fixup.offset : fixup.offset + _ADDRESS_BYTES] = address.to_bytes(8, "little")
    return bytes(image)


def _kernel(binary: Binary, code: NvCode, base: int) -> Kernel:
    needs = binary.resources
    most = needs.max_block or code.max_threads or MAX_BLOCK
    block = needs.block or min(most, warps_by_registers(code.registers) * WARP_LANES)
    if not 0 < block <= most <= MAX_BLOCK:
        raise MalformedInput(f"{binary.name}: {block} of {most} lanes in a workgroup")
    given = needs.args
    if given is None or len(given) > MAX_ARGS:
        raise MalformedInput(f"{binary.name}: no arguments, or more than {MAX_ARGS}")
    for arg in given:
        inside = 0 <= arg.offset <= code.param_bytes - arg.nbytes
        if arg.nbytes not in _ARG_SIZES or not inside or arg.offset % arg.nbytes:
            raise MalformedInput(f"{binary.name}: an argument of {arg.nbytes} at {arg.offset}")
    places = sorted((arg.offset, arg.offset + arg.nbytes) for arg in given)
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        raise MalformedInput(f"{binary.name}: arguments overlap")
    return Kernel(
        name=binary.name,
        code_va=base + code.code_offset,
        code=code,
        args=tuple((arg.offset, arg.nbytes) for arg in given),
        block=(block, 1, 1),
        max_block=most,
        shared_bytes=code.shared_bytes,
        banks=tuple((one.number, base + one.offset, one.nbytes) for one in code.banks),
    )
