"""A made-up libusb: devices on cables, transfers that end while events are handled.

Functions are called with integers, as a C library's are. What a caller does wrong is a violation.
# src: libusb 1.0.26, libusb/libusb.h (codes, struct libusb_transfer) and its API documentation
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from boards.machine import host
from boards.usb.cable import Cable

_CODES: Final = {
    errno.EIO: -1, errno.EINVAL: -2, errno.EACCES: -3, errno.ENODEV: -4, errno.ENOENT: -5,
    errno.EBUSY: -6, errno.ETIMEDOUT: -7, errno.EOVERFLOW: -8, errno.EPIPE: -9, errno.ENOMEM: -11,
}  # fmt: skip
_STATUS: Final = {errno.ETIMEDOUT: 2, errno.EPIPE: 4, errno.ENODEV: 5, errno.EOVERFLOW: 6}
_ERROR, _CANCELLED = 1, 3
_FIELDS: Final = struct.Struct("=QBBBxIiiixxxxQQQi")
"""dev_handle, flags, endpoint, type, timeout, status, length, actual_length, callback, user_data,
buffer, num_iso_packets"""
_STATUS_AT, _ACTUAL_AT = 16, 24
_SETUP: Final = struct.Struct("<BBHHH")
_CONTROL, _BULK = 0, 2
_INTO_HOST: Final = 0x80
_SHORT_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Packet:
    """A transfer as the cable takes it."""

    endpoint: int
    into_host: bool
    data: bytes
    nbytes: int
    request_type: int = 0
    request: int = 0
    value: int = 0
    index: int = 0


class MadeUpLibusb:
    """One libusb of one process; `plugged` says which cable is at which (bus, address)."""

    def __init__(self, plugged: Mapping[tuple[int, int], Cable]) -> None:
        self.plugged = dict(plugged)
        self.violations: list[str] = []
        self.calls: list[str] = []
        self.fail: dict[int, int] = {}
        """Number of a call, from 0 on -> the code that it gives instead."""
        self.stuck = False
        """Whether transfers never end, also when they are cancelled."""
        self._live: dict[int, object] = {}
        """What the process has to give back: contexts, lists, handles, transfers."""
        self._pending: list[int] = []
        self._unanswered: set[int] = set()
        self._next = 0x1000
        self._tables: dict[int, tuple[bytearray, int]] = {}
        self._memory: dict[int, bytearray] = {}

    @property
    def left(self) -> int:
        """Objects that were not given back."""
        return len(self._live)

    def function(self, symbol: str, signature: str) -> Callable[..., int]:
        """By its symbol, as dlsym(3) finds it."""
        call: Callable[..., int] = getattr(self, symbol.removeprefix("libusb_"))

        def entry(*args: int) -> int:
            self.calls.append(symbol)
            code = self.fail.pop(len(self.calls) - 1, 0)
            if code and not signature.startswith(("void", "uint")):
                return code
            return call(*args)

        return entry

    def _find(self, what: str) -> None:
        self.violations.append(what)

    def _made(self, thing: object) -> int:
        self._next += 0x100
        self._live[self._next] = thing
        return self._next

    def _gone(self, at: int, kind: type) -> None:
        if not isinstance(self._live.pop(at, None), kind):
            self._find(f"{kind.__name__} {at:#x} is given back, and is none")

    # contexts and devices

    def init(self, to: int) -> int:
        host.view(to, 8)[:] = self._made("context").to_bytes(8, "little")
        return 0

    def exit(self, context: int) -> int:
        self._gone(context, str)
        return 0

    def get_device_list(self, context: int, to: int) -> int:
        places = list(self.plugged)
        table = bytearray(8 * (len(places) + 1))
        for number, (bus, address) in enumerate(places):
            table[8 * number : 8 * number + 8] = (bus << 8 | address).to_bytes(8, "little")
        at = self._pinned(table)
        self._live[at] = table
        host.view(to, 8)[:] = at.to_bytes(8, "little")
        return len(places)

    def _pinned(self, data: bytearray) -> int:
        """An address that stays: memory of its own mapping."""
        at = host.map_anonymous(host.PAGE_BYTES)
        host.view(at, len(data))[:] = data
        return at

    def free_device_list(self, at: int, unref: int) -> int:
        self._gone(at, bytearray)
        host.unmap(at, host.PAGE_BYTES)
        return 0

    def get_bus_number(self, device: int) -> int:
        return device >> 8

    def get_device_address(self, device: int) -> int:
        return device & 0xFF

    def open(self, device: int, to: int) -> int:
        cable = self.plugged.get((device >> 8, device & 0xFF))
        if cable is None or cable.gone:
            return _CODES[errno.ENODEV]
        host.view(to, 8)[:] = self._made(cable).to_bytes(8, "little")
        return 0

    def close(self, handle: int) -> int:
        if any(self._handle_of(at) == handle for at in self._pending):
            self._find("a device is closed while transfers of it are under way")
        self._gone(handle, Cable)
        return 0

    def _handle_of(self, at: int) -> int:
        return int.from_bytes(host.view(at, 8), "little")

    def _cable(self, handle: int) -> Cable | None:
        found = self._live.get(handle)
        if isinstance(found, Cable):
            return found
        self._find(f"{handle:#x} is no open device")
        return None

    def get_device_descriptor(self, device: int, to: int) -> int:
        descriptor = bytearray(18)
        descriptor[15:17] = b"\2\3"
        host.view(to, 18)[:] = descriptor
        return 0

    def get_string_descriptor_ascii(self, handle: int, index: int, to: int, nbytes: int) -> int:
        cable = self._cable(handle)
        if cable is None or cable.gone:
            return _CODES[errno.ENODEV]
        text = {2: cable.product, 3: cable.serial}[index].encode()[: nbytes - 1]
        host.view(to, len(text))[:] = text
        return len(text)

    def claim_interface(self, handle: int, interface: int) -> int:
        cable = self._cable(handle)
        try:
            if cable is not None:
                cable.claim()
        except OSError as error:
            return _CODES[error.errno or errno.EIO]
        return 0

    def set_interface_alt_setting(self, handle: int, interface: int, setting: int) -> int:
        cable = self._cable(handle)
        if cable is None or cable.gone:
            return _CODES[errno.ENODEV]
        cable.function.abandoned()
        return 0

    def release_interface(self, handle: int, interface: int) -> int:
        cable = self._cable(handle)
        if cable is None or not cable.open:
            return _CODES[errno.ENOENT if cable is None or not cable.gone else errno.ENODEV]
        cable.close()
        return 0

    def clear_halt(self, handle: int, endpoint: int) -> int:
        return 0

    # transfers

    def alloc_transfer(self, packets: int) -> int:
        at = self._pinned(bytearray(_FIELDS.size))
        self._live[at] = self
        return at

    def free_transfer(self, at: int) -> int:
        if at in self._pending:
            self._find("a transfer is freed while it is under way")
        self._gone(at, MadeUpLibusb)
        host.unmap(at, host.PAGE_BYTES)
        return 0

    def submit_transfer(self, at: int) -> int:
        handle, flags, endpoint, kind, *_, length, _, callback, _, buffer, packets = (
            _FIELDS.unpack(host.view(at, _FIELDS.size))
        )  # fmt: skip
        cable = self._cable(handle)
        if kind not in (_CONTROL, _BULK) or flags or callback or packets:
            self._find(f"transfer of kind {kind}, flags {flags:#x}, callback {callback:#x}")
            return _CODES[errno.EINVAL]
        if kind == _CONTROL and (length < _SETUP.size or endpoint):
            self._find(f"request of {length} bytes on endpoint {endpoint:#x}")
            return _CODES[errno.EINVAL]
        if length and not host.readable(buffer, length):
            self._find(f"transfer from {buffer:#x}+{length:#x}, where no memory is")
            return _CODES[errno.EINVAL]
        if at in self._pending:
            self._find("a transfer is submitted twice")
            return _CODES[errno.EBUSY]
        if cable is None or cable.gone:
            return _CODES[errno.ENODEV]
        self._pending.append(at)
        return 0

    def cancel_transfer(self, at: int) -> int:
        if at not in self._pending:
            return _CODES[errno.ENOENT]
        if not self.stuck:
            self._ended(at, _CANCELLED, 0)
        return 0

    def handle_events_timeout_completed(self, context: int, time: int, completed: int) -> int:
        """All transfers under way are made, in order: only these cost time."""
        for at in [] if self.stuck else list(self._pending):
            if at in self._pending and at not in self._unanswered:
                self._make(at)
        return 0

    def _make(self, at: int) -> None:
        handle, _, endpoint, kind, *_, length, _, _, _, buffer, _ = _FIELDS.unpack(
            host.view(at, _FIELDS.size)
        )
        cable = self._cable(handle)
        memory = host.view(buffer, length) if length else memoryview(b"")
        packet, head = _packet(endpoint, kind, memory)
        try:
            if cable is None:
                raise OSError(errno.ENODEV, "no device")
            (came,) = cable.run([packet], _SHORT_WAIT_S)
        except OSError as error:
            if error.errno == errno.ETIMEDOUT:
                self._unanswered.add(at)  # until it is cancelled
                return
            self._ended(at, _STATUS.get(error.errno or 0, _ERROR), 0)
            return
        if packet.into_host:
            memory[head : head + len(came)] = came
        self._ended(at, 0, len(came) if packet.into_host else length - head)

    def _ended(self, at: int, status: int, moved: int) -> None:
        self._pending.remove(at)
        self._unanswered.discard(at)
        transfer = host.view(at, _FIELDS.size)
        transfer[_ACTUAL_AT : _ACTUAL_AT + 4] = moved.to_bytes(4, "little")
        transfer[_STATUS_AT : _STATUS_AT + 4] = status.to_bytes(4, "little")


def _packet(endpoint: int, kind: int, memory: memoryview) -> tuple[Packet, int]:
    """A transfer, and bytes of its buffer before its data."""
    if kind == _BULK:
        into = bool(endpoint & _INTO_HOST)
        return Packet(endpoint, into, b"" if into else bytes(memory), len(memory)), 0
    *words, nbytes = _SETUP.unpack(memory[: _SETUP.size])
    into = bool(words[0] & _INTO_HOST)
    data = b"" if into else bytes(memory[_SETUP.size :])
    return Packet(-1, into, data, nbytes, *words), _SETUP.size
