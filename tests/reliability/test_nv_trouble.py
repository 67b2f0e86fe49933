"""Every kind of fault is named with what is known of it; other memory and the next work survive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from boards.nv.launch import EndlessGrid, KnownKernels, SmException
from boards.nv.space import ATOMIC
from drivers.base.errors import DeviceError, DeviceFault, DeviceGone, Hang
from drivers.gpu.iface import Use
from drivers.nv.device import NvDevice
from drivers.nv.nvk.warp_errors import NAMES
from drivers.world.foreign import ForeignWorld
from queues.nv import words as nv_words
from queues.nv.classes import Subchannel
from tests.boards.nv_harness import CODE, add, arguments, binary
from tests.reliability.nv_scene import board, nothing_left, open_on, work
from tests.support import check

FAR = 1 << 35
"""Where nothing is mapped."""
COUNT = 0x7000
"""Counts from here on make the kernel do something bad."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind: how it is made, and what the error says."""

    make: Callable[[NvDevice, Any], None]
    kind: str
    queue: str = "compute queue"
    gpu_va: int = 0
    access: str = ""
    kernel: str = ""
    hang: bool = False


def bad(launch: Any) -> None:
    """What a kernel does by its count."""
    c, a, _, n = arguments(launch)
    what = n - COUNT
    if n < COUNT:
        add(launch)
    elif what == 1:
        launch.space.read(FAR, 4)
    elif what == 2:
        launch.space.write(FAR + 0x1000, b"\1\2\3\4")
    elif what == 3:
        launch.space.write(FAR + 0x2000, b"\1\2\3\4", ATOMIC)
    elif what == 4:
        launch.space.write(a, b"\1\2\3\4")
    elif what == 5:
        raise EndlessGrid
    else:
        raise SmException(what - 0x100, launch.code_va + 32, "made up", c)


def launched(number: int) -> Callable[[NvDevice, Any], None]:
    """A kernel that does this."""

    def make(device: NvDevice, one: Any) -> None:
        program, a = device.load(binary(device)), device.alloc(256)
        device.launch(program, [a, a, a, COUNT + number], 1)

    return make


def read_only(device: NvDevice, one: Any) -> None:
    """A kernel writes what is mapped for reading."""
    program, a = device.load(binary(device)), device.alloc(256)
    constant = device.iface.allocate(4096, Use.CONSTANT, "a constant")
    device.launch(program, [a, constant.gpu_va, a, COUNT + 4], 1)


def emitted(words: Callable[[NvDevice], list[int]]) -> Callable[[NvDevice, Any], None]:
    """Words of the compute queue."""
    return lambda device, one: device.compute.emit(words(device))


def method(number: int, value: int) -> list[int]:
    """One method of the compute object. # src: clc56f.h: INC_METHOD, one word"""
    return [1 << 29 | 1 << 16 | int(Subchannel.COMPUTE) << 13 | number >> 2, value]


def empty_qmd(device: NvDevice) -> list[int]:
    """A launch descriptor of zeros: no version that there is."""
    memory = device.alloc(4096)
    device.copy_in(memory, memoryview(bytes(4096)))
    device.synchronize(5.0)
    methods = device.target.engine
    words = methods.send(Subchannel.COMPUTE, "SEND_PCAS_A", memory.gpu_va >> 8)
    return [*words, *methods.send(Subchannel.COMPUTE, "SEND_SIGNALING_PCAS2_B", 3)]


def copied(device: NvDevice, one: Any) -> None:
    """A copy from where nothing is."""
    a = device.alloc(256)
    device.copies.copy(dst=a.gpu_va, src=FAR, nbytes=256)


def robust(code: int, *, copies: bool = False) -> Callable[[NvDevice, Any], None]:
    """RM tears a channel down while it waits."""

    def make(device: NvDevice, one: Any) -> None:
        queue = device.copy_queue() if copies else device.compute_queue()
        queue.wait(device.new_signal(), 1).submit()
        ring = device.copies if copies else device.compute
        one.panel.robust_channel(ring.hw.handle, code)

    return make


def bad_put(device: NvDevice, one: Any) -> None:
    """GPPut beyond the ring."""
    device.compute.hw.write_pointer[0] = 1 << 20
    device.compute.ring_doorbell(0)


def bad_entry(device: NvDevice, one: Any) -> None:
    """An entry of the GPFIFO without words."""
    hw = device.compute.hw
    at = hw.write_pointer[0]
    hw.entries[at] = FAR | 1 << 41
    hw.write_pointer[0] = at + 1
    device.compute.ring_doorbell(0)


def stuck(device: NvDevice, one: Any) -> None:
    """A channel that stands still."""
    one.panel.hang(device.compute.hw.handle)
    launched(0)(device, one)


def muted(device: NvDevice, one: Any) -> None:
    """A doorbell that nobody hears."""
    one.panel.muted.add(device.compute.hw.handle)
    launched(0)(device, one)


def semaphore(device: NvDevice) -> list[int]:
    """A release where nothing is mapped."""
    return nv_words.release(device.target, int(Subchannel.COMPUTE), va=FAR + 0x4000, value=1)


def ecc(device: NvDevice, one: Any) -> None:
    device.compute_queue().wait(device.new_signal(), 1).submit()
    one.panel.ecc()


TROUBLES = {
    "MMU read": Trouble(launched(1), "unmapped", gpu_va=FAR, access="read", kernel="add"),
    "MMU write": Trouble(launched(2), "unmapped", gpu_va=FAR + 0x1000, access="write",
                         kernel="add"),
    "MMU atomic": Trouble(launched(3), "unmapped", gpu_va=FAR + 0x2000, access="atomic",
                          kernel="add"),
    "MMU read-only": Trouble(read_only, "read-only", access="write", kernel="add"),
    **{
        f"warp {code:#04x}": Trouble(launched(0x100 + code), name, kernel="add")
        for code, name in NAMES.items()
    },
    "warp unknown": Trouble(launched(0x100 + 0x77), "warp error 0x77", kernel="add"),
    "invalid QMD": Trouble(emitted(empty_qmd), "graphics exception"),
    "bad method": Trouble(emitted(lambda device: method(0x1FFC, 1)), "bad method"),
    "bad header": Trouble(emitted(lambda device: [6 << 29 | 5]), "bad packet"),
    "semaphore unmapped": Trouble(emitted(semaphore), "unmapped", gpu_va=FAR + 0x4000),
    "copy engine MMU": Trouble(copied, "unmapped", "copy queue", gpu_va=FAR),
    "copy engine": Trouble(robust(39, copies=True), "copy engine: copy engine error", "copy queue"),
    "GPFIFO put": Trouble(bad_put, "bad packet"),
    "GPFIFO entry": Trouble(bad_entry, "bad packet"),
    "double-bit error": Trouble(ecc, "ECC", ""),
    "contained error": Trouble(robust(94), "ECC", ""),
    "channel reset": Trouble(robust(43), "channel reset"),
    "preempted": Trouble(robust(45), "removed by the kernel driver"),
    "unknown Xid": Trouble(robust(999), "channel error 999"),
    "endless kernel": Trouble(launched(5), "", kernel="add", hang=True),
    "stuck channel": Trouble(stuck, "", kernel="add", hang=True),
    "lost doorbell": Trouble(muted, "", kernel="add", hang=True),
}  # fmt: skip


def test_enough_kinds() -> None:
    kinds = {(one.kind, one.queue, one.access, one.hang) for one in TROUBLES.values()}
    check(len(kinds) >= 25, f"{len(kinds)} kinds")


@pytest.fixture
def scene() -> Any:
    one = board()
    one.gpus[0].executor = KnownKernels({CODE: bad})
    return one


@pytest.mark.parametrize("name", TROUBLES)
def test_it_is_named_and_recovered_from(name: str, scene: Any) -> None:
    trouble = TROUBLES[name]
    with open_on(ForeignWorld(scene)) as device:
        kept = device.alloc(256)
        device.copy_in(kept, memoryview(np.arange(64, dtype=np.uint32)))
        device.synchronize(5.0)
        trouble.make(device, scene)
        with pytest.raises(Hang if trouble.hang else DeviceFault) as raised:
            device.synchronize(10.0)
        error: Any = raised.value
        check(trouble.queue in error.queue, f"{error.queue}: {error}")
        if trouble.hang:
            check("SEND_PCAS_A" in error.dump and trouble.kernel in str(error), str(error))
        else:
            check(error.kind == trouble.kind, f"{error.kind!r}: {error}")
            check(error.kernel == trouble.kernel or not trouble.kernel, f"{error.kernel!r}")
            check(error.access == trouble.access or not trouble.access, f"{error.access!r}")
            check(error.gpu_va == trouble.gpu_va or not trouble.gpu_va, hex(error.gpu_va))
        check(bool(error.hint), "what to do")
        scene.panel.muted.clear()
        work(device)
        out = np.zeros(64, np.uint32)
        device.copy_out(memoryview(out), kept)
        np.testing.assert_array_equal(out, np.arange(64))
    del device, kept, error, raised
    nothing_left(scene, name)


@pytest.mark.parametrize("name", ["MMU write", "invalid QMD", "endless kernel", "copy engine MMU"])
def test_again_and_again(name: str, scene: Any) -> None:
    """R6: each time it is reported and recovered from, and the other queue keeps its work."""
    trouble = TROUBLES[name]
    with open_on(ForeignWorld(scene)) as device:
        for _ in range(25):
            signal = device.new_signal()
            other = device.compute_queue() if trouble.queue == "copy queue" else device.copy_queue()
            other.signal(signal, 7).submit()
            trouble.make(device, scene)
            with pytest.raises((DeviceFault, Hang)):
                device.synchronize(10.0)
            check(signal.value == 7, "the other queue's work")
        work(device)
        check(len(device.iface._channels) <= 3, f"{len(device.iface._channels)} channels")


def test_the_error_of_a_late_sm_is_found() -> None:
    """More SMs than one control has room for: the error is of the last one."""
    one = board()
    with open_on(ForeignWorld(one)) as device:
        faults = device.iface._faults
        faults._sms = 144  # as large GPUs have them
        device.compute_queue().wait(device.new_signal(), 1).submit()
        one.panel.sm_error(device.compute.hw.handle, 0x0F, 0x1234, sm=143)
        with pytest.raises(DeviceFault) as raised:
            device.synchronize(5.0)
        check(raised.value.kind == "misaligned address", str(raised.value))


def test_a_lost_gpu_is_gone_and_the_other_one_works() -> None:
    one = board(gpus=2)
    lost = open_on(ForeignWorld(one), 0)
    with open_on(ForeignWorld(one), 1) as other:
        lost.compute_queue().wait(lost.new_signal(), 1).submit()
        one.panel.fall_off_the_bus(0)
        with pytest.raises(DeviceGone, match="left the bus"):
            lost.synchronize(5.0)
        signal = lost.new_signal()
        queue = lost.compute_queue().signal(signal, 1)
        for call in (lambda: work(lost), lambda: lost.load(binary(lost)), queue.submit):
            with pytest.raises(DeviceGone):
                call()
        work(other)
        try:
            lost.close()
        except DeviceError as error:
            check(not isinstance(error, Hang), f"closing waited: {error}")
        work(other)
