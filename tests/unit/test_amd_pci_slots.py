"""Which of the hardware's queues a bare GPU gives out, and that one that fails to open is back."""

from __future__ import annotations

from typing import Any

import pytest

from drivers.amd.iface import Plan
from drivers.amd.pci.hardware_queue import Slots, open_queue
from drivers.base.errors import Busy, OutOfMemory
from tests.support import check

COPY, THIRD, COMPUTE = (
    Plan("copies", "SDMA", 4096),
    Plan("third engine", "SDMA", 4096, engine=2),
    Plan("compute", "AQL", 4096),
)


def test_an_engine_that_is_named_is_the_one() -> None:
    slots = Slots(engines=3)
    check([slots.take(THIRD), slots.take(COPY), slots.take(COPY)] == [2, 0, 1])
    for plan in (THIRD, COPY):
        with pytest.raises(Busy, match="in use"):
            slots.take(plan)
    slots.give(THIRD, 2)
    check(slots.take(THIRD) == 2)
    check([slots.take(COMPUTE) for _ in range(4)] == [0, 1, 2, 3])
    with pytest.raises(Busy, match="in use"):
        slots.take(COMPUTE)


def test_a_queue_that_does_not_open_takes_nothing() -> None:
    class Full:
        def allocate(self, nbytes: int, *_: object, **__: object) -> Any:
            raise OutOfMemory("full", requested=nbytes, used=0, cached=0, limit=0)

    owner: Any = Full()
    slots, gpu = Slots(engines=1), owner
    for plan in (COPY, COMPUTE) * 5:
        with pytest.raises(OutOfMemory):
            open_queue(owner, gpu, slots, plan)
    check((slots.take(COPY), slots.take(COMPUTE)) == (0, 0))
