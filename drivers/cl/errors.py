"""Numbers of OpenCL's errors -> errors of this stack."""

from __future__ import annotations

from typing import Final

from drivers.base.errors import DeviceError, DeviceGone, NotFound, OutOfMemory
from drivers.cl import abi

_HALF: Final = 1 << 31
_BITS32: Final = (1 << 32) - 1
_HINT: Final = "python -m drivers.probe lists OpenCL platforms; CL_DEVICE chooses another device"


def signed(status: int) -> int:
    """A cl_int from the low half of a register."""
    return ((status + _HALF) & _BITS32) - _HALF


def name_of(status: int) -> str:
    """ "CL_OUT_OF_RESOURCES (-5)"."""
    return f"{abi.STATUS.get(status, 'unknown status')} ({status})"


def error_of(call: str, status: int, nbytes: int = 0) -> DeviceError:
    """The error of a call that returned `status`."""
    text = f"{call}: {name_of(status)}"
    if status in abi.OUT_OF_MEMORY:
        return OutOfMemory(
            text, requested=nbytes, used=0, cached=0, limit=0,
            hint="free tensors that are not needed, or work on smaller pieces",
        )  # fmt: skip
    if status in abi.LOST:
        return DeviceGone(text, hint="the driver lost the device: close it, and open it again")
    if status in (abi.DEVICE_NOT_FOUND, abi.PLATFORM_NOT_FOUND_KHR):
        return NotFound(text, hint=_HINT)
    return DeviceError(text, hint="update the OpenCL driver, or report this line with its version")
