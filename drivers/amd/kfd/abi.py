"""The ioctls of /dev/kfd: every one the kernel has, by the kernel's name, and since when.

`IOCTLS` is the whole table; the structs live beside their subject in `kfd_process`, `kfd_memory`,
`kfd_queue` and `kfd_event`. Call one as `kfd_queue.CREATE_QUEUE(world, fd, CreateQueueArgs(...))`.

The kernel reads an ioctl's number alone and copies as many bytes as the caller's number says,
with zeros for the rest, so a struct that grew at its end is understood by older and newer kernels:
CREATE_QUEUE was 88 bytes before KFD 1.17 and is 96 since, and both are accepted by both.
# src: drivers/gpu/drm/amd/amdkfd/kfd_chardev.c kfd_ioctl()

Source: Linux 6.12 include/uapi/linux/kfd_ioctl.h (KFD 1.17), compared with 7.3's (1.23): 1.18
brought `misc_process_flag`, 1.22 AQL's metadata ring size in what was CREATE_QUEUE's pad.
"""

from __future__ import annotations

from drivers.amd.kfd import event as kfd_event
from drivers.amd.kfd import memory as kfd_memory
from drivers.amd.kfd import process as kfd_process
from drivers.amd.kfd import queue as kfd_queue
from drivers.base.errors import Unsupported
from drivers.base.ioctl import Ioctl, Struct

KFD_MAJOR = 1
OLDEST_MINOR = 11
"""The oldest interface this stack asks for (Linux 6.1): SVM-free, with the wave save area."""
KNOWN_MINOR = 18
"""Up to which every ioctl is declared. Linux 7.3 has 1.23: its layouts are the same, and what it
adds (secondary processes, a profiler, AQL's metadata rings) nothing here asks for."""
RESET_DATA_MINOR = 17
"""From which on WAIT_EVENTS surely copies what a hardware exception says. 6.1 (1.11) copies none.
# src: kfd_events.c copy_signaled_event_data() of 6.1 and 6.12; what lies between was not read"""
ZAP_MINOR = 18
"""From which on a reset may unmap doorbells: 6.12 (1.17) does not, 7.3 (1.23) does.
# src: amdgpu_amdkfd.c amdgpu_amdkfd_clear_kfd_mapping(); what lies between was not read"""

MINOR_SINCE: dict[str, int] = {
    "AMDKFD_IOC_AVAILABLE_MEMORY": 9,
    "AMDKFD_IOC_EXPORT_DMABUF": 12,
    "AMDKFD_IOC_RUNTIME_ENABLE": 13,
    "AMDKFD_IOC_DBG_TRAP": 13,
}
"""The minor version that brought an ioctl; those not listed are older than `OLDEST_MINOR`.

# src: the list at the top of kfd_ioctl.h
"""

_MODULES = (kfd_process, kfd_memory, kfd_queue, kfd_event)
IOCTLS: dict[str, Ioctl[Struct]] = {
    item.name: item
    for module in _MODULES
    for item in vars(module).values()
    if isinstance(item, Ioctl)
}
"""Every ioctl of /dev/kfd by the kernel's name."""
BY_NUMBER: dict[int, Ioctl[Struct]] = {item.request & 0xFF: item for item in IOCTLS.values()}
"""The same by number (the low byte of a request), which is all that the kernel reads."""


def check_version(major: int, minor: int) -> None:
    """What GET_VERSION answered must be an interface these declarations describe.

    Raises: Unsupported, with the versions that are.
    """
    if major != KFD_MAJOR or minor < OLDEST_MINOR:
        raise Unsupported(
            f"/dev/kfd speaks version {major}.{minor}; "
            f"this stack speaks {KFD_MAJOR}.{OLDEST_MINOR} and later {KFD_MAJOR}.x",
            hint="boot Linux 6.1 or later with the amdgpu module",
        )


def has(name: str, minor: int) -> bool:
    """Whether a kernel with this minor version has the ioctl `name`."""
    return name in IOCTLS and minor >= MINOR_SINCE.get(name, 0)
