"""The requests of the made-up VFIO kernel, one method each, with Linux's errno.

src: drivers/vfio/{container.c,group.c,vfio_iommu_type1.c,device_cdev.c},
drivers/vfio/pci/vfio_pci_{core,intrs}.c, drivers/iommu/iommufd/ioas.c
"""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

from tests.vfio_objects import File, Space

if TYPE_CHECKING:
    from tests.vfio_kernel import VfioKernel

PAGE = 4096
MSI = 1
CONFIG_REGION, REGIONS, INTERRUPTS = 7, 9, 5


def refuse(number: int, why: str) -> OSError:
    return OSError(number, why)


def words(kernel: VfioKernel, argument: bytearray | int, layout: str) -> tuple[int, ...]:
    """The struct of a request; too short a one, or a wrong argsz, is EINVAL."""
    nbytes = struct.calcsize(f"={layout}")
    if isinstance(argument, int) or len(argument) < nbytes:
        raise refuse(errno.EFAULT if isinstance(argument, int) else errno.EINVAL, "no struct")
    found = struct.unpack_from(f"={layout}", argument)
    if not nbytes <= found[0] <= len(argument):
        raise refuse(errno.EINVAL, f"a size of {found[0]} in {len(argument)} bytes")
    return found


def put(argument: bytearray | int, off: int, layout: str, *values: int) -> None:
    if isinstance(argument, bytearray):
        struct.pack_into(f"={layout}", argument, off, *values)


def version(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    return 0


def extension(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    return int(argument in (1, 3))


def set_iommu(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    groups = [f for f in kernel.open_files.values() if f.container is file]
    if not groups or file.space is not None or argument != 3:
        raise refuse(errno.EINVAL, "a container without a group, or with an IOMMU")
    if not kernel.options.isolated:
        raise refuse(errno.EPERM, "interrupts are not isolated")
    file.space = Space()
    return 0


def status(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    words(kernel, argument, "II")
    put(argument, 4, "I", int(kernel.options.viable) | (2 if file.container else 0))
    return 0


def set_container(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    if isinstance(argument, int):
        raise refuse(errno.EFAULT, "no struct")
    (fd,) = struct.unpack("=i", argument)
    container = kernel.open_files.get(fd)
    if container is None or container.kind != "/dev/vfio/vfio" or file.container:
        raise refuse(errno.EINVAL, "no container, or in one already")
    if not kernel.options.viable:
        raise refuse(errno.EPERM, "not viable")
    file.container = container
    return 0


def get_device(kernel: VfioKernel, file: File, argument: bytearray | int) -> File:
    if isinstance(argument, int) or argument != b"0000:03:00.0\0":
        raise refuse(errno.ENODEV, "no such device in the group")
    if file.container is None or file.container.space is None:
        raise refuse(errno.EINVAL, "a group without an IOMMU")
    return File("device", space=file.container.space, ready=True)


def ready(file: File) -> None:
    if not file.ready:
        raise refuse(errno.EINVAL, "not opened, or without an address space")


def device_info(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    ready(file)
    words(kernel, argument, "IIIII")
    put(argument, 4, "III", 2 | int(kernel.options.reset), REGIONS, INTERRUPTS)
    return 0


def region_info(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    ready(file)
    argsz, _, index, *_ = words(kernel, argument, "IIIIQQ")
    if index >= REGIONS:
        raise refuse(errno.EINVAL, f"no region {index}")
    size = 4096 if index == CONFIG_REGION else len(kernel.bars.get(index, b""))
    flags = 3 | (4 if index in kernel.bars else 0)
    put(argument, 16, "QQ", size, index << 40)
    sparse = kernel.options.sparse and index == 5
    if sparse:
        body = struct.pack("=HHIIIQQQQ", 1, 1, 0, 2, 0, 0, PAGE, 2 * PAGE, size - 2 * PAGE)
        caps = struct.pack("=HHI", 3, 1, 40) + body  # an unrequested capability, first
        need, off = 32 + len(caps), 0
        if argsz >= need and isinstance(argument, bytearray):
            argument[32:need], off = caps, 32
        put(argument, 0, "IIII", need if argsz < need else argsz, flags | 8, index, off)
    else:
        put(argument, 4, "II", flags if size else 0, index)
    return 0


def irq_info(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    ready(file)
    _, _, index, _ = words(kernel, argument, "IIII")
    count = kernel.options.msi if index == MSI else int(index == 0)
    put(argument, 4, "III", 9 if index == MSI else 7, index, count)
    return 0


def set_irqs(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    ready(file)
    argsz, flags, index, start, count = words(kernel, argument, "IIIII")
    if index != MSI or start:
        raise refuse(errno.EINVAL, f"no interrupt {index}")
    if flags == 0x21 and count == 0:
        file.event = None
        return 0
    if flags != 0x24 or count != 1 or count > kernel.options.msi or argsz != 24:
        raise refuse(errno.EINVAL, f"flags {flags:#x}, count {count}")
    fd = struct.unpack_from("=i", argument, 20)[0] if isinstance(argument, bytearray) else -1
    event = kernel.open_files.get(fd)
    if event is None or event.kind != "event":
        raise refuse(errno.EINVAL, "no eventfd")
    file.event = event
    return 0


def device_reset(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    ready(file)
    if not kernel.options.reset or argument != 0:
        raise refuse(errno.EINVAL, "no reset")
    return 0


def type1_info(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    if file.space is None:
        raise refuse(errno.EINVAL, "no IOMMU is set")
    argsz, *_ = words(kernel, argument, "IIQ")
    ranges = [number for pair in kernel.options.ranges for number in pair]
    caps = struct.pack("=HHIII", 1, 1, 0, len(ranges) // 2, 0) + struct.pack(
        f"={len(ranges)}Q", *ranges
    )
    need = 24 + len(caps)
    put(argument, 4, "IQI", 3, kernel.options.page_sizes, 24 if argsz >= need else 0)
    if argsz >= need and isinstance(argument, bytearray):
        argument[24:need] = caps
    else:
        put(argument, 0, "I", need)
    return 0


def add(kernel: VfioKernel, space: Space | None, iova: int, va: int, size: int) -> None:
    """Map pages. src: vfio_dma_do_map(), iommufd_ioas_map()"""
    if space is None:
        raise refuse(errno.EINVAL, "no address space")
    if not size or (iova | va | size) % PAGE:
        raise refuse(errno.EINVAL, "not whole pages")
    inside = any(first <= iova and iova + size - 1 <= last for first, last in kernel.options.ranges)
    if not inside:
        raise refuse(errno.EINVAL, f"{iova:#x}+{size:#x} is reserved")
    if space.overlaps(iova, size):
        raise refuse(errno.EEXIST, f"{iova:#x}+{size:#x} is mapped")
    if not any(area.va <= va and va + size <= area.end for area in kernel.maps.values()):
        raise refuse(errno.EFAULT, f"{va:#x} is no memory")
    if kernel.locked_bytes() + size > kernel.options.locked_bytes:
        raise refuse(errno.ENOMEM, "more than RLIMIT_MEMLOCK")
    space.mapped[iova] = va, size


def take(space: Space | None, iova: int, size: int) -> int:
    """Unmap; type1v2 never splits a mapping: bytes unmapped, 0 when there was none."""
    if space is None:
        raise refuse(errno.EINVAL, "no address space")
    inside = {a: n for a, (_, n) in space.mapped.items() if iova <= a and a + n <= iova + size}
    if space.overlaps(iova, size) and not inside:
        raise refuse(errno.EINVAL, "part of a mapping")
    for start in inside:
        del space.mapped[start]
    return sum(inside.values())


def type1_map(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, flags, va, iova, size = words(kernel, argument, "IIQQQ")
    if flags != 3:
        raise refuse(errno.EINVAL, f"flags {flags:#x}")
    add(kernel, file.space, iova, va, size)
    return 0


def type1_unmap(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, flags, iova, size = words(kernel, argument, "IIQQ")
    if flags:
        raise refuse(errno.EINVAL, f"flags {flags:#x}")
    put(argument, 16, "Q", take(file.space, iova, size))
    return 0


def bind(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, flags, fd, _ = words(kernel, argument, "IIiI")
    other = kernel.open_files.get(fd)
    if not file.cdev or flags or other is None or other.kind != "/dev/iommu" or file.container:
        raise refuse(errno.EINVAL, "no iommufd, or bound already")
    if not kernel.options.isolated:
        raise refuse(errno.EPERM, "interrupts are not isolated")
    file.container = other
    put(argument, 12, "I", 7)
    return 0


def attach(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, flags, number = words(kernel, argument, "III")
    if not file.cdev or file.container is None or flags:
        raise refuse(errno.EINVAL, "not bound")
    found = [space for space in file.container.fresh if space.number == number]
    if not found:
        raise refuse(errno.ENOENT, f"no object {number}")
    file.space, file.container.space, file.ready = found[0], found[0], True
    return 0


def ioas_alloc(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    words(kernel, argument, "III")
    file.fresh.append(Space(number=40 + len(file.fresh)))
    put(argument, 8, "I", file.fresh[-1].number)
    return 0


def _object(file: File, number: int) -> Space:
    found = [space for space in file.fresh if space.number == number]
    if not found:
        raise refuse(errno.ENOENT, f"no object {number}")
    return found[0]


def ioas_ranges(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, number, most, zero, where, _ = words(kernel, argument, "IIIIQQ")
    _object(file, number)
    ranges = kernel.options.ranges
    put(argument, 8, "I", len(ranges))
    put(argument, 24, "Q", PAGE)
    if zero or most < len(ranges):
        raise refuse(errno.EMSGSIZE, "more ranges than there is room for")
    area = next((a for a in kernel.maps.values() if a.has(where) and a.memory is not None), None)
    if area is None or area.memory is None:
        raise refuse(errno.EFAULT, f"{where:#x} is no memory")
    for index, pair in enumerate(ranges):
        struct.pack_into("=QQ", area.memory, where - area.va + 16 * index, *pair)
    return 0


def ioas_map(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, flags, number, zero, va, size, iova = words(kernel, argument, "IIIIQQQ")
    if flags != 7 or zero:
        raise refuse(errno.EOPNOTSUPP, f"flags {flags:#x}")
    add(kernel, _object(file, number), iova, va, size)
    return 0


def ioas_unmap(kernel: VfioKernel, file: File, argument: bytearray | int) -> int:
    _, number, iova, size = words(kernel, argument, "IIQQ")
    gone = take(_object(file, number), iova, size)
    if not gone:
        raise refuse(errno.ENOENT, "nothing is mapped there")
    put(argument, 16, "Q", gone)
    return 0


CONTAINER, IOMMUFD = "/dev/vfio/vfio", "/dev/iommu"
REQUESTS = {
    100: (CONTAINER, version), 101: (CONTAINER, extension), 102: (CONTAINER, set_iommu),
    103: ("group", status), 104: ("group", set_container), 107: ("device", device_info),
    108: ("device", region_info), 109: ("device", irq_info), 110: ("device", set_irqs),
    111: ("device", device_reset), 112: (CONTAINER, type1_info), 113: (CONTAINER, type1_map),
    114: (CONTAINER, type1_unmap), 118: ("device", bind), 119: ("device", attach),
    0x81: (IOMMUFD, ioas_alloc), 0x84: (IOMMUFD, ioas_ranges), 0x85: (IOMMUFD, ioas_map),
    0x86: (IOMMUFD, ioas_unmap),
}  # fmt: skip
"""Number below the type ";" -> object of the request, and its handler."""
