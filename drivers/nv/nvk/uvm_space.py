"""A GPU's address space in /dev/nvidia-uvm: ranges of addresses, and memory mapped to them.

Addresses are this driver's own, below 2^40: push buffers and semaphores have to be, and nothing
asks that the host sees memory at the same address.
"""

from __future__ import annotations

import os
from functools import partial
from threading import RLock
from typing import Any, Final

from drivers.bare.extents import Extents
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, OutOfMemory
from drivers.base.ioctl import Struct
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.nv.nvk import uvm
from drivers.nv.nvk.abi import Abi
from drivers.nv.nvk.status import check_status
from drivers.nv.nvk.uvm import UvmIoctl
from queues.nv.generations import SHARED_WINDOW

PATH: Final = "/dev/nvidia-uvm"
HUGE_BYTES: Final = 2 << 20
FIRST_VA: Final = 4 << 30
LAST_VA: Final = SHARED_WINDOW
"""From here on generic addresses are shared and private memory."""
GUARD_BYTES: Final = PAGE_BYTES
CHANNEL_BYTES: Final = 256 << 20
"""Addresses for a channel's own buffers: it saves the state of all SMs there."""
CHANNEL_TRIES: Final = 4


class UvmSpace:
    """The GPU with this UUID, registered with an open /dev/nvidia-uvm."""

    def __init__(self, world: World, fd: int, abi: Abi, ctl_fd: int, client: int) -> None:
        self.world, self.fd, self.abi = world, fd, abi
        self.ctl_fd, self.client = ctl_fd, client
        self.uuid = b""
        self.forked = False
        self._lock = RLock()
        self._free = Extents(FIRST_VA, LAST_VA)
        self._undo: list[Step] = []

    def call(self, request: UvmIoctl, args: Struct, what: str) -> None:
        """One ioctl. Raises: what its status says."""
        answer: Any = request(self.world, self.fd, args)
        check_status(answer.rm_status, f"{request.name}: {what}")

    def after_fork(self) -> None:
        """In a child: a thread that is not here may hold the lock."""
        self._lock, self.forked = RLock(), True

    def register(self, uuid: bytes, va_space: int) -> None:
        """Register the GPU and its address space; `close` undoes what was done."""
        gpu = uvm.RegisterGpu(gpu_uuid=uuid, rm_ctrl_fd=-1)
        self.call(uvm.REGISTER_GPU, gpu, "the GPU")
        leave = uvm.UnregisterGpu(gpu_uuid=uuid)
        self._undo.append(partial(self.call, uvm.UNREGISTER_GPU, leave, "the GPU"))
        space = uvm.RegisterGpuVaSpace(
            gpu_uuid=uuid, rm_ctrl_fd=self.ctl_fd, h_client=self.client, h_va_space=va_space
        )
        self.call(uvm.REGISTER_GPU_VASPACE, space, "its address space")
        drop = uvm.UnregisterGpuVaSpace(gpu_uuid=uuid)
        self._undo.append(partial(self.call, uvm.UNREGISTER_GPU_VASPACE, drop, "its space"))
        self.uuid = uuid

    def take(self, nbytes: int) -> int:
        """Addresses for memory, with an unmapped page on both sides. Raises: OutOfMemory."""
        align = HUGE_BYTES if nbytes >= HUGE_BYTES else PAGE_BYTES
        with self._lock:
            at = self._free.take(nbytes + align + GUARD_BYTES, align)
        if at is None:
            raise OutOfMemory(
                f"no addresses for {nbytes:,} bytes", requested=nbytes, used=0, cached=0,
                limit=LAST_VA - FIRST_VA, hint="free buffers",
            )  # fmt: skip
        return at + align

    def give(self, va: int, nbytes: int) -> None:
        """Addresses that nothing is mapped at any more."""
        align = HUGE_BYTES if nbytes >= HUGE_BYTES else PAGE_BYTES
        with self._lock:
            self._free.give(va - align, nbytes + align + GUARD_BYTES)

    def map(self, va: int, nbytes: int, memory: int, *, write: bool = True) -> None:
        """Map an RM memory object at addresses that were taken. Raises: what UVM refuses."""
        with Undo() as undo:
            made = uvm.CreateExternalRange(base=va, length=nbytes)
            self.call(uvm.CREATE_EXTERNAL_RANGE, made, f"{nbytes:#x} bytes at {va:#x}")
            undo.add(lambda: self._free_range(va, nbytes))
            mapping = uvm.MapExternalAllocation(
                base=va, length=nbytes, gpu_uuid=self.uuid, gpu_attributes_count=1,
                gpu_mapping_type=uvm.READ_WRITE_ATOMIC if write else uvm.READ_ONLY,
                rm_ctrl_fd=self.ctl_fd, h_client=self.client, h_memory=memory,
            )  # fmt: skip
            self.call(uvm.MAP_EXTERNAL_ALLOCATION, mapping, f"{nbytes:#x} bytes at {va:#x}")

    def unmap(self, va: int, nbytes: int) -> None:
        """Unmap a range, then give its addresses back. In a forked child: nothing.

        Where UVM refuses, the addresses stay taken: something may still be mapped there.
        """
        if not self.forked:
            self._free_range(va, nbytes)
            self.give(va, nbytes)

    def _free_range(self, va: int, nbytes: int) -> None:
        request = self.abi.uvm_free
        args = request.args(base=va)
        if hasattr(args, "length"):
            args.length = nbytes
        self.call(request, args, f"{nbytes:#x} bytes at {va:#x}")

    def register_channel(self, channel: int) -> tuple[int, int]:
        """Map a channel's own buffers; (address, bytes) of where. Raises: what UVM refuses."""
        nbytes = CHANNEL_BYTES
        for attempt in range(CHANNEL_TRIES):
            va = self.take(nbytes)
            args = uvm.RegisterChannel(
                gpu_uuid=self.uuid, rm_ctrl_fd=self.ctl_fd, h_client=self.client,
                h_channel=channel, base=va, length=nbytes,
            )  # fmt: skip
            try:
                self.call(uvm.REGISTER_CHANNEL, args, f"channel {channel:#x}")
            except DeviceError as error:
                self.give(va, nbytes)
                if "INVALID_ADDRESS" not in error.message or attempt == CHANNEL_TRIES - 1:
                    raise
                nbytes *= 2  # # src: uvm_user_channel.c create_va_range(): the range is too small
            else:
                break
        return va, nbytes

    def unregister_channel(self, channel: int, place: tuple[int, int]) -> None:
        """Unmap them again."""
        if self.forked:
            return
        request = self.abi.unregister_channel
        args = request.args(h_client=self.client, h_channel=channel)
        if hasattr(args, "gpu_uuid"):
            args.gpu_uuid = self.uuid
        self.call(request, args, f"channel {channel:#x}")
        self.give(*place)

    def close(self) -> None:
        """Leave: the GPU is no longer registered, and the file is closed."""
        undo, self._undo = self._undo, []
        steps = [] if self.forked else list(reversed(undo))
        run_all([*steps, partial(self.world.close, self.fd)])


def open_uvm(world: World, abi: Abi, ctl_fd: int, client: int) -> UvmSpace:
    """An initialised /dev/nvidia-uvm. Raises: NotFound, Denied, what UVM refuses."""
    with Undo() as undo:
        fd = world.open(PATH, os.O_RDWR)
        undo.add(lambda: world.close(fd))
        made = UvmSpace(world, fd, abi, ctl_fd, client)
        made.call(uvm.INITIALIZE, uvm.Initialize(), PATH)
    return made
