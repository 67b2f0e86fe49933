"""The host's view of a buffer: one staging buffer, mapped again and again.

The library calls back whenever it likes, also after an interrupted wait. So there is one callback,
which lives as long as the device, and every map has a serial number: an answer to an earlier one is
ignored. A map that did not end well gives up its buffer, since a pending map would make every later
use of it invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, Hang
from drivers.webgpu import abi
from drivers.webgpu.adapters import ANSWER
from drivers.webgpu.link import Link
from drivers.world.native import callback, memory_at

LEAST_STAGING_BYTES: Final = 64 << 10
PATIENCE_S: Final = 60.0
USAGE: Final = abi.USAGE_MAP_READ | abi.USAGE_COPY_DST


class Readback:
    """A staging buffer with its map."""

    def __init__(self, link: Link, make: Callable[[int, int], int]) -> None:
        self.link, self._make = link, make
        self._handle = self._nbytes = 0
        self._serial, self._status = 0, -1
        """Of the last map; -1: it is not answered."""
        address, self._kept = callback(ANSWER, self._answered, link.errors.append)
        self._info = link.api.record(
            "CallbackInfo", mode=abi.ALLOW_PROCESS_EVENTS, callback=address
        )

    def _answered(self, status: int, _: int, __: int, serial: int, *___: int) -> None:
        if serial == self._serial:
            self._status = status & 0xFFFFFFFF

    def staged(self, nbytes: int) -> int:
        """A buffer of at least so many bytes. Raises: OutOfMemory."""
        if self._nbytes < nbytes:
            self.drop()
            size = max(LEAST_STAGING_BYTES, 1 << (nbytes - 1).bit_length())
            self._handle = self._make(size, USAGE)
            self._nbytes = size
        return self._handle

    def read(self, data: memoryview, nbytes: int) -> None:
        """Copy out of what `staged` gave, whose uses were submitted.

        Raises: Hang, DeviceError, DeviceGone. After any error the buffer is given up.
        """
        try:
            self._map(nbytes)
            found = self.link.do["wgpuBufferGetConstMappedRange"](self._handle, 0, nbytes)
            if not found:
                raise DeviceError("wgpuBufferGetConstMappedRange fails", hint="update it")
            data[:] = memory_at(found, data.nbytes, int).cast("B")
            self.link.do["wgpuBufferUnmap"](self._handle)
        except BaseException:
            self.drop(mapped=self._status in (-1, abi.SUCCESS))
            raise

    def _map(self, nbytes: int) -> None:
        call, link = "wgpuBufferMapAsync", self.link
        self._serial += 1
        self._status = -1
        self._info["userdata1"] = self._serial
        link.api.ask(call, self._handle, abi.MAP_READ, 0, nbytes, info=self._info)
        for _ in polls(PATIENCE_S, link.api.world):
            link.poll()
            if self._status >= 0:
                break
            link.check(call)
        else:
            raise Hang(
                f"{call} is not answered after {PATIENCE_S:g} s", queue="queue",
                dump=f"map {self._serial} of {nbytes} bytes", hint="make smaller kernels",
            )  # fmt: skip
        link.check(call)
        if self._status != abi.SUCCESS:
            raise DeviceError(f"{call}: status {self._status}", hint="report this line")

    def drop(self, *, mapped: bool = False) -> None:
        """Give up the buffer; `mapped`: also its map, pending or not."""
        handle, self._handle, self._nbytes = self._handle, 0, 0
        if not handle:
            return
        do = self.link.do
        if mapped:
            do["wgpuBufferUnmap"](handle)
        do["wgpuBufferDestroy"](handle)
        do["wgpuBufferRelease"](handle)
