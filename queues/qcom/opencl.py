"""What differs in a launch of code that Qualcomm's OpenCL compiler made; generation 6 alone.

Read from a driver that runs such programs on a630. Here such launches ran on the board, on
synthetic containers; never on silicon, nor a program of that compiler.
# src: tinygrad 0.14.0, runtime/ops_qcom.py, QCOMComputeQueue.exec, where `prg.NIR` is false
"""

from __future__ import annotations

from typing import Final

from queues.qcom import pm4, words
from queues.qcom.chips import Chip
from queues.qcom.kernel_code import AdrenoCode
from queues.qcom.pm4 import Op
from queues.qcom.registers import field

IDS: Final = 0x00CCC0CF
"""HLSQ_CS_CNTL_0: the workgroup's number in r51.w and on, its size in r48.x and on, its offset in
r51.x and on, the lane's number in r0.x and on."""
GROUP_ID: Final = IDS & 0xFF
LOCAL_ID: Final = IDS >> 24
CONSTLEN: Final = 256
"""vec4 of constants that its programs have."""
FIRST_GROUP: Final = 1
"""Word of `groups` with the number of workgroups along x."""
MODE_CL: Final = 1 << 1
"""SP_MODE_CONTROL: ISAMMODE_CL; 16-bit constants are read as they are."""
TP_MODE_CL: Final = 0x9
"""SP_TP_MODE_CNTL: ISAMMODE_CL, which is said in both."""


def half_registers(code: AdrenoCode) -> int:
    """SP_CS_CTRL_REG0: half registers have a file of their own."""
    return field(code.half_registers, 6, 1)


def mode(chip: Chip) -> list[int]:
    """Before a launch."""
    return _modes(chip, MODE_CL, TP_MODE_CL)


def usual_mode(chip: Chip) -> list[int]:
    """Once it is done: as `words.setup` left it."""
    return _modes(chip, words.MODE_GL, words.TP_MODE_GL)


def _modes(chip: Chip, shaders: int, textures: int) -> list[int]:
    made = words.write(chip, "SP_MODE_CONTROL", shaders)
    return made + words.write(chip, "SP_TP_MODE_CNTL", textures)


def groups(chip: Chip) -> list[int]:
    """The number of workgroups, x y z, all to be filled in."""
    return words.write(chip, "HLSQ_CS_KERNEL_GROUP_X", 0, 0, 0)


def run() -> list[int]:
    """Start them."""
    return pm4.pkt7(Op.RUN_OPENCL, [0])
