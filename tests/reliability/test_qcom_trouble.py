"""Faults of an Adreno, over both kernel drivers: each is named, and the next launch is right."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from drivers.base.errors import DeviceError, DeviceFault, DeviceTimeout, Hang
from drivers.qcom.device import QcomDevice
from drivers.world.foreign import ForeignWorld
from queues.qcom import pm4
from queues.qcom.contracts import Item
from tests.reliability.qcom_scene import (
    NOWHERE,
    UNKNOWN_OP,
    N,
    binary,
    board,
    nothing_left,
    open_on,
    work,
)
from tests.support import check


def emit(device: QcomDevice, words: list[int]) -> None:
    """Packets of a test's own."""
    device.run([Item(words)], lambda: None)


def provoke(device: QcomDevice, make: Any) -> None:
    make(device)
    device.synchronize(20.0)


def launch(device: QcomDevice, *args: Any) -> None:
    device.launch(device.load(binary(device)), args, 1)


def bad_read(device: QcomDevice) -> None:
    c = device.alloc(N * 4)
    launch(device, NOWHERE, c, c)


def bad_write(device: QcomDevice) -> None:
    a = device.alloc(N * 4)
    launch(device, a, a, NOWHERE)


def read_only(device: QcomDevice) -> None:
    """Code may not be written."""
    a, program = device.alloc(N * 4), device.load(binary(device))
    device.launch(program, [a, a, program.gpu_va], 1)
    device.synchronize(20.0)


def unknown_operation(device: QcomDevice) -> None:
    emit(device, pm4.pkt7(UNKNOWN_OP, [0]))


def wrong_parity(device: QcomDevice) -> None:
    emit(device, [pm4.pkt7(pm4.Op.NOP)[0] ^ 1 << 15])


def no_packet(device: QcomDevice) -> None:
    emit(device, [0xFFFFFFFF])


def too_few_words(device: QcomDevice) -> None:
    emit(device, pm4.pkt7(pm4.Op.WAIT_REG_MEM, [0]))


def bad_event(device: QcomDevice) -> None:
    emit(device, pm4.event_value(pm4.Event.CACHE_FLUSH_TS, NOWHERE, 1))


def bad_copy(device: QcomDevice) -> None:
    emit(device, pm4.memcpy(NOWHERE, NOWHERE + 4096, 4))


def bad_constants(device: QcomDevice) -> None:
    kind, block = pm4.StateType.CONSTANTS, pm4.StateBlock.CS_SHADER
    emit(device, pm4.load_state(block, kind, first=0, units=1, va=NOWHERE))


def endless_wait(device: QcomDevice) -> None:
    """The command processor waits for a value that nobody writes."""
    signal = device.new_signal()
    emit(device, pm4.wait_memory(signal.gpu_va, 1))


def bad_indirect_buffer(device: QcomDevice) -> None:
    emit(device, pm4.pkt7(pm4.Op.INDIRECT_BUFFER, [*pm4.halves(NOWHERE), 4]))


STRAY = (bad_read, bad_write, read_only, bad_event, bad_copy, bad_constants)
"""Accesses that the SMMU refuses; the work goes on."""
WRONG = (unknown_operation, wrong_parity, no_packet, too_few_words, endless_wait,
         bad_indirect_buffer)  # fmt: skip
CASES = [*((make, one) for make in WRONG for one in ("KGSL", "MSM")),
         *((make, "KGSL") for make in STRAY)]  # fmt: skip
"""What is reported: stray accesses by KGSL alone, where root set ft_pagefault_policy."""


@pytest.mark.parametrize(("make", "iface"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_a_fault_is_reported_and_the_next_work_runs(make: Any, iface: str) -> None:
    one = board(iface)
    with open_on(ForeignWorld(one), iface) as device:
        work(device)
        with pytest.raises((DeviceFault, Hang)) as caught:
            provoke(device, make)
        error = caught.value
        check("compute queue" in str(error) and error.hint, str(error))
        for _ in range(3):
            work(device)
        device.synchronize()
    nothing_left(one, make.__name__)


@pytest.mark.parametrize("make", STRAY, ids=lambda make: make.__name__)
def test_msm_counts_no_stray_access(make: Any) -> None:
    """Whatever becomes of its results, the next work is right.

    # src: Linux 5.15 to 7.3, msm_gpu.c recover_worker() alone counts faults, those of hangs
    """
    one = board("MSM")
    with open_on(ForeignWorld(one), "MSM") as device:
        work(device)
        with suppress(DeviceFault, Hang):
            provoke(device, make)
        for _ in range(3):
            work(device)
        device.synchronize()
    nothing_left(one, make.__name__)


def test_faults_of_others_are_not_ours() -> None:
    """MSM_PARAM_FAULTS also counts hangs of processes that are gone (global_faults)."""
    one = board("MSM")
    with open_on(ForeignWorld(one), "MSM") as device:
        work(device)
        for file in [file for file in one._fds.values() if file.msm is not None]:
            file.msm.submits.faults += 1
        device.synchronize(20.0)
        work(device)
    nothing_left(one, "a fault of others")


def test_a_fault_names_the_kernel_and_shows_the_packets() -> None:
    """Where the kernel driver gives no address of it."""
    one = board(fault_info=False)
    with open_on(ForeignWorld(one)) as device:
        bad_write(device)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize(20.0)
        check(caught.value.kernel == "combine", str(caught.value))
        check(re.search(r"EXEC_CS", str(caught.value)), str(caught.value))
        work(device)
    nothing_left(one, "a fault")


def test_a_hang_of_the_panel() -> None:
    """A context makes no progress: the kernel driver ends it, and the device goes on."""
    one = board()
    with open_on(ForeignWorld(one)) as device:
        one.panel.hang(device.compute.hw.number)
        launch(device, *[device.alloc(N * 4) for _ in range(3)])
        with pytest.raises((Hang, DeviceFault)):
            device.synchronize(60.0)
        work(device)
    nothing_left(one, "a hang")


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_work_that_waits_for_the_host_is_no_hang(iface: str) -> None:
    """It is held for as long as nobody signals, longer than any kernel driver would let it wait."""
    one = board(iface)
    with open_on(ForeignWorld(one), iface) as device:
        data = np.arange(N, dtype=np.int32)
        a, c = device.alloc(data.nbytes), device.alloc(data.nbytes)
        device.copy_in(a, memoryview(data))
        signal, program = device.new_signal(), device.load(binary(device))
        device.compute_queue().wait(signal, 3).exec(program, [a, a, c]).submit()
        with pytest.raises(DeviceTimeout):
            device.synchronize(4.0)
        signal.set(3)
        device.synchronize(4.0)
        out = np.zeros(N, np.int32)
        device.copy_out(memoryview(out), c)
        np.testing.assert_array_equal(out, 4 * data)
        check(not one.hardware.log, str(one.hardware.log))
    nothing_left(one, "a wait")


def test_errors_of_a_submission_leave_the_ring_as_it_was() -> None:
    """ENOMEM once: the launch is refused, the next one runs."""
    one = board()
    with open_on(ForeignWorld(one)) as device:
        work(device)
        a = device.alloc(N * 4)
        program, before = device.load(binary(device)), device.compute.put
        one.panel.fail_ioctl(0x4A, 12)
        with pytest.raises(DeviceError):
            device.launch(program, [a, a, a], 1)
        check(device.compute.put == before, "the ring")
        work(device)
    nothing_left(one, "an error")
