"""Every operation of a short life fails once, and the process is killed at every tenth.

Operations are everything that touches the machine: files, ioctls, mappings, registers. Two
processes, and a forked child, share the kernel driver.
"""

from __future__ import annotations

import errno
import gc
import os
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from boards.nv.machine import another_nv_process
from drivers.base.errors import DeviceError, UseAfterFree
from drivers.world.faulty import Fault, FaultyWorld, sweep
from drivers.world.foreign import ForeignWorld
from tests.boards.nv_harness import binary
from tests.reliability.amd_scene import let_go
from tests.reliability.nv_scene import (
    board,
    life,
    nothing_left,
    open_on,
    outcome,
    pinned,
    trouble,
    work,
)
from tests.reliability.test_amd_sweep import STRIDE, Killed, MortalWorld, UnpluggedWorld
from tests.share import part
from tests.support import check
from tests.sweep.offset import offset, reproduced


class Boards:
    """One board after the other for a sweep; each has to be as new when its turn is over."""

    def __init__(self) -> None:
        self.one: Any = None

    def fresh(self) -> ForeignWorld:
        self.one = board()
        return ForeignWorld(self.one)

    def scenario(self, world: FaultyWorld) -> DeviceError | None:
        error = outcome(world)
        nothing_left(self.one, world.failed)
        return error


def reporting() -> range:
    """The operations of a life between a kernel's exception and its report."""
    counter = FaultyWorld(ForeignWorld(board()), -1, Fault("none"))
    with open_on(counter) as device:
        work(device)
        pinned(device, counter)
        first = counter.count
        trouble(device)
        return range(first, counter.count)


def test_each_operation_fails_once() -> None:
    """An error of ours, nothing left; what passes is a report of a fault with less in it.

    Every fifth one in `make test`, beginning with another each day.
    """
    every = part(1, 5)
    at, passed = offset() % every, dict[int, str]()
    boards, least = Boards(), reporting()
    fault = Fault.of_errno(errno.EIO)
    for operation, error in sweep(boards.fresh, boards.scenario, fault, first=at, stride=every):
        if not isinstance(error, DeviceError):
            passed[at] = operation
        at += every
    check(at > 200, f"{at} operations")
    silent = {at: name for at, name in passed.items() if at not in least}
    check(not silent, f"operations failed and nobody said so, {reproduced()}: {silent}")
    check(every > 1 or len(passed) < len(least) // 2, f"{passed} of {least}")


@pytest.mark.parametrize("kind", ["ones", "short"])
def test_operations_that_bring_garbage(kind: str) -> None:
    """Any error of ours will do, or none; the life itself checks what it computes."""
    one = board()
    counter = FaultyWorld(ForeignWorld(one), -1, Fault("none"))
    life(counter)
    every = part(3, 12)
    for at in range(offset() % every, counter.count, every):
        one = board()
        error = outcome(FaultyWorld(ForeignWorld(one), at, Fault(kind)))
        check(error is None or isinstance(error, DeviceError), f"{at}, {reproduced()}")
        nothing_left(one, f"operation {at}, {reproduced()}")


def test_killed_at_every_tenth_operation() -> None:
    """The kernel driver outlives its process; another one finds everything as it was."""
    one = board()
    fresh = one.baseline()
    counter = FaultyWorld(ForeignWorld(one), -1, Fault("none"))
    life(counter)
    check(counter.count > 200, f"{counter.count} operations")
    for at in range(offset() % STRIDE, counter.count, STRIDE):
        process = another_nv_process(one)
        world = MortalWorld(ForeignWorld(process), at, dead_after=at // STRIDE % 2 == 0)
        try:
            life(world)
        except Killed as killed:
            let_go(killed)
        check(world.failed, f"operation {at} of {counter.count} was never reached, {reproduced()}")
        process.kill()
        gc.collect()  # this test's own views of what the dead process had mapped
        np.testing.assert_equal(astuple(process.baseline()), astuple(fresh), f"killed at {at}")
    life(ForeignWorld(another_nv_process(one)))
    nothing_left(one, "the life after all the kills")
    check(not one.violations, f"{one.violations}")


def test_unplugged_at_every_tenth_operation() -> None:
    """Errors of ours, no endless wait; and when the process ends, the board is as new."""
    one = board()
    counter = FaultyWorld(ForeignWorld(one), -1, Fault("none"))
    life(counter)
    for at in range((5 + offset()) % STRIDE, counter.count, STRIDE):
        process = another_nv_process(one)
        world = UnpluggedWorld(ForeignWorld(process), at, Fault.of_errno(errno.ENODEV))
        error = outcome(world)
        check(isinstance(error, DeviceError), f"unplugged at {at}, {reproduced()}: {error!r}")
        process.kill()
        gc.collect()
        check(sum(astuple(process.baseline())) == 0, f"unplugged at {at}: {process.baseline()}")


def test_two_processes_do_not_disturb_each_other() -> None:
    """One faults, hangs on to memory and is killed; the other one goes on with what it has."""
    one = board()
    other = another_nv_process(one)
    with open_on(ForeignWorld(one)) as device:
        kept = device.alloc(256)
        device.copy_in(kept, memoryview(np.arange(64, dtype=np.uint32)))
        second = open_on(ForeignWorld(other))
        work(second)
        trouble(second)
        work(device)
        second.alloc(1 << 20)
        other.kill()
        work(device)
        out = np.zeros(64, np.uint32)
        device.copy_out(memoryview(out), kept)
        np.testing.assert_array_equal(out, np.arange(64))
        kept.free()
    del second
    gc.collect()  # this test's own views of what the dead process had mapped
    check(not one.violations, str(one.violations))
    nothing_left(one, "both")


def in_child(run: Any) -> int:
    """The exit status of a forked child: 0 when `run` returned."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        run()
        status = 0
    finally:
        os._exit(status)


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        program, a = device.load(binary(device)), device.alloc(256)

        def child() -> None:
            for call in (
                lambda: device.alloc(64), lambda: device.launch(program, [a, a, a, 1], 1),
                lambda: device.load(binary(device)), device.synchronize,
                lambda: device.copy_in(a, memoryview(bytes(16))),
                lambda: device.compute_queue().exec(program, [a, a, a, 1]).submit(),
            ):  # fmt: skip
                with pytest.raises(UseAfterFree):
                    call()
            a.free()
            device.close()

        before = one.baseline()
        check(in_child(child) == 0, "the child")
        check(one.baseline() == before, "the parent's objects")
        work(device)
    nothing_left(one, "the parent")
