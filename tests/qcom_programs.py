"""Made-up programs in the layout that Qualcomm's OpenCL compiler uses; none was made by it."""

from __future__ import annotations

import struct

from compilers.qcom.cl_container import Argument, ClProgram, Constant, Parameter
from compilers.qcom.isa import Insn, encode_all, op

NAME = "blend"
PARAMETERS = (
    Parameter(0, Argument.BUFFER), Parameter(16, Argument.TEXTURE), Parameter(32, Argument.IMAGE),
)  # fmt: skip
CONSTANTS = (Constant(0x3F800000, 64, 4), Constant(0x3C00, 70, 2))
_REGISTERS_AT, _DESCRIPTION_AT, _BYTES_BEFORE_NAME = 0x140, 0x180, 0x158


def code() -> bytes:
    """A kernel that ends."""
    return encode_all([Insn(op="nop", repeat=2), op("end", None)], 6)


def program(*, samplers: int = 1) -> bytes:
    """A whole file."""
    return container(ClProgram(
        name=NAME, code=code(), entry=0, full_registers=3, half_registers=2, branch_stack=2,
        private_bytes=64, shared_bytes=1024, samplers=samplers, parameters=PARAMETERS,
        constants=CONSTANTS,
    ))  # fmt: skip


def container(made: ClProgram) -> bytes:
    """The file of a program."""
    blob = bytearray(_DESCRIPTION_AT + _BYTES_BEFORE_NAME)
    blob += made.name.encode() + bytes(-len(made.name) % 4 or 4)
    names_end = _DESCRIPTION_AT + _BYTES_BEFORE_NAME + len(made.name)
    blob = blob[: names_end + -names_end % 4] + bytes(8 * made.samplers)
    for one in made.parameters:
        blob += struct.pack("<8I", 36, 1, 2, one.offset // 4, 3, 4, 5, one.kind) + bytes(4)
    blob += bytes(32)
    constants_at = len(blob)
    for value in made.constants:
        words = [value.value, 0, 0, 0, value.offset // value.nbytes, 1, value.nbytes == 4, 0, 0, 0]
        blob += struct.pack("<10I", *words)
    image_at = len(blob)
    blob += made.code
    numbers = {
        0x34: _REGISTERS_AT, 0xAC: constants_at, 0xB0: len(made.constants) > 0, 0xC0: image_at,
        0x100: len(made.code), 0x110: _DESCRIPTION_AT, _REGISTERS_AT + 0x14: made.full_registers,
        _REGISTERS_AT + 0x18: made.half_registers, _DESCRIPTION_AT + 0xC4: made.entry,
        _DESCRIPTION_AT + 0xC8: made.private_bytes, _DESCRIPTION_AT + 0xD8: made.shared_bytes,
        _DESCRIPTION_AT + 0xDC: made.samplers, _DESCRIPTION_AT + 0x108: 2 * made.branch_stack,
    }  # fmt: skip
    for off, number in numbers.items():
        struct.pack_into("<I", blob, off, number)
    return bytes(blob)
