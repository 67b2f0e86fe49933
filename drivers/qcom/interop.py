"""Memory of Qualcomm's OpenCL in this process: a buffer's GPU address, and a buffer of ours there.

    pointer = gpu_address(cl_mem)
    tensor = from_blob(pointer, shape, dtype, device="QCOM", owner=cl_mem)

Both are in one address space, KGSL's of the process. KGSL says where the object that has the
address begins and ends. Where it has none, the address is the host's: its pages are imported.
Images are not read, and no addresses are taken over msm.
# src: tinygrad's examples on comma devices, as the notes of this layout have it: the object's
# pointer is the first word of a cl_mem, the raw address at byte 0xA0 of the object
"""

from __future__ import annotations

import re
from typing import Final, Protocol, runtime_checkable

from drivers.base.contracts import Buffer, Device, World
from drivers.base.errors import BadArgument
from drivers.base.lent import ADDRESS, DMABUF, Lent, checked_kind
from drivers.gpu import lent as host_lent
from drivers.qcom.iface import NoGpuAddress
from drivers.world.linux import LinuxWorld
from drivers.world.native import memory_at

MAPS: Final = "/proc/self/maps"
ADDRESS_OFF: Final = 0xA0
WORD: Final = 8
_RANGE: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r", re.MULTILINE)


@runtime_checkable
class Takes(Protocol):
    """A device that takes memory by its GPU address."""

    def import_address(self, gpu_va: int, nbytes: int, owner: object) -> Buffer: ...


def borrow(device: Device, lent: Lent) -> tuple[Buffer, int]:
    """A buffer over a dma-buf, over memory at a GPU address, or over the host's pages at it.

    Raises: BadArgument for an address without memory, or bytes outside of it; Unsupported.
    """
    kind = checked_kind(lent, (ADDRESS, DMABUF), device.name)
    if kind == DMABUF or not isinstance(device, Takes):
        return host_lent.borrow(device, lent)
    try:
        return device.import_address(lent.address, lent.nbytes, lent.owner), 0
    except NoGpuAddress as nowhere:
        try:
            return host_lent.borrow(device, lent)
        except BadArgument as error:
            raise nowhere from error


def gpu_address(cl_mem: int, world: World | None = None) -> int:
    """The GPU address of an OpenCL buffer. Raises: BadArgument for what is no `cl_mem`."""
    machine = LinuxWorld() if world is None else world
    text = machine.read(MAPS, 1 << 24).decode("ascii", "replace")
    maps = [(int(first, 16), int(end, 16)) for first, end in _RANGE.findall(text)]
    place = _word(maps, cl_mem, "cl_mem")
    found = _word(maps, place + ADDRESS_OFF, "object of a cl_mem")
    if not found:
        raise BadArgument(f"the cl_mem at {cl_mem:#x} has no address yet", hint="write to it first")
    return found


def _word(maps: list[tuple[int, int]], at: int, what: str) -> int:
    """A word of this process's memory, where it is mapped."""
    if at % WORD or not any(first <= at and at + WORD <= end for first, end in maps):
        raise BadArgument(f"{at:#x} is no {what}: it is not mapped", hint="pass cl_mem's own value")
    return int.from_bytes(memory_at(at, WORD, int).tobytes(), "little")
