"""Each request with which a GPU is given another one's memory fails: the error, then it works."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from drivers.base.errors import DeviceError
from drivers.nv.nvk import uvm
from tests.boards.nv_harness import binary
from tests.reliability.amd_scene import FILLS, let_go
from tests.reliability.nv_scene import Bend, BentWorld, board, name_of, nothing_left, open_on
from tests.reliability.test_amd_ioctls import CLASSES, RETRIED
from tests.reliability.test_nv_ioctls import SOME_STATUSES, STATUSES
from tests.support import check

N = 64
MAPS = (uvm.REGISTER_GPU, uvm.ENABLE_PEER_ACCESS, uvm.CREATE_EXTERNAL_RANGE,
        uvm.MAP_EXTERNAL_ALLOCATION)  # fmt: skip
"""In the order of a first `map_to`."""
ENDS = (uvm.FREE, uvm.UNREGISTER_GPU)


def share(world: BentWorld, bend: Bend | None) -> DeviceError | None:
    """Map memory of the first GPU to the second while requests fail, then without; use it."""
    data, error = np.arange(N, dtype=np.uint32), None
    with open_on(world) as one, open_on(world, 1) as other:
        a, c = one.alloc(data.nbytes), one.alloc(data.nbytes)
        one.copy_in(a, memoryview(data))
        world.bend = bend
        try:
            a.map_to(other)
        except DeviceError as found:
            error = found
            let_go(found)
        world.bend = None
        a.map_to(other)
        c.map_to(other)
        other.launch(other.load(binary(other)), [c, a, a, N], 1)
        other.synchronize(5.0)
        out = np.zeros(N, np.uint32)
        one.copy_out(memoryview(out), c)
        np.testing.assert_array_equal(out, 2 * data)
    return error


@pytest.mark.parametrize("request_of", MAPS, ids=lambda one: one.name)
def test_every_request_of_a_mapping(request_of: uvm.UvmIoctl) -> None:
    one = board(gpus=2)
    world, key, turn = BentWorld(one), (request_of.request, 0), count()
    bends = [Bend(key, FILLS[next(turn) % len(FILLS)], error=code) for code in CLASSES]
    bends += [Bend(key, "zero", status=number) for number in SOME_STATUSES]
    for bend in bends:
        error = share(world, bend)
        check(bend.met, f"{bend} never happened")
        if bend.error in RETRIED:
            check(error is None, f"{bend}: {error!r}")
        else:
            kind = CLASSES[bend.error] if bend.error else STATUSES[bend.status]
            check(type(error) is kind, f"{bend}: {error!r}")
        nothing_left(one, f"{name_of(key)} {bend}")
    check(share(world, None) is None, "the life after them")
    check(not one.violations, str(one.violations))


@pytest.mark.parametrize("request_of", ENDS, ids=lambda one: one.name)
def test_what_is_not_taken_back_is_gone_with_the_device(request_of: uvm.UvmIoctl) -> None:
    one = board(gpus=2)
    world = BentWorld(one)
    devices = open_on(world), open_on(world, 1)
    for buffer, other in zip([d.alloc(4 * N) for d in devices], reversed(devices), strict=True):
        buffer.map_to(other)
    world.bend = Bend((request_of.request, 0), "zero", status=SOME_STATUSES[-1], times=1 << 30)
    for device in devices:
        with pytest.raises(DeviceError) as caught:
            device.close()
        let_go(caught.value)
    world.bend = None
    check(share(BentWorld(one), None) is None, "the life after it")
