"""A GPU's address space in /dev/nvidia-uvm: ranges of addresses, and memory mapped to them.

Addresses are this driver's own, below 2^40: push buffers and semaphores have to be, and nothing
asks that the host sees memory at the same address. Memory of another GPU of the process has the
address here that it has there.
"""

from __future__ import annotations

import os
from functools import partial
from threading import RLock
from typing import Any, Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.ioctl import Struct
from drivers.base.undo import Step, Undo, run_all
from drivers.nv.nvk import uvm
from drivers.nv.nvk.abi import Abi
from drivers.nv.nvk.addresses import addresses_of
from drivers.nv.nvk.status import check_status
from drivers.nv.nvk.uvm import UvmIoctl

PATH: Final = "/dev/nvidia-uvm"
CHANNEL_BYTES: Final = 256 << 20
"""Addresses for a channel's own buffers: it saves the state of all SMs there."""
CHANNEL_TRIES: Final = 4


class UvmSpace:
    """The GPU with this UUID, registered with an open /dev/nvidia-uvm.

    `mm_fd` is a second opening of it. It ties the space to this process's memory while it is open:
    closing it stops all channels of the space, so it is closed after `fd`. The kernel keeps this
    process's memory until every copy of it is closed, those of forked children too.
    # src: kernel-open/nvidia-uvm/uvm.c uvm_release_mm(), uvm_va_space_mm.c "Handling mm teardown":
    # src: the same in 535.43.28, 550.163.01, 570.144, 580.95.05, 590.48.01 and 595.45.04
    """

    def __init__(
        self, world: World, fd: int, mm_fd: int, abi: Abi, ctl_fd: int, client: int
    ) -> None:
        self.world, self.fd, self.mm_fd, self.abi = world, fd, mm_fd, abi
        self.ctl_fd, self.client = ctl_fd, client
        self.uuid = b""
        self.forked = False
        self.addresses = addresses_of(world)
        self._taken: dict[int, int] = {}
        """Bytes by address: what this GPU still has when it is closed goes back then."""
        self._lock = RLock()
        self._met: set[bytes] = set()
        self._peers: set[bytes] = set()
        self._foreign: set[int] = set()
        """Addresses of memory that other GPUs own."""
        self._undo: list[Step] = []

    def call(self, request: UvmIoctl, args: Struct, what: str) -> None:
        """One ioctl. Raises: what its status says."""
        _call(self.world, self.fd, request, args, what)

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
        va = self.addresses.take(nbytes)
        self._taken[va] = nbytes
        return va

    def give(self, va: int, nbytes: int) -> None:
        """Addresses that nothing is mapped at any more."""
        del self._taken[va]
        self.addresses.give(va, nbytes)

    def map(self, va: int, nbytes: int, memory: int, *, write: bool = True) -> None:
        """Map an RM memory object at addresses that were taken. Raises: what UVM refuses."""
        self._map(self, va, nbytes, memory, write=write)

    def _map(self, owner: UvmSpace, va: int, nbytes: int, memory: int, *, write: bool) -> None:
        with Undo() as undo:
            made = uvm.CreateExternalRange(base=va, length=nbytes)
            self.call(uvm.CREATE_EXTERNAL_RANGE, made, f"{nbytes:#x} bytes at {va:#x}")
            undo.add(lambda: self._free_range(va, nbytes))
            request = self.abi.map_external
            mapping = request.args(
                base=va, length=nbytes, gpu_uuid=self.uuid, gpu_attributes_count=1,
                gpu_mapping_type=uvm.READ_WRITE_ATOMIC if write else uvm.READ_ONLY,
                rm_ctrl_fd=owner.ctl_fd, h_client=owner.client, h_memory=memory,
            )  # fmt: skip
            self.call(request, mapping, f"{nbytes:#x} bytes at {va:#x}")

    # Memory of other GPUs

    def adopt(self, owner: UvmSpace, va: int, nbytes: int, memory: int, *, video: bool) -> None:
        """Map memory of another GPU of this process, at the address that it has there.

        Raises: Unsupported where the GPUs do not reach each other; what UVM refuses.
        # src: kernel-open/nvidia-uvm/uvm_map_external.c set_ext_gpu_map_location(): the owner has
        # src: to be registered in this space, of system memory too; video memory needs peers
        """
        with self._lock:
            if va in self._foreign:
                return
            if owner.uuid != self.uuid:
                self._meet(owner.uuid)
                if video:
                    self._reach(owner.uuid)
            self._map(owner, va, nbytes, memory, write=True)
            self._foreign.add(va)

    def _meet(self, uuid: bytes) -> None:
        """Register another GPU, without an address space of its own here."""
        if uuid in self._met:
            return
        self.call(uvm.REGISTER_GPU, uvm.RegisterGpu(gpu_uuid=uuid, rm_ctrl_fd=-1), "a peer")
        leave = uvm.UnregisterGpu(gpu_uuid=uuid)
        self._undo.append(partial(self.call, uvm.UNREGISTER_GPU, leave, "a peer"))
        self._met.add(uuid)

    def _reach(self, uuid: bytes) -> None:
        """Enable peer access between this GPU and a registered one, until that is unregistered.

        # src: kernel-open/nvidia-uvm/uvm_va_space.c unregister_gpu(): disables its peers
        """
        if uuid in self._peers:
            return
        pair = uvm.EnablePeerAccess(gpu_uuid_a=self.uuid, gpu_uuid_b=uuid)
        self.call(uvm.ENABLE_PEER_ACCESS, pair, "a peer")
        self._peers.add(uuid)

    def abandon(self, va: int, nbytes: int) -> None:
        """Unmap memory of another GPU, if it is still here. In a forked child: nothing."""
        with self._lock:
            if va in self._foreign and not self.forked:
                self._foreign.discard(va)
                self._free_range(va, nbytes)

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
        """Leave: no GPU is registered any more, and the file is closed."""
        with self._lock:
            undo, self._undo = self._undo, []
            left, self._taken = self._taken, {}
            self._foreign.clear()
            steps: list[Step] = [] if self.forked else list(reversed(undo))
            steps += [partial(self.world.close, one) for one in (self.fd, self.mm_fd)]
            run_all([*steps, *(partial(self.addresses.give, *one) for one in left.items())])


def open_uvm(world: World, abi: Abi, ctl_fd: int, client: int) -> UvmSpace:
    """An initialised /dev/nvidia-uvm. Raises: NotFound, Denied, what UVM refuses.

    UVM_REGISTER_GPU_VASPACE is NV_ERR_PAGE_TABLE_NOT_AVAIL until UVM_MM_INITIALIZE was called on a
    second file. It warns NV_WARN_NOTHING_TO_DO where UVM ties no space to a process (module option
    uvm_enable_va_space_mm=0, a kernel without MMU notifiers): neither file needs the other then.
    # src: kernel-open/nvidia-uvm/uvm.c uvm_api_mm_initialize(), uvm_va_space.c
    # src: uvm_va_space_register_gpu_va_space(): the same from 535.43.28 to 595.45.04
    """
    with Undo() as undo:
        fds = [world.open(PATH, os.O_RDWR)]
        undo.add(lambda: run_all(partial(world.close, one) for one in fds))
        _call(world, fds[0], uvm.INITIALIZE, uvm.Initialize(flags=uvm.DISABLE_HMM), PATH)
        fds.append(world.open(PATH, os.O_RDWR))
        _call(world, fds[1], uvm.MM_INITIALIZE, uvm.MmInitialize(uvm_fd=fds[0]), PATH)
    return UvmSpace(world, fds[0], fds[1], abi, ctl_fd, client)


def _call(world: World, fd: int, request: UvmIoctl, args: Struct, what: str) -> None:
    """One ioctl. Raises: what its status says."""
    answer: Any = request(world, fd, args)
    check_status(answer.rm_status, f"{request.name}: {what}")
