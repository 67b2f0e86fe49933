"""A GPU on its own, switched on, for those who play recorded accesses to it."""

from __future__ import annotations

from boards.amd.chip import chip, names
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.gpu import VRAM_BAR, PciGpu
from boards.amd.pci.options import PciOptions

_COMMAND, _MEMORY_ENABLE = 0x04, b"\x02\x00"


class PoweredOn:
    """One function without a machine around it: bus mastering stays off."""

    def __init__(self, gpu: PciGpu) -> None:
        self.gpu = gpu
        gpu.config.write(_COMMAND, _MEMORY_ENABLE)
        self.read, self.write = gpu.read, gpu.write

    def place(self, bar: int, off: int, data: bytes) -> None:
        """Bytes into VRAM. Raises: ValueError for another BAR, or beyond its end."""
        if bar != VRAM_BAR or off + len(data) > self.gpu.bars[VRAM_BAR].nbytes:
            raise ValueError(f"{len(data)} bytes at {off:#x} of BAR {bar} are not in VRAM")
        self.gpu.board.host_write(off, data)


def powered_on(name: str, vram_bytes: int, *, firmware: bool = True) -> PoweredOn:
    """A fresh GPU. Without `firmware` it takes any. Raises: ValueError for an unknown chip."""
    if name not in names():
        raise ValueError(f"no board {name!r}: there are {', '.join(names())}")
    found = chip(name)
    hardware = Hardware([], Options(vram_bytes=vram_bytes))
    return PoweredOn(PciGpu(hardware, found, vram_bytes, PciOptions(firmware=firmware)))
