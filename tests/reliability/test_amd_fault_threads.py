"""Two threads see one fault: the one that waits for room has a lock that the other one needs.

src: Linux kfd_events.c set_event(): everybody who waits for an exception is woken.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread, get_ident
from typing import Any

import numpy as np
import pytest

from drivers.amd import aql_ring, queue_maker
from drivers.base.errors import DeviceError, DeviceFault
from drivers.gpu.incident import Incident
from queues.amd.aql_launch import PACKET_BYTES
from tests.boards.driver_harness import get, put
from tests.reliability import amd_trouble as t
from tests.reliability.amd_scene import let_go
from tests.support import check

JOIN_S = 60.0
"""Of real time, after which a thread counts as stuck."""
MOST = 1000
"""Steps that the small rings of these tests do not hold."""
QUEUES = pytest.mark.parametrize("queue", t.QUEUES)


class Scene:
    """A faulted queue, a writer that waits for room in it, and who is told of the fault."""

    def __init__(self, rig: t.Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig, self.errors = rig, dict[str, BaseException]()
        self.threads: dict[str, Thread] = {}
        self.full, self.recovering = Event(), Event()
        t.unmapped_write(rig)
        self.real, self.stuck = rig.device.iface.wait, rig.device.recovery.stuck
        trouble = self.real(0)
        check(isinstance(trouble, Incident), "no fault")
        self.trouble = trouble
        self.untold = {"writer", "waiter"}
        monkeypatch.setattr(rig.device.iface, "wait", self.wait)
        monkeypatch.setattr(rig.device.recovery, "stuck", self.looks)

    def here(self, name: str) -> bool:
        thread = self.threads.get(name)
        return thread is not None and thread.ident == get_ident()

    def wait(self, timeout_ms: int) -> Incident | None:
        """A sleep. The writer's ends when somebody has begun to replace the queue."""
        if self.here("writer"):
            self.full.set()
            self.recovering.wait(JOIN_S)
        for name in list(self.untold):
            if self.here(name):
                self.untold.remove(name)
                return self.trouble
        return None if self.threads else self.real(timeout_ms)

    def looks(self, ring: Any) -> bool:
        """With the device's lock held."""
        if self.here("waiter"):
            self.recovering.set()
        return self.stuck(ring)

    def write(self) -> None:
        """Until the ring has no room."""
        device = self.rig.device
        for _ in range(MOST):
            if self.rig.queue == "SDMA":
                device.copy_queue().copy(self.rig.x, self.rig.big, 64).submit()
            else:
                device.launch(self.rig.program, [self.rig.x, self.rig.x, self.rig.x, t.N], 1)

    def start(self, name: str, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except DeviceError as error:
                self.errors[name] = error

        self.threads[name] = Thread(target=run, name=name, daemon=True)
        self.threads[name].start()

    def join(self, name: str) -> BaseException | None:
        self.threads[name].join(JOIN_S)
        check(not self.threads[name].is_alive(), f"the {name} does not end")
        error = self.errors.pop(name, None)
        if error is not None:
            let_go(error)
        return error

    def goes_on(self) -> None:
        """Everything is back: the device computes."""
        self.threads.clear()
        device, ones = self.rig.device, np.ones(t.N, np.float32)
        x = put(device, ones)
        device.launch(self.rig.program, [x, x, x, t.N], 1)
        np.testing.assert_array_equal(get(device, x), 2 * ones)


@pytest.fixture(autouse=True)
def small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings that a few launches fill."""
    monkeypatch.setattr(queue_maker, "RING_BYTES", 64 << 10)
    monkeypatch.setattr(queue_maker, "COPY_RING_BYTES", 4 << 10)
    monkeypatch.setattr(queue_maker, "AQL_RING_BYTES", 64 * PACKET_BYTES)
    monkeypatch.setattr(aql_ring, "SLOTS", 64)


@QUEUES
@pytest.mark.parametrize("both", [True, False], ids=["both see it", "the waiter sees it"])
def test_a_fault_while_a_thread_waits_for_room(
    queue: str, both: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with t.rig_on(queue) as rig:
        scene, before = Scene(rig, monkeypatch), rig.ring
        signal = rig.device.new_signal()
        if not both:
            scene.untold.remove("writer")
        scene.start("writer", scene.write)
        check(scene.full.wait(JOIN_S), "the ring never was full")
        scene.start("waiter", lambda: signal.wait(1))
        for name in ("waiter", "writer"):
            error = scene.join(name)
            check(isinstance(error, DeviceFault), f"{name}: {error!r}")
        check(rig.ring is not before and before.gone, "the queue was not replaced")
        replaced = rig.ring
        scene.goes_on()
        check(rig.ring is replaced, "it was replaced once more")


@QUEUES
def test_a_writer_that_cannot_recover_leaves_that_to_the_next_one(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has the device's lock for something else, and sees no fault."""
    with t.rig_on(queue) as rig:
        scene, before = Scene(rig, monkeypatch), rig.ring
        scene.recovering.set()
        with rig.device.lock:
            scene.start("writer", scene.write)
            error = scene.join("writer")
        check(isinstance(error, DeviceFault), f"{error!r}")
        check(rig.ring is before, "replaced without the lock")
        scene.threads.clear()
        rig.device.sleep(0)
        check(rig.ring is not before and before.gone, "the queue was not replaced")
        scene.goes_on()
