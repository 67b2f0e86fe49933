"""What a device says of float32 and of workgroups: build options, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from compilers.opencl.family import PROCESSOR
from drivers.base.contracts import World
from drivers.base.errors import Unsupported
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.building import builder
from drivers.cl.facts import ROUNDED, read_facts
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
from drivers.world.native import memory_at
from tests.contract.arrays import put
from tests.opencl import PLATFORMS, need, opencl
from tests.opencl_watch import watched_world
from tests.support import check

platforms = pytest.mark.parametrize("platform", PLATFORMS)
COUNT = 1 << 12
SOURCE = """
__kernel void k_div(__global float *a, __global float *b, __global float *c,
                    __global uchar *scratch, ulong count) {
    for (int i = 0; i < 4096; i++) { c[i] = a[i] / b[i]; b[i] = sqrt(a[i]); }
}
"""


@contextmanager
def answering(api: Api, call: str, which: int, change: Callable[[int], int]) -> Iterator[None]:
    """Within, a call's answer about `which` is another one. Numbers of 8 bytes."""
    inner = api.functions

    def changed(*args: int) -> int:
        status = inner[call](*args)
        if args[-4] == which and args[-2]:
            words = memory_at(args[-2], 8, lambda: None).cast("B").cast("Q")
            words[0] = change(words[0])
        return status

    api.functions = {**inner, call: changed}
    try:
        yield
    finally:
        api.functions = inner


@platforms
def test_division_is_correctly_rounded_where_that_is_offered(platform: str) -> None:
    name = need(platform)
    one = next(one for one in find(LinuxWorld())[0] if one.platform_name == name)
    bit = abi.FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
    about = one.api, "clGetDeviceInfo", abi.DEVICE_SINGLE_FP_CONFIG
    with answering(*about, lambda config: config | bit):
        offered = read_facts(one, lanes=False)
    with answering(*about, lambda config: config & ~bit):
        lacking = read_facts(one, lanes=False)
    check(offered.options == ROUNDED and not lacking.options, f"{offered.options}")
    check(offered.arch != lacking.arch, "kernels of other options are others")


@platforms
def test_quotients_and_roots(platform: str) -> None:
    """Those of numpy with the option; else as OpenCL C 3.0, "Relative Error as ULPs", bounds."""
    with opencl(platform) as device:
        rounded = ROUNDED in device.facts.options
        rng = np.random.default_rng(7)
        a, b = rng.uniform(1e-6, 1e6, (2, COUNT)).astype(np.float32)
        blob = builder(device.arch).build(SOURCE, 0).encode()
        program = device.load(PROCESSOR.load(blob, "div", device.arch))
        buffers = [put(device, values) for values in (a, b, np.zeros_like(a))]
        device.launch(program, buffers, 1)
        for buffer, wanted, ulps in ((buffers[2], a / b, 2.5), (buffers[1], np.sqrt(a), 3.0)):
            found = np.empty(COUNT, np.float32)
            device.copy_out(memoryview(found).cast("B"), buffer)
            off = np.abs(found.astype(np.float64) - wanted) / np.spacing(wanted)
            check(off.max() <= (0.0 if rounded else ulps), f"{off.max()} ulp")


@platforms
def test_a_workgroup_larger_than_the_driver_runs(platform: str) -> None:
    source = """
    __kernel __attribute__((reqd_work_group_size(64, 1, 1))) void k_x(__global int *a) { *a = 1; }
    """
    world: World = watched_world()[0]
    with opencl(platform, world, CL_LANES="1") as device:
        about = device.api, "clGetKernelWorkGroupInfo", abi.KERNEL_WORK_GROUP_SIZE
        with (
            answering(*about, lambda _: 63),
            pytest.raises(Unsupported, match=r"64 lanes.*63"),
        ):
            builder(device.arch).build(source, 64)
        check(builder(device.arch).build(source, 64).max_block == 64, "as the driver says")
