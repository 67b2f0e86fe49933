"""Every operation of a short life with an Adreno fails once; it is killed at every tenth.

Over KGSL and over msm. Operations are everything that touches the machine: files, ioctls, mappings.
"""

from __future__ import annotations

import errno
import gc
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from boards.qcom.machine import another_qcom_process
from drivers.base.errors import DeviceError, UseAfterFree
from drivers.world.faulty import Fault, FaultyWorld, sweep
from drivers.world.foreign import ForeignWorld
from tests.reliability.amd_scene import let_go
from tests.reliability.qcom_scene import (
    board,
    life,
    nothing_left,
    open_on,
    outcome,
    trouble,
    work,
)
from tests.reliability.test_amd_sweep import STRIDE, Killed, MortalWorld
from tests.reliability.test_nv_sweep import in_child
from tests.share import part
from tests.support import check
from tests.sweep.offset import offset, reproduced

both = pytest.mark.parametrize("iface", ["KGSL", "MSM"])


def operations(iface: str) -> int:
    """How many a life has."""
    counter = FaultyWorld(ForeignWorld(board(iface)), -1, Fault("none"))
    life(counter, iface)
    return counter.count


def reporting(iface: str) -> range:
    """The operations of a life between a kernel's fault and its report."""
    counter = FaultyWorld(ForeignWorld(board(iface)), -1, Fault("none"))
    with open_on(counter, iface) as device:
        work(device)
        first = counter.count
        trouble(device)
        return range(first, counter.count)


@both
def test_each_operation_fails_once(iface: str) -> None:
    """An error of ours, nothing left; what passes is a fault that is reported with less in it."""
    boards: list[Any] = []

    def fresh() -> ForeignWorld:
        boards[:] = [board(iface)]
        return ForeignWorld(boards[0])

    def scenario(world: FaultyWorld) -> DeviceError | None:
        error = outcome(world, iface)
        nothing_left(boards[0], world.failed)
        return error

    passed, least = dict[int, str](), reporting(iface)
    for at, (operation, error) in enumerate(
        sweep(fresh, scenario, Fault.of_errno(errno.EIO))
    ):  # fmt: skip
        if not isinstance(error, DeviceError):
            passed[at] = operation
    silent = {at: name for at, name in passed.items() if at not in least}
    check(not silent, f"operations failed and nobody said so: {silent}")


@both
@pytest.mark.parametrize("kind", ["ones", "short"])
def test_operations_that_bring_garbage(iface: str, kind: str) -> None:
    """Any error of ours will do, or none; the life itself checks what it computes."""
    every = part(1, 3)
    for at in range(offset() % every, operations(iface), every):
        one = board(iface)
        error = outcome(FaultyWorld(ForeignWorld(one), at, Fault(kind)), iface)
        check(error is None or isinstance(error, DeviceError), f"{at}, {reproduced()}")
        nothing_left(one, f"operation {at}, {reproduced()}")


@both
def test_killed_at_every_tenth_operation(iface: str) -> None:
    """The kernel driver outlives its process; another one finds everything as it was."""
    one = board(iface)
    fresh, count = one.baseline(), operations(iface)
    for at in range(offset() % STRIDE, count, STRIDE):
        process = another_qcom_process(one)
        world = MortalWorld(ForeignWorld(process), at, dead_after=at // STRIDE % 2 == 0)
        try:
            life(world, iface)
        except Killed as killed:
            let_go(killed)
        check(world.failed, f"operation {at} of {count} was never reached, {reproduced()}")
        process.kill()
        gc.collect()  # this test's own views of what the dead process had mapped
        np.testing.assert_equal(astuple(process.baseline()), astuple(fresh), f"killed at {at}")
    life(ForeignWorld(another_qcom_process(one)), iface)
    nothing_left(one, "the life after all the kills")
    check(not one.violations, f"{one.violations}")


@both
def test_a_forked_child_is_refused_and_the_parent_goes_on(iface: str) -> None:
    one = board(iface)
    with open_on(ForeignWorld(one), iface) as device:
        a = device.alloc(256)

        def child() -> None:
            for call in (
                lambda: device.alloc(64), device.synchronize,
                lambda: device.copy_in(a, memoryview(bytes(16))),
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
