"""A USB host for one client: passes transfers to a board's device and plugs it in and out."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import Final

from boards.usb.port import UsbFunction
from boards.usbredir import descriptors, wire
from boards.usbredir.link import BrokenLink, Link, Packet
from boards.usbredir.wire import Kind, Status

ENDPOINTS: Final = (0x81, 0x02)
"""Of the bridge's interface 0."""
MAX_PENDING: Final = 256
_IN: Final = 0x80
_CLASS: Final = 0xFF
_STATUS: Final = {
    errno.EPIPE: Status.STALL,
    errno.ETIMEDOUT: Status.TIMEOUT,
    errno.EOVERFLOW: Status.BABBLE,
}


def _table(entries: dict[int, int], other: int) -> bytes:
    return bytes(entries.get(number, other) for number in range(wire.ENDPOINTS))


def _row(endpoint: int) -> int:
    """Where the tables have an endpoint."""
    return (endpoint & _IN) >> 3 | endpoint & 0xF


class Server:
    """One device. A client sees it while it is plugged in."""

    def __init__(self, function: UsbFunction, pump: Callable[[], bool]) -> None:
        self.function, self._pump = function, pump
        self.plugged = True
        self.counts: dict[str, int] = {}
        """Packets of the client, by name; transfers that were refused."""
        self._link: Link | None = None
        self._greeted = False
        self._configuration = 0
        self._pending: dict[int, deque[Packet]] = {}
        """Bulk transfers that the device does not take yet. src: USB 3.2, 8.10.1 (NRDY)"""
        function.moving = lambda endpoint: bool(self._pending.get(endpoint))
        self._unplug_in = 0
        self._held = False
        """Whether transfers wait for the client to take what it was sent."""
        self._handlers: dict[Kind, Callable[[Link, Packet], None]] = {
            Kind.HELLO: self._hello,
            Kind.SET_CONFIGURATION: self._set_configuration,
            Kind.GET_CONFIGURATION: self._get_configuration,
            Kind.SET_ALT_SETTING: self._set_alt_setting,
            Kind.GET_ALT_SETTING: self._get_alt_setting,
            Kind.RESET: self._reset,
            Kind.CANCEL_DATA_PACKET: self._cancel,
            Kind.CONTROL_PACKET: self._control,
            Kind.BULK_PACKET: self._bulk,
            Kind.FILTER_REJECT: self._rejected,
        }

    # The cable

    def unplug(self, after: int = 0) -> None:
        """Pull the cable, at once or instead of the `after`-th transfer from now."""
        self._unplug_in = after
        if after or not self.plugged:
            return
        self.plugged = False
        self._pending.clear()
        self.function.power_lost()
        if self._link is not None and self._greeted:
            self._link.send(Kind.DEVICE_DISCONNECT, 0, b"")

    def plug(self) -> None:
        """Plug it in again."""
        if not self.plugged:
            self.plugged = True
            self._connect()

    def _connect(self) -> None:
        link, about = self._link, self.function.descriptors
        if link is None or not self._greeted or not self.plugged:
            return
        self._configuration = 0
        self._describe(link)
        ids = (about.vendor, about.product, 1)
        body = wire.DEVICE_CONNECT.pack(wire.SPEED_SUPER, 0, 0, 0, *ids)
        link.send(Kind.DEVICE_CONNECT, 0, body)

    def _describe(self, link: Link) -> None:
        rows = {_row(endpoint): endpoint for endpoint in ENDPOINTS}
        kinds = dict.fromkeys(rows, wire.TYPE_BULK) | {0: wire.TYPE_CONTROL, 16: wire.TYPE_CONTROL}
        sizes = (descriptors.BULK_BYTES if row in rows else 0 for row in range(wire.ENDPOINTS))
        nothing = bytes(wire.ENDPOINTS)
        kind = _table(kinds, wire.TYPE_INVALID)
        link.send(Kind.EP_INFO, 0, wire.EP_INFO.pack(kind, nothing, nothing, *sizes))
        of_vendor = _table({0: _CLASS}, 0)
        info = wire.INTERFACE_INFO.pack(1, nothing, of_vendor, of_vendor, of_vendor)
        link.send(Kind.INTERFACE_INFO, 0, info)

    # A client

    def attach(self, link: Link) -> None:
        """Greet a client."""
        self._link, self._greeted = link, False
        link.greet()

    def detach(self) -> None:
        """The client has left: its transfers are dropped."""
        self._link, self._greeted = None, False
        self._pending.clear()

    def take(self, packet: Packet) -> None:
        """One packet. Raises: BrokenLink."""
        link = self._link
        if link is None:
            return
        self.counts[packet.kind.name] = self.counts.get(packet.kind.name, 0) + 1
        self._handlers[packet.kind](link, packet)

    def work(self) -> bool:
        """Let the card work, and finish transfers that waited for it; whether it did anything.

        Transfers that waited for the client to take earlier ones go on, too.
        """
        worked = self._pump()
        if worked or self._held:
            self._held = False
            self._retry()
        return worked

    def _hello(self, link: Link, packet: Packet) -> None:
        self._greeted = True
        self._connect()

    def _rejected(self, link: Link, packet: Packet) -> None:
        raise BrokenLink("the client rejects the device")

    def _reset(self, link: Link, packet: Packet) -> None:
        self._pending.clear()

    def _set_configuration(self, link: Link, packet: Packet) -> None:
        (self._configuration,) = packet.fields
        self._describe(link)
        self._get_configuration(link, packet)

    def _get_configuration(self, link: Link, packet: Packet) -> None:
        body = wire.CONFIGURATION_STATUS.pack(Status.SUCCESS, self._configuration)
        link.send(Kind.CONFIGURATION_STATUS, packet.number, body)

    def _set_alt_setting(self, link: Link, packet: Packet) -> None:
        interface, alt = packet.fields
        status = Status.STALL if interface or alt else Status.SUCCESS
        if status == Status.SUCCESS:
            self.function.abandoned()
        body = wire.ALT_SETTING_STATUS.pack(status, interface, alt)
        link.send(Kind.ALT_SETTING_STATUS, packet.number, body)

    def _get_alt_setting(self, link: Link, packet: Packet) -> None:
        (interface,) = packet.fields
        body = wire.ALT_SETTING_STATUS.pack(Status.SUCCESS, interface, 0)
        link.send(Kind.ALT_SETTING_STATUS, packet.number, body)

    def _cancel(self, link: Link, packet: Packet) -> None:
        """One that has ended meanwhile stays as it ended."""
        for waiting in self._pending.values():
            for one in waiting:
                if one.number == packet.number:
                    waiting.remove(one)
                    self._bulk_done(one, Status.CANCELLED, b"", 0)
                    return

    # Transfers

    def _pulled(self) -> bool:
        """Count a transfer; whether the cable is pulled, now or before."""
        if self._unplug_in:
            self._unplug_in -= 1
            if not self._unplug_in:
                self.unplug()
        return not self.plugged

    def _control(self, link: Link, packet: Packet) -> None:
        endpoint, request, kind, _, value, index, nbytes = packet.fields
        if self._pulled():
            return
        status, data = Status.SUCCESS, b""
        try:
            if descriptors.is_standard(kind):
                about = self.function.descriptors
                data = descriptors.answer(about, ENDPOINTS, kind, request, value, nbytes)
            elif kind & _IN:
                data = self.function.control_in(kind, request, value, index, nbytes)
            else:
                self.function.control_out(kind, request, value, index, packet.data)
        except OSError as error:
            status = self._refused(error)
        length = len(data) if kind & _IN else nbytes
        head = wire.CONTROL.pack(endpoint, request, kind, status, value, index, length)
        link.send(Kind.CONTROL_PACKET, packet.number, head + data)
        self._retry()

    def _refused(self, error: OSError) -> Status:
        self.counts["refused"] = self.counts.get("refused", 0) + 1
        return _STATUS.get(error.errno or 0, Status.IOERROR)

    def _bulk(self, link: Link, packet: Packet) -> None:
        if self._pulled():
            return
        waiting = self._pending.setdefault(packet.fields[0], deque())
        if len(waiting) == MAX_PENDING:
            raise BrokenLink(f"{MAX_PENDING} transfers wait for endpoint {packet.fields[0]:#x}")
        waiting.append(packet)
        self._retry()

    def _retry(self) -> None:
        """Transfers that the device takes now, each endpoint's in their order."""
        for waiting in list(self._pending.values()):
            while waiting and self._ended(waiting[0]):
                waiting.popleft()

    def _ended(self, packet: Packet) -> bool:
        """Whether a transfer is over."""
        endpoint, _, low, _, high = packet.fields
        nbytes = low | high << 16
        if self._link is not None and self._link.full:
            self._held = True
            return False
        if not self.function.ready(endpoint):
            return False  # it answers NRDY until it is asked for this, or has it
        try:
            if endpoint & _IN:
                data = self.function.bulk_in(endpoint, nbytes)
                self._bulk_done(packet, Status.SUCCESS, data, len(data))
            else:
                self.function.bulk_out(endpoint, packet.data)
                self._bulk_done(packet, Status.SUCCESS, b"", len(packet.data))
        except OSError as error:
            self._bulk_done(packet, self._refused(error), b"", 0)
        return True

    def _bulk_done(self, packet: Packet, status: Status, data: bytes, nbytes: int) -> None:
        endpoint, _, _, stream, _ = packet.fields
        head = wire.BULK.pack(endpoint, status, nbytes & 0xFFFF, stream, nbytes >> 16)
        if self._link is not None:
            self._link.send(Kind.BULK_PACKET, packet.number, head + data)
