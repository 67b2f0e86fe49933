"""Where the flat apertures of local and private memory are, as the kernel reports to a process."""

from __future__ import annotations

from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.iface import Apertures
from drivers.amd.kfd.bo import Gpu
from drivers.amd.kfd.process import (
    GET_PROCESS_APERTURES_NEW,
    GetProcessAperturesNewArgs,
    ProcessDeviceApertures,
)
from drivers.base.errors import MalformedInput

MOST: Final = PAGE_BYTES // ProcessDeviceApertures.SIZE


def read_apertures(gpu: Gpu) -> Apertures:
    """The apertures of one GPU. Raises: MalformedInput when the kernel reports none for it."""
    region = gpu.world.mmap(-1, PAGE_BYTES)
    try:
        # With no room the kernel reports how many there are; with more room than that it refuses.
        # src: kfd_chardev.c kfd_ioctl_get_process_apertures_new()
        args = GET_PROCESS_APERTURES_NEW(gpu.world, gpu.session.fd, GetProcessAperturesNewArgs())
        args.kfd_process_device_apertures_ptr = region.cpu_va
        args.num_of_nodes = min(args.num_of_nodes, MOST)
        GET_PROCESS_APERTURES_NEW(gpu.world, gpu.session.fd, args)
        size = ProcessDeviceApertures.SIZE
        for number in range(min(args.num_of_nodes, MOST)):
            found = ProcessDeviceApertures.of(region.read(number * size, size))
            if found.gpu_id == gpu.gpu_id:
                return Apertures(found.lds_base, found.scratch_base)
    finally:
        region.close()
    raise MalformedInput(
        f"GET_PROCESS_APERTURES_NEW has nothing for GPU {gpu.gpu_id:#x}",
        hint="report it with `uname -r`",
    )
