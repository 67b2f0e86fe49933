"""Memory of OpenCL devices: reused when no queue uses it, and what ends with the device."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from threading import Thread

import numpy as np
import pytest

from drivers.base.contracts import Buffer
from drivers.base.errors import DeviceFault, DeviceGone, UseAfterFree
from drivers.cl import abi
from drivers.cl.building import builder
from drivers.cl.device import ClDevice
from drivers.cl.event import Event
from drivers.cl.memory import FINE
from drivers.world.native import memory_at
from tests.contract.arrays import get, put, ramp
from tests.opencl import PLATFORMS, opencl
from tests.opencl_watch import watched_world
from tests.support import check
from tests.unit.test_opencl_faults import BUSY, LOST, OUT
from tests.unit.test_opencl_graphs import COUNT, loaded

BYTES = 1 << 20
OTHER = 1 << 16
platforms = pytest.mark.parametrize("platform", PLATFORMS)


class Work:
    """One kernel, whose queue counts as busy until the host learns that it is done."""

    def __init__(self, device: ClDevice) -> None:
        self.device, self.program = device, loaded(device)
        self.buffers = [put(device, ramp(50)) for _ in range(3)]

    def launch(self) -> None:
        self.device.launch(self.program, self.buffers, 50)

    def copy(self) -> None:
        a, b, _ = self.buffers
        self.device.copy_queue().copy(a, b, 200).submit()


def given_back(device: ClDevice) -> int:
    """Address of memory that was used and is free."""
    buffer = device.alloc(BYTES)
    va = buffer.gpu_va
    buffer.free()
    return va


@platforms
def test_one_queue_reuses_memory_at_once(platform: str) -> None:
    with opencl(platform) as device:
        work = Work(device)
        work.launch()
        check(given_back(device) == device.alloc(BYTES).gpu_va, "later work of the same queue")


@platforms
@pytest.mark.parametrize("busy", ["compute", "copy"])
def test_two_queues_reuse_memory_when_both_are_idle(platform: str, busy: str) -> None:
    with opencl(platform) as device:
        work = Work(device)
        work.copy()
        device.synchronize()
        kept = device.alloc(BYTES)
        va = kept.gpu_va
        (work.launch if busy == "compute" else work.copy)()
        kept.free()
        other = device.alloc(BYTES)
        check(other.gpu_va != va, f"{busy} may still use it")
        device.synchronize()
        check(device.alloc(BYTES).gpu_va == va, "idle")


@platforms
def test_the_first_copy_waits_for_memory_that_was_reused(platform: str) -> None:
    with opencl(platform) as device:
        work = Work(device)
        work.launch()
        given_back(device)
        again = device.alloc(BYTES)
        check(device.rings[0].busy, "the kernel is not known to be done")
        device.copy_queue().copy(again, work.buffers[0], 200).submit()
        check(not device.rings[0].busy, "it is")


@platforms
def test_the_host_waits_for_the_previous_owner(platform: str) -> None:
    """Kernels write memory that was given back, and the host writes it as a new buffer."""
    with opencl(platform, CL_MEMORY=FINE) as device:
        program = loaded(device, OTHER)
        a, b, c = put(device, ramp(OTHER)), put(device, ramp(OTHER)), device.alloc(4 * OTHER)
        device.synchronize()
        for _ in range(50):
            device.launch(program, [a, b, c], OTHER)
        c.free()
        again = device.alloc(4 * OTHER)
        again.view().cast("i")[:] = np.zeros(OTHER, np.int32)
        device.synchronize()
        check(not get(device, again).any(), "a kernel of the previous owner wrote it")


@platforms
def test_a_signal_that_was_reached_makes_a_queue_idle(platform: str) -> None:
    with opencl(platform) as device:
        work, signal = Work(device), device.new_signal()
        work.copy()
        device.synchronize()
        for number in range(1, 4):
            queue = device.compute_queue().exec(work.program, work.buffers, (50, 1, 1))
            queue.signal(signal, number).submit()
            check(device.rings[0].busy, "not known to be done")
            signal.wait(number)
            check(not device.rings[0].busy, "known by the signal")
            check(given_back(device) == device.alloc(BYTES).gpu_va, "reused")


@platforms
def test_full_memory_waits_for_what_was_given_back(platform: str) -> None:
    with opencl(platform) as device:
        work = Work(device)
        work.copy()
        device.synchronize()
        kept = device.alloc(BYTES)
        work.launch()
        kept.free()
        used = device.memory_stats()
        device.heap.allocator.limit_bytes = used.used_bytes + used.cached_bytes
        check(device.alloc(BYTES).nbytes == BYTES, "after waiting for the kernel")


@platforms
def test_nothing_is_seen_or_counted_after_close(platform: str) -> None:
    with opencl(platform) as device:
        buffer, view = device.alloc(BYTES), device.alloc(BYTES)
        seen = view.host
        device.close()
        if device.memory_kind == FINE:
            with pytest.raises(UseAfterFree):
                _ = buffer.host
        buffer.free()
        check(device.memory_stats().live == 0, f"{device.memory_stats()}")
        del seen, view


@platforms
@pytest.mark.parametrize("call", ["clGetEventInfo", "clFlush", "clEnqueueMarkerWithWaitList"])
def test_a_lost_device_closes(platform: str, call: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        work = Work(device)
        work.launch()
        ring = device.rings[0]
        ring.finished(ring.marker(), world, 5.0)  # a lost device runs nothing; this one might
        inner, device.api.functions = device.api.functions, dict(device.api.functions)
        device.api.functions[call] = _lost(inner[call], call)
        with pytest.raises((DeviceFault, DeviceGone)):
            device.close()
        device.api.functions = inner
        check(not watch.left, f"closed with {watch.left}")
        device.close()
        with pytest.raises(UseAfterFree):
            work.launch()


def _lost(call: Callable[..., int], name: str) -> Callable[..., int]:
    def failing(*args: int) -> int:
        if name != "clGetEventInfo":
            return LOST
        status = call(*args)
        if args[3]:
            memory_at(args[3], 4, lambda: None).cast("B").cast("i")[0] = OUT
        return status

    return failing


@platforms
def test_a_signal_closed_while_another_thread_asks_it(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events are released once: the thread that closes may run between any two calls."""
    world, watch = watched_world()
    with opencl(platform, world) as device:
        signal = device.new_signal()
        device.compute_queue().signal(signal, 1).signal(signal, 2).submit()
        device.synchronize()
        done = Event.done

        def closed_meanwhile(event: Event) -> bool:
            if not signal.closed:
                closer = Thread(target=signal.close)
                closer.start()
                closer.join()
            return done(event)

        monkeypatch.setattr(Event, "done", closed_meanwhile)
        check(signal.value == 0, "nothing is taken from a closed signal")
        device.alloc(BYTES).free()
        check(watch.live["event"] == 0, f"{watch.left}")
    check(not watch.left, f"{watch.left}")


@platforms
def test_a_child_calls_no_library(platform: str) -> None:
    """Its finalisers release nothing, and neither compiling nor opening is tried."""
    world, watch = watched_world()
    with opencl(platform, world) as device:
        buffer: Buffer | None = device.alloc(BYTES)
        seen = buffer.host if buffer else None
        arch = device.arch
        device.close()
        child = os.fork()
        if not child:
            code = 9
            try:
                before = watch.calls.total()
                buffer = seen = None
                gc.collect()
                code = _refused(platform, arch) + 4 * (watch.calls.total() != before)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        check(os.waitstatus_to_exitcode(status) == 0, f"the child left with {status:#x}")
        del seen, buffer
    check(not watch.left, f"{watch.left}")


def _refused(platform: str, arch: str) -> int:
    """0 where both are refused, with the reason."""
    code = 3
    try:
        builder(arch)
    except UseAfterFree:
        code -= 1
    try:
        opencl(platform).__enter__()
    except Exception as error:
        code -= 2 * ("before a fork" in str(error))
    return code


@platforms
def test_a_builder_is_its_process_own(platform: str) -> None:
    with opencl(platform) as device:
        child = os.fork()
        if not child:
            code = 1
            try:
                builder(device.arch)
            except UseAfterFree:
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        check(os.waitstatus_to_exitcode(status) == 0, f"the child left with {status:#x}")


@platforms
@pytest.mark.parametrize("memory", ["FINE", "BUFFER"])
def test_what_fails_between_commands_is_handed_over(platform: str, memory: str) -> None:
    """The commands before it are flushed: their memory is not held for ever."""
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=memory) as device:
        work = Work(device)
        queue = device.compute_queue()
        for _ in range(2):
            queue.exec(work.program, work.buffers, (50, 1, 1))
        graph = queue.bind()
        before = watch.calls["clFlush"]
        watch.fail(BUSY, 1, "clEnqueueNDRangeKernel")
        with pytest.raises(DeviceGone):
            graph.replay()
        check(watch.calls["clFlush"] == before + 1, "the first one")
        check(abi.STATUS[BUSY] == "CL_INVALID_COMMAND_QUEUE", "what was made to fail")


@platforms
def test_a_kernel_sees_what_was_written_before(platform: str) -> None:
    """A blocking write of cl_mem may return before the write: its event says when it is over."""
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY="BUFFER") as device:
        kernel = loaded(device)
        source, ones = device.alloc(4 * COUNT), put(device, np.ones(COUNT, np.int32))
        outs = [device.alloc(4 * COUNT) for _ in range(20)]
        for number, out in enumerate(outs):
            device.copy_in(source, memoryview(ramp(COUNT, number)).cast("B"))
            device.launch(kernel, [source, ones, out], COUNT)
        for number, out in enumerate(outs):
            np.testing.assert_array_equal(get(device, out), 3 * ramp(COUNT, number) + 1)
        writes = watch.calls["clEnqueueWriteBuffer"]
        check(writes == 1 + len(outs), f"{writes} writes")
    check(not watch.left, f"{watch.left}")
