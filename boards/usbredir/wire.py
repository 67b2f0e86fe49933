"""The usb-redir protocol as numbers and structs: what a virtual machine and a USB host exchange.

Source: usbredirproto.h of Debian's libusbredirparser-dev, with which tests/abi compares, and what
QEMU's hw/usb/redirect.c does with it. Little endian, packed.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """`type` of a packet."""

    HELLO = 0
    DEVICE_CONNECT = 1
    DEVICE_DISCONNECT = 2
    RESET = 3
    INTERFACE_INFO = 4
    EP_INFO = 5
    SET_CONFIGURATION = 6
    GET_CONFIGURATION = 7
    CONFIGURATION_STATUS = 8
    SET_ALT_SETTING = 9
    GET_ALT_SETTING = 10
    ALT_SETTING_STATUS = 11
    CANCEL_DATA_PACKET = 21
    FILTER_REJECT = 22
    CONTROL_PACKET = 100
    BULK_PACKET = 101


class Status(IntEnum):
    """How a transfer ended."""

    SUCCESS = 0
    CANCELLED = 1
    INVAL = 2
    IOERROR = 3
    STALL = 4
    TIMEOUT = 5
    BABBLE = 6


class Cap(IntEnum):
    """Bits of the capabilities. Lengths of headers depend on what both sides have."""

    CONNECT_DEVICE_VERSION = 1
    EP_INFO_MAX_PACKET_SIZE = 4
    IDS_64BITS = 5
    BULK_LENGTH_32BITS = 6


CAPS: Final = sum(1 << bit for bit in Cap)
"""All of them are what QEMU asks for behind an xHCI."""
SPEED_SUPER: Final = 3
TYPE_CONTROL, TYPE_BULK, TYPE_INVALID = 0, 2, 255
ENDPOINTS: Final = 32
"""Entries of the tables: 0 to 15 into the device, then 16 to 31 into the host."""

FIRST_HEADER: Final = struct.Struct("<III")
"""type, length, id: of the hello alone."""
HEADER: Final = struct.Struct("<IIQ")
HELLO: Final = struct.Struct("<64sI")
DEVICE_CONNECT: Final = struct.Struct("<BBBBHHH")
INTERFACE_INFO: Final = struct.Struct("<I32s32s32s32s")
EP_INFO: Final = struct.Struct("<32s32s32s32H")
SET_CONFIGURATION: Final = struct.Struct("<B")
CONFIGURATION_STATUS: Final = struct.Struct("<BB")
SET_ALT_SETTING: Final = struct.Struct("<BB")
GET_ALT_SETTING: Final = struct.Struct("<B")
ALT_SETTING_STATUS: Final = struct.Struct("<BBB")
CONTROL: Final = struct.Struct("<BBBBHHH")
"""endpoint, request, requesttype, status, value, index, length"""
BULK: Final = struct.Struct("<BBHIH")
"""endpoint, status, low half of length, stream, high half of length"""
NO_BODY: Final = struct.Struct("")

HEADS: Final[dict[Kind, struct.Struct]] = {
    Kind.HELLO: HELLO,
    Kind.RESET: NO_BODY,
    Kind.SET_CONFIGURATION: SET_CONFIGURATION,
    Kind.GET_CONFIGURATION: NO_BODY,
    Kind.SET_ALT_SETTING: SET_ALT_SETTING,
    Kind.GET_ALT_SETTING: GET_ALT_SETTING,
    Kind.CANCEL_DATA_PACKET: NO_BODY,
    Kind.FILTER_REJECT: NO_BODY,
    Kind.CONTROL_PACKET: CONTROL,
    Kind.BULK_PACKET: BULK,
}
"""What a virtual machine sends, and the struct that it begins with."""
MAX_DATA_BYTES: Final = 16 << 20
"""The most that Linux's usbfs takes for all transfers under way. src: usbfs_memory_mb, 16"""
VERSION: Final = b"board of an enclosure"
