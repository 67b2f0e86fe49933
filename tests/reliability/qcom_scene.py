"""A short life with an Adreno (open, copy, launch, fault, close), where requests go wrong."""

from __future__ import annotations

import gc
from dataclasses import astuple, replace
from functools import cache
from typing import Any

import numpy as np

from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from compilers import toolchains
from drivers.base.contracts import Binary, World
from drivers.base.errors import DeviceError, DeviceFault
from drivers.choice import choose
from drivers.qcom.device import QcomDevice
from drivers.qcom.opening import open_qcom
from queues.qcom import pm4
from queues.qcom.contracts import Item
from tests.contract.kernels import combine
from tests.reliability.amd_scene import let_go
from tests.support import check

N = 64
CHIPS = {"KGSL": "a630", "MSM": "a660"}


def board(iface: str = "KGSL", *, fault_info: bool = True) -> Any:
    """A small board. Over KGSL its SMMU does not look into the host's caches."""
    options = AdrenoOptions(
        iface=iface, dram_bytes=64 << 20, late=True, coherent=iface != "KGSL", fault_info=fault_info
    )
    return open_qcom_board(CHIPS[iface], options=options)


def open_on(world: World, iface: str = "KGSL") -> QcomDevice:
    """The device of a board; a hang is one after five seconds of the board."""
    chosen = choose({"DEV": "QCOM", "QCOM_IFACE": iface})
    return open_qcom(world, replace(chosen, hang_s=5.0))


@cache
def _code(arch: str, max_block: int, limits: Any) -> Binary:
    return toolchains.build(combine(limits, N), "IR3", arch, frozenset())


def binary(device: QcomDevice) -> Binary:
    """c = 3 a + b of 64 int32."""
    return _code(device.arch, device.limits.max_block, device.limits)


def work(device: QcomDevice) -> None:
    """Copy in, launch, copy, copy out; wrong results are errors."""
    data = np.arange(N, dtype=np.int32)
    a, c, d = (device.alloc(data.nbytes) for _ in range(3))
    device.copy_in(a, memoryview(data))
    device.launch(device.load(binary(device)), [a, a, c], 1)
    signal = device.new_signal()
    device.compute_queue().signal(signal, 1).submit()
    device.copy_queue().wait(signal, 1).copy(d, c, data.nbytes).signal(signal, 2).submit()
    signal.wait(2)
    out = np.zeros(N, np.int32)
    device.copy_out(memoryview(out), d)
    np.testing.assert_array_equal(out, 4 * data)


def trouble(device: QcomDevice) -> None:
    """What the kernel driver reports: a stray store over KGSL, a wrong packet over msm."""
    program, a = device.load(binary(device)), device.alloc(N * 4)
    if device.iface.name == "KGSL":
        device.launch(program, [a, a, NOWHERE], 1)
    else:
        device.run([Item(pm4.pkt7(UNKNOWN_OP, [0]))], lambda: None)
    try:
        device.synchronize(20.0)
    except DeviceFault:
        return
    raise AssertionError("nobody reported the fault")


UNKNOWN_OP = 0x7E
"""No operation of the command processor's."""
NOWHERE = 0x7F00_0000_0000_0


def life(world: World, iface: str = "KGSL") -> None:
    """All of it, once."""
    with open_on(world, iface) as device:
        work(device)
        trouble(device)
        work(device)


def outcome(world: World, iface: str = "KGSL") -> DeviceError | None:
    """The error of a life, undone as far as it was done. Errors that are not ours go on."""
    try:
        life(world, iface)
    except DeviceError as error:
        let_go(error)
        return error
    return None


def nothing_left(one: Any, what: str) -> None:
    """The board is as it was in the beginning."""
    if one.baseline().mappings:
        gc.collect()  # views in cycles of an error and its frames
    if one.baseline().dram_bytes:
        one.sleep(5.0)  # msm keeps what a submission names until that has run
    check(sum(astuple(one.baseline())) == 0, f"{what} left {one.baseline()}")
