"""NV_STATUS: how NVIDIA's kernel driver reports failure, beside errno.

# src: src/common/sdk/nvidia/inc/nvstatuscodes.h
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceFault,
    DeviceGone,
    DeviceTimeout,
    NotFound,
    OutOfMemory,
    Unsupported,
)


class NvStatus(IntEnum):
    """Those that get an error of their own here; others are reported by number."""

    OK = 0x00
    BUSY_RETRY = 0x03
    CARD_NOT_PRESENT = 0x05
    GPU_IS_LOST = 0x0F
    GPU_IN_FULLCHIP_RESET = 0x10
    GPU_UUID_NOT_FOUND = 0x12
    ILLEGAL_ACTION = 0x16
    IN_USE = 0x17
    INSUFFICIENT_RESOURCES = 0x1A
    INSUFFICIENT_PERMISSIONS = 0x1B
    INVALID_ADDRESS = 0x1E
    INVALID_ARGUMENT = 0x1F
    INVALID_CHANNEL = 0x21
    INVALID_CLASS = 0x22
    INVALID_CLIENT = 0x23
    INVALID_DEVICE = 0x26
    INVALID_LIMIT = 0x2E
    INVALID_OBJECT_HANDLE = 0x33
    INVALID_OBJECT_PARENT = 0x36
    INVALID_PARAM_STRUCT = 0x3A
    INVALID_STATE = 0x40
    NO_FREE_FIFOS = 0x4F
    NO_MEMORY = 0x51
    NOT_SUPPORTED = 0x56
    OBJECT_NOT_FOUND = 0x57
    OPERATING_SYSTEM = 0x59
    PAGE_TABLE_NOT_AVAIL = 0x5D
    RC_ERROR = 0x60
    RESET_REQUIRED = 0x62
    STATE_IN_USE = 0x63
    TIMEOUT = 0x65
    UVM_ADDRESS_IN_USE = 0x68
    GENERIC = 0xFFFF


WARNINGS: Final = 0x10000
"""From here on they are warnings (NV_WARN_*): the call was done."""
_SEE_LOG: Final = "See the kernel log (dmesg): NVRM names the reason"
_NO_PROCESS: Final = (
    "UVM has let go of this process's memory, and starts nothing in this address space any more: "
    "close the device, and open it again"
)
"""# src: kernel-open/nvidia-uvm/uvm.c uvm_api_mm_initialize() on UVM_VA_SPACE_MM_STATE_RELEASED"""
_GONE: Final = {
    NvStatus.GPU_IS_LOST, NvStatus.GPU_IN_FULLCHIP_RESET, NvStatus.RESET_REQUIRED,
    NvStatus.CARD_NOT_PRESENT,
}  # fmt: skip
_UNSUPPORTED: Final = {
    NvStatus.NOT_SUPPORTED, NvStatus.INVALID_CLASS, NvStatus.INVALID_PARAM_STRUCT,
}  # fmt: skip
_NO_ROOM: Final = {NvStatus.INSUFFICIENT_RESOURCES, NvStatus.NO_FREE_FIFOS}


class NvRefused(Exception):
    """The `__cause__` of an error that is RM's or UVM's own answer, not one of ioctl(2)."""


@contextmanager
def hint() -> Iterator[None]:
    """A request without which everything works: what RM says against it is no error.

    Raises: what ioctl(2) says, and answers that are none.
    """
    try:
        yield
    except DeviceError as error:
        if not isinstance(error.__cause__, NvRefused):
            raise


def name_of(status: int) -> str:
    """As NVIDIA writes it, or its number."""
    known = status in NvStatus._value2member_map_
    return f"NV_ERR_{NvStatus(status).name}" if known else f"NV_STATUS {status:#x}"


def check_status(status: int, what: str, nbytes: int = 0) -> None:
    """Raises: the error for a status that is neither success nor a warning; `what` failed."""
    if status != NvStatus.OK and not WARNINGS <= status < 2 * WARNINGS:
        cause = NvRefused(name_of(status))
        raise _error(status, f"{what}: {cause}", nbytes) from cause


def _error(status: int, text: str, nbytes: int) -> DeviceError:
    if status == NvStatus.NO_MEMORY:
        return OutOfMemory(
            text, requested=nbytes, used=0, cached=0, limit=0,
            hint="Free buffers, or close other programs that use the GPU",
        )  # fmt: skip
    if status in _GONE:
        return DeviceGone(text, hint=f"{_SEE_LOG}; the GPU has to be reset")
    if status == NvStatus.PAGE_TABLE_NOT_AVAIL:
        return DeviceGone(text, hint=_NO_PROCESS)
    if status in _UNSUPPORTED:
        return Unsupported(text, hint="Compare the driver's version with docs/nv.md")
    if status == NvStatus.INSUFFICIENT_PERMISSIONS:
        return Denied(text, hint="Run as a user who may open /dev/nvidia*")
    if status in (NvStatus.IN_USE, NvStatus.BUSY_RETRY, NvStatus.STATE_IN_USE):
        return Busy(text, hint="Try again; another program may hold the GPU")
    if status in _NO_ROOM:
        return Busy(text, hint="Close other programs that use the GPU: its channels are used up")
    if status == NvStatus.TIMEOUT:
        return DeviceTimeout(text, hint=_SEE_LOG)
    if status in (NvStatus.OBJECT_NOT_FOUND, NvStatus.GPU_UUID_NOT_FOUND, NvStatus.INVALID_DEVICE):
        return NotFound(text, hint=_SEE_LOG)
    if status == NvStatus.RC_ERROR:
        return DeviceFault(text, kind="channel error", hint=_SEE_LOG)
    return BadArgument(text, hint=f"Report it: this driver made the call. {_SEE_LOG}")
