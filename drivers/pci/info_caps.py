"""Capabilities behind the INFO structs of VFIO: sparse areas of a region, address ranges.

The struct is asked for twice: once for how long the answer is, once for all of it. Offsets in it
are the kernel's, and are read through bounded views nevertheless.
Source: Linux 6.12 include/uapi/linux/vfio.h, struct vfio_info_cap_header and its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.ioctl import Struct
from drivers.base.view import View
from drivers.pci.vfio_abi import (
    REGION_CAP_SPARSE_MMAP,
    TYPE1_CAP_IOVA_RANGE,
    CapHeader,
    SizelessIoctl,
)

_LIMIT_BYTES = 1 << 16
_MOST_CAPS = 64
_COUNT, _LIST = 8, 16
"""Where both kinds of lists have their length and their first pair of 64-bit numbers."""

S = TypeVar("S", bound=Struct)


def whole_answer(world: World, fd: int, request: SizelessIoctl[S], args: S) -> View:
    """The struct and everything behind it; `args` has been answered once. Raises: DeviceError."""
    given = View(bytes(args.raw), request.name)
    nbytes = given.u32(0, "argsz")
    if nbytes > _LIMIT_BYTES:
        raise given.fail(f"an answer of {nbytes} bytes; at most {_LIMIT_BYTES} are read")
    raw = bytearray(max(nbytes, args.SIZE))
    raw[: args.SIZE] = args.raw
    try:
        world.ioctl(fd, request.request, raw)
    except DeviceError as error:
        raise error.named(request.name) from error.__cause__
    return View(raw, request.name)


def _caps(view: View, first: int) -> Iterator[tuple[int, int]]:
    """(id, offset) of each capability; offsets count from the struct's start."""
    off = first
    for _ in range(_MOST_CAPS):
        if off == 0:
            return
        header = CapHeader.of(view.bytes(off, CapHeader.SIZE, "capability"))
        yield header.id, off
        off = header.next
    raise view.fail("the list of capabilities loops", first)


def _pairs(view: View, first: int, kind: int) -> list[tuple[int, int]] | None:
    """The list of a capability of a kind, None without one."""
    for found, off in _caps(view, first):
        if found == kind:
            count = view.u32(off + _COUNT, "length of a list")
            return [(a, b) for a, b in view.table("QQ", off + _LIST, count, "list")]
    return None


def sparse_areas(view: View, first: int) -> list[tuple[int, int]] | None:
    """(offset, bytes) of what may be mapped of a region, None when all of it may be."""
    return _pairs(view, first, REGION_CAP_SPARSE_MMAP)


def iova_ranges(view: View, first: int) -> list[tuple[int, int]] | None:
    """(first, last) addresses that may be mapped, None when the kernel does not say."""
    return _pairs(view, first, TYPE1_CAP_IOVA_RANGE)
