"""What gfx10's assembly prints otherwise than gfx11's: messages and hardware registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from boards.amd.isa.decode import Instruction

# src: llvm/lib/Target/AMDGPU/SIDefines.h, enum Hwreg::Id (gfx10.3).
HWREGS = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES", 16: "HW_REG_TBA_LO",
    17: "HW_REG_TBA_HI", 18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI", 20: "HW_REG_FLAT_SCR_LO",
    21: "HW_REG_FLAT_SCR_HI", 23: "HW_REG_HW_ID1", 24: "HW_REG_HW_ID2",
    25: "HW_REG_POPS_PACKER", 29: "HW_REG_SHADER_CYCLES",
}  # fmt: skip
# src: SIDefines.h, SendMsg::Id (gfx10.3); message 3:0, operation 6:4, stream 9:8.
MESSAGES = {
    1: "MSG_INTERRUPT", 4: "MSG_SAVEWAVE", 5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES",
    7: "MSG_ORDERED_PS_DONE", 8: "MSG_EARLY_PRIM_DEALLOC", 9: "MSG_GS_ALLOC_REQ",
    10: "MSG_GET_DOORBELL", 11: "MSG_GET_DDID",
}  # fmt: skip
_GS, _GS_DONE = 2, 3
_GS_OPERATIONS = ("GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT")


def program(inst: Instruction) -> str | None:
    """SOPP: messages have other numbers."""
    if inst.name not in ("s_sendmsg", "s_sendmsghalt"):
        return None
    value = inst.fields["i"]
    message, operation, stream = value & 0xF, value >> 4 & 7, value >> 8 & 3
    names = inst.family.messages
    if message in names and not operation and not stream:
        return f"{inst.name} sendmsg({names[message]})"
    if message == _GS_DONE and not operation and not stream:
        return f"{inst.name} sendmsg(MSG_GS_DONE, GS_OP_NOP)"
    if message in (_GS, _GS_DONE) and 0 < operation < len(_GS_OPERATIONS):
        name = "MSG_GS" if message == _GS else "MSG_GS_DONE"
        return f"{inst.name} sendmsg({name}, {_GS_OPERATIONS[operation]}, {stream})"
    if value != message | operation << 4 | stream << 8:
        return f"{inst.name} {value}"
    return f"{inst.name} sendmsg({message}, {operation}, {stream})"


def _constant(inst: Instruction) -> str | None:
    """SOPK: a version is a decimal number."""
    return f"s_version {inst.fields['i']}" if inst.name == "s_version" else None


TEXTS: Mapping[str, Callable[[Instruction], str | None]] = {"SOPP": program, "SOPK": _constant}
