"""Owners of lent memory: what is kept, what says its bounds, and what is read-only."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument
from drivers.base.lent import Lent
from tests.dlpack_maker import FLAG_COPIED, FLAG_READ_ONLY, managed
from tests.support import check


def address(array):
    return array.__array_interface__["data"][0]


def forgotten():
    gc.collect()
    xp.ones(1, device="CPU").realize()


def test_a_reshape_of_read_only_memory_stays_read_only():
    """numpy's from_dlpack would write into the bytes object else."""
    theirs = bytes(range(24))
    place = address(np.frombuffer(theirs, np.uint8))
    x = xp.reshape(xp.from_blob(place, 24, "uint8", "CPU", owner=theirs), (4, 6))
    array = np.from_dlpack(x)
    check(not array.flags.writeable, "nobody may write")
    check(not np.asarray(x).flags.writeable)
    check(managed(x.__dlpack__(max_version=(1, 1))).flags == FLAG_READ_ONLY)
    check(managed(x.__dlpack__(max_version=(1, 1), copy=False)).dl_tensor.data == place, "shared")
    copied = managed(x.__dlpack__(max_version=(1, 1), copy=True))
    check(copied.flags == FLAG_COPIED)
    check(copied.dl_tensor.data != place, "a copy is somewhere else")
    legacy = managed(x.__dlpack__())
    check(legacy.dl_tensor.data != place, "it cannot say read-only")
    check(theirs == bytes(range(24)))


def test_a_reshape_of_writable_memory_is_shared():
    theirs = np.arange(24, dtype=np.uint8)
    x = xp.reshape(xp.from_blob(address(theirs), 24, "uint8", "CPU", owner=theirs), (4, 6))
    array = np.from_dlpack(x)
    array[0, 0] = 99
    check(theirs[0] == 99 and address(array) == address(theirs))
    copied = np.from_dlpack(x, copy=True)
    copied[0, 1] = 99
    check(theirs[1] == 1, "copy=True copies")


class Torch:
    """What is asked of torch's tensor; `set_` gives one another storage."""

    def __init__(self, array):
        self.storage = Storage(array)
        self.device = SimpleNamespace(type="cpu")

    def untyped_storage(self):
        return self.storage


class Storage:
    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return address(self.array)

    def nbytes(self):
        return self.array.nbytes


def test_torch_s_storage_is_kept():
    array = np.arange(8, dtype=np.float32)
    theirs = Torch(array)
    alive = weakref.ref(theirs.storage)
    x = xp.from_blob(address(array), 8, "float32", "CPU", owner=theirs)
    with pytest.raises(BadArgument, match="outside of the 32"):
        xp.from_blob(address(array), 9, "float32", "CPU", owner=theirs)
    theirs.storage = Storage(np.zeros(8, np.float32))
    forgotten()
    check(alive() is not None, "the tensor has another one now")
    np.testing.assert_array_equal(x.numpy(), np.arange(8))
    del x
    forgotten()
    check(alive() is None)


def test_arrays_whose_elements_the_buffer_protocol_cannot_name():
    theirs = np.array(["2026-11-23", "1970-01-02"], "datetime64[D]")
    x = xp.from_blob(address(theirs), 2, "int64", "CPU", owner=theirs)
    np.testing.assert_array_equal(x.numpy(), theirs.astype(np.int64))
    with pytest.raises(BadArgument, match="outside of the 16"):
        xp.from_blob(address(theirs), 3, "int64", "CPU", owner=theirs)
    theirs.flags.writeable = False
    locked = xp.from_blob(address(theirs), 2, "int64", "CPU", owner=theirs)
    check(not np.from_dlpack(locked).flags.writeable)


def test_lent_memory_does_not_show_its_owner():
    lent = Lent(pointer=4096, first=0, nbytes=4, owner="secret", bounds=(4096, 4))
    check("secret" not in repr(lent), repr(lent))
    check(lent == Lent(pointer=4096, first=0, nbytes=4, owner="other", bounds=(4096, 4)))


def test_a_jitted_function_keeps_what_it_was_called_with_last():
    class Owner:
        """Something that can be watched."""

    array = np.arange(8, dtype=np.float32)
    run = xp.jit(lambda x: xp.contiguous(x * 2) + 1)
    owner = Owner()
    alive = weakref.ref(owner)
    for _ in range(3):
        run(xp.from_blob(address(array), 8, "float32", "CPU", owner=owner)).realize()
    del owner
    forgotten()
    check(alive() is not None, "its graph has the last values")
    run(xp.asarray(array, device="CPU")).realize()
    forgotten()
    check(alive() is None, "the next call has others")
