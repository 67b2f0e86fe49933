"""An NVIDIA GPU of this machine: every engine, tensor programs, faults, hangs, leaks.

Over NVIDIA's kernel driver where there is /dev/nvidiactl. Faults happen in processes of their own,
so that one that is not survived ends nothing else. The same runs on board ga102.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.front import Setup, power_on
from boards.nv.warp import execute
from compilers.nv.smoke import firmware
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceFault, Hang, NotFound, Unsupported
from drivers.choice import Choice, choose
from drivers.nv.device import NvDevice
from drivers.nv.opening import open_nv
from drivers.nv.tools.smoke import smoke
from drivers.world.linux import LinuxWorld
from tensor import engine
from tests.hardware.nv_kernels import illegal, kernel
from tests.nv_boards import need
from tests.support import check

Place = tuple[World, Choice]
HANG_S = 3.0
ROUNDS = 5
LANES = 64
LAUNCHES = 500
MOST_STEPS = 50_000
"""After which a kernel on the board counts as endless."""
NOWHERE = 0x40_0000_0000
"""Beyond what this driver gives out, and 2^40."""


@pytest.fixture(params=["this machine", "board"], scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The machine; and a board, which shows that these tests are fit to be run on one."""
    if request.param == "this machine":
        if not os.path.exists("/dev/nvidiactl"):
            pytest.skip("no /dev/nvidiactl")
        need(ptx=False)
        yield LinuxWorld(), choose({**os.environ, "DEV": "NV"})
        return
    need(ptx=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_MOST_STEPS", MOST_STEPS)
        yield power_on(Setup("ga102", gpus=2, vram_bytes=256 << 20)).world, choose({"DEV": "NV"})


@contextmanager
def opened(place: Place, hang_s: float = 60.0) -> Iterator[NvDevice]:
    try:
        device = open_nv(place[0], replace(place[1], hang_s=hang_s))
    except DeviceError as error:
        pytest.fail(f"{type(error).__name__}: {error}")
    with device:
        yield device


def still_works(device: NvDevice) -> None:
    """An addition gives the sums that numpy has."""
    data = np.arange(LANES, dtype=np.uint32)
    a, c = device.alloc(data.nbytes), device.alloc(data.nbytes)
    device.copy_in(a, memoryview(data))
    device.launch(device.load(kernel("add", device.arch)), [a, a, c, LANES], 1)
    out = np.zeros(LANES, np.uint32)
    device.copy_out(memoryview(out), c)
    np.testing.assert_array_equal(out, 2 * data)


def test_every_engine(place: Place) -> None:
    outcomes = list(smoke(*place, firmware))
    for outcome in outcomes:
        print(outcome)
    check(outcomes and all(outcome.ok for outcome in outcomes), str(outcomes))


def test_tensor_programs_equal_numpy(place: Place) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64)).astype(np.float32)
    programs: list[tuple[Callable[[xp.Tensor, xp.Tensor], xp.Tensor], Any]] = [
        (lambda x, y: x @ y, a @ b),
        (lambda x, y: xp.sum(x * y, axis=1), (a * b).sum(axis=1)),
        (lambda x, y: xp.exp(x) + y, np.exp(a) + b),
        (lambda x, y: xp.sort(x, axis=1), np.sort(a, axis=1)),
    ]
    with opened(place) as device, engine.adopted("NV", device):
        for program, expected in programs:
            x, y = xp.asarray(a, device="NV"), xp.asarray(b, device="NV")
            np.testing.assert_allclose(program(x, y).numpy(), expected, rtol=2e-5, atol=2e-5)


def test_opened_again_and_again(place: Place) -> None:
    for _ in range(ROUNDS):
        with opened(place) as device:
            still_works(device)


def test_launches_grow_nothing(place: Place) -> None:
    with opened(place) as device:
        program = device.load(kernel("add", device.arch))
        a, ones = device.alloc(4 * LANES), device.alloc(4 * LANES)
        for buffer, value in ((a, 0), (ones, 1)):
            device.copy_in(buffer, memoryview(np.full(LANES, value, np.uint32)))
        held = device.iface.handles, device.iface.bytes_held, len(os.listdir("/proc/self/fd"))
        for _ in range(LAUNCHES):
            device.launch(program, [a, ones, a, LANES], 1)
        out = np.zeros(LANES, np.uint32)
        device.copy_out(memoryview(out), a)
        check(bool((out == LAUNCHES).all()), str(out[:4]))
        now = device.iface.handles, device.iface.bytes_held, len(os.listdir("/proc/self/fd"))
        check(now == held, f"{now}, not {held}")


def test_memory_of_another_gpu(place: Place) -> None:
    """Written by its owner after the other one has read it: what the other holds is not stale."""
    world, choice = place
    try:
        other = open_nv(world, replace(choice, index=1))
    except NotFound:
        pytest.skip("one NVIDIA GPU alone")
    with opened(place) as one, other:
        a, c = one.alloc(4 * LANES), other.alloc(4 * LANES)
        try:
            a.map_to(other)
        except Unsupported as error:
            print(error)
            return
        program, out = other.load(kernel("add", other.arch)), np.zeros(LANES, np.uint32)
        for round_ in range(ROUNDS):
            one.copy_in(a, memoryview(np.full(LANES, round_, np.uint32)))
            other.launch(program, [a, a, c, LANES], 1)
            other.copy_out(memoryview(out), c)
            check(bool((out == 2 * round_).all()), f"round {round_}: {out[:4]}")


FAULTS = {
    "write": ("write", NOWHERE, "unmapped"), "read": ("read", NOWHERE, "unmapped"),
    "atomic": ("atomic", NOWHERE, "unmapped"), "misaligned": ("misaligned", 0, "misaligned"),
    "illegal": ("", 0, "illegal instruction"), "endless": ("endless", 0, ""),
}  # fmt: skip
"""(kernel, where its third pointer points, what the error says)."""


def faulty(place: Place, name: str) -> None:
    """One fault, what is reported of it, and work after it. Prints the report."""
    source, where, kind = FAULTS[name]
    with opened(place, HANG_S) as device:
        made = kernel(source, device.arch) if source else illegal(device.arch)
        program, a = device.load(made), device.alloc(4 * LANES)
        device.copy_in(a, memoryview(bytes(4 * LANES)))
        device.launch(program, [a, a, where or a, 0], 1)
        with pytest.raises(DeviceFault if kind else Hang) as raised:
            device.synchronize()
        error: Any = raised.value
        print(error)
        check(kind in error.kind if kind else "made no progress" in str(error), str(error))
        if where:
            check(error.gpu_va // 4096 == where // 4096, hex(error.gpu_va))
        still_works(device)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_survived(place: Place, name: str) -> None:
    pid = os.fork()
    if not pid:
        status = 1
        try:
            faulty(place, name)
            status = 0
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    check(code == 0, f"{name} ended with {code}")
    with opened(place) as device:
        still_works(device)
