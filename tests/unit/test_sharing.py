"""Memory of numpy and others as tensors of the CPU: shared, checked, and kept while it is used."""

from __future__ import annotations

import gc
import mmap
import weakref

import numpy as np
import pytest

import drivers
import tensor as xp
from compilers import dtype as dt
from drivers.base.errors import BadArgument, NotFound, Unsupported, UseAfterFree
from drivers.kinds import BEST_FIRST
from drivers.world.linux import LinuxWorld
from tensor import engine
from tensor.executable import Storage
from tests.support import check


def address(array):
    return array.__array_interface__["data"][0]


def blob(array, **more):
    """numpy's array by its address; its owner is not asked for bounds, so that it is a tuple."""
    steps = [step // array.itemsize for step in array.strides]
    options = {"strides": steps, "owner": (array,), **more}
    return xp.from_blob(address(array), array.shape, array.dtype, "CPU", **options)


@pytest.mark.parametrize("dtype", [t for t in dt.ALL if t is not dt.bfloat16], ids=str)
def test_both_sides_see_one_memory(dtype):
    array = np.arange(24).reshape(4, 6).astype(dtype.storage)
    x = blob(array)
    check(address(x.numpy()) == address(array), "the same address")
    np.testing.assert_array_equal(x.numpy(), array)
    array[1, 2] = array[3, 5]
    array[0, 1] = not array[0, 1]
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(xp.where(x == x, x, x).numpy(), array)


VIEWS = {
    "transposed": lambda a: a.transpose(2, 0, 1),
    "backwards": lambda a: a[::-1, :, ::-2],
    "a column": lambda a: a[:, 1, 2],
    "steps": lambda a: a[1::2, ::3, 1:5:2],
    "an inner block": lambda a: a[1:3, 2:4, 3:6].transpose(1, 2, 0),
    "one element": lambda a: a[3, 4, 5],
    "repeated": lambda a: np.broadcast_to(a[:, None, 1], (4, 3, 6)),
    "length 1": lambda a: a[2:3, ::-1, 4:5],
    "nothing": lambda a: a[2:2, ::-1],
    "whole": lambda a: a,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_numpy_s_and_follow_later_writes(name):
    array = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
    view = VIEWS[name](array)
    for x in (blob(view), xp.from_dlpack(array) if name == "whole" else blob(view)):
        np.testing.assert_array_equal(x.numpy(), view)
        array[...] += 1000
        np.testing.assert_array_equal(x.numpy(), view, "read anew")
        np.testing.assert_array_equal((x * 2).numpy(), view * 2)


def test_strided_arrays_at_random():
    rng = np.random.default_rng(3)
    array = np.arange(7 * 8 * 9 * 2, dtype=np.int64).reshape(7, 8, 9, 2)
    for _ in range(60):
        key = []
        for n in array.shape:
            start, stop = sorted(rng.integers(0, n + 1, 2))
            step = int(rng.integers(1, 4))
            key.append(slice(start, stop, step) if rng.random() < 0.5 else
                       slice(stop - 1 if stop else None, None, -step))  # fmt: skip
        view = array[tuple(key)].transpose(rng.permutation(4))
        np.testing.assert_array_equal(blob(view).numpy(), view)


def test_offset_and_strides_are_in_elements():
    array = np.arange(40, dtype=np.int16)
    x = xp.from_blob(address(array), (3, 2), "int16", "CPU", (10, 2), 5, array)
    np.testing.assert_array_equal(x.numpy(), [[5, 7], [15, 17], [25, 27]])
    backwards = xp.from_blob(address(array), 4, xp.int16, "CPU", (-1,), 3, array)
    np.testing.assert_array_equal(backwards.numpy(), [3, 2, 1, 0])


class Owner:
    """Something that has memory, and no buffer protocol."""

    def __init__(self):
        self.array = np.arange(1000, dtype=np.float32)


def forgotten():
    """Take back what finalisers gave back: the next allocation does."""
    gc.collect()
    xp.ones(1, device="CPU").realize()


def test_the_owner_lives_until_the_last_view_of_it():
    owner = Owner()
    alive = weakref.ref(owner)
    x = xp.from_blob(address(owner.array), 1000, "float32", "CPU", owner=owner)
    array, capsule, view = x.numpy(), np.from_dlpack(x), xp.to_memoryview(x)
    del owner, x
    for name in ("array", "capsule", "view"):
        forgotten()
        check(alive() is not None, f"{name} and others are over it")
        np.testing.assert_array_equal(view, np.arange(1000))
        if name == "array":
            del array
        elif name == "capsule":
            del capsule
    del view
    forgotten()
    check(alive() is None, "nothing is left")


def test_a_lazy_result_keeps_the_owner():
    owner = Owner()
    alive = weakref.ref(owner)
    y = xp.from_blob(address(owner.array), (10, 100), "float32", "CPU", owner=owner).T + 1
    del owner
    forgotten()
    check(alive() is not None)
    np.testing.assert_array_equal(y.numpy(), np.arange(1000).reshape(10, 100).T + 1)
    forgotten()
    check(alive() is None, "the result has memory of its own")


def test_a_shared_buffer_is_locked():
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        array = np.frombuffer(memory, np.uint8)
        place = address(array)
        del array
        x = xp.from_blob(place, 16, "uint8", "CPU", owner=memory)
        with pytest.raises(BufferError):
            memory.close()
        memory[3] = 77
        check(x.numpy()[3] == 77)
        del x
        forgotten()


def test_a_released_owner():
    memory = bytearray(64)
    place = address(np.frombuffer(memory, np.uint8))
    view = memoryview(memory)
    view.release()
    with pytest.raises(UseAfterFree, match="before it is released"):
        xp.from_blob(place, 4, "uint8", "CPU", owner=view)
    with mmap.mmap(-1, mmap.PAGESIZE) as closed:
        pass
    with pytest.raises(UseAfterFree, match="memory is gone"):
        xp.from_blob(place, 4, "uint8", "CPU", owner=closed)


def test_unmapped_memory():
    with mmap.mmap(-1, 4 * mmap.PAGESIZE) as memory:
        array = np.frombuffer(memory, np.uint8)
        place = address(array)
        del array
        xp.from_blob(place, 4 * mmap.PAGESIZE, "uint8", "CPU")
        forgotten()
    with pytest.raises(BadArgument, match="no readable memory"):
        xp.from_blob(place, 4, "uint8", "CPU")
    with pytest.raises(BadArgument, match="no readable memory"):
        xp.from_blob(64, 4, "uint8", "CPU")


def test_read_only_memory():
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ) as memory:
        array = np.frombuffer(memory, np.float32)
        place, count = address(array), array.size
        with pytest.raises(BadArgument, match=r"read-only.*readonly=True"):
            xp.from_blob(place, count, "float32", "CPU")
        x = xp.from_blob(place, count, "float32", "CPU", readonly=True)
        y = xp.from_blob(place, count, "float32", "CPU", owner=array)  # it says so itself
        for one in (x, y):
            check(not np.asarray(one).flags.writeable)
            check(not np.from_dlpack(one).flags.writeable)
            with pytest.raises(BufferError, match="a legacy capsule needs a copy"):
                one.__dlpack__(copy=False)
            check(float((one + 1).numpy()[5]) == 1.0)
        del array, x, y, one
        forgotten()


def test_memory_that_its_owner_writes_is_exported_writable():
    array = np.arange(6, dtype=np.float32)
    x = xp.from_blob(address(array), 6, "float32", "CPU", owner=array)
    for back in (np.asarray(x), np.from_dlpack(x)):
        check(address(back) == address(array))
        back += 1
    np.testing.assert_array_equal(array, np.arange(6) + 2)
    np.testing.assert_array_equal(x.numpy(), array)
    # numpy never writes to what a legacy capsule brings
    check(address(np.from_dlpack(Legacy(x))) == address(array))


class Legacy:
    """A consumer's view of an exporter from before DLPack 1.0."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **_):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_a_tensor_never_writes_to_what_it_was_lent():
    array = np.arange(6, dtype=np.float32)
    x = xp.from_blob(address(array), 6, "float32", "CPU", owner=array)
    x += 1
    x[2] = 50
    np.testing.assert_array_equal(x.numpy(), [1, 2, 50, 4, 5, 6])
    np.testing.assert_array_equal(array, np.arange(6))


def refused(error, match, *args, **more):
    with pytest.raises(error, match=match):
        xp.from_blob(*args, **more)


def test_each_mistake_has_its_error():
    array = np.arange(24, dtype=np.float32)
    at = address(array)
    refused(BadArgument, r"outside of the 96 .*correct the shape", at, 25, "float32", "CPU",
            owner=array)  # fmt: skip
    refused(BadArgument, "outside", at, 24, "float32", "CPU", offset=1, owner=array)
    refused(BadArgument, "outside", at, 4, "float32", "CPU", (-1,), owner=array)
    refused(BadArgument, "outside", at, (3, 3), "float32", "CPU", (9, 4), owner=array)
    refused(BadArgument, "outside", at, 5, "float32", "CPU", nbytes=16)
    refused(BadArgument, "outside", at, 1 << 62, "float32", "CPU")
    refused(BadArgument, "not aligned to 4", at + 2, 4, "float32", "CPU", owner=array)
    refused(BadArgument, "not a pointer", 0, 4, "float32", "CPU")
    refused(BadArgument, "not a pointer", -8, 4, "float32", "CPU")
    refused(BadArgument, "not a pointer", 1 << 64, 4, "float32", "CPU")
    refused(BadArgument, "'abc' is not a pointer", "abc", 4, "float32", "CPU", nbytes=8)
    refused(BadArgument, "2 strides of 1 axes", at, 4, "float32", "CPU", (1, 1))
    refused(Unsupported, r"overlap.*make the array contiguous", at, (3, 3), "float32", "CPU",
            (1, 1), owner=array)  # fmt: skip
    refused(ValueError, "negative", at, -4, "float32", "CPU")
    refused(TypeError, "complex64.*convert to one of", at, 4, "complex64", "CPU")
    refused(TypeError, "is not a dtype here", at, 4, None, "CPU")
    refused(Unsupported, "only address", at, 4, "float32", "CPU", kind="cl_mem")
    refused(NotFound, "kgsl", at, 4, "float32", "QCOM")
    check(xp.from_blob(at, (0, 5), "float32", "CPU").shape == (0, 5), "no memory is needed")


@pytest.mark.parametrize("kind", BEST_FIRST, ids=lambda kind: kind.name)
def test_every_kind_of_device_shares_or_says_why_not(kind):
    """A kind without a driver, and one whose driver shares nothing: here a CPU device in its place.

    What the others share has its own tests.
    """
    array = np.arange(4, dtype=np.float32)
    if not kind.borrows:
        with drivers.open("CPU") as device, engine.adopted(kind.name, device):
            refused(Unsupported, rf"takes no memory.*asarray\(array, device='{kind.name}'\)",
                    address(array), 4, "float32", kind.name)  # fmt: skip
    check(kind.borrows or kind.name not in ("CPU", "CL", "AMD", "METAL", "CUDA"))


def test_the_array_interface():
    x = xp.asarray(np.arange(6, dtype=np.int16).reshape(2, 3), device="CPU") * 2
    found = x.__array_interface__
    check((found["version"], found["shape"], found["typestr"]) == (3, (2, 3), "<i2"))
    check(isinstance(found["data"], memoryview) and found["data"].readonly)
    array = np.asarray(x)
    check(address(array) == address(x.numpy()))
    x *= 5  # other memory for x; the array's must stay
    x.realize()
    forgotten()
    others = [(xp.asarray(np.full((2, 3), 9, np.int16), device="CPU") + 1) for _ in range(8)]
    check(all(int(other.realize()[0, 0]) == 10 for other in others))
    np.testing.assert_array_equal(array, [[0, 2, 4], [6, 8, 10]])
    np.testing.assert_array_equal(np.asarray(x), array * 5)
    check(not hasattr(xp.ones(2, dtype=xp.bfloat16, device="CPU"), "__array_interface__"))


def test_the_array_interface_keeps_nothing():
    """A view of lent memory is copied for each reading, and the copy ends with its array."""
    source = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = blob(source.T)
    for _ in range(2):
        before = _storages()
        arrays = [np.asarray(x) for _ in range(20)]
        check(len({address(array) for array in arrays}) == 20)
        np.testing.assert_array_equal(arrays[-1], source.T)
        del arrays
        forgotten()
        check(_storages() <= before, f"{before} -> {_storages()}")


def _storages():
    gc.collect()
    return sum(isinstance(one, Storage) for one in gc.get_objects())


def test_dtypes_by_the_names_of_others():
    for name in ("half", "float", "double", "short", "int", "long"):
        c_type = {"half": "e", "float": "f", "double": "d", "short": "h", "int": "i", "long": "q"}
        check(xp.dtype_from(f"torch.{name}").name == np.dtype(c_type[name]).name, name)
    for dtype in dt.ALL:
        check(xp.dtype_from(dtype) is dtype)
        check(xp.dtype_from(f"torch.{dtype.name}") is dtype)
        if dtype is not dt.bfloat16:
            check(xp.dtype_from(np.dtype(dtype.name)) is dtype)
    other = ">" if np.little_endian else "<"
    for foreign in (np.dtype(f"{other}f4"), np.dtype(f"{other}i8")):
        with pytest.raises(TypeError, match="byteswap it"):
            xp.dtype_from(foreign)
    check(xp.dtype_from(np.dtype("|u1")) is xp.uint8, "one byte has no order")
    for wrong in ("torch.qint8", "float8_e4m3fn", np.complex64, object(), 3):
        with pytest.raises(TypeError, match="is not a dtype here"):
            xp.dtype_from(wrong)


def test_memory_of_a_cuda_device():
    class OnCuda:
        @property
        def __cuda_array_interface__(self):
            return {"shape": (2,), "typestr": "<f4", "data": (64, False), "version": 3}

    class Bare(LinuxWorld):
        def library(self, name):
            raise NotFound(f"no {name} here")

    with engine.on_machine(Bare()), pytest.raises(NotFound, match=r"libcuda.*install NVIDIA"):
        xp.asarray(OnCuda(), device="CPU")
    check(not hasattr(xp.ones(2), "__cuda_array_interface__"), "it is not memory of CUDA")


def test_native_handles():
    check(xp.native_handles("CPU") == {})
