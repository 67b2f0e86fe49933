"""20,000 damaged answers of VFIO each: only MalformedInput, quickly."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

from drivers.base.errors import MalformedInput
from drivers.base.view import View
from drivers.pci.info_caps import iova_ranges, sparse_areas
from drivers.pci.iova import IovaSpace
from tests.mutation import CPU_LIMIT_S, MUTATIONS, mutate
from tests.support import check

OTHER = struct.pack("<HHI", 9, 1, 48) + bytes(8)
REGION = (
    struct.pack("<IIIIQQ", 112, 15, 5, 32, 1 << 16, 5 << 40)
    + OTHER
    + struct.pack("<HHIIIQQQQ", 1, 1, 0, 2, 0, 0, 4096, 8192, 57344)
)
TYPE1 = struct.pack("<IIQII", 80, 3, 0x4020_1000, 24, 0) + struct.pack(
    "<HHIIIQQQQ", 1, 1, 0, 2, 0, 0, 0xFEDF_FFFF, 0xFEF0_0000, (1 << 48) - 1
)
FIRST_AT = {"region": 12, "type1": 16}


def read_region(data: bytes) -> object:
    view = View(data, "region")
    return sparse_areas(view, view.u32(FIRST_AT["region"], "first"))


def read_type1(data: bytes) -> object:
    view = View(data, "type1")
    ranges = iova_ranges(view, view.u32(FIRST_AT["type1"], "first"))
    return IovaSpace(ranges or [], 1 << 44)


def test_whole_answers_are_read() -> None:
    check(read_region(REGION) == [(0, 4096), (8192, 57344)], str(read_region(REGION)))
    view = View(TYPE1, "type1")
    found = iova_ranges(view, 24)
    check(found == [(0, 0xFEDF_FFFF), (0xFEF0_0000, (1 << 48) - 1)], str(found))
    check(iova_ranges(view, 0) is None and sparse_areas(View(REGION, "region"), 0) is None)


def damaged(blob: bytes, read: Callable[[bytes], object], seed: int) -> int:
    """How many mutations were refused. Anything but MalformedInput escapes."""
    rng, refused = random.Random(seed), 0
    for _ in range(MUTATIONS):
        data = mutate(blob, rng)
        start_s = time.process_time()
        try:
            read(data)
        except MalformedInput:
            refused += 1
        check(time.process_time() - start_s < CPU_LIMIT_S, data.hex())
    return refused


def test_damaged_regions() -> None:
    check(MUTATIONS // 20 < damaged(REGION, read_region, 1) < MUTATIONS)


def test_damaged_address_ranges() -> None:
    check(MUTATIONS // 20 < damaged(TYPE1, read_type1, 2) < MUTATIONS)


def test_capabilities_that_loop() -> None:
    loop = bytearray(REGION)
    struct.pack_into("<I", loop, 32 + 4, 32)
    try:
        read_region(bytes(loop))
    except MalformedInput as error:
        check("loops" in str(error))
    else:
        raise AssertionError("a loop was read to its end")
