"""Texts that have rules of their own: wait counts, hardware registers, swizzles, modifiers."""

from __future__ import annotations

import re

from boards.amd.isa.decode import Instruction, Sdwa
from boards.amd.isa.layout import all_ones, gather

_BITS16 = 0xFFFF

_COUNTERS = ("vm", "exp", "lgkm")
_RENAMED = {"vm": "load", "lgkm": "ds"}
"""Counters of gfx12 that s_waitcnt names as before."""
# src: RDNA3 ISA 16.5, S_DELAY_ALU: instid0 3:0, instskip 6:4, instid1 10:7.
_DELAYS = (
    "NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1",
    "TRANS32_DEP_2", "TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2",
    "SALU_CYCLE_3",
)  # fmt: skip
_SKIPS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")
# src: AMDGPUBaseInfo.cpp, DepCtrInfo: name, shift, width, gfx11 default (all ones).
_DEPCTR = (
    ("depctr_hold_cnt", 7, 1), ("depctr_sa_sdst", 0, 1), ("depctr_va_vdst", 12, 4),
    ("depctr_va_sdst", 9, 3), ("depctr_va_ssrc", 8, 1), ("depctr_va_vcc", 1, 1),
    ("depctr_vm_vsrc", 2, 3),
)  # fmt: skip
_DECIMAL = frozenset({
    "s_nop", "s_sleep", "s_setprio", "s_trap", "s_sethalt", "s_setkill", "s_incperflevel",
    "s_decperflevel", "s_denorm_mode", "s_barrier_wait",
})  # fmt: skip
_DECIMAL_LAST = 64
"""LLVM prints small operands of these in decimal, larger ones in hexadecimal."""
_BRANCH = ("s_branch", "s_cbranch", "s_call", "s_subvector")


# src: RDNA3 ISA 7.2.2, inline constants as IEEE half floats.
_HALF = {
    240: 0x3800, 241: 0xB800, 242: 0x3C00, 243: 0xBC00, 244: 0x4000, 245: 0xC000, 246: 0x4400,
    247: 0xC400, 248: 0x3118,
}  # fmt: skip
_FLOAT_NAMES = {
    240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0",
    247: "-4.0", 248: "0.15915494",
}  # fmt: skip
_SINGLE = {
    0x3F000000: "0.5", 0xBF000000: "-0.5", 0x3F800000: "1.0", 0xBF800000: "-1.0",
    0x40000000: "2.0", 0xC0000000: "-2.0", 0x40800000: "4.0", 0xC0800000: "-4.0",
    0x3E22F983: "0.15915494",
}  # fmt: skip
_SMALLEST = -16
_HALF_INTEGERS = re.compile(r"_[iub]16$|_i16_i8$|^v_mad_[iu]32_[iu]16$|^v_cvt_[iu]32_[iu]16$")
_HALF_SOURCES = re.compile(r"_[fiub]16$")
_PACKED = re.compile(r"^v_pk_|^v_cvt_pk|^v_dot|^v_cmp_class|^v_cmpx_class|^v_pack")
_LITERAL = 255


def half_constant(name: str, code: int, literal: int) -> str | None:
    """How a 16-bit instruction shows a constant where that differs, else None."""
    if not name.startswith("v_") or not _HALF_SOURCES.search(name) or _PACKED.search(name):
        return None
    if code == _LITERAL:
        return _half_literal(literal, floats=not _HALF_INTEGERS.search(name))
    if code in _HALF and _HALF_INTEGERS.search(name):
        return f"{_HALF[code]:#x}"
    return None


def _half_literal(value: int, *, floats: bool) -> str:
    """Floats are recognised by their 16 bits, integers by all 32, as LLVM does."""
    half = value & _BITS16
    number = _small(half, 1 << 16) if floats else _small(value, 1 << 32)
    if number is not None:
        return number
    if not floats:
        return _SINGLE.get(value, f"{half:#x}")
    named = {raw: _FLOAT_NAMES[code] for code, raw in _HALF.items()}
    return named.get(half, f"{half:#x}")


def literal(value: int, dwords: int) -> str:
    """A literal that an inline constant could have said is shown as that constant."""
    number = (
        _small(value, 1 << 32) if dwords == 1 else str(value) if value <= _DECIMAL_LAST else None
    )
    if number is not None:
        return number
    return _SINGLE.get(value, f"{value:#x}") if dwords == 1 else f"{value:#x}"


def _small(value: int, wrap: int) -> str | None:
    """Integers that have inline constants, as signed numbers."""
    signed = value - wrap if value >= wrap // 2 else value
    return str(signed) if _SMALLEST <= signed <= _DECIMAL_LAST else None


def immediate(inst: Instruction, value: int) -> str:
    """A 16-bit immediate: branches in decimal, everything else in hexadecimal."""
    if inst.name.startswith(_BRANCH):
        return str(value)
    if inst.name in _DECIMAL and value <= _DECIMAL_LAST:
        return str(value)
    return f"{value:#x}"


def scalar(inst: Instruction, dst: str) -> str | None:
    """The text of a scalar instruction with an immediate of its own kind, or None."""
    value = inst.fields.get("i", 0)
    name = inst.name
    if name == "s_waitcnt":
        return _waitcnt(inst, value)
    if name == "s_delay_alu":
        return f"{name} {_delay(value)}"
    if name in ("s_sendmsg", "s_sendmsghalt"):
        return f"{name} {_message(inst, value)}"
    if name in ("s_sendmsg_rtn_b32", "s_sendmsg_rtn_b64"):
        return f"{name} {dst}, {_message(inst, inst.fields['a'], returns=True)}"
    if inst.meaning == "s_waitcnt_depctr":
        return f"{name} {_depctr(value)}"
    if name == "s_endpgm":
        return name if not value else f"{name} {value}"
    if name in ("s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32"):
        return _hardware_register(inst, value, dst)
    return None


def _hardware_register(inst: Instruction, value: int, gpr: str) -> str:
    number, offset, width = value & 0x3F, value >> 6 & 0x1F, (value >> 11) + 1
    shown = inst.family.hwregs.get(number, str(number))
    if (offset, width) != (0, 32):
        shown = f"{shown}, {offset}, {width}"
    register = f"hwreg({shown})"
    if inst.name == "s_setreg_imm32_b32":
        return f"{inst.name} {register}, {inst.literal or 0:#x}"
    if inst.name == "s_getreg_b32":
        return f"{inst.name} {gpr}, {register}"
    return f"{inst.name} {register}, {gpr}"


def _waitcnt(inst: Instruction, value: int) -> str:
    waits = inst.family.waits["s_waitcnt"]
    pieces = {n: waits[n] if n in waits else waits[_RENAMED[n]] for n in _COUNTERS}
    counts = [(name, gather(value, pieces[name]), all_ones(pieces[name])) for name in _COUNTERS]
    waited = [(name, count) for name, count, free in counts if count != free]
    parts = [f"{name}cnt({count})" for name, count in waited or [c[:2] for c in counts]]
    return f"s_waitcnt {' '.join(parts)}"


def _delay(value: int) -> str:
    first, skip, second = value & 0xF, value >> 4 & 7, value >> 7 & 0xF
    if max(first, second) >= len(_DELAYS) or skip >= len(_SKIPS):
        return f"{value:#x}"
    parts = []
    if first:
        parts.append(f"instid0({_DELAYS[first]})")
    if skip:
        parts.append(f"instskip({_SKIPS[skip]})")
    if second:
        parts.append(f"instid1({_DELAYS[second]})")
    return " | ".join(parts) or "0"


def _message(inst: Instruction, value: int, *, returns: bool = False) -> str:
    name = inst.family.messages.get(value)
    if name is not None:
        return f"sendmsg({name})"
    return str(value) if value > 0xFF and not returns else f"sendmsg({value}, 0, 0)"


def _depctr(value: int) -> str:
    known = 0
    parts = []
    for name, low, width in _DEPCTR:
        mask = (1 << width) - 1
        known |= mask << low
        if value >> low & mask != mask:
            parts.append(f"{name}({value >> low & mask})")
    if (value & _BITS16 | known) != known | (~known & _BITS16 & value):
        return f"{value:#x}"
    if not parts or value & ~known & _BITS16:
        return f"{value:#x}"
    return " ".join(parts)


def swizzle(offset: int) -> str:
    """The pattern of ds_swizzle_b32."""
    if not offset:
        return ""
    # src: RDNA3 ISA 12.13.1: bit 15 selects a quad permutation, else and/or/xor masks.
    if offset >> 8 == 0x80:
        lanes = [str(offset >> 2 * i & 3) for i in range(4)]
        return f" offset:swizzle(QUAD_PERM,{','.join(lanes)})"
    if offset >> 15:
        return f" offset:{offset}"
    keep, force, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    if keep == 31 and not force and flip and flip & (flip - 1) == 0:
        return f" offset:swizzle(SWAP,{flip})"
    if keep == 31 and not force and flip and flip & (flip + 1) == 0:
        return f" offset:swizzle(REVERSE,{flip + 1})"
    if not flip and keep and (32 - keep) & (32 - keep - 1) == 0 and force < 32 - keep:
        return f" offset:swizzle(BROADCAST,{32 - keep},{force})"
    mask = "".join(_swizzle_bit(keep >> b & 1, force >> b & 1, flip >> b & 1)
                   for b in range(4, -1, -1))  # fmt: skip
    return f' offset:swizzle(BITMASK_PERM,"{mask}")'


def _swizzle_bit(keep: int, force: int, flip: int) -> str:
    if keep and not force:
        return "i" if flip else "p"
    return str((force | (keep & 0)) ^ flip)


def op_sel(inst: Instruction) -> str:
    """op_sel of VOP3: a bit for each source, then one for the destination."""
    own = inst.family.op_sel(inst) if inst.family.op_sel is not None else None
    if own is not None:
        return own
    bits = inst.fields["op_sel"]
    sources = sum(o.field in "abc" for o in inst.operands)
    if inst.name.startswith("v_permlane"):
        return f" op_sel:[{bits & 1},{bits >> 1 & 1}]"
    shown = [str(bits >> i & 1) for i in range(sources)] + [str(bits >> 3 & 1)]
    return f" op_sel:[{','.join(shown)}]"


def packed(inst: Instruction) -> str:
    """The modifiers of VOP3P that differ from their defaults."""
    f = inst.fields
    sources = sum(o.field in "abc" for o in inst.operands)
    high = f["hi_ab"] | f["hi_c"] << 2
    mixed = inst.name.startswith("v_fma_mix")
    everything = (1 << sources) - 1
    text = ""
    if f["op_sel"] & everything:
        text += _bits("op_sel", f["op_sel"], sources)
    if high & everything != (0 if mixed else everything):
        text += _bits("op_sel_hi", high, sources)
    if mixed:
        return text
    if f["neg"] & everything:
        text += _bits("neg_lo", f["neg"], sources)
    if f["neg_hi"] & everything:
        text += _bits("neg_hi", f["neg_hi"], sources)
    return text


def _bits(name: str, value: int, count: int) -> str:
    return f" {name}:[{','.join(str(value >> i & 1) for i in range(count))}]"


OMOD = ("", " mul:2", " mul:4", " div:2")
_PARTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "7")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "3")


def sub_dword(inst: Instruction, sdwa: Sdwa) -> str:
    """The modifiers of sub-dword addressing."""
    text = (" clamp" if sdwa.clamp else "") + OMOD[sdwa.omod]
    if inst.encoding != "VOPC" and not inst.name.endswith(("_fp8", "_bf8")):
        text += f" dst_sel:{_PARTS[sdwa.target]} dst_unused:{_UNUSED[sdwa.unused]}"
    sources = [o for o in inst.operands if o.field in "ab"]
    for number, part in zip(range(len(sources)), sdwa.sources, strict=False):
        text += f" src{number}_sel:{_PARTS[part]}"
    return text


# src: RDNA3 ISA 15.3.7, DPP_CTRL.
_DPP_ROWS = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror"}
_ROW_SHARE, _DPP_XMASK = 0x150, {0x160: "row_xmask"}
# src: CDNA3 ISA 13.3.10, DPP_CTRL: over the whole wave, gfx9 only.
_DPP_WAVE = {
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1",
    0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip
_DPP_MIRROR = {0x140: "row_mirror", 0x141: "row_half_mirror"}


def dpp_control(control: int, row_share: str) -> str:
    """The lane permutation of DPP16."""
    if control < 0x100:
        return f"quad_perm:[{','.join(str(control >> 2 * i & 3) for i in range(4))}]"
    if control in _DPP_MIRROR:
        return _DPP_MIRROR[control]
    base, amount = control & ~0xF, control & 0xF
    names = _DPP_ROWS | _DPP_XMASK | {_ROW_SHARE: row_share}
    if base in names:
        return f"{names[base]}:{amount}"
    if control in _DPP_WAVE:
        return _DPP_WAVE[control]
    return f"dpp_ctrl:{control:#x}"
