"""Loading kernels: code in memory of its own on the card, launches prepared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from drivers.amd.aql_ring import MOST_ARGUMENTS_BYTES
from drivers.amd.chips import MAX_WORKGROUP_LANES
from drivers.amd.iface import Iface
from drivers.base.contracts import Binary, Limits
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.launches import check_binary
from drivers.base.undo import Undo
from drivers.gpu.iface import Memory, Use
from queues.amd import kernarg as amd_kernarg
from queues.amd.aql_launch import AqlLauncher
from queues.amd.kernarg import BASES, Hidden
from queues.amd.kernel_code import AmdCode
from queues.amd.pm4_launch import Block, Kernel, Launcher

MAX_IMAGE_BYTES: Final = 256 << 20
MAX_ARGS: Final = 512
MOST_PREPARED: Final = 256
"""Launches of one program that are kept: of a size of workgroups and of shared memory each."""
MAX_KERNARG_BYTES: Final = MOST_ARGUMENTS_BYTES
_WORD_LIMIT: Final = 1 << 32
_CODE_ALIGN: Final = 256
_DESCRIPTOR_BYTES: Final = 64
_ADDRESS_BYTES: Final = 8
_ADDRESS_MASK: Final = (1 << 64) - 1


class Owner(Protocol):
    """The device of a program."""

    name: str
    iface: Iface
    limits: Limits

    def give_back(self, held: Memory) -> None:
        """Take back memory without references."""

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the card."""

    def synchronize(self) -> None:
        """Return when everything submitted is done."""


Prepare: TypeAlias = Callable[[Kernel, Block, bool], Launcher | AqlLauncher]
"""A launch of a kernel with workgroups of a size; whether it reports the ring's progress."""


class AmdProgram:
    """A kernel on the card. `gpu_va` is its descriptor; gone after `close`."""

    __slots__ = (
        "__weakref__",
        "_blocks",
        "_bo",
        "_prepare",
        "count",
        "device",
        "forgotten",
        "gpu_va",
        "kernel",
        "launcher",
        "masks",
        "name",
        "narrow",
    )  # fmt: skip

    def __init__(
        self, device: Owner, binary: Binary, kernel: Kernel, bo: Memory, prepare: Prepare
    ) -> None:
        self.device, self.name, self.kernel = device, binary.name, kernel
        self._prepare = prepare
        self._bo: Memory | None = None
        self.forgotten: Callable[[], object] | None = None
        """Called once when its memory goes, by `close` or because nobody holds it."""
        self.gpu_va = kernel.descriptor_va
        self.masks = tuple((1 << 8 * nbytes) - 1 for _, nbytes in kernel.args)
        self.count = len(self.masks)
        """How many arguments a launch takes."""
        self.narrow = tuple(
            (number, mask) for number, mask in enumerate(self.masks) if mask != _ADDRESS_MASK
        )
        """Arguments smaller than a 64-bit word, with their masks."""
        self._blocks: dict[tuple[Block, bool, int], Launcher | AqlLauncher] = {}
        self.launcher = self.for_block((kernel.block, 1, 1))
        self._bo = bo  # last: until here the caller frees it

    @property
    def code(self) -> range:
        """Addresses of its memory; empty after `close`."""
        bo = self._bo
        return range(bo.gpu_va, bo.gpu_va + bo.nbytes) if bo is not None else range(0)

    def holds(self, va: int) -> bool:
        """Whether an address, of an instruction for example, is in this program's memory."""
        return va in self.code

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(
                f"program {self.name!r} was used after close()", hint="load the binary again"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"AmdProgram({self.name!r})"

    @property
    def alive(self) -> bool:
        """Whether it is not closed."""
        return self._bo is not None

    def for_block(
        self, block: Block, *, reports: bool = True, shared_bytes: int = 0
    ) -> Launcher | AqlLauncher:
        """Launches with workgroups of this size; with `reports`, the ring's progress after them.

        `shared_bytes`: local memory beside what the kernel declares.
        """
        key = block, reports, shared_bytes
        found = self._blocks.get(key)
        if found is None:
            if len(self._blocks) >= MOST_PREPARED:
                self._blocks.clear()  # what runs holds its own
            kernel = self.kernel.with_shared(shared_bytes) if shared_bytes else self.kernel
            found = self._blocks[key] = self._prepare(kernel, block, reports)
        return found

    def renew(self) -> None:
        """Rebuild prepared launches after scratch moved."""
        self._blocks.clear()
        self.launcher = self.for_block((self.kernel.block, 1, 1))

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
    device: Owner, binary: Binary, ensure_scratch: Callable[[Kernel], object], prepare: Prepare
) -> AmdProgram:
    """Copy the image to the card, relocated.

    Raises: Unsupported for another chip or arguments that cannot be filled; MalformedInput.
    """
    iface = device.iface
    check_binary(binary, iface.chip.name, device.limits)
    _check(binary)
    with Undo() as undo:
        bo = iface.allocate(len(binary.image), Use.CODE, f"code of {binary.name}")
        undo.add(bo.free)
        kernel = _kernel(iface, binary, bo.gpu_va)
        ensure_scratch(kernel)
        program = AmdProgram(device, binary, kernel, bo, prepare)
        undo.hand_over(program.close)
        device.upload(bo, _fixed(binary, bo.gpu_va))
    return program


def _check(binary: Binary) -> None:
    size = len(binary.image)
    if not 0 < size <= MAX_IMAGE_BYTES or not 0 <= binary.entry <= size - _DESCRIPTOR_BYTES:
        raise MalformedInput(f"{binary.name}: descriptor outside its image of {size} bytes")
    for fixup in binary.fixups:
        if fixup.symbol:
            raise Unsupported(f"{binary.name} needs {fixup.symbol!r}, which a GPU does not have")
        if not 0 <= fixup.offset <= size - _ADDRESS_BYTES:
            raise MalformedInput(f"{binary.name}: fix-up at {fixup.offset:#x} outside the image")


def _fixed(binary: Binary, base: int) -> bytes:
    image = bytearray(binary.image)
    for fixup in binary.fixups:
        address = base + fixup.addend & _ADDRESS_MASK
        image[fixup.offset : fixup.offset + _ADDRESS_BYTES] = address.to_bytes(8, "little")
    return bytes(image)


def _within(binary: Binary, name: str, value: object, most: int) -> int:
    """One of a binary's numbers. Raises: MalformedInput."""
    if type(value) is not int or not 0 <= value <= most:
        raise MalformedInput(f"{binary.name}: {name} is {value!r:.40}, not 0 ... {most}")
    return value


def _kernel(iface: Iface, binary: Binary, base: int) -> Kernel:
    chip = iface.chip
    needs, code = binary.resources, AmdCode.of(binary)
    lanes = needs.max_block or MAX_WORKGROUP_LANES
    block = _within(binary, "block", needs.block or lanes, lanes)
    at = _within(binary, "code_offset", code.code_offset, len(binary.image) - 4)
    if not block or at % _CODE_ALIGN:
        raise MalformedInput(f"{binary.name}: {block} work-items a workgroup, code at {at:#x}")
    args, hidden = _args(binary, code, iface)
    return Kernel(
        name=binary.name,
        code_va=base + at,
        descriptor_va=base + binary.entry,
        rsrc1=code.rsrc1,
        rsrc2=code.rsrc2,
        rsrc3=code.rsrc3,
        properties=_within(binary, "properties", code.properties, 0xFFFF),
        block=block,
        max_block=lanes,
        group_bytes=needs.shared_bytes,
        private_bytes=_private(binary, code),
        kernarg_bytes=_within(binary, "kernarg_bytes", code.kernarg_bytes, MAX_KERNARG_BYTES),
        args=args,
        hidden=hidden,
        lds_granule_bytes=chip.lds_granule_bytes,
    ).with_shared(0)


def _bases(iface: Iface) -> dict[str, int]:
    """Upper halves of the apertures of local and private memory, by the argument's kind."""
    found = iface.apertures()
    return {"hidden_shared_base": found.lds_base >> 32,
            "hidden_private_base": found.scratch_base >> 32}  # fmt: skip


def _private(binary: Binary, code: AmdCode) -> int:
    if code.dynamic_stack:
        raise Unsupported(
            f"{binary.name} has a stack of unknown size",
            hint="compile it without recursion or calls through pointers",
        )
    return _within(binary, "scratch_bytes", binary.resources.scratch_bytes, _WORD_LIMIT - 1)


def _args(
    binary: Binary, code: AmdCode, iface: Iface
) -> tuple[tuple[tuple[int, int], ...], tuple[Hidden, ...]]:
    """The arguments that a launch takes, and the hidden ones that it fills."""
    given = binary.resources.args
    if given is None or len(given) > MAX_ARGS:
        raise MalformedInput(f"{binary.name}: no arguments, or more than {MAX_ARGS}")
    for arg in given:
        _within(binary, "an argument's offset", arg.offset, MAX_KERNARG_BYTES)
        _within(binary, "an argument's size", arg.nbytes, MAX_KERNARG_BYTES)
    for one in code.implicit:
        amd_kernarg.check(binary.name, one.number, one.kind)
    bases = _bases(iface) if any(one.kind in BASES for one in code.implicit) else {}
    hidden = [
        Hidden(one.offset, one.nbytes, one.kind, bases.get(one.kind, 0)) for one in code.implicit
    ]
    own = given[-1].offset + given[-1].nbytes if given else 0
    amd_kernarg.check_place(binary.name, hidden, own, code.kernarg_bytes)
    return tuple((arg.offset, arg.nbytes) for arg in given), tuple(hidden)
