"""A618 and A619: one shader processor, 64 units of instructions, no second compute pipe."""

from __future__ import annotations

import numpy as np
import pytest

from boards.qcom.chips import CHIPS
from drivers.base.errors import Unsupported
from queues.qcom.chips import chip_named, chip_of
from tests.qcom_devices import QcomMachine, opened
from tests.reliability.qcom_scene import N, work
from tests.support import check

REVISION = 0x06010901
"""As SM6375 has it. # src: Linux, a6xx_catalog.c"""
A610 = 0x06010000


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
@pytest.mark.parametrize("name", ["a618", "a619"])
def test_a_small_chip_computes(name: str, iface: str) -> None:
    machine = QcomMachine(name, iface)
    with opened(machine, iface) as device:
        check(device.arch == name and device.chip.sp_cores == CHIPS[name].sps == 1)
        work(device)
        data, out = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
        buffer = device.alloc(data.nbytes)
        device.copy_in(buffer, memoryview(data))
        device.copy_out(memoryview(out), buffer)
        np.testing.assert_array_equal(out, data)
    check(not (found := machine.found()), str(found))


def test_revisions_are_one_chip_and_others_are_refused() -> None:
    check(chip_of(REVISION) is chip_named("a619"))
    with pytest.raises(Unsupported, match="0x06010000"):
        chip_of(A610)
