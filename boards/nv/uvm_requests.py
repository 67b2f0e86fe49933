"""ioctl(2) on /dev/nvidia-uvm: plain numbers, one struct each, a status in the struct.

src: open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_linux_ioctl.h, uvm_api.h
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from boards.nv import status
from boards.nv.hardware import NvHardware
from boards.nv.objects import Client
from boards.nv.open_files import NvFile
from boards.nv.rm import FindFile
from boards.nv.status import RmError
from boards.nv.uvm import UvmSpace, open_space

INITIALIZE, DEINITIALIZE, MM_INITIALIZE = 0x3000_0001, 0x3000_0002, 75
Run = Callable[[UvmSpace, SimpleNamespace], None]
REQUESTS: Mapping[int, tuple[str, Run]] = {
    25: ("UVM_REGISTER_GPU_VASPACE", UvmSpace.register_vaspace),
    26: ("UVM_UNREGISTER_GPU_VASPACE", UvmSpace.unregister_vaspace),
    27: ("UVM_REGISTER_CHANNEL", UvmSpace.register_channel),
    28: ("UVM_UNREGISTER_CHANNEL", UvmSpace.unregister_channel),
    29: ("UVM_ENABLE_PEER_ACCESS", UvmSpace.peers_on),
    30: ("UVM_DISABLE_PEER_ACCESS", UvmSpace.peers_off),
    33: ("UVM_MAP_EXTERNAL_ALLOCATION", UvmSpace.map),
    34: ("UVM_FREE", UvmSpace.free),
    37: ("UVM_REGISTER_GPU", UvmSpace.register_gpu),
    38: ("UVM_UNREGISTER_GPU", UvmSpace.unregister_gpu),
    39: ("UVM_PAGEABLE_MEM_ACCESS", UvmSpace.pageable),
    66: ("UVM_UNMAP_EXTERNAL", UvmSpace.unmap),
    72: ("UVM_VALIDATE_VA_RANGE", UvmSpace.validate),
    73: ("UVM_CREATE_EXTERNAL_RANGE", UvmSpace.create_range),
}


class UvmRequests:
    """Those of one process."""

    def __init__(
        self, hardware: NvHardware, file_of: FindFile, mine: Callable[[object], bool]
    ) -> None:
        """`mine`: whether a file is one of this process."""
        self._hardware, self._file_of, self._mine = hardware, file_of, mine

    def ioctl(self, file: NvFile, request: int, argument: bytearray) -> None:
        """One request. Raises: OSError EINVAL for an unknown one, EFAULT for a short struct."""
        if request == DEINITIALIZE:
            return
        name = {INITIALIZE: "UVM_INITIALIZE", MM_INITIALIZE: "UVM_MM_INITIALIZE"}.get(request, "")
        name = name or REQUESTS.get(request, ("", None))[0]
        if not name:
            self._hardware.find("UVM request that is not modelled", f"{request:#x}")
            raise OSError(errno.EINVAL, f"UVM knows no request {request:#x}")
        record = self._hardware.records[name]
        if len(argument) < record.nbytes:
            why = f"{name} has {record.nbytes} bytes, not {len(argument)}"
            self._hardware.find("struct that is too short for UVM", why)
            raise OSError(errno.EFAULT, why)
        args = record.load(argument)
        args.rmStatus = status.OK
        try:
            self._run(file, request, args)
        except RmError as error:
            args.rmStatus = error.status
            self._hardware.event("UVM refuses", request=name, why=str(error))
        record.store(argument, args)

    def _run(self, file: NvFile, request: int, args: SimpleNamespace) -> None:
        if request == INITIALIZE:
            open_space(file, self._hardware, self._client, args)
        elif request == MM_INITIALIZE:
            initialize(file, self._file_of(args.uvmFd))
        elif not isinstance(file.space, UvmSpace):
            raise RmError(status.ILLEGAL_ACTION, "UVM_INITIALIZE comes first")
        else:
            REQUESTS[request][1](file.space, args)

    def _client(self, handle: int) -> Client:
        """A client of RM. src: rs_server.c: others share objects with their own process alone."""
        found = self._hardware.clients.get(handle)
        if found is None:
            raise RmError(status.INVALID_CLIENT, f"no client {handle:#x}")
        if not self._mine(found.owner):
            raise RmError(status.INSUFFICIENT_PERMISSIONS, f"{handle:#x} is another process's")
        return found


def initialize(file: NvFile, other: NvFile | None) -> None:
    """UVM_MM_INITIALIZE of `file` for the space of `other`. Raises: RmError."""
    if other is None or not other.uvm or other.space is None:
        raise RmError(status.INVALID_ARGUMENT, "uvmFd is no initialised file of UVM")
    memory = other.space.memory
    if not memory.enabled:
        raise RmError(status.NOTHING_TO_DO, "spaces are not tied to processes here")
    if file.space is not None or file.mm_of is not None:
        raise RmError(status.IN_USE, "the file is initialised already")
    memory.begin()
    file.mm_of = other
