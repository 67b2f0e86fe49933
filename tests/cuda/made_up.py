"""A machine with the made-up libcuda of `boards/cuda`: a Linux world, two GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import _cffi_backend

import drivers
from boards.cuda.library import MadeUpCuda
from drivers.base.errors import NotFound
from drivers.base.library import Library, Native
from drivers.cuda import abi
from drivers.cuda.device import CudaDevice
from drivers.world.linux import LinuxWorld
from tests.support import check


class Functions(Library):
    """Its functions by their addresses, called with the types that the driver says."""

    def __init__(self, made: MadeUpCuda) -> None:
        self.made, self.name, self._ffi = made, abi.LIBRARY, _cffi_backend.FFI()

    def function(self, symbol: str, signature: str) -> Native:
        address = self.made.address(symbol)
        if not address:
            raise NotFound(f"{self.name} has no function {symbol!r}", hint="add it")
        found: Native = self._ffi.cast(self._ffi.typeof(signature), address)
        return found


class CudaWorld(LinuxWorld):
    """This machine, with a made-up libcuda."""

    def __init__(self, made: MadeUpCuda | None = None) -> None:
        super().__init__()
        self.made = made or MadeUpCuda()

    def library(self, name: str) -> Library:
        return Functions(self.made) if name == abi.LIBRARY else super().library(name)

    def found(self) -> list[str]:
        """Violations since this was last asked, and why kernels failed."""
        notes, self.made.state.notes = self.made.state.notes, []
        return [f"{rule}: {what}" for rule, what in self.made.report()] + notes


def open_on(world: CudaWorld, number: int = 0, **settings: str) -> CudaDevice:
    """A device of a world."""
    return cast(CudaDevice, drivers.open(f"CUDA:{number}", world=world, environ=settings))


@contextmanager
def opened(world: CudaWorld, **settings: str) -> Iterator[CudaDevice]:
    """The first device of a world."""
    with open_on(world, **settings) as device:
        yield device


@contextmanager
def cuda(**settings: str) -> Iterator[CudaDevice]:
    """An open device; at its end there is no violation, and nothing is left."""
    world = CudaWorld()
    with opened(world, **settings) as device:
        yield device
    found: Any = world.made.leaks()
    check(found == [], f"{found} {world.made.state.notes}")
