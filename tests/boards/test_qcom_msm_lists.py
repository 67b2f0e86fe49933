"""What each submission over msm carries, by the rules of the oldest kernel that has them."""

from __future__ import annotations

import struct
from typing import Any, Final

import pytest

from tests.qcom_devices import QcomMachine, opened
from tests.reliability.qcom_scene import work
from tests.support import check

BO_FLAGS: Final = 0x7
"""MSM_SUBMIT_BO_READ, WRITE, DUMP. # src: Linux 5.15 and 6.1, msm_drm.h MSM_SUBMIT_BO_FLAGS"""
READ: Final = 1


@pytest.mark.parametrize("kernel", ["5.15", "6.1"])
def test_objects_have_flags_of_linux_5_15(kernel: str) -> None:
    """msm_gem_submit.c submit_lookup_objects() answers EINVAL to others before Linux 6.3."""
    machine = QcomMachine("a650", "MSM", kernel=kernel)
    with opened(machine, "MSM") as device:
        work(device)
        iface: Any = device.iface
        objects = iface.objects
        entries = struct.iter_unpack("<IIQ", objects._table.read(0, 16 * objects.count))
        found = [flags for flags, _, _ in entries]
        check(len(found) > 2 and all(one & READ and not one & ~BO_FLAGS for one in found))
    check(not (wrong := machine.found()), str(wrong))
