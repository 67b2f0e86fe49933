"""A bare GPU: what goes wrong is named and survived; nothing of an owner is left for the next."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boards.amd.cp.engines import Engines
from boards.amd.machine import Options
from boards.amd.pci_machine import MachineOptions, another_process, open_pci_board
from boards.amd.wave.types import MemoryFault
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.amd.pci import compute_queue
from drivers.amd.program import AmdProgram
from drivers.base.errors import (
    Busy,
    DeviceFault,
    DeviceGone,
    Hang,
    NotFound,
    Unsupported,
    UseAfterFree,
)
from drivers.gpu.iface import Use
from queues.amd.kernel_code import AmdCode
from tests.boards.driver_harness import (
    add,
    device_on,
    device_over_pci,
    get,
    kernel,
    open_over_pci,
    put,
)
from tests.boards.test_driver_faults import ENDLESS, still_works
from tests.support import check

N = 64
VMID = 8
"""The first one that compute uses. # src: amdgpu_vm_manager, first_kfd_vmid"""
BIG_BYTES = 256 << 10
VRAM_BYTES = 256 << 20
LONG_S = 20
SHORT_S = 0.3
HASTY = {"AMD_HANG_S": str(SHORT_S)}
MIB = 1 << 20
SECRET = b"the last owner's"
KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PCI PM4"), ("gfx1100", "VRAM AQL"), ("gfx1201", "VRAM PM4"),
     ("gfx942", "PCI AQL")],
)  # fmt: skip


def kill(board: PciWorld, device: AmdDevice) -> PciWorld:
    """SIGKILL of the device's process; another one. What it would do at its exit never happens."""
    board.kill()
    gpu, claimed, _ = device.iface._give_back.args
    atexit.unregister(gpu.session.close)
    atexit.unregister(claimed.close)
    claimed.is_open = False  # nor does its claim live on in this process
    return another_process(board)


def work(device: AmdDevice) -> None:
    """Load, launch, compare."""
    still_works(device, device.load(add(device.arch)))


@KINDS
def test_faults_are_named_and_survived(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))
        big, x = device.alloc(BIG_BYTES), device.alloc(4 * N)
        cases = [
            ([0x10000, x, x], 0x10000, "read"),
            ([x, x, big.gpu_va + BIG_BYTES], big.gpu_va + BIG_BYTES, "write"),
            ([x, x, big.gpu_va + BIG_BYTES], big.gpu_va + BIG_BYTES, "write"),
        ]
        for args, va, access in cases:
            device.launch(program, [*args, N], 1)
            with pytest.raises(DeviceFault) as caught:
                device.synchronize()
            fault = caught.value
            shown = (fault.kind, fault.gpu_va, fault.access, fault.kernel)
            check(shown == ("unmapped", va, access, "k"), str(fault))
            check(" by TCP at " in str(fault), f"the registers kept another fault: {fault}")
            check(("0x0 bytes behind" in str(fault)) == (access == "write"), str(fault))
            still_works(device, program)


def goes_on(board: PciWorld, va: int, *, sdma: bool = False) -> None:
    """A page fault is told and nothing stops, as where it leads to the dummy page.

    # src: amdgpu_drv.c vm_fault_stop: 0 = never (default)
    """
    graphics: Any = board.gpus[0].graphics
    graphics.compute._interrupts.fault(VMID, MemoryFault("unmapped", "write", va), sdma=sdma)


@KINDS
def test_a_fault_that_stops_nobody_is_told(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (board, device):
        program, x = device.load(add(chip)), put(device, np.ones(N, np.float32))
        device.launch(program, [x, x, x, N], 1)
        for va in range(0x10000, 0x90000, 0x1000):
            goes_on(board, va)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        fault = caught.value
        check((fault.gpu_va, fault.queue) == (0x10000, "AMD:0 compute queue"), str(fault))
        still_works(device, program)


def test_a_fault_of_a_queue_that_is_gone_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its waves still do while it is stopped is no fault of the queue behind it."""
    stop = compute_queue.deactivate
    with device_on("gfx1100", "PCI PM4") as (board, device):
        program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))

        def stop_late(gpu: Any, spec: Any) -> bool:
            stopped = stop(gpu, spec)
            goes_on(board, 0x20000)
            return stopped

        stick(board, "PM4", for_good=False)
        device.launch(program, [x, x, x, N], 1)
        goes_on(board, 0x10000)
        with monkeypatch.context() as patched:
            patched.setattr(compute_queue, "deactivate", stop_late)
            with pytest.raises(DeviceFault) as caught:
                device.synchronize()
        check(caught.value.gpu_va == 0x10000, str(caught.value))
        still_works(device, program)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
def test_a_copy_engines_fault_leaves_the_compute_queue_alone(chip: str) -> None:
    with device_on(chip, "PCI AQL", **HASTY) as (board, device):
        program, x = device.load(add(chip)), put(device, np.ones(N, np.float32))
        stick(board, "AQL", for_good=False)
        device.launch(program, [x, x, x, N], 1)
        compute = device.compute
        goes_on(board, 0x10000, sdma=True)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        check(caught.value.queue == "AMD:0 copy queue", str(caught.value))
        check(device.compute is compute and not compute.gone, "its work was dropped")
        with pytest.raises(Hang):
            device.synchronize()
        still_works(device, program)


@KINDS
def test_code_and_constants_are_read_only(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program, x = device.load(add(chip)), put(device, np.ones(N, np.float32))
        constant = device.iface.allocate(4096, Use.CONSTANT, "constants")
        for target in (program.kernel.code_va, constant.gpu_va):
            device.launch(program, [x, x, target, N], 1)
            with pytest.raises(DeviceFault) as caught:
                device.synchronize()
            check(caught.value.kind == "read-only", str(caught.value))
        still_works(device, program)
        constant.free()


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_data_is_not_executed(chip: str) -> None:
    """A copy of a program's image, where data lies."""
    with device_on(chip, "PCI PM4") as (_, device):
        program, image = device.load(add(chip)), add(chip).image
        data = device.alloc(BIG_BYTES)
        device.copy_in(data, memoryview(image))
        code = data.gpu_va + AmdCode.of(add(chip)).code_offset
        launcher = device.programs.prepare(replace(program.kernel, code_va=code), (64, 1, 1), True)
        device.compute.quick(launcher, [data.gpu_va] * 3 + [N], 1)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        fault = caught.value
        check((fault.kind, fault.gpu_va) == ("no-execute", code & -4096), str(fault))
        still_works(device, program)


def stick(board: PciWorld, queue: str, *, for_good: bool) -> None:
    """One of the device's queues makes no progress."""
    graphics: Any = board.gpus[0].graphics
    part = graphics.sdma if queue == "SDMA" else graphics.compute
    for key in part.queues():
        part.hang(key, for_good=for_good)


@pytest.mark.parametrize("way", ["PCI", "VRAM"])
@pytest.mark.parametrize("queue", ["PM4", "AQL", "SDMA"])
def test_a_hung_queue_is_replaced(queue: str, way: str) -> None:
    kind = "PM4" if queue == "SDMA" else queue
    with device_on("gfx1100", f"{way} {kind}", **HASTY) as (board, device):
        program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))
        for _ in range(3):
            stick(board, queue, for_good=False)
            with pytest.raises(Hang) as caught:
                busy(device, program, x, queue)
            check("can be used" in caught.value.hint, str(caught.value))
            still_works(device, program)
        board.hardware.forget_violations()  # that the engine was enabled while it hung


def busy(device: AmdDevice, program: AmdProgram, x: AmdBuffer, queue: str) -> None:
    """Work for a queue, and waiting for it."""
    if queue == "SDMA":
        get(device, x)
        return
    device.launch(program, [x, x, x, N], 1)
    device.synchronize()


@pytest.mark.parametrize("iommu", [True, False])
@pytest.mark.parametrize("queue", ["PM4", "AQL", "SDMA"])
def test_a_queue_that_ignores_its_reset_costs_the_gpu(queue: str, iommu: bool) -> None:
    """The GPU is reset, the device is gone and says what to do; opened again it boots cold."""
    board = open_pci_board("gfx1100", options=MachineOptions(iommu=iommu, vram_bytes=VRAM_BYTES))
    kind = "PM4" if queue == "SDMA" else queue
    with open_over_pci(board, kind, **HASTY) as device:
        program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))
        never = device.new_signal()
        stick(board, queue, for_good=True)
        with pytest.raises(Hang) as caught:
            busy(device, program, x, queue)
        check("open it again" in caught.value.hint, str(caught.value))
        for what in (
            lambda: device.launch(program, [x, x, x, N], 1),
            lambda: device.alloc(BIG_BYTES),
            lambda: get(device, x),
            lambda: device.load(add("gfx1100")),
            lambda: never.wait(1, SHORT_S),
            device.synchronize,
        ):
            with pytest.raises(DeviceGone, match="was reset"):
                what()
    with open_over_pci(board, kind) as device:
        work(device)
    check(not any(board.baseline().values()), f"{board.baseline()}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_an_endless_kernel(queue: str) -> None:
    options = Options(engines=lambda host: Engines(host, max_steps=2000))
    with device_over_pci("gfx1100", queue, options=options, **HASTY) as (_, device):
        program = device.load(kernel(ENDLESS, "gfx1100", 1))
        good = device.load(add("gfx1100"))
        device.launch(program, [device.alloc(64)], 1)
        with pytest.raises(Hang, match="in kernel 'k'"):
            device.synchronize()
        still_works(device, good)


@pytest.mark.parametrize("iommu", [True, False])
@pytest.mark.parametrize("killed", [True, False])
def test_the_next_owner_reads_nothing_of_the_last(killed: bool, iommu: bool) -> None:
    """Every page that a process gets is zero, although the last owner filled the memory."""
    board = open_pci_board("gfx1100", options=MachineOptions(iommu=iommu, vram_bytes=VRAM_BYTES))
    device = open_over_pci(board, "PM4")
    secret = memoryview(SECRET * (32 * MIB // len(SECRET)))
    held = [device.alloc(32 * MIB) for _ in range(3)]
    for buffer in held:
        device.copy_in(buffer, secret)
    if killed:
        board = kill(board, device)
    else:
        device.close()
    with open_over_pci(board, "PM4") as device:
        for nbytes in (100, 40_000, 100 << 10, 8 * MIB, 100 * MIB):
            check(not np.any(get(device, device.alloc(nbytes), "uint8")), f"{nbytes} bytes")
        work(device)
    check(not board.violations, f"{[str(one) for one in board.violations[:5]]}")


def test_memory_comes_back_zeroed_to_its_own_process() -> None:
    with device_on("gfx1100", "PCI PM4") as (_, device):
        for nbytes in (3 << 20, 64 << 10):
            buffer = put(device, np.full(nbytes, 0x5A, np.uint8))
            buffer.free()
            device.trim()
            again = device.alloc(nbytes)
            check(not np.any(get(device, again, "uint8")), f"{nbytes} bytes")
            again.free()


def test_a_second_process_is_refused_until_the_first_is_gone() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(vram_bytes=VRAM_BYTES))
    other = another_process(board)
    with open_over_pci(board) as device:
        with pytest.raises(Busy) as caught:
            open_over_pci(other)
        check(caught.value.pid == board.pid, f"{caught.value.pid}")
        work(device)
    with open_over_pci(other) as device:
        work(device)
    check(not other.violations, f"{other.violations[:5]}")


def test_the_kernels_driver_has_it_before_and_after() -> None:
    options = MachineOptions(vram_bytes=VRAM_BYTES, amdgpu=True)
    board = open_pci_board("gfx1100", options=options)
    address = board.machine.slot(0).address
    driver = f"/sys/bus/pci/devices/{address}/driver"
    before = board.readlink(driver)
    with open_over_pci(board) as device:
        work(device)
        check(board.readlink(driver) != before)
    check(board.readlink(driver) == before, board.readlink(driver))
    device = open_over_pci(board)
    work(device)
    board = kill(board, device)
    check(board.readlink(driver) != before)
    with open_over_pci(board) as device:
        work(device)
    check(board.readlink(driver) == before, board.readlink(driver))


def test_two_gpus_are_two_devices() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(gpus=2, vram_bytes=VRAM_BYTES))
    with open_over_pci(board) as first, open_over_pci(board, DEV="AMD:1") as second:
        check((first.name, second.name) == ("AMD:0", "AMD:1"))
        work(first)
        work(second)
        with pytest.raises(Unsupported, match="copy it through the host"):
            first.alloc(64).map_to(second)
    with pytest.raises(NotFound, match="2 GPUs there are known"):
        open_over_pci(board, DEV="AMD:2")


def test_a_child_after_fork_touches_nothing() -> None:
    a = np.arange(N, dtype=np.float32)
    with device_on("gfx1100", "VRAM PM4") as (board, device):
        program, x, y = device.load(add("gfx1100")), put(device, a), device.alloc(4 * N)
        child = os.fork()
        if child == 0:
            signal.alarm(LONG_S)
            before, refused = board.panel.count, 0
            steps: list[Callable[[], object]] = [
                lambda: device.launch(program, [x, x, y, N], 1),
                lambda: device.alloc(BIG_BYTES),
                lambda: put(device, a),
                lambda: device.iface.wait(1),
                device.synchronize,
            ]
            for step in steps:
                try:
                    step()
                except UseAfterFree as error:
                    refused += "forked" in str(error)
            device.close()
            os._exit(0 if refused == len(steps) and board.panel.count == before else 1)
        _, status = os.waitpid(child, 0)
        np.testing.assert_equal(os.waitstatus_to_exitcode(status), 0)
        device.launch(program, [x, x, y, N], 1)
        np.testing.assert_array_equal(get(device, y), a + a)
