"""Memory shared with other libraries on the made-up libcuda: addresses, DLPack, streams."""

from __future__ import annotations

import gc
import mmap
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.cuda import abi, lent
from drivers.cuda.api import Words
from drivers.cuda.device import CudaDevice
from drivers.world.native import address_of
from tensor import engine
from tests.cuda.made_up import Functions, cuda
from tests.dlpack_maker import Producer, managed
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
COUNT: Final = 1024
ROUNDS: Final = 12
"""The made-up library runs streams in another order each time."""
F32: Final = (2, 32, 1)
"""DLPack's float32."""
CUDA: Final = 2
"""# src: dlpack.h, kDLCUDA"""


class Client:
    """Other code in the same process: the same contexts, memory and a stream of its own."""

    def __init__(self, device: CudaDevice) -> None:
        world: Any = device.world
        self.device, self.made = device, world.made
        self._library = Functions(self.made)
        self.context = self.make("cuDevicePrimaryCtxRetain", 0)
        self.do("cuCtxPushCurrent_v2", self.context)
        self.stream = self.make("cuStreamCreate", abi.STREAM_NON_BLOCKING)
        self._held: list[int] = []

    def do(self, name: str, *args: int) -> None:
        code = self._library.function(name, abi.FUNCTIONS[name])(*args)
        check(not code, f"{name}: {code}, {self.made.state.violations}")

    def make(self, name: str, *args: int) -> int:
        cell = Words()
        self.do(name, cell.at, *args)
        return cell.word

    def memory(self, values: Any, *, settle: bool = True) -> int:
        """Device memory with these values, once its stream is done."""
        va = self.make("cuMemAlloc_v2", values.nbytes)
        self._held.append(va)
        self.source = np.ascontiguousarray(values)
        src = address_of(self.source)
        self.do("cuMemcpyHtoDAsync_v2", va, src, values.nbytes, self.stream)
        if settle:
            self.settle()
        return va

    def settle(self) -> None:
        call = self._library.function("cuStreamQuery", abi.FUNCTIONS["cuStreamQuery"])
        for _ in range(1000):
            if not call(self.stream):
                return
        raise AssertionError("the stream is never done")

    def floats(self, va: int, count: int = COUNT) -> Any:
        """What is there, in the order of this client's stream."""
        found = np.zeros(count, np.float32)
        self.do("cuMemcpyDtoHAsync_v2", address_of(found), va, found.nbytes, self.stream)
        self.settle()
        return found

    def close(self) -> None:
        self.settle()
        for va in self._held:
            self.do("cuMemFree_v2", va)
        self.do("cuStreamDestroy_v2", self.stream)
        popped = Words()
        self.do("cuCtxPopCurrent_v2", popped.at)
        self.do("cuDevicePrimaryCtxRelease_v2", 0)


@contextmanager
def client() -> Iterator[Client]:
    with cuda() as device, engine.adopted("CUDA", device):
        made = Client(device)
        yield made
        gc.collect()
        device.synchronize()
        device.alloc(4).free()
        made.close()


class Array:
    """An array of another library, as its interface describes it."""

    def __init__(self, **said: Any) -> None:
        self.said = {"version": 3, "typestr": "<f4", **said}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.said


def numbers() -> Any:
    return np.arange(COUNT, dtype=np.float32)


def blob(va: int, *args: Any, **more: Any) -> Any:
    return xp.from_blob(va, *args, dtype="float32", device="CUDA", **more)


def test_device_memory_is_used_where_it_is() -> None:
    with client() as c:
        va = c.memory(numbers())
        x = blob(va, (COUNT,))
        np.testing.assert_array_equal((x + 1).numpy(), numbers() + 1)
        y = blob(va, (16, 8), strides=(16, 1), offset=4)
        wanted = numbers()[4 : 4 + 256].reshape(16, 16)[:, :8]
        np.testing.assert_array_equal((y * 2).numpy(), wanted * 2)
        before = len(c.made.state.devices[0].context.memory)
        blob(va, (COUNT,)).numpy()
        check(len(c.made.state.devices[0].context.memory) <= before, "no copy was made")
        del x, y


def test_the_owner_is_kept_until_no_work_uses_it() -> None:
    class Owner:
        pass

    gone: list[int] = []
    with client() as c:
        owner = Owner()
        weakref.finalize(owner, gone.append, 1)
        x = blob(c.memory(numbers()), (COUNT,), owner=owner)
        total = xp.sum(x)
        del owner, x
        gc.collect()
        check(not gone, "work may use it")
        check(float(total) == numbers().sum())
        del total
        gc.collect()
        xp.ones(1, device="CUDA").realize()
        check(gone == [1], "it is given up")


def test_each_mistake_has_its_error() -> None:
    with client() as c:
        va = c.memory(numbers())
        host = np.zeros(COUNT, np.float32)
        wrong = {
            "outside of the": (BadArgument, va, (COUNT + 1,)),
            "not aligned": (BadArgument, va + 2, (4,)),
            "not an address that CUDA knows": (BadArgument, 0x1000, (4,)),
            "is not a pointer": (BadArgument, 0, (4,)),
        }
        for match, (kind, pointer, shape) in wrong.items():
            with pytest.raises(kind, match=match):
                blob(pointer, shape)
        with pytest.raises(BadArgument, match="not an address that CUDA knows"):
            blob(address_of(host), (4,), owner=host)
        with pytest.raises(Unsupported, match="not whole pages"):
            blob(address_of(host) + 4, (4,), owner=host, kind="address")
        with pytest.raises(Unsupported, match="shares no memory of kind 'cl_mem'"):
            blob(va, (4,), kind="cl_mem")


def test_memory_of_the_other_device_names_it() -> None:
    with client() as c:
        other = c.make("cuDevicePrimaryCtxRetain", 1)
        c.do("cuCtxPushCurrent_v2", other)
        va = c.make("cuMemAlloc_v2", 64)
        with pytest.raises(BadArgument, match=r"memory of CUDA:1, not of CUDA:0"):
            blob(va, (4,))
        c.do("cuMemFree_v2", va)
        popped = Words()
        c.do("cuCtxPopCurrent_v2", popped.at)
        c.do("cuDevicePrimaryCtxRelease_v2", 1)


def test_pages_of_the_host_are_registered() -> None:
    with client():
        pages = mmap.mmap(-1, mmap.PAGESIZE)
        array = np.frombuffer(pages, np.float32)
        array[:] = numbers()
        x = blob(address_of(pages), (COUNT,), owner=pages, kind="address")
        np.testing.assert_array_equal((x * 3).numpy(), numbers() * 3)
        array[0] = 7  # later writes of the owner are seen
        check(float(x[0] + 0) == 7)
        del x, array
        gc.collect()


# DLPack and array interfaces


def test_dlpack_from_another_library_is_ordered_by_our_stream() -> None:
    with client() as c:
        va, asked = c.memory(numbers(), settle=False), []

        class Ordered(Producer):
            def __dlpack__(self, **more: Any) -> Any:
                asked.append(more.pop("stream"))
                event = c.make("cuEventCreate", 0)
                c.do("cuEventRecord", event, c.stream)
                c.do("cuStreamWaitEvent", asked[-1], event, 0)
                c.do("cuEventDestroy_v2", event)
                return super().__dlpack__(**more)

        x = xp.from_dlpack(Ordered(va, (COUNT,), F32, device=(CUDA, 0)))
        check(x.device == "CUDA" and asked == [c.device.rings[0].stream], f"{asked}")
        np.testing.assert_array_equal((x + 1).numpy(), numbers() + 1)
        del x


def test_dlpack_to_a_stream_waits_there_and_not_here() -> None:
    with client() as c:
        x = xp.asarray(numbers(), device="CUDA") + 1
        capsule = x.__dlpack__(stream=c.stream, max_version=(1, 1))
        check(x.__dlpack_device__() == (CUDA, 0), "its device")
        interface = x.__cuda_array_interface__
        np.testing.assert_array_equal(c.floats(interface["data"][0]), numbers() + 1)
        for number in range(ROUNDS):
            y = x * number
            held = managed(y.__dlpack__(stream=c.stream, max_version=(1, 1)))
            np.testing.assert_array_equal(
                c.floats(held.dl_tensor.data), (numbers() + 1) * number, f"round {number}"
            )
        for stream in (0, -2, "1"):
            with pytest.raises(BufferError, match="no CUDA stream"):
                x.__dlpack__(stream=stream)
        for stream in (None, -1, 1, 2):
            x.__dlpack__(stream=stream, max_version=(1, 1))
        del capsule, x


def test_our_array_interface() -> None:
    with client() as c:
        x = xp.reshape(xp.asarray(numbers(), device="CUDA") * 2, (32, 32))
        said = x.__cuda_array_interface__
        check((said["version"], said["shape"], said["typestr"]) == (3, (32, 32), "<f4"), f"{said}")
        check(said["data"][1] and said["stream"] == c.device.rings[0].stream, f"{said}")
        event = c.make("cuEventCreate", 0)
        c.do("cuEventRecord", event, said["stream"])  # as the interface asks of a consumer
        c.do("cuStreamWaitEvent", c.stream, event, 0)
        np.testing.assert_array_equal(c.floats(said["data"][0]), numbers() * 2)
        c.do("cuEventDestroy_v2", event)
        check(not hasattr(xp.ones(2, device="CPU"), "__cuda_array_interface__"), "of CUDA alone")
        check(not hasattr(xp.astype(x, xp.bfloat16), "__cuda_array_interface__"), "it has no name")
        del x


def test_arrays_of_other_libraries() -> None:
    with client() as c:
        va = c.memory(numbers(), settle=False)
        x = xp.asarray(Array(shape=(32, 32), data=(va, False), stream=c.stream))
        check(x.device == "CUDA", x.device)
        np.testing.assert_array_equal(x.numpy(), numbers().reshape(32, 32))
        for number in range(ROUNDS):
            later = c.memory(numbers() + number, settle=False)
            found = xp.asarray(Array(shape=(COUNT,), data=(later, False), stream=c.stream)) * 2
            np.testing.assert_array_equal(found.numpy(), (numbers() + number) * 2, f"{number}")
        y = xp.asarray(Array(shape=(32, 16), strides=(128, 8), data=(va, True)))
        np.testing.assert_array_equal((y + 0).numpy(), numbers().reshape(32, 32)[:, ::2])
        z = xp.asarray(Array(shape=(4,), data=(va, False)), device="CPU", dtype=xp.int32)
        check((z.device, z.numpy().tolist()) == ("CPU", [0, 1, 2, 3]), f"{z}")
        check(xp.asarray(Array(shape=(0, 3), data=(0, False))).shape == (0, 3), "nothing")
        with pytest.raises(Unsupported, match="mask"):
            xp.asarray(Array(shape=(4,), data=(va, False), mask=Array()))
        with pytest.raises(BadArgument, match="__cuda_array_interface__"):
            xp.asarray(Array(shape=(4,)))
        del x, y


def test_handles_are_those_that_another_library_needs() -> None:
    with client() as c:
        found = xp.native_handles("CUDA")
        check(found["CUcontext"] == c.context and found["CUdevice"] == 0, f"{found}")
        check(found["CUstream"] == c.device.rings[0].stream, f"{found}")


def test_streams_of_a_closed_device() -> None:
    with cuda() as device:
        streams = lent.streams(device)
    for use in (streams.mine, lambda: streams.follow(1), lambda: streams.precede(1)):
        with pytest.raises(UseAfterFree):
            use()
