"""The World in front of a driver: files, descriptors, requests and mappings of one process.

Duck-typed: it has the methods of the product's World and raises plain OSError with the errno that
Linux would give.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from boards.machine import host
from boards.machine.chassis import Violation
from boards.machine.file_tree import FileTree
from boards.machine.process_maps import ProcessMaps, Region
from boards.machine.read_only import ReadOnlyFiles
from boards.machine.region import HostRegion, Reservation
from boards.qcom import files
from boards.qcom.dma_heap import allocate
from boards.qcom.hardware import KGSL, AdrenoGpu, AdrenoHardware
from boards.qcom.kgsl.device import Kgsl
from boards.qcom.kgsl.objects import GpuObject
from boards.qcom.memory import Memory
from boards.qcom.msm.device import Descriptors, Msm
from boards.qcom.msm.syncobjs import Syncobj
from boards.qcom.open_files import QcomFile
from boards.qcom.panel import QcomPanel
from boards.qcom.user import OwnMemory, UserMemory

_NUMBER_MASK = 0xFF
_FDINFO = "/proc/self/fdinfo/"


@dataclass(slots=True)
class QcomCounters:
    """What is alive; a leak test compares two of these."""

    fds: int = 0
    mappings: int = 0
    objects: int = 0
    contexts: int = 0
    mapped_to_gpu: int = 0
    dram_bytes: int = 0


class QcomWorld(ReadOnlyFiles, ProcessMaps[QcomFile]):
    """A process in front of a board; `panel` breaks things, `violations` is what was noticed."""

    def __init__(
        self, hardware: AdrenoHardware, name: str, pid: int, user: UserMemory | None = None
    ) -> None:
        super().__init__()
        self.hardware, self.name, self.pid = hardware, name, pid
        self.user = user or OwnMemory()
        self._tree: FileTree = files.tree(hardware)
        self._numbers = files.numbers(hardware)
        self._kgsl: Kgsl | None = None
        self.panel = QcomPanel(hardware, self.kill, self._context)
        self._descriptors = Descriptors(
            self._fence, self._make_fence, self._dma_buf, self.install_dma_buf,
            self._syncobj, self._make_syncobj,
        )  # fmt: skip
        self._made_by = os.getpid()
        self.denied: set[str] = set()
        """Device nodes that this process's user may not open."""

    @property
    def violations(self) -> list[Violation]:
        """What silicon would have let pass, and what no board models."""
        return self.hardware.violations

    @property
    def gpus(self) -> list[AdrenoGpu]:
        """The board's GPUs."""
        return self.hardware.gpus

    @property
    def kgsl(self) -> Kgsl:
        """What KGSL keeps of the process. Raises: OSError ENODEV before it opens the node."""
        if self._kgsl is None:
            raise OSError(errno.ENODEV, f"no process has {files.NODE} open")
        return self._kgsl

    def _context(self, number: int) -> object:
        return self.kgsl.contexts.get(number)

    # Files

    def open(self, path: str, flags: int) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, f"no {path}")
        if path in self.denied:
            raise OSError(errno.EACCES, f"{path} is another group's")
        device = path in self._numbers
        if not device and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EACCES, f"{path} is read-only")
        if path == files.NODE and self._kgsl is None:
            self._kgsl = Kgsl(
                self.hardware, self.gpus[0], self.pid, self.user, self._fence, self._make_fence,
                self._dma_buf,
            )  # fmt: skip
        made = QcomFile(path, device)
        if path in (files.RENDER, files.CARD):
            made.msm = Msm(self.hardware, self.gpus[0], self.pid, self.user, self._descriptors)
        return self._install(made)

    def close(self, fd: int) -> None:
        self._file(fd)
        file = self._fds.pop(fd)
        if any(other is file for other in self._fds.values()) or os.getpid() != self._made_by:
            return
        with self.hardware.lock:
            self._release(file)

    def _release(self, file: QcomFile) -> None:
        """The last descriptor of a file is gone."""
        if file.dma_buf is not None:
            self.hardware.memory.drop(file.dma_buf)
        if file.msm is not None:
            file.msm.end()
        if file.path != files.NODE or self._kgsl is None:
            return
        self._kgsl.close(file)
        if all(other.path != files.NODE for other in self._fds.values()):
            self._kgsl.end()
            self._kgsl = None

    def kill(self) -> None:
        """The process is killed: descriptors and memory go, its objects are cleaned up."""
        gone = list({id(file): file for file in self._fds.values()}.values())
        self._fds.clear()
        for file in gone:
            self._release(file)
        self._close_maps()

    def _content(self, path: str) -> bytes:
        return self._fdinfo(path) if path.startswith(_FDINFO) else super()._content(path)

    def _fdinfo(self, path: str) -> bytes:
        """src: fs/proc/fd.c seq_show(), drivers/dma-buf/dma-buf.c dma_buf_show_fdinfo()"""
        number = path.removeprefix(_FDINFO)
        file = self._fds.get(int(number)) if number.isdecimal() else None
        if file is None:
            raise OSError(errno.ENOENT, f"no {path}")
        text = b"pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t2057\n"
        if file.dma_buf is not None:
            text += b"size:\t%d\ncount:\t%d\nexp_name:\tmsm\n" % (
                file.dma_buf.nbytes, file.dma_buf.holds,
            )  # fmt: skip
        return text

    def readlink(self, path: str) -> str:
        return self._tree.readlink(path)

    def exists(self, path: str) -> bool:
        return path.startswith(_FDINFO) or super().exists(path)

    def device_number(self, path: str) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, path)
        return os.makedev(*self._numbers[path]) if path in self._numbers else 0

    def access(self, path: str, mode: int) -> bool:
        if path in self.denied:
            return False
        return self._tree.exists(path) and (path in self._numbers or not mode & (os.W_OK | os.X_OK))

    # Descriptors that requests make and take

    def _make_fence(self, holds: Callable[[], bool]) -> int:
        return self._install(QcomFile("anon_inode:sync_file", fence=holds))

    def _fence(self, fd: int) -> Callable[[], bool]:
        file = self._fds.get(fd)
        if file is None or file.fence is None:
            raise OSError(errno.EINVAL, f"descriptor {fd} is no fence")
        return file.fence

    def _dma_buf(self, fd: int) -> Memory:
        file = self._fds.get(fd)
        if file is None or file.dma_buf is None:
            raise OSError(errno.EINVAL, f"descriptor {fd} is no dma-buf")
        return file.dma_buf

    def _syncobj(self, fd: int) -> Syncobj:
        file = self._fds.get(fd)
        if file is None or file.syncobj is None:
            raise OSError(errno.EINVAL, f"descriptor {fd} is no sync object")
        return file.syncobj

    def _make_syncobj(self, syncobj: Syncobj) -> int:
        return self._install(QcomFile("anon_inode:syncobj_file", syncobj=syncobj))

    def install_dma_buf(self, memory: Memory) -> int:
        """A descriptor of memory, which holds it."""
        memory.holds += 1
        return self._install(QcomFile("/dmabuf:", dma_buf=memory))

    def poll(self, fd: int, timeout_s: float) -> bool:
        fence = self._file(fd).fence
        if fence is None:
            raise OSError(errno.ENOTTY, f"{self._file(fd).path} never has something to read")
        hardware = self.hardware
        with hardware.lock:
            hardware.pump()
            until_ns = hardware.clock.now_ns() + int(timeout_s * 1e9)
            while not fence() and hardware.clock.now_ns() < until_ns:
                hardware.skip_to(until_ns)
            return fence()

    # Requests

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        clock = self.hardware.clock
        before_ns = clock.skipped_ns
        with self.hardware.lock:
            self._ioctl(self._file(fd), request, argument)
        clock.give_turn(before_ns)
        return 0

    def _ioctl(self, file: QcomFile, request: int, argument: bytearray | int) -> None:
        self.panel.before(request & _NUMBER_MASK)
        if not file.device:
            raise OSError(errno.ENOTTY, f"no ioctl of {file.path}")
        if isinstance(argument, int):
            raise OSError(errno.EFAULT, "a struct is wanted")
        if file.path == files.DMA_HEAP:
            allocate(self.hardware, request, argument, self._take_dma_buf)
        elif file.path == files.NODE:
            self.kgsl.ioctl(file, request, argument)
        elif file.msm is not None:
            file.msm.ioctl(request, argument)
        else:
            raise OSError(errno.ENOTTY, f"no ioctl of {file.path}")

    def _take_dma_buf(self, memory: Memory) -> int:
        return self._install(QcomFile("/dmabuf:", dma_buf=memory))

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
        nbytes = host.pages(nbytes)
        if fd == -1:
            return self._map_pieces(-1, [], nbytes, write, within, at)
        with self.hardware.lock:
            made = self.to_map(fd, nbytes, offset)
            memory = made.memory if isinstance(made, GpuObject) else made
            piece = self.hardware.memory.seen_by_cpu(memory)
            if piece is None:
                raise OSError(errno.EINVAL, "pages of the process are mapped already")
            gone = self.mapped(made)
            pool = self.hardware.memory.pool.fd
            try:
                region = self._map_pieces(pool, [piece], nbytes, write, within, at, gone)
                self.placed(made, region.cpu_va)
            except OSError:
                gone()
                raise
            return region

    def to_map(self, fd: int, nbytes: int, offset: int) -> GpuObject | Memory:
        """What an offset of a file means. Raises: OSError EINVAL, EBUSY, ERANGE, ENODEV."""
        file = self._file(fd)
        if file.dma_buf is not None:
            if offset or nbytes > file.dma_buf.nbytes:
                raise OSError(errno.EINVAL, f"{nbytes:#x} bytes at {offset:#x} of a dma-buf")
            return file.dma_buf
        if file.msm is not None:
            memory = file.msm.gem.at_offset(offset).memory
            if nbytes > memory.nbytes:
                raise OSError(errno.EINVAL, f"{nbytes:#x} bytes of {memory.name}")
            return memory
        if file.path != files.NODE:
            raise OSError(errno.ENODEV, f"{file.path} cannot be mapped")
        page = self.hardware.options.page_bytes  # src: kgsl.c get_mmap_entry(): pgoff is the id
        if offset % page:
            raise OSError(errno.EINVAL, f"offset {offset:#x}: pages have {page} bytes")
        made = self.kgsl.objects.get(offset // page)
        if made.by_cpu_address and made.gpu_va:
            raise OSError(errno.EBUSY, f"object {made.id} has its address already")
        if nbytes != made.memory.nbytes:
            raise OSError(errno.ERANGE, f"object {made.id} has {made.memory.nbytes:#x} bytes")
        return made

    def mapped(self, made: GpuObject | Memory) -> Callable[[], None]:
        """The process maps something: what to do once it does not."""
        memory = self.hardware.memory
        if isinstance(made, Memory):
            made.holds += 1
            return partial(memory.drop, made)
        made.maps += 1
        return partial(self.kgsl.objects.unmapped, made)

    def placed(self, made: GpuObject | Memory, va: int) -> None:
        """It is at an address of the process, which becomes the GPU's where that was agreed."""
        if isinstance(made, GpuObject):
            made.cpu_va = va
            if made.by_cpu_address:
                self.kgsl.objects.place(made, va)

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

    def baseline(self) -> QcomCounters:
        """What is alive now, on the whole board."""
        counters = QcomCounters(fds=len(self._fds), mappings=len(self._maps))
        counters.dram_bytes = self.hardware.memory.free.used_bytes
        if self._kgsl is not None:
            counters.objects = len(self._kgsl.objects.by_id)
            counters.contexts = len(self._kgsl.contexts.by_id)
            counters.mapped_to_gpu = len(self._kgsl.objects.space)
        for file in {id(file): file for file in self._fds.values()}.values():
            if file.msm is not None:
                counters.objects += len(file.msm.gem.by_handle)
                counters.contexts += len(file.msm.queues.by_id)
                counters.mapped_to_gpu += len(file.msm.gem.space)
        return counters


__all__ = ["KGSL", "HostRegion", "QcomCounters", "QcomWorld"]
