"""A fault that arrives while nothing waits is reported at the next synchronize, copy or close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import MemoryFault
from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.amd.pci.process import VMID
from drivers.base.errors import DeviceFault
from tests.boards.driver_harness import add, device_on, get, put
from tests.support import check

N = 64
ONES = np.ones(N, np.float32)
WAYS = pytest.mark.parametrize("way", ["KFD", "PCI"])
CHIPS = pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
NOWHERE = 0x7F00_0000_0000


def queue_of(chip: str, way: str) -> str:
    """What the chip does best, as `device_on` reads it."""
    kind = "AQL" if chip == "gfx942" else "PM4"
    return kind if way == "KFD" else f"{way} {kind}"


def fault(board: Any, way: str) -> None:
    """The hardware reports a page fault; no queue stops and nothing waits."""
    if way == "KFD":
        board.panel.page_fault(NOWHERE)
    else:
        interrupts = board.gpus[0].graphics.compute._interrupts
        interrupts.fault(VMID, MemoryFault("unmapped", "read", NOWHERE))


ASKS: list[Callable[[AmdDevice, AmdBuffer], object]] = [
    lambda device, x: device.synchronize(),
    lambda device, x: device.copy_in(x, memoryview(ONES).cast("B")),
    lambda device, x: get(device, x),
]


@WAYS
@CHIPS
def test_the_next_call_that_waits_reports_it_once(chip: str, way: str) -> None:
    with device_on(chip, queue_of(chip, way)) as (board, device):
        program, x, y = device.load(add(chip)), put(device, ONES), device.alloc(4 * N)
        for ask in ASKS:
            device.launch(program, [x, x, y, N], 1)
            device.synchronize()
            fault(board, way)
            device.launch(program, [x, x, y, N], 1)
            with pytest.raises(DeviceFault) as caught:
                ask(device, x)
            check((caught.value.kind, caught.value.gpu_va) == ("unmapped", NOWHERE), caught.value)
            np.testing.assert_array_equal(get(device, y), ONES + ONES)


@WAYS
@CHIPS
def test_close_reports_it_and_gives_everything_back(chip: str, way: str) -> None:
    with device_on(chip, queue_of(chip, way)) as (board, device):
        device.synchronize()
        fault(board, way)
        with pytest.raises(DeviceFault) as caught:
            device.close()
        check(caught.value.gpu_va == NOWHERE, caught.value)
        device.close()


def goes_wrong(chip: str) -> None:
    """The caller raises while a fault is not reported yet."""
    with device_on(chip, queue_of(chip, "KFD")) as (board, device), device:
        fault(board, "KFD")
        raise ValueError("the caller's own")


@CHIPS
def test_a_fault_at_close_does_not_hide_what_went_wrong_before(chip: str) -> None:
    with pytest.raises(ValueError, match="the caller's own") as caught:
        goes_wrong(chip)
    check("unmapped read" in caught.value.__notes__[0], "the fault is not in the notes")
