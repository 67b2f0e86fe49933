"""UVM_MM_INITIALIZE: the second file of /dev/nvidia-uvm, when it is opened and when it is closed.

The kernel's rule is written here once more, beside the board's own.
# src: open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm.c uvm_api_mm_initialize(),
# src: uvm_release_mm(), uvm_va_space.c uvm_va_space_register_gpu_va_space(): 535.43.28, 550.163.01,
# src: 570.144, 580.95.05, 590.48.01, 595.45.04
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from boards.nv.hardware import NvOptions
from boards.nv.machine import open_nv_board
from drivers.base.errors import DeviceError, DeviceGone
from drivers.choice import choose
from drivers.nv.nvk.status import check_status
from drivers.nv.opening import open_nv
from drivers.world.foreign import ForeignWorld
from tests.reliability.test_nv_sweep import in_child
from tests.support import check

PATH = "/dev/nvidia-uvm"
INITIALIZE, MM_INITIALIZE, REGISTER_GPU_VASPACE = 0x3000_0001, 75, 25
OK, NOTHING_TO_DO, NOT_AVAILABLE, INVALID_STATE = 0, 0x10006, 0x5D, 0x40
STATUS_AT = {MM_INITIALIZE: 4, REGISTER_GPU_VASPACE: 28}


class Kernel(ForeignWorld):
    """A board whose UVM asks for an mm, or says that it ties no space to one."""

    def __init__(self, *, tied: bool) -> None:
        self.board: Any = open_nv_board("ga102", options=NvOptions(driver=580))
        super().__init__(self.board)
        self.tied = tied
        self.files: list[int] = []
        self.alive: dict[int, int] = {}
        """The first file of a space, by the second one."""
        self.shut: list[str] = []
        """How spaces ended: "clean", or what was wrong."""
        self.flags: list[int] = []

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        if path == PATH:
            self.files.append(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        if fd in self.alive:
            stopped = self.alive.pop(fd) in self.files
            self.shut.append("channels were stopped" if stopped else "clean")
        if fd in self.files:
            self.files.remove(fd)

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if isinstance(argument, int) or fd not in self.files:
            return super().ioctl(fd, request, argument)
        if request == INITIALIZE:
            self.flags.append(struct.unpack_from("<Q", argument)[0])
        refused = self._refusal(fd, request, argument)
        answer = super().ioctl(fd, request, argument) if refused in (OK, NOTHING_TO_DO) else 0
        if request in STATUS_AT:
            struct.pack_into("<I", argument, STATUS_AT[request], refused)
        return answer

    def _refusal(self, fd: int, request: int, argument: bytearray) -> int:
        if request == MM_INITIALIZE:
            first = struct.unpack_from("<i", argument)[0]
            check(first in self.files and first != fd, f"{first} is no other file of UVM")
            if not self.tied:
                return NOTHING_TO_DO
            if first in self.alive.values():
                return INVALID_STATE
            self.alive[fd] = first
        elif request == REGISTER_GPU_VASPACE and self.tied and fd not in self.alive.values():
            return NOT_AVAILABLE
        return OK


def compute(world: Kernel) -> None:
    """A copy there and back."""
    with open_nv(world, choose({"DEV": "NV"})) as device:
        data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
        a = device.alloc(data.nbytes)
        device.copy_in(a, memoryview(data))
        device.copy_out(memoryview(out), a)
        np.testing.assert_array_equal(out, data)
        a.free()


@pytest.mark.parametrize("tied", [True, False])
def test_a_gpu_opens_with_and_without_an_mm(tied: bool) -> None:
    world = Kernel(tied=tied)
    for _ in range(2):
        compute(world)
    check(world.shut == ["clean"] * (2 if tied else 0), str(world.shut))
    check(not world.files and sum(astuple(world.board.baseline())) == 0, "files stay open")


def test_memory_that_was_not_wrapped_stays_out_of_reach() -> None:
    """# src: uvm_types.h UVM_INIT_FLAGS_DISABLE_HMM"""
    world = Kernel(tied=True)
    compute(world)
    check(world.flags == [1], str(world.flags))


def test_two_devices_have_a_pair_of_files_each() -> None:
    world = Kernel(tied=True)
    with open_nv(world, choose({"DEV": "NV"})), open_nv(world, choose({"DEV": "NV"})):
        check(len(world.files) == 4 and len(world.alive) == 2, f"{world.files}, {world.alive}")
    check(world.shut == ["clean", "clean"], str(world.shut))


@pytest.mark.parametrize("status", [INVALID_STATE, NOT_AVAILABLE, 0x1F, 0x51])
def test_a_refused_mm_closes_both_files(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Kernel(tied=True)

    def refuse(_: Kernel, __: int, request: int, ___: bytearray) -> int:
        return status if request == MM_INITIALIZE else OK

    monkeypatch.setattr(Kernel, "_refusal", refuse)
    with pytest.raises(DeviceError, match="UVM_MM_INITIALIZE"):
        open_nv(world, choose({"DEV": "NV"}))
    check(not world.files and sum(astuple(world.board.baseline())) == 0, "files stay open")


def test_a_forked_child_closes_both_files_and_asks_nothing() -> None:
    world = Kernel(tied=True)
    with open_nv(world, choose({"DEV": "NV"})) as device:

        def child() -> None:
            before = len(world.board.panel.seen)
            device.close()
            check(len(world.board.panel.seen) == before, "a request of the child's")
            check(not world.files, f"{world.files} stay open")

        check(len(world.files) == 2 and in_child(child) == 0, "the child")
        data = np.zeros(64, np.uint32)
        device.copy_in(device.alloc(data.nbytes), memoryview(data))
    check(world.shut == ["clean"], str(world.shut))


def test_the_status_has_a_name_and_a_next_step() -> None:
    with pytest.raises(DeviceGone, match=r"NV_ERR_PAGE_TABLE_NOT_AVAIL.*open it again"):
        check_status(NOT_AVAILABLE, "UVM_REGISTER_GPU_VASPACE")
