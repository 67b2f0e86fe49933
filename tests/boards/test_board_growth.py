"""A board that lives long: what queues, devices and processes had there goes with them."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boards.amd.machine import another_process, open_board
from boards.amd.memory.coherence import Coherence
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pool import LINE_SHIFT, Pool
from drivers.amd.kfd.session import close_session
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import PCI_VRAM_BYTES, get, open_on, open_over_pci, put
from tests.support import check

CYCLES = int(os.environ.get("UNBOUND_CYCLES", "12"))
VRAM_BYTES = 256 << 20
ONES = np.ones(64, np.float32)
Life = Callable[[], None]
"""Opens a device, uses it, closes it."""


def over_kfd(chip: str, kind: str) -> tuple[Any, Life]:
    """One process that opens again and again."""
    board = open_board(chip, vram_bytes=VRAM_BYTES)
    world = ForeignWorld(board)

    def life() -> None:
        with open_on(world, kind) as device:
            np.testing.assert_array_equal(get(device, put(device, ONES)), ONES)

    return board.hardware, life


def by_processes(chip: str, kind: str) -> tuple[Any, Life]:
    """A process for each device."""
    board = open_board(chip, vram_bytes=VRAM_BYTES)

    def life() -> None:
        world = ForeignWorld(another_process(board))
        with open_on(world, kind) as device:
            np.testing.assert_array_equal(get(device, put(device, ONES)), ONES)
        close_session(world)

    return board.hardware, life


def over_pci(chip: str, kind: str) -> tuple[Any, Life]:
    """A bare GPU, booted and given back."""
    board = open_pci_board(chip, options=MachineOptions(iommu=True, vram_bytes=PCI_VRAM_BYTES))

    def life() -> None:
        with open_over_pci(board, kind) as device:
            np.testing.assert_array_equal(get(device, put(device, ONES)), ONES)

    return board.hardware, life


def objects() -> Counter[str]:
    """What of boards is alive, by its class."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("boards."))


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("make", [over_kfd, by_processes, over_pci])
def test_a_board_does_not_grow(make: Callable[[str, str], tuple[Any, Life]], chip: str) -> None:
    hardware, life = make(chip, "PM4" if chip == "gfx1100" else "AQL")
    for _ in range(2):
        life()
    before, agents = objects(), len(hardware.coherence._names)
    for _ in range(CYCLES):
        life()
    grown = {kind: n for kind, n in (objects() - before).items() if 2 * n >= CYCLES}
    check(not grown, f"after {CYCLES} more: {grown}")  # free memory may lie in other pieces
    check(len(hardware.coherence._names) == agents, "more agents than there were at once")


def test_a_number_that_goes_to_another_agent() -> None:
    """Lines of an agent that is gone are stale to who has not acquired, under its own name."""
    pool, caches = Pool.__new__(Pool), Coherence()
    pool.writer, pool.written_at = np.zeros(4, np.uint16), np.zeros(4, np.uint32)
    reader, old = caches.agent("reader"), caches.agent("old")
    caches.wrote(old, pool, slice(0, 1))
    caches.retire(old)
    new = caches.agent("new")
    np.testing.assert_equal(new, old)
    caches.wrote(new, pool, slice(2, 3))
    lines = slice(0, 4)
    np.testing.assert_equal(caches.stale(reader, pool, lines), ("old", 0))
    caches.acquire(reader)
    np.testing.assert_equal(caches.stale(reader, pool, lines), ("new", 2 << LINE_SHIFT))
    np.testing.assert_equal(caches.stale(new, pool, lines), None)
    caches.release(new)
    caches.acquire(reader)
    np.testing.assert_equal(caches.stale(reader, pool, lines), None)
