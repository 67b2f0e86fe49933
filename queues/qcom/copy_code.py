"""Code that copies memory, 16 bytes a lane: what `python -m compilers.qcom.copying` prints.

Arguments: to, from, units of 16 bytes. It is data because a driver imports no compiler; code and
record are compared with the compiler's by tests/boards/test_qcom_copies.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from queues.qcom.kernel_code import INSTR_UNIT_BYTES, MAX_CONSTLEN, AdrenoCode
from queues.qcom.launch import Kernel

BLOCK: Final = 64
UNIT_BYTES: Final = 16
_WORD_BYTES: Final = 8
WORDS: Final[Mapping[int, tuple[int, ...]]] = {
    6: (
        0x200cc001000000c0, 0x202cc00200000000, 0x202cc00300000001, 0x202cc00400000002,
        0x46d0000120060001, 0x202cc00500000003, 0x0000010000000000, 0x4218080000000001,
        0x429808f810040000, 0x0000020000000000, 0x0090000000000005, 0x46d8080020020000,
        0x0000020000000000, 0xc006000604c10001, 0xd0d605000480000c, 0x0b00000000000000,
    ),
    7: (
        0x200cc001000000c0, 0x202cc00200000000, 0x202cc00300000001, 0x46d0000120060001,
        0x202cc00400000002, 0x202cc00500000003, 0x4218000000000001, 0x429808f810040000,
        0x0000010000000000, 0x0090000000000005, 0x46d8080020040000, 0x0000010000000000,
        0xc006000604c10001, 0xd0d605000480000c, 0xfbc2100000000000, 0xe3ca000000000000,
        0x0300000000000000,
    ),
}  # fmt: skip


def image(generation: int) -> bytes:
    """The instructions, in whole units."""
    packed = struct.pack(f"<{len(WORDS[generation])}Q", *WORDS[generation])
    return packed + bytes(-len(packed) % INSTR_UNIT_BYTES)


def code(generation: int) -> AdrenoCode:
    """What the compiler says of it; how long it takes does not matter here."""
    return AdrenoCode(
        generation=generation, instrlen=len(image(generation)) // INSTR_UNIT_BYTES,
        full_registers=3, half_registers=0, branch_stack=1, wave_lanes=64, constlen=4,
        param_vec4=0, literal_vec4=2, literal_words=0, grid_vec4=MAX_CONSTLEN, group_id_reg=192,
        local_id_reg=0, private_bytes=0,
    )  # fmt: skip


def kernel(generation: int, code_va: int) -> Kernel:
    """The loaded code."""
    return Kernel(
        name="copy", code_va=code_va, code=code(generation), args=((0, 8), (8, 8), (16, 8)),
        literals=(), block=(BLOCK, 1, 1), max_block=BLOCK, shared_bytes=0,
    )  # fmt: skip
