"""Instructions as assembly text, equal to what LLVM's disassembler prints."""

from __future__ import annotations

from functools import lru_cache

from boards.amd.isa import text_special as special
from boards.amd.isa.decode import ACC, LITERAL, VGPR, Dpp, Family, Instruction, Operand

_SGPRS = 106
_TTMP, _TTMPS = 108, 16
_NAMED = {
    106: "vcc_lo", 107: "vcc_hi", 126: "exec_lo", 127: "exec_hi", 235: "src_shared_base",
    236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit", 251: "src_vccz",
    252: "src_execz", 253: "src_scc", 254: "src_lds_direct", 240: "0.5", 241: "-0.5", 242: "1.0",
    243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0", 248: "0.15915494",
}  # fmt: skip
_INVERSE_TAU = 248
_PAIRS = {106: "vcc", 126: "exec"}
_INLINE_ZERO, _INLINE_LAST_POSITIVE, _INLINE_LAST = 128, 192, 208
_FLOAT_CODES = range(240, 249)
_SEGMENTS = ("flat", "scratch", "global")


def disassemble(inst: Instruction) -> str:
    """The text of one instruction."""
    if inst.halves:
        return " :: ".join(f"{h.name} {_plain_operands(h)}" for h in inst.halves)
    own = inst.family.texts.get(inst.encoding)
    if own is not None:
        shown = own(inst)
        if shown is not None:
            return shown
    if inst.encoding in ("SOPK", "SOPP", "SOP1"):
        shown = special.scalar(inst, _destination(inst))
        if shown is not None:
            return shown
    if inst.encoding[0] == "S":
        return _scalar(inst)
    if inst.encoding == "DS":
        return _ds(inst)
    if inst.encoding == "FLAT":
        return _flat(inst)
    if inst.encoding == "MUBUF":
        return _mubuf(inst)
    return _vector(inst)


def _register(prefix: str, number: int, dwords: int) -> str:
    if dwords == 1:
        return f"{prefix}{number}"
    return f"{prefix}[{number}:{number + dwords - 1}]"


def name_of(inst: Instruction, code: int, dwords: int, *, double: bool = False) -> str:
    """An operand's name by its 9-bit code; `double`: the instruction works on f64."""
    if code >= VGPR:
        prefix = "a" if code >= ACC else "v"
        return _register(prefix, code % (ACC - VGPR), dwords)
    if (code, dwords) in inst.family.registers:
        return inst.family.registers[code, dwords]
    if code < _SGPRS:
        return _register("s", code, dwords)
    if code == LITERAL:
        return special.literal(_literal(inst), dwords)
    if code in (inst.family.null, inst.family.m0):
        return "null" if code == inst.family.null else "m0"
    if dwords == 2 and code in _PAIRS:
        return _PAIRS[code]
    if _TTMP <= code < _TTMP + _TTMPS:
        return _register("ttmp", code - _TTMP, dwords)
    if _INLINE_ZERO <= code <= _INLINE_LAST_POSITIVE:
        return str(code - _INLINE_ZERO)
    if _INLINE_LAST_POSITIVE < code <= _INLINE_LAST:
        return str(_INLINE_LAST_POSITIVE - code)
    if code == _INVERSE_TAU and double:
        return "0.15915494309189532"
    return _NAMED.get(code, f"src{code}")


def show(inst: Instruction, o: Operand) -> str:
    """An operand as assembly writes it."""
    if o.field == "k":
        return f"{_literal(inst):#x}"
    if inst.name == "v_mov_b16" and o.code >= VGPR:
        return _half_register(inst, o)
    if o.code >= _INLINE_ZERO and o.code < VGPR and o.dwords == 1:
        shown = special.half_constant(inst.name, o.code, _literal(inst))
        if shown is not None:
            return shown
    return name_of(inst, o.code, o.dwords, double=o.dwords == 2)


def _half_register(inst: Instruction, o: Operand) -> str:
    """A 16-bit half of a vector register: v128 and up are the upper halves of v0 and up."""
    register = o.code - VGPR
    if inst.encoding == "VOP3":
        high = inst.fields["op_sel"] >> (3 if o.field == "d" else 0) & 1
    else:
        register, high = register & 0x7F, register >> 7
    return f"v{register}.{'h' if high else 'l'}"


def _literal(inst: Instruction) -> int:
    return inst.literal or 0


def _plain_operands(inst: Instruction) -> str:
    return ", ".join(show(inst, o) for o in inst.operands)


def _scalar(inst: Instruction) -> str:
    if inst.encoding == "SMEM":
        return _smem(inst)
    shown = [special.immediate(inst, o.code) if o.field == "i" else show(inst, o)
             for o in inst.operands]  # fmt: skip
    return f"{inst.name} {', '.join(shown)}" if shown else inst.name


def _destination(inst: Instruction) -> str:
    dst = inst.operand("d")
    return show(inst, dst) if dst else ""


def _smem(inst: Instruction) -> str:
    if not inst.operands:
        return inst.name
    f = inst.fields
    parts = [show(inst, o) for o in inst.operands if o.field != "o"]
    if inst.operands[-1].field != "o":
        return f"{inst.name} {', '.join(parts)}"
    offset = inst.offset
    shown = f"{offset:#x}" if offset >= 0 else f"-{-offset:#x}"
    if f["soffset"] in inst.family.off:
        parts.append(shown if offset else "null")
        tail = ""
    else:
        parts.append(name_of(inst, f["soffset"], 1))
        tail = f" offset:{shown}" if offset else ""
    return f"{inst.name} {', '.join(parts)}{tail}{_flags(inst)}"


def _ds(inst: Instruction) -> str:
    f = inst.fields
    parts = ", ".join(show(inst, o) for o in inst.operands)
    head = f"{inst.name} {parts}" if parts else inst.name
    gds = " gds" if f["gds"] else ""
    if "_2addr_" in inst.meaning:
        first = f" offset0:{f['offset0']}" if f["offset0"] else ""
        second = f" offset1:{f['offset1']}" if f["offset1"] else ""
        return head + first + second + gds
    offset = f["offset0"] | f["offset1"] << 8
    if inst.name == "ds_swizzle_b32":
        return head + special.swizzle(offset) + gds
    return head + (f" offset:{offset}" if offset else "") + gds


def _flags(inst: Instruction) -> str:
    if inst.family.flags is not None:
        return inst.family.flags(inst)
    return "".join(f" {flag}" for flag in ("glc", "slc", "dlc") if inst.fields.get(flag))


def _flat(inst: Instruction) -> str:
    f = inst.fields
    segment = f["segment"]
    name = f"{_SEGMENTS[segment]}_{inst.name}"
    parts: list[str] = []
    if "atomic" in name and f["glc"]:
        parts.append(name_of(inst, VGPR + f["d"], _returned_dwords(inst)))
    parts.extend(_flat_address(inst) if o.field == "a" else show(inst, o) for o in inst.operands)
    if segment:
        no_base = f["saddr"] in inst.family.off
        pair = 2 if segment == 2 else 1
        parts.append("off" if no_base else name_of(inst, f["saddr"], pair))
    offset = inst.offset
    return f"{name} {', '.join(parts)}" + (f" offset:{offset}" if offset else "") + _flags(inst)


def _flat_address(inst: Instruction) -> str:
    f = inst.fields
    if f["segment"] == 1:
        return name_of(inst, VGPR + f["a"], 1) if inst.scratch_vector else "off"
    based = f["segment"] == 2 and f["saddr"] not in inst.family.off
    return name_of(inst, VGPR + f["a"], 1 if based else 2)


def _returned_dwords(inst: Instruction) -> int:
    data = inst.operand("x")
    dwords = data.dwords if data else 1
    return dwords // 2 if "cmpswap" in inst.name else dwords


def _mubuf(inst: Instruction) -> str:
    f = inst.fields
    if not inst.operands:
        return inst.name
    vaddr = 2 if f["offen"] and f["idxen"] else 1
    parts: list[str] = []
    for o in inst.operands:
        if o.field == "a":
            used = f["offen"] or f["idxen"]
            parts.append(name_of(inst, o.code, vaddr) if used else "off")
        else:
            wide = o.field == "x" and f.get("tfe")
            parts.append(show(inst, o._replace(dwords=o.dwords + 1) if wide else o))
    modes = (" idxen" if f["idxen"] else "") + (" offen" if f["offen"] else "")
    offset = f" offset:{f['offset']}" if f["offset"] else ""
    tfe = (" tfe" if f.get("tfe") else "") + (" lds" if f.get("lds") else "")
    return f"{inst.name} {', '.join(parts)}{modes}{offset}{_flags(inst)}{tfe}"


@lru_cache
def _short_names(family: Family) -> frozenset[str]:
    """Instructions that have a short encoding: a suffix distinguishes their VOP3 forms."""
    short = [layout for layout in family.layouts if layout.name in ("VOP1", "VOP2", "VOPC")]
    return frozenset(entry.name for layout in short for entry in layout.entries.values())


def _suffix(inst: Instruction) -> str:
    dpp = "_sdwa" if inst.sdwa else "_dpp" if inst.dpp else ""
    if inst.encoding in ("VOP1", "VOP2", "VOPC"):
        if inst.name in inst.family.plain_names:
            return dpp
        if inst.dpp and inst.encoding == "VOPC":
            return ""
        return dpp or "_e32"
    if inst.encoding in ("VOP3", "VOP3SD"):
        return ("_e64" if inst.name in _short_names(inst.family) or dpp else "") + dpp
    return f"_e64{dpp}" if dpp else ""


def _signed(shown: str, index: int, neg: int, absolute: int, o: Operand) -> str:
    if absolute >> index & 1:
        shown = f"|{shown}|"
    if neg >> index & 1:
        constant = o.code in _FLOAT_CODES or o.code == LITERAL
        number = _INLINE_ZERO <= o.code <= _INLINE_LAST
        plain = not absolute >> index & 1
        return f"neg({shown})" if plain and (constant or number) else f"-{shown}"
    return shown


def _vector(inst: Instruction) -> str:
    f = inst.fields
    mixed = inst.name.startswith("v_fma_mix")
    neg = f.get("neg", 0) if inst.encoding != "VOP3P" or mixed else 0
    absolute = f["neg_hi"] if mixed else f.get("abs", 0)
    extra = inst.sdwa or inst.dpp
    if extra and inst.encoding in ("VOP1", "VOP2", "VOPC"):
        neg, absolute = extra.neg, extra.abs
    parts = []
    for o in inst.operands:
        shown = show(inst, o)
        if o.field in "abc":
            shown = _signed(shown, "abc".index(o.field), neg, absolute, o)
            if inst.sdwa and inst.sdwa.sext >> "abc".index(o.field) & 1:
                shown = f"sext({shown})"
        parts.append(shown)
    head = f"{inst.name}{_suffix(inst)}" + (f" {', '.join(parts)}" if parts else "")
    if inst.encoding == "VOP3P":
        head += special.packed(inst)
    elif f.get("op_sel"):
        head += special.op_sel(inst)
    head += " clamp" if f.get("clamp") else ""
    head += special.OMOD[f.get("omod", 0)] if inst.encoding != "VOP3P" else ""
    if inst.sdwa:
        return head + special.sub_dword(inst, inst.sdwa)
    return head + (_dpp(inst, inst.dpp) if inst.dpp else "")


def _dpp(inst: Instruction, dpp: Dpp) -> str:
    fetch = " fi:1" if dpp.fetch_inactive else ""
    if dpp.lanes:
        return f" dpp8:[{','.join(map(str, dpp.lanes))}]{fetch}"
    bound = " bound_ctrl:1" if dpp.bound_control else ""
    masks = f" row_mask:{dpp.row_mask:#x} bank_mask:{dpp.bank_mask:#x}"
    return f" {special.dpp_control(dpp.control, inst.family.row_share)}{masks}{bound}{fetch}"
