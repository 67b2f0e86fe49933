"""Texts that only gfx12 prints: temporal hints and scopes, scalar offsets, prefetches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boards.amd.isa.decode import Instruction

# src: RDNA4 ISA 4.1.2 and 4.1.3, Scope and Temporal Hints.
_SCOPES = ("", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS")
_SYSTEM, _DEVICE = 3, 2
_HINTS = ("", "NT", "HT", "", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
_LAST_USE, _RESERVED = 3, 7
_RETURN, _NON_TEMPORAL, _CASCADE = 1, 2, 4


def flags(inst: Instruction) -> str:
    """The temporal hint and the scope of a memory instruction, where they are not 0."""
    hint, scope = inst.fields["th"], inst.fields["scope"]
    text = ""
    if hint:
        text = f" th:{_atomic(hint, scope) if 'atomic' in inst.name else _plain(inst, hint, scope)}"
    return text + _SCOPES[scope]


def _atomic(hint: int, scope: int) -> str:
    if hint & _CASCADE:
        if scope < _DEVICE:
            return f"TH_ATOMIC_{hint:#x}"
        return "TH_ATOMIC_CASCADE_" + ("NT" if hint & _NON_TEMPORAL else "RT")
    words = [word for bit, word in ((_NON_TEMPORAL, "NT"), (_RETURN, "RETURN")) if hint & bit]
    return "_".join(["TH_ATOMIC", *words])


def _plain(inst: Instruction, hint: int, scope: int) -> str:
    stores = "store" in inst.name
    if hint == _RESERVED and not stores:
        return f"{hint:#x}"
    if hint == _LAST_USE:
        kind = "BYPASS" if scope == _SYSTEM else "RT_WB" if stores else "LU"
    else:
        kind = _HINTS[hint]
    return f"TH_{'STORE' if stores else 'LOAD'}_{kind}"


def op_sel(inst: Instruction) -> str | None:
    """Conversions of eight-bit floats say which byte of a register they mean."""
    # src: LLVM 19 for gfx1201: two bits of op_sel, in another order for sources than for results.
    bits = inst.fields["op_sel"]
    if inst.name in ("v_cvt_f32_fp8", "v_cvt_f32_bf8"):
        return f" byte_sel:{(bits & 1) << 1 | bits >> 1 & 1}"
    if inst.name in ("v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32"):
        return f" byte_sel:{bits >> 2}"
    return None


def _flat(inst: Instruction) -> str | None:
    """Cache maintenance has no operands, and is global."""
    return None if inst.operands else f"global_{inst.name}{flags(inst)}"


def _number(value: int) -> str:
    return f"{value:#x}" if value >= 0 else f"-{-value:#x}"


def _smem(inst: Instruction) -> str | None:
    """Scalar loads name their offset even where it is 0; a prefetch has a length."""
    from boards.amd.isa.text import name_of

    f = inst.fields
    if not inst.operands:
        return None
    shown = [name_of(inst, o.code, o.dwords) for o in inst.operands if o.field in "db"]
    offset = _number(inst.offset)
    if "prefetch" in inst.name:
        base = name_of(inst, f["soffset"], 1)
        return f"{inst.name} {', '.join([*shown, offset, base, str(f['p'])])}"
    if f["soffset"] in inst.family.off:
        return f"{inst.name} {', '.join([*shown, offset])}{flags(inst)}"
    tail = f" offset:{offset}" if inst.offset else ""
    base = name_of(inst, f["soffset"], 1)
    return f"{inst.name} {', '.join([*shown, base])}{tail}{flags(inst)}"


TEXTS: Mapping[str, Callable[[Instruction], str | None]] = {"FLAT": _flat, "SMEM": _smem}
