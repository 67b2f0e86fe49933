"""Waiting for a device's queues. Any wait may report the device's fault, and repairs its queues."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Generic

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.life import Life
from drivers.gpu.blocks import Moment
from drivers.gpu.faults import unsignalled
from drivers.gpu.pair import C, M, RingPair
from drivers.gpu.patience import progress
from drivers.gpu.recovery import Recovery, Reporter
from drivers.gpu.ring import Ring, Waited

if TYPE_CHECKING:
    from drivers.gpu.owner import SignalValue


class Waits(Generic[C, M]):
    """What a device waits for; its heap asks it which work is done."""

    def __init__(
        self,
        life: Life,
        world: World,
        pair: RingPair[C, M],
        recovery: Recovery[C, M],
        reporter: Reporter,
        hang_s: float,
    ) -> None:
        self._life, self._clock, self._pair = life, world.monotonic_s, pair
        self._recovery, self._reporter, self.hang_s = recovery, reporter, hang_s

    @property
    def idle(self) -> tuple[bool, bool]:
        """Whether (the compute queue, the copy queue) has finished everything."""
        return self._pair.idle

    @property
    def given(self) -> int:
        """Position of the last work given to the compute queue."""
        return self._pair.compute.put

    @property
    def moment(self) -> Moment:
        """The compute queue, and the position of its last work."""
        return self._pair.moment

    def reach(self, mark: int) -> None:
        """Return once the compute queue has done its work up to `mark`."""
        ring = self._pair.compute
        if not ring.done < mark <= ring.put:  # done, or the ring was replaced since
            return
        self.wait_ring(ring, mark)

    def wait_ring(self, ring: Ring, mark: int, timeout_s: float = inf) -> None:
        """Return once a ring has done `mark`. Raises: DeviceTimeout, Hang, DeviceFault."""
        recovery = self._recovery
        waited = recovery.patience.wait((ring,), lambda: ring.done >= mark, timeout_s, mark=mark)
        if waited is Waited.LATE:
            raise self._reporter.late(ring, timeout_s, parked=recovery.parked(ring))
        if waited is Waited.STUCK:
            raise recovery.hung(ring)

    def wait_until(
        self, signal: SignalValue, reached: Callable[[], bool], value: int, timeout_s: float
    ) -> None:
        """Return once `reached()`. Raises: DeviceTimeout, Hang, DeviceFault."""
        pair = self._pair
        rings = pair.rings
        if not reached() and rings[0].broken is not None:
            raise rings[0].broken.with_traceback(None)
        waited = self._recovery.patience.wait(rings, reached, timeout_s, progress)
        if waited is not Waited.DONE:
            raise self._why_not(signal, value, timeout_s, waited)
        pair.invalidate_sharers()
        if pair.shares:  # another GPU's queue may have signalled
            pair.compute.stale = True

    def _why_not(self, signal: SignalValue, value: int, time_s: float, how: Waited) -> DeviceError:
        recovery = self._recovery
        busy = sorted((r for r in self._pair.rings if not r.idle), key=recovery.parked)
        if busy and how is Waited.STUCK:
            return recovery.hung(busy[0])
        time_s = self.hang_s if how is Waited.STUCK else time_s
        return unsignalled(self._life.name, signal.value, value, time_s, busy=bool(busy))

    def synchronize(self, timeout_s: float = inf) -> None:
        """Return when everything submitted is done and visible, however long that takes.

        Raises: DeviceTimeout after `timeout_s`, which stops nothing; Hang, DeviceFault.
        """
        self._life.check()
        compute, copies = self._pair.compute, self._pair.copies
        with compute.lock:
            if compute.broken is not None:
                raise compute.broken.with_traceback(None)
            mark = compute.put
            if mark != compute.clean:
                mark = compute.clean = compute.flush()
        deadline_s = self._clock() + timeout_s
        self.wait_ring(compute, mark, timeout_s)
        if not copies.idle:
            self.wait_ring(copies, copies.put, deadline_s - self._clock())
        self._recovery.sleep(0)  # a queue may go on after a fault, or fault at its end
        self._pair.invalidate_sharers()

    def check_runs(self) -> None:
        """Without waiting. Raises: UseAfterFree; DeviceFault; why the queue stopped."""
        self._life.check()
        compute = self._pair.compute
        if compute.broken is not None:
            raise compute.broken.with_traceback(None)
        self._recovery.sleep(0)
