"""The World in front of a driver: files, descriptors, ioctls and mappings of one process.

Duck-typed: it has the methods of the product's World and raises plain OSError with the errno that
Linux would give.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from boards.amd.drm.ioctls import Drm
from boards.amd.drm.types import DRM_MAJOR
from boards.amd.hardware import Counters, Gpu, Hardware
from boards.amd.kfd import types as k
from boards.amd.kfd.device import SLICE_BYTES
from boards.amd.kfd.dmabuf import DmaBuf, describe, export, import_
from boards.amd.kfd.ioctls import Kfd, number_of
from boards.amd.kfd.panel import Panel
from boards.amd.kfd.process import Process
from boards.amd.kfd.sysfs import Files, Tree
from boards.machine import host
from boards.machine.chassis import Violation
from boards.machine.process_maps import ProcessMaps, Region
from boards.machine.read_only import ReadOnlyFiles
from boards.machine.region import Reservation

_OFFSET_MASK = (1 << 46) - 1
_GPU_ID_MASK = 0xFFFF


@dataclass(frozen=True, slots=True)
class File:
    """An open file: of KFD, of a render node, a dma-buf, or a plain file."""

    path: str
    gpu: Gpu | None = None
    kfd: Kfd | None = None
    dmabuf: DmaBuf | None = None


class BoardWorld(ReadOnlyFiles, ProcessMaps[File]):
    """A process in front of a board; `panel` breaks things, `violations` is what was noticed."""

    def __init__(
        self, hardware: Hardware, files: Files, name: str, pids: Callable[[], int]
    ) -> None:
        super().__init__()
        self.name, self.hardware = name, hardware
        self._tree, self._pids = Tree(files), pids
        self._kfd: Kfd | None = None
        self._opener = 0
        self.denied: set[str] = set()
        """Device nodes that this process's user may not open."""
        self.panel = Panel(hardware, self._process, self.kill)

    @property
    def violations(self) -> list[Violation]:
        """What silicon would have let pass."""
        return self.hardware.violations

    @property
    def gpus(self) -> list[Gpu]:
        """The board's GPUs."""
        return self.hardware.gpus

    @property
    def process(self) -> Process | None:
        """The process as the kernel driver knows it; None while /dev/kfd is not open."""
        return self._kfd.process if self._kfd is not None else None

    def _process(self) -> Process:
        if self._kfd is None:
            raise OSError(errno.ENODEV, "no process has /dev/kfd open")
        return self._kfd.process

    # Files

    def open(self, path: str, flags: int) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, f"no {path}")
        if path in self.denied:
            raise OSError(errno.EACCES, f"{path} is another group's")
        gpu = next((gpu for gpu in self.hardware.gpus if gpu.node == path), None)
        kfd = self._open_kfd() if path == "/dev/kfd" else None
        if gpu is None and kfd is None and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EACCES, f"{path} is read-only")
        return self._install(File(path, gpu, kfd))

    def _open_kfd(self) -> Kfd:
        """src: kfd_open(): one process, however often it opens; a child after fork is another."""
        if self._kfd is None or self._opener != os.getpid():
            self._opener = os.getpid()
            process = Process(self.hardware, self._pids())
            process.memory.allocating = self.panel.before_alloc
            others = {
                "acquire_vm": self._acquire_vm,
                "get_dmabuf_info": self._get_dmabuf_info,
                "import_dmabuf": self._import_dmabuf,
                "export_dmabuf": self._export_dmabuf,
            }
            self._kfd = Kfd(process, others)
        return self._kfd

    def close(self, fd: int) -> None:
        self._file(fd)
        file = self._fds.pop(fd)
        if file.dmabuf is not None and all(f is not file for f in self._fds.values()):
            file.dmabuf.drop()
        last = file.kfd is not None and all(f.kfd is None for f in self._fds.values())
        if last and self.hardware.options.close_ends_process:
            self._end()

    def _end(self) -> None:
        if self._kfd is not None:
            self._kfd.process.end()
            self._kfd = None

    def kill(self) -> None:
        """The process is killed: descriptors and memory go, its KFD state is cleaned up."""
        files, self._fds = self._fds, {}
        self._end()
        for dmabuf in {id(f.dmabuf): f.dmabuf for f in files.values()}.values():
            if dmabuf is not None:
                dmabuf.drop()
        self._close_maps()

    def readlink(self, path: str) -> str:
        number = errno.EINVAL if self._tree.exists(path) else errno.ENOENT
        raise OSError(number, f"{path} is no symbolic link")

    def device_number(self, path: str) -> int:
        if not self._tree.exists(path):
            raise OSError(errno.ENOENT, path)
        gpu = next((gpu for gpu in self.hardware.gpus if gpu.node == path), None)
        return os.makedev(DRM_MAJOR, gpu.minor) if gpu is not None else 0

    def access(self, path: str, mode: int) -> bool:
        device = path.startswith("/dev/")
        if path in self.denied:
            return False
        return self._tree.exists(path) and (device or not mode & (os.W_OK | os.X_OK))

    # ioctl

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        clock = self.hardware.clock
        before_ns = clock.skipped_ns
        with self.hardware.lock:
            result = self._ioctl(fd, request, argument)
        clock.give_turn(before_ns)
        return result

    def _ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        file = self._file(fd)
        if file.gpu is not None:
            return Drm(self.hardware, file.gpu).ioctl(request, argument)
        if file.kfd is None or isinstance(argument, int):
            raise OSError(errno.ENOTTY, f"no ioctl of {file.path}")
        self.panel.before_ioctl(number_of(request))
        return file.kfd.ioctl(request, argument)

    def _acquire_vm(self, process: Process, args: SimpleNamespace) -> None:
        """ACQUIRE_VM. src: kfd_ioctl_acquire_vm(). Raises: OSError EINVAL, EBUSY."""
        file = self._fds.get(args.drm_fd)
        if file is None:
            raise OSError(errno.EINVAL, f"descriptor {args.drm_fd} is not open here")
        device = process.device(args.gpu_id)
        if device.table is not None:
            if device.drm_fd != args.drm_fd:
                raise OSError(errno.EBUSY, "the process has a VM of another open render node")
            return
        if file.gpu is not device.gpu:
            raise OSError(errno.EINVAL, f"{file.path} is not the render node of this GPU")
        device.acquire(args.drm_fd)

    def _dmabuf(self, fd: int) -> DmaBuf:
        """src: dma-buf.c dma_buf_get(). Raises: OSError EBADF, EINVAL for another file."""
        found = self._file(fd).dmabuf
        if found is None:
            raise OSError(errno.EINVAL, f"{self._file(fd).path} is no dma-buf")
        return found

    def _get_dmabuf_info(self, process: Process, args: SimpleNamespace) -> None:
        """GET_DMABUF_INFO. Raises: OSError EBADF, EINVAL."""
        describe(self._dmabuf(args.dmabuf_fd), args, self.gpus[0].gpu_id)

    def _import_dmabuf(self, process: Process, args: SimpleNamespace) -> None:
        """IMPORT_DMABUF. Raises: OSError EINVAL, ENODEV, EBADF."""
        device = process.device(args.gpu_id)
        device.bound()
        import_(process.memory, device, self._dmabuf(args.dmabuf_fd), args)

    def _export_dmabuf(self, process: Process, args: SimpleNamespace) -> None:
        """EXPORT_DMABUF. Raises: OSError EINVAL, EPERM."""
        made = export(process.memory, args.handle)
        made.hold()
        args.dmabuf_fd = self._install(File("/dmabuf:", dmabuf=made))

    def receive(self, sender: BoardWorld, fd: int) -> int:
        """A descriptor of the file that another process of the board has as `fd`, as SCM_RIGHTS
        brings it.
        """
        file = sender._file(fd)
        if file.dmabuf is not None and all(f is not file for f in self._fds.values()):
            file.dmabuf.hold()
        return self._install(file)

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
        if file.gpu is not None:
            return self._map_buffer(fd, file.gpu, nbytes, offset, write, within, at)
        if file.kfd is not None:
            return self._map_registers(file.kfd, nbytes, offset)
        raise OSError(errno.ENODEV, f"{file.path} cannot be mapped")

    def _map_buffer(
        self, fd: int, gpu: Gpu, nbytes: int, offset: int, write: bool,
        within: Reservation | None, at: int,
    ) -> Region:  # fmt: skip
        """A buffer through a render node. src: drm_gem_mmap(), amdgpu_gem_object_mmap()"""
        buffers = self._process().memory.buffers
        found = next((b for b in buffers if b.offset == offset and not b.freed), None)
        nbytes = host.pages(nbytes)
        if found is None or found.device.gpu is not gpu or nbytes > found.nbytes:
            raise OSError(errno.EINVAL, f"no buffer of {nbytes:#x} bytes at {offset:#x}")
        if found.device.drm_fd != fd:
            raise OSError(errno.EACCES, f"{found} belongs to the VM of another open render node")
        if found.kind == "USERPTR":
            raise OSError(errno.EPERM, "memory of the process is not mapped again")
        if found.pool is None or (found.kind == "VRAM" and not self.hardware.options.large_bar):
            raise OSError(errno.EPERM, f"{found} is not for the host")
        for piece in found.pieces:
            found.pool.prepare(piece.start, piece.nbytes)
        memory, buffer = self._process().memory, found
        buffer.maps += 1

        def gone() -> None:
            buffer.maps -= 1
            memory.settle(buffer)

        fd = found.pool.fd
        return self._map_pieces(fd, found.pieces, nbytes, write, within, at, gone)

    def _map_registers(self, kfd: Kfd, nbytes: int, offset: int) -> Region:
        """Doorbells and remapped registers. src: kfd_mmap()"""
        kind, process = offset >> k.MMAP_TYPE_SHIFT, kfd.process
        device = process.devices.get(offset >> k.MMAP_GPU_SHIFT & _GPU_ID_MASK)
        if kind == k.MMAP_EVENTS:
            raise OSError(errno.EINVAL, "the event page is a buffer of the process")
        if kind not in (k.MMAP_DOORBELL, k.MMAP_MMIO):
            raise OSError(errno.EFAULT, f"no kind of mapping at {offset:#x}")
        if device is None:
            raise OSError(errno.ENODEV, f"no GPU at {offset:#x}")
        owner, made = device, device.zapped
        if nbytes != (SLICE_BYTES if kind == k.MMAP_DOORBELL else host.PAGE_BYTES):
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes of registers")

        def store(off: int, size: int, value: int) -> None:
            if owner.zapped != made:
                self.hardware.find("SIGBUS", "a store to what a reset has unmapped", hex(off))
            elif kind == k.MMAP_DOORBELL:
                with self.hardware.lock:
                    process.ring(owner, off, size, value)

        return self._map_stores(nbytes, store)

    # The rest of the process

    def monotonic_s(self) -> float:
        if self._kfd is not None and self.hardware.options.late:
            with self.hardware.lock:
                self._kfd.process.queues.pump()
        return self.hardware.clock.now_s()

    def sleep(self, seconds: float) -> None:
        clock = self.hardware.clock
        before_ns = clock.skipped_ns
        with self.hardware.lock:
            clock.skip(seconds)
            if self._kfd is not None:
                self._kfd.process.queues.pump()
        clock.give_turn(before_ns)

    # For tests

    def power_off(self) -> None:
        """Kill the process and give the memory of the whole board back; nothing works after."""
        self.kill()
        self.hardware.empty()

    def baseline(self) -> Counters:
        """What is alive now, on the whole board."""
        process = self.process
        counters = Counters(fds=len(self._fds), mappings=len(self._maps))
        for gpu in self.hardware.gpus:
            counters.vram_bytes += gpu.memory.used_bytes
        counters.gtt_bytes = self.hardware.gtt_memory.used_bytes
        if process is not None:
            counters.processes = 1
            tables = [d.table.tables for d in process.devices.values() if d.table is not None]
            counters.table_pages = sum(tables)
            counters.vram_bytes -= sum(tables) * host.PAGE_BYTES
            counters.buffers = len(process.memory.buffers)
            counters.queues, counters.events = len(process.queues.by_id), len(process.events)
            counters.mapped_to_gpus = sum(len(b.on) for b in process.memory.buffers)
        return counters
