"""Memory of RM_ALLOC and RM_ALLOC_MEMORY: where it lies, and what its flags may say.

src: open-gpu-kernel-modules, video_mem.c, system_mem.c, os_desc_mem.c, escape.c
RmAllocOsDescriptor(), nvos.h NVOS32_ATTR_*
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from boards.machine import host
from boards.machine.extents import Piece
from boards.machine.pool import Pool
from boards.nv import status
from boards.nv.hardware import NvHardware
from boards.nv.memory import Memory
from boards.nv.objects import Object
from boards.nv.space import PAGE_BYTES
from boards.nv.status import RmError
from boards.nv.tree import Device
from boards.nv.user import pin

_LOCATION_SHIFT = 25
"""NVOS32_ATTR_LOCATION: 0 is video memory."""
_NO_OWNER = (0, 0xFFFF_FFFF)
_PHYSICALITY_SHIFT, _NONCONTIGUOUS, _CONTIGUOUS = 27, 1, 2
_PAGE_SIZE_SHIFT, _PAGE_BIG, _PAGE_HUGE = 23, 2, 3
_BIG_BYTES, _HUGE_BYTES = 64 << 10, 2 << 20
_DEFAULT_BYTES = 64 << 10
_READ_ONLY_SHIFT = 22
_LOW_BITS = 3
_MOST_ALIGN = 1 << 32


def _page_bytes(args: SimpleNamespace) -> int:
    kind = args.attr >> _PAGE_SIZE_SHIFT & _LOW_BITS
    return {1: PAGE_BYTES, _PAGE_BIG: _BIG_BYTES, _PAGE_HUGE: _HUGE_BYTES}.get(kind, 0)


def _checked(args: SimpleNamespace, *, system: bool) -> int:
    """Bytes to allocate. Raises: RmError.

    src: standard_mem.c stdmemValidateParams(), video_mem.c, system_mem.c: 535 to 595
    """
    if args.internalflags or args.rangeLo or args.rangeHi:
        raise RmError(status.INVALID_ARGUMENT, "internalflags, or a range without its flag")
    if args.owner in _NO_OWNER:
        raise RmError(status.INVALID_OWNER, f"owner {args.owner:#x}")
    location = args.attr >> _LOCATION_SHIFT & _LOW_BITS
    if bool(location) != system:
        raise RmError(status.INVALID_ARGUMENT, f"location {location} of the wrong memory")
    if not args.size:
        raise RmError(status.INVALID_ARGUMENT, "size 0")
    if args.alignment & args.alignment - 1 or args.alignment > _MOST_ALIGN:
        raise RmError(status.INVALID_ARGUMENT, f"alignment {args.alignment:#x}")
    page = _page_bytes(args) or PAGE_BYTES
    nbytes: int = -(-args.size // page) * page
    return nbytes


def video_memory(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Memory:
    """NV01_MEMORY_LOCAL_USER. Raises: RmError INVALID_ARGUMENT, NO_MEMORY."""
    gpu = parent.ancestor(Device).gpu
    nbytes = _checked(args, system=False)
    page = _page_bytes(args) or (_DEFAULT_BYTES if nbytes >= _DEFAULT_BYTES else PAGE_BYTES)
    whole = args.attr >> _PHYSICALITY_SHIFT & _LOW_BITS == _CONTIGUOUS
    try:
        pieces = gpu.memory.take(nbytes, max(page, args.alignment), whole=whole)
    except OSError as error:
        raise RmError(status.NO_MEMORY, str(error)) from error
    for piece in pieces:
        gpu.vram.prepare(piece.start, piece.nbytes)
    read_only = bool(args.attr2 >> _READ_ONLY_SHIFT & 1)
    made = Memory(
        gpu.vram, pieces, nbytes, page, partial(gpu.give, pieces),
        kind="video", gpu_index=gpu.index, read_only=read_only,
    )  # fmt: skip
    args.size, args.limit, args.offset = nbytes, nbytes - 1, pieces[0].start
    return made


def system_memory(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Memory:
    """NV01_MEMORY_SYSTEM. Raises: RmError INVALID_ARGUMENT, NO_MEMORY."""
    nbytes = _checked(args, system=True)
    apart = args.attr >> _PHYSICALITY_SHIFT & _LOW_BITS == _NONCONTIGUOUS
    if apart and _page_bytes(args) > PAGE_BYTES:
        raise RmError(status.NOT_SUPPORTED, "large pages in pieces, of memory of 4 KiB pages")
    whole = args.attr >> _PHYSICALITY_SHIFT & _LOW_BITS == _CONTIGUOUS
    try:
        pieces = hardware.system_memory.take(nbytes, PAGE_BYTES, whole=whole)
    except OSError as error:
        raise RmError(status.NO_MEMORY, str(error)) from error

    def give() -> None:
        for piece in pieces:
            hardware.system.forget(piece.start, piece.nbytes)
        hardware.system_memory.give(pieces)

    args.size, args.limit = nbytes, nbytes - 1
    index = parent.ancestor(Device).gpu.index
    return Memory(hardware.system, pieces, nbytes, PAGE_BYTES, give, kind="system", gpu_index=index)


_OS02_LOCATION_SHIFT, _OS02_COHERENCY_SHIFT, _OS02_MAPPING_SHIFT = 8, 12, 30
_OS02_PCI, _OS02_NO_MAP = 0, 1
_OS02_COHERENCY = {0, 1, 5}
"""UNCACHED, CACHED, WRITE_BACK. src: nvos.h NVOS02_FLAGS_COHERENCY_*"""
_OS02_READ_ONLY = 1 << 21 | 1 << 22


def user_memory(gpu_index: int, args: SimpleNamespace) -> Memory:
    """NV01_MEMORY_SYSTEM_OS_DESCRIPTOR: pages of the process, pinned. Raises: RmError, OSError."""
    flags = args.flags
    pci = flags >> _OS02_LOCATION_SHIFT & 0xF == _OS02_PCI
    if not pci or flags >> _OS02_MAPPING_SHIFT & _LOW_BITS != _OS02_NO_MAP:
        raise RmError(status.INVALID_FLAGS, f"flags {flags:#x}: location or mapping")
    if flags >> _OS02_COHERENCY_SHIFT & 0xF not in _OS02_COHERENCY:
        raise RmError(status.INVALID_FLAGS, f"flags {flags:#x}: coherency")
    nbytes = args.limit + 1
    if args.pMemory % host.PAGE_BYTES:
        raise RmError(status.NOT_SUPPORTED, f"{args.pMemory:#x} is no page")
    if nbytes >= 1 << 47 or nbytes <= 0:
        raise RmError(status.INVALID_LIMIT, f"limit {args.limit:#x}")
    nbytes = host.pages(nbytes)
    read_only = bool(flags & _OS02_READ_ONLY)
    try:
        pin(args.pMemory, nbytes, write=not read_only)
    except OSError as error:
        raise RmError(status.INVALID_ADDRESS, str(error)) from error
    pool = Pool(f"process memory at {args.pMemory:#x}", args.pMemory, nbytes)
    return Memory(
        pool, [Piece(0, nbytes)], nbytes, PAGE_BYTES, lambda: None, kind="user",
        gpu_index=gpu_index, read_only=read_only,
    )  # fmt: skip
