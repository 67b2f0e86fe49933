"""The AMD driver and its process: ^C, other threads' waits, a child after fork()."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
from types import FrameType

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.event import WAIT_EVENTS
from drivers.amd.kfd.session import close_session
from drivers.amd.kfd.waiting import Events
from drivers.base.errors import DeviceFault, Unsupported, UseAfterFree
from drivers.gpu.doorbell import check_order
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, device_on, get, open_on, put
from tests.support import check

N = 64
LONG_S = 20
BIG_BYTES = 1 << 20
PAGE_BYTES = 4096


class Interrupter:
    """Raises KeyboardInterrupt at the `at`-th call or return in the driver's own code."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        name = frame.f_code.co_filename
        if "/drivers/" not in name and "/queues/" not in name:
            return
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_launch_can_be_interrupted_at_every_call(queue: str) -> None:
    a = np.arange(N, dtype=np.float32)
    with device_on("gfx1100", queue) as (_, device):
        program, x, y = device.load(add("gfx1100")), put(device, a), device.alloc(4 * N)
        device.launch(program, [x, x, y, N], 1)
        interrupts = 0
        for at in range(1, 200):
            sys.setprofile(Interrupter(at))
            try:
                device.launch(program, [x, x, y, N], 1)
            except KeyboardInterrupt:
                interrupts += 1
                device.launch(program, [x, x, y, N], 1)
                continue
            finally:
                sys.setprofile(None)
            break
        check(interrupts > 4, f"{interrupts} interrupts")
        np.testing.assert_array_equal(get(device, y), a + a)


class TwoWaiters(ForeignWorld):
    """Another thread waits just after the kernel answered the first one."""

    events: Events | None = None

    def ioctl(self, fd: int, request: int, argument: bytearray) -> int:
        result = super().ioctl(fd, request, argument)
        events, self.events = self.events, None
        if events is not None and request == WAIT_EVENTS.request:
            check(events.wait(0) is None)
        return result


def test_a_fault_reaches_the_thread_that_it_was_told_to() -> None:
    world = TwoWaiters(open_board("gfx1100"))
    with open_on(world) as device:
        program, big = device.load(add("gfx1100")), device.alloc(BIG_BYTES)
        nowhere = big.gpu_va + BIG_BYTES
        device.launch(program, [nowhere, nowhere, big, N], 1)
        world.events = device.iface.events
        with pytest.raises(DeviceFault):
            device.synchronize()
    close_session(world)


def test_memory_that_is_wrapped_again() -> None:
    with device_on("gfx1100") as (_, device), mmap.mmap(-1, 2 * PAGE_BYTES) as memory:
        whole = memoryview(memory)
        floats = np.frombuffer(memory, np.float32)
        program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))
        first, second = device.wrap(whole), device.wrap(whole)
        check(first.gpu_va == second.gpu_va)
        first.free()
        device.launch(program, [x, x, second, N], 1)
        device.synchronize()
        np.testing.assert_array_equal(floats[:N], np.full(N, 2))
        with pytest.raises(Unsupported, match="in a buffer already"):
            device.wrap(whole[PAGE_BYTES:])
        second.free()
        part = device.wrap(whole[PAGE_BYTES:])  # nobody asked for the others back yet
        device.launch(program, [part, part, x, N], 1)
        part.free()
        again = device.wrap(whole)
        check(again.view().nbytes == 2 * PAGE_BYTES)
        again.free()
        device.trim()
        del floats
        whole.release()


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_copy_does_not_write_what_a_kernel_still_reads(queue: str, early: bool) -> None:
    """Queues of this board run only while the process waits, so that the kernel comes late."""
    a = np.arange(N, dtype=np.float32)
    options = Options(late=True)
    with device_on("gfx1100", queue, options) as (_, device):
        program = device.load(add("gfx1100"))
        x, y, z = put(device, a), put(device, a + 9), device.alloc(4 * N)
        copies = device.copy_queue() if not early else None
        gate = device.new_signal(int(early))
        device.compute_queue().wait(gate, 1).exec(program, [x, x, z, N]).submit()
        x.free()
        again = device.alloc(4 * N)
        copied = device.new_signal()
        copies = copies or device.copy_queue()
        copies.copy(again, y, 4 * N).signal(copied, 1).submit()
        copied.wait(1)
        gate.set(1)
        np.testing.assert_array_equal(get(device, z), a + a)
        np.testing.assert_array_equal(get(device, again), a + 9)


def test_memory_that_another_gpu_still_reads_is_not_reused() -> None:
    a = np.arange(N, dtype=np.float32)
    world = ForeignWorld(open_board("gfx1100", gpus=2, options=Options(late=True)))
    with open_on(world) as home, open_on(world, index=1) as other:
        program, x, z = other.load(add("gfx1100")), put(home, a), other.alloc(4 * N)
        x.map_to(other)
        gate = other.new_signal()
        other.compute_queue().wait(gate, 1).exec(program, [x, x, z, N]).submit()
        x.free()
        again = put(home, a + 9)
        gate.set(1)
        np.testing.assert_array_equal(get(other, z), a + a)
        np.testing.assert_array_equal(get(home, again), a + 9)
    close_session(world)


def invalidates_l2(device: AmdDevice, start_dw: int) -> bool:
    """Whether the compute ring has an ACQUIRE_MEM with GL2_INV from a word on.

    src: nvd.h PACKET3_ACQUIRE_MEM, PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_INV(x) ((x) << 14)
    """
    words = np.frombuffer(bytes(device.compute.bytes), np.uint32)[start_dw : device.compute.put]
    found = np.flatnonzero(words == 0xC0065800)
    return bool(np.any(words[found + 7] >> 14 & 1))


@pytest.mark.parametrize("how", ["synchronize", "signal", "reader's signal", "copy"])
@pytest.mark.parametrize("writer", [0, 1], ids=["its owner", "the other"])
def test_caches_of_memory_that_another_gpu_wrote_are_dropped(writer: int, how: str) -> None:
    """src: gmc_v11_0.c gmc_v11_0_get_vm_pte(): a peer's VRAM is cached unless it is coherent."""
    a = np.ones(N, np.float32)
    world = ForeignWorld(open_board("gfx1100", gpus=2))
    with open_on(world) as home, open_on(world, index=1) as other:
        shared = put(home, 0 * a)
        shared.map_to(other)
        writes, reads = (home, other) if writer == 0 else (other, home)
        x, zero, z = put(writes, a), put(reads, 0 * a), reads.alloc(4 * N)
        program, reader = (device.load(add("gfx1100")) for device in (writes, reads))
        reads.launch(reader, [shared, zero, z, N], 1)
        reads.synchronize()
        if "signal" in how:
            done = (writes if how == "signal" else reads).new_signal()
            work = writes.compute_queue().exec(program, [x, x, shared, N])
            work.signal(done, 1).submit()
            done.wait(1)
        elif how == "copy":
            shared.device.copy_in(shared, memoryview(a + a))
        else:
            writes.launch(program, [x, x, shared, N], 1)
            writes.synchronize()
        start = reads.compute.put
        reads.launch(reader, [shared, zero, z, N], 1)
        check(invalidates_l2(reads, start), "it may read what its L2 kept")
        np.testing.assert_array_equal(get(reads, z), a + a)
    close_session(world)


def test_processors_that_reorder_stores_are_refused() -> None:
    check_order("x86_64")
    for machine in ("aarch64", "ppc64le", "riscv64", ""):
        with pytest.raises(Unsupported, match="order"):
            check_order(machine)


def test_a_child_after_fork_leaves_its_parents_queues_alone() -> None:
    a = np.arange(N, dtype=np.float32)
    with device_on("gfx1100") as (board, device):
        program, x, y = device.load(add("gfx1100")), put(device, a), device.alloc(4 * N)
        graph = device.compute_queue().exec(program, [x, x, y, N]).bind()
        ring, held, go = bytes(device.compute.bytes), threading.Event(), threading.Event()

        def hold() -> None:
            pair, heap = device.pair, device.heap
            locks = pair.compute.lock, pair.copies.lock, pair.lock, heap.allocator._lock
            with locks[0], locks[1], locks[2], locks[3]:
                held.set()
                go.wait(LONG_S)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(LONG_S)
        child = os.fork()
        if child == 0:
            signal.alarm(LONG_S)
            refused = 0
            for work in (
                lambda: device.launch(program, [x, x, y, N], 1),
                lambda: device.compute_queue().exec(program, [x, x, y, N]).submit(),
                lambda: device.copy_queue().copy(x, y, N).submit(),
                lambda: put(device, a),
                graph.replay,
                device.synchronize,
                lambda: device.alloc(BIG_BYTES),
            ):
                try:
                    work()
                except UseAfterFree as error:
                    refused += "forked" in str(error)
            before = board.baseline()
            device.close()
            after = board.baseline()
            same = (before.queues, before.events, before.buffers) == (
                after.queues, after.events, after.buffers,
            )  # fmt: skip
            os._exit(0 if refused == 7 and same else 1)
        _, status = os.waitpid(child, 0)
        go.set()
        thread.join(LONG_S)
        np.testing.assert_equal(os.waitstatus_to_exitcode(status), 0)
        check(bytes(device.compute.bytes) == ring, "the child wrote into the ring")
        device.launch(program, [x, x, y, N], 1)
        np.testing.assert_array_equal(get(device, y), a + a)
