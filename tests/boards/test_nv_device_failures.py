"""What fails in the NVIDIA driver, and what it leaves: loads, private memory, unmapping, waits."""

from __future__ import annotations

import gc
import platform
import struct
from collections.abc import Callable
from dataclasses import astuple, replace
from threading import Thread
from typing import Any

import pytest

from boards.nv.hardware import NvOptions
from boards.nv.launch import EndlessGrid
from boards.nv.machine import open_nv_board
from boards.nv.world import NvWorld
from drivers.base.contracts import Arg, Binary, Param
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    MalformedInput,
    Unsupported,
)
from drivers.nv.device import NvDevice
from drivers.nv.nvk import uvm
from drivers.nv.nvk.channel import doorbell
from queues.nv.kernel_code import NvCode
from tests.boards.nv_harness import PARAMS_OF, add, binary, device_on, open_on
from tests.support import check

SPILLS, MORE_SPILLS = 64, 200
KEPT = 0x240
"""What CUDA's runtime keeps of each lane's private memory, besides."""
JOIN_S = 0.2


def changed(good: Binary, **code: Any) -> Binary:
    """The same kernel, with another record of it."""
    vendor = replace(NvCode.of(good), **code).encode()
    return replace(good, resources=replace(good.resources, vendor=vendor))


def held(device: NvDevice) -> tuple[int, int]:
    """RM objects of memory, and their bytes."""
    return device.iface.handles, device.iface.bytes_held


@pytest.mark.parametrize("value", [-1, 1 << 63, (1 << 40) + 5])
def test_a_value_filled_in_later_is_cut_to_its_argument(value: int) -> None:
    seen: list[int] = []

    def kernel(launch: Any) -> None:
        at = PARAMS_OF[launch.chip.name] + 24
        seen.extend(struct.unpack_from("<I", launch.constant(0), at))

    with device_on(kernel=kernel) as (device, _):
        good, a = binary(device), device.alloc(64)
        args = (*(good.resources.args or ())[:3], Arg(24, 4, buffer=False))
        program = device.load(replace(good, resources=replace(good.resources, args=args)))
        graph = device.compute_queue().exec(program, [a, a, a, Param(0)]).bind()
        graph.replay([value])
        device.synchronize(5.0)
        check(seen == [value & 0xFFFFFFFF], str(seen))


def test_a_kernel_that_cannot_be_prepared_is_freed_once() -> None:
    with device_on(kernel=add) as (device, _):
        device.load(binary(device)).close()
        device.alloc(64).free()
        device.synchronize(5.0)
        device.heap.take_back()
        before = held(device)
        with pytest.raises(BadArgument, match="shared memory"):
            device.load(changed(binary(device), shared_bytes=200 << 10))
        gc.collect()
        device.heap.take_back()
        check(held(device) == before, f"{held(device)}, not {before}")


@pytest.mark.parametrize("chip", ["ga102", "gh100", "gb202"])
def test_arguments_are_not_where_the_driver_writes(chip: str) -> None:
    # src: cubins of nvrtc: block, grid, windows, stack and the arguments' address come first
    with device_on(chip, kernel=add) as (device, _):
        good = binary(device)
        for at in (0, 0x20, 0x28):
            with pytest.raises(MalformedInput, match="arguments at"):
                device.load(changed(good, param_offset=at, bank0_bytes=at + 32))


@pytest.mark.parametrize("chip", ["ga102", "gh100", "gb202"])
def test_a_small_bank_stays_in_its_block(chip: str) -> None:
    with device_on(chip, kernel=lambda launch: None) as (device, _):
        good = binary(device, args=0)
        program = device.load(changed(good, param_offset=0, param_bytes=0, bank0_bytes=16))
        made = program.launcher
        memory = bytearray(made.nbytes)
        made.pack_into(memory, 0, *made.values((), device.compute.ring_va, (1, 1, 1), 1))
        check(len(memory) == made.nlines * 256, "whole lines")


def test_two_threads_that_need_private_memory() -> None:
    """The one that needs less comes second: it keeps what the other one took."""
    with device_on(kernel=add) as (device, _):
        programs = device.programs
        quiet, threads = programs._quiet, []

        def meanwhile() -> object:
            if not threads:
                other = binary(device, local_bytes=MORE_SPILLS)
                threads.append(Thread(target=device.load, args=(other,)))
                threads[0].start()
                threads[0].join(JOIN_S)
            return quiet()

        programs._quiet = meanwhile
        device.load(binary(device, local_bytes=SPILLS))
        threads[0].join()
        check(device.local.lane_bytes >= MORE_SPILLS + KEPT, str(device.local.lane_bytes))


def test_private_memory_that_the_channel_does_not_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(words: object) -> None:
        raise Hang("full", queue="compute", dump="", hint="wait")

    with device_on(kernel=add) as (device, _):
        device.load(binary(device, local_bytes=SPILLS))
        device.heap.take_back()
        before, lanes = held(device), device.local.lane_bytes
        with monkeypatch.context() as patch:
            patch.setattr(device.compute, "emit", full)
            with pytest.raises(Hang):
                device.load(binary(device, local_bytes=MORE_SPILLS))
        gc.collect()
        device.heap.take_back()
        check((held(device), device.local.lane_bytes) == (before, lanes), "as it was before")
        device.load(binary(device, local_bytes=MORE_SPILLS))
        check(device.local.lane_bytes >= MORE_SPILLS + KEPT, "the next one gets it")


def test_replaced_channels_are_forgotten() -> None:
    def kernel(launch: Any) -> None:
        raise EndlessGrid

    with device_on(kernel=kernel, hang_s=0.02) as (device, _):
        program, a = device.load(binary(device)), device.alloc(64)
        for _ in range(3):
            device.launch(program, [a, a, a, 1], 1)
            with pytest.raises(Hang):
                device.synchronize()
        check(len(device.iface._channels) == 2, f"{len(device.iface._channels)} channels")


def test_a_report_that_is_half_written_is_none_yet() -> None:
    # src: nvgputypes.h: timeStamp, info32, info16, and then status
    with device_on() as (device, _):
        note = device.compute.hw.notifier
        note[:16] = struct.pack("<QIHH", 1, 0, 7, 0)
        check(device.iface.wait(0) is None, "before its status")
        note[:16] = struct.pack("<QIHH", 1, 32, 7, 0xFFFF)
        found = device.iface.wait(0)
        check(found is not None and found.cause == "bad packet", str(found))
        check(device.iface.wait(0) is None, "reported once")


def test_addresses_stay_taken_where_unmapping_fails() -> None:
    board = open_nv_board("ga102", options=NvOptions(driver=580))
    with open_on(board) as device:
        a = device.alloc(1 << 20)
        va = a.gpu_va
        a.free()
        board.panel.fail_uvm(uvm.FREE.request)
        with pytest.raises(DeviceError):
            device.trim()
        others = [device.alloc(1 << 20) for _ in range(4)]
        check(all(one.gpu_va != va for one in others), "nothing is put where it is still mapped")


def test_a_processor_without_ordered_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    with device_on() as (device, _):
        page = device.iface.world.mmap(-1, 4096)
        doorbell(page, 7, "a channel")(0)
        # src: class/clc361.h: NOTIFY_CHANNEL_PENDING is at 0x90
        check(page.read32(0x90) == 7, "the token")
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        with pytest.raises(Unsupported, match="aarch64"):
            doorbell(page, 7, "a channel")
        page.close()


def test_the_largest_bank_is_launched() -> None:
    with device_on(kernel=add) as (device, _):
        a = device.alloc(16)
        device.copy_in(a, memoryview(b"\1\0\0\0" * 4))
        # src: CUDA C++ Programming Guide: a constant bank has 64 KB
        program = device.load(changed(binary(device), bank0_bytes=64 << 10))
        for _ in range(20):
            device.launch(program, [a, a, a, 4], 1)
        out = bytearray(16)
        device.copy_out(memoryview(out), a)
        check(out == (1 << 20).to_bytes(4, "little") * 4, "more than fit in a ring")


def test_an_error_of_the_whole_gpu_stops_both_queues_once() -> None:
    with device_on(kernel=add) as (device, board):
        program, a = device.load(binary(device)), device.alloc(16)
        device.copy_in(a, memoryview(b"\1\0\0\0" * 4))
        device.compute_queue().wait(device.new_signal(), 1).submit()
        board.panel.ecc()
        with pytest.raises(DeviceFault):
            device.synchronize(5.0)
        device.launch(program, [a, a, a, 4], 1)
        out = bytearray(16)
        device.copy_out(memoryview(out), a)
        check(out == b"\2\0\0\0" * 4, out.hex())


def off_the_bus(device: NvDevice, board: NvWorld) -> None:
    board.panel.fall_off_the_bus()


def without_gsp(device: NvDevice, board: NvWorld) -> None:
    """src: kernel_gsp_tu102.c kgspHealthCheck(): GSP_ERROR, 120, for every channel"""
    for ring in device.pair.rings:
        board.panel.robust_channel(ring.hw.handle, 120)


@pytest.mark.parametrize("step", ["synchronize", "close", "copy", "launch"])
@pytest.mark.parametrize(
    ("end", "why"), [(off_the_bus, "left the bus"), (without_gsp, "GSP stopped")]
)
def test_an_idle_gpu_that_ends_is_gone_at_the_first_report(
    end: Callable[[NvDevice, NvWorld], None], why: str, step: str
) -> None:
    board = open_nv_board("ga102", options=NvOptions(driver=580))
    device = open_on(board)
    program, a = device.load(binary(device)), device.alloc(16)
    device.synchronize()
    end(device, board)

    def launch() -> None:
        device.launch(program, [a, a, a, 4], 1)
        device.synchronize(5.0)

    steps = {
        "synchronize": device.synchronize, "close": device.close, "launch": launch,
        "copy": lambda: device.copy_out(memoryview(bytearray(16)), a),
    }  # fmt: skip
    with pytest.raises(DeviceGone, match=why):
        steps[step]()
    if step != "close":
        for later in ("synchronize", "copy", "launch"):
            with pytest.raises(DeviceGone, match=why):
                steps[later]()
        device.close()
    check(sum(astuple(board.baseline())) == 0, str(board.baseline()))


def test_a_gpu_that_fell_off_the_bus_takes_no_work() -> None:
    board = open_nv_board("ga102", options=NvOptions(driver=580))
    device = open_on(board)
    program, a = device.load(binary(device)), device.alloc(16)
    device.compute_queue().wait(device.new_signal(), 1).submit()
    board.panel.fall_off_the_bus()
    with pytest.raises(DeviceGone, match="left the bus"):
        device.synchronize(5.0)
    with pytest.raises(DeviceGone):
        device.launch(program, [a, a, a, 4], 1)
    with pytest.raises(DeviceGone):
        device.copy_out(memoryview(bytearray(16)), a)
    device.close()
    check(sum(astuple(board.baseline())) == 0, str(board.baseline()))
