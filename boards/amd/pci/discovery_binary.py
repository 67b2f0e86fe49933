"""The IP discovery binary, built from a chip's data with right checksums."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from boards.amd.cp.engine_types import Chip
from boards.amd.pci.ip_blocks import IpBlock, ip_blocks

# src: include/discovery.h; amdgpu_discovery.h DISCOVERY_TMR_OFFSET, DISCOVERY_TMR_SIZE
OFFSET_FROM_END, LARGEST = 64 << 10, 10 << 10
_BINARY, _IPDS, _GC, _HARVEST = 0x2821_1407, 0x5344_5049, 0x4347, 0x5652_4148
_TABLES = 6
_HEADER_BYTES = 12 + 8 * _TABLES
_DIES, _HARVEST_ENTRIES = 16, 32
_CUS_PER_WGP = 2


def checksum(data: bytes) -> int:
    """src: amdgpu_discovery.c amdgpu_discovery_calculate_checksum(): bytes, added up."""
    return sum(data) & 0xFFFF


def _ip(block: IpBlock, wide: bool) -> bytes:
    major, minor, revision = block.version
    count = len(block.bases_dw)
    head = struct.pack("<HBBBBBB", block.hw_id, block.instance, count, major, minor, revision, 0)
    return head + struct.pack(f"<{count}{'Q' if wide else 'I'}", *block.bases_dw)


def ip_table(chip: Chip, blocks: Sequence[IpBlock], at: int) -> bytes:
    """The list of blocks, on one die; version 4 and 64-bit bases on gfx942."""
    wide = chip.family == "gfx9"
    version = {"gfx9": 4, "gfx11": 3, "gfx12": 4}[chip.family]
    die = struct.pack("<HH", 0, len(blocks)) + b"".join(_ip(block, wide) for block in blocks)
    header_bytes = 14 + 4 * _DIES + 2
    dies = struct.pack("<HH", 0, at + header_bytes) + bytes(4 * (_DIES - 1))
    size = header_bytes + len(die)
    head = struct.pack(
        "<IHHIH", _IPDS, version, size, 0x0001_0000 | chip.target_version & 0xFFFF, 1
    )
    return head + dies + struct.pack("<H", int(wide)) + die


def gc_table(chip: Chip) -> bytes:
    """Shader engines and compute units: gc_info v1.2 and v1.3, or v2.1 for one die of gfx942."""
    properties = chip.properties
    arrays, per_engine = properties["array_count"], properties["simd_arrays_per_engine"]
    engines = arrays // chip.xccs // per_engine
    cus = properties["cu_per_simd_array"]
    waves, lds_kib = properties["max_waves_per_simd"], chip.lds_bytes >> 10
    if chip.family == "gfx9":
        words = [engines, cus, per_engine, 4, 16, 512, 32, 32, 1792, 4096, 1024, chip.lanes, waves]
        words += [32, lds_kib, 1, 4]
        words += [10, 32, 16, 2, 64, 16, 4096 * 1024 // chip.xccs // 1024]
        version = (2, 1)
    else:
        words = [engines, cus // _CUS_PER_WGP, 0, 8, 24, 1024, 32, 32, 1792, 1024, 512]
        words += [chip.lanes, waves, 32, lds_kib, 1, per_engine, 4, 4]
        words += [cus, 24, cus * arrays, 2, 32, 1, 32, 16, 1, 256, 6144]
        version = (1, 2)
        if chip.family == "gfx12":
            words += [32, 128, 64, 128, 16, 64, 256, 128]
            version = (1, 3)
    size = 12 + 4 * len(words)
    return struct.pack("<IHHI", _GC, *version, size) + struct.pack(f"<{len(words)}I", *words)


def harvest_table(cut: Sequence[tuple[int, int]] = ()) -> bytes:
    """Blocks that are not there, as (hardware id, instance)."""
    entries = [struct.pack("<HBB", hw_id, instance, 0) for hw_id, instance in cut]
    body = b"".join(entries).ljust(4 * _HARVEST_ENTRIES, b"\0")
    return struct.pack("<II", _HARVEST, 0) + body


def build(chip: Chip, cut: Sequence[tuple[int, int]] = ()) -> bytes:
    """The whole binary."""
    at = _HEADER_BYTES
    tables = [ip_table(chip, ip_blocks(chip), at), gc_table(chip), harvest_table(cut)]
    info, body = b"", b""
    for data in tables:
        info += struct.pack("<HHHH", at + len(body), checksum(data), len(data), 0)
        body += data
    info = info.ljust(8 * _TABLES, b"\0")
    size = at + len(body)
    rest = struct.pack("<H", size) + info + body
    return struct.pack("<IHHH", _BINARY, 1, 0, checksum(rest)) + rest
