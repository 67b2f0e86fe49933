"""Devices that are opened by number on boards with several GPUs, some of them hidden."""

from __future__ import annotations

import pytest

import drivers
from boards.amd.machine import open_board
from drivers.amd.kfd.session import close_session
from drivers.base.errors import NotFound
from drivers.world.foreign import ForeignWorld
from tests.support import check

GPUS = 3
UNIQUE_ID = 0x5A17_0000_0001_ADB0  # of the board's first GPU: 110000 in its last digits


@pytest.mark.parametrize(
    ("environ", "order"),
    [
        ({}, [0, 1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"HIP_VISIBLE_DEVICES": f"GPU-{UNIQUE_ID + (1 << 32):016x}"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1,5"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_a_number_is_one_of_the_gpus_that_are_left(
    environ: dict[str, str], order: list[int]
) -> None:
    board = open_board("gfx1100", gpus=GPUS)
    world = ForeignWorld(board)
    for number, gpu in enumerate(order):
        with drivers.open(f"AMD:{number}", world=world, environ=environ) as device:
            found = device.iface.node.unique_id
            check(found == UNIQUE_ID + (gpu << 32), f"AMD:{number} is {found:#x}, not GPU {gpu}")
            check(device.name == f"AMD:{number}", device.name)
    hint = "hidden from this process" if environ else "there is no AMD:3"
    with pytest.raises(NotFound, match=hint):
        drivers.open(f"AMD:{len(order)}", world=world, environ=environ)
    if order:
        close_session(world)
    check(not board.violations, str(board.violations))


def test_the_default_device_is_one_that_is_left() -> None:
    board = open_board("gfx1100", gpus=GPUS)
    world = ForeignWorld(board)
    with drivers.open(world=world, environ={"ROCR_VISIBLE_DEVICES": "1"}) as device:
        found = device.iface.node.unique_id
        check((device.name, found) == ("AMD:0", UNIQUE_ID + (1 << 32)), f"{found:#x}")
    close_session(world)
