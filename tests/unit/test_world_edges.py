"""Polls, libraries and USB of worlds: the real machine, a stranger's, and one that fails."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence

import pytest

from drivers.base.contracts import World
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    NotFound,
    Unsupported,
    UseAfterFree,
)
from drivers.base.usb import CONTROL, Transfer
from drivers.world import files, native
from drivers.world.fault import Fault
from drivers.world.faulty import FaultyWorld, sweep
from drivers.world.foreign import ForeignWorld
from drivers.world.linux import LinuxWorld
from tests.fake_machine import FakeMachine
from tests.support import check

EIO = Fault.of_errno(errno.EIO)
ABS = "int(*)(int)"
FAULTS = (EIO, Fault("ones"), Fault("zeros"), Fault("short"))


def test_a_poll_reads_nothing() -> None:
    world = LinuxWorld()
    fd = world.eventfd()
    check(not world.poll(fd, 0), "nothing is there")
    os.eventfd_write(fd, 1)
    check(world.poll(fd, 0) and world.poll(fd, 5), "and it stays there")
    check(world.wait_event(fd, 0) and not world.poll(fd, 0), "until it is read")
    world.close(fd)
    with pytest.raises(UseAfterFree):
        world.poll(fd, 0)


def test_a_poll_waits_for_another_thread() -> None:
    world = LinuxWorld()
    fd = world.eventfd()
    threading.Timer(0.05, os.eventfd_write, (fd, 1)).start()
    check(world.poll(fd, 60), "it came")
    world.close(fd)


def test_a_poll_of_what_hung_up() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    os.close(writer)
    check(files.poll(reader, 0), "what is left can be read")
    os.read(reader, 1)
    with pytest.raises(DeviceGone):
        files.poll(reader, 0)
    os.close(reader)


def test_a_library_and_its_functions() -> None:
    library = LinuxWorld().library("libc.so.6")
    check(library.name == "libc.so.6" and library.function("abs", ABS)(-5) == 5, "abs(-5)")
    length, text = library.function("strlen", "size_t(*)(uint64_t)"), bytearray(b"seven..\0!")
    check(length(native.address_of(text)) == 7, "pointers are numbers")


def test_libraries_that_are_not_there() -> None:
    world = LinuxWorld()
    for name in ("libno-such-thing.so.7", "/nowhere/lib.so"):
        with pytest.raises(NotFound) as caught:
            world.library(name)
        check(name in str(caught.value), f"{caught.value}")
    for name in ("", "a\0b"):
        with pytest.raises(BadArgument):
            world.library(name)
    library = world.library("libc.so.6")
    with pytest.raises(NotFound, match="no_such_function"):
        library.function("no_such_function", ABS)
    for signature in ("int", "struct what(*)(int)", "(", ""):
        with pytest.raises(BadArgument):
            library.function("abs", signature)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_a_library_fails_by_what_it_returns(fault: Fault) -> None:
    """As CUresult and cl_int do: a driver that ignores the number of one call is found."""

    def scenario(world: World) -> tuple[int, int]:
        function = world.library("libc.so.6").function("abs", ABS)
        return function(-3), function(-4)

    outcomes = dict(sweep(LinuxWorld, scenario, fault))
    check(len(outcomes) == 3, f"load, look up, two calls of one name: {outcomes}")
    for operation in ("load libc.so.6", "look up abs"):
        check(isinstance(outcomes[operation], DeviceError), f"{outcomes}")
    wrong = {"errno": errno.EIO, "ones": -1}.get(fault.kind, 0)
    check(outcomes["call abs"] == (3, wrong), f"the second call: {outcomes}")


class Made:
    """Transfers that are made already."""

    def __init__(self, results: list[bytes]) -> None:
        self.results = results

    def wait(self, timeout_s: float) -> list[bytes]:
        return self.results

    def cancel(self) -> None:
        """They have ended."""


class Enclosure:
    """A made-up USB bridge: a register of four bytes, and a memory of 8 behind bulk endpoints."""

    name, product, serial = "1-4", "enclosure", "0001"

    def __init__(self) -> None:
        self.memory, self.closed = bytes(8), False

    def start(self, transfers: Sequence[Transfer]) -> Made:
        return Made([self.made(transfer) for transfer in transfers])

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        return self.start(transfers).wait(timeout_s)

    def made(self, transfer: Transfer) -> bytes:
        if transfer.endpoint != CONTROL and not transfer.into_host:
            self.memory = bytes(transfer.data)
            return b""
        if not transfer.into_host:
            self.memory = bytes(8)
            return b""
        source = b"\x01\x02\x03\x04" if transfer.endpoint == CONTROL else self.memory
        return source[: transfer.nbytes]

    def close(self) -> None:
        self.closed = True


def over_usb() -> ForeignWorld:
    return ForeignWorld(FakeMachine({}), usb=lambda bus, address, interface: Enclosure())


def bridged(world: World) -> bytes:
    """A small driver of the bridge."""
    usb = world.usb(1, 4, 0)
    try:
        (register,) = usb.run([Transfer.ask("read the register", 0xC0, 0xE4, 0, 0, 4)], 1.0)
        if register != b"\x01\x02\x03\x04":
            raise MalformedInput("the bridge's register", hint="reset it")
        clear = Transfer.tell("clear", 0x40, 0xE5, 0, 0)
        fill = Transfer.bulk_out("fill", 0x02, b"unbound!")
        *_, back = usb.run([clear, fill, Transfer.bulk_in("read back", 0x81, 8)], 1.0)
        if back != b"unbound!":
            raise MalformedInput(f"{back!r} came back", hint="reset the bridge")
    finally:
        usb.close()
    return back


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_every_transfer_of_a_usb_device_fails_once(fault: Fault) -> None:
    check(bridged(over_usb()) == b"unbound!", "without a fault")
    outcomes = list(sweep(over_usb, bridged, fault))
    check(len(outcomes) == 6, f"open, four transfers, close: {outcomes}")
    check(all(isinstance(outcome, DeviceError) for _, outcome in outcomes), f"{outcomes}")


class Failed(OSError):
    done = 1


class Unwilling(Enclosure):
    """The second of the transfers that are queued together fails."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        raise Failed(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPIPE, DeviceError), (errno.ENODEV, DeviceGone), (errno.ETIMEDOUT, DeviceTimeout),
        (errno.EOVERFLOW, MalformedInput),
    ],
)  # fmt: skip
def test_errors_of_a_stranger_s_transfers_name_the_one_that_failed(
    number: int, kind: type[DeviceError]
) -> None:
    world = ForeignWorld(FakeMachine({}), usb=lambda *_: Unwilling(number))
    usb = world.usb(1, 4, 0)
    with pytest.raises(kind, match=r"^second") as caught:
        usb.run([Transfer.tell("first", 0x40, 1, 0, 0), Transfer.bulk_in("second", 0x81, 8)], 1.0)
    check(isinstance(caught.value.__cause__, OSError), "errno is lost")


def test_errors_of_a_stranger_s_usb_become_ours() -> None:
    def gone(bus: int, address: int, interface: int) -> Enclosure:
        raise OSError(errno.ETIMEDOUT, "no answer")

    with pytest.raises(DeviceTimeout):
        ForeignWorld(FakeMachine({}), usb=gone).usb(1, 4, 0)


def test_worlds_without() -> None:
    with pytest.raises(NotFound):  # libusb, or a device with numbers that none has
        LinuxWorld().usb(255, 127, 0)
    stranger = ForeignWorld(FakeMachine({}))
    for call in (lambda: stranger.usb(1, 4, 0), lambda: stranger.library("libcuda.so.1")):
        with pytest.raises(Unsupported):
            call()
    faulty = FaultyWorld(LinuxWorld(), 0, EIO)
    with pytest.raises(DeviceError, match="injected"):
        faulty.poll(0, 0)
