"""The Metal driver on the made-up Metal: graphs, failures, what is left, what it says."""

from __future__ import annotations

import mmap
from threading import Timer
from typing import Any, Final

import numpy as np
import pytest

import drivers
from drivers.base.contracts import Param, Program
from drivers.base.errors import (
    CompileError,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.machine.checks import Machine
from drivers.metal import checks
from drivers.metal.device import MetalDevice
from drivers.metal.program import make_library
from queues.metal.kernel_code import MetalCode
from tests.contract.arrays import get, put, ramp
from tests.contract.devices import built
from tests.contract.kernels import combine
from tests.metal.failing import refused_once
from tests.metal.made_up import MadeUpMac, metal, runtime
from tests.share import part
from tests.support import check

COUNT: Final = 256
GRID: Final = (4, 1, 1)
MANY: Final = 2000


def program(device: MetalDevice) -> Program:
    """c = 3 a + b."""
    return device.load(built(combine(device.limits, COUNT), device))


def operands(device: MetalDevice) -> tuple[Any, Any, Any]:
    return put(device, ramp(COUNT)), put(device, ramp(COUNT, 5)), put(device, ramp(COUNT, -1))


def test_launches_in_a_row_are_one_indirect_command_buffer() -> None:
    with metal() as device:
        kernel, (a, b, c) = program(device), operands(device)
        before = runtime().made("MTLIndirectCommandBuffer")
        queue = device.compute_queue()
        for _ in range(3):
            queue.exec(kernel, [a, b, c], GRID).exec(kernel, [c, b, a], GRID)
        graph = queue.bind()
        x, y = ramp(COUNT).astype(np.int64), ramp(COUNT, 5).astype(np.int64)
        encoders = runtime().made("MTLComputeCommandEncoder")
        for _ in range(4):
            graph.replay()
            for _ in range(6):
                x = 3 * x + y
        np.testing.assert_array_equal(get(device, a), x.astype(np.int32))
        made = runtime().made("MTLIndirectCommandBuffer") - before
        check(made == 1, f"{made} for 4 replays of 6 launches")
        check(runtime().made("MTLComputeCommandEncoder") - encoders == 4, "one encoder each")
        graph.close()


def test_a_param_changes_indirect_commands_once_they_are_idle() -> None:
    with metal() as device:
        kernel, (a, b, _) = program(device), operands(device)
        queue = device.compute_queue()
        for _ in range(2):
            queue.exec(kernel, [a, b, Param(0)], GRID)
        graph = queue.bind()
        outs = [put(device, ramp(COUNT, -1)) for _ in range(5)]
        for out in outs:
            graph.replay([out])
        for out in outs:
            np.testing.assert_array_equal(get(device, out), 3 * ramp(COUNT) + ramp(COUNT, 5))
        graph.close()


def test_indirect_commands_are_not_changed_while_they_run() -> None:
    with metal() as device:
        kernel, (a, b, first) = program(device), operands(device)
        second = put(device, ramp(COUNT, -1))
        queue = device.compute_queue()
        for _ in range(2):
            queue.exec(kernel, [a, b, Param(0)], GRID)
        graph = queue.bind()
        runtime().lib.made_up_hold(1)
        later = Timer(0.1, runtime().lib.made_up_hold, [0])
        try:
            graph.replay([first])
            later.start()
            graph.replay([second])
        finally:
            later.join()
        for out in (first, second):
            np.testing.assert_array_equal(get(device, out), 3 * ramp(COUNT) + ramp(COUNT, 5))
        graph.close()


def test_many_launches_leave_as_many_objects_as_before() -> None:
    with metal() as device:
        kernel, (a, b, c) = program(device), operands(device)
        device.launch(kernel, [a, b, c], 4)
        device.synchronize()
        before = runtime().live()
        for _ in range(MANY):
            device.launch(kernel, [a, b, c], 4)
        device.synchronize()
        check(runtime().live() == before, f"{runtime().live()} objects, {before} before")
        made = runtime().made("MTLComputePipelineState")
        device.launch(kernel, [a, b, c], 4)
        check(runtime().made("MTLComputePipelineState") == made, "a launch makes no pipeline")


def test_whole_pages_are_shared_without_a_copy() -> None:
    with metal() as device, mmap.mmap(-1, mmap.PAGESIZE) as pages:
        view = memoryview(pages)
        array = np.frombuffer(view, np.int32)
        array[:COUNT] = ramp(COUNT)
        kernel, (_, b, c) = program(device), operands(device)
        shared = device.wrap(view)
        device.launch(kernel, [shared, b, c], 4)
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
        device.launch(kernel, [c, b, shared], 4)
        device.synchronize()
        np.testing.assert_array_equal(
            array[:COUNT], 3 * (3 * ramp(COUNT) + ramp(COUNT, 5)) + ramp(COUNT, 5)
        )
        shared.free()
        device.alloc(4).free()
        del shared, array
        device.close()
        view.release()


@pytest.mark.parametrize("nbytes", [1, 2, 3, 5, 64, 67, 255])
def test_copies_of_part_of_a_word(nbytes: int) -> None:
    with metal() as device:
        data = np.arange(256, dtype=np.uint8)
        src, dst = device.alloc(256), device.alloc(256)
        device.copy_in(src, memoryview(data))
        device.copy_in(dst, memoryview(np.full(256, 0xEE, np.uint8)))
        device.copy_queue().copy(dst, src, nbytes).submit()
        found = np.zeros(256, np.uint8)
        device.copy_out(memoryview(found), dst)
        wanted = np.full(256, 0xEE, np.uint8)
        wanted[:nbytes] = data[:nbytes]
        np.testing.assert_array_equal(found, wanted)


# Failures


@pytest.mark.parametrize(
    ("code", "kind"),
    [(3, DeviceFault), (9, DeviceFault), (8, OutOfMemory), (11, DeviceGone), (4, DeviceGone),
     (2, Hang), (1, DeviceFault)],
)  # fmt: skip
def test_a_failed_command_buffer_is_an_error_once(code: int, kind: type[DeviceError]) -> None:
    with metal() as device:
        kernel, (a, b, c) = program(device), operands(device)
        runtime().lib.made_up_fail(code)
        device.launch(kernel, [a, b, c], 4)
        with pytest.raises(kind, match="METAL:0 compute") as caught:
            device.synchronize()
        check(caught.value.hint, "what to do")
        device.launch(kernel, [a, b, c], 4)
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))


def test_a_rejected_source_is_reported_with_its_line() -> None:
    with metal() as device:
        source = "#include <metal_stdlib>\nusing namespace metal;\nint broken = wrong;\n"
        with pytest.raises(CompileError, match=r"line 3: .*wrong") as caught:
            make_library(device.api, device.handle, source)
        check(caught.value.source == source and "wrong" in caught.value.log, "both are kept")


def test_pointers_of_one_address_space_are_none_of_another() -> None:
    with metal() as device:
        source = (
            "#include <metal_stdlib>\nusing namespace metal;\n"
            "kernel void k(device float *p [[buffer(0)]]) {\nthreadgroup float *q = p;\n}\n"
        )
        with pytest.raises(CompileError, match="line 4"):
            make_library(device.api, device.handle, source)


def test_memory_that_is_full() -> None:
    with metal() as device:
        runtime().lib.made_up_full(1)
        device.alloc(1 << 20)  # the second try, once the cache is empty
        with pytest.raises(OutOfMemory):
            device.alloc(device.limits.memory_bytes + 1)


def test_a_kernel_that_needs_too_many_registers() -> None:
    with metal() as device:
        made = built(combine(device.limits, COUNT), device)
        runtime().lib.made_up_lanes(32)
        try:
            with pytest.raises(Unsupported, match="at most 32"):
                device.load(made)
        finally:
            runtime().lib.made_up_lanes(1024)


def test_what_a_gpu_must_have() -> None:
    runtime().lib.made_up_families(1)
    try:
        with pytest.raises(Unsupported, match="Apple6"), metal():
            pass
        runtime().lib.made_up_families(0b10)  # Apple7 without Metal3: macOS 12
        with pytest.raises(Unsupported, match=r"Apple7.*macOS 13"), metal():
            pass
        runtime().lib.made_up_families(0b110000)
        with metal() as device:
            check(device.limits.wave_lanes == 0, "its SIMD-groups are of another width, perhaps")
    finally:
        runtime().lib.made_up_families(0x3F)


def test_a_program_closed_behind_a_wait_runs() -> None:
    with metal() as device:
        first, second, (a, b, c) = program(device), program(device), operands(device)
        out, go, done = put(device, ramp(COUNT, -1)), device.new_signal(), device.new_signal()
        device.compute_queue().wait(go, 1).exec(first, [a, b, c], GRID).submit()
        device.compute_queue().exec(second, [a, b, out], GRID).signal(done, 1).submit()
        first.close()
        go.set(1)
        done.wait(1, 2.0)
        for one in (c, out):
            np.testing.assert_array_equal(get(device, one), 3 * ramp(COUNT) + ramp(COUNT, 5))


def test_a_device_that_is_not_there() -> None:
    with (
        pytest.raises(NotFound, match="this machine has 2"),
        drivers.open("METAL:2", world=MadeUpMac(), environ={}),
    ):
        pass
    check(runtime().report() == [], "all are released")


def test_the_probe_names_devices() -> None:
    class Mac(MadeUpMac):
        def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
            if path.endswith("ostype"):
                raise NotFound("no /proc on macOS")
            return super().read(path, limit_bytes)

    before = runtime().live()
    found = checks.metal(Machine(Mac(), {}, lambda name: None))
    check(found.ready and "made-up second GPU (Apple6" in found.reason, found.reason)
    check("never run on Apple hardware" in found.advice, found.advice)
    check(runtime().live() == before and runtime().report() == [], "nothing is left")
    here = checks.metal(Machine(MadeUpMac(), {}, lambda name: None))
    check(not here.ready and "Linux" in here.reason, here.reason)


def life(device: MetalDevice) -> np.ndarray:
    """Everything that a device does, once."""
    (a, b, c), kernel = operands(device), program(device)
    signal = device.new_signal()
    device.launch(kernel, [a, b, c], 4)
    graph = device.compute_queue().exec(kernel, [c, b, a], GRID).exec(kernel, [a, b, c], GRID)
    graph.signal(signal, 1).exec(kernel, [b, c, a], GRID).exec(kernel, [c, b, a], GRID)
    recorded = graph.bind()  # two indirect command buffers
    recorded.replay()
    device.copy_queue().wait(signal, 1).copy(b, c, 4 * COUNT - 1).signal(signal, 2).submit()
    signal.wait(2, 5.0)
    recorded.close()
    return get(device, c)


def test_every_object_is_refused_once() -> None:
    refused_once(life, part, 40)


def test_code_that_is_no_kernel() -> None:
    code = MetalCode(b"kernel", 1, 64, 0).encode()
    for image in (b"", code[:-1], b"xx" + code[2:], code[:8] + b"\xff" * 4 + code[12:]):
        with pytest.raises(DeviceError):
            MetalCode.decode(image)
