"""What is called of libusb: functions with their types, codes, and the struct of a transfer.

`tests/abi/test_libusb_abi.py` compares all of it with libusb.h.
# src: libusb 1.0.26, libusb/libusb.h
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

LIBRARY: Final = "libusb-1.0.so.0"

_POINTER: Final = "uint64_t"
FUNCTIONS: Final[Mapping[str, str]] = {
    "libusb_init": f"int(*)({_POINTER})",
    "libusb_exit": f"void(*)({_POINTER})",
    "libusb_get_device_list": f"int64_t(*)({_POINTER}, {_POINTER})",
    "libusb_free_device_list": f"void(*)({_POINTER}, int)",
    "libusb_get_bus_number": f"uint8_t(*)({_POINTER})",
    "libusb_get_device_address": f"uint8_t(*)({_POINTER})",
    "libusb_get_device_descriptor": f"int(*)({_POINTER}, {_POINTER})",
    "libusb_get_string_descriptor_ascii": f"int(*)({_POINTER}, uint8_t, {_POINTER}, int)",
    "libusb_open": f"int(*)({_POINTER}, {_POINTER})",
    "libusb_close": f"void(*)({_POINTER})",
    "libusb_claim_interface": f"int(*)({_POINTER}, int)",
    "libusb_set_interface_alt_setting": f"int(*)({_POINTER}, int, int)",
    "libusb_release_interface": f"int(*)({_POINTER}, int)",
    "libusb_clear_halt": f"int(*)({_POINTER}, unsigned char)",
    "libusb_alloc_transfer": f"{_POINTER}(*)(int)",
    "libusb_free_transfer": f"void(*)({_POINTER})",
    "libusb_submit_transfer": f"int(*)({_POINTER})",
    "libusb_cancel_transfer": f"int(*)({_POINTER})",
    "libusb_handle_events_timeout_completed": f"int(*)({_POINTER}, {_POINTER}, {_POINTER})",
}

ERRNO: Final[Mapping[int, int]] = {
    -1: errno.EIO, -2: errno.EINVAL, -3: errno.EACCES, -4: errno.ENODEV, -5: errno.ENOENT,
    -6: errno.EBUSY, -7: errno.ETIMEDOUT, -8: errno.EOVERFLOW, -9: errno.EPIPE, -10: errno.EINTR,
    -11: errno.ENOMEM, -12: errno.EOPNOTSUPP,
}  # fmt: skip
"""enum libusb_error as errno; what is not listed is EIO."""
INTERRUPTED: Final = -10


class Status(IntEnum):
    """enum libusb_transfer_status."""

    COMPLETED = 0
    ERROR = 1
    TIMED_OUT = 2
    CANCELLED = 3
    STALL = 4
    NO_DEVICE = 5
    OVERFLOW = 6


PENDING: Final = 0x7FFF_FFFF
"""What we write to the status of a transfer before it is submitted; libusb never writes it."""
STATUS_ERRNO: Final[Mapping[int, int]] = {
    Status.ERROR: errno.EIO, Status.TIMED_OUT: errno.ETIMEDOUT, Status.CANCELLED: errno.EIO,
    Status.STALL: errno.EPIPE, Status.NO_DEVICE: errno.ENODEV, Status.OVERFLOW: errno.EOVERFLOW,
}  # fmt: skip
TYPE_CONTROL, TYPE_BULK = 0, 2

TRANSFER: Final = struct.Struct("<QBBBxIiii4xQQQi4x")
"""dev_handle, flags, endpoint, type, timeout, status, length, actual_length, callback,
user_data, buffer, num_iso_packets."""
STATUS_AT, ACTUAL_AT = 16, 24
_WORD: Final = struct.Struct("<i")
SETUP: Final = struct.Struct("<BBHHH")
"""bmRequestType, bRequest, wValue, wIndex, wLength. src: USB 2.0, 9.3"""
TIMEVAL: Final = struct.Struct("<qq")
"""Seconds and microseconds. src: bits/types/struct_timeval.h on 64-bit Linux"""
DEVICE_DESCRIPTOR_BYTES: Final = 18
PRODUCT_AT, SERIAL_AT = 15, 16
"""iProduct and iSerialNumber. src: USB 2.0, table 9-8"""
STRING_BYTES: Final = 256


def transfer(handle: int, endpoint: int, kind: int, buffer: int, nbytes: int) -> bytes:
    """A transfer without a callback: libusb calls none, and the status says when it is done.

    # src: libusb 1.0.26, libusb/io.c, usbi_handle_transfer_completion
    """
    return TRANSFER.pack(handle, 0, endpoint, kind, 0, PENDING, nbytes, 0, 0, 0, buffer, 0)


def status_of(memory: memoryview) -> int:
    """Of a submitted transfer: PENDING, or how it ended."""
    value: int = _WORD.unpack_from(memory, STATUS_AT)[0]
    return value


def moved(memory: memoryview) -> int:
    """Bytes that went over the cable, without a setup packet."""
    value: int = _WORD.unpack_from(memory, ACTUAL_AT)[0]
    return value
