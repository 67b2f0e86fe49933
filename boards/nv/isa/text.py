"""The text of a decoded SASS word, as nvdisasm's raw listing has it."""

from __future__ import annotations

from boards.nv.isa.decode import WORD_BYTES, Instruction, decode

_HEX = 16
_TRUE = 7


def _target(operand: str, address: int) -> str:
    """The last number of the operand is a distance from the next word: show where it leads."""
    blank = operand.rfind(" ") + 1
    distance = int(operand[blank:], _HEX)
    target = address + WORD_BYTES + distance
    return f"{operand[:blank]}{'-' if target < 0 else ''}{abs(target):#x}"


def _guard(instruction: Instruction) -> str:
    """``@!P0`` in front, or nothing where the instruction always runs."""
    guard = instruction.guard
    if guard.always:
        return ""
    if not guard.file:
        return ""
    number = "T" if guard.register == _TRUE else str(guard.register)
    return f"@{'!' if guard.negated else ''}{guard.file}{number} "


def text(instruction: Instruction, address: int = 0) -> str:
    """The listing's line of an instruction at ``address``, which branches count from."""
    fields = "".join(part.text for part in instruction.fields)
    operands = ["".join(part.text for part in one.parts) for one in instruction.operands]
    if instruction.relative and operands:
        operands[-1] = _target(operands[-1], address)
    line = f"{_guard(instruction)}{instruction.mnemonic}{fields} {', '.join(operands)}"
    return line.rstrip()


def word_text(word: int, arch: str, address: int = 0) -> str:
    """The listing's line of a 128-bit word.

    Raises: UnknownInstruction; NoTable.
    """
    return text(decode(word, arch), address)
