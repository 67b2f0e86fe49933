"""The Adreno board's 2D engine fills and copies linear surfaces; the rest is reported."""

from __future__ import annotations

import numpy as np
import pytest

from tests.qcom_boards import Block, client, halves, type4, type7
from tests.support import check

# src: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml and adreno_pm4.xml
CP_BLIT, OP_SCALE = 0x2C, 3
BLIT_CNTL, DST_INFO, DST, DST_PITCH, SOLID = 0x8C00, 0x8C17, 0x8C18, 0x8C1A, 0x8C2C
SRC_PLACE, DST_BOX = 0x8401, 0x8405
SRC_INFO = {"a630": 0xB4C0, "a740": 0xB2C0}
FMT6_32_UINT, FMT6_8_UINT, SOLID_COLOR, TILE6_3, FLAGS = 0x4B, 0x05, 1 << 7, 3 << 8, 1 << 12
PITCH, ROWS = 64, 8


def _target(block: Block, fmt: int, left: int, top: int, right: int, bottom: int) -> list[int]:
    return [
        *type4(DST_INFO, fmt), *type4(DST, *halves(block.va)), *type4(DST_PITCH, PITCH >> 6),
        *type4(DST_BOX, left | top << 16, right | bottom << 16),
    ]  # fmt: skip


@pytest.mark.parametrize("chip", ["a630", "a740"])
@pytest.mark.parametrize(("fmt", "kind"), [(FMT6_32_UINT, np.uint32), (FMT6_8_UINT, np.uint8)])
def test_a_fill_of_a_box(chip: str, fmt: int, kind: type[np.generic]) -> None:
    with client(chip) as one:
        block = one.alloc(4096)
        block.words[:] = 0xA5A5A5A5
        one.submit([
            *type4(BLIT_CNTL, SOLID_COLOR), *type4(SOLID, 0x11223344, 0, 0, 0),
            *_target(block, fmt, 2, 1, 6, 3), *type7(CP_BLIT, OP_SCALE),
        ])  # fmt: skip
        wanted = np.full(4096, 0xA5, np.uint8).view(kind).reshape(-1, PITCH // kind().itemsize)
        wanted[1:4, 2:7] = np.uint32(0x11223344).astype(kind)
        check(np.array_equal(block.words, wanted.reshape(-1).view(np.uint32)))


@pytest.mark.parametrize("chip", ["a630", "a740"])
def test_a_copy_of_a_box(chip: str) -> None:
    with client(chip) as one:
        source, target = one.alloc(4096), one.alloc(4096)
        source.words[:] = np.arange(1024)
        one.submit([
            *type4(BLIT_CNTL, 0), *_target(target, FMT6_32_UINT, 1, 0, 4, 1),
            *type4(SRC_INFO[chip], FMT6_32_UINT, ROWS << 15 | PITCH // 4, *halves(source.va),
                   (PITCH >> 6) << 9),
            *type4(SRC_PLACE, 3 << 8, 6 << 8, 2 << 8, 3 << 8), *type7(CP_BLIT, OP_SCALE),
        ])  # fmt: skip
        wanted = np.zeros((64, 16), np.uint32)
        wanted[0:2, 1:5] = np.arange(1024).reshape(64, 16)[2:4, 3:7]
        check(np.array_equal(target.words, wanted.reshape(-1)))


def test_a_tiled_surface_is_filled() -> None:
    """Of texels of 4 bytes, bits y1 x1 y0 x0 number 16. # src: Mesa 25.0.7, fd6_tiled_memcpy.cc"""
    with client("a630") as one:
        block = one.alloc(4096)
        one.submit([
            *type4(BLIT_CNTL, SOLID_COLOR), *type4(SOLID, 1, 0, 0, 0),
            *_target(block, FMT6_32_UINT | TILE6_3, 0, 0, 3, 3), *type7(CP_BLIT, OP_SCALE),
        ])  # fmt: skip
        check(block.words[:16].all() and not block.words[16:].any(), f"{block.words[:32]}")


def test_a_compressed_surface_is_reported_and_left_alone() -> None:
    with client("a630", clean=False) as one:
        block = one.alloc(4096)
        one.submit([
            *type4(BLIT_CNTL, SOLID_COLOR), *type4(SOLID, 1, 0, 0, 0),
            *_target(block, FMT6_32_UINT | TILE6_3 | FLAGS, 0, 0, 3, 3),
            *type7(CP_BLIT, OP_SCALE),
        ])  # fmt: skip
        (found,) = one.world.violations
        check(found.kind == "unmodelled" and not block.words.any(), str(found))


def test_a_fill_outside_of_memory_is_a_page_fault() -> None:
    with client("a630", clean=False) as one:
        block = one.alloc(4096)
        one.submit([
            *type4(BLIT_CNTL, SOLID_COLOR), *type4(SOLID, 1, 0, 0, 0),
            *_target(block, FMT6_32_UINT, 0, 0, 15, 64), *type7(CP_BLIT, OP_SCALE),
        ])  # fmt: skip
        check("page fault" in one.world.hardware.log[-1], str(one.world.hardware.log))


def test_another_operation_is_an_opcode_error() -> None:
    with client("a630", clean=False) as one:
        one.submit(type7(CP_BLIT, 1))
        check("opcode error" in one.world.hardware.log[-1], str(one.world.hardware.log))
