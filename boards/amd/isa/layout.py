"""Where the fields of an encoding are: the first dword's signature, sizes and bit positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from boards.amd.isa.table import Entry

Printed = TypeVar("Printed")
"""A decoded instruction."""
Bits = tuple[int, int]
"""Lowest bit and width, over the little-endian dwords of the instruction."""
Pieces = tuple[Bits, ...]
"""A number that an instruction keeps in several places, its lowest bits first."""
Waits = Mapping[str, Mapping[str, Pieces]]
"""Wait instruction -> counter -> where its immediate holds the count; all ones: no wait.

Nowhere: it waits until nothing is left.
"""


def gather(value: int, pieces: Pieces) -> int:
    """The number that lies in pieces of `value`."""
    found = shift = 0
    for low, width in pieces:
        found |= (value >> low & ((1 << width) - 1)) << shift
        shift += width
    return found


def all_ones(pieces: Pieces) -> int:
    """The largest number the pieces hold."""
    return (1 << sum(width for _, width in pieces)) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One encoding: `word & mask == value` selects it."""

    name: str
    mask: int
    value: int
    dwords: int
    opcode: Bits
    fields: Mapping[str, Bits]
    entries: Mapping[int, Entry] = field(default_factory=dict)

    def opcode_of(self, word: int) -> int:
        low, width = self.opcode
        return word >> low & ((1 << width) - 1)

    def read(self, word: int) -> dict[str, int]:
        return {
            name: word >> low & ((1 << width) - 1) for name, (low, width) in self.fields.items()
        }


PLAIN_NAMES = frozenset({
    "v_readfirstlane_b32", "v_swap_b32", "v_swaprel_b32", "v_permlane64_b32", "v_pk_fmac_f16",
    "v_dot2acc_f32_f16", "v_fmamk_f32", "v_fmaak_f32", "v_fmamk_f16", "v_fmaak_f16", "v_nop",
    "v_dot2c_f32_f16", "v_dot4c_i32_i8", "v_pipeflush", "v_clrexcp", "v_accvgpr_mov_b32",
    "v_madmk_f16", "v_madak_f16",
})  # fmt: skip
"""Short instructions of one form only, which assembly writes without a suffix."""


WIDE_RESULTS = frozenset({"v_sat_pk_u8_i16"})
"""Instructions with a 16-bit result whose destination has 32 bits before gfx11."""
# src: LLVM SIDefines.h, DppCtrl: a shift or rotation by 0 has no code.
DPP_ROWS = frozenset(
    {*range(0x100), *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130), 0x140, 0x141}
)
"""Controls of DPP that every family has: quads, shifts and rotations in a row, mirrors."""
DPP_WAVES = frozenset({0x130, 0x134, 0x138, 0x13C, 0x142, 0x143})
"""Controls that move lanes across rows, before gfx10: wave_shl, _rol, _shr, _ror, row_bcast."""
DPP_SHARE, DPP_XMASK = frozenset(range(0x150, 0x160)), frozenset(range(0x160, 0x170))


@dataclass(frozen=True, slots=True, eq=False)
class FamilyOf(Generic[Printed]):
    """A family of chips: its encodings, most specific first, and what differs between families."""

    name: str
    layouts: tuple[Encoding, ...]
    dual: tuple[str, ...] = ()
    """Names of the halves of a dual-issue instruction, by opcode."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Mnemonics whose meaning the shared tables define under another (gfx11's) name."""
    null: int = 124
    """The scalar register that reads 0 and forgets; -1 where there is none."""
    m0: int = 125
    off: frozenset[int] = frozenset({124, 127})
    """Scalar register codes that say "no register" in memory instructions."""
    flat_offset_signed: bool = False
    """Whether FLAT instructions (not GLOBAL, not SCRATCH) have a signed offset."""
    dpp_sources: frozenset[int] = frozenset({233, 234, 250})
    """Codes of source 0 that announce a dword of lane permutation."""
    dpp_encodings: frozenset[str] = frozenset({"VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P"})
    dpp_controls: frozenset[int] = DPP_ROWS | DPP_SHARE | DPP_XMASK
    """Lane permutations that exist; what silicon makes of others is not known."""
    buffer_swizzle: Bits = (30, 2)
    """Word 1 of a buffer resource: 0, or the code of the elements that lanes are interleaved by."""
    buffer_check: Bits | None = (28, 2)
    """Word 3 of a buffer resource: the kind of bounds check; None: it follows from the stride."""
    own_scratch: bool = False
    """Kernels set FLAT_SCRATCH themselves, from registers that hold where the wave's memory is."""
    flat_scratch: int = -1
    """The pair of scalar registers that FLAT_SCRATCH is; -1: s_setreg writes it."""
    long_literals: bool = True
    """Whether the long vector encodings take a literal."""
    sdwa: bool = False
    """Whether short encodings reach parts of registers through a dword of their own (SDWA)."""
    row_share: str = "row_share"
    """What assembly calls the permutation that reads one lane of each row."""
    plain_names: frozenset[str] = PLAIN_NAMES
    split_registers: bool = True
    """Short encodings name the upper halves of v0 and up as v128 and up in 16-bit operands."""
    zeroing: frozenset[str] = frozenset()
    """Instructions whose 16-bit result clears the other half of the register."""
    lane_counts: tuple[int, ...] = (32, 64)
    vgpr_granule: Mapping[int, int] = field(default_factory=lambda: {32: 8, 64: 4})
    """Lanes of a wave -> vector registers that one unit of RSRC1.VGPRS stands for."""
    aligned_vectors: bool = False
    """Whether several vector registers in a row begin with an even one."""
    accumulators: bool = False
    """Whether RSRC3 divides a wave's registers into vector and accumulation registers."""
    packed_items: bool = True
    """v0 = x | y << 10 | z << 20; else x, y, z in v0, v1, v2."""
    group_ids_in_ttmp: bool = False
    """Workgroup numbers in ttmp9 (x) and ttmp7 (y, z << 16); else after the user registers."""
    waits: Waits = field(default_factory=dict)
    counters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of access ("vm", "lgkm", "smem", "flat") -> the counters that count it."""
    unordered: frozenset[str] = frozenset({"smem"})
    """Kinds of access that return in any order: among them only a wait for 0 says anything."""
    permute_lanes: int = 32
    """Lanes among which ds_permute and ds_bpermute reach."""
    texts: Mapping[str, Callable[[Printed], str | None]] = field(default_factory=dict)
    """Encoding -> its text where that differs from gfx11's; None: as gfx11."""
    op_sel: Callable[[Printed], str | None] | None = None
    """The text of op_sel in VOP3 where an instruction has its own; None: as gfx11."""
    flags: Callable[[Printed], str] | None = None
    """The text of a memory instruction's cache controls, where it is not gfx11's."""
    hwregs: Mapping[int, str] = field(default_factory=dict)
    registers: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(code, dwords) -> name of scalar registers that have one of their own."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """Names of the messages of s_sendmsg and s_sendmsg_rtn."""
