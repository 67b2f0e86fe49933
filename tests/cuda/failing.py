"""A made-up libcuda of which one call fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np

from drivers.base.errors import DeviceError
from drivers.base.library import Library, Native
from drivers.cuda import abi
from drivers.cuda.device import CudaDevice
from tests.cuda.made_up import CudaWorld, open_on, opened
from tests.support import check

UNKNOWN: Final = 999
SAYS: Final = {"cuStreamQuery", "cuEventQuery"}
"""Asked again and again: the count of calls would not be the same in every run."""


class FailingWorld(CudaWorld):
    """Call number `at` gives `code`. What gives something back does so, and fails nevertheless."""

    def __init__(self, at: int, code: int = UNKNOWN) -> None:
        super().__init__()
        self.at, self.code, self.count, self.failed = at, code, 0, ""

    def library(self, name: str) -> Library:
        return (
            Failing(super().library(name), self) if name == abi.LIBRARY else super().library(name)
        )


class Failing(Library):
    """See `FailingWorld`."""

    def __init__(self, inner: Library, world: FailingWorld) -> None:
        self.inner, self.world, self.name = inner, world, inner.name

    def function(self, symbol: str, signature: str) -> Native:
        inner, world = self.inner.function(symbol, signature), self.world

        def call(*args: int) -> int:
            if symbol in SAYS:
                return inner(*args)
            world.count += 1
            if world.count - 1 != world.at:
                return inner(*args)
            world.failed = symbol
            if symbol in abi.RELEASES:
                inner(*args)
            return world.code

        return call


@contextmanager
def failing(at: int, code: int = UNKNOWN) -> Iterator[tuple[FailingWorld, CudaDevice]]:
    """A device whose call number `at` fails."""
    world = FailingWorld(at, code)
    with opened(world) as device:
        yield world, device


def each_fails_once(
    life: Callable[[CudaDevice], Any], part: Callable[[int, int], int], least: int
) -> set[str]:
    """Every call of `life` fails once: an error of ours, nothing left. The calls that failed."""
    with failing(-1) as (first, device):
        wanted = life(device)
    check(first.count > least, f"only {first.count} calls")
    step = max(1, first.count // part(first.count, 20))
    failed: set[str] = set()
    for at in range(0, first.count, step):
        world = FailingWorld(at)
        with suppress(DeviceError):
            device = open_on(world)
            with suppress(DeviceError):
                np.testing.assert_array_equal(life(device), wanted, f"{world.failed}, unseen")
            with suppress(DeviceError):
                device.close()
            device.close()  # where the first could not begin
        failed.add(world.failed)
        found = world.made.leaks()
        check(found == [], f"{world.failed} ({at}): {found}")
    return failed
