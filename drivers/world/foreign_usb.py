"""A USB device of a foreign world: its OSErrors become ours."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

from drivers.base.errors import DeviceError, DeviceGone, MalformedInput
from drivers.base.oserrors import translate
from drivers.base.usb import Transfer

_UNPLUGGED = "plug it in again, then open the device again"
_REFUSED = "unplug it, plug it in again, then open the device again"


class InnerBatch(Protocol):
    """The methods of `Batch`."""

    def wait(self, timeout_s: float) -> list[bytes]: ...
    def cancel(self) -> None: ...


class Inner(Protocol):
    """The methods of `Usb`; an OSError's `done` is the number of transfers before it."""

    name: str
    product: str
    serial: str

    def start(self, transfers: Sequence[Transfer]) -> InnerBatch: ...
    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]: ...
    def close(self) -> None: ...


def transfer_error(error: OSError, what: str) -> DeviceError:
    """The error of a transfer. src: Linux, Documentation/driver-api/usb/error-codes.rst"""
    if error.errno in (errno.ENODEV, errno.ESHUTDOWN):
        return DeviceGone(f"{what}: it was unplugged", hint=_UNPLUGGED)
    if error.errno == errno.EPIPE:
        return DeviceError(f"{what}: the device refuses it (stall)", hint=_REFUSED)
    if error.errno == errno.EOVERFLOW:
        return MalformedInput(f"{what}: more bytes came than were asked for", hint=_REFUSED)
    return translate(error, what)


class ForeignBatch:
    """Transfers under way."""

    def __init__(self, inner: InnerBatch, transfers: Sequence[Transfer]) -> None:
        self._inner, self._transfers = inner, transfers

    def wait(self, timeout_s: float) -> list[bytes]:
        try:
            return self._inner.wait(timeout_s)
        except OSError as error:
            raise _of_one(error, self._transfers) from error

    def cancel(self) -> None:
        self._inner.cancel()


def _of_one(error: OSError, transfers: Sequence[Transfer]) -> DeviceError:
    failed = transfers[min(getattr(error, "done", 0), len(transfers) - 1)]
    return transfer_error(error, failed.what)


class ForeignUsb:
    """An opened device."""

    def __init__(self, inner: Inner) -> None:
        self.inner, self.name = inner, inner.name
        self.product, self.serial = inner.product, inner.serial

    def start(self, transfers: Sequence[Transfer]) -> ForeignBatch:
        try:
            return ForeignBatch(self.inner.start(transfers), transfers)
        except OSError as error:
            raise _of_one(error, transfers) from error

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        try:
            return self.inner.run(transfers, timeout_s)
        except OSError as error:
            raise _of_one(error, transfers) from error

    def close(self) -> None:
        try:
            self.inner.close()
        except OSError as error:
            raise transfer_error(error, f"close {self.name}") from error
