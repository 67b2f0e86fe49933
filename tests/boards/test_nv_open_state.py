"""What RM has before there is work: a debugger object, raised clocks; and sizes of pages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from boards.machine import host
from drivers.base.errors import DeviceFault
from drivers.gpu.iface import Use
from drivers.nv.device import NvDevice
from tests.boards.nv_harness import binary
from tests.reliability.nv_scene import (
    ALLOC,
    CONTROL,
    STOPS,
    Bend,
    BentWorld,
    board,
    key_of,
    nothing_left,
    open_on,
)
from tests.reliability.test_nv_sweep import in_child
from tests.support import check

DEBUGGER, BOOST, SM_STATES = (ALLOC, 0x83DE), (CONTROL, 0x2080200A), (CONTROL, 0x83DE030C)
VIDEO = (ALLOC, 0x40)
MAX_SMS = 100
"""NV83DE_CTRL_DEBUG_MAX_SMS_PER_CALL"""
BOOSTED = 2 | 1 << 4 | 1 << 6
"""BOOST_TO_MAX, CUDA_YES, CUDA_PRIORITY_HIGH. # src: ctrl2080perf.h"""
BIG, HUGE = 64 << 10, 2 << 20
NOWHERE = 0x12_3456_7000


class Listening(BentWorld):
    """Keeps the params of every allocation and control, in order."""

    def __init__(self, one: Any) -> None:
        super().__init__(one)
        self.asked: list[tuple[tuple[int, int], bytes]] = []

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if not isinstance(argument, int) and request in (ALLOC, CONTROL):
            where, size = struct.unpack_from("<QI", argument, 16)
            params = bytes(host.user_bytes(where, size)) if where else b""
            self.asked.append((key_of(request, bytes(argument)), params))
        return super().ioctl(fd, request, argument)

    def of(self, key: tuple[int, int]) -> list[bytes]:
        return [params for asked, params in self.asked if asked == key]


def stop(device: NvDevice) -> DeviceFault:
    """The report of an illegal instruction."""
    program, a = device.load(binary(device)), device.alloc(64)
    device.launch(program, [a, a, a, STOPS], 1)
    with pytest.raises(DeviceFault) as caught:
        device.synchronize(5.0)
    return caught.value


def test_the_debugger_object_is_there_before_a_fault() -> None:
    """The states of the SMs may be gone once the channel is taken away."""
    one = board()
    world = Listening(one)
    with open_on(world) as device:
        check(len(world.of(DEBUGGER)) == 1, "one for the compute channel")
        world.asked.clear()
        report = stop(device)
        names = [key for key, _ in world.asked]
        check(SM_STATES in names, str(names))
        if DEBUGGER in names:  # that of the channel which replaces it
            check(names.index(SM_STATES) < names.index(DEBUGGER), "made after the fault")
        check("illegal instruction" in str(report).lower(), str(report))
        (params, *_) = world.of(SM_STATES)
        check(struct.unpack_from("<I", params, 4)[0] == MAX_SMS, "SMs without gaps are assumed")
    nothing_left(one, "the device")


def test_without_a_debugger_object_faults_are_reported_with_less() -> None:
    one = board()
    world = BentWorld(one)
    world.bend = Bend(DEBUGGER, "zero", status=0x1B, times=1 << 30)
    with open_on(world) as device:
        check("graphics exception" in str(stop(device)))
    check(world.bend.met, "it was asked for")
    nothing_left(one, "the device")


def test_clocks_are_raised_while_a_device_is_open() -> None:
    world = Listening(board())
    device = open_on(world)
    check(world.of(BOOST) == [struct.pack("<II", BOOSTED, 0xFFFFFFFF)], str(world.of(BOOST)))
    check(in_child(lambda: _closes(device, lambda: len(world.of(BOOST)) == 1)) == 0, "a child")
    device.close()
    check(world.of(BOOST)[1:] == [struct.pack("<II", 1 << 4, 0)], str(world.of(BOOST)))


def _closes(device: NvDevice, holds: Callable[[], bool]) -> None:
    device.close()
    check(holds(), "a child lets the parent's clocks fall")


def test_clocks_that_rm_does_not_raise() -> None:
    world = BentWorld(board())
    world.bend = Bend(BOOST, "zero", status=0x56, times=1 << 30)
    open_on(world).close()
    check(world.bend.seen == 2, "both were asked for")


@pytest.mark.parametrize(
    ("nbytes", "page", "whole"),
    [(4096, 0, BIG), (BIG, 0, BIG), (BIG + 1, 0, 2 * BIG), (HUGE, 3, HUGE),
     (HUGE + 1, 3, 2 * HUGE)],
)  # fmt: skip
def test_page_sizes_are_left_to_rm(nbytes: int, page: int, whole: int) -> None:
    """NVOS32_ATTR_PAGE_SIZE 24:23: 0 is DEFAULT, 3 HUGE. # src: nvos.h"""
    aligned = HUGE if page else BIG
    world = Listening(board())
    with open_on(world) as device:
        world.asked.clear()
        memory = device.iface.allocate(nbytes, Use.DEVICE, "it")
        (params,) = world.of(VIDEO)
        attr = struct.unpack_from("<I", params, 24)[0]
        size, align = struct.unpack_from("<QQ", params, 64)
        check((attr >> 23 & 3, size) == (page, whole), f"{attr:#x}, {size:#x}")
        check(memory.gpu_va % aligned == 0 and align == aligned, hex(align))
        check(memory.nbytes == whole, hex(memory.nbytes))
        memory.free()


def test_a_page_fault_has_its_address_without_a_debugger_object() -> None:
    """The channel itself reports it: NV906F_CTRL_CMD_GET_MMU_FAULT_INFO."""
    world = BentWorld(board())
    world.bend = Bend(DEBUGGER, "zero", status=0x1B, times=1 << 30)
    with open_on(world) as device:
        program, a = device.load(binary(device)), device.alloc(256)
        device.launch(program, [a, NOWHERE, a, 1], 1)
        with pytest.raises(DeviceFault) as caught:
            device.synchronize(5.0)
        check(caught.value.gpu_va == NOWHERE, str(caught.value))
