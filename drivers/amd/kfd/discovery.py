"""The IP blocks of a GPU, as amdgpu shows its discovery table: what they are and where.

Source: drivers/gpu/drm/amd/amdgpu/amdgpu_discovery.c (ip_discovery/die/N/HWID/INSTANCE/...),
drivers/gpu/drm/amd/include/soc15_hw_ip.h
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from drivers.amd.chips import Chip, Version
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.properties import malformed, number_file
from drivers.base.contracts import World
from drivers.base.errors import NotFound, Unsupported
from drivers.machine.text import entries, hex_number, read_text

MAX_DIES, MAX_INSTANCES, MAX_BASES = 16, 64, 64
_BYTE = 8


class HwId(IntEnum):
    """What kind of block; the numbers of soc15_hw_ip.h."""

    MP1 = 1
    GC = 11
    MMHUB = 34
    OSSSYS = 40
    HDP = 41
    SDMA0 = 42
    NBIF = 108
    MP0 = 255


@dataclass(frozen=True, slots=True)
class IpBlock:
    """One block. `bases` are the dword offsets of its register segments."""

    hw_id: HwId
    die: int
    instance: int
    version: Version
    harvested: bool
    bases: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """As in "11.0.0"."""
        return ".".join(map(str, self.version))


def _folder(world: World, node: GpuNode) -> str:
    """Where the table is shown; partitions have it at their whole GPU's PCI function alone."""
    address = node.pci_address
    devices = (
        f"/sys/class/drm/renderD{node.render_minor}/device",
        f"/sys/bus/pci/devices/{address}",
        f"/sys/bus/pci/devices/{address[:-1]}0",
    )
    for device in devices:
        if world.exists(f"{device}/ip_discovery/die"):
            return f"{device}/ip_discovery/die"
    raise NotFound(
        f"{devices[0]}/ip_discovery does not exist",
        hint="the kernel shows it from Linux 5.18 on",
    )


def _numbers(world: World, path: str, most: int) -> list[int]:
    """Entries that are numbers; the links with the blocks' names, and files, are passed over."""
    names = [name for name in entries(world, path) if re.fullmatch(r"[0-9]{1,5}", name)]
    if len(names) > most:
        raise malformed(path, f"{len(names)} entries; at most {most} are read")
    return sorted(map(int, names))


def _bases(world: World, path: str) -> tuple[int, ...]:
    words = read_text(world, f"{path}/base_addr").split()
    count = number_file(world, f"{path}/num_base_addresses", bits=_BYTE)
    if len(words) != count or count > MAX_BASES:
        raise malformed(f"{path}/base_addr", f"{len(words)} addresses, not {count}")
    if not all(re.fullmatch(r"0x[0-9a-fA-F]{1,16}", word) for word in words):
        raise malformed(f"{path}/base_addr", "an address is not a hex number")
    return tuple(int(word, 16) for word in words)


def _block(world: World, path: str, hw_id: HwId, die: int, instance: int) -> IpBlock:
    major, minor, revision = (
        number_file(world, f"{path}/{name}", bits=_BYTE) for name in ("major", "minor", "revision")
    )
    harvested = hex_number(world, f"{path}/harvest", _BYTE) != 0
    version = (major, minor, revision)
    return IpBlock(hw_id, die, instance, version, harvested, _bases(world, path))


Tables: TypeAlias = dict[str, tuple[IpBlock, ...]]
"""Tables that were read already, by folder: all partitions of a GPU show the same one."""
CHECKED: Final = (HwId.GC, HwId.SDMA0)
"""The kinds that `check_chip` reads."""


def read_ip_blocks(
    world: World, node: GpuNode, kinds: Iterable[HwId] = HwId, tables: Tables | None = None
) -> tuple[IpBlock, ...]:
    """The blocks a driver asks about, by kind, die and instance.

    Raises: NotFound where the kernel shows no discovery table; MalformedInput.
    """
    folder = _folder(world, node)
    if tables is None:
        return _read(world, folder, kinds)
    if folder not in tables:
        tables[folder] = _read(world, folder, kinds)
    return tables[folder]


def _read(world: World, folder: str, kinds: Iterable[HwId]) -> tuple[IpBlock, ...]:
    return tuple(
        _block(world, f"{folder}/{die}/{hw_id.value}/{instance}", hw_id, die, instance)
        for hw_id in kinds
        for die in _numbers(world, folder, MAX_DIES)
        for instance in _numbers(world, f"{folder}/{die}/{hw_id.value}", MAX_INSTANCES)
    )


def usable(blocks: tuple[IpBlock, ...], hw_id: HwId) -> tuple[IpBlock, ...]:
    """Those of one kind that are not fused off."""
    return tuple(block for block in blocks if block.hw_id == hw_id and not block.harvested)


def check_chip(chip: Chip, blocks: tuple[IpBlock, ...]) -> None:
    """The discovery table must name the chip that KFD named. Raises: Unsupported."""
    for hw_id, known in zip(CHECKED, (chip.gc, chip.sdma), strict=True):
        found = usable(blocks, hw_id)
        if found and all(block.version in known for block in found):
            continue
        shown = ", ".join(sorted({block.version_text for block in found})) or "none"
        wanted = ", ".join(".".join(map(str, version)) for version in sorted(known))
        raise Unsupported(
            f"{chip.name} has {hw_id.name} {wanted}, but IP discovery shows {shown}",
            hint="report it with the output of `uname -r` and the product's name",
        )
