"""A signal handler that computes, anywhere inside the Adreno driver: no work is lost or changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.base.errors import Unsupported
from drivers.qcom import queue_maker, rings, stream_ring
from queues.qcom.launch import LINE_BYTES
from tests.boards.driver_harness import put
from tests.boards.handler_places import N, Scene, Signal, Sums, Work, places
from tests.qcom_devices import qcom_device
from tests.reliability.qcom_scene import binary
from tests.share import part
from tests.support import check

BOTH = pytest.mark.parametrize(("chip", "iface"), [("a630", "KGSL"), ("a660", "MSM")])


class QcomSums(Sums):
    """Each launch adds 3: c = 3 a + c, where a is 1."""

    def __init__(self, device: Any) -> None:
        self.device, self.program = device, device.load(binary(device))
        self.one = put(device, np.ones(N, np.int32))
        self.sums = [put(device, np.zeros(N, np.int32)) for _ in range(4)]
        self.wanted = [0] * len(self.sums)

    def launch(self, number: int) -> None:
        self.wanted[number] += 3
        place = self.sums[number]
        self.device.launch(self.program, [self.one, place, place], 1)

    def submit(self, number: int) -> None:
        self.wanted[number] += 6
        queue, place = self.device.compute_queue(), self.sums[number]
        for _ in range(2):
            queue.exec(self.program, [self.one, place, place]).barrier()
        queue.submit()

    def replay(self, graph: Any, number: int, steps: int) -> None:
        self.wanted[number] += 3 * steps
        graph.replay([self.sums[number]])

    def graph(self, steps: int) -> Any:
        queue = self.device.compute_queue()
        for _ in range(steps):
            queue.exec(self.program, [self.one, Param(0), Param(0)])
        return queue.bind()

    def values(self, number: int) -> set[float]:
        found = np.zeros(N, np.int32)
        self.device.copy_out(memoryview(found), self.sums[number])
        return set(found.tolist())


@BOTH
def test_a_handler_that_computes(chip: str, iface: str) -> None:
    """Inside launches, lists, replays and waits: launches, replays the same graph, and waits."""
    with qcom_device(chip, iface) as device:
        Scene(QcomSums(device)).everywhere(10)


@BOTH
def test_a_handler_where_the_ring_wraps(
    chip: str, iface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lap of a small ring ends and begins inside."""
    for where in (stream_ring, queue_maker):
        monkeypatch.setattr(where, "RING_BYTES", 8 << 10)
    for one in (stream_ring, rings):
        monkeypatch.setattr(one, "LINES", (8 << 10) // LINE_BYTES)
    with qcom_device(chip, iface) as device:
        sums = QcomSums(device)
        graph = sums.graph(3)

        def some() -> None:
            for _ in range(4):
                sums.launch(0)
            sums.replay(graph, 1, 3)

        some()
        seen = places(some)
        for at in range(1, seen, max(1, seen // part(40, 8))):
            Signal(lambda: [sums.launch(2) for _ in range(3)], at).run(some)
        sums.check("at the end")


@BOTH
def test_a_handler_that_closes_the_ring(chip: str, iface: str) -> None:
    """What it interrupted is refused, and the device goes on with the new ring.

    Work that was given already and is not done may be lost with the ring, as after a fault.
    """
    with qcom_device(chip, iface) as device:
        sums = QcomSums(device)
        graph, error = sums.graph(2), Unsupported("replaced by the test")
        works: list[tuple[Work, int]] = [
            (lambda: sums.launch(0), 1), (lambda: sums.replay(graph, 0, 2), 2),
        ]  # fmt: skip
        for work, kernels in works:
            work()
            for at in range(1, places(work) + 1, part(1, 4)):
                device.synchronize()
                before, under_way = device.compute, list[bool]()

                def replaced(under_way: list[bool] = under_way) -> None:
                    under_way.append(device.compute.put != device.compute.done)
                    device.recovery.replace(device.compute, error)

                try:
                    Signal(replaced, at).run(work)
                except Unsupported:
                    under_way.append(True)
                if any(under_way) and sums.values(0) == {sums.wanted[0] - 3 * kernels}:
                    sums.wanted[0] -= 3 * kernels
                check(device.compute is not before)
        sums.check("rings replaced")
