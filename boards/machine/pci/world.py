"""A process of a machine with PCI functions: what the driver's World is, over PCI.

Duck-typed like the world of /dev/kfd: the methods of the product's World, and plain OSError with
the errno that Linux would give. A process that was killed does nothing any more.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from boards.machine import host
from boards.machine.chassis import Chassis, Violation
from boards.machine.extents import Piece
from boards.machine.file_tree import File
from boards.machine.frames import HUGE_BYTES, HugePage
from boards.machine.open_files import Argument, EventFile, OpenFile
from boards.machine.pci.function import PciFunction
from boards.machine.pci.panel import BusPanel, Killed
from boards.machine.pci.surroundings import Surroundings
from boards.machine.pinned import Pin
from boards.machine.pool import Pool
from boards.machine.process_maps import ProcessMaps, Region
from boards.machine.region import HostRegion, Reservation
from boards.machine.state import BoardState

_SELF = "/proc/self"
_P = ParamSpec("_P")
_T = TypeVar("_T")


class PciWorld(ProcessMaps[OpenFile]):
    """One process. `machine` is what it shares with others, `panel` breaks its bus."""

    def __init__(self, machine: Surroundings, pid: int, name: str) -> None:
        super().__init__()
        self.machine, self.pid, self.name = machine, pid, name
        self.dead = False
        self._users: dict[int, tuple[OpenFile, int]] = {}
        """Open files by identity, and how many descriptors and mappings each has."""
        self._spans: dict[int, tuple[str, int, int, int]] = {}
        """File mappings: path, address, bytes, descriptor of the memory file."""
        self._memory: dict[int, HostRegion] = {}
        self._next_span = 0
        self.huge: dict[int, HugePage] = {}
        self.state: BoardState = machine.state_of(pid)

    # For tests

    @property
    def hardware(self) -> Chassis:
        """Clock, violations, lock: of the whole machine."""
        return self.machine.hardware

    @property
    def violations(self) -> list[Violation]:
        """What silicon would have let pass."""
        return self.hardware.violations

    @property
    def process(self) -> None:
        """No kernel driver knows the process."""
        return None

    @property
    def gpus(self) -> Sequence[PciFunction]:
        """The machine's GPUs."""
        return self.machine.gpus

    @property
    def panel(self) -> BusPanel:
        """The fault panel of the first GPU's bus."""
        return self.machine.panel(0)

    @property
    def firmware(self) -> str:
        """Path of the manifest of the machine's synthetic firmware."""
        return self.machine.firmware

    def open_paths(self) -> list[str]:
        """What /proc/PID/fd shows."""
        return [file.path for file in self._fds.values()]

    def spans(self) -> list[tuple[str, int, int]]:
        """What /proc/PID/maps shows of files: path, address, bytes."""
        return [(path, va, nbytes) for path, va, nbytes, _ in self._spans.values()]

    def baseline(self) -> dict[str, int]:
        """What is alive in this process, for leak tests."""
        return {"fds": len(self._fds), "mappings": len(self._maps), "huge": len(self.huge)}

    # Life and death

    def _alive(self) -> None:
        if self.dead:
            raise Killed(f"process {self.pid} is no more")

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Hold the machine; a panel that kills whoever is at work kills this process."""
        with self.hardware.lock:
            try:
                yield
            except Killed:
                self.kill()
                raise

    def _guarded(self, access: Callable[_P, _T]) -> Callable[_P, _T]:
        """The same around each of thousands of accesses, and faster."""

        def guarded(*args: _P.args, **more: _P.kwargs) -> _T:
            self._alive()
            with self.hardware.lock:
                try:
                    return access(*args, **more)
                except Killed:
                    self.kill()
                    raise

        return guarded

    def kill(self) -> None:
        """SIGKILL: descriptors and mappings go, the hardware is not asked."""
        if self.dead:
            return
        self.dead = True
        for _, va, nbytes, _ in self._spans.values():
            host.map_anonymous(nbytes, at=va)  # what still views it is no part of the machine
        self._close_maps()
        files, self._users = [file for file, _ in self._users.values()], {}
        self._fds.clear()
        for file in files:
            file.close()
        self.state.die()
        self.machine.frames.give(list(self.huge.values()))
        self.huge.clear()
        self.machine.buried(self.pid)

    def blind(self, fd: int, ones: int) -> None:
        """Memory of a function that left the bus reads as `ones`, a file of all ones."""
        for _, va, nbytes, file in self._spans.values():
            if file == fd:
                for at in range(0, nbytes, HUGE_BYTES):
                    host.map_private(ones, 0, min(HUGE_BYTES, nbytes - at), at=va + at)

    # Files

    def _path(self, path: str) -> str:
        own = path == _SELF or path.startswith(f"{_SELF}/")
        return f"/proc/{self.pid}{path[len(_SELF) :]}" if own else path

    def open(self, path: str, flags: int) -> int:
        self._alive()
        tree = self.machine.tree
        node = tree.find(self._path(path))
        with self.hardware.lock:
            if isinstance(node, File) and node.opens is not None:
                file: OpenFile = node.opens(self, flags)
            elif isinstance(node, File):
                file = OpenFile(tree.real(self._path(path)))
            else:
                raise OSError(errno.EISDIR, path)
        return self._hold(file)

    def _hold(self, file: OpenFile) -> int:
        self._use(file)
        return self._install(file)

    def _use(self, file: OpenFile) -> None:
        _, users = self._users.get(id(file), (file, 0))
        self._users[id(file)] = file, users + 1

    def _drop(self, file: OpenFile) -> None:
        """A descriptor or mapping of a file is gone; with the last one it is closed."""
        if id(file) not in self._users:
            return
        _, users = self._users[id(file)]
        if users > 1:
            self._users[id(file)] = file, users - 1
            return
        del self._users[id(file)]
        with self.hardware.lock:
            file.close()

    def file(self, fd: int) -> OpenFile:
        """The open file behind a descriptor. Raises: OSError EBADF."""
        return self._file(fd)

    def close(self, fd: int) -> None:
        if self.dead:
            return
        file = self._file(fd)
        del self._fds[fd]
        self._drop(file)

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        self._alive()
        data = self.machine.tree.read(self._path(path))
        if len(data) > limit_bytes:
            raise OSError(errno.EFBIG, f"{path} is longer than {limit_bytes} bytes")
        return data

    def write(self, path: str, data: bytes) -> None:
        self._alive()
        with self._at_work():
            self.machine.wrote(path, data)
            self.machine.tree.write(self._path(path), data)

    def listdir(self, path: str) -> list[str]:
        self._alive()
        return self.machine.tree.listdir(self._path(path))

    def readlink(self, path: str) -> str:
        self._alive()
        return self.machine.tree.readlink(self._path(path))

    def device_number(self, path: str) -> int:
        self.machine.tree.find(self._path(path), follow=False)
        return 0  # made-up nodes have none

    def exists(self, path: str) -> bool:
        self._alive()
        return self.machine.tree.exists(self._path(path))

    def access(self, path: str, mode: int) -> bool:
        self._alive()
        tree, path = self.machine.tree, self._path(path)
        return tree.exists(path) and (not mode & os.W_OK or tree.writable(path))

    # Requests

    def ioctl(self, fd: int, request: int, argument: Argument) -> int:
        result = self._ioctl(fd, request, argument)
        return result if isinstance(result, int) else self._hold(result)

    def ioctl_fd(self, fd: int, request: int, argument: Argument) -> int:
        result = self._ioctl(fd, request, argument)
        if isinstance(result, int):
            raise OSError(errno.EBADF, f"request {request:#x} makes no descriptor")
        return self._hold(result)

    def _ioctl(self, fd: int, request: int, argument: Argument) -> int | OpenFile:
        self._alive()
        with self._at_work():
            return self._file(fd).ioctl(request, argument)

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        self._alive()
        with self._at_work():
            return self._file(fd).pread(nbytes, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self._alive()
        with self._at_work():
            taken = self._file(fd).pwrite(data, offset)
        if taken != len(data):
            raise OSError(errno.EIO, f"{taken} of {len(data)} bytes were taken")

    def eventfd(self) -> int:
        self._alive()
        return self._hold(EventFile())

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        return self.poll(fd, timeout_s) and self._file(fd).take()

    def duplicate(self, fd: int) -> int:
        self._alive()
        return self._hold(self._file(fd))

    def poll(self, fd: int, timeout_s: float) -> bool:
        self._alive()
        file = self._file(fd)
        if not file.readable:
            self.machine.pump()
        if not file.readable:
            self.sleep(timeout_s)
        return file.readable

    # Memory

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Reservation | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        self._alive()
        if nbytes <= 0 or offset < 0 or offset % host.PAGE_BYTES:
            raise OSError(errno.EINVAL, f"cannot map {nbytes} bytes at {offset:#x}")
        if huge:
            if fd != -1 or within is not None:
                raise OSError(errno.EINVAL, "huge pages are anonymous, and where there is room")
            return self._map_huge(nbytes)
        if fd == -1:
            return self._anonymous(host.pages(nbytes), write, within, at)
        file = self._file(fd)
        with self._at_work():
            return file.map(nbytes, offset, write, within, at)

    def _anonymous(
        self, nbytes: int, write: bool, within: Reservation | None, at: int
    ) -> HostRegion:
        number = self._next_span = self._next_span + 1
        gone = partial(self._memory.pop, number, None)
        self._memory[number] = self._map_pieces(-1, [], nbytes, write, within, at, gone)
        return self._memory[number]

    def _map_huge(self, nbytes: int) -> HostRegion:
        """Memory at a multiple of 2 MiB, with frames of its own."""
        size = -(-nbytes // HUGE_BYTES) * HUGE_BYTES
        room = self.reserve(size + HUGE_BYTES)
        at = -room.cpu_va % HUGE_BYTES
        pages: list[HugePage] = []
        try:
            pages = self.machine.frames.take(room.cpu_va + at, size, None)
        except OSError:
            room.close()
            raise
        self.huge |= {page.va: page for page in pages}
        region = self._map_pieces(-1, [], size, True, room, at, partial(self._huge_gone, pages))
        room.close()
        return region

    def _huge_gone(self, pages: list[HugePage]) -> None:
        """Frames of a mapping that is gone."""
        left = [page for page in pages if self.huge.pop(page.va, None) is not None]
        self.machine.frames.give(left)

    # What open files and the kernel ask

    def map_file(
        self, file: OpenFile, fd: int, nbytes: int, offset: int, write: bool,
        within: Reservation | None, at: int,
    ) -> HostRegion:  # fmt: skip
        """Map a memory file of the board; the open file it came from stays open meanwhile."""
        number = self._next_span = self._next_span + 1
        self._use(file)
        gone = partial(self._span_gone, number, file)
        pieces = [Piece(offset, host.pages(nbytes))]
        region = self._map_pieces(fd, pieces, host.pages(nbytes), write, within, at, gone)
        self._spans[number] = file.path, region.cpu_va, region.nbytes, fd
        return region

    def _span_gone(self, number: int, file: OpenFile) -> None:
        self._spans.pop(number, None)
        self._drop(file)

    def map_registers(
        self, file: OpenFile, nbytes: int, load: Callable[[int, int], int],
        store: Callable[[int, int, int], None],
    ) -> Region:  # fmt: skip
        """Map registers; the thread that touches one has the board to itself."""
        self._use(file)
        number = self._next_span = self._next_span + 1
        gone = partial(self._span_gone, number, file)
        return self._map_stores(nbytes, self._guarded(store), self._guarded(load), gone)

    def pin(self, va: int, nbytes: int, *, write: bool) -> Pin:
        """Pages for a device. Raises: OSError EFAULT."""
        keep = next((r for r in self._memory.values() if _inside(r, va, nbytes)), None)
        allowed = host.writable(va, nbytes) if write else host.readable(va, nbytes)
        if not allowed:
            raise OSError(errno.EFAULT, f"no memory of this process at {va:#x}+{nbytes:#x}")
        held = keep.memory if keep is not None else None
        return Pin(Pool("host memory", va, nbytes), held)

    def copy_out(self, va: int, data: bytes) -> None:
        """copy_to_user(). Raises: OSError EFAULT."""
        host.copy_to_user(va, data)

    # Time

    def monotonic_s(self) -> float:
        if self.hardware.late and not self.dead:
            self.machine.pump()
        return self.hardware.clock.now_s()

    def sleep(self, seconds: float) -> None:
        self._alive()
        clock, before_ns = self.hardware.clock, self.hardware.clock.skipped_ns
        clock.skip(seconds)
        self.machine.pump()
        clock.give_turn(before_ns)


def _inside(region: HostRegion, va: int, nbytes: int) -> bool:
    """Whether a range lies in a mapping that is still open."""
    return region.cpu_va <= va and va + nbytes <= region.cpu_va + region.nbytes
