"""The NVIDIA driver on boards: opening, memory, copies, launches, graphs, signals, faults."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from boards.nv.hardware import NvOptions
from boards.nv.launch import EndlessGrid, SmException
from boards.nv.machine import open_nv_board
from drivers.base.contracts import Param
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    DeviceFault,
    DeviceTimeout,
    Hang,
    MalformedInput,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.nv.device import NvDevice
from drivers.nv.nvk import uvm
from tests.boards.nv_harness import CODE, add, arguments, binary, device_on, open_on
from tests.support import check

CHIPS = ("ga102", "ad102", "gh100", "gb202", "tu102")
DRIVERS = (535, 550, 570, 580, 590, 595, 610)


def filled(device: NvDevice, data: np.ndarray[Any, Any]) -> Any:
    buffer = device.alloc(data.nbytes)
    device.copy_in(buffer, memoryview(data))
    return buffer


def read(device: NvDevice, buffer: Any, count: int) -> np.ndarray[Any, Any]:
    out = np.zeros(count, np.uint32)
    device.copy_out(memoryview(out), buffer)
    return out


def numbers(count: int, first: int = 0) -> np.ndarray[Any, Any]:
    return np.arange(first, first + count, dtype=np.uint32)


def left(board: Any) -> int:
    """What is still open, mapped or allocated on a board."""
    return sum(astuple(board.baseline()))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("chip", ["ga102", "gh100"])
def test_it_opens_with_every_release_and_gives_all_back(chip: str, driver: int) -> None:
    with device_on(chip, driver=driver) as (device, board):
        iface, data = device.iface, numbers(3000)
        check((read(device, filled(device, data), 3000) == data).all(), "copies")
        check(iface.version.startswith(f"{driver}."), iface.version)
        check(iface.handles > 0, "something is held")
    check((iface.handles, iface.bytes_held) == (0, 0), "memory objects")
    check(left(board) == 0, str(board.baseline()))


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_release_launches_and_reports_a_fault(driver: int) -> None:
    def kernel(launch: Any) -> None:
        if arguments(launch)[3] == 666:
            raise SmException(0x0F, launch.code_va + 16, "made up")
        add(launch)

    with device_on(kernel=kernel, driver=driver) as (device, board):
        program, a = device.load(binary(device)), filled(device, numbers(64))
        device.launch(program, [a, a, a, 64], 1)
        device.launch(program, [a, a, a, 666], 1)
        with pytest.raises(DeviceFault, match="misaligned address"):
            device.synchronize(5.0)
        device.launch(program, [a, a, a, 64], 1)
        check((read(device, a, 64) == 4 * numbers(64)).all(), "before and after it")
    check(left(board) == 0, str(board.baseline()))


@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_run_and_see_their_arguments(chip: str) -> None:
    with device_on(chip, kernel=add) as (device, _):
        program, count = device.load(binary(device)), 1000
        a, b = filled(device, numbers(count)), filled(device, numbers(count, 7))
        c = device.alloc(4 * count)
        device.launch(program, [c, a, b, count], 16)
        check((read(device, c, count) == numbers(count) + numbers(count, 7)).all(), "a + b")
        device.compute_queue().exec(program, [a, c, b, count], (16, 1, 1)).barrier().exec(
            program, [b, a, c, 500], (4, 1, 1), (32, 2, 2)
        ).submit()
        first = numbers(count) + 2 * numbers(count, 7)
        check((read(device, a, count) == first).all(), "the first of two")
        second = numbers(count, 7)
        second[:500] = (first + numbers(count) + numbers(count, 7))[:500]
        check((read(device, b, count) == second).all(), "the second of two")


def test_a_ring_that_goes_round_many_times() -> None:
    with device_on(kernel=add) as (device, _):
        program = device.load(binary(device))
        a, one = filled(device, numbers(4)), filled(device, np.ones(4, np.uint32))
        for _ in range(3000):
            device.launch(program, [a, a, one, 4], 1)
        check((read(device, a, 4) == numbers(4, 3000)).all(), "3,000 launches in order")
        check(device.compute.put > 2 * device.compute.size, "the ring went round")


def test_a_graph_is_replayed_with_other_values() -> None:
    with device_on(kernel=add) as (device, _):
        program = device.load(binary(device))
        a, b = filled(device, numbers(8)), filled(device, numbers(8, 5))
        c, d = device.alloc(32), device.alloc(32)
        queue = device.compute_queue().exec(program, [Param(0), a, Param(1), 8])
        graph = queue.barrier().exec(program, [d, Param(0), a, 8]).bind()
        graph.replay([c, b])
        check((read(device, d, 8) == 2 * numbers(8) + numbers(8, 5)).all(), "first")
        graph.replay([c, a])
        check((read(device, d, 8) == 3 * numbers(8)).all(), "second")
        graph.close()
        with pytest.raises(UseAfterFree):
            graph.replay([c, a])


@pytest.mark.parametrize("chip", CHIPS)
def test_queues_wait_for_each_other(chip: str) -> None:
    with device_on(chip, kernel=add) as (device, _):
        program, signal = device.load(binary(device)), device.new_signal()
        a, b = filled(device, numbers(64)), filled(device, numbers(64, 9))
        c, d = device.alloc(256), device.alloc(256)
        device.copy_queue().wait(signal, 3).copy(d, c, 256).signal(signal, 4).submit()
        check(signal.value == 0, "the copy waits")
        queue = device.compute_queue().exec(program, [c, a, b, 64]).timestamp(signal)
        queue.signal(signal, 3).submit()
        signal.wait(4, 5.0)
        check((read(device, d, 64) == numbers(64) + numbers(64, 9)).all(), "copied after it")
        check(signal.timestamp_ns > 0, "a time")


def test_a_host_signal_lets_a_queue_go_on() -> None:
    with device_on() as (device, _):
        signal, other = device.new_signal(), device.new_signal()
        device.compute_queue().wait(signal, 2**63 - 1).signal(other, 1).submit()
        check(other.value == 0, "it waits")
        with pytest.raises(DeviceTimeout, match="Signal what it waits for"):
            device.synchronize(0.01)
        signal.set(2**63 - 1)
        other.wait(1, 5.0)
        device.synchronize(5.0)


def test_a_time_stamp_changes_no_value() -> None:
    with device_on() as (device, _):
        signal = device.new_signal(7)
        check(signal.timestamp_ns == 0, "none yet")
        device.compute_queue().timestamp(signal).submit()
        device.synchronize(5.0)
        first = signal.timestamp_ns
        check(signal.value == 7 and first > 0, "value and time")
        device.copy_queue().timestamp(signal).submit()
        device.synchronize(5.0)
        check(signal.timestamp_ns >= first, "later")


def test_host_memory_is_wrapped() -> None:
    with device_on(kernel=add) as (device, _):
        world = device.iface.world
        region = world.mmap(-1, 8192)
        try:
            region.view()[:4096] = numbers(1024).tobytes()
            wrapped = device.wrap(region.view())
            program, one = device.load(binary(device)), filled(device, np.ones(1024, np.uint32))
            device.launch(program, [wrapped, wrapped, one, 1024], 16)
            device.synchronize(5.0)
            found = np.frombuffer(bytes(region.view()[:4096]), np.uint32)
            check((found == numbers(1024, 1)).all(), "in place")
            wrapped.free()
        finally:
            device.trim()
            device.heap.take_back()
            region.close()


def test_private_memory_grows() -> None:
    seen: list[int] = []

    def kernel(launch: Any) -> None:
        seen.append(launch.local_bytes)
        add(launch)

    with device_on(kernel=kernel) as (device, _):
        a = filled(device, numbers(4))
        for local in (64, 200, 96):
            device.launch(device.load(binary(device, local_bytes=local)), [a, a, a, 4], 1)
        check((read(device, a, 4) == numbers(4) * 8).all(), "three launches")
        least = [64, 200, 96]
        check(all(got >= want for got, want in zip(seen, least, strict=True)), str(seen))
        check(device.local.lane_bytes >= 200, "it stays")


# What goes wrong


def test_a_fault_names_buffer_and_kernel_and_the_device_goes_on() -> None:
    def kernel(launch: Any) -> None:
        c, _, _, n = arguments(launch)
        if n == 666:
            launch.space.write(c + (1 << 30), b"\1\2\3\4")
        else:
            add(launch)

    with device_on(kernel=kernel) as (device, _):
        program = device.load(binary(device))
        a = filled(device, numbers(4))
        device.launch(program, [a, a, a, 666], 1)
        with pytest.raises(DeviceFault) as raised:
            device.synchronize(5.0)
        fault = raised.value
        check(fault.gpu_va == a.gpu_va + (1 << 30), hex(fault.gpu_va))
        check((fault.kind, fault.access, fault.kernel) == ("unmapped", "write", "add"), str(fault))
        device.launch(program, [a, a, a, 4], 1)
        check((read(device, a, 4) == 2 * numbers(4)).all(), "memory and program survive")


def test_an_illegal_instruction() -> None:
    def kernel(launch: Any) -> None:
        raise SmException(0x09, launch.code_va + 16, "made up")

    with device_on(kernel=kernel) as (device, _):
        program, a = device.load(binary(device)), device.alloc(64)
        device.launch(program, [a, a, a, 4], 1)
        with pytest.raises(DeviceFault) as raised:
            device.synchronize(5.0)
        check(raised.value.kind == "illegal instruction", str(raised.value))
        check(raised.value.kernel == "add", "found by its program counter")
        device.synchronize(5.0)


def test_an_endless_kernel_is_a_hang_and_its_channel_is_replaced() -> None:
    def kernel(launch: Any) -> None:
        if arguments(launch)[3] == 666:
            raise EndlessGrid
        add(launch)

    with device_on(kernel=kernel, hang_s=0.05) as (device, _):
        program, a = device.load(binary(device)), filled(device, numbers(4))
        device.launch(program, [a, a, a, 666], 1)
        with pytest.raises(Hang) as raised:
            device.synchronize()
        check("SEND_PCAS_A" in raised.value.dump and "add" in str(raised.value), str(raised.value))
        device.launch(program, [a, a, a, 4], 1)
        check((read(device, a, 4) == 2 * numbers(4)).all(), "it goes on")


CODES = {32: "bad packet", 69: "bad method", 43: "channel reset", 48: "ECC", 94: "ECC", 999: "999"}


@pytest.mark.parametrize("code", CODES)
def test_what_rm_reports_of_a_channel(code: int) -> None:
    with device_on(kernel=add) as (device, board):
        signal, a = device.new_signal(), filled(device, numbers(4))
        program = device.load(binary(device))
        device.compute_queue().wait(signal, 1).submit()
        board.panel.robust_channel(device.compute.hw.handle, code)
        with pytest.raises(DeviceFault) as raised:
            device.synchronize(5.0)
        check(CODES[code] in raised.value.kind, str(raised.value))
        device.launch(program, [a, a, a, 4], 1)
        check((read(device, a, 4) == 2 * numbers(4)).all(), "it goes on")


def test_a_copy_engine_that_faults() -> None:
    with device_on() as (device, board):
        signal, a = device.new_signal(), filled(device, numbers(4))
        device.copy_queue().wait(signal, 1).submit()
        board.panel.robust_channel(device.copies.hw.handle, 39)
        with pytest.raises(DeviceFault, match="copy engine") as raised:
            device.synchronize(5.0)
        check("copy queue" in raised.value.queue, raised.value.queue)
        check((read(device, a, 4) == numbers(4)).all(), "copies go on")


ESCAPES = {0x2B: "alloc", 0x2A: "control", 0x4E: "map_memory", 200: "card_info",
           201: "register_fd", 210: "version"}  # fmt: skip
LEAVING = {0x29: "free", 0x4F: "unmap_memory"}
CONTROL = 0x2A
UVM = {uvm.INITIALIZE, uvm.MM_INITIALIZE, uvm.REGISTER_GPU, uvm.REGISTER_GPU_VASPACE,
       uvm.REGISTER_CHANNEL, uvm.CREATE_EXTERNAL_RANGE, uvm.MAP_EXTERNAL_ALLOCATION}  # fmt: skip
UVM_LEAVING = {uvm.UNREGISTER_GPU, uvm.UNREGISTER_GPU_VASPACE, uvm.UNREGISTER_CHANNEL, uvm.FREE}


def opened_and_closed() -> tuple[list[int], list[int]]:
    """Numbers of all requests of opening, and of opening and closing."""
    board = open_nv_board("ga102", options=NvOptions(driver=580))
    device = open_on(board)
    opening = list(board.panel.seen)
    device.close()
    return opening, list(board.panel.seen)


def failing(number: int, at: int) -> Any:
    """A board that refuses the `at`-th request with a number."""
    board = open_nv_board("ga102", options=NvOptions(driver=580))
    name = {**ESCAPES, **LEAVING}.get(number)
    if name is None:
        board.panel.fail_uvm(number, at=at)
    else:
        board.panel.fail_escape(name, at=at)
    return board


def test_a_newer_kernel_driver_warns_and_an_older_one_is_refused() -> None:
    board = open_nv_board("ga102", options=NvOptions(driver=610))
    board.hardware.version = "655.10.02"
    with pytest.warns(RuntimeWarning, match="newer than 610"):
        device = open_on(board)
    check((read(device, filled(device, numbers(64)), 64) == numbers(64)).all(), "copies")
    device.close()
    board.hardware.version = "525.147.05"
    with pytest.raises(Unsupported, match="Install a newer driver"):
        open_on(board)
    check(left(board) == 0, str(board.baseline()))


def test_every_request_is_one_that_fails_here() -> None:
    known = {one.request for one in UVM | UVM_LEAVING}
    check(set(opened_and_closed()[1]) == {*ESCAPES, *LEAVING, *known}, "a request without a test")


@pytest.mark.parametrize(
    ("numbers", "least"),
    [(set(ESCAPES), 40), ({one.request for one in UVM}, 19)],
    ids=["rm", "uvm"],
)
def test_a_failing_call_leaves_nothing_behind(numbers: set[int], least: int) -> None:
    """Every escape and every UVM request of opening fails once."""
    (seen, _), failed = opened_and_closed(), 0
    for number in numbers:
        for at in range(1, seen.count(number) + 1):
            board = failing(number, at)
            with pytest.raises(DeviceError) as raised:
                open_on(board)
            check(left(board) == 0, f"{number:#x} {at}: {board.baseline()}")
            notes = getattr(raised.value, "__notes__", [])
            check(not any("undone" in note for note in notes), f"{number:#x} {at}: {notes}")
            failed += 1
    check(failed >= least, f"{failed} calls failed")


def test_a_call_that_fails_at_closing() -> None:
    """Every request of closing fails once: it is reported, and everything is given back."""
    (opening, seen), failed = opened_and_closed(), 0
    for number in (*LEAVING, CONTROL, *(one.request for one in UVM_LEAVING)):
        for at in range(opening.count(number) + 1, seen.count(number) + 1):
            board = failing(number, at)
            device = open_on(board)
            with pytest.raises(DeviceError):
                device.close()
            check(left(board) == 0, f"{number:#x} {at}: {board.baseline()}")
            failed += 1
    check(failed > 20, f"{failed} calls failed")


def test_what_is_refused() -> None:
    with device_on(kernel=add) as (device, _):
        good = binary(device)
        with pytest.raises(MalformedInput):
            device.load(type(good)(device.arch, "x", CODE, 64, resources=good.resources))
        with pytest.raises(Unsupported):
            device.load(type(good)("sm_75", "x", CODE, 0, resources=good.resources))
        program, a = device.load(good), device.alloc(16)
        with pytest.raises(BadArgument):
            device.launch(program, [a], 1)
        with pytest.raises(BadArgument):
            device.launch(program, [a, a, a, 1], 1 << 31)
        with pytest.raises(OutOfMemory):
            device.alloc(1 << 40)
        a.free()
        with pytest.raises(UseAfterFree):
            device.launch(program, [a, a, a, 1], 1)
    with pytest.raises(UseAfterFree):
        device.alloc(16)
