"""A made-up Mac on which one message that ought to give an object gives none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import numpy as np
from cffi import FFI

import drivers
from drivers.base.errors import DeviceError
from drivers.base.library import Library, Native
from drivers.metal import abi
from drivers.metal.device import MetalDevice
from tests.metal.made_up import MadeUpMac, runtime
from tests.support import check

_MADE: Final = frozenset(
    name
    for name, message in abi.MESSAGES.items()
    if message.returns == "id" and name not in ("init", "retain", "initWithCString:encoding:")
)
"""A failing init gives its memory back, and retain cannot fail."""


class Failing(Library):
    """objc_msgSend of which call number `at`, of those that make something, gives nil."""

    def __init__(self, inner: Library, world: FailingMac) -> None:
        self.inner, self.world, self.name, self.ffi = inner, world, inner.name, FFI()

    def function(self, symbol: str, signature: str) -> Native:
        inner = self.inner.function(symbol, signature)
        if symbol != abi.SEND or not signature.startswith("uint64_t"):
            return inner

        def call(*args: Any) -> int:
            name = self.ffi.string(self.ffi.cast("char *", args[1])).decode()
            return 0 if name in _MADE and self.world.hit(name) else inner(*args)

        return call


class FailingMac(MadeUpMac):
    """See `Failing`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.count, self.failed = at, 0, ""

    def hit(self, name: str) -> bool:
        """Count a message; whether it is the one."""
        self.count += 1
        if self.count - 1 != self.at:
            return False
        self.failed = name
        return True

    def library(self, name: str) -> Library:
        found = super().library(name)
        return Failing(found, self) if name == abi.OBJC else found


@contextmanager
def opened(world: FailingMac) -> Iterator[MetalDevice]:
    with drivers.open("METAL", world=world, environ={}) as device:
        yield cast(MetalDevice, device)


def refused_once(
    life: Callable[[MetalDevice], Any], part: Callable[[int, int], int], least: int
) -> None:
    """Every object that `life` needs is refused once: an error of ours, and nothing is left."""
    first = FailingMac(-1)
    with opened(first) as device:
        wanted = life(device)
    check(first.count > least, f"only {first.count} messages make something")
    step = max(1, first.count // part(first.count, 15))
    failed: set[str] = set()
    for at in range(0, first.count, step):
        runtime().report()
        before, world = runtime().live(), FailingMac(at)
        with suppress(DeviceError), opened(world) as device:
            np.testing.assert_array_equal(life(device), wanted, f"{world.failed}, unnoticed")
        failed.add(world.failed)
        report = runtime().report()
        check(report == [], f"{world.failed} ({at}): {report}")
        left = runtime().live() - before
        check(left == 0, f"{world.failed} ({at}) leaves {left} objects")
        runtime().lib.made_up_forget()
    check(failed, "some failed")
