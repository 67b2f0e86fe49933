"""Cubins of nvrtc, loaded and launched by the driver: what the board's front end was given.

No instruction is executed: Python stands for the code, and looks at the launch.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from boards.nv.launch import KnownKernels
from compilers.nv import cubin
from tests import nv_cubins
from tests.boards.nv_harness import device_on
from tests.support import check

# src: `cuobjdump -elf` 13.5 of each cubin: registers, shared memory with the reserved part, the
# first byte of the parameters in bank 0
EXPECTED = {
    "tu102": ("sm_75", 15, 0x200, 0x160), "ga102": ("sm_86", 17, 0x600, 0x160),
    "gh100": ("sm_90a", 17, 0x600, 0x210), "gb202": ("sm_120", 15, 0x600, 0x380),
}  # fmt: skip


@pytest.mark.parametrize("chip", EXPECTED)
def test_a_launch_is_what_the_cubin_asks_for(chip: str) -> None:
    arch, registers, shared, params = EXPECTED[chip]
    binary = cubin.load(nv_cubins.cubin(arch), "k", arch)
    seen: list[Any] = []
    with device_on(chip, vram_bytes=1 << 32) as (device, board):
        check(device.arch == arch, device.arch)
        program = device.load(binary)
        known = KnownKernels({binary.image[:64]: lambda launch: seen.append((
            launch.code_va, launch.registers, launch.shared_bytes, launch.grid, launch.block,
            launch.barriers, launch.constant(0)[params : params + 20],
        ))})  # fmt: skip
        board.hardware.gpus[0].executor = known
        a, b = device.alloc(64), device.alloc(64)
        device.compute_queue().exec(program, [a, b, 77], (3, 2, 1), (64, 2, 1)).submit()
        device.synchronize(5.0)
        check(len(seen) == 1, "one launch")
        va, *rest, args = seen[0]
        check(va == program.gpu_va, hex(va))
        check(rest == [registers, shared, (3, 2, 1), (64, 2, 1), 1], str(rest))
        check(args == struct.pack("<QQI", a.gpu_va, b.gpu_va, 77), args.hex())
