"""Slots and doorbells of a bare GPU's queues."""

from __future__ import annotations

from functools import partial

import pytest

from drivers.amd.iface import Plan
from drivers.amd.pci.hardware_queue import Slots, ringer
from drivers.base.errors import Busy, Unsupported
from drivers.base.region import MemoryRegion
from tests.support import check

FLUSH_BYTE = 0x7F000  # src: nbio_v4_3.c MMIO_REG_HOLE_OFFSET 0x80000 - 4 KiB


class Trapped(MemoryRegion):
    """Registers that are not memory."""

    def view(self) -> memoryview:
        raise Unsupported("registers")


class PlainBars:
    """Doorbells and registers of a GPU."""

    def __init__(self, *, trapped: bool) -> None:
        kind = Trapped if trapped else MemoryRegion
        registers = kind(bytearray(b"\xff" * (1 << 20)))
        self.bars = {2: MemoryRegion(bytearray(4096)), 5: registers}

    def bar(self, number: int) -> MemoryRegion:
        return self.bars[number]


@pytest.mark.parametrize("on_card", [False, True])
@pytest.mark.parametrize("way", ["memory", "trapped", "traced"])
def test_a_ring_in_vram_is_flushed_first(on_card: bool, way: str) -> None:
    order: list[str] = []
    made = PlainBars(trapped=way == "trapped")
    flush = partial(order.append, "flush") if on_card else None
    doorbell = ringer(made, 3, "queue", flush, traced=way == "traced")
    doorbell(0x1_0000_0005)
    check(made.bars[2].read64(0x18) == 0x1_0000_0005, "the doorbell")
    check(order == ["flush"] * (on_card and way != "memory"), f"{order}")
    direct = on_card and way == "memory"
    check(made.bars[5].read32(FLUSH_BYTE) == (0 if direct else 0xFFFFFFFF), "the flush register")


def test_slots_are_given_once() -> None:
    slots = Slots(2)
    copies, second = Plan("c", "SDMA", 4096), Plan("c", "SDMA", 4096, engine=1)
    check([slots.take(copies), slots.take(second)] == [0, 1])
    with pytest.raises(Busy, match="in use"):
        slots.take(copies)
    slots.give(copies, 0)
    with pytest.raises(Busy):
        slots.take(second)
    check(slots.take(copies) == 0)
    compute = [slots.take(Plan("k", kind, 4096)) for kind in ("PM4", "AQL", "PM4", "AQL")]
    check(compute == [0, 1, 2, 3])
    with pytest.raises(Busy):
        slots.take(Plan("k", "PM4", 4096))
