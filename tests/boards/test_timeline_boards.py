"""Timelines on software boards: faults, and commands around boards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards.front import Setup, power_on, tuning_of
from drivers.base.errors import DeviceFault
from drivers.timeline.attach import attach
from tests.boards.driver_harness import add, device_on, get, put
from tests.support import check

N = 64


def slices(path: Path) -> list[Any]:
    return [one for one in json.loads(path.read_text()) if one["ph"] == "X" and one["tid"] == 1]


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_what_a_fault_stopped_gets_no_times_and_what_follows_does(
    queue: str, tmp_path: Path
) -> None:
    path, a = tmp_path / "out.json", np.arange(N, dtype=np.float32)
    with device_on("gfx1100", queue) as (_, device):
        attach(device, device.iface.world, str(path))
        program = device.load(add("gfx1100"))
        x, y = put(device, a), device.alloc(4 * N)
        device.launch(program, [x, x, y, N], 1)
        for _ in range(2):
            device.launch(program, [0x10000, x, x, N], 1)
            with pytest.raises(DeviceFault):
                device.synchronize()
            device.launch(program, [x, x, y, N], 1)
            np.testing.assert_array_equal(get(device, y), a + a)
    notes = [one["name"] for one in json.loads(path.read_text()) if one["ph"] == "i"]
    check(len(slices(path)) == 3 and notes == ["2 steps without times"], f"{slices(path)} {notes}")


@pytest.mark.parametrize("chip", ["gfx1100", "a630"])
def test_a_command_around_a_board_takes_the_variable(chip: str, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    tuning = tuning_of(chip, {"UNBOUND_TRACE": str(path), "HOME": "/"})
    with power_on(Setup(chip, tuning=tuning)).open() as device:
        x = device.alloc(64)
        device.copy_in(x, memoryview(bytes(64)))
    names = [one["name"] for one in json.loads(path.read_text())]
    check(names[-1] == "copy_in" and "process_name" in names, f"{names}")
