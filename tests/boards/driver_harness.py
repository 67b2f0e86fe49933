"""Opens devices on boards, and kernels to run there, for the tests of the AMD driver."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.machine import Options, open_board
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from compilers.toolchains import compile_source
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.amd.memory import AmdBuffer
from drivers.amd.opening import open_amd
from drivers.base.contracts import Binary, World
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests import amd_kernels
from tests.boards.usb_rig import UsbRig
from tests.support import check

Array = NDArray[Any]
QUEUES = (("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "AQL"), ("gfx1201", "PM4"),
          ("gfx942", "PM4"), ("gfx1030", "PM4"), ("gfx1030", "AQL"),
          ("gfx1100", "PCI PM4"), ("gfx1201", "PCI PM4"), ("gfx942", "PCI AQL"),
          ("gfx1100", "VRAM AQL"), ("gfx1201", "VRAM PM4"), ("gfx942", "VRAM PM4"),
          ("gfx1100", "USB PM4"), ("gfx1201", "USB PM4"))  # fmt: skip
"""(chip, what its compute queue reads) that every basic test runs on.

Through KFD; over "PCI" behind an IOMMU; over PCI without one, where everything lies in "VRAM"; over
"USB" behind a bridge.
"""
PCI_VRAM_BYTES = 1 << 30


def open_on(world: World, queue: str = "PM4", index: int = 0, **environ: str) -> AmdDevice:
    """A device of a board; `queue` is "PM4" or "AQL"."""
    chosen = {"DEV": f"AMD:{index}", "AMD_AQL": str(int(queue == "AQL"))}
    return open_amd(world, choose(chosen | environ))


def open_over_pci(board: PciWorld, queue: str = "", **environ: str) -> AmdDevice:
    """A device of a board over PCI; `queue` "" is what the chip does best."""
    chosen = {"DEV": "AMD:0", "AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": board.firmware}
    if queue:
        chosen["AMD_AQL"] = str(int(queue == "AQL"))
    return open_amd(ForeignWorld(board), choose(chosen | environ), state=ForeignState(board.state))


@contextmanager
def device_over_pci(
    chip: str,
    queue: str = "",
    *,
    iommu: bool = True,
    options: Options | None = None,
    **environ: str,
) -> Iterator[tuple[PciWorld, AmdDevice]]:
    """The same over PCI; at the end the GPU is given back, and nothing was found."""
    strictness = options or Options()
    board = open_pci_board(
        chip,
        options=MachineOptions(iommu=iommu, strictness=strictness, vram_bytes=PCI_VRAM_BYTES),
    )
    with open_over_pci(board, queue, **environ) as device:
        yield board, device
    check(not board.violations, f"violations: {[str(one) for one in board.violations[:9]]}")
    check(not any(board.baseline().values()), f"left after close: {board.baseline()}")
    check(not any(name.endswith(".claim") for name in board.state.names()), "it was not given back")


@contextmanager
def device_on(
    chip: str, queue: str = "PM4", options: Options | None = None, **environ: str
) -> Iterator[tuple[Any, AmdDevice]]:
    """A board and its device; at the end nothing of either is left, and nothing was found."""
    way, _, kind = queue.rpartition(" ")
    if way == "USB":
        rig = UsbRig(chip, options=options)
        with rig.opened(AMD_AQL=str(int(kind == "AQL")), **environ) as device:
            yield rig.board, device
        check(not rig.violations(), f"violations: {rig.violations()[:9]}")
        return
    if way:
        with device_over_pci(chip, kind, iommu=way == "PCI", options=options, **environ) as both:
            yield both
        return
    board = open_board(chip, options=options)
    world = ForeignWorld(board)
    with open_on(world, queue, **environ) as device:
        yield board, device
    check(not board.violations, f"violations: {board.violations}")
    left = board.baseline()
    check((left.queues, left.events, left.buffers) == (0, 0, 1), f"left after close: {left}")
    close_session(world)
    check(not any(astuple(board.baseline())), f"left after the session: {board.baseline()}")


@functools.cache
def kernel(text: str, chip: str, block: int) -> Binary:
    """LLVM IR of tests/amd_kernels.py as a binary with workgroups of `block`."""
    made = compile_source(text, "k", "LLVM", chip, frozenset())
    return made.in_blocks_of(block)


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
