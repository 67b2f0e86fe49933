"""Our ioctl numbers, sizes and offsets against the kernel's headers, as the C compiler sees them.

The declarations here are samples of real ones; the product's tables are checked the same way.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from drivers.base.ioctl import Ioctl, Struct, request_number, u32, u64
from tests.support import check

DRM_STUB = "#include <linux/types.h>\n"
"""kfd_ioctl.h includes drm/drm.h for types alone, and not every machine has that header."""


class GetVersion(Struct, size=8):
    major_version: int = u32()
    minor_version: int = u32()


class CreateQueue(Struct, size=88):
    ring_base_address: int = u64()
    write_pointer_address: int = u64()
    read_pointer_address: int = u64()
    doorbell_offset: int = u64()
    ring_size: int = u32()
    gpu_id: int = u32()
    queue_type: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()
    queue_id: int = u32()
    eop_buffer_address: int = u64()
    eop_buffer_size: int = u64()
    ctx_save_restore_address: int = u64()
    ctx_save_restore_size: int = u32()
    ctl_stack_size: int = u32()


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
    ("linux/kfd_ioctl.h", "AMDKFD_IOC_CREATE_QUEUE", "kfd_ioctl_create_queue_args",
     Ioctl("AMDKFD_IOC_CREATE_QUEUE", "WR", "K", 0x02, CreateQueue)),
    ("linux/kfd_ioctl.h", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU",
     "kfd_ioctl_alloc_memory_of_gpu_args",
     Ioctl("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "WR", "K", 0x16, AllocMemory)),
    ("linux/vfio.h", "", "vfio_iommu_type1_dma_map", Ioctl("", "", ";", 0x71, DmaMap)),
    ("linux/dma-heap.h", "DMA_HEAP_IOCTL_ALLOC", "dma_heap_allocation_data",
     Ioctl("DMA_HEAP_IOCTL_ALLOC", "WR", "H", 0x0, HeapAlloc)),
]  # fmt: skip


def compiled(tmp_path: Path, header: str, expressions: list[str]) -> list[int]:
    """The values of C expressions under one header; skips, saying why, when that cannot be."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("neither gcc nor clang is on PATH")
    if not Path("/usr/include", header).exists():
        pytest.skip(f"<{header}> is not installed (linux-libc-dev)")
    (tmp_path / "drm").mkdir()
    (tmp_path / "drm" / "drm.h").write_text(DRM_STUB)
    prints = "".join(f'printf("%llu\\n", (unsigned long long)({e}));' for e in expressions)
    source = (
        f"#include <stddef.h>\n#include <stdio.h>\n#include <{header}>\nint main(void) {{{prints}}}"
    )
    (tmp_path / "values.c").write_text(source)
    program = tmp_path / "values"
    subprocess.run(
        [compiler, "-idirafter", str(tmp_path), "-o", str(program), str(tmp_path / "values.c")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    output = subprocess.run([program], check=True, capture_output=True, timeout=60).stdout
    return [int(word) for word in output.split()]


@pytest.mark.parametrize(("header", "macro", "name", "ioctl"), SAMPLES)
def test_number_size_and_offsets(
    tmp_path: Path, header: str, macro: str, name: str, ioctl: Ioctl[Struct]
) -> None:
    fields = ioctl.args.FIELDS
    offsets = [f"offsetof(struct {name}, {field.name})" for field in fields]
    sizes = [f"sizeof(((struct {name} *)0)->{field.name})" for field in fields]
    total = [f"sizeof(struct {name})", macro or "0"]
    values = compiled(tmp_path, header, [*total, *offsets, *sizes])
    check(values[0] == ioctl.args.SIZE, f"size of {name} is {values[0]}")
    if macro:
        check(values[1] == ioctl.request, f"{macro} is {values[1]:#x}, not {ioctl.request:#x}")
    check(values[2 : 2 + len(fields)] == [field.offset for field in fields], "offsets")
    check(values[2 + len(fields) :] == [field.layout.size for field in fields], "field sizes")


def test_the_encoding_of_all_four_directions(tmp_path: Path) -> None:
    cases = [
        ("", "_IO('U', 3)", 0),
        ("R", "_IOR('U', 3, char[40])", 40),
        ("W", "_IOW('U', 3, char[1000])", 1000),
        ("WR", "_IOWR('U', 3, char[16383])", 16383),
    ]
    values = compiled(tmp_path, "linux/ioctl.h", [expression for _, expression, _ in cases])
    for (direction, expression, nbytes), value in zip(cases, values, strict=True):
        check(request_number(direction, "U", 3, nbytes) == value, expression)
