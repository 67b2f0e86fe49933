"""Discovery binaries, built field by field from the structs of the kernel's discovery.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

# src: Linux 6.12, drivers/gpu/drm/amd/include/discovery.h
BINARY_HEADER = "<IHHHH"
TABLE_INFO = "<HHHH"
TABLES = 6
AT_TABLES = struct.calcsize(BINARY_HEADER)
FIRST_TABLE = AT_TABLES + TABLES * struct.calcsize(TABLE_INFO)
IP_TABLE, GC_TABLE, HARVEST_TABLE = 0, 1, 2

NAVI_BASES = {
    11: (0x1260, 0xA000, 0x1C000, 0x2402C00), 42: (0x1260, 0xA000, 0x1C000, 0x2402C00),
    34: (0x1A000, 0x2408800), 108: (0, 0x14, 0xD20, 0x10400, 0x241B000, 0x4040000),
    255: (0x16000, 0xDC0000), 1: (0x16000, 0xDC0000), 41: (0xF20, 0x240A400),
    40: (0x10A0, 0x240A000),
}  # fmt: skip
"""By hardware id. src: include/navi10_ip_offset.h"""
GFX1100 = {11: (11, 0, 0), 42: (6, 0, 0), 34: (3, 0, 0), 108: (4, 3, 0), 255: (13, 0, 0),
           1: (13, 0, 0), 41: (6, 0, 0), 40: (6, 0, 0)}  # fmt: skip
GFX1201 = {11: (12, 0, 1), 42: (7, 0, 1), 34: (4, 1, 0), 108: (6, 3, 1), 255: (14, 0, 3),
           1: (14, 0, 3), 41: (7, 0, 0), 40: (7, 0, 0)}  # fmt: skip


@dataclass
class Ip:
    """One entry of the table."""

    hw: int
    instance: int
    version: tuple[int, int, int]
    bases: tuple[int, ...]
    last: int = 0
    """The byte that is harvest and reserved, or variant and sub-revision."""


@dataclass
class Binary:
    """What `build` puts together."""

    ips: list[Ip] = field(default_factory=list)
    version: int = 3
    wide: bool = False
    gc_version: tuple[int, int] = (1, 2)
    gc_words: list[int] = field(default_factory=list)
    harvest: list[tuple[int, int]] | None = None


def gc_v1(engines: int, wgp0: int, wgp1: int, arrays: int) -> list[int]:
    """struct gc_info_v1_2 without its header."""
    words = [0] * 27
    words[0:3] = engines, wgp0, wgp1
    words[11:15] = 32, 16, 32, 64
    words[16] = arrays
    return words


def gc_v2(engines: int, cus: int, arrays: int) -> list[int]:
    """struct gc_info_v2_1 without its header."""
    words = [0] * 24
    words[0:3] = engines, cus, arrays
    words[11:15] = 64, 8, 32, 64
    return words


def ips_of(versions: dict[int, tuple[int, int, int]]) -> list[Ip]:
    """One instance of each block."""
    return [Ip(hw, 0, version, NAVI_BASES[hw]) for hw, version in versions.items()]


def sums(data: bytes) -> int:
    """A checksum of this format."""
    return sum(data) & 0xFFFF


def build(made: Binary) -> bytes:
    """The binary, every checksum right."""
    table = _ip_table(made)
    gc = struct.pack("<IHHI", 0x4347, *made.gc_version, 12 + 4 * len(made.gc_words))
    gc += struct.pack(f"<{len(made.gc_words)}I", *made.gc_words)
    parts = {IP_TABLE: table, GC_TABLE: gc}
    if made.harvest is not None:
        list_ = b"".join(struct.pack("<HBB", hw, at, 0) for hw, at in made.harvest)
        parts[HARVEST_TABLE] = struct.pack("<II", 0x56524148, 0) + list_.ljust(4 * 32, b"\0")
    infos = dict.fromkeys(range(TABLES), (0, 0, 0))
    body = b""
    for index, part in parts.items():
        infos[index] = (FIRST_TABLE + len(body), sums(part), len(part))
        body += part
    rest = b"".join(struct.pack(TABLE_INFO, *infos[at], 0) for at in range(TABLES)) + body
    size = AT_TABLES + len(rest)
    summed = struct.pack("<H", size) + rest
    return struct.pack("<IHHH", 0x28211407, 1, 0, sums(summed)) + summed


def _ip_table(made: Binary) -> bytes:
    die = struct.pack("<HH", 0, len(made.ips))
    for ip in made.ips:
        count = len(ip.bases)
        die += struct.pack("<HBBBBBB", ip.hw, ip.instance, count, *ip.version, ip.last)
        die += struct.pack(f"<{count}{'Q' if made.wide else 'I'}", *ip.bases)
    header_bytes = 14 + 4 * 16 + 2
    head = struct.pack("<IHHIH", 0x53445049, made.version, header_bytes + len(die), 0, 1)
    dies = struct.pack("<HH", 0, FIRST_TABLE + header_bytes).ljust(4 * 16, b"\0")
    return head + dies + struct.pack("<BB", int(made.wide), 0) + die


def repair(data: bytes) -> bytes:
    """A damaged binary with its checksums right again, where its tables are still inside."""
    out = bytearray(data)
    if len(out) < FIRST_TABLE:
        return bytes(out)
    size = min(struct.unpack_from("<H", out, 10)[0], len(out))
    for index in range(3):
        at = AT_TABLES + index * 8
        offset = struct.unpack_from("<H", out, at)[0]
        length = _length(out, index, offset)
        struct.pack_into("<H", out, at + 2, sums(out[offset : offset + length]))
    struct.pack_into("<H", out, 8, sums(out[10:size]))
    return bytes(out)


def _length(out: bytearray, index: int, offset: int) -> int:
    if offset + 12 > len(out):
        return 0
    if index == IP_TABLE:
        return int(struct.unpack_from("<H", out, offset + 6)[0])
    if index == GC_TABLE:
        return int(struct.unpack_from("<I", out, offset + 8)[0])
    return 8 + 4 * 32
