"""The World in front of a driver: files, descriptors, requests and mappings of one process.

Duck-typed: it has the methods of the product's World and raises plain OSError with the errno that
Linux would give.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from boards.machine import host
from boards.machine.chassis import Violation
from boards.machine.file_tree import FileTree
from boards.machine.process_maps import ProcessMaps, Region
from boards.machine.read_only import ReadOnlyFiles
from boards.machine.region import HostRegion, Reservation
from boards.nv import files
from boards.nv.escapes import Escapes
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.open_files import MmapContext, NvFile
from boards.nv.panel import NvPanel
from boards.nv.rm import Rm
from boards.nv.usermode import load, store
from boards.nv.uvm_requests import UvmRequests

_NUMBER_MASK = 0xFF


@dataclass(slots=True)
class NvCounters:
    """What is alive; a leak test compares two of these."""

    fds: int = 0
    mappings: int = 0
    clients: int = 0
    objects: int = 0
    channels: int = 0
    ranges: int = 0
    video_bytes: int = 0
    system_bytes: int = 0


class NvWorld(ReadOnlyFiles, ProcessMaps[NvFile]):
    """A process in front of a board; `panel` breaks things, `violations` is what was noticed."""

    def __init__(self, hardware: NvHardware, name: str, pid: int) -> None:
        super().__init__()
        self.hardware, self.name, self.pid = hardware, name, pid
        self._tree: FileTree = files.tree(hardware)
        self.rm = Rm(hardware, self._fds.get, self._opened)
        self._escapes = Escapes(hardware, self.rm, self._fds.get)
        self._uvm = UvmRequests(hardware, self._fds.get, self._mine)
        self.panel = NvPanel(hardware, self.kill)
        self._made_by = os.getpid()
        self.denied: set[str] = set()
        """Device nodes that this process's user may not open."""

    @property
    def violations(self) -> list[Violation]:
        """What silicon would have let pass, and what no board models."""
        return self.hardware.violations

    @property
    def gpus(self) -> list[NvGpu]:
        """The board's GPUs."""
        return self.hardware.gpus

    # Files

    def open(self, path: str, flags: int) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, f"no {path}")
        if path in self.denied:
            raise OSError(errno.EACCES, f"{path} is another group's")
        gpu = next((gpu for gpu in self.gpus if files.node(gpu) == path), None)
        if gpu is not None and gpu.lost:
            raise OSError(errno.EIO, f"{path}: the GPU is lost")
        made = NvFile(path, path == files.CONTROL, gpu, path == files.UVM)
        plain = not (made.control or made.uvm or gpu is not None)
        if plain and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EACCES, f"{path} is read-only")
        if gpu is not None:
            gpu.opens += 1
        return self._install(made)

    def close(self, fd: int) -> None:
        self._file(fd)
        file = self._fds.pop(fd)
        if not self._held(file):
            with self.hardware.lock:
                self._release(file)

    def _opened(self, gpu: NvGpu) -> bool:
        return any(file.gpu is gpu for file in self._fds.values())

    def _mine(self, file: object) -> bool:
        return any(other is file for other in self._fds.values())

    def _held(self, file: NvFile) -> bool:
        """Whether a descriptor has the file, or another file that UVM tied to it."""
        return any(other is file or other.mm_of is file for other in self._fds.values())

    def _release(self, file: NvFile) -> None:
        """The last descriptor of a file is gone; in a child after fork, the parent has one."""
        if os.getpid() != self._made_by:
            return
        if file.mm_of is not None and file.mm_of.space is not None:
            file.mm_of.space.shut_down()
            if not self._held(file.mm_of):
                self._release(file.mm_of)
        if file.gpu is not None:
            file.gpu.opens -= 1
        if file.space is not None:
            file.space.close()
        for client in list(self.hardware.clients.values()):
            if client.owner is file:
                self.rm.end_client(client)

    def kill(self) -> None:
        """The process is killed: descriptors and memory go, its objects are cleaned up."""
        gone = list({id(file): file for file in self._fds.values()}.values())
        self._fds.clear()
        for file in sorted(gone, key=lambda file: file.space is None):
            self._release(file)
        self._close_maps()

    def readlink(self, path: str) -> str:
        return self._tree.readlink(path)

    def device_number(self, path: str) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, path)
        minors = {files.node(gpu): gpu.index for gpu in self.gpus}
        if path == files.UVM:
            return os.makedev(files.UVM_MAJOR, 0)
        minor = {**minors, files.CONTROL: files.CONTROL_MINOR}.get(path)
        return os.makedev(files.MAJOR, minor) if minor is not None else 0

    def access(self, path: str, mode: int) -> bool:
        if path in self.denied:
            return False
        device = path.startswith("/dev/")
        return self._tree.exists(path) and (device or not mode & (os.W_OK | os.X_OK))

    # Requests

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        clock = self.hardware.clock
        before_ns = clock.skipped_ns
        file = self._file(fd)
        if isinstance(argument, int):
            raise OSError(errno.EFAULT, "a struct is wanted")
        with self.hardware.lock:
            self.hardware.pump()
            if file.uvm:
                self.panel.before(request, uvm=True)
                self._uvm.ioctl(file, request, argument)
            elif file.control or file.gpu is not None:
                self.panel.before(request & _NUMBER_MASK, uvm=False)
                self._escapes.ioctl(file, request, argument)
            else:
                raise OSError(errno.ENOTTY, f"no ioctl of {file.path}")
        clock.give_turn(before_ns)
        return 0

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
        if huge:
            raise OSError(errno.ENOMEM, "no pages of 2 MiB are set aside")
        if nbytes <= 0 or offset < 0 or offset % host.PAGE_BYTES:
            raise OSError(errno.EINVAL, f"cannot map {nbytes} bytes at {offset:#x}")
        if fd == -1:
            return self._map_pieces(-1, [], host.pages(nbytes), write, within, at)
        file = self._file(fd)
        context = file.context
        if context is None or offset:
            raise OSError(errno.EINVAL, f"{file.path} was not prepared by RM_MAP_MEMORY")
        nbytes = host.pages(nbytes)
        if file.gpu is not None and nbytes != host.pages(context.nbytes):
            raise OSError(errno.ENXIO, f"{nbytes:#x} bytes, prepared for {context.nbytes:#x}")
        if context.memory is not None and context.offset + nbytes > context.memory.nbytes:
            raise OSError(errno.ERANGE, f"{nbytes:#x} bytes at {context.offset:#x} of the memory")
        if context.memory is None:
            return self._map_usermode(file, nbytes)
        return self._map_memory(file, nbytes, write, within, at)

    def prepared(self, fd: int) -> MmapContext | None:
        """What RM_MAP_MEMORY has prepared a file for."""
        return self._file(fd).context

    def _map_usermode(self, file: NvFile, nbytes: int) -> Region:
        if file.gpu is None:
            raise OSError(errno.EINVAL, f"{file.path} has no registers")
        gpu, hardware = file.gpu, self.hardware

        def on_store(off: int, size: int, value: int) -> None:
            with hardware.lock:
                store(hardware, gpu, off, size, value, self.panel.muted)

        def on_load(off: int, size: int) -> int:
            with hardware.lock:
                return load(hardware, off, size)

        return self._map_stores(nbytes, on_store, on_load)

    def _map_memory(
        self, file: NvFile, nbytes: int, write: bool, within: Reservation | None, at: int
    ) -> HostRegion:
        """Video memory through a GPU's file, system memory through the control file."""
        context = file.context
        if context is None or context.memory is None:
            raise OSError(errno.EINVAL, "nothing to map")
        memory = context.memory
        memory.prepare(context.offset, context.nbytes)
        memory.hold()
        pieces = list(memory.pieces_from(context.offset))
        fd = memory.pool.fd
        return self._map_pieces(fd, pieces, nbytes, write, within, at, memory.drop)

    # The rest of the process

    def monotonic_s(self) -> float:
        with self.hardware.lock:
            self.hardware.pump()
        return self.hardware.clock.now_s()

    def sleep(self, seconds: float) -> None:
        clock = self.hardware.clock
        before_ns = clock.skipped_ns
        with self.hardware.lock:
            clock.skip(seconds)
            self.hardware.pump()
        clock.give_turn(before_ns)

    # For tests

    def power_off(self) -> None:
        """Kill the process and give the memory of the whole board back; nothing works after."""
        self.kill()
        self.hardware.empty()

    def baseline(self) -> NvCounters:
        """What is alive now, on the whole board."""
        hardware = self.hardware
        counters = NvCounters(fds=len(self._fds), mappings=len(self._maps))
        counters.clients = len(hardware.clients)
        counters.objects = sum(len(client.objects) for client in hardware.clients.values())
        counters.channels = sum(len(gpu.channels) for gpu in hardware.gpus)
        spaces = {id(f.space): f.space for f in self._fds.values() if f.space is not None}
        counters.ranges = sum(space.range_count for space in spaces.values())
        counters.video_bytes = sum(gpu.memory.used_bytes for gpu in hardware.gpus)
        counters.system_bytes = hardware.system_memory.used_bytes
        return counters
