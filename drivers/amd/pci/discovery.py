"""Reads the discovery binary that the chip's own firmware leaves at the end of VRAM.

Nothing of it is believed before its checksums fit. Source of the layouts: Linux 6.12,
drivers/gpu/drm/amd/include/discovery.h; of what is checked: amdgpu_discovery.c
"""

from __future__ import annotations

from typing import Final

from drivers.amd.pci.discovery_gc import read_gc
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpBlock, IpTable
from drivers.amd.pci.mmio import MEMSIZE
from drivers.bare.bus import DWORD_BYTES, RegisterBus
from drivers.base.contracts import Region
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout, MalformedInput
from drivers.base.view import View

# src: amdgpu_discovery.c, amdgpu_discovery.h: registers at the same place on every chip
_MM_INDEX_DW, _MM_DATA_DW, _MM_INDEX_HI_DW = 0x0, 0x1, 0x6
_MM_VRAM: Final = 1 << 31
_READY_DW, _READY = 0x16061, 1 << 31
READY_TIMEOUT_S: Final = 2.0
"""MP0's C2PMSG_33 says when the firmware of the board is done; two seconds at most."""
TABLE_FROM_END: Final = 64 << 10
TABLE_BYTES: Final = 10 << 10
_MEMSIZE_UNIT_SHIFT: Final = 20
_MOST_MEMSIZE: Final = 1 << 20
"""A terabyte; far above any chip."""

_BINARY_SIGNATURE: Final = 0x28211407
_IPDS_SIGNATURE: Final = 0x53445049
_GC_ID: Final = 0x4347
_HARVEST_SIGNATURE: Final = 0x56524148
_IP_TABLE, _GC_TABLE, _HARVEST_TABLE = 0, 1, 2
_TABLES_AT, _TABLE_INFO_BYTES = 12, 8
_TABLE_COUNT: Final = 6
_SUMMED_FROM: Final = 10
_SUM_MASK: Final = 0xFFFF
_IPDS_BYTES: Final = 80
_MOST_DIES: Final = 16
_VERSIONS: Final = range(1, 5)
_FLAGS_VERSION: Final = 4
_HARVEST_BIT_VERSION: Final = 2
"""Up to this version of the table an IP says itself whether it is fused off."""
_IP_BYTES: Final = 8
_BASE_MASK: Final = 0x3FFFFFFF
"""src: amdgpu_discovery_reg_base_init(), of 64-bit bases"""
_MOST_BASES: Final = 32
_HARVEST_ENTRIES, _HARVEST_LIST_AT, _HARVEST_ENTRY_BYTES = 32, 8, 4
_HARVESTABLE: Final = (HwId.GC, HwId.SDMA0, HwId.DMU)
"""Blocks that the harvest table may take away. src: as above, read_from_harvest_table"""


def read_table(bus: RegisterBus, vram: Region) -> tuple[IpTable, int]:
    """The table of a live GPU, and the bytes of its VRAM.

    Raises: MalformedInput, DeviceTimeout when the board's firmware is not done, DeviceGone.
    """
    value = 0
    for _ in polls(READY_TIMEOUT_S, bus.clock):
        value = bus.read(_READY_DW, "MP0.C2PMSG_33")
        if value & _READY:
            break
    else:
        raise DeviceTimeout(
            f"{bus.step}: the board's firmware is not done: MP0.C2PMSG_33 is {value:#x}",
            register="MP0.C2PMSG_33",
            last=value,
            hint="Power the machine off and on; a GPU in this state needs it",
        )
    megabytes = bus.read(MEMSIZE.dword, MEMSIZE.name)
    if not 0 < megabytes <= _MOST_MEMSIZE:
        raise MalformedInput(
            f"{bus.step}: RCC_CONFIG_MEMSIZE says {megabytes:#x} MiB of VRAM",
            hint="Power the machine off and on; report it if it stays",
        )
    vram_bytes = megabytes << _MEMSIZE_UNIT_SHIFT
    return parse(_bytes_at_end(bus, vram, vram_bytes)), vram_bytes


def _bytes_at_end(bus: RegisterBus, vram: Region, vram_bytes: int) -> bytes:
    start = vram_bytes - TABLE_FROM_END
    if start + TABLE_BYTES <= vram.nbytes:
        return vram.read(start, TABLE_BYTES)
    head = _through_index(bus, start, _TABLES_AT)
    size = View(head, "discovery binary").u16(_SUMMED_FROM, "binary_size")
    dwords = min(size, TABLE_BYTES) // DWORD_BYTES + 1
    return _through_index(bus, start, dwords * DWORD_BYTES)


def _through_index(bus: RegisterBus, start: int, nbytes: int) -> bytes:
    """VRAM beyond a small BAR, one dword at a time. src: amdgpu_device_mm_access()"""
    out = bytearray()
    high = -1
    for at in range(start, start + nbytes, DWORD_BYTES):
        if at >> 31 != high:
            high = at >> 31
            bus.write(_MM_INDEX_HI_DW, high, "MM_INDEX_HI")
        bus.write(_MM_INDEX_DW, at & _MM_VRAM - 1 | _MM_VRAM, "MM_INDEX")
        out += bus.read(_MM_DATA_DW, "MM_DATA", ones=True).to_bytes(DWORD_BYTES, "little")
    return bytes(out)


def parse(data: bytes) -> IpTable:
    """The table in a discovery binary. Raises: MalformedInput, saying where and which rule."""
    view = View(data, "discovery binary")
    signature = view.u32(0, "binary_signature")
    if signature != _BINARY_SIGNATURE:
        raise view.fail(f"signature {signature:#x} is not {_BINARY_SIGNATURE:#x}")
    checksum, size = view.unpack("HH", _SUMMED_FROM - 2, "binary_checksum")
    if size < _TABLES_AT + _TABLE_COUNT * _TABLE_INFO_BYTES:
        raise view.fail(f"binary_size {size:#x} is less than its own header", _SUMMED_FROM)
    binary = View(view.bytes(0, size, "the binary"), "discovery binary")
    _summed(binary.sub(_SUMMED_FROM, size - _SUMMED_FROM, "all"), checksum)
    return IpTable(_blocks(binary), read_gc(_gc(binary)))


def _summed(part: View, checksum: int) -> None:
    """Byte sums, 16 bits wide. src: amdgpu_discovery_calculate_checksum()"""
    total = sum(part.data) & _SUM_MASK
    if total != checksum:
        raise part.fail(f"its bytes sum up to {total:#x}, and {checksum:#x} is written")


def _table(binary: View, index: int) -> tuple[int, int]:
    """Offset and checksum of a table; offset 0 where there is none."""
    at = _TABLES_AT + index * _TABLE_INFO_BYTES
    offset, checksum = binary.unpack("HH", at, f"table {index}")
    return int(offset), int(checksum)


def _gc(binary: View) -> View:
    offset, checksum = _table(binary, _GC_TABLE)
    number = binary.u32(offset, "table id of gc_info") if offset else 0
    if number != _GC_ID:
        raise binary.fail(f"gc_info has the id {number:#x}, not {_GC_ID:#x}", offset)
    part = binary.sub(offset, binary.u32(offset + 8, "size of gc_info"), "gc_info")
    _summed(part, checksum)
    return part


def _blocks(binary: View) -> dict[tuple[int, int], IpBlock]:
    offset, checksum = _table(binary, _IP_TABLE)
    signature, version, size, _id, dies = binary.unpack("IHHIH", offset, "ip_discovery_header")
    if signature != _IPDS_SIGNATURE or version not in _VERSIONS or not offset:
        raise binary.fail(f"IP table {signature:#x} of version {version} is not known", offset)
    if dies > _MOST_DIES:
        raise binary.fail(f"{dies} dies; at most {_MOST_DIES} are known", offset)
    header = binary.sub(offset, size, "IP table")
    _summed(header, checksum)
    flags = header.u8(_IPDS_BYTES - 2, "flags") if version >= _FLAGS_VERSION else 0
    fused = _harvested(binary)
    blocks: dict[tuple[int, int], IpBlock] = {}
    for die in range(dies):
        _die, at = header.unpack("HH", 14 + die * 4, f"die {die}")
        _read_die(binary, at, version, bool(flags & 1), fused, blocks)
    return blocks


def _read_die(
    binary: View,
    at: int,
    version: int,
    wide: bool,
    fused: frozenset[tuple[int, int]],
    blocks: dict[tuple[int, int], IpBlock],
) -> None:
    """The IPs of one die. A block that several dies list is the first one's."""
    _die, count = binary.unpack("HH", at, "die_header")
    at += 4
    for index in range(count):
        what = f"IP {index} of the die"
        hw, instance, bases, major, minor, revision, last = binary.unpack("HBBBBBB", at, what)
        if bases > _MOST_BASES:
            raise binary.fail(f"{what} has {bases} bases; at most {_MOST_BASES} are read", at)
        table = binary.table("Q" if wide else "I", at + _IP_BYTES, bases, f"bases of {what}")
        mask = _BASE_MASK if wide else (1 << 32) - 1
        off = (hw, instance) in fused or (version <= _HARVEST_BIT_VERSION and bool(last & 0xF))
        block = IpBlock(hw, instance, (major, minor, revision),
                        tuple(base & mask for (base,) in table), off)  # fmt: skip
        blocks.setdefault((hw, instance), block)
        at += _IP_BYTES + bases * (8 if wide else DWORD_BYTES)


def _harvested(binary: View) -> frozenset[tuple[int, int]]:
    """What is fused off: (hardware id, instance)."""
    offset, checksum = _table(binary, _HARVEST_TABLE)
    if not offset:
        return frozenset()
    size = _HARVEST_LIST_AT + _HARVEST_ENTRIES * _HARVEST_ENTRY_BYTES
    part = binary.sub(offset, size, "harvest table")
    signature = part.u32(0, "signature")
    if signature != _HARVEST_SIGNATURE:
        raise part.fail(f"signature {signature:#x} is not {_HARVEST_SIGNATURE:#x}")
    _summed(part, checksum)
    found = set()
    for hw, instance, _ in part.table("HBB", _HARVEST_LIST_AT, _HARVEST_ENTRIES, "entries"):
        if hw == 0:
            break
        if hw in _HARVESTABLE:
            found.add((hw, instance))
    return frozenset(found)
