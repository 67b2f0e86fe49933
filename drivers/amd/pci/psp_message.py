"""Bytes for the security processor: where it reads them, and exactly those that were judged."""

from __future__ import annotations

from typing import Final

from drivers.amd.pci.gpu import BareGpu
from drivers.bare.place import Place
from drivers.base.errors import FirmwareRejected

READY: Final = 1 << 31
"""In its mailboxes: done, and ready for the next."""
_PAD_BYTES: Final = 16


def halves(address: int) -> tuple[int, int]:
    """A 64-bit address as two words, the lower first."""
    return address & 0xFFFFFFFF, address >> 32


def place(gpu: BareGpu, where: Place, data: memoryview, name: str) -> None:
    """Copy a piece of firmware, zeros behind it. Raises: FirmwareRejected when it does not fit."""
    if len(data) + 2 * _PAD_BYTES > where.nbytes:
        raise FirmwareRejected(
            f"{gpu.mmio.step}: {name} has {len(data):#x} bytes, more than fit its buffer",
            hint="Use the files that `python -m drivers.firmware` lists",
        )
    gpu.vram.write(where.offset, data)
    pad = -len(data) % _PAD_BYTES + _PAD_BYTES
    gpu.vram.write(where.offset + len(data), bytes(pad))
    gpu.flush_writes()
