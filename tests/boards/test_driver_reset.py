"""A hung queue on a kernel that cannot reset one: the whole GPU is, and the process is told so."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.base.errors import DeviceGone, Hang
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 64


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_after_a_hang_the_device_works_or_is_gone(queue: str, alone: bool) -> None:
    board = open_board("gfx1100", vram_bytes=256 << 20, options=Options(queue_reset=alone))
    ones = np.ones(N, np.float32)
    with open_on(ForeignWorld(board), queue) as device:
        program = device.load(add("gfx1100"))
        x, y = put(device, ones), device.alloc(4 * N)
        board.panel.hang(device.compute.hw.queue_id)
        device.launch(program, [x, x, y, N], 1)
        with pytest.raises(Hang) as hang:
            device.synchronize()
        if alone:
            device.launch(program, [x, x, y, N], 1)
            np.testing.assert_array_equal(get(device, y), ones + ones)
            return
        check("new process" in str(hang.value), str(hang.value))
        with pytest.raises(DeviceGone):
            device.launch(program, [x, x, y, N], 1)
        with pytest.raises(DeviceGone):
            get(device, y)
