"""The discovery table: which IP blocks a chip has, where, and how many units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.registers import Version
from drivers.base.errors import NotFound


@dataclass(frozen=True, slots=True)
class IpBlock:
    """One instance of a block; `bases` are its segments, in dwords of the register BAR."""

    hw: int
    instance: int
    version: Version
    bases: tuple[int, ...]
    harvested: bool = False
    """Fused off: it must not be touched."""


@dataclass(frozen=True, slots=True)
class GcInfo:
    """The size of the graphics core; of one XCC where there are several."""

    engines: int
    arrays_per_engine: int
    cus_per_array: int
    """Before harvesting of compute units."""
    wave_lanes: int
    max_waves_per_simd: int
    scratch_slots_per_cu: int
    lds_kib: int


@dataclass(frozen=True, slots=True)
class IpTable:
    """What the table says, its checksums verified."""

    blocks: Mapping[tuple[int, int], IpBlock]
    gc: GcInfo

    def get(self, hw: HwId, instance: int = 0) -> IpBlock:
        """One instance. Raises: NotFound when the chip has none, or it is fused off."""
        block = self.blocks.get((hw, instance))
        if block is None or block.harvested:
            state = "is fused off" if block else "is not"
            raise NotFound(
                f"{hw.name} {instance} {state} in the chip's discovery table",
                hint="This chip is not one that the driver boots: leave it to its kernel driver",
            )
        return block

    def version(self, hw: HwId) -> Version:
        """The version of a block, which all its instances share."""
        for block in self.blocks.values():
            if block.hw == hw and not block.harvested:
                return block.version
        return self.get(hw).version

    def instances(self, hw: HwId) -> tuple[int, ...]:
        """The usable instances, ascending."""
        found = (b.instance for b in self.blocks.values() if b.hw == hw and not b.harvested)
        return tuple(sorted(found))
