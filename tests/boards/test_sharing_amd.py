"""Host memory of other libraries on a software AMD GPU over KFD: pages that both sides see."""

from __future__ import annotations

import gc
import mmap
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.front import Setup, power_on
from drivers.base.errors import BadArgument, Unsupported
from tensor import engine
from tests.boards.driver_harness import device_over_pci
from tests.support import check

PAGE = mmap.PAGESIZE
COUNT = 4 * PAGE


class Owner:
    """Pages of this process, seen as numbers."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 4 * COUNT)
        self.floats = np.frombuffer(self.memory, np.float32)
        self.floats[:] = np.arange(COUNT)
        self.at = int(self.floats.__array_interface__["data"][0])


@contextmanager
def gpu() -> Iterator[None]:
    """Inside, AMD is a board's; nothing violated its rules in the end."""
    front = power_on(Setup("gfx1100"))
    with engine.on_machine(front.world):
        yield
        gc.collect()
    check(not front.board.violations, str(front.board.violations))


def forgotten() -> None:
    gc.collect()
    xp.sum(xp.ones(3, device="AMD")).item()
    xp.ones(1, device="AMD").realize()


def blob(owner: Owner, first: int, shape: Any, **more: Any) -> xp.Tensor:
    return xp.from_blob(owner.at + 4 * first, shape, "float32", "AMD", owner=owner, **more)


def test_both_sides_see_the_pages() -> None:
    with gpu():
        owner = Owner()
        alive, floats = weakref.ref(owner), owner.floats
        x = blob(owner, 100, (10, 20))  # no whole pages
        y = blob(owner, 3 * PAGE, (4, 5), strides=(-20, 3))
        del owner
        expected = np.arange(COUNT, dtype=np.float32)
        for number in range(3):
            found = expected[100:300].reshape(10, 20)
            np.testing.assert_array_equal(x.numpy(), found)
            np.testing.assert_array_equal((x.T * 2).numpy(), found.T * 2)
            rows = [[3 * PAGE - 20 * i + 3 * j for j in range(5)] for i in range(4)]
            np.testing.assert_array_equal((y + 1).numpy(), expected[np.array(rows)] + 1)
            floats += number + 1
            expected = expected + number + 1
        np.testing.assert_array_equal(floats, expected, "the GPU wrote nothing there")
        check(alive() is not None)
        del x, y
        forgotten()
        check(alive() is None, "given back")


def test_each_mistake_has_its_error() -> None:
    with gpu():
        owner = Owner()
        x = blob(owner, 0, 5000)
        with pytest.raises(Unsupported, match="is in a buffer already"):
            blob(owner, 2000, 10)
        check(float(xp.sum(blob(owner, 0, 5000)).item()) == sum(range(5000)), "the same pages")
        with pytest.raises(Unsupported, match=r"may write them.*asarray"):
            blob(owner, 8000, 10, readonly=True)
        with pytest.raises(Unsupported, match="only address"):
            blob(owner, 8000, 10, kind="cl_mem")
        with pytest.raises(BadArgument, match="not memory of this process"):
            xp.from_blob(PAGE, 4, "float32", "AMD")
        with pytest.raises(BadArgument, match="not aligned to 4"):
            xp.from_blob(owner.at + 3 * 4 * PAGE + 2, 4, "float32", "AMD")
        with pytest.raises(BadArgument, match="outside of the"):
            xp.from_blob(owner.at, COUNT + 1, "float32", "AMD", owner=owner.floats)
        with pytest.raises(BufferError, match=r"does not export DLPack; use .to\('CPU'\)"):
            x.__dlpack_device__()
        copied = np.from_dlpack(x, device="cpu")
        np.testing.assert_array_equal(copied, np.arange(5000))
        with pytest.raises(BufferError, match="another device needs a copy"):
            x.__dlpack__(dl_device=(1, 0), copy=False, max_version=(1, 1))
        check(not hasattr(x, "__array_interface__"), "memory of a GPU")
        del x
        forgotten()


def test_over_pci_an_iommu_maps_the_pages() -> None:
    with device_over_pci("gfx1100") as (_, device), engine.adopted("AMD", device):
        owner = Owner()
        alive, floats = weakref.ref(owner), owner.floats
        x = blob(owner, 100, (10, 20))
        del owner
        for number in range(2):
            expected = np.arange(100, 300, dtype=np.float32).reshape(10, 20) + number
            np.testing.assert_array_equal((x.T * 2).numpy(), expected.T * 2)
            np.testing.assert_array_equal(x.numpy(), expected)
            floats += 1
        check(alive() is not None)
        del x
        forgotten()
        check(alive() is None, "given back")


def test_over_pci_without_an_iommu_it_is_refused() -> None:
    with device_over_pci("gfx1100", iommu=False) as (_, device), engine.adopted("AMD", device):
        with pytest.raises(Unsupported, match="IOMMU"):
            blob(Owner(), 100, (10, 20))
        gc.collect()
