"""Registers of AMD's IP blocks by name: `mmio.block(HwId.GC).read("CP_STAT")`."""

from __future__ import annotations

from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpTable
from drivers.amd.pci.registers import load
from drivers.bare.bus import Alive, RegisterBus
from drivers.bare.mmio import Block
from drivers.base.errors import DeviceError

MEMSIZE = Alive(0xDE3, "RCC_CONFIG_MEMSIZE")
"""MiB of VRAM: at the same place on every chip, and never all ones.

src: Linux 6.12, amdgpu_discovery.c, mmRCC_CONFIG_MEMSIZE
"""


class Mmio:
    """The registers of one GPU by block and name."""

    def __init__(self, bus: RegisterBus, ips: IpTable) -> None:
        self.bus, self.ips = bus, ips
        self._blocks: dict[tuple[HwId, int], Block] = {}

    @property
    def reads(self) -> int:
        """Reads so far, each a round trip over the bus."""
        return self.bus.reads

    @property
    def writes(self) -> int:
        """Writes so far."""
        return self.bus.writes

    @property
    def step(self) -> str:
        """The boot step at work; errors name it."""
        return self.bus.step

    @step.setter
    def step(self, name: str) -> None:
        self.bus.step = name

    def block(self, hw: HwId, instance: int = 0) -> Block:
        """An instance of a block. Raises: NotFound, Unsupported."""
        block = self._blocks.get((hw, instance))
        if block is None:
            ip = self.ips.get(hw, instance)
            label = hw.name if instance == 0 else f"{hw.name}{instance}"
            try:
                registers = load(hw, ip.version)
            except DeviceError as error:
                raise error.named(self.step) if self.step else error from None
            block = self._blocks[hw, instance] = Block(self.bus, registers, label, ip.bases)
        return block
