"""A BAR of the card as a Region: every access is packets over the cable."""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from drivers.base.errors import Unsupported, UseAfterFree
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.fabric import Bar

_DWORD, _QWORD = 4, 8
_BYTES: Final = 0xF
_FEW: Final = 8
"""Dwords that are written one by one: these are queued, and a stream is waited for."""


class BarRegion:
    """Bounds-checked; a read is a round trip, a write is one transfer and has no answer."""

    cpu_va = 0

    def __init__(self, bridge: Bridge, bar: Bar, name: str, *, prompt: bool = False) -> None:
        """`prompt`: a write is sent at once, with all that is queued: doorbells."""
        self._prompt = prompt
        self._bridge: Bridge | None = bridge
        self._first, self.nbytes, self.name = bar.address, bar.nbytes, name

    def __repr__(self) -> str:
        state = "" if self._bridge is not None else ", closed"
        return f"BarRegion({self.name}, {self.nbytes:#x} bytes at {self._first:#x}{state})"

    def _at(self, off: int, nbytes: int) -> tuple[Bridge, int]:
        if self._bridge is None:
            raise UseAfterFree(f"{self.name} is closed", hint="open the GPU again")
        if off < 0 or nbytes < 0 or off + nbytes > self.nbytes:
            raise IndexError(f"{self.name}: {off:#x}+{nbytes:#x} is outside {self.nbytes:#x} bytes")
        return self._bridge, self._first + off

    def read32(self, off: int) -> int:
        """One dword."""
        bridge, address = self._at(off, _DWORD)
        return bridge.read32(address)

    def write32(self, off: int, value: int) -> None:
        """One dword."""
        bridge, address = self._at(off, _DWORD)
        bridge.write32(address, value)

    def read64(self, off: int) -> int:
        """Two dwords, the lower one first: the halves may be of two moments."""
        return int.from_bytes(self.read(off, _QWORD), "little")

    def write64(self, off: int, value: int) -> None:
        """Two dwords, the lower one first; no other write comes between them."""
        bridge, address = self._at(off, _QWORD)
        with bridge.lock:
            bridge.write64(address, value)
            if self._prompt:
                bridge.send()

    def expect(self, *offs: int) -> None:
        """See `Bridge.expect`."""
        for off in offs:
            self._at(off, _DWORD)
        if self._bridge is not None:
            self._bridge.expect(*[self._first + off for off in offs])

    def post(self, off: int) -> None:
        """See `Bridge.post`."""
        bridge, address = self._at(off, _DWORD)
        bridge.post(address)

    def read(self, off: int, nbytes: int) -> bytes:
        """Any bytes, by whole dwords around them: nothing that is changed by reading."""
        bridge, address = self._at(off, nbytes)
        if not nbytes:
            return b""
        first, end = address & -_DWORD, -(-(address + nbytes) // _DWORD) * _DWORD
        if end - first == _DWORD:
            data = bridge.read32(first).to_bytes(_DWORD, "little")
        else:
            data = bridge.read(first, end - first)
        return data[address - first :][:nbytes]

    def write(self, off: int, data: bytes | memoryview) -> None:
        """Any bytes: odd ends by byte enables, whole dwords as one stream."""
        source = memoryview(data).cast("B")
        bridge, address = self._at(off, source.nbytes)
        head = min(-address % _DWORD, source.nbytes)
        middle = source.nbytes - head & -_DWORD
        self._odd(bridge, address, source[:head])
        whole = source[head : head + middle]
        if middle > _FEW * _DWORD:
            bridge.write(address + head, whole)
        else:
            for at, dword in enumerate(struct.unpack(f"<{middle // _DWORD}I", whole)):
                bridge.write32(address + head + _DWORD * at, dword)
        self._odd(bridge, address + head + middle, source[head + middle :])

    @staticmethod
    def _odd(bridge: Bridge, address: int, data: memoryview) -> None:
        """Up to three bytes within one dword."""
        if not data.nbytes:
            return
        lane = address % _DWORD
        enables = (1 << data.nbytes) - 1 << lane & _BYTES
        bridge.write32(address - lane, int.from_bytes(data, "little") << 8 * lane, enables)

    def view(self) -> NoReturn:
        """Raises: Unsupported."""
        raise Unsupported(f"{self.name} is behind a cable, not mapped", hint="read and write it")

    def close(self) -> None:
        """Nothing is behind it but the bridge, which others use."""
        self._bridge = None
