"""What gfx9 assembly writes its own way: scalar memory, matrix modifiers, register indexing."""

from __future__ import annotations

from collections.abc import Callable

from boards.amd.isa import gfx10_text
from boards.amd.isa.decode import Instruction
from boards.amd.isa.text import name_of, show

# src: llvm/lib/Target/AMDGPU/Utils/AMDGPUAsmUtils.cpp, the Hwreg table, entries of gfx940.
HWREGS = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 4: "HW_REG_HW_ID",
    5: "HW_REG_GPR_ALLOC", 6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES",
    16: "HW_REG_TBA_LO", 17: "HW_REG_TBA_HI", 18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI",
    20: "HW_REG_XCC_ID", 21: "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    22: "HW_REG_SQ_PERF_SNAPSHOT_DATA1", 23: "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
    24: "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
}  # fmt: skip
# src: CDNA3 ISA 5.1, table of scalar operand codes.
REGISTERS = {
    (102, 1): "flat_scratch_lo", (103, 1): "flat_scratch_hi", (102, 2): "flat_scratch",
    (125, 1): "null", (104, 1): "xnack_mask_lo", (105, 1): "xnack_mask_hi", (104, 2): "xnack_mask",
}  # fmt: skip
_DDID = 11
MESSAGES = {number: name for number, name in gfx10_text.MESSAGES.items() if number != _DDID}
_CACHE = (("glc", "sc0"), ("nt", "nt"), ("sc1", "sc1"))
_INDEXED = ("SRC0", "SRC1", "SRC2", "DST")


def cache_controls(inst: Instruction) -> str:
    """How caches take part in a memory instruction."""
    return "".join(f" {shown}" for name, shown in _CACHE if inst.fields.get(name))


def _smem(inst: Instruction) -> str | None:
    f = inst.fields
    if "o" not in [o.field for o in inst.operands]:
        return None
    parts = [show(inst, o) for o in inst.operands if o.field != "o"]
    offset = inst.offset
    shown = f"{offset:#x}" if offset >= 0 else f"-{-offset:#x}"
    based = f["soe"] or not f["imm"]
    parts.append(name_of(inst, f["soffset"], 1) if based else shown)
    tail = f" offset:{shown}" if based and f["imm"] else ""
    return f"{inst.name} {', '.join(parts)}{tail}" + (" glc" if f["glc"] else "")


def _matrix(inst: Instruction) -> str:
    f = inst.fields
    head = f"{inst.name} {', '.join(show(inst, o) for o in inst.operands)}"
    if "accvgpr" in inst.name:
        return head
    for name in ("cbsz", "abid"):
        head += f" {name}:{f[name]}" if f[name] else ""
    if not f["blgp"]:
        return head
    if inst.name.endswith("_f64"):
        return f"{head} neg:[{','.join(str(f['blgp'] >> i & 1) for i in range(3))}]"
    return f"{head} blgp:{f['blgp']}"


def _indexing(bits: int) -> str:
    chosen = [name for i, name in enumerate(_INDEXED) if bits >> i & 1]
    return f"gpr_idx({','.join(chosen)})" if bits >> len(_INDEXED) == 0 else f"{bits:#x}"


def _index_mode(inst: Instruction) -> str | None:
    if inst.name == "s_set_gpr_idx_mode":
        return f"{inst.name} {_indexing(inst.fields['i'])}"
    if inst.name == "s_set_gpr_idx_on":
        return f"{inst.name} {show(inst, inst.operands[0])}, {_indexing(inst.fields['b'])}"
    return gfx10_text.program(inst)


TEXTS: dict[str, Callable[[Instruction], str | None]] = {
    "SMEM": _smem,
    "VOP3M": _matrix,
    "SOPP": _index_mode,
    "SOPC": _index_mode,
}
