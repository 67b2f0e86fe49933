"""DLPack's rules on the CPU, with a producer and a reader of capsules made from dlpack.h."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensor as xp
from tests.dlpack_maker import (
    CPU,
    CUDA,
    CUDA_HOST,
    FLAG_COPIED,
    FLAG_READ_ONLY,
    ROCM,
    Producer,
    managed,
)
from tests.support import check

F32, I64, BF16 = (2, 32, 1), (0, 64, 1), (4, 16, 1)
VERSIONS = [None, (1, 0), (1, 1), (1, 7)]


def address(array):
    return array.__array_interface__["data"][0]


def produced(array, dtype=F32, shape=None, **more):
    return Producer(address(array), array.shape if shape is None else shape, dtype, **more)


def forgotten():
    gc.collect()
    xp.ones(1, device="CPU").realize()


def taken(x, **more):
    return xp.from_dlpack(x, device="CPU", **more)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_capsule_is_shared_and_deleted_once(version):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    source = produced(array, version=version)
    x = taken(source)
    check(address(x.numpy()) == address(array))
    check(source.asked == [{"max_version": (1, 1), "copy": None}], str(source.asked))
    array[0, 0] = 99
    y = x + 1
    np.testing.assert_array_equal(y.numpy(), array + 1)
    kept = x.numpy()
    del x, y
    forgotten()
    check(source.deleted == 0, "numpy still has it")
    check(source.managed.dl_tensor.device.device_type == CPU)
    del kept
    forgotten()
    check(source.deleted == 1, f"{source.deleted} times")


def test_strides_and_offset_of_a_capsule():
    array = np.arange(40, dtype=np.float32)
    source = produced(array, shape=(3, 4), strides=(10, -2), byte_offset=32)
    x = taken(source)
    np.testing.assert_array_equal(x.numpy(), [[8, 6, 4, 2], [18, 16, 14, 12], [28, 26, 24, 22]])
    array += 100
    check(float(x.numpy()[2, 3]) == 122.0, "it follows")
    del x
    forgotten()
    check(source.deleted == 1)


def test_bfloat16_and_empty_and_rank_0():
    bits = np.array([0x3F80, 0xC020], np.uint16)
    source = produced(bits, BF16)
    x = taken(source)
    check(x.dtype is xp.bfloat16)
    np.testing.assert_array_equal(x.numpy(), [1.0, -2.5])
    check(source.managed.dl_tensor.dtype.code == BF16[0], "the producer's header is as it was")
    empty = Producer(0, (0, 3), F32)
    check(taken(empty).shape == (0, 3))
    scalar = np.array([5], np.int64)
    check(taken(produced(scalar, I64, shape=())).item() == 5)
    del x
    forgotten()
    check((source.deleted, empty.deleted) == (1, 1))


REFUSED = {
    "complex": ({"dtype": (5, 64, 1)}, "DLPack's complex of 64 bits is not a dtype here"),
    "float8": ({"dtype": (10, 8, 1)}, "float8_e4m3fn of 8 bits"),
    "float4": ({"dtype": (17, 4, 1)}, "float4_e2m1fn of 4 bits"),
    "lanes": ({"dtype": (2, 32, 4)}, "4 lanes"),
    "unheard of": ({"dtype": (99, 8, 1)}, "type code 99"),
    "version 2": ({"version": (2, 0)}, r"DLPack 2\.0; 1\.1 is read here"),
    "axes": ({"shape": (1,) * 65}, "65 axes"),
    "negative": ({"shape": (-1, 2)}, "shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_capsules_are_given_back_once(name):
    array = np.zeros(64, np.float32)
    more, match = REFUSED[name]
    source = produced(array, **more)
    with pytest.raises(BufferError, match=match):
        taken(source)
    gc.collect()
    check(source.deleted == 1, f"{source.deleted} times")


def test_what_is_no_capsule():
    array = np.zeros(4, np.float32)
    source = produced(array)
    capsule = source.__dlpack__()

    class Again:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return CPU, 0

    x = taken(Again())
    with pytest.raises(BufferError, match="taken over already; export the array again"):
        taken(Again())
    check(x.shape == (4,))

    class Wrong(Again):
        def __dlpack__(self, **_):
            return b"bytes"

    with pytest.raises(BufferError, match="no DLPack capsule"):
        taken(Wrong())


@pytest.mark.parametrize("flags", [0, FLAG_READ_ONLY])
def test_read_only_is_passed_on(flags):
    array = np.zeros(4, np.float32)
    x = taken(produced(array, flags=flags))
    struct = managed(x.__dlpack__(max_version=(1, 1)))
    check(struct.flags == flags, f"{struct.flags}")
    check(struct.dl_tensor.data == address(array))
    check(np.asarray(x).flags.writeable is (flags == 0))
    legacy = managed(x.__dlpack__())
    check((legacy.dl_tensor.data == address(array)) is (flags == 0), "else of a copy")


def test_what_a_capsule_of_ours_says():
    x = xp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device="CPU") * 2
    for asked, minor in (((1, 0), 0), ((1, 1), 1), ((1, 5), 1), ((2, 0), 1)):
        capsule = x.__dlpack__(max_version=asked)
        struct = managed(capsule)
        check((struct.version.major, struct.version.minor) == (1, minor), str(asked))
        check(struct.flags == FLAG_READ_ONLY)
        made = struct.dl_tensor
        check((made.data, made.byte_offset) == (address(x.numpy()), 0))
        check((made.device.device_type, made.device.device_id) == (CPU, 0))
        check((made.dtype.code, made.dtype.bits, made.dtype.lanes) == F32)
        check((made.ndim, made.shape[:2], made.strides[:2]) == (2, [2, 3], [3, 1]))
    copied = managed(x.__dlpack__(max_version=(1, 1), copy=True))
    check(copied.flags == FLAG_COPIED, "the consumer's own, to write")
    check(copied.dl_tensor.data != address(x.numpy()))
    for dtype, code in ((xp.bool, (6, 8, 1)), (xp.bfloat16, BF16), (xp.uint16, (1, 16, 1))):
        made = managed(xp.ones(2, dtype=dtype, device="CPU").__dlpack__()).dl_tensor.dtype
        check((made.code, made.bits, made.lanes) == code, dtype.name)


def test_a_view_of_lent_memory_is_exported_as_a_copy():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = taken(array.T)
    with pytest.raises(BufferError, match=r"not contiguous needs a copy; pass copy=None"):
        x.__dlpack__(max_version=(1, 1), copy=False)
    capsule = x.__dlpack__(max_version=(1, 1))
    check(managed(capsule).flags == FLAG_COPIED)
    array += 1
    np.testing.assert_array_equal(np.from_dlpack(Once(capsule)), array.T - 1)
    np.testing.assert_array_equal(np.from_dlpack(x), array.T)


class Once:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return CPU, 0


def test_copies_and_devices():
    array = np.arange(4, dtype=np.float32)
    for kind in (CPU, CUDA_HOST):
        x = taken(produced(array, device=(kind, 0)), copy=False)
        check(address(x.numpy()) == address(array), "host memory")
    odd = np.arange(17, dtype=np.uint8)[1:]
    misplaced = Producer(address(odd), (4,), F32)
    check(address(taken(misplaced).numpy()) != address(odd))
    with pytest.raises(BufferError, match="needs a copy"):
        taken(misplaced, copy=False)
    np.testing.assert_array_equal(taken(misplaced).numpy(), odd[:16].view(np.float32))
    overlapping = Producer(address(array), (3, 2), F32, strides=(1, 1))
    np.testing.assert_array_equal(taken(overlapping).numpy(), [[0, 1], [1, 2], [2, 3]])


class Old(Producer):
    """From before DLPack 1.0, which knows no copy=."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__()


class Deaf(Producer):
    """It takes copy= and does not copy."""


@pytest.mark.parametrize("kind", [Old, Deaf])
def test_a_copy_is_made_here_where_its_library_makes_none(kind):
    array = np.arange(4, dtype=np.float32)
    version = None if kind is Old else (1, 1)
    x = taken(kind(address(array), (4,), F32, version=version), copy=True)
    array += 100
    np.testing.assert_array_equal(x.numpy(), np.arange(4))
    said = taken(Deaf(address(array), (4,), F32, flags=FLAG_COPIED), copy=True)
    check(address(said.numpy()) == address(array), "its library says that it copied")


class Gpu(Producer):
    """Memory of a GPU, whose library copies to the host when it is asked to."""

    def __dlpack__(self, **asked):
        if asked.get("dl_device") != (CPU, 0):
            raise AssertionError(f"asked for {asked}")
        return super().__dlpack__(**asked)


class OldGpu(Producer):
    def __dlpack__(self, stream=None):
        return super().__dlpack__()


@pytest.mark.parametrize("kind", [CUDA, ROCM])
def test_memory_of_a_gpu_is_copied_by_its_library(kind):
    array = np.arange(4, dtype=np.float32)
    source = produced(array)
    gpu = Gpu(address(array), (4,), F32)
    gpu.device = (kind, 0)
    with pytest.raises(BufferError, match=r"is not host memory; from_dlpack\(..., device='CPU'\)"):
        xp.from_dlpack(gpu)
    check(not gpu.asked, "nothing was exported")
    np.testing.assert_array_equal(taken(gpu).numpy(), array)
    check(gpu.asked[0]["dl_device"] == (CPU, 0))
    old = OldGpu(address(array), (4,), F32)
    old.device = (kind, 0)
    with pytest.raises(BufferError, match=r"use its \.cpu\(\) or \.get\(\)"):
        taken(old)
    check(source.deleted == 0)


def test_streams():
    x = xp.ones(3, device="CPU")
    for stream in (-1, 0, 1, 2, 1 << 40):
        with pytest.raises(BufferError, match="no stream; pass stream=None"):
            x.__dlpack__(stream=stream, max_version=(1, 1))
    with pytest.raises(BufferError, match=r"device \(2, 0\) cannot see memory of CPU"):
        x.__dlpack__(dl_device=(CUDA, 0), max_version=(1, 1))


def test_many_round_trips_leave_nothing():
    array = np.arange(4, dtype=np.float32)
    source = produced(array)
    before = None
    for number in range(2000):
        np.from_dlpack(taken(source))
        source.asked.clear()  # from Python 3.14 on, the garbage collector counts each dict
        if number == 200:
            forgotten()
            before = len(gc.get_objects())
    forgotten()
    after = len(gc.get_objects())
    check(source.deleted == 2000, f"{source.deleted}")
    check(before is not None and after - before < 50, f"{before} -> {after}")
