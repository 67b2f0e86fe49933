"""What is refused of lent memory, host memory, and how long owners live, on the made-up Metal."""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, OutOfMemory, Unsupported, UseAfterFree
from drivers.metal.device import MetalDevice
from drivers.world.own_memory import is_readable
from tensor import engine
from tests.dlpack_maker import METAL, Producer, managed
from tests.metal.failing import refused_once
from tests.metal.lender import (
    COUNT,
    F32,
    MODES,
    Client,
    Owner,
    blob,
    client,
    everywhere,
    forgotten,
    numbers,
)
from tests.metal.made_up import metal, runtime
from tests.share import part
from tests.support import check


def test_each_mistake_has_its_error() -> None:
    with client() as other:
        handle, elsewhere = other.buffer(numbers()), other.buffer(numbers(), gpu=1)
        managed_one, gone = other.buffer(numbers(), "managed"), other.buffer(numbers())
        other.release(gone)
        array = np.full(64, 64, np.uint64)
        at, hole = array.__array_interface__["data"][0], mmap.mmap(-1, 4 * mmap.PAGESIZE)
        queue = xp.native_handles("METAL")["MTLCommandQueue"]
        for match, pointer, more in (
            ("outside of the 4096", handle, {"shape": COUNT + 1}),
            ("outside of the 4096", handle, {"shape": 4, "offset": -1}),
            ("outside of the 4096", handle, {"shape": 4, "strides": (-1,)}),
            ("outside of the 16", handle, {"shape": 5, "nbytes": 16}),
            ("another GPU than METAL.*name its device", elsewhere, {"shape": 4}),
            ("is not an object, or it was released.*owner=", gone, {"shape": 4}),
            ("is not an object, or it was released", at, {"shape": 4}),
            ("is an object, but no MTLBuffer: no -length", queue, {"shape": 4}),
            ("no readable memory is there", 24, {"shape": 4}),
            ("no readable memory is there.*storage_offset", handle + 4, {"shape": 4}),
            ("is not an object", handle + 16, {"shape": 4}),
            ("not a pointer", 0, {"shape": 4}),
        ):
            with pytest.raises(BadArgument, match=match):
                blob(pointer, **more)
        for match, pointer, more in (
            ("is managed.*MTLResourceStorageModeShared", managed_one, {"shape": 4}),
            ("only mtlbuffer and address", handle, {"shape": 4, "kind": "cl_mem"}),
            ("overlap", handle, {"shape": (3, 3), "strides": (1, 1)}),
            ("METAL lacks|no float64|float64", handle, {"shape": 4, "dtype": "float64"}),
        ):
            with pytest.raises(Unsupported, match=match):
                blob(pointer, **more)
        odd = Producer(handle, (4,), F32, device=(METAL, 0), byte_offset=2)
        with pytest.raises(BufferError, match="not aligned to 4"):
            xp.from_dlpack(odd)
        far = Producer(elsewhere, (4,), F32, device=(METAL, 0))
        with pytest.raises(BufferError, match="another GPU"):
            xp.from_dlpack(far)
        gc.collect()
        check((odd.deleted, far.deleted) == (1, 1))
        hole.close()
        for one in (handle, elsewhere, managed_one):
            other.release(one)


def test_pages_of_the_host() -> None:
    page = mmap.PAGESIZE
    with client() as other:
        pages = mmap.mmap(-1, 4 * page)
        floats = np.frombuffer(pages, np.float32)
        floats[:] = numbers(floats.size)
        at = floats.__array_interface__["data"][0]
        x = blob(at, (4, page // 4), kind="address", owner=pages)
        np.testing.assert_array_equal(x.numpy().ravel(), floats)
        part = blob(at + 8, 6, kind="address", offset=1, strides=(2,), owner=pages)
        floats[:] *= 2
        np.testing.assert_array_equal((x + 1).numpy().ravel(), numbers(floats.size) * 2 + 1)
        np.testing.assert_array_equal(part.numpy(), numbers(14)[3:14:2] * 2)
        made = managed(x.__dlpack__(max_version=(1, 1)))
        check(int(other.lib.made_up_bytes(made.dl_tensor.data)) == at, "an MTLBuffer over them")
        for match, pointer, more in (
            ("are not whole pages.*mmap", at + 4, {"shape": 8}),
            ("are not whole pages", at, {"shape": 8}),
            ("where the process may write", at, {"shape": page, "readonly": True}),
        ):
            with pytest.raises(Unsupported, match=match):
                blob(pointer, kind="address", **more)
        array = numbers(4)  # less than a page, wherever it begins
        with pytest.raises(Unsupported, match="are not whole pages"):
            blob(array.__array_interface__["data"][0], 4, kind="address", owner=array)
        locked = mmap.mmap(-1, page, prot=mmap.PROT_READ)
        start = np.frombuffer(locked, np.uint8).__array_interface__["data"][0]
        with pytest.raises(Unsupported, match="where the process may write"):
            blob(start, page // 4, kind="address", owner=locked)
        with pytest.raises(BadArgument, match="read-only"):
            blob(start, page // 4, kind="address")
        with pytest.raises(BadArgument, match="not aligned to 4"):
            blob(at + 2, page // 4, kind="address", owner=pages)
        with pytest.raises(BadArgument, match="outside of the"):
            blob(at, 2 * page, kind="address", owner=pages)
        del floats, x, part
        with pytest.raises(BufferError):
            pages.close()  # a view of it is lent
        del made
        forgotten()
        pages.close()
        with pytest.raises(UseAfterFree, match="the owner's memory is gone"):
            blob(at, 4, kind="address", owner=pages)


def test_pages_and_buffers_that_are_dropped_are_given_back() -> None:
    """By a caller that allocates nothing beside them."""
    page = mmap.PAGESIZE
    with client() as other:
        handle, before = other.buffer(numbers()), runtime().live("MTLBuffer")
        for _ in range(50):
            other.device.wrap(memoryview(mmap.mmap(-1, page))).free()
            blob(handle, COUNT)
        live = runtime().live("MTLBuffer") - before
        check(live <= len(("wrapped", "lent")), f"{live} buffers are left")
        other.release(handle)


@everywhere
def test_the_owner_lives_until_its_last_work_is_done(mode: str) -> None:
    with client() as other:
        handle, owner = other.buffer(numbers()), Owner()
        alive = weakref.ref(owner)
        y = blob(handle, COUNT, owner=owner) + 1
        del owner
        forgotten()
        check(alive() is not None)
        other.release(handle)  # ours is still there
        np.testing.assert_array_equal(y.numpy(), numbers() + 1)
        forgotten()
        check(alive() is None, "the result has memory of its own")


def test_work_that_is_not_done_keeps_its_memory() -> None:
    with client() as other:
        lib, owner = other.lib, Owner()
        handle = other.buffer(numbers())
        alive = weakref.ref(owner)
        lib.made_up_hold(1)
        y = (blob(handle, COUNT, owner=owner) + 1).realize()
        del owner
        other.release(handle)
        forgotten()
        check(alive() is not None, "the GPU did not run yet")
        lib.made_up_hold(0)
        np.testing.assert_array_equal(y.numpy(), numbers() + 1)
        forgotten()
        check(alive() is None)


def test_what_lives_longer_than_the_device() -> None:
    owner, before = Owner(), runtime().live()
    alive = weakref.ref(owner)
    with metal() as device, engine.adopted("METAL", device):
        other = Client(device)
        handle = other.buffer(numbers())
        x = blob(handle, COUNT, owner=owner)
        other.release(handle)
        del owner
        gc.collect()
    check(alive() is None, "given back with the device")
    with pytest.raises(UseAfterFree):
        device.copy_out(memoryview(bytearray(4)), x._node.storage.buffer)
    check(runtime().live() == before, "ended with the device")
    with metal() as device, engine.adopted("METAL", device):
        owner = Owner()
        alive = weakref.ref(owner)
        handle = other.buffer(numbers())
        lent = blob(handle, COUNT, owner=owner)
        capsule = lent.__dlpack__(max_version=(1, 1))
        own = (lent * 2).__dlpack__(max_version=(1, 1))
        other.release(handle)
        data = managed(own).dl_tensor.data
        del lent, owner
        gc.collect()
        device.close()
        check(alive() is not None, "a capsule has it")
        np.testing.assert_array_equal(other.floats(data), numbers() * 2)
        del capsule, own
        gc.collect()
        check(alive() is None, "given back without the device")


def test_memory_that_is_full_for_private_reads() -> None:
    with client() as other:
        handle = other.buffer(numbers(), "private")
        x = blob(handle, COUNT)
        buffer = x._node.storage.buffer
        raw = other.device.raw
        longest, raw.max_bytes = raw.max_bytes, 64
        full = partial(pytest.raises, OutOfMemory, match="4,096 bytes do not fit")
        with full():
            other.device.copy_out(memoryview(bytearray(4 * COUNT)), buffer)
        with full():
            other.device.copy_in(buffer, memoryview(numbers()).cast("B"))
        raw.max_bytes = longest
        np.testing.assert_array_equal(x.numpy(), numbers())
        other.release(handle)
        del x, buffer


def test_which_memory_can_be_read() -> None:
    array = numbers()
    at = array.__array_interface__["data"][0]
    check(is_readable(at, array.nbytes) and is_readable(at + 5, 1))
    check(not any(is_readable(address, 8) for address in (8, 1 << 62, (1 << 64) - 8)))
    pages = mmap.mmap(-1, 3 * mmap.PAGESIZE, prot=mmap.PROT_READ)
    start = np.frombuffer(pages, np.uint8).__array_interface__["data"][0]
    check(is_readable(start, 3 * mmap.PAGESIZE))


def test_a_child_after_fork_gives_nothing_back() -> None:
    """What Metal made is the parent's."""
    with client() as other:
        handle = other.buffer(numbers())
        x = blob(handle, COUNT)
        capsule = (x * 2).__dlpack__(max_version=(1, 1))
        other.device.synchronize()
        before = runtime().live("MTLBuffer")
        for closing in (False, True):
            if closing:  # which the capsule outlives
                np.testing.assert_array_equal(x.numpy(), numbers())
                other.device.close()
                before = runtime().live("MTLBuffer")
                check(before > 1, "the client's, and the capsule's")
            child = os.fork()
            if not child:
                del x, capsule
                gc.collect()
                os._exit(int(runtime().live("MTLBuffer") != before or runtime().report() != []))
            check(os.waitpid(child, 0)[1] == 0, "the child released something")
        del x, capsule
        other.release(handle)


def shared_life(device: MetalDevice) -> Any:
    """Everything that is done with memory of others, once; nothing of it is left."""
    with engine.adopted("METAL", device), ExitStack() as ends:
        ends.callback(gc.collect)
        other, found = Client(device), []
        for mode in MODES:
            handle = other.buffer(numbers(), mode)
            ends.callback(other.release, handle)
            lent = blob(handle, COUNT)
            copied = managed((lent * 2).__dlpack__(max_version=(1, 1)))
            found += [other.floats(copied.dl_tensor.data).copy(), lent.numpy().copy()]
            device.copy_in(lent._node.storage.buffer, memoryview(numbers()).cast("B"))
            del lent, copied
        return np.array(found)


def test_every_object_is_refused_once() -> None:
    refused_once(shared_life, part, 12)
