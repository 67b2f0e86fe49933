"""What goes wrong on a GPU is named, and the device can be used again afterwards."""

from __future__ import annotations

import errno
import threading
from functools import partial

import numpy as np
import pytest

from boards.amd.cp.engines import Engines
from boards.amd.machine import Options, open_board
from drivers.amd.device import AmdDevice
from drivers.amd.program import AmdProgram
from drivers.base.errors import (
    BadArgument,
    Denied,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    OutOfMemory,
    Unsupported,
)
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, device_on, get, kernel, open_on, put
from tests.support import check

N = 64
LONG_S = 20
REFUSALS = {
    errno.ENOMEM: OutOfMemory, errno.EINVAL: Unsupported, errno.EPERM: Denied, errno.EIO: DeviceGone
}  # fmt: skip
BOTH = pytest.mark.parametrize("queue", ["PM4", "AQL"])
ENDLESS = """
define amdgpu_kernel void @k(ptr addrspace(1) %c) #0 {
  br label %loop
loop:
  store volatile i32 1, ptr addrspace(1) %c
  br label %loop
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


def still_works(device: AmdDevice, program: AmdProgram) -> None:
    """The next launch on the same device is correct."""
    a = np.arange(N, dtype=np.float32)
    x, y = put(device, a), device.alloc(4 * N)
    device.launch(program, [x, x, y, N], 1)
    np.testing.assert_array_equal(get(device, y), a + a)


@BOTH
def test_a_kernel_that_reads_nowhere(queue: str) -> None:
    with device_on("gfx1100", queue) as (_, device):
        program = device.load(add("gfx1100"))
        x = device.alloc(4 * N)
        for _ in range(2):
            device.launch(program, [0x10000, x, x, N], 1)
            with pytest.raises(DeviceFault) as caught:
                device.synchronize()
            fault = caught.value
            check(
                (fault.kind, fault.gpu_va, fault.kernel) == ("unmapped", 0x10000, "k"), str(fault)
            )
            check("compute queue" in str(fault) and not fault.buffer)
            still_works(device, program)


@BOTH
def test_a_kernel_that_runs_off_its_buffer(queue: str) -> None:
    size = 256 << 10
    with device_on("gfx1100", queue) as (_, device):
        program = device.load(add("gfx1100"))
        big, x = device.alloc(size), put(device, np.zeros(size // 4 + N, np.float32))
        device.launch(program, [x, x, big, size // 4 + N], size // 4 // 64 + 1)
        with pytest.raises(DeviceFault) as caught:
            get(device, big)
        fault = caught.value
        check(fault.gpu_va == big.gpu_va + size and f"of {size} bytes" in fault.buffer, str(fault))
        check("0x0 bytes behind the buffer" in str(fault), str(fault))
        still_works(device, program)


@BOTH
def test_a_write_to_memory_that_is_read_only_is_named(queue: str) -> None:
    with device_on("gfx1100", queue) as (board, device):
        program = device.load(add("gfx1100"))
        buffer = device.alloc(256 << 10)
        board.panel.page_fault(buffer.gpu_va + 0x2008, kind="read-only", access="write")
        go = device.new_signal()
        with pytest.raises(DeviceFault) as caught:
            go.wait(1, 0.1)
        check(caught.value.kind == "read-only" and "offset 0x2000" in str(caught.value), caught)
        still_works(device, program)


@BOTH
def test_a_kernel_that_does_not_end(queue: str) -> None:
    with device_on("gfx1100", queue) as (board, device):
        program = device.load(add("gfx1100"))
        board.panel.hang(device.compute.hw.queue_id)
        x = device.alloc(4 * N)
        device.launch(program, [x, x, x, N], 1)
        with pytest.raises(Hang, match=r"made no progress for 60 s in kernel 'k'") as caught:
            device.synchronize()
        wanted = "DISPATCH_DIRECT" if queue == "PM4" else "KERNEL_DISPATCH"
        check(wanted in caught.value.dump and caught.value.queue == "AMD:0 compute queue")
        still_works(device, program)


@BOTH
def test_a_lost_doorbell(queue: str) -> None:
    with device_on("gfx1100", queue) as (board, device):
        program = device.load(add("gfx1100"))
        x = put(device, np.ones(N, np.float32))
        board.panel.mute(device.compute.hw.queue_id)
        device.launch(program, [x, x, x, N], 1)
        with pytest.raises(Hang):
            device.synchronize()
        board.panel.unmute(device.compute.hw.queue_id)
        still_works(device, program)


def test_a_copy_engine_that_hangs() -> None:
    with device_on("gfx1100") as (board, device):
        program = device.load(add("gfx1100"))
        x = put(device, np.ones(N, np.float32))
        board.panel.hang(device.copies.hw.queue_id)
        with pytest.raises(Hang, match="copy queue") as caught:
            get(device, x)
        check("COPY_LINEAR" in caught.value.dump)
        still_works(device, program)


@pytest.mark.parametrize(("what", "kind"), [("ecc", "ECC"), ("gpu_reset", "GPU hang")])
def test_a_reset(what: str, kind: str) -> None:
    with device_on("gfx1100") as (board, device):
        program = device.load(add("gfx1100"))
        x = put(device, np.ones(N, np.float32))
        device.launch(program, [x, x, x, N], 1)
        getattr(board.panel, what)()
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        check(caught.value.kind == kind, str(caught.value))


def test_a_fault_that_is_told_while_memory_is_sought() -> None:
    """The allocator gives its cache back, waits for the queues to do so, and hears of the fault."""
    reported: list[DeviceError] = []
    with device_on("gfx1100") as (_, device):
        program, x = device.load(add("gfx1100")), device.alloc(4 * N)
        device.alloc(1 << 20).free()
        device.alloc(4 * N).free()  # looks for what can be reused
        device.launch(program, [0x10000, x, x, N], 1)
        device.heap.allocator.limit_bytes = 0

        def seek() -> None:
            try:
                device.alloc(2 << 20)
            except DeviceError as error:
                reported.append(error)

        thread = threading.Thread(target=seek, daemon=True)
        thread.start()
        thread.join(LONG_S)
        check(bool(reported) and isinstance(reported[0], DeviceFault), f"{reported}")
        device.heap.allocator.limit_bytes = device.node.vram_bytes
        still_works(device, program)


def test_faults_do_not_add_up() -> None:
    with device_on("gfx1100") as (board, device):
        program = device.load(add("gfx1100"))
        x = device.alloc(4 * N)
        still_works(device, program)
        before = board.baseline()
        for _ in range(10):
            device.launch(program, [0x10000, x, x, N], 1)
            with pytest.raises(DeviceFault):
                device.synchronize()
        np.testing.assert_equal(board.baseline(), before)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EINVAL, errno.EPERM, errno.EIO])
def test_an_allocation_that_fails_leaves_nothing(queue: str, number: int) -> None:
    """Each of its ioctls fails, once and when the allocator tries again; then all of it works."""
    with device_on("gfx1100", queue) as (board, device):
        program = device.load(add("gfx1100"))
        still_works(device, program)
        device.trim()
        before = board.baseline()
        failed = 0
        for name in ("alloc_memory_of_gpu", "map_memory_to_gpu"):
            board.panel.fail_ioctl(name, number)
            if number == errno.ENOMEM:  # the allocator tries again without its cache
                board.panel.fail_ioctl(name, number, at=2)
            with pytest.raises(REFUSALS[number]):
                device.alloc(1 << 20)
            failed += 1
            np.testing.assert_equal(board.baseline(), before, f"{name} {number}")
        check(failed == 2)
        still_works(device, program)


@BOTH
def test_an_endless_kernel_is_a_hang(queue: str) -> None:
    options = Options(engines=lambda host: Engines(host, max_steps=5000))
    with device_on("gfx1100", queue, options) as (_, device):
        program = device.load(kernel(ENDLESS, "gfx1100", 1))
        good = device.load(add("gfx1100"))
        device.launch(program, [device.alloc(64)], 1)
        with pytest.raises(Hang, match="in kernel 'k'"):
            device.synchronize()
        still_works(device, good)


@BOTH
def test_an_endless_kernel_costs_no_reset(queue: str) -> None:
    """Also where Linux resets no single queue: the kernel's waves are saved.

    Seen of Linux 6.12 in front of board gfx1100 (docs/witnesses.md).
    """
    engines = partial(Engines, max_steps=5000)
    with device_on("gfx1100", queue, Options(engines=engines, queue_reset=False)) as (_, device):
        program = device.load(kernel(ENDLESS, "gfx1100", 1))
        good = device.load(add("gfx1100"))
        device.launch(program, [device.alloc(64)], 1)
        with pytest.raises(Hang):
            device.synchronize()
        still_works(device, good)


@pytest.mark.parametrize("ends", [True, False])
def test_a_device_is_opened_again(ends: bool) -> None:
    """Also where the kernel keeps a process until it exits, as Linux does."""
    board = open_board("gfx1100", options=Options(close_ends_process=ends))
    world = ForeignWorld(board)
    for queue in ("PM4", "AQL", "PM4"):
        with open_on(world, queue) as device:
            still_works(device, device.load(add("gfx1100")))
        left = board.baseline()
        check((left.queues, left.events, left.buffers) == (0, 0, 1), f"{left}")
    check(not board.violations, str(board.violations))


def test_two_gpus_share_memory_and_signals() -> None:
    board = open_board("gfx1100", gpus=2)
    world = ForeignWorld(board)
    a = np.arange(N, dtype=np.float32)
    with open_on(world) as first, open_on(world, index=1) as second:
        program = second.load(add("gfx1100"))
        x = put(first, a)
        with pytest.raises(BadArgument, match="belongs to"):
            second.launch(program, [x, x, x, N], 1)
        check(x.map_to(second) == x.gpu_va)
        y = second.alloc(4 * N)
        ready = first.new_signal()
        second.compute_queue().wait(ready, 1).exec(program, [x, x, y, N]).submit()
        first.copy_queue().copy(x, x, 4).signal(ready, 1).submit()
        np.testing.assert_array_equal(get(second, y), a + a)
    check(not board.violations, str(board.violations))


def test_everything_is_given_back_32_and_17_times() -> None:
    board = open_board("gfx1100")
    world = ForeignWorld(board)
    with open_on(world) as device:
        program = device.load(add("gfx1100"))
        still_works(device, program)
        device.trim()
        before = board.baseline()
        for count in (32, 17):
            programs = [device.load(add("gfx1100")) for _ in range(count)]
            buffers = [device.alloc(300 << 10) for _ in range(count)]
            signals = [device.new_signal() for _ in range(count)]
            graphs = [device.compute_queue().barrier().bind() for _ in range(count)]
            for graph in graphs:
                graph.replay()
                graph.close()
            for thing in (*programs, *signals):
                thing.close()
            for buffer in buffers:
                buffer.free()
            del programs, buffers, signals, graphs, graph, thing, buffer
            device.trim()
            np.testing.assert_equal(board.baseline(), before, f"{count}")
