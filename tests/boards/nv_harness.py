"""The NVIDIA driver in front of a board: a device, and Python in place of a kernel's code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from boards.nv.hardware import NvOptions
from boards.nv.launch import KnownKernels
from boards.nv.machine import open_nv_board
from drivers.base.contracts import Arg, Binary, Resources
from drivers.choice import choose
from drivers.nv.device import NvDevice
from drivers.nv.opening import open_nv
from drivers.world.foreign import ForeignWorld
from queues.nv.kernel_code import NvCode

PARAMS = {75: 0x160, 86: 0x160, 89: 0x160, 90: 0x210, 120: 0x380}
"""Where arguments begin in constant bank 0. # src: cubins of nvrtc 12.9"""
PARAMS_OF = {"tu102": 0x160, "ga102": 0x160, "ad102": 0x160, "gh100": 0x210, "gb202": 0x380}
CODE = bytes(range(128))
LANES = 64
Kernel = Callable[[Any], None]


def open_on(board: Any, hang_s: float = 5.0) -> NvDevice:
    """The device of a board's first GPU."""
    choice = replace(choose({"NV": "1"}), hang_s=hang_s)
    return open_nv(ForeignWorld(board), choice)


@contextmanager
def device_on(
    chip: str = "ga102",
    *,
    kernel: Kernel | None = None,
    driver: int = 580,
    hang_s: float = 5.0,
    vram_bytes: int = 1 << 28,
) -> Iterator[tuple[NvDevice, Any]]:
    """A device and its board; the board has seen no violation at the end."""
    board = open_nv_board(chip, options=NvOptions(driver=driver, vram_bytes=vram_bytes))
    if kernel is not None:
        board.hardware.gpus[0].executor = KnownKernels({CODE: kernel})
    with open_on(board, hang_s) as device:
        yield device, board
    if board.hardware.violations:
        raise AssertionError(str(board.hardware.violations))


def binary(device: NvDevice, *, local_bytes: int = 0, args: int = 4) -> Binary:
    """What stands for a kernel of three buffers and a number, or of `args` words."""
    sm = device.target.sm
    at = PARAMS[sm]
    code = NvCode(
        sm=sm, code_offset=0, code_bytes=len(CODE), registers=16, barriers=0, shared_bytes=1024,
        local_bytes=local_bytes, crs_bytes=0, param_offset=at, param_bytes=8 * args,
        bank0_bytes=at + 8 * args, max_threads=0,
    )  # fmt: skip
    needs = Resources(
        block=LANES, max_block=1024, args=tuple(Arg(8 * n, 8, n < 3) for n in range(args)),
        vendor=code.encode(),
    )  # fmt: skip
    return Binary(device.arch, "add", CODE, 0, resources=needs)


def arguments(launch: Any, count: int = 4) -> tuple[int, ...]:
    """The words that a launch has in its constant bank 0."""
    at = PARAMS_OF[launch.chip.name]
    return struct.unpack_from(f"<{count}Q", launch.constant(0), at)


def add(launch: Any) -> None:
    """c[i] = a[i] + b[i] of uint32, for every i < n and every lane that there is."""
    c, a, b, n = arguments(launch)
    count = min(n, launch.grid[0] * prod(launch.block))
    one = np.frombuffer(launch.space.read(a, 4 * count), np.uint32)
    two = np.frombuffer(launch.space.read(b, 4 * count), np.uint32)
    launch.space.write(c, (one + two).tobytes())
