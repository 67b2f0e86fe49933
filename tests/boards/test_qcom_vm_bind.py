"""An Adreno over msm with VM_BIND: addresses of the driver's own, on a board."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.base.errors import DeviceError, DeviceGone, Unsupported
from drivers.base.oserrors import translate
from drivers.choice import choose
from drivers.gpu import lent as host_lent
from drivers.qcom.msm.abi import QUEUE_NEW
from drivers.qcom.msm.bind import SET_PARAM, SYNC_CREATE, SYNC_WAIT, VM_BIND
from drivers.qcom.msm.iface import MsmIface
from drivers.qcom.opening import open_qcom
from drivers.world.foreign import ForeignWorld
from tests.qcom_devices import QcomMachine, opened
from tests.reliability.amd_scene import let_go
from tests.reliability.qcom_scene import N, binary, nothing_left, work
from tests.support import check

SETTINGS = {"QCOM_VM_BIND": "1"}


def bound(*, vm_bind: bool = True) -> QcomMachine:
    return QcomMachine("x1-85", "MSM", vm_bind=vm_bind)


def space(machine: QcomMachine) -> Any:
    """What the board has mapped for the process."""
    files = [file for file in machine.board._fds.values() if file.msm is not None]
    return files[0].msm.submits.vm.space


def test_a_life_with_addresses_of_our_own() -> None:
    machine = bound()
    with opened(machine, "MSM", SETTINGS) as device:
        work(device)
        program, a, c = device.load(binary(device)), device.alloc(300_000), device.alloc(N * 4)
        data, out = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
        device.copy_in(a, memoryview(data))
        graph = device.compute_queue().exec(program, [a, a, Param(0)]).bind()
        graph.replay([c])
        device.copy_out(memoryview(out), c)
        np.testing.assert_array_equal(out, 4 * data)
        iface = device.iface
        check(isinstance(iface, MsmIface) and iface.binds is not None)
        check(a.gpu_va in [mapping.va for mapping in space(machine).mappings], hex(a.gpu_va))
        before = len(space(machine).mappings)
        shared = host_lent.export(a)
        again = device.import_dmabuf(shared.fd, 0, 64, None)
        machine.close(shared.fd)
        check(again.gpu_va == a.gpu_va and len(space(machine).mappings) == before)
        graph.close()
    check(not (found := machine.found()), str(found))
    nothing_left(machine.board, "VM_BIND")


def test_a_freed_buffer_is_unmapped() -> None:
    machine = bound()
    with opened(machine, "MSM", SETTINGS) as device:
        buffer = device.alloc(1 << 20)
        va = buffer.gpu_va
        buffer.free()
        device.trim()
        check(all(mapping.va != va for mapping in space(machine).mappings), hex(va))


def test_after_a_gpu_fault_the_device_is_gone() -> None:
    """msm makes the address space unusable; closing the device leaves nothing all the same."""
    machine = bound()
    with opened(machine, "MSM", SETTINGS) as device:
        device.compute.emit([0x12345678])  # no packet
        with pytest.raises(DeviceError):
            device.synchronize(20.0)
        with pytest.raises(DeviceGone, match="QCOM_VM_BIND"):
            work(device)
    with opened(machine, "MSM", SETTINGS) as device:
        work(device)
    nothing_left(machine.board, "a fault")


def test_a_kernel_without_it_is_refused() -> None:
    machine = bound(vm_bind=False)
    with pytest.raises(Unsupported, match="no VM_BIND"):
        opened(machine, "MSM", SETTINGS)
    nothing_left(machine.board, "a refusal")


class Short(ForeignWorld):
    """A board's world in which the `at`-th request of a number finds no memory."""

    def __init__(self, one: Any, request: int, at: int) -> None:
        super().__init__(one)
        self._request, self._left = request, at

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        self._left -= request == self._request
        if request == self._request and not self._left:
            raise translate(OSError(errno.ENOMEM, "none"), "ioctl")
        return super().ioctl(fd, request, argument)


@pytest.mark.parametrize("at", [1, 4])
@pytest.mark.parametrize("ioctl", [SET_PARAM, VM_BIND, SYNC_CREATE, SYNC_WAIT, QUEUE_NEW])
def test_a_request_that_fails_leaves_nothing(ioctl: Any, at: int) -> None:
    machine = bound()
    world = Short(machine.board, ioctl.request, at)
    try:
        with open_qcom(world, choose({"QCOM": "1", "QCOM_IFACE": "MSM", **SETTINGS})) as device:
            work(device)
    except DeviceError as error:
        let_go(error)
    else:
        check(at > 1, f"{ioctl.name} was not asked for")
    nothing_left(machine.board, ioctl.name)
