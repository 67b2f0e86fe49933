"""A world that fails on purpose: operation k of another world fails in a chosen way.

Used as in::

    for fault in (Fault.of_errno(errno.EIO), Fault("ones"), Fault("short")):
        sweep(make_world, scenario, fault)

`sweep` fails operation 0, then 1, ... until the scenario ends without reaching its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from drivers.base.contracts import Region, World
from drivers.base.errors import DeviceError, Unsupported
from drivers.base.library import Library
from drivers.base.usb import Usb
from drivers.world.fault import Fault as Fault
from drivers.world.faulty_parts import FaultyLibrary, FaultyUsb

T = TypeVar("T")
LONGEST_SWEEP = 100_000


class FaultyWorld:
    """Passes everything to `inner`; operation number `fail_at` fails with `fault`.

    Every method that accesses the machine counts as one operation, and so does every access of a
    mapped region; reading the clock does not. A failed `close` still closes.
    """

    def __init__(self, inner: World, fail_at: int, fault: Fault) -> None:
        self.inner, self.fail_at, self.fault = inner, fail_at, fault
        self.name = f"faulty {inner.name}"
        self.kept: dict[str, object] = {}
        self.count = 0
        self.failed = ""
        """The operation that failed with the fault; "" before that."""

    def meets(self, operation: str) -> bool:
        """Count one operation; whether it is the one that fails."""
        hit = self.count == self.fail_at
        self.count += 1
        if hit:
            self.failed = operation
        return hit

    def _pass(self, operation: str) -> None:
        if self.meets(operation):
            raise self.fault.error(operation)

    def open(self, path: str, flags: int) -> int:
        self._pass(f"open {path}")
        return self.inner.open(path, flags)

    def close(self, fd: int) -> None:
        self.inner.close(fd)
        self._pass(f"close {fd}")

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        if not self.meets(f"read {path}"):
            return self.inner.read(path, limit_bytes)
        if self.fault.kind == "errno":
            raise self.fault.error(f"read {path}")
        return self.fault.spoil(self.inner.read(path, limit_bytes))

    def write(self, path: str, data: bytes) -> None:
        self._pass(f"write {path}")
        self.inner.write(path, data)

    def listdir(self, path: str) -> list[str]:
        if not self.meets(f"list {path}"):
            return self.inner.listdir(path)
        if self.fault.kind != "short":
            raise self.fault.error(f"list {path}")
        names = self.inner.listdir(path)
        return names[: len(names) // 2]

    def readlink(self, path: str) -> str:
        self._pass(f"readlink {path}")
        return self.inner.readlink(path)

    def exists(self, path: str) -> bool:
        return not self.meets(f"exists {path}") and self.inner.exists(path)

    def access(self, path: str, mode: int) -> bool:
        return not self.meets(f"access {path}") and self.inner.access(path, mode)

    def owning_group(self, path: str) -> int:
        self._pass(f"stat {path}")
        return self.inner.owning_group(path)

    def device_number(self, path: str) -> int:
        self._pass(f"stat {path}")
        return self.inner.device_number(path)

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        operation = f"ioctl {request:#010x}"
        if not self.meets(operation):
            return self.inner.ioctl(fd, request, argument)
        if self.fault.kind == "errno":
            raise self.fault.error(operation)
        result = self.inner.ioctl(fd, request, argument)
        if isinstance(argument, int):
            return int.from_bytes(self.fault.spoil(result.to_bytes(4, "little")), "little")
        spoilt = self.fault.spoil(bytes(argument))
        argument[: len(spoilt)] = spoilt
        return result

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        self._pass(f"ioctl {request:#010x}")
        return self.inner.ioctl_fd(fd, request, argument)

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        operation = f"pread {offset:#x}+{nbytes:#x}"
        if not self.meets(operation):
            return self.inner.pread(fd, nbytes, offset)
        if self.fault.kind in {"errno", "short"}:
            raise self.fault.error(operation)
        return self.fault.spoil(self.inner.pread(fd, nbytes, offset))

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self._pass(f"pwrite {offset:#x}+{len(data):#x}")
        self.inner.pwrite(fd, data, offset)

    def eventfd(self) -> int:
        self._pass("eventfd")
        return self.inner.eventfd()

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        self._pass("wait for an event")
        return self.inner.wait_event(fd, timeout_s)

    def duplicate(self, fd: int) -> int:
        self._pass(f"duplicate {fd}")
        return self.inner.duplicate(fd)

    def poll(self, fd: int, timeout_s: float) -> bool:
        self._pass(f"poll {fd}")
        return self.inner.poll(fd, timeout_s)

    def library(self, name: str) -> Library:
        self._pass(f"load {name}")
        return FaultyLibrary(self, self.inner.library(name))

    def usb(self, bus: int, address: int, interface: int) -> Usb:
        self._pass(f"open USB {bus}-{address}")
        return FaultyUsb(self, self.inner.usb(bus, address, interface))

    def reserve(self, nbytes: int) -> Region:
        self._pass(f"reserve {nbytes} bytes")
        return self.inner.reserve(nbytes)

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Region | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        self._pass(f"mmap {nbytes} bytes")
        region = self.inner.mmap(fd, nbytes, offset, write=write, within=within, at=at, huge=huge)
        return FaultyRegion(self, region)

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        self._pass("protect")
        inner = region.inner if isinstance(region, FaultyRegion) else region
        self.inner.protect(inner, write=write, execute=execute)

    def symbol(self, name: str) -> int:
        self._pass(f"symbol {name}")
        return self.inner.symbol(name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        return self.inner.function(address, nargs)

    def monotonic_s(self) -> float:
        return self.inner.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)


class FaultyRegion:
    """A mapping whose accesses are operations of a FaultyWorld."""

    def __init__(self, world: FaultyWorld, inner: Region) -> None:
        self.world, self.inner = world, inner
        self.nbytes, self.cpu_va = inner.nbytes, inner.cpu_va

    def _number(self, off: int, nbytes: int, value: int) -> int:
        fault = self.world.fault
        if not self.world.meets(f"read{8 * nbytes} {off:#x}"):
            return value
        if fault.kind == "errno":
            raise fault.error(f"read{8 * nbytes} {off:#x}")
        return int.from_bytes(fault.spoil(value.to_bytes(nbytes, "little")), "little")

    def _store(self, operation: str) -> None:
        if self.world.meets(operation):
            raise self.world.fault.error(operation)

    def read32(self, off: int) -> int:
        return self._number(off, 4, self.inner.read32(off))

    def read64(self, off: int) -> int:
        return self._number(off, 8, self.inner.read64(off))

    def write32(self, off: int, value: int) -> None:
        self._store(f"write32 {off:#x}")
        self.inner.write32(off, value)

    def write64(self, off: int, value: int) -> None:
        self._store(f"write64 {off:#x}")
        self.inner.write64(off, value)

    def read(self, off: int, nbytes: int) -> bytes:
        data = self.inner.read(off, nbytes)
        if not self.world.meets(f"read {off:#x}+{nbytes:#x}"):
            return data
        if self.world.fault.kind == "errno":
            raise self.world.fault.error(f"read {off:#x}+{nbytes:#x}")
        return self.world.fault.spoil(data).ljust(nbytes, b"\0")

    def write(self, off: int, data: bytes | memoryview) -> None:
        self._store(f"write {off:#x}")
        self.inner.write(off, data)

    def view(self) -> memoryview:
        """The bytes themselves; accesses through it are not operations."""
        return self.inner.view()

    def close(self) -> None:
        """Closing memory cannot fail."""
        self.inner.close()


def sweep(
    make_world: Callable[[], World],
    scenario: Callable[[World], T],
    fault: Fault,
    limit: int = LONGEST_SWEEP,
    first: int = 0,
    stride: int = 1,
) -> Iterator[tuple[str, DeviceError | T]]:
    """Fail operation `first`, `first + stride`, ... of `scenario`: every one, without these two.

    Yields (operation, its error or result).

    Ends when a run no longer reaches its fault. Other errors than DeviceError are not caught: the
    sweep is there to find them. Raises: Unsupported when `limit` runs do not suffice.
    """
    for fail_at in range(first, limit, stride):
        world = FaultyWorld(make_world(), fail_at, fault)
        outcome: DeviceError | T
        try:
            outcome = scenario(world)
        except DeviceError as error:
            outcome = error
        if not world.failed:
            return
        yield world.failed, outcome
    raise Unsupported(f"the scenario has more than {limit} operations", hint="raise the limit")
