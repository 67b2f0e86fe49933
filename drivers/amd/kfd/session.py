"""This process as /dev/kfd knows it: entered once, and kept for as long as the world.

The kernel ties a process's GPU address spaces and its event page to the process and not to a file:
ACQUIRE_VM refuses a second render file, the event page can be neither replaced nor freed. So they
outlive every device, and a device that is opened again finds them here.
# src: drivers/gpu/drm/amd/amdkfd/kfd_chardev.c kfd_ioctl_acquire_vm(), kfd_release(),
# src: kfd_ioctl_free_memory_of_gpu(); kfd_events.c kfd_event_page_set()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.abi import check_version, has
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.process import (
    ACQUIRE_VM,
    GET_VERSION,
    RUNTIME_ENABLE,
    AcquireVmArgs,
    GetVersionArgs,
    RuntimeEnableArgs,
)
from drivers.amd.tools.look import KFD_PATH
from drivers.base import forks
from drivers.base.contracts import Region, World
from drivers.base.errors import Busy, DeviceError, UseAfterFree
from drivers.base.undo import Undo, run_all

KEPT_AS: Final = "/dev/kfd"
MAX_IDS: Final = PAGE_BYTES // 4
"""GPUs that one ioctl can name."""


class Session:
    """The open /dev/kfd, the render files whose address spaces it took, the event page.

    `lock` is held around ioctls that pass arrays through `ids`.
    """

    def __init__(self, world: World, fd: int, minor: int, ids: Region) -> None:
        self.world, self.fd, self.minor, self.ids = world, fd, minor, ids
        self.lock = RLock()
        self.event_page: object = None
        """The Bo of the event page; `drivers.amd.kfd.waiting` makes it."""
        self._render: dict[int, int] = {}
        """Open render files by gpu_id."""
        self.stranded: list[Region] = []
        """Addresses of memory that the kernel would not take back: nothing else may be there."""
        self.peeks: list[Callable[[int], int | None]] = []
        """What gives the value of the signal at an address, one of each device."""
        self.handlers: dict[int, list[tuple[int, int]]] = {}
        """Code and memory of the trap handlers of every GPU's devices; the last is installed."""
        self.evicted: dict[int, DeviceError] = {}
        """GPUs that run nothing of this process any more, and why."""
        self.forked = False
        """Whether this is a child of the process that it belongs to."""
        forks.inherit(self)

    def after_fork(self) -> None:
        """The kernel refuses a child that uses its parent's file: it enters anew."""
        self.forked = True
        self.lock = RLock()  # a thread that is not here may hold the old one

    def check_process(self) -> None:
        """Raises: UseAfterFree in a child of the process that entered /dev/kfd."""
        if self.forked:
            raise UseAfterFree(
                "/dev/kfd belongs to the process that this one was forked from",
                hint="open a device of its own in every process, after the fork",
            )

    def acquire(self, node: GpuNode) -> int:
        """The render file of a GPU whose address space is this process's."""
        with self.lock:
            if node.gpu_id in self.evicted:
                raise self.evicted[node.gpu_id].with_traceback(None)
            if node.gpu_id in self._render:
                return self._render[node.gpu_id]
            with Undo() as undo:
                fd = self.world.open(node.render_path, os.O_RDWR)
                undo.add(lambda: self.world.close(fd))
                args = AcquireVmArgs(drm_fd=fd, gpu_id=node.gpu_id)
                try:
                    ACQUIRE_VM(self.world, self.fd, args)
                except Busy as error:
                    raise error.advised(
                        "this process left /dev/kfd and cannot come back: start a new process"
                    ) from error.__cause__
                self._render[node.gpu_id] = fd
        return fd

    def close(self) -> None:
        """Close the files. A process that goes on cannot enter the same GPUs again: see above."""
        with self.lock:
            if self.world.kept.get(KEPT_AS) is self:
                del self.world.kept[KEPT_AS]
            page, self.event_page = self.event_page, None
            files, self._render = [*self._render.values(), self.fd], {}
        drop = getattr(page, "drop", None)
        steps = [drop] if drop is not None else []
        closes = [partial(self.world.close, fd) for fd in files]
        spaces, self.stranded = self.stranded, []
        run_all([*steps, self.ids.close, *closes, *(space.close for space in spaces)])


def open_session(world: World) -> Session:
    """The session of this process; opened when there is none.

    Raises: NotFound, Denied (/dev/kfd); Unsupported for a version that is not spoken here.
    """
    kept = world.kept.get(KEPT_AS)
    if isinstance(kept, Session) and not kept.forked:
        return kept
    with Undo() as undo:
        fd = world.open(KFD_PATH, os.O_RDWR)
        undo.add(lambda: world.close(fd))
        version = GET_VERSION(world, fd, GetVersionArgs())
        check_version(version.major_version, version.minor_version)
        ids = world.mmap(-1, PAGE_BYTES)
        undo.add(ids.close)
        session = Session(world, fd, version.minor_version, ids)
        world.kept[KEPT_AS] = session
    return session


def close_session(world: World) -> None:
    """Leave /dev/kfd; every device of this world is closed already. For the end of a process."""
    kept = world.kept.get(KEPT_AS)
    if isinstance(kept, Session):
        kept.close()


def enable_runtime(session: Session) -> None:
    """Report to a debugger that no runtime of its kind is here; forgets what an earlier one left.

    # src: kfd_chardev.c kfd_ioctl_runtime_enable(): mode 0 disables; the call a driver known to run
    # src: on silicon makes before its first queue (tinygrad ops_amd.py KFDIface).
    """
    if has("AMDKFD_IOC_RUNTIME_ENABLE", session.minor):
        RUNTIME_ENABLE(session.world, session.fd, RuntimeEnableArgs(mode_mask=0))
