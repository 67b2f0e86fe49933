"""What goes wrong on a GPU goes wrong in a replay: the same error, word for word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceFault, OutOfMemory
from drivers.base.order import in_order
from drivers.world.foreign import ForeignWorld
from drivers.world.replay import RecordingWorld, ReplayWorld
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 64


def session(world: World, queue: str) -> list[str]:
    """A kernel that reads nowhere, then one that works; memory that the kernel refuses."""
    seen: list[str] = []
    with open_on(world, queue) as device:
        program = device.load(add("gfx1100"))
        x = put(device, np.arange(N, dtype=np.float32))
        device.launch(program, [0x10000, x, x, N], 1)
        with pytest.raises(DeviceFault) as fault:
            device.synchronize()
        seen += [fault.value.kind, hex(fault.value.gpu_va or 0), str(fault.value)]
        device.launch(program, [x, x, x, N], 1)
        seen.append(str(get(device, x)[:4]))
        with pytest.raises(OutOfMemory) as memory:
            device.alloc(1 << 31)
        seen.append(str(memory.value))
    return seen


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize("late", [False, True])
def test_errors_are_replayed(queue: str, late: bool) -> None:
    lines: list[str] = []
    board = open_board("gfx1100", options=Options(late=late))
    own: Any = board
    with in_order():
        seen = session(RecordingWorld(ForeignWorld(own), lines.append), queue)
    check("0x10000" in seen[1:2] and "[0. 2. 4. 6.]" in seen, str(seen))
    board.power_off()
    world = ReplayWorld("".join(lines).encode())
    with in_order():
        check(session(world, queue) == seen, "the same errors")
    world.finish()
    check(world.differ == 0, str(world.differences))


def test_a_machine_that_refuses_is_replayed() -> None:
    """The errno of the machine, in the error's cause, too."""
    lines: list[str] = []
    board = open_board("gfx1100")
    board.denied.add("/dev/kfd")
    own: Any = board
    for world in (RecordingWorld(ForeignWorld(own), lines.append), None):
        with pytest.raises(DeviceError) as refused:
            open_on(world or ReplayWorld("".join(lines).encode()))
        cause = refused.value.__cause__
        check("/dev/kfd" in str(refused.value) and isinstance(cause, OSError), str(refused.value))
        check(isinstance(cause, OSError) and cause.errno == 13, repr(cause))
