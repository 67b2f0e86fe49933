"""dma-bufs through DRM's PRIME: memory of another driver or process imported, ours exported.

# src: include/uapi/drm/drm.h struct drm_prime_handle; drm_prime.c: a dma-buf that the file has a
# handle of has that handle again; drivers/dma-buf/dma-buf.c dma_buf_show_fdinfo()
"""

from __future__ import annotations

import errno
import os
import re
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import BadArgument, DeviceError, MalformedInput, NotFound
from drivers.base.ioctl import Ioctl, Struct, i32, u32
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.machine.text import fields, read_text
from drivers.qcom.msm.abi import TYPE

RIGHTS: Final = os.O_CLOEXEC | os.O_RDWR
"""DRM_CLOEXEC, DRM_RDWR."""
_REFUSED: Final = frozenset({errno.EINVAL, errno.EBADF})
_FD_LIMIT: Final = 1 << 31
_MOST_BYTES: Final = 1 << 47
_NUMBER: Final = re.compile(r"[0-9]{1,18}").fullmatch


class PrimeHandle(Struct, size=12):
    """struct drm_prime_handle."""

    handle: int = u32()
    flags: int = u32()
    fd: int = i32()


HANDLE_TO_FD = Ioctl("DRM_IOCTL_PRIME_HANDLE_TO_FD", "WR", TYPE, 0x2D, PrimeHandle)
FD_TO_HANDLE = Ioctl("DRM_IOCTL_PRIME_FD_TO_HANDLE", "WR", TYPE, 0x2E, PrimeHandle)


def size_of(world: World, fd: int) -> int:
    """Bytes of a dma-buf. Raises: BadArgument for a descriptor that is none."""
    path = f"/proc/self/fdinfo/{fd}"
    try:
        text = read_text(world, path)
    except NotFound as error:
        raise BadArgument(f"descriptor {fd} is not open", hint="pass an open one") from error
    size = dict(fields(text)).get("size", "").strip()
    if not _NUMBER(size):
        raise BadArgument(
            f"descriptor {fd} is not a dma-buf", hint="export one, or copy the memory"
        )
    if not 0 < int(size) < _MOST_BYTES or int(size) % PAGE_BYTES:
        raise MalformedInput(f"{path}: a dma-buf of {size} bytes")
    return int(size)


def handle_of(world: World, node: int, fd: int) -> int:
    """msm's handle of a dma-buf. Raises: BadArgument for a descriptor that is none."""
    call = PrimeHandle(fd=fd)
    try:
        FD_TO_HANDLE(world, node, call)
    except DeviceError as error:
        if errno_of(error) not in _REFUSED:
            raise
        raise BadArgument(
            f"msm takes no descriptor {fd}", hint="pass one of a dma-buf that is open here"
        ) from error
    handle: int = call.handle
    return handle


def export(world: World, node: int, handle: int) -> int:
    """A new descriptor of a dma-buf of an object, the caller's to close."""
    call = PrimeHandle(handle=handle, flags=RIGHTS, fd=-1)
    HANDLE_TO_FD(world, node, call)
    fd: int = call.fd
    if not 0 <= fd < _FD_LIMIT:
        raise MalformedInput(f"msm exported descriptor {fd}")
    return fd


def check_inside(fd: int, size: int, first: int, nbytes: int) -> None:
    """Raises: BadArgument for bytes that a dma-buf does not have."""
    if not 0 <= first <= size - nbytes:
        raise BadArgument(
            f"bytes {first} ... {first + nbytes} are outside of the {size} of dma-buf {fd}",
            hint="correct the shape, the strides or the offset",
        )
