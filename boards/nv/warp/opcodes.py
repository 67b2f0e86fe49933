"""Which instruction an opcode is. What is not here is refused by its number.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs: nine bits, the form of the sources above them
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from boards.nv.warp import (
    access,
    across,
    convert,
    double,
    floating,
    flow,
    half,
    integer,
    logic,
    small,
    special,
    sync,
)  # fmt: skip
from boards.nv.warp.arch import Arch
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.reach import MEMORY, Reach
from boards.nv.warp.variants import MEMORY_VARIANTS, UNIFORM_VARIANTS, VARIANTS

_OPERATION: Final = 0x1FF
Make = Callable[[Builder], Action]
_PLAIN: Final[dict[int, tuple[str, Make]]] = {
    0x002: ("MOV", logic.mov), 0x007: ("SEL", logic.sel), 0x008: ("FSEL", floating.fsel),
    0x009: ("FMNMX", floating.fmnmx), 0x00B: ("FSETP", floating.fsetp),
    0x00C: ("ISETP", logic.isetp), 0x010: ("IADD3", integer.iadd3), 0x011: ("LEA", integer.lea),
    0x012: ("LOP3", integer.lop3), 0x013: ("IABS", logic.iabs), 0x016: ("PRMT", logic.prmt),
    0x017: ("IMNMX", logic.imnmx), 0x019: ("SHF", integer.shf), 0x01C: ("PLOP3", logic.plop3),
    0x020: ("FMUL", floating.fmul), 0x021: ("FADD", floating.fadd),
    0x023: ("FFMA", floating.ffma), 0x024: ("IMAD", integer.imad),
    0x025: ("IMAD.WIDE", integer.imad_wide), 0x027: ("IMAD.HI", integer.imad_hi),
    0x045: ("I2FP", convert.i2f),
    0x006: ("VOTE", special.vote), 0x086: ("VOTEU", partial(special.vote, uniform=True)),
    0x005: ("CS2R", special.cs2r), 0x119: ("S2R", special.s2r),
    0x08C: ("UISETP", partial(logic.isetp, uniform=True)),
    0x090: ("UIADD3", partial(integer.iadd3, uniform=True)),
    0x092: ("ULOP3", partial(integer.lop3, uniform=True)),
    0x099: ("USHF", partial(integer.shf, uniform=True)),
    0x082: ("UMOV", partial(logic.mov, uniform=True)),
    0x0B9: ("ULDC", access.uldc),
    0x003: ("P2R", logic.p2r), 0x100: ("FLO", logic.flo),
    0x101: ("BREV", logic.brev), 0x109: ("POPC", logic.popc),
    0x102: ("FCHK", floating.fchk), 0x105: ("F2I", convert.f2i),
    0x106: ("I2F", convert.i2f_variable), 0x107: ("FRND", convert.frnd),
    0x108: ("MUFU", double.mufu), 0x104: ("F2F", convert.f2f), 0x110: ("F2F", convert.f2f),
    0x111: ("F2I", convert.f2i), 0x112: ("I2F", convert.i2f_variable),
    0x113: ("FRND", convert.frnd), 0x004: ("R2P", logic.r2p),
    0x030: ("HADD2", half.hadd2), 0x031: ("HFMA2", half.hfma2), 0x032: ("HMUL2", half.hmul2),
    0x034: ("HSETP2", half.hsetp2), 0x040: ("HMNMX2", half.hmnmx2), 0x03E: ("F2FP", half.f2fp),
    0x1C3: ("S2UR", partial(special.s2r, uniform=True)), 0x026: ("IDP", integer.idp),
    0x028: ("DMUL", double.dmul), 0x029: ("DADD", double.dadd), 0x02A: ("DSETP", double.dsetp),
    0x02B: ("DFMA", double.dfma),
    0x118: ("NOP", flow.nothing), 0x146: ("YIELD", flow.yield_),
    0x15D: ("NANOSLEEP", flow.nothing), 0x141: ("BSYNC", flow.bsync),
    0x144: ("CALL", flow.call), 0x145: ("BSSY", flow.bssy), 0x147: ("BRA", flow.bra),
    0x11B: ("ENDCOLLECTIVE", flow.nothing), 0x148: ("WARPSYNC", flow.warpsync),
    0x14D: ("EXIT", flow.exit_), 0x150: ("RET", flow.ret),
    0x143: ("CALL.ABS", flow.call_absolute), 0x149: ("BRX", flow.brx), 0x15C: ("BPT", flow.trap),
    0x001: ("PMTRIG", flow.nothing), 0x015: ("VABSDIFF4", small.vabsdiff4),
    0x142: ("BREAK", flow.break_),
    0x11D: ("BAR", sync.bar), 0x11C: ("B2R", sync.b2r), 0x192: ("MEMBAR", sync.membar),
    0x1AB: ("ERRBAR", sync.errbar), 0x18F: ("CCTL", sync.cctl), 0x11A: ("DEPBAR", sync.depbar),
    0x1AF: ("LDGDEPBAR", sync.ldgdepbar), 0x155: ("BMOV", sync.bmov_out),
    0x156: ("BMOV", sync.bmov_in), 0x00A: ("FSET", floating.fset), 0x014: ("VABSDIFF",
    small.vabsdiff), 0x01A: ("SGXT", small.sgxt), 0x01B: ("BMSK", small.bmsk),
    0x033: ("HSET2", half.hset2), 0x1A1: ("MATCH", across.match), 0x1C4: ("REDUX", across.redux),
    0x1C2: ("R2UR", across.r2ur),
    0x0A4: ("UIMAD", partial(integer.imad, uniform=True)),
    0x0A5: ("UIMAD.WIDE", partial(integer.imad_wide, uniform=True)),
    0x087: ("USEL", partial(logic.sel, uniform=True)),
    0x091: ("ULEA", partial(integer.lea, uniform=True)),
    0x096: ("UPRMT", partial(logic.prmt, uniform=True)),
    0x09A: ("USGXT", partial(small.sgxt, uniform=True)),
    0x09B: ("UBMSK", partial(small.bmsk, uniform=True)),
    0x0BD: ("UFLO", partial(logic.flo, uniform=True)),
    0x0BE: ("UBREV", partial(logic.brev, uniform=True)),
    0x0BF: ("UPOPC", partial(logic.popc, uniform=True)),
    0x09C: ("UPLOP3", partial(logic.plop3, uniform_unit=True)),
}  # fmt: skip
UNIFORM: Final = (
    0x082, 0x086, 0x087, 0x08C, 0x090, 0x091, 0x092, 0x096, 0x097, 0x099, 0x09A, 0x09B, 0x09C,
    0x0A4, 0x0A5, 0x0B9, 0x0BD, 0x0BE, 0x0BF, *UNIFORM_VARIANTS,
)  # fmt: skip
"""Run once a warp, under uniform predicates."""
_ACROSS: Final = (0x006, 0x086, 0x11A, 0x11C, 0x155, 0x156, 0x1A1, 0x1C4)
"""What other lanes or barriers have a part in: VOTE, DEPBAR, B2R, BMOV, MATCH, REDUX."""
_SHUFFLE: Final = 0x189
"""Lanes whose word is not read may have none."""
_NAMES: Final = {number: name for number, (name, _) in (_PLAIN | MEMORY).items()}


def name_of(word: int, arch: Arch) -> str:
    """What an instruction is called; its number if it is not modelled."""
    number = word & _OPERATION
    for variants in (VARIANTS, MEMORY_VARIANTS):
        own = variants[arch.family].get(number)
        if own is not None:
            return own[0]
    return _NAMES.get(number, f"opcode {word & 0xFFF:#x}")


def computes(word: int, arch: Arch) -> bool:
    """Whether an instruction reads registers alone, each thread its own."""
    number = word & _OPERATION
    reaches = number in MEMORY or number in MEMORY_VARIANTS[arch.family]
    own = number in VARIANTS[arch.family]
    return (own or not reaches or number == _SHUFFLE) and number not in _ACROSS


def action(build: Builder, reach: Reach) -> Action:
    """What a word does. Raises: NotModelled."""
    number = build.word & _OPERATION
    if number in UNIFORM:
        build.latency = "udp"
    own = VARIANTS[build.arch.family].get(number)
    if own is not None:
        return own[1](build)
    reaching = MEMORY_VARIANTS[build.arch.family].get(number)
    if reaching is not None:
        return reaching[1](build, reach)
    if number in _PLAIN:
        return _PLAIN[number][1](build)
    if number in MEMORY:
        return MEMORY[number][1](build, reach)
    raise NotModelled("no such instruction here")
