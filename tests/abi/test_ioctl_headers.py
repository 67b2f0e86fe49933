"""Our ioctl numbers, sizes and offsets against the kernel's headers, as the C compiler sees them.

The declarations here are samples of real ones; the product's tables are checked the same way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from drivers.base.ioctl import Ioctl, Struct, request_number, u32, u64
from tests.c_compiler import CCompiler
from tests.support import check


class GetVersion(Struct, size=8):
    major_version: int = u32()
    minor_version: int = u32()


class UpdateQueue(Struct, size=24):
    ring_base_address: int = u64()
    queue_id: int = u32()
    ring_size: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()


class AllocMemory(Struct, size=40):
    va_addr: int = u64()
    size: int = u64()
    handle: int = u64()
    mmap_offset: int = u64()
    gpu_id: int = u32()
    flags: int = u32()


class DmaMap(Struct, size=32):
    argsz: int = u32()
    flags: int = u32()
    vaddr: int = u64()
    iova: int = u64()
    size: int = u64()


class HeapAlloc(Struct, size=24):
    len: int = u64()
    fd: int = u32()
    fd_flags: int = u32()
    heap_flags: int = u64()


SAMPLES = [
    ("linux/kfd_ioctl.h", "AMDKFD_IOC_GET_VERSION", "kfd_ioctl_get_version_args",
     Ioctl("AMDKFD_IOC_GET_VERSION", "R", "K", 0x01, GetVersion)),
    ("linux/kfd_ioctl.h", "AMDKFD_IOC_UPDATE_QUEUE", "kfd_ioctl_update_queue_args",
     Ioctl("AMDKFD_IOC_UPDATE_QUEUE", "W", "K", 0x07, UpdateQueue)),
    ("linux/kfd_ioctl.h", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU",
     "kfd_ioctl_alloc_memory_of_gpu_args",
     Ioctl("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "WR", "K", 0x16, AllocMemory)),
    ("linux/vfio.h", "", "vfio_iommu_type1_dma_map", Ioctl("", "", ";", 0x71, DmaMap)),
    ("linux/dma-heap.h", "DMA_HEAP_IOCTL_ALLOC", "dma_heap_allocation_data",
     Ioctl("DMA_HEAP_IOCTL_ALLOC", "WR", "H", 0x0, HeapAlloc)),
]  # fmt: skip


@pytest.mark.parametrize(("header", "macro", "name", "ioctl"), SAMPLES)
def test_number_size_and_offsets(
    c_compiler: CCompiler, tmp_path: Path, header: str, macro: str, name: str,
    ioctl: Ioctl[Struct],
) -> None:  # fmt: skip
    fields = ioctl.args.FIELDS
    offsets = [f"offsetof(struct {name}, {field.name})" for field in fields]
    sizes = [f"sizeof(((struct {name} *)0)->{field.name})" for field in fields]
    total = [f"sizeof(struct {name})", macro or "0"]
    values = c_compiler.values([header], [*total, *offsets, *sizes], tmp_path)
    check(values[0] == ioctl.args.SIZE, f"size of {name} is {values[0]}")
    if macro:
        check(values[1] == ioctl.request, f"{macro} is {values[1]:#x}, not {ioctl.request:#x}")
    check(values[2 : 2 + len(fields)] == [field.offset for field in fields], "offsets")
    check(values[2 + len(fields) :] == [field.layout.size for field in fields], "field sizes")


def test_the_encoding_of_all_four_directions(c_compiler: CCompiler, tmp_path: Path) -> None:
    cases = [
        ("", "_IO('U', 3)", 0),
        ("R", "_IOR('U', 3, char[40])", 40),
        ("W", "_IOW('U', 3, char[1000])", 1000),
        ("WR", "_IOWR('U', 3, char[16383])", 16383),
    ]
    values = c_compiler.values(["linux/ioctl.h"], [text for _, text, _ in cases], tmp_path)
    for (direction, expression, nbytes), value in zip(cases, values, strict=True):
        check(request_number(direction, "U", 3, nbytes) == value, expression)
