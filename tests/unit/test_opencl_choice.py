"""Which OpenCL device is opened, and kernels that are none."""

from __future__ import annotations

import pytest

import drivers
from drivers.base.errors import BadChoice, MalformedInput, NotFound
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
from queues.cl.kernel_code import ClCode
from tests.opencl import PLATFORMS, need
from tests.support import check


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_device_by_name_and_by_number(platform: str) -> None:
    wanted = need(platform)
    world = LinuxWorld()
    names = [one.platform_name for one in find(world)[0]]
    for value in (wanted.upper(), str(names.index(wanted))):
        with drivers.open("CL", world=world, environ={"CL_DEVICE": value}) as device:
            check(wanted in repr(device) and device.name == "CL:0", f"{device}")
    with pytest.raises(NotFound, match="there is no CL:9"):
        drivers.open("CL:9", world=world, environ={})
    for value in ("no such platform", "99"):
        with pytest.raises(BadChoice, match="CL_DEVICE"):
            drivers.open("CL", world=world, environ={"CL_DEVICE": value})


def test_images_that_are_no_kernels() -> None:
    good = ClCode(b"program", b"source", 3, 64, 64, 128)
    image = good.encode()
    check(ClCode.decode(image) == good, "there and back")
    for wrong in (b"", image[:20], image[:-1], image + b"x", b"UCL0" + image[4:]):
        with pytest.raises(MalformedInput):
            ClCode.decode(wrong)
