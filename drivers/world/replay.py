"""Record what a world does, and play it back strictly: the same operations, in the same order.

Anonymous memory is given for real on both sides and not recorded; the clock is recorded, so that
waiting takes the same turns. Machine code cannot be played back: `function` is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from drivers.base.contracts import Region, World
from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.base.region import MemoryRegion
from drivers.world.recording import Entry, describe, parse, unhex
from drivers.world.untaped import Untaped


class ReplayMismatch(DeviceError):
    """The program asked for another operation than the recording holds at `position`."""

    def __init__(self, position: int, expected: str, actual: str) -> None:
        self.position, self.expected, self.actual = position, expected, actual
        super().__init__(
            f"operation {position} is {actual[:200]}, the recording has {expected[:200]}",
            hint="the driver changed: record again on the hardware, or find out why",
        )


class _Tape(ABC):
    """Where operations go: `run` does or replays one."""

    @abstractmethod
    def run(self, op: str, args: list[Any], call: Callable[[], Any]) -> Any: ...


class _Recorder(_Tape):
    def __init__(self, write_line: Callable[[str], object]) -> None:
        self.write_line = write_line

    def run(self, op: str, args: list[Any], call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except DeviceError as error:
            what = " ".join([op, *map(str, args)])
            self.write_line(Entry(op, args, error=describe(error, what[:200])).line())
            raise
        self.write_line(Entry(op, args, result).line())
        return result


class _Player(_Tape):
    def __init__(self, entries: list[Entry]) -> None:
        self.entries, self.position = entries, 0

    def run(self, op: str, args: list[Any], call: Callable[[], Any]) -> Any:
        at, actual = self.position, f"{op} {args}"
        if at >= len(self.entries):
            raise ReplayMismatch(at, "nothing more", actual)
        entry = self.entries[at]
        if entry.op != op or entry.args != args:
            raise ReplayMismatch(at, f"{entry.op} {entry.args}", actual)
        self.position += 1
        failure = entry.failure()
        if failure is not None:
            raise failure
        return entry.result


class _TapedWorld(Untaped):
    """Turns every method of World into operations of a tape."""

    name = "tape"

    def __init__(self, tape: _Tape, inner: World | None) -> None:
        self._tape, self._inner = tape, inner
        self.kept: dict[str, object] = {}
        self._regions: list[Region] = []

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
        return unhex(self._tape.run("read", args, lambda: self._real.read(path, limit_bytes).hex()))

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
            result = self._real.ioctl(fd, request, argument)
            return [result, "" if isinstance(argument, int) else argument.hex()]

        result, answer = self._tape.run("ioctl", [fd, request, _shown(argument)], call)
        if isinstance(argument, int):
            return int(result)
        data = unhex(answer)
        if len(data) != len(argument):
            raise MalformedInput(
                f"recording: ioctl {request:#010x} answers {len(data)} bytes to {len(argument)}"
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
            raise MalformedInput(f"recording: {len(data)} bytes where {nbytes} were read")
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

    def reserve(self, nbytes: int) -> Region:
        raise Unsupported(
            f"a reservation of {nbytes} bytes: addresses differ from run to run and are not taped",
            hint="record a driver that lets the kernel place its mappings",
        )

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
        if within is not None or at:
            self.reserve(nbytes)
        if fd == -1:
            return self._memory(nbytes, huge)
        number = len(self._regions)

        def call() -> int:
            self._regions.append(self._real.mmap(fd, nbytes, offset, write=write))
            return number

        given = self._tape.run("mmap", [fd, nbytes, offset, write], call)
        return _TapedRegion(self._tape, given, nbytes, lambda: self._regions[given])

    def _memory(self, nbytes: int, huge: bool) -> Region:
        if self._inner is not None:
            return self._inner.mmap(-1, nbytes, huge=huge)
        return MemoryRegion(bytearray(nbytes), name="replayed anonymous memory")

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        if self._inner is not None:
            self._inner.protect(region, write=write, execute=execute)
        elif write and execute:
            raise Unsupported("memory that is writable and executable at once")

    def symbol(self, name: str) -> int:
        address: int = self._tape.run("symbol", [name], lambda: self._real.symbol(name))
        return address

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        return self._real.function(address, nargs)

    def monotonic_s(self) -> float:
        now_s: float = self._tape.run("monotonic_s", [], lambda: self._real.monotonic_s())
        return now_s

    def sleep(self, seconds: float) -> None:
        self._tape.run("sleep", [seconds], lambda: self._real.sleep(seconds))


def _shown(argument: bytearray | int) -> str | int:
    """An ioctl's argument as a recording has it."""
    return argument if isinstance(argument, int) else argument.hex()


class _TapedRegion:
    """A mapping of a device whose accesses are operations of a tape. `cpu_va` is 0."""

    def __init__(self, tape: _Tape, number: int, nbytes: int, inner: Callable[[], Region]) -> None:
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
            raise MalformedInput(f"recording: {len(data)} bytes where {nbytes} were read")
        return data

    def write(self, off: int, data: bytes | memoryview) -> None:
        copy = bytes(data)
        self._check(off, len(copy))
        args = [self._number, off, copy.hex()]
        self._tape.run("write_bytes", args, lambda: self._inner().write(off, copy))

    def view(self) -> NoReturn:
        """Refused: accesses through a view could not be recorded."""
        raise Unsupported("a recorded mapping has no view", hint="use read and write")

    def close(self) -> None:
        self._tape.run("unmap", [self._number], lambda: self._inner().close())


class RecordingWorld(_TapedWorld):
    """Does everything on `inner` and writes one line for each operation."""

    def __init__(self, inner: World, write_line: Callable[[str], object]) -> None:
        super().__init__(_Recorder(write_line), inner)
        self.name = f"recorded {inner.name}"


class ReplayWorld(_TapedWorld):
    """A recording as a world. Raises: MalformedInput when it is not one."""

    def __init__(self, recording: bytes) -> None:
        self._player = _Player(parse(recording))
        super().__init__(self._player, None)
        self.name = "replay"

    def finish(self) -> None:
        """Raises: ReplayMismatch when operations of the recording were not asked for."""
        player = self._player
        if player.position < len(player.entries):
            entry = player.entries[player.position]
            raise ReplayMismatch(player.position, f"{entry.op} {entry.args}", "the end")
