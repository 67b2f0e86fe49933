"""cl_mem and SVM of other OpenCL code as tensors, and ours as theirs: PoCL and Intel's runtime."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceError, Unsupported, UseAfterFree
from drivers.base.undo import Undo
from drivers.cl import abi
from drivers.cl.api import Words
from drivers.cl.device import ClDevice
from drivers.cl.event import Event
from drivers.cl.memory import FINE, KINDS
from tensor import engine
from tests.dlpack_maker import CPU, FLAG_COPIED, FLAG_READ_ONLY, OPENCL, Producer, managed
from tests.opencl import PLATFORMS, opencl
from tests.opencl_watch import watched_world
from tests.support import check

F32 = (2, 32, 1)
COUNT = 1024
OUT_OF_RESOURCES, LONG_S = -5, 60.0
FAILING = [
    *(("clGetMemObjectInfo", at) for at in range(8)),
    *(("clCreateBuffer", at) for at in range(4)),
    *(("clReleaseMemObject", at) for at in range(4)),
    ("clRetainMemObject", 0), ("clEnqueueNDRangeKernel", 0), ("clFlush", 0),
]  # fmt: skip
"""Calls that fail, and which of them: more than there are is none."""
# Intel's runtime has all kinds of memory
SETTINGS = [*((name, {}) for name in PLATFORMS),
            *(("intel", {"CL_MEMORY": kind}) for kind in KINDS)]  # fmt: skip
everywhere = pytest.mark.parametrize(
    ("platform", "settings"), SETTINGS, ids=[f"{p} {s}" for p, s in SETTINGS]
)
platforms = pytest.mark.parametrize("platform", PLATFORMS)


class Client:
    """Other code in the device's context: it creates, writes and reads by OpenCL's functions."""

    def __init__(self, device: ClDevice) -> None:
        self.device, self.api = device, device.api
        handles = xp.native_handles("CL")
        self.context = handles["cl_context"]
        self.queue = self.api.make("clCreateCommandQueue", self.context, handles["cl_device_id"], 0)

    def buffer(self, values: Any, flags: int = abi.MEM_READ_WRITE) -> int:
        handle = self.api.make("clCreateBuffer", self.context, flags, values.nbytes, 0)
        with Undo() as undo:
            undo.add(partial(self.release, handle))
            self.write(handle, values)
        return handle

    def write(self, handle: int, values: Any, off: int = 0) -> None:
        """A write that blocks may return before it is done, as Intel's does: its event is not.

        # src: OpenCL API 1.2, clEnqueueWriteBuffer: blocking_write
        """
        at, event = values.__array_interface__["data"][0], Words([0])
        self.api.do(
            "clEnqueueWriteBuffer", self.queue, handle, 1, off, values.nbytes, at, 0, 0, event.at
        )
        written = Event(self.api, event.words[0])
        try:
            check(any(written.done() for _ in polls(LONG_S, self.device.world)), "written")
        finally:
            written.release()

    def read(self, handle: int, count: int = COUNT) -> Any:
        found = np.empty(count, np.float32)
        at = found.__array_interface__["data"][0]
        self.api.do("clEnqueueReadBuffer", self.queue, handle, 1, 0, found.nbytes, at, 0, 0, 0)
        return found

    def references(self, handle: int) -> int:
        return self.api.number("clGetMemObjectInfo", handle, 0x1105)  # CL_MEM_REFERENCE_COUNT

    def release(self, handle: int) -> None:
        self.api.do("clReleaseMemObject", handle)

    def close(self) -> None:
        self.api.do("clReleaseCommandQueue", self.queue)


@contextmanager
def client(platform: str, **settings: str) -> Iterator[Client]:
    with opencl(platform, **settings) as device, engine.adopted("CL", device):
        made = Client(device)
        yield made
        made.close()
        gc.collect()


def numbers(count: int = COUNT) -> Any:
    return np.arange(count, dtype=np.float32)


def forgotten() -> None:
    gc.collect()
    xp.ones(1, device="CL").realize()


@everywhere
def test_both_sides_see_one_cl_mem(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        handle = other.buffer(numbers())
        x = xp.from_blob(handle, (32, 32), "float32", "CL")
        np.testing.assert_array_equal(x.numpy().ravel(), numbers())
        other.write(handle, numbers() * 3)
        np.testing.assert_array_equal(x.numpy().ravel(), numbers() * 3)
        found = (x.T @ xp.eye(32, device="CL") + x).numpy()
        grid = (numbers() * 3).reshape(32, 32)
        np.testing.assert_array_equal(found, grid.T + grid)
        view = xp.from_blob(handle, (5, 3), "float32", "CL", (-7, 2), 40)
        expected = [[(40 - 7 * i + 2 * j) * 3 for j in range(3)] for i in range(5)]
        np.testing.assert_array_equal(view.numpy(), expected)
        other.write(handle, numbers() * 5)
        np.testing.assert_array_equal(view.numpy() * 3, np.multiply(expected, 5))
        check(other.references(handle) > 1, "retained")
        del x, view
        forgotten()
        check(other.references(handle) == 1, "released")
        other.release(handle)


@everywhere
def test_ours_is_a_cl_mem_of_theirs(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        x = xp.asarray(numbers(), device="CL") * 2
        check(x.__dlpack_device__() == (OPENCL, 0))
        struct = managed(x.__dlpack__(max_version=(1, 1)))
        made = struct.dl_tensor
        check((made.device.device_type, made.device.device_id) == (OPENCL, 0))
        check((struct.flags, made.byte_offset) == (FLAG_READ_ONLY, 0))
        check(other.api.number("clGetMemObjectInfo", made.data, abi.MEM_TYPE) == 0x10F0)
        np.testing.assert_array_equal(other.read(made.data), numbers() * 2)
        other.write(made.data, numbers() * 7)  # against the flag: the memory is one
        np.testing.assert_array_equal(x.numpy(), numbers() * 7)
        copied = managed(x.__dlpack__(max_version=(1, 1), copy=True))
        check(copied.flags == FLAG_COPIED)
        other.write(copied.dl_tensor.data, numbers() * 9)
        np.testing.assert_array_equal(x.numpy(), numbers() * 7)
        host = managed(x.__dlpack__(max_version=(1, 1), dl_device=(CPU, 0)))
        check((host.dl_tensor.device.device_type, host.flags) == (CPU, FLAG_COPIED))
        with pytest.raises(BufferError, match="another device needs a copy"):
            x.__dlpack__(max_version=(1, 1), dl_device=(CPU, 0), copy=False)
        with pytest.raises(BufferError, match="a legacy capsule needs a copy"):
            x.__dlpack__(copy=False)
        with pytest.raises(BufferError, match="no stream"):
            x.__dlpack__(stream=1)
        with pytest.raises(BufferError, match="cannot see"):
            x.__dlpack__(max_version=(1, 1), dl_device=(OPENCL, 1))
        del struct, made, copied, host, x


@everywhere
def test_a_capsule_of_a_cl_mem_both_ways(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        handle = other.buffer(numbers())
        source = Producer(handle, (4, 8), F32, device=(OPENCL, 0), byte_offset=64)
        x = xp.from_dlpack(source)
        check(x.device == "CL")
        np.testing.assert_array_equal(x.numpy().ravel(), numbers()[16:48])
        whole = xp.from_dlpack(Producer(handle, (COUNT,), F32, device=(OPENCL, 0)))
        other.write(handle, numbers() + 1)
        np.testing.assert_array_equal((x * 2).numpy().ravel(), numbers()[16:48] * 2 + 2)
        back = managed(whole.__dlpack__(max_version=(1, 1), copy=False))
        check(back.dl_tensor.data == handle, "the same object")
        on_host = xp.from_dlpack(source, device="CPU")
        check(on_host.device == "CPU")
        np.testing.assert_array_equal(on_host.numpy().ravel(), numbers()[16:48] + 1)
        with pytest.raises(BufferError, match="from CL to CPU needs a copy"):
            xp.from_dlpack(source, device="CPU", copy=False)
        del x, whole, back, on_host
        forgotten()
        check((source.deleted, other.references(handle)) == (3, 1), f"{source.deleted}")
        other.release(handle)


@platforms
def test_svm(platform: str) -> None:
    with client(platform) as other:
        alloc = other.api.functions["clSVMAlloc"]
        flags = abi.MEM_READ_WRITE | abi.MEM_SVM_FINE_GRAIN_BUFFER
        if other.device.memory_kind != FINE:
            with pytest.raises(Unsupported, match="no shared virtual memory"):
                xp.from_blob(4096, 4, "float32", "CL", kind="svm")
            return
        place = alloc(other.context, flags, 4 * COUNT, 64)
        floats = np.frombuffer(_bytes(place, 4 * COUNT), np.float32)
        floats[:] = numbers()
        x = xp.from_blob(place, COUNT, "float32", "CL", kind="svm", owner=Owner())
        check(x.numpy().__array_interface__["data"][0] == place)
        floats[:] = numbers() * 2
        np.testing.assert_array_equal((x + 1).numpy(), numbers() * 2 + 1)
        with pytest.raises(BadArgument, match="not aligned"):
            xp.from_blob(place + 1, 4, "float32", "CL", kind="svm")
        with pytest.raises(BadArgument, match="no readable memory at 0x40"):
            xp.from_blob(64, 4, "float32", "CL", kind="svm")
        del x, floats
        forgotten()
        other.api.functions["clSVMFree"](other.context, place)


def _bytes(address: int, nbytes: int) -> Any:
    from drivers.world.native import memory_at

    return memory_at(address, nbytes, lambda: None)


class Owner:
    """Something that can be watched."""


@platforms
def test_the_owner_lives_until_its_last_work_is_done(platform: str) -> None:
    with client(platform) as other:
        handle, owner = other.buffer(numbers()), Owner()
        alive = weakref.ref(owner)
        y = xp.from_blob(handle, COUNT, "float32", "CL", owner=owner) + 1
        del owner
        forgotten()
        check(alive() is not None)
        other.release(handle)  # ours is still there
        np.testing.assert_array_equal(y.numpy(), numbers() + 1)
        forgotten()
        check(alive() is None, "the result has memory of its own")


@platforms
def test_what_lives_longer_than_the_device(platform: str) -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    with client(platform) as other:
        handle, api = other.buffer(numbers()), other.api
        x = xp.from_blob(handle, COUNT, "float32", "CL", owner=owner)
        capsule = (xp.from_blob(handle, COUNT, "float32", "CL") * 2).__dlpack__()
    with pytest.raises(UseAfterFree):
        other.device.copy_out(memoryview(bytearray(4)), x._node.storage.buffer)
    del owner
    check(alive() is not None)
    del x, capsule
    gc.collect()
    check(alive() is None, "given back without the device")
    api.do("clReleaseMemObject", handle)


@everywhere
def test_each_mistake_has_its_error(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        blob = partial(xp.from_blob, dtype="float32", device="CL")
        handle = other.buffer(numbers())
        devices = Words([other.device.facts.found.device])
        elsewhere = other.api.make("clCreateContext", 0, 1, devices.at, 0, 0)
        foreign = other.api.make("clCreateBuffer", elsewhere, abi.MEM_READ_WRITE, 64, 0)
        closed = other.api.make("clCreateBuffer", other.context, abi.MEM_WRITE_ONLY, 4096, 0)
        array = numbers()
        for match, pointer, more in (
            ("outside of 4096", handle, {"shape": COUNT + 1}),
            ("outside of 4096", handle, {"shape": 4, "offset": -1}),
            ("outside of 4096", handle, {"shape": 4, "strides": (-1,)}),
            ("outside of the 16", handle, {"shape": 5, "nbytes": 16}),
            ("another context.*native_handles", foreign, {"shape": 4}),
            ("is not a cl_mem of", array.__array_interface__["data"][0], {"shape": 4}),
            ("is not a cl_mem, or it was released", other.context, {"shape": 4}),
            ("no readable memory", 24, {"shape": 4}),
            ("not a pointer", 0, {"shape": 4}),
        ):
            with pytest.raises(BadArgument, match=match):
                blob(pointer, **more)
        for match, pointer, more in (
            ("without WRITE_ONLY", closed, {"shape": 4}),
            ("only cl_mem and svm and address", handle, {"shape": 4, "kind": "dmabuf"}),
            ("overlap", handle, {"shape": (3, 3), "strides": (1, 1)}),
        ):
            with pytest.raises(Unsupported, match=match):
                blob(pointer, **more)
        odd = Producer(handle, (4,), F32, device=(OPENCL, 0), byte_offset=2)
        with pytest.raises(BufferError, match="not aligned to 4"):
            xp.from_dlpack(odd)
        far = Producer(foreign, (4,), F32, device=(OPENCL, 0))
        with pytest.raises(BufferError, match="another context"):
            xp.from_dlpack(far)
        gc.collect()
        check((odd.deleted, far.deleted) == (1, 1))
        check(other.references(handle) == 1, "a refusal retains nothing")
        for one in (handle, foreign, closed):
            other.release(one)
        other.api.do("clReleaseContext", elsewhere)


@platforms
def test_replays_of_a_graph_take_lent_memory(platform: str) -> None:
    """Twelve small kernels, which are one from the fourth replay on where memory has addresses."""

    def step(x: xp.Tensor) -> xp.Tensor:
        for number in range(12):
            x = xp.contiguous(x * 2 - number)
        return x

    expected = numbers(64)
    for number in range(12):
        expected = expected * 2 - number
    with client(platform) as other:
        handle = other.buffer(numbers(64))
        lent = xp.from_blob(handle, 64, "float32", "CL")
        own = xp.asarray(numbers(64), device="CL")
        run = xp.jit(step)
        for number in range(12):
            np.testing.assert_array_equal(run(own if number % 3 else lent).numpy(), expected)
        run = xp.jit(step)
        for _ in range(6):
            np.testing.assert_array_equal(run(own).numpy(), expected)
        np.testing.assert_array_equal(run(lent).numpy(), expected)
        other.write(handle, numbers(64) + 1)
        np.testing.assert_array_equal(run(lent).numpy(), expected + 2**12)
        del lent, own, run
        forgotten()
        check(other.references(handle) == 1)
        other.release(handle)


@everywhere
def test_copies_between_lent_and_own_memory(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        device, handle = other.device, other.buffer(numbers())
        lent = xp.from_blob(handle, COUNT, "float32", "CL")._node.storage.buffer
        own = xp.zeros(COUNT, device="CL").realize()
        device.synchronize()  # the copy queue runs beside the compute queue
        copy = device.copy_queue().copy
        if device.memory_kind == "COARSE":
            with pytest.raises(Unsupported, match="coarse SVM"):
                copy(own._node.storage.buffer, lent, 4 * COUNT).submit()
        else:
            copy(own._node.storage.buffer, lent, 4 * COUNT).submit()
            device.synchronize()
            np.testing.assert_array_equal(own.numpy(), numbers())
        device.copy_in(lent, memoryview(numbers() * 4).cast("B"))
        np.testing.assert_array_equal(other.read(handle), numbers() * 4)
        del lent, own, copy
        forgotten()
        other.release(handle)


def shared_life(device: ClDevice) -> Any:
    """Everything that is done with memory of others, once; nothing of it is left."""
    with engine.adopted("CL", device), ExitStack() as ends:
        ends.callback(gc.collect)
        other = Client(device)
        ends.callback(other.close)
        handle = other.buffer(numbers())
        ends.callback(other.release, handle)
        lent = xp.from_blob(handle, COUNT, "float32", "CL")
        x = lent * 2
        copied = managed(x.__dlpack__())
        return [other.read(copied.dl_tensor.data), x.numpy().copy(), lent.numpy().copy()]


@pytest.mark.parametrize("memory", ["FINE", "BUFFER"])
@platforms
def test_a_call_that_fails_leaves_nothing(platform: str, memory: str) -> None:
    calls: Counter[str] = Counter()
    for name, at in (("", -1), *FAILING):
        world, watch = watched_world()
        try:
            with opencl(platform, world, CL_MEMORY=memory) as device:
                watch.fail(OUT_OF_RESOURCES, at, name)
                found = shared_life(device)
        except DeviceError as error:
            check(watch.failed == name, f"{name}: {error!r}")
            check(error.hint, f"{error!r}")
        else:
            for got, factor in zip(found, (2, 2, 1), strict=True):
                np.testing.assert_array_equal(got, numbers() * factor, f"{name} failed unnoticed")
        gc.collect()
        left = watch.left
        if watch.failed == "clReleaseMemObject":  # the call was not made
            left = {kind: count for kind, count in left.items() if kind != "memory"}
        check(not left, f"{name} {at} leaves {left}")
        calls += watch.calls
    check(all(calls[name] for name, _ in FAILING), f"{calls}")
