"""Made-up programs in the layout that Qualcomm's OpenCL compiler uses; none was made by it."""

from __future__ import annotations

import struct

from compilers.qcom.cl_container import Argument, Constant, Parameter
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
    blob = bytearray(_DESCRIPTION_AT + _BYTES_BEFORE_NAME)
    blob += NAME.encode() + bytes(-len(NAME) % 4 or 4)
    names_end = _DESCRIPTION_AT + _BYTES_BEFORE_NAME + len(NAME)
    blob = blob[: names_end + -names_end % 4] + bytes(8 * samplers)
    for one in PARAMETERS:
        blob += struct.pack("<8I", 36, 1, 2, one.offset // 4, 3, 4, 5, one.kind) + bytes(4)
    blob += bytes(32)
    constants_at = len(blob)
    for value in CONSTANTS:
        words = [value.value, 0, 0, 0, value.offset // value.nbytes, 1, value.nbytes == 4, 0, 0, 0]
        blob += struct.pack("<10I", *words)
    image_at = len(blob)
    blob += code()
    numbers = {
        0x34: _REGISTERS_AT, 0xAC: constants_at, 0xB0: 1, 0xC0: image_at, 0x100: len(code()),
        0x110: _DESCRIPTION_AT, _REGISTERS_AT + 0x14: 3, _REGISTERS_AT + 0x18: 2,
        _DESCRIPTION_AT + 0xC4: 0, _DESCRIPTION_AT + 0xC8: 64, _DESCRIPTION_AT + 0xD8: 1024,
        _DESCRIPTION_AT + 0xDC: samplers, _DESCRIPTION_AT + 0x108: 4,
    }  # fmt: skip
    for off, number in numbers.items():
        struct.pack_into("<I", blob, off, number)
    return bytes(blob)
