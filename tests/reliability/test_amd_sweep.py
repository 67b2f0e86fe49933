"""Every operation of a short life with a GPU fails once, and the life is killed at each tenth.

`make test` tries every fifth one, beginning with another each day.

Operations are everything that touches the machine: files, ioctls, mappings, registers.
"""

from __future__ import annotations

import errno
import gc
from dataclasses import astuple

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import another_process
from drivers.amd.kfd import abi as kfd_abi
from drivers.base.errors import DeviceError
from drivers.world.faulty import Fault, FaultyWorld, sweep
from drivers.world.foreign import ForeignWorld
from tests.reliability.amd_scene import board, left, let_go, life, nothing_left, outcome
from tests.share import part
from tests.support import check
from tests.sweep.offset import offset, reproduced

RELEASES = ("DESTROY", "FREE", "UNMAP")
MAY_PASS = ("exists", "access", "list /sys/bus/pci", "nodes/1/name", "nodes/0/", "fw_version",
            "ip_discovery")  # fmt: skip
"""Looking around, which goes on with what is there. Node 0 is the processor's: a node that cannot
be read hides no other."""


def step(operation: str) -> str:
    """An operation as an error names it: ioctls by the kernel's name."""
    if not operation.startswith("ioctl "):
        return operation.split()[0]
    request = int(operation.split()[1], 16)
    return next(one.name for one in kfd_abi.IOCTLS.values() if one.request == request)


class Boards:
    """One board after the other for a sweep; each has to be as new when its turn is over."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.one: BoardWorld | None = None

    def fresh(self) -> ForeignWorld:
        self.one = board()
        return ForeignWorld(self.one)

    def scenario(self, world: FaultyWorld) -> DeviceError | None:
        """A life; what went wrong in it must leave nothing that the kernel would have taken."""
        check(self.one is not None)
        one = self.one or board()
        error = outcome(one, world, self.queue)
        kept, names = left(one), step(world.failed) if world.failed else ""
        refused = any(word in names for word in RELEASES) or names == "write32"
        refused |= world.fault.kind != "errno" and names.startswith("AMDKFD")
        check(not kept or refused, f"{world.failed} left {kept}")
        nothing_left(one, world, world.failed)
        check(not one.violations, f"{world.failed}: {one.violations}")
        return error


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_each_operation_fails_once(queue: str) -> None:
    boards, every = Boards(queue), part(1, 5)
    count, fault = offset() % every, Fault.of_errno(5)
    for operation, error in sweep(boards.fresh, boards.scenario, fault, first=count, stride=every):
        count += every
        if any(word in operation for word in MAY_PASS):
            continue
        reported = str(error) + "".join(getattr(error, "__notes__", []))
        check(
            isinstance(error, DeviceError) and step(operation) in reported,
            f"{operation}, {reproduced()}: {reported}",
        )
    check(count > 200, f"{count} operations")


@pytest.mark.parametrize("kind", ["ones", "short"])
def test_each_operation_brings_garbage_once(kind: str) -> None:
    """Any error of ours will do, or none; the life itself checks what it computes."""
    boards, every = Boards("PM4"), part(1, 5)
    first = offset() % every
    for operation, error in sweep(
        boards.fresh, boards.scenario, Fault(kind), first=first, stride=every
    ):
        check(error is None or isinstance(error, DeviceError), f"{operation}, {reproduced()}")


class Killed(BaseException):
    """SIGKILL: nothing of the process runs any more."""


class MortalWorld(FaultyWorld):
    """At operation `fail_at` the process is gone: nothing reaches the kernel from then on."""

    def __init__(self, inner: ForeignWorld, fail_at: int, dead_after: bool) -> None:
        super().__init__(inner, fail_at, Fault("killed"))
        self.dead_after = dead_after
        """Killed when the operation is done, and not before it."""

    def meets(self, operation: str) -> bool:
        if self.failed:
            raise Killed(operation)
        if not super().meets(operation):
            return False
        if not self.dead_after:
            raise Killed(operation)
        return False


STRIDE = 10
"""Each run begins one further, so that in ten days every operation was the one."""


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_killed_at_every_tenth_operation(queue: str) -> None:
    """The board's kernel outlives its process; another one finds everything as it was."""
    one = board()
    fresh = one.baseline()
    counter = FaultyWorld(ForeignWorld(one), -1, Fault("none"))
    life(one, counter, queue)
    one.kill()
    whole = counter.count
    check(whole > 200, f"{whole} operations")
    for at in range(offset() % STRIDE, whole, STRIDE):
        process = another_process(one)
        world = MortalWorld(ForeignWorld(process), at, dead_after=at // STRIDE % 2 == 0)
        try:
            life(process, world, queue)
        except Killed as killed:
            let_go(killed)
        check(world.failed, f"operation {at} of {whole} was never reached, {reproduced()}")
        process.kill()
        gc.collect()  # this test's own views of what the dead process had mapped
        np.testing.assert_equal(astuple(process.baseline()), astuple(fresh), f"killed at {at}")
    last = another_process(one)
    world = ForeignWorld(last)
    life(last, world, queue)
    nothing_left(last, world, "the life after all the kills")
    check(not one.violations, f"{one.violations}")


class UnpluggedWorld(FaultyWorld):
    """From operation `fail_at` on every operation says ENODEV."""

    def meets(self, operation: str) -> bool:
        self.count += 1
        if self.count <= self.fail_at:
            return False
        self.failed = self.failed or operation
        return True


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_unplugged_at_every_tenth_operation(queue: str) -> None:
    """Errors of ours, no endless wait; and when the process ends, the board is as new."""
    one = board()
    fresh = one.baseline()
    counter = FaultyWorld(ForeignWorld(one), -1, Fault("none"))
    life(one, counter, queue)
    one.kill()
    for at in range((5 + offset()) % STRIDE, counter.count, STRIDE):
        process = another_process(one)
        world = UnpluggedWorld(ForeignWorld(process), at, Fault.of_errno(errno.ENODEV))
        error = outcome(process, world, queue)
        check(isinstance(error, DeviceError), f"unplugged at {at}, {reproduced()}: {error!r}")
        process.kill()
        world.kept.clear()
        gc.collect()
        check(process.baseline() == fresh, f"unplugged at {at}: {process.baseline()}")
    check(not one.violations, f"{one.violations}")
