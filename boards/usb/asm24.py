"""An ASM2464PD with firmware that lets the host send PCI Express packets.

src: github.com/tinygrad/asm2464pd-firmware at c5e2090, handmade/src/main.c, pcie_pio.h, usb.h. Only
what that firmware does with a request is modelled; a request that it would misread is a violation.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.chassis import Chassis
from boards.machine.pci.function import PciFunction
from boards.machine.pool import FilePool
from boards.usb.bridges import SUCCESS, Answer, BridgeConfig, Chain
from boards.usb.port import Descriptors

_OUT, _IN = 0x40, 0xC0
_READ_XDATA, _WRITE_XDATA, _TLP, _SRAM, _POWER = 0xE4, 0xE5, 0xF0, 0xF2, 0xF3
_BULK_OUT, _BULK_IN = 0x02, 0x81
_LTSSM, _UP, _DETECT = 0xB450, 0x78, 0x01
_XDATA_BYTES: Final = 1 << 16
_MOST_READ: Final = 512
_SECTOR, _SLOT, _SRAM_BYTES = 512, 16 << 10, 512 << 10
_SRAM_AT, _QUEUE_AT, _TRIGGER_AT = 0x20_0000, 0x82_0000, 0x82_2000
_PAGE: Final = 4096
_CONFIG = {0x04: False, 0x05: True, 0x44: False, 0x45: True}
_WRITE_BIT: Final = 0x40
_MEMORY64 = (0x20, 0x60)
_SENTINEL: Final = 0x7E57_7E57
_ENTRY_WORDS: Final = 4
"""A write to any of them starts a transfer: an entry of a completion queue of NVMe. README.md of
the firmware names 0x822000. # src: tinygrad 0.14.0, runtime/ops_amd.py, _copyout(): its offset 12
"""
_PUMPS: Final = 1 << 16
_MOST_ARMED: Final = 2
"""The peer asks for the next one while the data of the last one is on its way, and no further.
# src: tinygrad 0.14.0, runtime/ops_amd.py, AMDAllocator._copyin()"""
_QUEUE_XDATA: Final = 0xA000
_TRAIN_S: Final = 0.3
"""Three looks at the link, 100 ms apart. src: pcie_power_on()"""


@dataclass(slots=True)
class Armed:
    """An SRAM transfer that was asked for."""

    into_host: bool
    first: int
    nbytes: int
    started: bool = False
    """Whether the card has started it: only those into the host wait for that."""
    moved: int = 0


class Asm24:
    """The bridge chip: a USB function in front of a chain of PCI bridges and a card."""

    def __init__(
        self, chassis: Chassis, card: PciFunction | None, *, serial: str = "c0ffee01",
        ids: tuple[int, int] = (0xADD1, 0x0001), product: str = "custom v0.1",
    ) -> None:  # fmt: skip
        self.chassis = chassis
        self.descriptors = Descriptors(*ids, "tiny", product, serial)
        self.chain = Chain(
            card,
            [BridgeConfig(0x1B21, 0x2464), BridgeConfig(0x1B21, 0x2464),
             BridgeConfig(0x1002, 0x1478), BridgeConfig(0x1002, 0x1479)],
            chassis.find,
        )  # fmt: skip
        self.sram = FilePool("SRAM", _SRAM_BYTES)
        self.queue, self.trigger = FilePool("queue", _PAGE), FilePool("trigger", _PAGE)
        pools = ((_SRAM_AT, self.sram), (_QUEUE_AT, self.queue), (_TRIGGER_AT, self.trigger))
        self.chain.behind.extend(pools)
        self.xdata = bytearray(_XDATA_BYTES)
        self.powered = False
        self.link = True
        """Whether a link comes up when there is power."""
        self._completion: Answer | None = None
        self._has_data = False
        self._stream: tuple[bool, int, int] | None = None
        """A stream at work: whether into the host, the next address, dwords left."""
        self.moving: Callable[[int], bool] = lambda endpoint: False
        self.stalls = 0
        """How often the card still gets nowhere with what is in SRAM."""
        self._armed: list[Armed] = []
        """SRAM transfers that are armed, the oldest first."""

    @property
    def up(self) -> bool:
        """Whether packets reach the card."""
        return self.powered and self.link and self.chain.card is not None

    # Requests

    def control_in(
        self, request_type: int, request: int, value: int, index: int, nbytes: int
    ) -> bytes:
        if request_type == _IN and request == _READ_XDATA:
            if nbytes > _MOST_READ or index >> 8 > 1:
                self._find("XDATA read that the firmware cuts", f"{nbytes} bytes, bank {index:#x}")
            self.xdata[_LTSSM] = _UP if self.up else _DETECT
            if _QUEUE_XDATA <= value < _QUEUE_XDATA + _PAGE:
                self._work()
            self.xdata[_QUEUE_XDATA : _QUEUE_XDATA + _PAGE] = self.queue.bytes.tobytes()
            return bytes(self.xdata[value : value + min(nbytes, _MOST_READ)])
        if request_type == _IN and request == _TLP:
            return self._answer()[:nbytes]
        raise OSError(errno.EPIPE, f"request {request_type:#04x} {request:#04x}")

    def control_out(
        self, request_type: int, request: int, value: int, index: int, data: bytes
    ) -> None:
        if request_type != _OUT:
            raise OSError(errno.EPIPE, f"request type {request_type:#04x}")
        if request == _WRITE_XDATA:
            self.xdata[value] = index & 0xFF
            if _QUEUE_XDATA <= value < _QUEUE_XDATA + _PAGE:
                self.queue.bytes[value - _QUEUE_XDATA] = index & 0xFF
        elif request == _TLP:
            self._packet(value, index, data)
        elif request == _SRAM:
            self._arm(value, index)
        elif request == _POWER:
            self._power(bool(value & 1))
        else:
            raise OSError(errno.EPIPE, f"request {request:#04x}")

    def power_lost(self) -> None:
        self._power(False)

    def abandoned(self) -> None:
        """Both bulk endpoints are cleared. # src: main.c, SET_INTERFACE; that a transfer of SRAM
        ends with it, too, is an assumption"""
        self._stream = None
        self._armed.clear()

    def _power(self, on: bool) -> None:
        self.powered = on
        self._completion = self._stream = None
        self._armed.clear()
        if on:
            self.chain.reset()
            self.chassis.clock.skip(_TRAIN_S)

    # Packets

    def _packet(self, value: int, index: int, data: bytes) -> None:
        kind, enables, mode = value & 0xFF, value >> 8, index & 3
        if len(data) != 12:
            self._find("packet request without 12 bytes", f"{len(data)}")
            raise OSError(errno.EPIPE, "12 bytes")
        address = int.from_bytes(data[:8], "little")
        word = int.from_bytes(data[8:], "little")
        if self._stream is not None and self._stream[2]:
            self._find("packet request while a stream is at work", f"{self._stream[2]} dwords left")
        self._stream = None
        if mode == 0:
            self._single(kind, enables, address, word)
        elif mode in (1, 2):
            if enables != 0xF or kind != _MEMORY64[mode == 1]:
                self._find("stream of another kind of packet", f"{kind:#04x} {enables:#x}")
            self._stream = (mode == 2, address, word)
        else:
            self._find("mode that the firmware does not know", f"{mode}")

    def _single(self, kind: int, enables: int, address: int, word: int) -> None:
        self._completion = None
        if address & 3:
            self._find("address that is no dword", f"{address:#x}")
        if not 0 < enables <= 0xF:
            self._find("byte enables that no packet has", f"{enables:#x}")
        if kind in _CONFIG:
            if not self.up:
                return
            self._completion = self.chain.config(
                type1=_CONFIG[kind], bus=address >> 24 & 0xFF, device=address >> 19 & 0x1F,
                function=address >> 16 & 7, off=address & 0xFFC,
                data=word if kind & _WRITE_BIT else None, enables=enables,
            )  # fmt: skip
            self._has_data = not kind & _WRITE_BIT
        elif kind == _MEMORY64[0]:
            self._has_data = True
            self._completion = self.chain.read(address, enables) if self.up else None
        elif kind == _MEMORY64[1]:
            if self.up:
                self.chain.write(address, word, enables)
        else:
            self._find("packet of an unknown kind", f"{kind:#04x}")

    def _answer(self) -> bytes:
        """Data, completion header, whether data came, the firmware's verdict."""
        done, self._completion = self._completion, None
        if done is None:
            if self.up:
                self._find("answer that no packet asked for", "")
            return bytes(7) + b"\xff"
        has_data = self._has_data and done.status == SUCCESS
        header = done.status << 13 | 4
        return done.data.to_bytes(4, "little") + header.to_bytes(2, "big") + bytes([has_data, 0])

    # Bulk transfers

    def ready(self, endpoint: int) -> str:
        """See `UsbFunction`. Streams go on beside a transfer that waits for the card.

        # src: tinygrad 0.14.0, runtime/support/usb.py, usb_ib(): it relies on that
        """
        into_host = endpoint == _BULK_IN
        armed = next((one for one in self._armed if one.into_host == into_host), None)
        if armed is not None and into_host and not armed.started:
            self._work()
        if armed is not None and (armed.started or not into_host):
            return "SRAM"
        stream = self._stream
        return "stream" if stream is not None and stream[0] == into_host and stream[2] else ""

    def bulk_out(self, endpoint: int, data: bytes) -> None:
        if endpoint != _BULK_OUT:
            raise OSError(errno.EPIPE, f"endpoint {endpoint:#04x}")
        if self.ready(endpoint) == "SRAM":
            self._into_sram(self._armed.pop(0), data)
        elif self.ready(endpoint):
            self._stream_out(data)
        else:
            raise OSError(errno.ETIMEDOUT, "the endpoint is not armed")

    def _stream_out(self, data: bytes) -> None:
        if self._stream is None:
            return
        _, address, left = self._stream
        if len(data) % 4 or len(data) // 4 > left:
            self._find("stream longer than it was asked for", f"{len(data)} bytes, {left} dwords")
            raise OSError(errno.ETIMEDOUT, "the endpoint is not armed")
        memory = self.chain.memory(address, len(data)) if self.up else None
        if memory is not None:
            pool, off = memory
            pool.bytes[off : off + len(data)] = np.frombuffer(data, np.uint8)
        elif self.up:
            for at in range(0, len(data), 4):
                self.chain.write(address + at, int.from_bytes(data[at : at + 4], "little"), 0xF)
        self._stream = (False, address + len(data), left - len(data) // 4)

    def bulk_in(self, endpoint: int, nbytes: int) -> bytes:
        if endpoint != _BULK_IN:
            raise OSError(errno.EPIPE, f"endpoint {endpoint:#04x}")
        if self.ready(endpoint) == "SRAM":
            return self._from_sram(self._armed[0], nbytes)
        if self._stream is None or not self.ready(endpoint):
            raise OSError(errno.ETIMEDOUT, "the endpoint has nothing")
        _, address, left = self._stream
        count = min(nbytes // 4, left)
        self._stream = (True, address + 4 * count, left - count)
        memory = self.chain.memory(address, 4 * count) if self.up else None
        if memory is not None:
            pool, off = memory
            pool.prepare(off, 4 * count)
            return pool.bytes[off : off + 4 * count].tobytes()
        words = [self._streamed(address + 4 * at) for at in range(count)]
        return np.array(words, "<u4").tobytes()

    def _streamed(self, address: int) -> int:
        """A stream has no status: what nothing answered is what the data register held."""
        done = self.chain.read(address, 0xF) if self.up else None
        if done is None or done.status != SUCCESS:
            self._find("stream that nothing answers", f"{address:#x}")
            return 0
        return done.data

    # SRAM

    def _arm(self, value: int, index: int) -> None:
        sectors, slot, slots = value & 0x7FFF, index & 0xFF, index >> 8 or 1
        first, nbytes = slot * _SLOT, sectors * _SECTOR
        if first + nbytes > _SRAM_BYTES or nbytes > slots * _SLOT or not nbytes:
            self._find("SRAM transfer outside its slots", f"slot {slot}, {slots}, {nbytes} bytes")
        into_host = bool(value & 0x8000)
        if self._armed and not self.moving(_BULK_IN if self._armed[0].into_host else _BULK_OUT):
            self._armed.clear()  # an abandoned one: the registers are written again
        if len(self._armed) >= _MOST_ARMED or any(
            one.into_host != into_host for one in self._armed
        ):
            self._find("SRAM transfer on top of others", f"{len(self._armed)} are armed")
        if into_host:
            self.trigger.words[:_ENTRY_WORDS] = _SENTINEL
        self._armed.append(Armed(into_host, first, nbytes))

    def _into_sram(self, armed: Armed, data: bytes) -> None:
        if len(data) != armed.nbytes:
            self._find("SRAM transfer of another length", f"{len(data)}, {armed.nbytes} were armed")
        first = armed.first
        self.sram.bytes[first : first + len(data)] = np.frombuffer(data, np.uint8)
        self._work()

    def _work(self) -> None:
        """The card goes on; it may start the transfer into the host that waits for it."""
        card = self.chain.card
        if self.stalls:
            self.stalls -= 1
        elif card is not None:
            any(not card.pump() for _ in range(_PUMPS))
        waiting = next((one for one in self._armed if one.into_host and not one.started), None)
        if waiting is not None and (self.trigger.words[:_ENTRY_WORDS] != _SENTINEL).any():
            waiting.started = True

    def _from_sram(self, armed: Armed, nbytes: int) -> bytes:
        """A part of it, or all."""
        first = armed.first + armed.moved
        data = self.sram.bytes[first : first + min(armed.nbytes - armed.moved, nbytes)].tobytes()
        armed.moved += len(data)
        if armed.moved == armed.nbytes:
            self._armed.pop(0)
        return data

    def _find(self, kind: str, what: str) -> None:
        self.chassis.find(kind, what)
