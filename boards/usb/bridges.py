"""PCI-to-PCI bridges in a row, and what is routed through them: config and memory, down and up.

src: PCI-to-PCI Bridge Architecture Specification 1.2, 3.2 (registers) and 4 (windows); PCI Express
Base Specification 4.0, 2.2.9 (completion status), 7.3.3 (config requests of both types).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from boards.machine.pci.function import PciFunction
from boards.machine.pool import Pool

SUCCESS, UNSUPPORTED, RETRY = 0, 1, 2
_COMMAND, _BUSES, _MEMORY, _PREFETCH, _BASE_HIGH, _LIMIT_HIGH = 0x04, 0x18, 0x20, 0x24, 0x28, 0x2C
_MEMORY_ON, _MASTER_ON = 1 << 1, 1 << 2
_DOORBELLS: Final = 2
"""The BAR of doorbells of an AMD GPU."""
_BRIDGE_CLASS, _BRIDGE_HEADER = 0x060400, 1
_SPACE: Final = 4096
_GRAIN: Final = 0xF_FFFF
Find: TypeAlias = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion: its status, and the dword of a read."""

    status: int
    data: int = 0


class BridgeConfig:
    """A type 1 header: the registers that routing needs, the others 0."""

    def __init__(self, vendor: int, device: int) -> None:
        self._identity = vendor | device << 16
        self.reset()

    def reset(self) -> None:
        """Power-on values: no bus behind it, windows that begin and end at 0."""
        self._bytes, self._writable = bytearray(_SPACE), bytearray(_SPACE)
        self._set(0x00, self._identity)
        self._set(0x08, _BRIDGE_CLASS << 8)
        self._set(0x0C, _BRIDGE_HEADER << 16)
        self._set(_PREFETCH, 0x0001_0001)  # 64-bit
        for at, mask in (
            (_COMMAND, 0x547), (_BUSES, 0x00FF_FFFF), (_MEMORY, 0xFFF0_FFF0),
            (_PREFETCH, 0xFFF0_FFF0), (_BASE_HIGH, 0xFFFF_FFFF), (_LIMIT_HIGH, 0xFFFF_FFFF),
        ):  # fmt: skip
            self._writable[at : at + 4] = mask.to_bytes(4, "little")

    def _set(self, at: int, value: int) -> None:
        self._bytes[at : at + 4] = value.to_bytes(4, "little")

    def word(self, at: int) -> int:
        """A dword."""
        return int.from_bytes(self._bytes[at : at + 4], "little")

    def read(self, off: int, nbytes: int) -> bytes:
        return bytes(self._bytes[off : off + nbytes])

    def write(self, off: int, data: bytes) -> None:
        for at, value in enumerate(data, off):
            mask = self._writable[at]
            self._bytes[at] = self._bytes[at] & ~mask | value & mask

    @property
    def secondary(self) -> int:
        """The bus behind it; 0 before it was numbered."""
        return self.word(_BUSES) >> 8 & 0xFF

    @property
    def subordinate(self) -> int:
        """The last bus behind it."""
        return self.word(_BUSES) >> 16 & 0xFF

    @property
    def passes_up(self) -> bool:
        """Whether it forwards what the card reads and writes."""
        return bool(self.word(_COMMAND) & _MASTER_ON)

    def passes_down(self, address: int) -> bool:
        """Whether a memory request goes through."""
        if not self.word(_COMMAND) & _MEMORY_ON:
            return False
        low, high = self.word(_MEMORY), self.word(_PREFETCH)
        base, limit = (low & 0xFFF0) << 16, (low >> 16 & 0xFFF0) << 16 | _GRAIN
        if base <= address <= limit:
            return True
        base = (high & 0xFFF0) << 16 | self.word(_BASE_HIGH) << 32
        limit = (high >> 16 & 0xFFF0) << 16 | _GRAIN | self.word(_LIMIT_HIGH) << 32
        return base <= address <= limit


class Chain:
    """Bridges, and a card at the end; the card's bus is the number of bridges once numbered."""

    def __init__(
        self, card: PciFunction | None, bridges: Sequence[BridgeConfig], find: Find
    ) -> None:
        self.card, self.bridges, self._find = card, bridges, find
        self.behind: list[tuple[int, Pool]] = []
        """Memory that the card reaches above the first bridge, by address."""
        self.late = 0
        """How many more config requests the card answers with Request Retry."""
        self.messages: list[int] = []
        self._low: tuple[int, int] | None = None
        """Offset and value of the lower half of a doorbell."""
        if card is not None:
            card.connect(self)

    def reset(self) -> None:
        """Power off and on."""
        for bridge in self.bridges:
            bridge.reset()
        if self.card is not None:
            self.card.reset()

    # Down

    def config(
        self, *, type1: bool, bus: int, device: int, function: int, off: int,
        data: int | None, enables: int,
    ) -> Answer:  # fmt: skip
        """A config request as the bridge chip sends it."""
        if type1 == (bus == 0):
            self._find("config request of the wrong type", f"bus {bus}", f"type {int(type1)}")
            return Answer(UNSUPPORTED)
        target = self._on_bus(bus)
        if target is None or device or (function and target is not self.card):
            return Answer(UNSUPPORTED)
        if target is self.card:
            if function:  # its other functions (audio) are not modelled
                return Answer(UNSUPPORTED)
            if self.late:
                self.late -= 1
                return Answer(RETRY)
        space = target if isinstance(target, BridgeConfig) else target.config
        if data is None:
            return Answer(SUCCESS, int.from_bytes(space.read(off, 4), "little"))
        for lane in range(4):
            if enables >> lane & 1:
                space.write(off + lane, bytes([data >> 8 * lane & 0xFF]))
        return Answer(SUCCESS)

    def _on_bus(self, bus: int) -> BridgeConfig | PciFunction | None:
        """Who answers for device 0 of a bus."""
        if bus == 0:
            return self.bridges[0]
        for number, bridge in enumerate(self.bridges):
            if not bridge.secondary <= bus <= bridge.subordinate or not bridge.secondary:
                return None
            if bus == bridge.secondary:
                return self.bridges[number + 1] if number + 1 < len(self.bridges) else self.card
        return None

    def read(self, address: int, enables: int) -> Answer:
        """A dword of memory."""
        found = self._bar(address)
        if found is None or self.card is None:
            return Answer(UNSUPPORTED)
        bar, off = found
        if enables != 0xF and self.card.bars[bar].pool is None:
            self._find("part of a register read", f"BAR {bar}", f"{off:#x}, enables {enables:#x}")
        return Answer(SUCCESS, self.card.read(bar, off, 4))

    def write(self, address: int, data: int, enables: int) -> None:
        """A dword of memory, or bytes of it. Nothing tells that nobody takes it."""
        found = self._bar(address)
        if found is None or self.card is None:
            self._find("write that nothing takes", f"{address:#x}", "")
            return
        bar, off = found
        if enables == 0xF:
            self._dword(self.card, bar, off, data)
            return
        for lane in range(4):
            if enables >> lane & 1:
                self.card.write(bar, off + lane, 1, data >> 8 * lane & 0xFF)

    def _dword(self, card: PciFunction, bar: int, off: int, data: int) -> None:
        """Doorbells of 64 bits come as two packets, the lower half first, and ring once.

        That a GPU takes them so is what the peer relies on: # src: tinygrad 0.14.0,
        runtime/support/usb.py, usb_push() and usb_stream(): 8 bytes as a stream of dwords
        """
        low, self._low = self._low, None
        if bar != _DOORBELLS:
            card.write(bar, off, 4, data)
        elif off % 8 == 0:
            self._low = off, data
        elif low is not None and low[0] == off - 4:
            card.write(bar, off - 4, 8, data << 32 | low[1])
        else:
            self._find("half a doorbell", f"BAR {bar}", f"{off:#x}")

    def memory(self, address: int, nbytes: int) -> tuple[Pool, int] | None:
        """Memory behind a BAR, all `nbytes` of it; None where it is not memory."""
        found = self._bar(address)
        if found is None or self.card is None:
            return None
        bar, off = found
        pool = self.card.bars[bar].pool
        if pool is None or off + nbytes > min(self.card.bars[bar].nbytes, pool.nbytes):
            return None
        return pool, off

    def _bar(self, address: int) -> tuple[int, int] | None:
        card = self.card
        if card is None or not all(bridge.passes_down(address) for bridge in self.bridges):
            return None
        if not int.from_bytes(card.config.read(_COMMAND, 2), "little") & _MEMORY_ON:
            return None
        for number, bar in card.bars.items():
            at = 0x10 + 4 * number
            first = int.from_bytes(card.config.read(at, 8 if bar.wide else 4), "little") & -16
            if first <= address < first + bar.nbytes:
                return number, address - first
        return None

    # Up: `BusMaster` of the card

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """Memory of the bridge chip behind a bus address; None: no answer."""
        if not all(bridge.passes_up for bridge in self.bridges):
            return None
        for first, pool in self.behind:
            if first <= address and address + nbytes <= first + pool.nbytes:
                return pool, address - first
        return None

    def message(self, vector: int) -> None:
        """An interrupt goes nowhere: the bridge chip has no host's interrupt controller."""
        self.messages.append(vector)
