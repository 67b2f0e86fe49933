"""Page faults over KGSL: the error has address, access and buffer, where KGSL keeps a report."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from boards.machine.host import PAGE_BYTES
from drivers.base.errors import DeviceFault
from drivers.base.oserrors import translate
from drivers.qcom.device import QcomDevice
from drivers.qcom.kgsl import abi
from drivers.world.foreign import ForeignWorld
from tests.reliability.amd_scene import FILLS, filled
from tests.reliability.qcom_scene import NOWHERE, N, binary, board, nothing_left, open_on, work
from tests.support import check

LARGE = 1 << 20
"""Memory of its own, which is unmapped when it is freed."""


def fault(device: QcomDevice, *args: Any, program: Any = None) -> DeviceFault:
    """The error of c = 3 a + b with these arguments; the next work runs."""
    device.launch(program or device.load(binary(device)), args, 1)
    with pytest.raises(DeviceFault) as caught:
        device.synchronize(20.0)
    work(device)
    return caught.value


def unmapped(one: Any, va: int) -> int:
    """The first page from an address on that the board's SMMU has no mapping of."""
    pages = range(va, va + (64 << 20), PAGE_BYTES)
    return next(page for page in pages if one.kgsl.objects.space.find(page) is None)


def test_a_read_and_a_write_past_the_end() -> None:
    """One after the other: the second report is of the new context."""
    one = board()
    with open_on(ForeignWorld(one)) as device:
        a, program = device.alloc(LARGE), device.load(binary(device))
        device.launch(program, [a, a, a], 1)
        device.synchronize(20.0)  # nothing is mapped for the next launches
        first = unmapped(one, a.gpu_va + LARGE)
        read = fault(device, a, first, a, program=program)
        second = unmapped(one, a.gpu_va + LARGE) + 64
        write = fault(device, a, a, second, program=program)
        for error, at, access in ((read, first, "read"), (write, second, "write")):
            check((error.gpu_va, error.access, error.kind) == (at, access, "unmapped"), str(error))
            check(error.buffer == f"buffer of {LARGE} bytes at {a.gpu_va:#x}", error.buffer)
            behind = f"{at - a.gpu_va - LARGE:#x} bytes behind the {error.buffer}"
            check(behind in str(error) and f"{at:#x}" in str(error), str(error))
            check(error.kernel == "combine" and "compute queue" in error.queue, str(error))
        log = [line for line in one.hardware.log if "GPU PAGE FAULT" in line]
        check(len(log) == 2 and f"addr = {first:X} " in log[0], str(log))
    nothing_left(one, "two faults")


def test_a_freed_buffer() -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        a, gone = device.alloc(N * 4), device.alloc(LARGE)
        va = gone.gpu_va
        gone.free()
        device.trim()
        error = fault(device, va, a, a)
        check((error.gpu_va, error.access, error.kind) == (va, "read", "unmapped"), str(error))
        check(f"of {LARGE} bytes" not in error.buffer, error.buffer)
    nothing_left(one, "a freed buffer")


def test_code_is_read_only() -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        a, program = device.alloc(N * 4), device.load(binary(device))
        error = fault(device, a, a, program.gpu_va)
        expected = program.gpu_va, "write", "read-only"
        check((error.gpu_va, error.access, error.kind) == expected, str(error))
    nothing_left(one, "a write to code")


def test_what_is_no_page_fault_has_no_address() -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        one.panel.illegal_instruction()
        a = device.alloc(N * 4)
        error = fault(device, a, a, a)
        check((error.kind, error.gpu_va, error.buffer) == ("GPU fault", 0, ""), str(error))
        check("EXEC_CS" in str(error) and not hasattr(error, "__notes__"), str(error))
    nothing_left(one, "an illegal instruction")


def test_a_kernel_without_reports() -> None:
    """The flag is dropped: nothing is asked, and the error has kernel and packets."""
    one = board(fault_info=False)
    with open_on(ForeignWorld(one)) as device:
        a = device.alloc(N * 4)
        error = fault(device, a, a, NOWHERE)
        check((error.kind, error.gpu_va) == ("GPU fault", 0), str(error))
        check("EXEC_CS" in str(error) and "dmesg" in error.hint, str(error))
        check(not hasattr(error, "__notes__") and 0x5E not in one.panel.seen, "nothing is asked")
    nothing_left(one, "an old kernel")


class Bad(ForeignWorld):
    """The `at`-th request for a report fails, or brings garbage where its pointer points."""

    def __init__(self, one: Any, at: int, *, code: int = 0, fill: str = "") -> None:
        super().__init__(one)
        self._user = one.user
        self._left, self._code, self._fill = at, code, fill

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        due = False
        if request == abi.GET_FAULT_REPORT.request:
            self._left -= 1
            due = self._left == 0
        if due and self._code:
            raise translate(OSError(self._code, "a test"), "ioctl")
        done = super().ioctl(fd, request, argument)
        if due and isinstance(argument, bytearray):
            where = abi.FaultReport.of(bytes(argument)).faultlist
            self._user.store(where, filled(128, self._fill))
        return done


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("code", [errno.ENOTTY, errno.EINVAL, errno.EFAULT, errno.ENOMEM])
def test_a_report_that_is_refused(code: int, at: int) -> None:
    """The fault is raised all the same, and says why it has no address."""
    one = board()
    with open_on(Bad(one, at, code=code)) as device:
        a = device.alloc(N * 4)
        error = fault(device, a, a, NOWHERE)
        check((error.kind, error.gpu_va) == ("GPU fault", 0), str(error))
        check("IOCTL_KGSL_GET_FAULT_REPORT" in "".join(error.__notes__), str(error.__notes__))
    nothing_left(one, errno.errorcode[code])


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("fill", FILLS)
def test_a_report_of_garbage(fill: str, at: int) -> None:
    one = board()
    with open_on(Bad(one, at, fill=fill)) as device:
        a = device.alloc(N * 4)
        error = fault(device, a, a, NOWHERE)
        check("combine" in str(error), str(error))
    nothing_left(one, f"garbage: {fill}")
