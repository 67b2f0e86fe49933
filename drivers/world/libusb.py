"""USB through libusb: one device, one interface, transfers that are submitted together.

libusb has a back end for Linux, macOS and Windows; this has run on Linux alone. The library is the
system's, or that of the wheel `libusb-package` (extra `usb`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import util
from pathlib import Path
from time import monotonic
from typing import Final

from drivers.base.errors import Busy, DeviceError, NotFound, UseAfterFree
from drivers.base.library import Library, Native
from drivers.base.undo import Undo, run_all, whole
from drivers.base.usb import CONTROL, Transfer, parts
from drivers.world import libusb_abi as abi
from drivers.world.foreign_usb import transfer_error
from drivers.world.native import address_of, memory_at

_WORD: Final = 8
_SLICE_S: Final = 0.25
"""libusb sleeps so long at most before Ctrl-C is looked at."""
CANCEL_S: Final = 2.0
"""How long cancelled transfers may take to end."""
_WHEEL: Final = "libusb_package"
_INSTALL: Final = "apt install libusb-1.0-0, or pip install libusb-package"


class _Words:
    """Memory that a call writes an address to."""

    def __init__(self, nbytes: int = _WORD) -> None:
        self.bytes = bytearray(nbytes)
        self.at = address_of(self.bytes)

    @property
    def word(self) -> int:
        return int.from_bytes(self.bytes[:_WORD], "little")


class Api:
    """libusb with one context. Raises: NotFound without a function."""

    def __init__(self, library: Library) -> None:
        self.call: dict[str, Native] = {
            name: library.function(name, signature) for name, signature in abi.FUNCTIONS.items()
        }
        made = _Words()
        self.do("start libusb", "libusb_init", made.at)
        self.context = made.word

    def do(self, what: str, name: str, *args: int) -> int:
        """A call that gives a negative number for an error. Raises: the DeviceError of it."""
        code = self.call[name](*args)
        if code < 0:
            number = abi.ERRNO.get(code, errno.EIO)
            cause = OSError(number, f"{name}: {os.strerror(number)}")
            raise transfer_error(cause, what) from cause
        return code

    def handle_events(self, seconds: float) -> None:
        """Let transfers end, for so long at most."""
        time = abi.TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
        name = "libusb_handle_events_timeout_completed"
        code = self.call[name](self.context, address_of(time), 0)
        if code < 0 and code != abi.INTERRUPTED:
            self.do("wait for USB", name, self.context, address_of(time), 0)

    def exit(self) -> None:
        """The library's memory and thread of this context."""
        self.call["libusb_exit"](self.context)


class _Submitted:
    """A transfer under way, and the memory that libusb and the kernel use for it."""

    def __init__(self, api: Api, handle: int, transfer: Transfer) -> None:
        self.transfer, self._api = transfer, api
        self._head = abi.SETUP.size if transfer.endpoint == CONTROL else 0
        nbytes = transfer.nbytes if transfer.into_host else len(transfer.data)
        self.buffer = bytearray(self._head + nbytes)
        self.wanted = nbytes
        if self._head:
            head = (transfer.request_type, transfer.request, transfer.value, transfer.index)
            abi.SETUP.pack_into(self.buffer, 0, *head, nbytes)
        if not transfer.into_host:
            self.buffer[self._head :] = transfer.data
        self.at = api.call["libusb_alloc_transfer"](0)
        if not self.at:
            raise transfer_error(OSError(errno.ENOMEM, "no memory"), transfer.what)
        self.memory = memory_at(self.at, abi.TRANSFER.size, lambda: None)
        endpoint, kind = (0, abi.TYPE_CONTROL) if self._head else (
            transfer.endpoint, abi.TYPE_BULK
        )  # fmt: skip
        # a buffer of no bytes has an address that nothing may use: libusb does not
        where = address_of(self.buffer) if self.buffer else 0
        self.memory[:] = abi.transfer(handle, endpoint, kind, where, len(self.buffer))

    @property
    def status(self) -> int:
        return abi.status_of(self.memory)

    def result(self) -> bytes:
        """What came in. Raises: OSError."""
        status = self.status
        if status != abi.Status.COMPLETED:
            number = abi.STATUS_ERRNO.get(status, errno.EIO)
            raise OSError(number, f"transfer status {status}: {os.strerror(number)}")
        count = abi.moved(self.memory)
        if not self.transfer.into_host:
            if count != self.wanted:
                raise OSError(errno.EIO, f"{count} of {self.wanted} bytes went out")
            return b""
        return bytes(self.buffer[self._head : self._head + count])

    def free(self) -> None:
        """After its end only."""
        self._api.call["libusb_free_transfer"](self.at)


_abandoned: list[_Submitted] = []
"""Transfers that did not even end when they were cancelled: their memory stays."""


class LibUsbBatch:
    """`drivers.base.usb.Batch`: transfers that were submitted together."""

    def __init__(self, device: LibUsbDevice, transfers: Sequence[Transfer]) -> None:
        self._device, self._submitted = device, list[_Submitted]()
        try:
            for transfer in transfers:
                self._submitted.append(device.submit(transfer))
        except BaseException:
            self.cancel()
            raise

    def wait(self, timeout_s: float) -> list[bytes]:
        deadline = monotonic() + timeout_s
        try:
            for one in self._submitted:
                self._device.wait(one, deadline)
            return [_result(one) for one in self._submitted]
        finally:
            self.cancel()

    def cancel(self) -> None:
        """What has not ended is cancelled; an endpoint that stalled is cleared."""
        submitted, self._submitted = self._submitted, []
        try:
            if any(one.status != abi.Status.COMPLETED for one in submitted):
                self._device.end(submitted)
        finally:
            for one in submitted:
                if one.status == abi.PENDING:
                    _abandoned.append(one)
                else:
                    one.free()
            self._device.live.discard(self)


class LibUsbDevice:
    """`drivers.base.usb.Usb` over libusb. Calls are made one at a time."""

    def __init__(self, api: Api, handle: int, interface: int, name: str) -> None:
        self._api, self._handle, self._interface = api, handle, interface
        self.name, self.product, self.serial = name, "", ""
        self.live: set[LibUsbBatch] = set()
        """Batches that are not waited for yet."""
        self._pid = os.getpid()

    def describe(self, device: int) -> None:
        """Read product and serial number."""
        made = _Words(abi.DEVICE_DESCRIPTOR_BYTES)
        what = f"{self.name}: read its descriptor"
        self._api.do(what, "libusb_get_device_descriptor", device, made.at)
        self.product = self._text(made.bytes[abi.PRODUCT_AT])
        self.serial = self._text(made.bytes[abi.SERIAL_AT])

    def _text(self, index: int) -> str:
        if not index:
            return ""
        made = _Words(abi.STRING_BYTES)
        what, name = f"{self.name}: read string {index}", "libusb_get_string_descriptor_ascii"
        count = self._api.do(what, name, self._handle, index, made.at, abi.STRING_BYTES)
        return made.bytes[:count].decode("ascii", "replace")

    def start(self, transfers: Sequence[Transfer]) -> LibUsbBatch:
        """See `Usb.start`."""
        if not self._handle or self._pid != os.getpid():
            raise UseAfterFree(
                f"{self.name} is not open in this process", hint="open the device again"
            )
        batch = LibUsbBatch(self, transfers)
        self.live.add(batch)
        return batch

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """See `Usb.run`."""
        deadline = monotonic() + timeout_s
        results: list[bytes] = []
        for part in parts(transfers):
            results += self.start(part).wait(deadline - monotonic())
        return results

    def submit(self, transfer: Transfer) -> _Submitted:
        """One more transfer under way. Raises: DeviceGone."""
        one = _Submitted(self._api, self._handle, transfer)
        code = self._api.call["libusb_submit_transfer"](one.at)
        if code < 0:
            one.free()
            number = abi.ERRNO.get(code, errno.EIO)
            cause = OSError(number, os.strerror(number))
            raise transfer_error(cause, transfer.what) from cause
        return one

    def wait(self, one: _Submitted, deadline: float) -> None:
        """Until it has ended. Raises: DeviceTimeout; the error of its end."""
        while one.status == abi.PENDING and monotonic() < deadline:
            self._api.handle_events(min(max(deadline - monotonic(), 0), _SLICE_S))
        if one.status == abi.PENDING:
            cause = OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            raise transfer_error(cause, one.transfer.what) from cause
        _result(one)

    def end(self, submitted: Sequence[_Submitted]) -> None:
        """Cancel what is under way, wait for its end, clear endpoints that stalled."""
        self._cancel(submitted)
        stalled = {
            one.transfer.endpoint for one in submitted if one.status == abi.Status.STALL
        } - {CONTROL}  # fmt: skip
        run_all([partial(self._clear, endpoint) for endpoint in stalled])

    def _cancel(self, submitted: Sequence[_Submitted]) -> None:
        for one in reversed(submitted):
            if one.status == abi.PENDING:  # an error says that it has ended meanwhile
                self._api.call["libusb_cancel_transfer"](one.at)
        deadline = monotonic() + CANCEL_S
        while any(one.status == abi.PENDING for one in submitted) and monotonic() < deadline:
            self._api.handle_events(_SLICE_S)

    def _clear(self, endpoint: int) -> None:
        what = f"{self.name}: clear the stall of endpoint {endpoint:#04x}"
        self._api.do(what, "libusb_clear_halt", self._handle, endpoint)

    def close(self) -> None:
        """Release the interface and close the device. A second close does nothing."""
        handle, self._handle = self._handle, 0
        if not handle or self._pid != os.getpid():
            return
        left = [batch.cancel for batch in list(self.live)]

        def release() -> None:
            what = f"{self.name}: release interface {self._interface}"
            code = self._api.call["libusb_release_interface"](handle, self._interface)
            if code < 0 and abi.ERRNO.get(code) != errno.ENODEV:
                self._api.do(what, "libusb_release_interface", handle, self._interface)

        run_all([*left, release, lambda: self._api.call["libusb_close"](handle), self._api.exit])


def _result(one: _Submitted) -> bytes:
    try:
        return one.result()
    except OSError as error:
        raise transfer_error(error, one.transfer.what) from error


def _name_in_wheel() -> str:
    """Where the wheel has its library; "" without the wheel. Nothing of it is imported."""
    found = util.find_spec(_WHEEL)
    folders = found.submodule_search_locations or [] if found else []
    files = (file for folder in folders for file in sorted(Path(folder).glob("libusb-1.0*")))
    return next((str(file) for file in files if file.suffix in (".so", ".dylib", ".dll")), "")


def find_library(load: Callable[[str], Library]) -> Library:
    """The system's, else the wheel's. Raises: NotFound with what to install."""
    try:
        return load(abi.LIBRARY)
    except NotFound as error:
        bundled = _name_in_wheel()
        if not bundled:
            raise error.advised(_INSTALL) from None
        return load(bundled)


def open_device(library: Library, bus: int, address: int, interface: int) -> LibUsbDevice:
    """Open a device and claim an interface of it. Raises: NotFound, Denied, Busy."""
    name = f"USB device {bus}-{address}"
    with Undo() as undo:
        api = whole(lambda: Api(library), Api.exit)
        undo.add(api.exit)
        device, handle = _opened(api, bus, address, name)
        undo.add(lambda: api.call["libusb_close"](handle))
        made = LibUsbDevice(api, handle, interface, name)
        made.describe(device)
        what = f"{name}: claim interface {interface}"
        try:
            api.do(what, "libusb_claim_interface", handle, interface)
        except Busy as error:
            raise error.advised(
                "close the program that has it, or unbind the kernel driver that has it: "
                "see `lsusb -t`"
            ) from error.__cause__
        # both ends forget what an earlier program left in the endpoints. src: USB 3.2, 9.4.10
        what = f"{name}: set interface {interface}"
        api.do(what, "libusb_set_interface_alt_setting", handle, interface, 0)
        return made


def _opened(api: Api, bus: int, address: int, name: str) -> tuple[int, int]:
    """The device and its handle."""
    listed = _Words()
    count = api.do("list USB devices", "libusb_get_device_list", api.context, listed.at)
    try:
        memory = memory_at(listed.word, max(count, 1) * _WORD, lambda: None).cast("B").cast("Q")
        for device in memory[:count]:
            here = api.call["libusb_get_bus_number"](device)
            if (here, api.call["libusb_get_device_address"](device)) == (bus, address):
                made = _Words()
                try:
                    api.do(f"open {name}", "libusb_open", device, made.at)
                except DeviceError as error:
                    raise error.advised(
                        f"let this user write /dev/bus/usb/{bus:03}/{address:03}: a udev rule"
                    ) from error.__cause__
                return device, made.word
    finally:
        api.call["libusb_free_device_list"](listed.word, 1)
    raise NotFound(f"{name} is not there", hint="see `lsusb`; plug it in again")
