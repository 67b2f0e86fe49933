"""Second-level trap handler: a wave that cannot continue reports why, wakes the host and halts.

The kernel's handler runs first, saves waves on request, and otherwise jumps to this one. At entry
ttmp0 and ttmp1 have the program counter and the trap's number, ttmp12 has STATUS. Waves never
return from here: v0 to v3, which every kernel has, are free. The handler stores four words
(ttmp0, ttmp1, the exception flags, 1), then the event's id where the kernel reads it. The wave
ends halted, before a loop that is never run, so that its queue can be saved and destroyed.

# src: Linux amdkfd/cwsr_trap_handler_gfx9.asm, gfx10.asm, gfx12.asm L_FETCH_2ND_TRAP; ROCR
# src: trap_handler.s, trap_handler_gfx12.s: registers at entry, halt, return, parked pc
# src: words: LLVM 19 MC, for gfx90a, gfx942, gfx1030, gfx1100, gfx1201
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

ILLEGAL, VIOLATION = "illegal instruction", "memory violation"
PAD_WORDS: Final = 64
"""After the code: instructions are prefetched. # src: ROCR trap_handler.s, .rept s_code_end"""


class Place(Enum):
    """A word of the code that the device fills in."""

    REPORT_LO, REPORT_HI, MAILBOX_LO, MAILBOX_HI, EVENT = range(5)


Words: TypeAlias = tuple["int | Place", ...]
_REPORT_LO, _REPORT_HI = Place.REPORT_LO, Place.REPORT_HI
_MAILBOX_LO, _MAILBOX_HI, _EVENT = Place.MAILBOX_LO, Place.MAILBOX_HI, Place.EVENT


@dataclass(frozen=True, slots=True)
class Handler:
    """One family's code, and where its exception flags and the trap's number are."""

    words: Words
    memory_bit: int
    """Of the exception flags: a wrong address, also of LDS."""
    illegal_bit: int
    xnack_bit: int
    """A page fault, which the kernel driver reports itself."""
    trap_id: tuple[int, int]
    """First bit and bits of s_trap's number in ttmp1."""
    pad: int
    """The padding instruction."""

    def reason(self, trap: int, flags: int) -> str:
        """ttmp1 and the exception flags as text; "" for a page fault."""
        first, bits = self.trap_id
        number = trap >> first & (1 << bits) - 1
        if flags >> self.illegal_bit & 1:
            return ILLEGAL
        if flags >> self.xnack_bit & 1:
            return ""
        if flags >> self.memory_bit & 1:
            return VIOLATION
        return f"s_trap {number}" if number else f"exception flags {flags:#x}"


_S_NOP, _S_CODE_END = 0xBF800000, 0xBF9F0000
_GFX9: Final[Words] = (
    0xB8EEF803,  # s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    0xBF8C0000,  # s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
    0xBEFE0181,  # s_mov_b64 exec, 1
    0x7E0002FF, _REPORT_LO,  # v_mov_b32 v0, report
    0x7E0202FF, _REPORT_HI,  # v_mov_b32 v1, report >> 32
    0x7E04026C,  # v_mov_b32 v2, ttmp0
    0x7E06026D,  # v_mov_b32 v3, ttmp1
    0xDE758000, 0x007F0200,  # global_store_dwordx2 v[0:1], v[2:3], off sc0 sc1
    0xBF8C0F70,  # s_waitcnt vmcnt(0)
    0x7E04026E,  # v_mov_b32 v2, ttmp2
    0x7E060281,  # v_mov_b32 v3, 1
    0xDE758008, 0x007F0200,  # global_store_dwordx2 v[0:1], v[2:3], off offset:8 sc0 sc1
    0xBF8C0F70,  # s_waitcnt vmcnt(0)
    0x7E0002FF, _MAILBOX_LO,  # v_mov_b32 v0, mailbox
    0x7E0202FF, _MAILBOX_HI,  # v_mov_b32 v1, mailbox >> 32
    0x7E0402FF, _EVENT,  # v_mov_b32 v2, event
    0x7E060280,  # v_mov_b32 v3, 0
    0xDE758000, 0x007F0200,  # global_store_dwordx2 v[0:1], v[2:3], off sc0 sc1
    0xBF8C0F70,  # s_waitcnt vmcnt(0)
    0xBEFC00FF, _EVENT,  # s_mov_b32 m0, event
    0xBF800000,  # s_nop 0
    0xBF900001,  # s_sendmsg sendmsg(MSG_INTERRUPT)
    0xBF8CC07F,  # s_waitcnt lgkmcnt(0)
    0xBEEC1C00,  # s_getpc_b64 ttmp[0:1]
    0x806C986C,  # s_add_u32 ttmp0, ttmp0, 24
    0x826D806D,  # s_addc_u32 ttmp1, ttmp1, 0
    0xBEF81A8D,  # s_bitset1_b32 ttmp12, 13
    0xB978F802,  # s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    0xBF800000,  # s_nop 0
    0xBE801F6C,  # s_rfe_b64 ttmp[0:1]
    0xBF920002,  # s_trap 2
    0xBF82FFFE,  # s_branch -2
)  # fmt: skip
_GFX10: Final[Words] = (
    0xB96EF803,  # s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    0xBF8C0000,  # s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
    0xBBFD0000,  # s_waitcnt_vscnt null, 0x0
    0xBEFE0481,  # s_mov_b64 exec, 1
    0x7E0002FF, _REPORT_LO,  # v_mov_b32 v0, report
    0x7E0202FF, _REPORT_HI,  # v_mov_b32 v1, report >> 32
    0x7E04026C,  # v_mov_b32 v2, ttmp0
    0x7E06026D,  # v_mov_b32 v3, ttmp1
    0xDC778000, 0x007D0200,  # global_store_dwordx2 v[0:1], v[2:3], off glc slc
    0xBBFD0000,  # s_waitcnt_vscnt null, 0x0
    0x7E04026E,  # v_mov_b32 v2, ttmp2
    0x7E060281,  # v_mov_b32 v3, 1
    0xDC778008, 0x007D0200,  # global_store_dwordx2 v[0:1], v[2:3], off offset:8 glc slc
    0xBBFD0000,  # s_waitcnt_vscnt null, 0x0
    0x7E0002FF, _MAILBOX_LO,  # v_mov_b32 v0, mailbox
    0x7E0202FF, _MAILBOX_HI,  # v_mov_b32 v1, mailbox >> 32
    0x7E0402FF, _EVENT,  # v_mov_b32 v2, event
    0x7E060280,  # v_mov_b32 v3, 0
    0xDC778000, 0x007D0200,  # global_store_dwordx2 v[0:1], v[2:3], off glc slc
    0xBBFD0000,  # s_waitcnt_vscnt null, 0x0
    0xBEFC03FF, _EVENT,  # s_mov_b32 m0, event
    0xBF800000,  # s_nop 0
    0xBF900001,  # s_sendmsg sendmsg(MSG_INTERRUPT)
    0xBF8CC07F,  # s_waitcnt lgkmcnt(0)
    0xBEEC1F00,  # s_getpc_b64 ttmp[0:1]
    0x806C986C,  # s_add_u32 ttmp0, ttmp0, 24
    0x826D806D,  # s_addc_u32 ttmp1, ttmp1, 0
    0xBEF81D8D,  # s_bitset1_b32 ttmp12, 13
    0xB9F8F802,  # s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    0xBF800000,  # s_nop 0
    0xBE80226C,  # s_rfe_b64 ttmp[0:1]
    0xBF920002,  # s_trap 2
    0xBF82FFFE,  # s_branch -2
)  # fmt: skip
_GFX11: Final[Words] = (
    0xB8EEF803,  # s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    0xBF890000,  # s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
    0xBC7C0000,  # s_waitcnt_vscnt null, 0x0
    0xBEFE0181,  # s_mov_b64 exec, 1
    0x7E0002FF, _REPORT_LO,  # v_mov_b32 v0, report
    0x7E0202FF, _REPORT_HI,  # v_mov_b32 v1, report >> 32
    0x7E04026C,  # v_mov_b32 v2, ttmp0
    0x7E06026D,  # v_mov_b32 v3, ttmp1
    0xDC6EE000, 0x007C0200,  # global_store_b64 v[0:1], v[2:3], off glc slc dlc
    0xBC7C0000,  # s_waitcnt_vscnt null, 0x0
    0x7E04026E,  # v_mov_b32 v2, ttmp2
    0x7E060281,  # v_mov_b32 v3, 1
    0xDC6EE008, 0x007C0200,  # global_store_b64 v[0:1], v[2:3], off offset:8 glc slc dlc
    0xBC7C0000,  # s_waitcnt_vscnt null, 0x0
    0x7E0002FF, _MAILBOX_LO,  # v_mov_b32 v0, mailbox
    0x7E0202FF, _MAILBOX_HI,  # v_mov_b32 v1, mailbox >> 32
    0x7E0402FF, _EVENT,  # v_mov_b32 v2, event
    0x7E060280,  # v_mov_b32 v3, 0
    0xDC6EE000, 0x007C0200,  # global_store_b64 v[0:1], v[2:3], off glc slc dlc
    0xBC7C0000,  # s_waitcnt_vscnt null, 0x0
    0xBEFD00FF, _EVENT,  # s_mov_b32 m0, event
    0xBF800000,  # s_nop 0
    0xBFB60001,  # s_sendmsg sendmsg(MSG_INTERRUPT)
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0xBEEC4700,  # s_getpc_b64 ttmp[0:1]
    0x806C986C,  # s_add_u32 ttmp0, ttmp0, 24
    0x826D806D,  # s_addc_u32 ttmp1, ttmp1, 0
    0xBEF8128D,  # s_bitset1_b32 ttmp12, 13
    0xB978F802,  # s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    0xBF800000,  # s_nop 0
    0xBE804A6C,  # s_rfe_b64 ttmp[0:1]
    0xBF900002,  # s_trap 2
    0xBFA0FFFE,  # s_branch -2
)  # fmt: skip
_GFX12: Final[Words] = (
    0xB8EEF811,  # s_getreg_b32 ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV)
    0xBFC00000,  # s_wait_loadcnt 0x0
    0xBFC10000,  # s_wait_storecnt 0x0
    0xBFC60000,  # s_wait_dscnt 0x0
    0xBFC70000,  # s_wait_kmcnt 0x0
    0xBEFE0181,  # s_mov_b64 exec, 1
    0x7E0002FF, _REPORT_LO,  # v_mov_b32 v0, report
    0x7E0202FF, _REPORT_HI,  # v_mov_b32 v1, report >> 32
    0x7E04026C,  # v_mov_b32 v2, ttmp0
    0x7E06026D,  # v_mov_b32 v3, ttmp1
    0xEE06C07C, 0x010C0000, 0x0,  # global_store_b64 v[0:1], v[2:3], off scope:SCOPE_SYS
    0xBFC10000,  # s_wait_storecnt 0x0
    0x7E04026E,  # v_mov_b32 v2, ttmp2
    0x7E060281,  # v_mov_b32 v3, 1
    0xEE06C07C, 0x010C0000, 0x800,  # global_store_b64 v[0:1], v[2:3], off offset:8 scope:SCOPE_SYS
    0xBFC10000,  # s_wait_storecnt 0x0
    0x7E0002FF, _MAILBOX_LO,  # v_mov_b32 v0, mailbox
    0x7E0202FF, _MAILBOX_HI,  # v_mov_b32 v1, mailbox >> 32
    0x7E0402FF, _EVENT,  # v_mov_b32 v2, event
    0x7E060280,  # v_mov_b32 v3, 0
    0xEE06C07C, 0x010C0000, 0x0,  # global_store_b64 v[0:1], v[2:3], off scope:SCOPE_SYS
    0xBFC10000,  # s_wait_storecnt 0x0
    0xBEFD00FF, _EVENT,  # s_mov_b32 m0, event
    0xBF800000,  # s_nop 0
    0xBFB60001,  # s_sendmsg sendmsg(MSG_INTERRUPT)
    0xBFC70000,  # s_wait_kmcnt 0x0
    0xBEEC4700,  # s_getpc_b64 ttmp[0:1]
    0x806C986C,  # s_add_co_u32 ttmp0, ttmp0, 24
    0x826D806D,  # s_add_co_ci_u32 ttmp1, ttmp1, 0
    0xBEF80081,  # s_mov_b32 ttmp12, 1
    0xB9780384,  # s_setreg_b32 hwreg(HW_REG_STATE_PRIV, 14, 1), ttmp12
    0xBF800000,  # s_nop 0
    0xBE804A6C,  # s_rfe_b64 ttmp[0:1]
    0xBF900002,  # s_trap 2
    0xBFA0FFFE,  # s_branch -2
)  # fmt: skip
# src: ROCR trap_handler.s SQ_WAVE_TRAPSTS_*, SQ_WAVE_PC_HI_TRAP_ID_*; trap_handler_gfx12.s
# src: SQ_WAVE_EXCP_FLAG_PRIV_*
_OLD: Final = {"memory_bit": 8, "illegal_bit": 11, "xnack_bit": 28}
_MFMA: Final = Handler(_GFX9, **_OLD, trap_id=(16, 8), pad=_S_NOP)
_WMMA: Final = Handler(_GFX11, **_OLD, trap_id=(16, 8), pad=_S_CODE_END)
HANDLERS: Final[Mapping[str, Handler]] = {
    "CDNA2": _MFMA,  # one file for all of gfx9; sc0 and sc1 are glc and scc there
    "CDNA3": _MFMA,
    "CDNA4": _MFMA,
    "RDNA2": Handler(_GFX10, **_OLD, trap_id=(16, 8), pad=_S_CODE_END),
    "RDNA3": _WMMA,
    "RDNA3.5": _WMMA,
    "RDNA4": Handler(
        _GFX12, memory_bit=4, illegal_bit=6, xnack_bit=12, trap_id=(28, 4), pad=_S_CODE_END
    ),
}
"""By the name of a chip's family; without one only a Hang is reported."""


def assemble(handler: Handler, report_va: int, mailbox_va: int, event_id: int) -> bytes:
    """The code with its addresses, then padding for instruction prefetch."""
    low = 0xFFFFFFFF
    values = {
        Place.REPORT_LO: report_va & low,
        Place.REPORT_HI: report_va >> 32,
        Place.MAILBOX_LO: mailbox_va & low,
        Place.MAILBOX_HI: mailbox_va >> 32,
        Place.EVENT: event_id,
    }
    words = [values[word] if isinstance(word, Place) else word for word in handler.words]
    words += [handler.pad] * PAD_WORDS
    return struct.pack(f"={len(words)}I", *words)
