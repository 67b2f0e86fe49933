"""MTLBuffers of other libraries as tensors, and ours as theirs, on the made-up Metal."""

from __future__ import annotations

import runpy
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, Unsupported
from drivers.metal.abi import CONSTANTS
from tests.dlpack_maker import CPU, FLAG_COPIED, FLAG_READ_ONLY, METAL, Producer, managed
from tests.metal.lender import (
    COUNT,
    F32,
    blob,
    client,
    everywhere,
    forgotten,
    numbers,
)
from tests.metal.made_up import runtime
from tests.support import check

ROOT: Final = Path(__file__).parents[2]


@everywhere
def test_both_sides_see_one_mtlbuffer(mode: str) -> None:
    with client() as other:
        before = runtime().live("MTLBuffer")
        handle = other.buffer(numbers(), mode)
        x = blob(handle, (32, 32))
        np.testing.assert_array_equal(x.numpy().ravel(), numbers())
        other.floats(handle)[:] = numbers() * 3
        np.testing.assert_array_equal(x.numpy().ravel(), numbers() * 3)
        grid = (numbers() * 3).reshape(32, 32)
        np.testing.assert_array_equal((x.T @ xp.eye(32, device="METAL") + x).numpy(), grid.T + grid)
        view = blob(handle, (5, 3), strides=(-7, 2), offset=40)
        expected = [[(40 - 7 * i + 2 * j) * 3 for j in range(3)] for i in range(5)]
        np.testing.assert_array_equal(view.numpy(), expected)
        other.floats(handle)[:] = numbers() * 5
        np.testing.assert_array_equal(view.numpy() * 3, np.multiply(expected, 5))
        other.release(handle)
        np.testing.assert_array_equal(x.numpy().ravel(), numbers() * 5, "retained")
        del x, view
        forgotten()
        other.device.heap.allocator.trim()
        live = runtime().live("MTLBuffer") - before
        check(live <= len(other.device.heap.allocator.live()), f"{live} buffers live")


def test_a_shared_buffer_is_read_where_it_is_and_a_private_one_is_copied() -> None:
    with client() as other:
        for mode, same in (("shared", True), ("private", False)):
            handle = other.buffer(numbers(), mode)
            x = blob(handle, COUNT)
            place = x.numpy().__array_interface__["data"][0]
            check((place == int(other.lib.made_up_bytes(handle))) is same, mode)
            buffer = x._node.storage.buffer
            check((buffer.host is None) is not same, mode)
            if not same:
                with pytest.raises(Unsupported, match=r"does not see memory.*copy_out"):
                    buffer.view()
            other.device.copy_in(buffer, memoryview(numbers() * 4).cast("B"))
            np.testing.assert_array_equal(other.floats(handle), numbers() * 4)
            other.device.copy_in(buffer, memoryview(b"\1\2\3"))  # less than a word
            check(other.bytes(handle)[:5].tolist() == [1, 2, 3, 0, 0], mode)
            odd = bytearray(7)
            other.device.copy_out(memoryview(odd), buffer)
            check(bytes(odd) == other.bytes(handle)[:7].tobytes(), mode)
            other.release(handle)
            del x, buffer


def test_a_jitted_function_takes_lent_memory() -> None:
    """More kernels in a row than one, so that they are indirect commands, which keep nothing."""
    with client() as other:
        handle = other.buffer(numbers(64))
        lent, own = blob(handle, 64), xp.asarray(numbers(64), device="METAL")
        run = xp.jit(lambda x: xp.contiguous(xp.contiguous(x * 2 - 1) * 3) + x)
        for number in range(6):
            found = run(own if number % 3 else lent).numpy()
            np.testing.assert_array_equal(found, (numbers(64) * 2 - 1) * 3 + numbers(64))
        other.floats(handle)[:64] += 1
        found = run(lent).numpy()
        np.testing.assert_array_equal(found, numbers(64) * 7 + 4)
        other.release(handle)
        del lent, own, run, found


def test_ours_is_an_mtlbuffer_of_theirs() -> None:
    with client() as other:
        x = xp.asarray(numbers(), device="METAL") * 2
        check(x.__dlpack_device__() == (METAL, 0))
        struct = managed(x.__dlpack__(max_version=(1, 1)))
        made = struct.dl_tensor
        check((made.device.device_type, made.device.device_id) == (METAL, 0))
        check((struct.flags, made.byte_offset) == (FLAG_READ_ONLY, 0))
        np.testing.assert_array_equal(other.floats(made.data), numbers() * 2)
        other.floats(made.data)[:] = numbers() * 7  # against the flag: the memory is one
        np.testing.assert_array_equal(x.numpy(), numbers() * 7)
        copied = managed(x.__dlpack__(max_version=(1, 1), copy=True))
        check((copied.flags, copied.dl_tensor.data != made.data) == (FLAG_COPIED, True))
        host = managed(x.__dlpack__(max_version=(1, 1), dl_device=(CPU, 0)))
        check((host.dl_tensor.device.device_type, host.flags) == (CPU, FLAG_COPIED))
        with pytest.raises(BufferError, match="a legacy capsule needs a copy"):
            x.__dlpack__(copy=False)
        with pytest.raises(BufferError, match="no stream"):
            x.__dlpack__(stream=1)
        with pytest.raises(BufferError, match="cannot see"):
            x.__dlpack__(max_version=(1, 1), dl_device=(METAL, 1))
        del struct, made, copied, host, x


@everywhere
def test_a_capsule_of_an_mtlbuffer_both_ways(mode: str) -> None:
    with client() as other:
        handle = other.buffer(numbers(), mode)
        source = Producer(handle, (4, 8), F32, device=(METAL, 0), byte_offset=64)
        x = xp.from_dlpack(source)
        check(x.device == "METAL")
        np.testing.assert_array_equal(x.numpy().ravel(), numbers()[16:48])
        whole = xp.from_dlpack(Producer(handle, (COUNT,), F32, device=(METAL, 0)))
        other.floats(handle)[:] += 1
        np.testing.assert_array_equal((x * 2).numpy().ravel(), numbers()[16:48] * 2 + 2)
        back = managed(whole.__dlpack__(max_version=(1, 1), copy=False))
        check((back.dl_tensor.data, back.flags) == (handle, 0), "the same object, writable")
        locked = Producer(handle, (4,), F32, device=(METAL, 0), flags=FLAG_READ_ONLY)
        kept = xp.from_dlpack(locked)
        check(managed(kept.__dlpack__(max_version=(1, 1))).flags == FLAG_READ_ONLY)
        on_host = xp.from_dlpack(source, device="CPU")
        np.testing.assert_array_equal(on_host.numpy().ravel(), numbers()[16:48] + 1)
        with pytest.raises(BufferError, match="from METAL to CPU needs a copy"):
            xp.from_dlpack(source, device="CPU", copy=False)
        del x, whole, back, on_host, kept
        xp.ones(1, device="CPU").realize()  # the CPU gives back what it shared
        forgotten()
        check((source.deleted, locked.deleted) == (3, 1), f"{source.deleted} {locked.deleted}")
        other.release(handle)


def test_native_handles() -> None:
    with client() as other:
        found = xp.native_handles("METAL")
        check(sorted(found) == ["MTLCommandQueue", "MTLDevice"])
        check(found["MTLDevice"] == other.device.handle)
        with other.device.api.pool():
            commands = other.send["commandBuffer"](found["MTLCommandQueue"])
            other.send["commit"](commands)
            for _ in range(100_000):
                if other.send["status"](commands) >= CONSTANTS["MTL::CommandBufferStatusCompleted"]:
                    break
                other.device.world.sleep(1e-4)
            check(other.send["status"](commands) == CONSTANTS["MTL::CommandBufferStatusCompleted"])


class OnMps:
    """What the example asks a tensor of torch on mps for."""

    def __init__(self, handle: int, shape: tuple[int, ...], steps: tuple[int, ...], offset: int):
        self.shape, self.dtype, self.device = shape, "torch.float32", SimpleNamespace(type="mps")
        self.untyped_storage = lambda: SimpleNamespace(data_ptr=lambda: handle)
        self.stride, self.storage_offset = lambda: steps, lambda: offset


def test_the_example_takes_a_tensor_on_mps() -> None:
    shared = runpy.run_path(str(ROOT / "examples" / "share_torch.py"))["shared"]
    with client() as other:
        handle = other.buffer(numbers(), "private")
        theirs = OnMps(handle, (3, 4), (1, 3), 16)
        x = shared(theirs)
        expected = numbers()[16:28].reshape(4, 3).T
        np.testing.assert_array_equal(x.numpy(), expected)
        other.floats(handle)[:] *= 2
        np.testing.assert_array_equal((x * x).numpy(), expected * expected * 4)
        with pytest.raises(BadArgument, match="outside of the 4096"):
            shared(OnMps(handle, (3, 4), (1, 3), COUNT - 11))
        other.release(handle)
        alive = weakref.ref(theirs)
        del theirs
        check(alive() is not None, "its owner is kept")
        del x
        forgotten()
        check(alive() is None)
