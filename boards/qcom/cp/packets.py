"""Packets of types 4 and 7, read as the command processor's firmware does.

src: notes section 1c; Mesa 25.0.7, src/freedreno/registers/adreno/adreno_pm4.xml
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.qcom.cp.faults import OPCODE_ERROR, GpuFault

_TYPE_4, _TYPE_7 = 4, 7
_NAMES = {
    0x10: "CP_NOP", 0x12: "CP_WAIT_MEM_WRITES", 0x13: "CP_WAIT_FOR_ME", 0x14: "CP_WAIT_MEM_GTE",
    0x1D: "CP_SKIP_IB2_ENABLE_GLOBAL", 0x21: "CP_REG_RMW", 0x23: "CP_SKIP_IB2_ENABLE_LOCAL",
    0x26: "CP_WAIT_FOR_IDLE", 0x31: "CP_RUN_OPENCL", 0x33: "CP_EXEC_CS",
    0x32: "CP_LOAD_STATE6_GEOM", 0x34: "CP_LOAD_STATE6_FRAG", 0x36: "CP_LOAD_STATE6",
    0x3A: "CP_CCHE_INVALIDATE", 0x3C: "CP_WAIT_REG_MEM", 0x3D: "CP_MEM_WRITE",
    0x3E: "CP_REG_TO_MEM", 0x3F: "CP_INDIRECT_BUFFER", 0x41: "CP_EXEC_CS_INDIRECT",
    0x42: "CP_MEM_TO_REG", 0x43: "CP_SET_DRAW_STATE", 0x44: "CP_COND_EXEC",
    0x46: "CP_EVENT_WRITE", 0x47: "CP_COND_REG_EXEC", 0x4B: "CP_SET_DRAW_INIT_FLAGS",
    0x4C: "CP_SCRATCH_WRITE", 0x4D: "CP_SCRATCH_TO_REG", 0x55: "CP_SET_AMBLE",
    0x56: "CP_SET_PSEUDO_REG", 0x57: "CP_INDIRECT_BUFFER_CHAIN", 0x63: "CP_SET_MODE",
    0x64: "CP_SET_VISIBILITY_OVERRIDE", 0x65: "CP_SET_MARKER", 0x17: "CP_THREAD_CONTROL",
    0x18: "CP_RESOURCE_LIST", 0x19: "CP_DRAW_PRED_ENABLE_GLOBAL",
    0x1A: "CP_DRAW_PRED_ENABLE_LOCAL", 0x4E: "CP_DRAW_PRED_SET", 0x39: "CP_REG_TEST",
    0x70: "CP_WAIT_TWO_REGS", 0x73: "CP_MEM_TO_MEM", 0x75: "CP_MEMCPY", 0x6D: "CP_REG_WRITE",
    0x78: "CP_REG_WR_NO_CTXT", 0x4A: "CP_REG_TO_SCRATCH", 0x49: "CP_MEM_TO_SCRATCH_MEM",
    0x67: "CP_START_BIN", 0x68: "CP_END_BIN", 0x2C: "CP_BLIT", 0x22: "CP_DRAW_INDX",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Packet:
    """One header."""

    kind: int
    """4 or 7."""
    number: int
    """The first register, or the opcode."""
    count: int
    """Words that follow."""

    @property
    def name(self) -> str:
        """As Mesa calls it."""
        if self.kind == _TYPE_4:
            return f"register {self.number:#x}"
        return _NAMES.get(self.number, f"opcode {self.number:#x}")


def odd(value: int) -> int:
    """The bit that makes the number of ones odd."""
    return (value.bit_count() & 1) ^ 1


def header(word: int, va: int) -> Packet:
    """What a word begins. Raises: GpuFault."""
    kind = word >> 28
    if kind == _TYPE_4:
        count, register = word & 0x7F, word >> 8 & 0x3FFFF
        if word >> 7 & 1 != odd(count) or word >> 27 & 1 != odd(register):
            raise GpuFault(OPCODE_ERROR, f"parity of the packet {word:#010x} at {va:#x}")
        if not count or word >> 26 & 1:
            raise GpuFault(OPCODE_ERROR, f"no registers in the packet {word:#010x} at {va:#x}")
        return Packet(_TYPE_4, register, count)
    if kind == _TYPE_7:
        count, opcode = word & 0x3FFF, word >> 16 & 0x7F
        if word >> 15 & 1 != odd(count) or word >> 23 & 1 != odd(opcode):
            raise GpuFault(OPCODE_ERROR, f"parity of the packet {word:#010x} at {va:#x}")
        if word >> 24 & 0xF or word >> 14 & 1:
            raise GpuFault(OPCODE_ERROR, f"reserved bits of {word:#010x} at {va:#x}")
        return Packet(_TYPE_7, opcode, count)
    raise GpuFault(OPCODE_ERROR, f"{word:#010x} at {va:#x} is no packet")
