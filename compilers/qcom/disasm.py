"""ir3 as text, from the compiler's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compilers.instruction import Instruction
from compilers.qcom.isa.encode import decode
from compilers.qcom.isa.text import text
from drivers.base.contracts import Binary
from drivers.base.errors import CompileError, MalformedInput
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, AdrenoCode

WORD_BYTES: Final = 8


def instructions(binary: Binary) -> Iterator[Instruction]:
    """The instructions of a loaded kernel, up to its last end. Raises: MalformedInput."""
    about = AdrenoCode.of(binary)
    code = binary.image[: about.instrlen * INSTR_UNIT_BYTES]
    listed: list[Instruction] = []
    end = 0
    for at in range(0, len(code), WORD_BYTES):
        word = code[at : at + WORD_BYTES]
        try:
            insn = decode(int.from_bytes(word, "little"), about.generation)
            line = text(insn, about.generation)
        except CompileError as error:
            raise MalformedInput(f"{binary.name}, byte {at:#x}: {error}") from error
        distance = insn.fields.get("target")
        goal = None if distance is None else at + WORD_BYTES * distance
        listed.append(Instruction(at, word, line, goal, jump=goal is not None))
        if insn.op == "end":
            end = len(listed)
    yield from listed[:end]
