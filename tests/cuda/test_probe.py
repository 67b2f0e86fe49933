"""What the probe says of a made-up libcuda: its devices, none, and a driver that is too old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivers.base.library import Library
from drivers.cuda import abi, checks
from drivers.machine.checks import Machine, Result
from drivers.machine.system import find_library
from tests.cuda.made_up import CudaWorld
from tests.support import check


class Spoiled(CudaWorld):
    """A made-up libcuda of which one function gives another result."""

    def __init__(self, symbol: str, call: Callable[..., int]) -> None:
        super().__init__()
        self.symbol_, self.call = symbol, call

    def library(self, name: str) -> Library:
        made: Any = super().library(name)
        real = made.function
        made.function = lambda symbol, kind: (
            self.call if symbol == self.symbol_ else real(symbol, kind)
        )
        return made


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, of which the probe wants to know where it is."""

    def found(*args: object) -> str | None:
        return "/usr/lib/libcuda.so.1" if args[-1] == abi.LIBRARY else find_library(*args)

    monkeypatch.setattr(checks, "find_library", found)


def result(world: CudaWorld) -> Result:
    return checks.cuda(Machine(world, {}, {}.get))


def test_every_device_is_named_with_its_architecture() -> None:
    world = CudaWorld()
    found = result(world)
    check(found.ready and "sm_" in found.reason, str(found))
    check(not world.found(), "nothing is left")


NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE. # src: cuda.h"""


def test_without_a_device_and_its_node_that_is_the_reason() -> None:
    found = result(Spoiled("cuInit", lambda flags: NO_DEVICE))
    check(not found.ready and "no /dev/nvidiactl" in found.reason, str(found))


def test_with_the_node_the_librarys_own_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Spoiled("cuInit", lambda flags: NO_DEVICE)
    monkeypatch.setattr(world, "exists", lambda path: path == checks.CONTROL)
    found = result(world)
    check(not found.ready and "NO_DEVICE" in found.reason and found.advice, str(found))
