"""Loading machine code: mapped writable, fixed up, then executable and never writable again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drivers.base.contracts import Binary, Region, World
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.region import MemoryRegion
from drivers.base.undo import Undo
from queues.cpu.kernel_code import CpuCode
from queues.cpu.packets import HOLD

if TYPE_CHECKING:
    from drivers.cpu.owner import Owner

PAGE_BYTES: Final = 4096
MAX_IMAGE_BYTES: Final = 256 << 20
MAX_SCRATCH_BYTES: Final = 1 << 40
ANY_NUMBER: Final = -1
QUICK_ARGS: Final = 64
"""A launch of fewer arguments than these is packed into the ring's memory at once."""
_ADDRESS_BYTES: Final = 8
_ADDRESS_MASK: Final = (1 << 64) - 1


class CpuProgram:
    """Code in executable memory. `gpu_va` is its entry; gone after `close`."""

    __slots__ = ("__weakref__", "_region", "chunk", "device", "gpu_va", "name", "nargs", "quick")

    def __init__(self, device: Owner, binary: Binary) -> None:
        self.device, self.name = device, binary.name
        code = CpuCode.of(binary)
        self.chunk = code.chunk_items | (HOLD if code.long else 0)
        """The packet's chunk word: with HOLD where the kernel takes long and can be stopped."""
        args = binary.resources.args
        self.nargs = ANY_NUMBER if args is None else len(args)
        """How many arguments a launch gives."""
        first, end = (0, QUICK_ARGS) if args is None else (len(args), len(args) + 1)
        self.quick = range(first, min(end, QUICK_ARGS))
        """Numbers of arguments that are right, and fit the ring's memory, without another check."""
        self._region = map_image(device.world, binary, device.arch)
        self.gpu_va = self._region.cpu_va + binary.entry

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(
                f"program {self.name!r} was used after close()", hint="load the binary again"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"CpuProgram({self.name!r})"

    def close(self) -> None:
        """Unmap the code once parked work is done. Raises: UseAfterFree the second time."""
        if not self._forget():
            raise UseAfterFree(f"program {self.name!r} was closed twice", hint="close it once")
        self.device.released(self._region)

    def _forget(self) -> bool:
        """Whether this call was the one that closed it."""
        try:
            del self.gpu_va
        except AttributeError:
            return False
        return True

    def drop(self) -> None:
        """Close it unless that was done; it is not running."""
        if self._forget():
            self.device.freed(self._region)

    def __del__(self) -> None:
        self.drop()


def map_image(world: World, binary: Binary, arch: str) -> Region:
    """The image at its final address, code executable, data writable.

    Raises: Unsupported for another arch; MalformedInput when its offsets do not fit the image.
    """
    if binary.arch != arch:
        raise Unsupported(
            f"{binary.name} is code for {binary.arch}, this is {arch}", hint="compile it for here"
        )
    size = len(binary.image)
    code_bytes = binary.data_offset or size
    if not 0 < size <= MAX_IMAGE_BYTES or not 0 <= binary.entry < code_bytes <= size:
        raise MalformedInput(f"{binary.name}: entry or data outside its image of {size} bytes")
    if binary.data_offset % PAGE_BYTES:
        raise MalformedInput(f"{binary.name}: data at {binary.data_offset:#x} is on a code page")
    with Undo() as undo:
        region = world.mmap(-1, -(-size // PAGE_BYTES) * PAGE_BYTES)
        undo.add(region.close)
        region.write(0, binary.image)
        _fix_up(world, binary, region)
        _make_executable(world, region, binary.data_offset)
    return region


def _fix_up(world: World, binary: Binary, region: Region) -> None:
    for fixup in binary.fixups:
        if not 0 <= fixup.offset <= len(binary.image) - _ADDRESS_BYTES:
            raise MalformedInput(f"{binary.name}: fix-up at {fixup.offset:#x} outside the image")
        base = world.symbol(fixup.symbol) if fixup.symbol else region.cpu_va
        region.write64(fixup.offset, (base + fixup.addend) & _ADDRESS_MASK)


def _make_executable(world: World, region: Region, data_offset: int) -> None:
    """The code's pages only; the caller's region keeps the data's pages writable."""
    code = region
    if data_offset:
        code = MemoryRegion(region.view()[:data_offset], cpu_va=region.cpu_va, name="code")
    world.protect(code, write=False, execute=True)
