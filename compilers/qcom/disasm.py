"""ir3 code of a kernel as lines of a listing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compilers.instruction import Instruction
from compilers.qcom.isa.encode import decode
from compilers.qcom.isa.text import text
from drivers.base.contracts import Binary
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, AdrenoCode

WORD_BYTES: Final = 8


def instructions(binary: Binary) -> Iterator[Instruction]:
    """All of them, branches with their targets. Raises: CompileError for other words."""
    about = AdrenoCode.of(binary)
    for address in range(0, about.instrlen * INSTR_UNIT_BYTES, WORD_BYTES):
        code = binary.image[address : address + WORD_BYTES]
        insn = decode(int.from_bytes(code, "little"), about.generation)
        line = Instruction(address, code, text(insn, about.generation))
        distance = insn.fields.get("target")
        if distance is not None:
            line = replace(line, target=address + distance * WORD_BYTES, jump=True)
        yield line
