"""A World whose every method is an operation of a tape, recorded or replayed.

Addresses are the recording's own: at those of reservations nothing is mapped in this process;
those of anonymous memory replace the real ones in the arguments of ioctls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, MalformedInput, Unsupported
from drivers.base.usb import Usb
from drivers.world.no_contents import NoContents
from drivers.world.recording import Change, unhex
from drivers.world.taped_memory import Addresses, Memories, TapedMemory
from drivers.world.taped_usb import TapedUsb
from drivers.world.untaped import Untaped


def _nothing() -> None:
    """What a replay does instead of the machine."""


class Tape(ABC):
    """Executes operations: `run` does or replays one."""

    def __init__(self) -> None:
        self.memories = Memories()

    @property
    @abstractmethod
    def where(self) -> str:
        """The last operation's name in errors."""

    @abstractmethod
    def run(
        self, op: str, args: list[Any], call: Callable[[], Any],
        play: Callable[[], object] = _nothing, *, sent: tuple[Change, ...] = (),
    ) -> Any:  # fmt: skip
        """`call` does it on the machine; `play` is what a replay does instead.

        `sent` is what the driver hands over beside memory.
        """


class Reserved(NoContents):
    """Addresses of the recording. Only `cpu_va`, `nbytes` and `close` are valid."""

    def __init__(self, nbytes: int, cpu_va: int, on_close: Callable[[], object]) -> None:
        self.nbytes, self.cpu_va = nbytes, cpu_va
        self._on_close = on_close
        self._closed = False

    def __repr__(self) -> str:
        return f"Reserved({self.nbytes:#x} bytes at {self.cpu_va:#x} of the recording)"

    def close(self) -> None:
        """Give the addresses back. A second close does nothing."""
        if not self._closed:
            self._closed = True
            self._on_close()


class TapedWorld(Untaped):
    """Maps every method of World to operations of a tape."""

    name = "tape"

    def __init__(self, tape: Tape, inner: World | None) -> None:
        self._tape, self._inner = tape, inner
        self.kept: dict[str, object] = {}
        self._regions: list[Region | None] = []
        """The machine's regions, in the order of their mapping; None in a replay."""
        self._addresses = Addresses()
        self._cables: list[Usb | None] = []
        """The machine's USB devices, in the order of their opening; None in a replay."""

    @property
    def _real(self) -> World:
        if self._inner is None:
            raise Unsupported("a replayed world has no machine behind it")
        return self._inner

    def open(self, path: str, flags: int) -> int:
        fd: int = self._tape.run("open", [path, flags], lambda: self._real.open(path, flags))
        return fd

    def close(self, fd: int) -> None:
        self._tape.run("close", [fd], lambda: self._real.close(fd))

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        args = [path, limit_bytes]
        return unhex(self._tape.run("read", args, lambda: self._read(path, limit_bytes).hex()))

    def _read(self, path: str, limit_bytes: int) -> bytes:
        """The machine's own file."""
        return self._real.read(path, limit_bytes)

    def write(self, path: str, data: bytes) -> None:
        self._tape.run("write", [path, data.hex()], lambda: self._real.write(path, data))

    def listdir(self, path: str) -> list[str]:
        names: list[str] = self._tape.run("listdir", [path], lambda: self._real.listdir(path))
        return names

    def readlink(self, path: str) -> str:
        target: str = self._tape.run("readlink", [path], lambda: self._real.readlink(path))
        return target

    def exists(self, path: str) -> bool:
        found: bool = self._tape.run("exists", [path], lambda: self._real.exists(path))
        return found

    def access(self, path: str, mode: int) -> bool:
        allowed: bool = self._tape.run(
            "access", [path, mode], lambda: self._real.access(path, mode)
        )
        return allowed

    def owning_group(self, path: str) -> int:
        group: int = self._tape.run("owning_group", [path], lambda: self._real.owning_group(path))
        return group

    def device_number(self, path: str) -> int:
        number: int = self._tape.run(
            "device_number", [path], lambda: self._real.device_number(path)
        )
        return number

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        def call() -> list[Any]:
            result = self._ioctl(fd, request, argument)
            return [result, "" if isinstance(argument, int) else argument.hex()]

        result, answer = self._tape.run("ioctl", [fd, request, _shown(argument)], call)
        if isinstance(argument, int):
            return int(result)
        data = unhex(answer)
        if len(data) != len(argument):
            raise MalformedInput(
                f"{self._tape.where}: ioctl {request:#010x} answers {len(data)} bytes "
                f"to {len(argument)}"
            )
        argument[:] = data
        return int(result)

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        made: int = self._tape.run(
            "ioctl_fd",
            [fd, request, _shown(argument)],
            lambda: self._real.ioctl_fd(fd, request, argument),
        )
        return made

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        args = [fd, nbytes, offset]
        data = unhex(
            self._tape.run("pread", args, lambda: self._real.pread(fd, nbytes, offset).hex())
        )
        if len(data) != nbytes:
            raise MalformedInput(f"{self._tape.where}: {len(data)} bytes where {nbytes} were read")
        return data

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        args = [fd, data.hex(), offset]
        self._tape.run("pwrite", args, lambda: self._real.pwrite(fd, data, offset))

    def eventfd(self) -> int:
        fd: int = self._tape.run("eventfd", [], lambda: self._real.eventfd())
        return fd

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        args = [fd, timeout_s]
        signalled: bool = self._tape.run(
            "wait_event", args, lambda: self._real.wait_event(fd, timeout_s)
        )
        return signalled

    def usb(self, bus: int, address: int, interface: int) -> Usb:
        """A device without its serial number."""
        number = len(self._cables)
        self._cables.append(None)

        def call() -> list[str]:
            inner = self._cables[number] = self._real.usb(bus, address, interface)
            return [inner.name, inner.product]

        name, product = self._tape.run("usb", [bus, address, interface], call)
        return TapedUsb(self._tape, number, name, product, lambda: self._cable(number))

    def _cable(self, number: int) -> Usb:
        inner = self._cables[number]
        if inner is None:
            raise Unsupported("a replayed world has no machine behind it")
        return inner

    def _ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        """The machine's own ioctl."""
        return self._real.ioctl(fd, request, argument)

    def reserve(self, nbytes: int) -> Region:
        """Addresses of the recording: no mapping of this process is there."""
        va = self._addresses.take(nbytes)
        self._tape.run("reserve", [nbytes], lambda: va)
        return Reserved(nbytes, va, lambda: self._tape.run("unreserve", [va], lambda: None))

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
        """Placed and anonymous mappings are memory; a device's other mappings are registers."""
        va = 0
        if within is not None:
            if not isinstance(within, Reserved) or not 0 <= at <= within.nbytes - nbytes:
                raise BadArgument(f"{nbytes:#x} bytes at {at:#x} are not inside the reservation")
            va = within.cpu_va + at
        elif fd == -1:
            va = self._addresses.take(nbytes)
        number = len(self._regions)
        made: list[Region] = []

        def call() -> int:
            inner = self._real.mmap(fd, nbytes, offset, write=write, huge=huge)
            made.append(inner)
            play(inner)
            return number

        def play(inner: Region | None = None) -> None:
            self._regions.append(inner)
            if va:
                made[:] = [self._memory(number, nbytes, va, inner, fd == -1, write)]

        args = [fd, nbytes, offset, write, va, huge]
        given = self._tape.run("mmap", args, call, play)
        if given != number:
            raise MalformedInput(f"{self._tape.where}: mapping {number} is called {given}")
        if va:
            return made[0]
        return _TapedRegion(self._tape, number, nbytes, lambda: self._behind(number))

    def _behind(self, number: int) -> Region:
        region = self._regions[number]
        if region is None:
            raise Unsupported("a replayed world has no machine behind it")
        return region

    def _memory(
        self, number: int, nbytes: int, va: int, inner: Region | None, anonymous: bool, write: bool
    ) -> TapedMemory:
        """The driver's region for a mapping that is memory."""
        memories, tape = self._tape.memories, self._tape

        def close() -> None:
            memories.drop(memory)
            tape.run("unmap", [number], inner.close if inner is not None else _nothing)

        real = inner.view() if inner is not None else None
        if anonymous and real is not None and inner is not None:
            shown: memoryview | bytearray = real
            memory = TapedMemory(
                number, shown, va, real_va=inner.cpu_va, write=write, on_close=close
            )
        else:
            memory = TapedMemory(
                number, bytearray(nbytes), va, real=real, write=write, on_close=close
            )
        memories.add(memory)
        return memory

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        """Raises Unsupported for memory of a tape: CPU code cannot be played back."""
        raise Unsupported(
            "code of the processor is not taped", hint="record a device that is not the CPU"
        )

    def symbol(self, name: str) -> int:
        address: int = self._tape.run("symbol", [name], lambda: self._real.symbol(name))
        return address

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        return self._real.function(address, nargs)

    def monotonic_s(self) -> float:
        now_s: float = self._tape.run("monotonic_s", [], self._now_s)
        return now_s

    def _now_s(self) -> float:
        """The machine's own clock."""
        return self._real.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self._tape.run("sleep", [seconds], lambda: self._real.sleep(seconds))


def _shown(argument: bytearray | int) -> str | int:
    """An ioctl's argument as a recording has it."""
    return argument if isinstance(argument, int) else argument.hex()


class _TapedRegion:
    """A mapping of a device whose accesses are operations of a tape. `cpu_va` is 0."""

    def __init__(self, tape: Tape, number: int, nbytes: int, inner: Callable[[], Region]) -> None:
        self._tape, self._number, self._inner = tape, number, inner
        self.nbytes, self.cpu_va = nbytes, 0

    def _check(self, off: int, nbytes: int) -> None:
        if off < 0 or off + nbytes > self.nbytes:
            raise IndexError(f"{off:#x}+{nbytes:#x} is outside {self.nbytes:#x} bytes")

    def read32(self, off: int) -> int:
        self._check(off, 4)
        args = [self._number, off]
        return int(self._tape.run("read32", args, lambda: self._inner().read32(off)))

    def read64(self, off: int) -> int:
        self._check(off, 8)
        args = [self._number, off]
        return int(self._tape.run("read64", args, lambda: self._inner().read64(off)))

    def write32(self, off: int, value: int) -> None:
        self._check(off, 4)
        args = [self._number, off, value]
        self._tape.run("write32", args, lambda: self._inner().write32(off, value))

    def write64(self, off: int, value: int) -> None:
        self._check(off, 8)
        args = [self._number, off, value]
        self._tape.run("write64", args, lambda: self._inner().write64(off, value))

    def read(self, off: int, nbytes: int) -> bytes:
        self._check(off, nbytes)
        args = [self._number, off, nbytes]
        data = unhex(
            self._tape.run("read_bytes", args, lambda: self._inner().read(off, nbytes).hex())
        )
        if len(data) != nbytes:
            raise MalformedInput(f"{self._tape.where}: {len(data)} bytes where {nbytes} were read")
        return data

    def write(self, off: int, data: bytes | memoryview) -> None:
        copy = bytes(data)
        self._check(off, len(copy))
        args = [self._number, off, copy.hex()]
        self._tape.run("write_bytes", args, lambda: self._inner().write(off, copy))

    def view(self) -> NoReturn:
        """Raises Unsupported: accesses through a view could not be recorded."""
        raise Unsupported("a recorded mapping has no view", hint="use read and write")

    def close(self) -> None:
        self._tape.run("unmap", [self._number], lambda: self._inner().close())
