"""Checks of a caller's arguments to a device; all of them happen before anything runs.

Every function answers the 64-bit word that a packet needs. Raises: BadArgument, UseAfterFree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.base import launches
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.gpu.buffer import GpuBuffer
from drivers.gpu.signal import GpuSignal

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner


def word(device: Owner, value: object) -> int:
    """The word of a kernel argument: a buffer's address, or a number."""
    if isinstance(value, GpuBuffer):
        if value.device is not device and device not in value.others:
            gone = value.device.refusal
            if isinstance(gone, UseAfterFree):  # closed, or of the process this was forked from
                raise gone.with_traceback(None)
            raise BadArgument(
                f"{value!r} belongs to {value.device!r}, not to {device!r}",
                hint="copy it to this device, or map_to() it, first",
            )
        return value.gpu_va
    return launches.integer_word(value)


def copy_va(device: Owner, buffer: object, nbytes: int, *, write: bool) -> int:
    """The address of a buffer that `nbytes` fit in."""
    if not isinstance(buffer, GpuBuffer):
        raise BadArgument(f"{buffer!r} is not a buffer to copy", hint="pass a buffer")
    va = word(device, buffer)
    launches.check_copy(buffer, nbytes, write=write)
    return va


def signal_va(device: Owner, signal: object) -> int:
    """The address of a live signal, of this device or of another one of the same process."""
    if not isinstance(signal, GpuSignal):
        raise BadArgument(f"{signal!r} is not a signal of {device.name}", hint="use new_signal()")
    if signal.device is not device:
        if not device.iface.shares(signal.device.iface):
            raise BadArgument(f"{signal!r} belongs to {signal.device!r}", hint="use new_signal()")
        signal.pool.map_to(device.iface)
        signal.device.heap.reached_by(device.heap)
    return signal.gpu_va


def check_destination(dst: memoryview) -> None:
    """Raises: BadArgument for host memory that cannot be copied to."""
    if dst.readonly or not dst.c_contiguous:
        raise BadArgument(
            "the destination is read-only or not contiguous", hint="pass writable memory"
        )
