"""ioctl(2) on a render node: VERSION, GET_CAP and AMDGPU_INFO, as libdrm_amdgpu asks them.

src: Linux 6.12, drivers/gpu/drm/drm_ioctl.c drm_ioctl(), drm_version(), drm_getcap(),
drm_ioctl_permit(); libdrm amdgpu/amdgpu_device.c amdgpu_device_initialize()
"""

from __future__ import annotations

import errno
from types import SimpleNamespace

from boards.amd.drm import types as d
from boards.amd.drm.info import Info
from boards.amd.hardware import Gpu, Hardware
from boards.machine import host

_NR_MASK, _TYPE_SHIFT, _SIZE_SHIFT, _SIZE_MASK, _DIR_SHIFT = 0xFF, 8, 16, 0x3FFF, 30
_WRITE, _READ = 1, 2
"""src: include/uapi/asm-generic/ioctl.h _IOC_*"""
_VERSION = (3, 61, 0)
_TEXTS = {"name": b"amdgpu", "date": b"20150101", "desc": b"AMD GPU"}
"""src: amdgpu_drv.c KMS_DRIVER_*, amdgpu_drv.h DRIVER_*"""
_CAPS = {d.CAP_TIMESTAMP_MONOTONIC: 1, d.CAP_PRIME: 0, d.CAP_SYNCOBJ: 0, d.CAP_SYNCOBJ_TIMELINE: 0}


class Drm:
    """One open render node."""

    def __init__(self, hardware: Hardware, gpu: Gpu) -> None:
        self._info = Info(hardware, gpu)

    def ioctl(self, request: int, argument: bytearray | int) -> int:
        """Run a command; `argument` is changed in place.

        Raises: OSError ENOTTY for requests of other drivers, EACCES for what needs the primary
        node, EFAULT, and EINVAL, also for commands of the kernel that a board has not.
        """
        if request >> _TYPE_SHIFT & _NR_MASK != d.IOCTL_TYPE:
            raise OSError(errno.ENOTTY, f"request {request:#x} is none of DRM's")
        number = request & _NR_MASK
        size = request >> _SIZE_SHIFT & _SIZE_MASK
        if number not in d.REQUESTS:
            raise _refusal(number)
        if isinstance(argument, int) or len(argument) < size:
            raise OSError(errno.EFAULT, f"no {size} bytes at the argument of {request:#x}")
        layout, takes, gives = d.REQUESTS[number]
        way = request >> _DIR_SHIFT
        data = bytes(argument[:size]) if takes and way & _WRITE else bytes(size)
        args = layout.unpack(data)
        try:
            self._run(number, args)
        finally:
            if gives and way & _READ:
                result = layout.pack(args)[:size]
                argument[: len(result)] = result
        return 0

    def _run(self, number: int, args: SimpleNamespace) -> None:
        if number == d.NR_VERSION:
            _version(args)
        elif number == d.NR_GET_CAP:
            _cap(args)
        else:
            self._info.answer(args)


def _refusal(number: int) -> OSError:
    """How a number that no function here has is refused."""
    if number in d.PRIMARY_CORE or number == d.SCHED:
        return OSError(errno.EACCES, f"DRM command {number:#x} is not for render nodes")
    known = number in d.RENDER_CORE or d.COMMAND_BASE <= number < d.COMMAND_END
    where = "on a board" if known else "in the kernel"
    return OSError(errno.EINVAL, f"DRM command {number:#x} is not {where}")


def _version(args: SimpleNamespace) -> None:
    """VERSION. A text is cut to the caller's buffer; its whole length is told. Raises: EFAULT."""
    args.version_major, args.version_minor, args.version_patchlevel = _VERSION
    for field, text in _TEXTS.items():
        room, pointer = getattr(args, f"{field}_len"), getattr(args, field)
        setattr(args, f"{field}_len", len(text))
        if room and pointer:
            host.copy_to_user(pointer, text[:room])


def _cap(args: SimpleNamespace) -> None:
    """GET_CAP, as of a driver without displays, sync objects and dma-buf, which a board has not.

    Raises: OSError EOPNOTSUPP.
    """
    args.value = 0
    if args.capability not in _CAPS:
        raise OSError(errno.EOPNOTSUPP, f"capability {args.capability:#x} is one of displays")
    args.value = _CAPS[args.capability]
