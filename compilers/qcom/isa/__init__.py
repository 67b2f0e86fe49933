"""ir3 machine code as a compiler writes it: instructions, their 64 bits, and Mesa's text."""

from compilers.qcom.isa.build import (
    branch,
    compare,
    cov,
    jump,
    label,
    link,
    load,
    mov,
    op,
    store,
)
from compilers.qcom.isa.encode import decode, encode, encode_all
from compilers.qcom.isa.instruction import HALF_TYPES, Cond, Insn, Type
from compilers.qcom.isa.operand import (
    A0_X,
    A1_X,
    FLUT,
    P0_X,
    Kind,
    Operand,
    const,
    flut,
    gpr,
    half,
    half_const,
    immediate,
    predicate,
)

__all__ = [
    "A0_X", "A1_X", "FLUT", "HALF_TYPES", "P0_X", "Cond", "Insn", "Kind", "Operand", "Type",
    "branch", "compare", "const", "cov", "decode", "encode", "encode_all", "flut", "gpr", "half",
    "half_const", "immediate", "jump", "label", "link", "load", "mov", "op", "predicate", "store",
]  # fmt: skip
