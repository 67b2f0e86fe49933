"""KGSL's rules that changed from release to release, and pages of 16 KiB: each is broken once.

Expected values are worked out from the kernels' sources, which boards/qcom/kgsl/behaviour.txt
names: kgsl_sharedmem.c kgsl_cache_range_op() of msm-4.19.110, 5.4.210 and graphics-kernel.
"""

from __future__ import annotations

import errno
import struct

import numpy as np
import pytest

from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from tests.qcom_boards import CPU_MAP, WRITE_BACK, Block, Client, client
from tests.support import check

TO_GPU, FROM_GPU, RANGE = 1, 2, 1 << 31
PAGE, LINE, PAGES = 4096, 64, 4
RELEASES = ("4.9", "4.14", "4.19", "5.4", "5.10", "5.15")


def on(release: str, **options: int) -> AdrenoOptions:
    return AdrenoOptions(kernel=release, coherent=False, dram_bytes=1 << 24, **options)


def _dirty(one: Client) -> Block:
    """Four pages of which every line has a byte that only the CPU's caches have."""
    block = one.alloc(PAGES * PAGE, CPU_MAP | WRITE_BACK)
    block.words[:: LINE // 4] = 7
    return block


def _cleaned(one: Client, block: Block) -> list[tuple[int, int]]:
    """Where DRAM has these bytes: (first, end) of runs of lines."""
    lines = one.world.kgsl.objects.by_id[block.id].memory.dram[::LINE] != 0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lines.astype(np.int8), [0]))))
    return [(int(a) * LINE, int(b) * LINE) for a, b in edges.reshape(-1, 2)]


@pytest.mark.parametrize(
    ("release", "offset", "length", "expected"),
    [
        ("4.9", 0x1010, 4, [(0x1000, 0x1040)]),
        ("4.19", 0x1FF0, 0x20, [(0x1FC0, 0x2040)]),
        ("5.4", 0x1010, 4, [(0, 0x2000)]),
        ("5.4", 0x1FF0, 0x20, [(0, 0x2000)]),  # and not the page at 0x2000
        ("5.4", 0x2000, 4, [(0, 0x3000)]),
        ("5.10", 0x10, 4, []),
        ("5.15", 0x2010, 4, [(0x1000, 0x3000)]),
        ("5.15", 0x1FF0, 0x20, [(0x1000, 0x3000)]),
        ("5.15", 0x2000, 4, [(0, 0x3000)]),
    ],
)
def test_what_a_range_is(
    release: str, offset: int, length: int, expected: list[tuple[int, int]]
) -> None:
    with client(options=on(release)) as one:
        block = _dirty(one)
        one.sync(block.id, TO_GPU | RANGE, offset, length)
        check(_cleaned(one, block) == expected, str(_cleaned(one, block)))


@pytest.mark.parametrize("release", RELEASES)
def test_without_the_bit_for_ranges_the_object_is_done(release: str) -> None:
    with client(options=on(release)) as one:
        block = _dirty(one)
        one.sync(block.id, TO_GPU, 0x1000, 4)
        check(_cleaned(one, block) == [(0, PAGES * PAGE)])


@pytest.mark.parametrize(("release", "lost"), [("4.9", False), ("4.19", False), ("5.4", True)])
def test_an_invalidation_cleans_before(release: str, lost: bool) -> None:
    """Up to 4.19 on arm64; later ones lose what other lines of the pages hold."""
    with client(options=on(release), clean=False) as one:
        block = _dirty(one)
        one.sync(block.id, FROM_GPU | RANGE, 0x1000, LINE)
        kinds = {violation.kind for violation in one.world.violations}
        check(kinds == ({"CPU stores lost"} if lost else set()), str(kinds))
        check(int(block.words[0x1040 // 4]) == (0 if lost else 7))
        check(int(block.words[0x1000 // 4]) == (0 if lost else 7))


@pytest.mark.parametrize("release", RELEASES)
def test_both_operations_lose_nothing(release: str) -> None:
    with client(options=on(release)) as one:
        block = _dirty(one)
        one.sync(block.id, TO_GPU | FROM_GPU | RANGE, 0x1000, LINE)
        check(int(block.words[0x1040 // 4]) == 7)


@pytest.mark.parametrize("release", ["4.9", "5.15"])
def test_ranges_that_are_refused(release: str) -> None:
    with client(options=on(release)) as one:
        block = one.alloc(PAGE, CPU_MAP | WRITE_BACK)
        for op, offset, length, number in (
            (RANGE | TO_GPU, 0, 0, errno.EINVAL), (RANGE | TO_GPU, 0, 1 << 32, errno.EINVAL),
            (RANGE | TO_GPU, 0, PAGE + 1, errno.ERANGE), (RANGE, 0, 4, errno.EINVAL),
        ):  # fmt: skip
            with pytest.raises(OSError, match=rf"Errno {number}\]"):
                one.sync(block.id, op, offset, length)
        one.sync(99, TO_GPU)  # no such object: left out
        many = np.frombuffer(struct.pack("<QQII", 0, 0, block.id, TO_GPU) * 129, np.uint8)
        with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\]"):
            one.call("gpuobj_sync", objs=many.ctypes.data, obj_len=24, count=129)
        one.call("gpuobj_sync", objs=many.ctypes.data, obj_len=24, count=128)


@pytest.mark.parametrize(("release", "kept"), [("4.9", 0), ("5.4", 0), ("5.10", 1), ("5.15", 1)])
def test_flags_of_contexts(release: str, kept: int) -> None:
    """FAULT_INFO where it is known; SAVE_GMEM and unknown flags never, timestamps always."""
    with client(options=on(release)) as one:
        made = one.call("drawctxt_create", flags=0x12 | 1 | 0x400 | 1 << 30)
        check(made.flags == 0x12 | 0x40 | kept << 30, hex(made.flags))


def test_alignment_is_cut_and_coherence_needs_caches() -> None:
    with client(options=AdrenoOptions(coherent=True)) as one:
        check(one.call("gpuobj_alloc", size=1, flags=0xFF << 16).flags == 25 << 16)
        check(one.call("gpuobj_alloc", size=1, flags=1 << 31).flags == 0)
    with client(options=AdrenoOptions(coherent=True, kernel="4.14")) as one:
        check(one.call("gpuobj_alloc", size=1, flags=1 << 31).flags == 1 << 31)


def test_pages_of_16_kib() -> None:
    with client(options=on("5.15", page_bytes=1 << 14)) as one:
        made = one.call("gpuobj_alloc", size=1, flags=CPU_MAP | WRITE_BACK)
        check(made.mmapsize == 1 << 14)
        with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\]"):
            one.world.mmap(one.fd, 1 << 14, made.id << 12)
        region = one.world.mmap(one.fd, 1 << 14, made.id << 14)
        check(region.nbytes == 1 << 14)
        region.close()


def test_a_release_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"no KGSL of kernel '3\.18': there are 4\.9, 4\.14"):
        open_qcom_board("a630", options=AdrenoOptions(kernel="3.18"))
