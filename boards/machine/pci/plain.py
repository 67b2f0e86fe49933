"""Functions beside a GPU: the bridge above it, the sound function of the card. They do nothing.

src: include/uapi/linux/pci_regs.h
"""

from __future__ import annotations

import struct

_BRIDGE, _AUDIO = 0x0604_0000, 0x0403_0000
_CONFIG_BYTES = 4096
_WRITABLE = range(4, 6)


class PlainConfig:
    """Config space with a header and a command register that keeps what is written."""

    def __init__(self, vendor: int, device: int, kind: int, header_type: int) -> None:
        self._bytes = bytearray(_CONFIG_BYTES)
        struct.pack_into("<HHHHI", self._bytes, 0, vendor, device, 0, 0, kind)
        self._bytes[0x0E] = header_type

    def read(self, off: int, nbytes: int) -> bytes:
        """Bytes at an offset."""
        return bytes(self._bytes[off : off + nbytes])

    def write(self, off: int, data: bytes) -> None:
        """Only the command register takes anything."""
        for at, value in enumerate(data, off):
            if at in _WRITABLE:
                self._bytes[at] = value


def bridge(vendor: int, device: int) -> PlainConfig:
    """The port above a card."""
    return PlainConfig(vendor, device, _BRIDGE, 1)


def audio(vendor: int, device: int) -> PlainConfig:
    """The card's sound function."""
    return PlainConfig(vendor, device, _AUDIO, 0x80)
