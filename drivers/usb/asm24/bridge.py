"""The bridge: its own memory and power, packets on PCI Express, streams, and its SRAM.

Waiting for the bridge costs a round trip over the cable (about 100 us), whatever was queued before.
Round trips are counted.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from drivers.base.deadline import Clock, polls
from drivers.base.errors import BadArgument, DeviceTimeout
from drivers.base.usb import Transfer, Usb
from drivers.usb.asm24 import completion, sram, wire
from drivers.usb.asm24.completion import Completion, Status
from drivers.usb.asm24.outbox import Outbox
from drivers.usb.asm24.sram import SramPort
from drivers.usb.asm24.wire import Mode, Request, Tlp

LINK_S: Final = 5.0
RETRY_S: Final = 1.0
"""How long a device may answer Request Retry after reset. src: PCIe 4.0, 6.6.1"""
_DWORD: Final = 4
_PAYLOAD = struct.Struct("<III")
_MOST_DWORDS: Final = (1 << 32) - 1
_LOW: Final = 0xFFFF_FFFF


class _Ahead:
    """A read that was sent before it was asked for."""

    def __init__(self, kind: Tlp, address: int) -> None:
        self.kind, self.address = kind, address
        self.done: Completion | None = None

    def take(self, done: Completion) -> None:
        self.done = done


class Bridge:
    """One opened bridge. Calls of several threads take turns; `lock` keeps others out for longer.

    Writes to the card have no answer. They are queued, and go out with the next read, when many
    wait, or by `flush`; an error then names the write.
    """

    def __init__(self, usb: Usb, clock: Clock) -> None:
        self.usb, self.host = usb, clock
        self._box = Outbox(usb)
        self._port = SramPort(self._box)
        self.lock = self._box.lock
        self._ahead: deque[_Ahead] = deque()
        """What is read next, as far as it is known."""

    @property
    def trips(self) -> int:
        """How often the host waited for the bridge."""
        return self._box.trips

    # Time, as whoever waits for the card has it

    def monotonic_s(self) -> float:
        """The host's clock."""
        return self.host.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """What was written reaches the card before the time begins."""
        self._box.run([])
        self._ahead.clear()
        self.host.sleep(seconds)

    # Its own memory

    def xdata(self, address: int, nbytes: int) -> bytes:
        """Bytes of the microcontroller's memory. Raises: MalformedInput for a short answer."""
        parts = []
        for at in range(address, address + nbytes, wire.XDATA_READ_BYTES):
            count = min(wire.XDATA_READ_BYTES, address + nbytes - at)
            asked = (wire.VENDOR_IN, Request.READ_XDATA, at, 0, count)
            parts.append(self._box.run([Transfer.ask(f"read XDATA {at:#06x}", *asked)]))
        return b"".join(parts)

    def put_xdata(self, address: int, byte: int) -> None:
        """One byte of it: queued."""
        self._box.put([sram.write_byte(address, byte)])

    # The link

    def power(self, *, on: bool) -> None:
        """The card's power and its reset line; `on` waits in the bridge for the link, up to 2 s."""
        what = f"turn the card's power {'on' if on else 'off'}"
        self._box.run([_tell(what, Request.POWER, int(on), 0)])

    @property
    def link_up(self) -> bool:
        """Whether the PCI Express link is in its working state."""
        return self.xdata(wire.LTSSM, 1)[0] == wire.LINK_UP

    def wait_link(self, timeout_s: float = LINK_S) -> None:
        """Raises: DeviceTimeout with the link's last state."""
        state = 0
        for _ in polls(timeout_s, self):
            state = self.xdata(wire.LTSSM, 1)[0]
            if state == wire.LINK_UP:
                return
        raise DeviceTimeout(
            f"{self.usb.name}: the PCI Express link is in state {state:#04x} after {timeout_s} s, "
            f"not in {wire.LINK_UP:#04x}",
            register="LTSSM",
            last=state,
            hint="check that a card is in the enclosure and that its power supply is on",
        )

    # Packets

    def read_config(self, bus: int, function: int, off: int) -> int:
        """A dword of config space. Raises: Unsupported where no device is, DeviceTimeout."""
        kind = Tlp.CONFIG_READ1 if bus else Tlp.CONFIG_READ0
        what = f"read config {bus:02x}:00.{function} {off:#05x}"
        return completion.value(self._asked(kind, _config(bus, function, off), 0, what), what)

    def write_config(
        self, bus: int, function: int, off: int, value: int, enables: int = wire.ALL_BYTES
    ) -> None:
        """A dword of config space, or the bytes of it that `enables` names: queued.

        A completion that is no success is raised by the call that sends what is queued.
        """
        kind = Tlp.CONFIG_WRITE1 if bus else Tlp.CONFIG_WRITE0
        what = f"write config {bus:02x}:00.{function} {off:#05x}"

        def check(done: Completion) -> None:
            if done.status is not Status.SUCCESS:
                raise completion.refused(done.status, what)

        address = _config(bus, function, off)
        self._forget(address, _DWORD)
        self._queue_asked(self._packet(kind, address, value, what, enables), check)

    def expect_config(self, bus: int, function: int, *offs: int) -> None:
        """The next reads are those of these dwords of config space, in this order."""
        kind = Tlp.CONFIG_READ1 if bus else Tlp.CONFIG_READ0
        self._foresee([
            (kind, _config(bus, function, off), f"read config {bus:02x}:00.{function} {off:#05x}")
            for off in offs
        ])  # fmt: skip

    def read32(self, address: int) -> int:
        """A dword of memory: one request out, one in. Raises: Unsupported, DeviceTimeout."""
        what = f"read {address:#x}"
        return completion.value(self._asked(Tlp.READ, _whole(address), 0, what), what)

    def write32(self, address: int, value: int, enables: int = wire.ALL_BYTES) -> None:
        """A dword of memory, or the bytes of it that `enables` names: one request, queued."""
        what = f"write {address:#x}"
        self._forget(address, _DWORD)
        self._box.put([self._packet(Tlp.WRITE, _whole(address), value, what, enables)])

    def write64(self, address: int, value: int) -> None:
        """Two dwords of memory, the lower one first, queued as one: nothing comes between them."""
        self._forget(address, 2 * _DWORD)
        halves = (value & _LOW, value >> 32)
        self._box.put([
            self._packet(Tlp.WRITE, _whole(at), half, f"write {at:#x}", wire.ALL_BYTES)
            for at, half in zip((address, address + _DWORD), halves, strict=True)
        ])  # fmt: skip

    def post(self, address: int) -> None:
        """Read a dword of memory when what is queued is sent: all writes before it have arrived.

        The host does not wait for it and drops its value. Its failure is raised by the call that
        sends what is queued.
        """
        what = f"read {address:#x}"
        packet = self._packet(Tlp.READ, _whole(address), 0, what, wire.ALL_BYTES)
        self._queue_asked(packet, lambda done: _check_value(done, what))

    def expect(self, *addresses: int) -> None:
        """The next reads are those of these dwords, in this order: they are sent together.

        A read of something else, a write to one of them and a sleep end that.
        """
        self._foresee([(Tlp.READ, _whole(one), f"read {one:#x}") for one in addresses])

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Whole dwords of memory: one request and one bulk transfer, queued; `data` is copied.

        Hardware: the next request ends a stream, so that it waits for its end.
        """
        count = _dwords(address, len(data))
        what = f"write {len(data)} bytes to {address:#x}"
        self._forget(address, len(data))
        if self._box.spoiled:
            for at, dword in enumerate(struct.unpack(f"<{count}I", data)):
                self.write32(address + _DWORD * at, dword)
            return
        stream = self._stream(Mode.STREAM_OUT, Tlp.WRITE, address, count, what)
        self._box.put([stream, Transfer.bulk_out(what, wire.BULK_OUT, bytes(data))])

    def read(self, address: int, nbytes: int) -> bytes:
        """Whole dwords of memory: one request and one bulk transfer.

        Hardware: the bridge passes on what it has, also of a read that nothing answered.
        """
        count = _dwords(address, nbytes)
        what = f"read {nbytes} bytes at {address:#x}"
        if self._box.spoiled:
            values = [self.read32(address + _DWORD * at) for at in range(count)]
            return struct.pack(f"<{count}I", *values)
        stream = self._stream(Mode.STREAM_IN, Tlp.READ, address, count, what)
        return self._box.run([stream, Transfer.bulk_in(what, wire.BULK_IN, nbytes)])

    # SRAM

    @property
    def sram(self) -> SramPort:
        """Transfers of SRAM that overlap."""
        return self._port

    def write_sram(self, slot: int, data: bytes | memoryview) -> None:
        """Data into SRAM from a slot on, at the cable's full speed; whole sectors."""
        with self._box.spoiling():
            self._box.run([sram.arm(slot, len(data), into_host=False), sram.send(data)])

    def arm_sram(self, slot: int, nbytes: int) -> None:
        """Let the GPU's write to 0x822000 start a transfer to the host; whole sectors."""
        self._box.run([sram.arm(slot, nbytes, into_host=True)])

    def read_sram(self, nbytes: int) -> bytes:
        """What an armed transfer brings. Raises: DeviceTimeout when the GPU did not start it."""
        with self._box.spoiling():
            return self._box.run([sram.receive(nbytes)])

    def close(self) -> None:
        """Send what is queued, give the interface back; power stays as it is."""
        self._box.close()

    # How it is asked

    def flush(self) -> None:
        """Send what is queued, and wait for it. Raises: what it meets."""
        self._box.flush()

    def send(self) -> None:
        """Send what is queued; what its last requests meet is raised by the next call."""
        self._box.send()

    def _asked(
        self, kind: Tlp, address: int, value: int, what: str, enables: int = wire.ALL_BYTES
    ) -> Completion:
        """A packet and its completion, again while the device says that it still starts."""
        known = self._foreseen(kind, address)
        if known is not None:
            return known
        for _ in polls(RETRY_S, self):
            packet = self._packet(kind, address, value, what, enables)
            data = self._box.run([packet, _answer(what)])
            done = completion.parse(data, f"{self.usb.name}: {what}")
            if done.status is not Status.RETRY:
                return done
        return done

    def _packet(self, kind: Tlp, address: int, value: int, what: str, enables: int) -> Transfer:
        payload = _PAYLOAD.pack(address & _LOW, address >> 32, value)
        return _tell(what, Request.TLP, kind | enables << 8, Mode.SINGLE, payload)

    def _stream(self, mode: Mode, kind: Tlp, address: int, dwords: int, what: str) -> Transfer:
        payload = _PAYLOAD.pack(address & _LOW, address >> 32, dwords)
        return _tell(what, Request.TLP, kind | wire.ALL_BYTES << 8, mode, payload)

    def _queue_asked(self, packet: Transfer, take: Callable[[Completion], None]) -> None:
        """A packet whose completion is taken when it comes."""
        name = f"{self.usb.name}: {packet.what}"
        self._box.put(
            [packet, _answer(packet.what)], lambda data: take(completion.parse(data, name))
        )

    def _foresee(self, reads: Sequence[tuple[Tlp, int, str]]) -> None:
        with self.lock:
            self._ahead.clear()
            for kind, address, what in reads:
                one = _Ahead(kind, address)
                self._ahead.append(one)
                packet = self._packet(kind, address, 0, what, wire.ALL_BYTES)
                self._queue_asked(packet, one.take)

    def _foreseen(self, kind: Tlp, address: int) -> Completion | None:
        """The completion of a read that was expected; one that has to be made again is not."""
        with self.lock:
            one = self._ahead.popleft() if self._ahead else None
            if one is None or (one.kind, one.address) != (kind, address):
                self._ahead.clear()
                return None
            if one.done is None:
                self.flush()
            done = one.done
        return None if done is None or done.status is Status.RETRY else done

    def _forget(self, address: int, nbytes: int) -> None:
        """What is written is not expected any more."""
        if any(address <= one.address < address + nbytes for one in self._ahead):
            self._ahead.clear()


def _check_value(done: Completion, what: str) -> None:
    completion.value(done, what)


def _answer(what: str) -> Transfer:
    return Transfer.ask(what, wire.VENDOR_IN, Request.TLP, 0, 0, wire.TLP_ANSWER_BYTES)


def _tell(what: str, request: Request, value: int, index: int, data: bytes = b"") -> Transfer:
    return Transfer.tell(what, wire.VENDOR_OUT, request, value, index, data)


def _config(bus: int, function: int, off: int) -> int:
    """Bus, function of device 0, and register, as config packets have them. src: PCIe 2.2.7"""
    if off % _DWORD or not 0 <= off < 1 << 12:
        raise BadArgument(f"{off:#x} is not a dword of config space", hint="0 to 0xffc, in fours")
    return bus << 24 | function << 16 | off


def _whole(address: int) -> int:
    if address % _DWORD:
        raise BadArgument(f"{address:#x} is not a dword", hint="use byte enables within one dword")
    return address


def _dwords(address: int, nbytes: int) -> int:
    _whole(address)
    if nbytes % _DWORD or not 0 < nbytes // _DWORD <= _MOST_DWORDS:
        raise BadArgument(f"{nbytes} bytes are not a stream of dwords", hint="send fours of bytes")
    return nbytes // _DWORD
