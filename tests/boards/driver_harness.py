"""Opens devices on boards, and kernels to run there, for the tests of the AMD driver."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.machine import Options, open_board
from boards.amd.world import BoardWorld
from compilers.toolchains import compile_source
from drivers.amd.device import AmdDevice
from drivers.amd.kfd_session import close_session
from drivers.amd.memory import AmdBuffer
from drivers.amd.opening import open_amd
from drivers.base.contracts import Binary, World
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from tests import amd_kernels
from tests.support import check

Array = NDArray[Any]
QUEUES = (("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "AQL"), ("gfx1201", "PM4"),
          ("gfx942", "PM4"), ("gfx1030", "PM4"), ("gfx1030", "AQL"))  # fmt: skip
"""(chip, what its compute queue reads) that every basic test runs on."""


def open_on(world: World, queue: str = "PM4", index: int = 0) -> AmdDevice:
    """A device of a board; `queue` is "PM4" or "AQL"."""
    environ = {"DEV": f"AMD:{index}", "AMD_AQL": str(int(queue == "AQL"))}
    return open_amd(world, choose(environ))


@contextmanager
def device_on(
    chip: str, queue: str = "PM4", options: Options | None = None
) -> Iterator[tuple[BoardWorld, AmdDevice]]:
    """A board and its device; at the end nothing of either is left, and nothing was found."""
    board = open_board(chip, options=options)
    world = ForeignWorld(board)
    with open_on(world, queue) as device:
        yield board, device
    check(not board.findings, f"findings: {board.findings}")
    left = board.baseline()
    check((left.queues, left.events, left.buffers) == (0, 0, 1), f"left after close: {left}")
    close_session(world)
    check(not any(astuple(board.baseline())), f"left after the session: {board.baseline()}")


@functools.cache
def kernel(text: str, chip: str, block: int) -> Binary:
    """LLVM IR of tests/amd_kernels.py as a binary with workgroups of `block`."""
    made = compile_source(text, "k", "AMD:LLVM", chip, frozenset())
    return replace(made, resources={**made.resources, "block": block})


def add(chip: str) -> Binary:
    """k(a, b, c, n) with workgroups of 64."""
    return kernel(amd_kernels.add(64), chip, 64)


def put(device: AmdDevice, values: Array) -> AmdBuffer:
    """A buffer with these values."""
    buffer = device.alloc(values.nbytes)
    device.copy_in(buffer, memoryview(values).cast("B"))
    return buffer


def get(device: AmdDevice, buffer: AmdBuffer, dtype: str = "float32") -> Array:
    """A buffer's values."""
    values = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    device.copy_out(memoryview(values).cast("B"), buffer)
    return values
