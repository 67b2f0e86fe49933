"""PM4 packets: which exist for a compute queue, how long they are, which bits are reserved.

src: nvd.h, soc15d.h (opcodes); kfdtest pm4_pkt_struct_{common,ci,ai,nv}.h (fields); tinygrad
autogen pm4_nv.py, from the kernel's newer nvd.h (fields of ATOMIC_MEM, COPY_DATA, WRITE_DATA).
"""

from __future__ import annotations

from dataclasses import dataclass

ALL = 0xFFFFFFFF
NOP, DISPATCH_DIRECT, DISPATCH_INDIRECT, ATOMIC_MEM = 0x10, 0x15, 0x16, 0x1E
COND_EXEC, PRED_EXEC, WRITE_DATA, WAIT_REG_MEM = 0x22, 0x23, 0x37, 0x3C
INDIRECT_BUFFER, COPY_DATA, EVENT_WRITE, RELEASE_MEM = 0x3F, 0x40, 0x46, 0x49
ACQUIRE_MEM, SET_SH_REG, SET_UCONFIG_REG = 0x58, 0x76, 0x79
HEADER_ONLY_COUNT = 0x3FFF
"""A NOP with this count is one dword. src: gfx_v11_0.c, ring funcs .nop and insert_nop."""
COUNT_MAX = 0x3FFF


@dataclass(frozen=True, slots=True)
class PacketRule:
    """One packet: payload words (None: no upper limit) and the bits of each that must be 0."""

    name: str
    least: int
    most: int | None
    reserved: tuple[int, ...] = ()


def fields(*ranges: tuple[int, int] | int) -> int:
    """Reserved bits: everything outside the given [high, low] fields and single bits."""
    used = 0
    for item in ranges:
        high, low = item if isinstance(item, tuple) else (item, item)
        used |= (1 << high + 1) - (1 << low)
    return ALL & ~used


# src: COMPUTE_DISPATCH_INITIATOR: bits 0 1 2 5 6 10 11 and, from gfx10 on, 15 (CS_W32_EN).
_INITIATOR_GFX9 = fields(0, 1, 2, 5, 6, 10, 11)
_INITIATOR_NV = fields(0, 1, 2, 5, 6, 10, 11, 15)
_DWORD_ADDRESS = 3
_COPY_CONTROL = fields((3, 0), (11, 8), (14, 13), 16, 20, (26, 25), 29)
_EOP_SELECT = fields((17, 16), (26, 24), (31, 29))

_COMMON = {
    NOP: PacketRule("NOP", 1, None),
    ATOMIC_MEM: PacketRule(
        "ATOMIC_MEM", 8, 8,
        (fields((6, 0), (11, 8), (26, 25)), 3, 0, 0, 0, 0, 0, fields((12, 0))),
    ),
    COND_EXEC: PacketRule("COND_EXEC", 4, 4, (_DWORD_ADDRESS, 0, ALL, fields((13, 0)))),
    WRITE_DATA: PacketRule("WRITE_DATA", 4, None, (fields((11, 8), 16, 20, (26, 25)),)),
    WAIT_REG_MEM: PacketRule(
        "WAIT_REG_MEM", 6, 6,
        (fields((2, 0), (5, 4), (7, 6), (26, 25)), 0, 0, 0, 0, fields((15, 0), 31)),
    ),
    INDIRECT_BUFFER: PacketRule(
        "INDIRECT_BUFFER", 3, 3,
        (_DWORD_ADDRESS, fields((15, 0)), fields((19, 0), 20, 21, 23, (27, 24), (29, 28))),
    ),
    COPY_DATA: PacketRule("COPY_DATA", 5, 5, (_COPY_CONTROL,)),
    EVENT_WRITE: PacketRule("EVENT_WRITE", 1, 3, (fields((5, 0), (11, 8)),)),
    SET_SH_REG: PacketRule("SET_SH_REG", 2, None, (fields((15, 0)),)),
    SET_UCONFIG_REG: PacketRule("SET_UCONFIG_REG", 2, None, (fields((15, 0)),)),
}  # fmt: skip

NV = _COMMON | {
    DISPATCH_DIRECT: PacketRule("DISPATCH_DIRECT", 4, 4, (0, 0, 0, _INITIATOR_NV)),
    DISPATCH_INDIRECT: PacketRule("DISPATCH_INDIRECT", 3, 3, (_DWORD_ADDRESS, 0, _INITIATOR_NV)),
    RELEASE_MEM: PacketRule(
        "RELEASE_MEM", 7, 7, (fields((5, 0), (11, 8), (23, 12), (26, 25), 28), _EOP_SELECT)
    ),
    # COHER_SIZE_HI has 8 bits by the header, 24 by what gfx_v11_0_emit_mem_sync writes there.
    ACQUIRE_MEM: PacketRule(
        "ACQUIRE_MEM", 7, 7,
        (ALL, 0, 0, 0, fields((23, 0)), fields((15, 0)), fields((18, 0))),
    ),
}  # fmt: skip

SOC15 = _COMMON | {
    PRED_EXEC: PacketRule("PRED_EXEC", 1, 1, (fields((13, 0), (31, 24)),)),
    DISPATCH_DIRECT: PacketRule("DISPATCH_DIRECT", 4, 4, (0, 0, 0, _INITIATOR_GFX9)),
    DISPATCH_INDIRECT: PacketRule("DISPATCH_INDIRECT", 3, 3, (_DWORD_ADDRESS, 0, _INITIATOR_GFX9)),
    RELEASE_MEM: PacketRule(
        "RELEASE_MEM", 7, 7,
        (fields((5, 0), (11, 8), 12, 13, (17, 15), (21, 19), (26, 25), 28, 29), _EOP_SELECT),
    ),
    ACQUIRE_MEM: PacketRule(
        "ACQUIRE_MEM", 6, 6,
        (fields((5, 3), 15, 18, 22, 23, 25, 26, (31, 27)), 0, 0, 0, fields((24, 0)),
         fields((15, 0))),
    ),
}  # fmt: skip


def layouts(family: str) -> dict[int, PacketRule]:
    """Packets of a chip family: gfx9 speaks the soc15 flavour, later ones nv."""
    return SOC15 if family == "gfx9" else NV
