"""Standard requests: what every USB device answers, for a bridge at SuperSpeed.

src: USB 3.2, 9.4 and 9.6; the values are those of github.com/tinygrad/asm2464pd-firmware at
c5e2090, handmade/src/usb.h. Its second alternate setting is left out: nothing selects it.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

from boards.usb.port import Descriptors

STANDARD, _KIND_MASK = 0x00, 0x60
"""Bits 5 and 6 of bmRequestType."""
_GET_STATUS, _CLEAR_FEATURE, _SET_FEATURE, _GET_DESCRIPTOR = 0, 1, 3, 6
_SET_SEL, _SET_ISOCH_DELAY = 0x30, 0x31
_IN: Final = 0x80
_DEVICE, _CONFIG, _STRING, _BOS = 1, 2, 3, 15
_DEVICE_FORM: Final = struct.Struct("<BBHBBBBHHHBBBB")
_USB_3_2, _PACKET_512, _RELEASE = 0x0320, 9, 0x0001
BULK_BYTES: Final = 1024
_BURST: Final = 15
_SELF_POWERED: Final = 1
_ENGLISH: Final = 0x0409
_BOS_BYTES: Final = bytes.fromhex("050f160002 07100202000000 0a1003000e0003000000")
"""USB 2.0 extension (LPM), SuperSpeed capability."""


def is_standard(request_type: int) -> bool:
    """Whether a request is none of a vendor's or of a class."""
    return request_type & _KIND_MASK == STANDARD


def configuration(endpoints: tuple[int, ...]) -> bytes:
    """One interface of a vendor's class with bulk endpoints."""
    body = bytes([9, 4, 0, 0, len(endpoints), 0xFF, 0xFF, 0xFF, 0])
    for endpoint in endpoints:
        body += bytes([7, 5, endpoint, 2]) + BULK_BYTES.to_bytes(2, "little") + b"\0"
        body += bytes([6, 0x30, _BURST, 0, 0, 0])
    total = (9 + len(body)).to_bytes(2, "little")
    return bytes([9, _CONFIG]) + total + bytes([1, 1, 0, 0xC0, 0]) + body


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return bytes([2 + len(data), _STRING]) + data


def _descriptor(about: Descriptors, endpoints: tuple[int, ...], kind: int, index: int) -> bytes:
    if kind == _DEVICE:
        return _DEVICE_FORM.pack(
            _DEVICE_FORM.size, _DEVICE, _USB_3_2, 0, 0, 0, _PACKET_512,
            about.vendor, about.product, _RELEASE, 1, 2, 3, 1,
        )  # fmt: skip
    if kind == _CONFIG and not index:
        return configuration(endpoints)
    if kind == _BOS:
        return _BOS_BYTES
    if kind == _STRING and not index:
        return bytes([4, _STRING]) + _ENGLISH.to_bytes(2, "little")
    texts = ("", about.manufacturer, about.product_name, about.serial)
    if kind == _STRING and index < len(texts):
        return _text(texts[index])
    raise OSError(errno.EPIPE, f"descriptor {kind} {index}")


def answer(
    about: Descriptors, endpoints: tuple[int, ...], request_type: int, request: int, value: int,
    nbytes: int,
) -> bytes:  # fmt: skip
    """What a standard request gives back. Raises: OSError EPIPE for one that is not known."""
    if request_type & _IN:
        if request == _GET_DESCRIPTOR:
            return _descriptor(about, endpoints, value >> 8, value & 0xFF)[:nbytes]
        if request == _GET_STATUS:
            powered = 0 if request_type & 0x1F else _SELF_POWERED
            return powered.to_bytes(2, "little")[:nbytes]
    elif request in (_CLEAR_FEATURE, _SET_FEATURE, _SET_SEL, _SET_ISOCH_DELAY):
        return b""
    raise OSError(errno.EPIPE, f"standard request {request_type:#04x} {request:#04x}")
