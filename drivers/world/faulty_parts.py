"""Libraries and USB devices of a `FaultyWorld`: their calls and transfers are its operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drivers.base.errors import DeviceError
from drivers.base.library import Library, Native
from drivers.base.usb import Batch, Transfer, Usb, parts
from drivers.world.fault import Fault

_ALL_ONES = -1


class Failing(Protocol):
    """Counts operations and fails one of them."""

    fault: Fault

    def meets(self, operation: str) -> bool:
        """Count one operation; whether it is the one that fails."""


class FaultyLibrary:
    """A library of which one call fails as libraries do: by its return value.

    The call is not made. It returns the fault's number, -1 for "ones" and 0 (success, or a null
    handle) for "zeros" and "short".
    """

    def __init__(self, world: Failing, inner: Library) -> None:
        self.world, self.inner, self.name = world, inner, inner.name

    def function(self, symbol: str, signature: str) -> Native:
        if self.world.meets(f"look up {symbol}"):
            raise self.world.fault.error(f"look up {symbol}")
        inner = self.inner.function(symbol, signature)

        def call(*args: int) -> int:
            if not self.world.meets(f"call {symbol}"):
                return inner(*args)
            fault = self.world.fault
            return {"errno": fault.number, "ones": _ALL_ONES}.get(fault.kind, 0)

        return call


class FaultyBatch:
    """Transfers under way, of which one may fail: those behind it were not started."""

    def __init__(self, inner: Batch, fault: Fault, spoiled: int, error: DeviceError | None) -> None:
        """`spoiled`: the number of the answer that comes wrong, -1 for none; `error`: of `wait`."""
        self._inner, self._fault, self._spoiled, self._error = inner, fault, spoiled, error

    def wait(self, timeout_s: float) -> list[bytes]:
        results = self._inner.wait(timeout_s)
        if self._error is not None:
            raise self._error
        if self._spoiled >= 0:
            results[self._spoiled] = self._fault.spoil(results[self._spoiled])
        return results

    def cancel(self) -> None:
        self._inner.cancel()


class FaultyUsb:
    """A USB device of which one transfer fails; those queued behind it are not made."""

    def __init__(self, world: Failing, inner: Usb) -> None:
        self.world, self.inner, self.name = world, inner, inner.name
        self.product, self.serial = inner.product, inner.serial

    def start(self, transfers: Sequence[Transfer]) -> Batch:
        """A transfer into the host fails once it is made, one out of it before."""
        fault, spoiled = self.world.fault, -1
        for number, transfer in enumerate(transfers):
            if not self.world.meets(transfer.what):
                continue
            if fault.kind == "errno" or not transfer.into_host:
                made = self.inner.start(transfers[:number])
                return FaultyBatch(made, fault, spoiled, fault.error(transfer.what))
            spoiled = number
        return FaultyBatch(self.inner.start(transfers), fault, spoiled, None)

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """The same, and wait."""
        results: list[bytes] = []
        for part in parts(transfers):
            results += self.start(part).wait(timeout_s)
        return results

    def close(self) -> None:
        self.inner.close()
        if self.world.meets("close USB"):
            raise self.world.fault.error("close USB")
