"""What came back for a packet that asks for an answer.

Source: handmade/src/main.c of the firmware (request 0xF0, IN): the data dword, the low half of the
completion's second dword, a byte that says whether data came, the bridge's own verdict. PCI Express
Base Specification 4.0, 2.2.9: completion status and byte count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.errors import DeviceError, DeviceGone, DeviceTimeout, MalformedInput, Unsupported
from drivers.base.view import View
from drivers.usb.asm24.wire import TLP_ANSWER_BYTES

_FINE, _ERROR, _TIMEOUT = 0x00, 0x01, 0xFF
_STATUS_SHIFT, _STATUS_MASK = 13, 0x7
_HAS_DATA: Final = 1


class Status(IntEnum):
    """Completion status."""

    SUCCESS = 0
    UNSUPPORTED_REQUEST = 1
    RETRY = 2
    ABORT = 4


_GONE: Final = "check the enclosure's power and the card's seat, then open the GPU again"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer that arrived."""

    data: int
    status: Status
    has_data: bool


def parse(answer: bytes, what: str) -> Completion:
    """Take an answer apart. `what` was asked: "read 0x10000000".

    Raises: DeviceGone for a link error, DeviceTimeout when nothing answered, MalformedInput.
    """
    view = View(answer, f"the bridge's answer to {what}")
    data = view.u32(0, "data")
    header = int.from_bytes(view.bytes(4, 2, "completion header"), "big")
    kind, verdict = view.u8(6, "completion type"), view.u8(TLP_ANSWER_BYTES - 1, "verdict")
    if verdict == _ERROR:
        raise DeviceGone(f"{what}: the bridge reports an error of the link", hint=_GONE)
    if verdict == _TIMEOUT:
        raise DeviceTimeout(f"{what}: no completion came", hint=_GONE)
    if verdict != _FINE:
        raise view.fail(f"the verdict {verdict:#04x} is none of 0x00, 0x01, 0xff", 7)
    number = header >> _STATUS_SHIFT & _STATUS_MASK
    try:
        status = Status(number)
    except ValueError:
        raise view.fail(f"completion status {number} is reserved", 4) from None
    return Completion(data, status, bool(kind & _HAS_DATA))


def refused(status: Status, what: str) -> DeviceError:
    """The error of a completion without success."""
    if status is Status.UNSUPPORTED_REQUEST:
        return Unsupported(f"{what}: nothing takes it (Unsupported Request)", hint=_GONE)
    if status is Status.RETRY:
        return DeviceTimeout(f"{what}: the device still starts (Request Retry)", hint=_GONE)
    return DeviceGone(f"{what}: the device gave up (Completer Abort)", hint=_GONE)


def value(completion: Completion, what: str) -> int:
    """The data of a read. Raises: Unsupported, DeviceTimeout, DeviceGone, MalformedInput."""
    if completion.status is not Status.SUCCESS:
        raise refused(completion.status, what)
    if not completion.has_data:
        raise MalformedInput(f"{what}: a completion without data", hint="open the GPU again")
    return completion.data
