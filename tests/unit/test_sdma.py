"""SDMA packets: the vendor's words, engine limits, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from drivers.base.errors import BadArgument, Unsupported
from queues.amd import sdma
from queues.amd.copy_queue import ReadyCopy
from tests.packet_golden import Golden
from tests.packet_golden_sdma import SDMA
from tests.support import check

OLD, NAVI, NEW = sdma.engine_of("gfx942"), sdma.engine_of("gfx1030"), sdma.engine_of("gfx1100")


@pytest.mark.parametrize("golden", SDMA, ids=lambda golden: golden.name)
def test_words_of_the_vendors_macros(golden: Golden) -> None:
    np.testing.assert_equal(" ".join(f"{word:08x}" for word in golden.encode()), golden.words)


def test_captured_packets() -> None:
    # Captured from a driver that is known to run on silicon (tinygrad a9069c177a).
    np.testing.assert_equal(
        sdma.copy_linear(NEW, dst_addr=0x5_0000_0001, src_addr=0x3_0000_0002, count=0x3000_0000),
        [1, 0x2FFF_FFFF, 0, 2, 3, 1, 5],
    )
    np.testing.assert_equal(sdma.fence(NEW, addr=8, data=9), [0x30005, 8, 0, 9])
    np.testing.assert_equal(sdma.trap(int_context=7), [6, 7])
    np.testing.assert_equal(
        sdma.poll_mem(NEW, addr=8, value=9), [0xD0000008, 8, 0, 9, 0xFFFFFFFF, 0x0FFF0004]
    )


@pytest.mark.parametrize(
    ("chip", "copy_bytes", "fill_bytes"),
    [
        # src: Mesa sid.h SDMA_V*_COPY_MAX_BYTES, ac_emit_sdma_constant_fill (22 or 30 bits)
        ("gfx942", 0x3FFF00, 0x3FFF00),
        ("gfx90a", 0x3FFF00, 0x3FFF00),
        ("gfx950", 0x3FFF00, 0x3FFF00),
        ("gfx1030", 0x3FFFFF00, 0x3FFF00),
        ("gfx1102", 0x3FFFFF00, 0x3FFFFF00),
        ("gfx1151", 0x3FFFFF00, 0x3FFFFF00),
        ("gfx1201", 0x3FFFFF00, 0x3FFFFF00),
    ],
)
def test_most_bytes_of_one_packet(chip: str, copy_bytes: int, fill_bytes: int) -> None:
    engine = sdma.engine_of(chip)
    np.testing.assert_equal(
        (engine.copy_max_bytes, engine.fill_max_bytes), (copy_bytes, fill_bytes)
    )
    words = sdma.copy_linear(engine, dst_addr=0, src_addr=0, count=copy_bytes)
    np.testing.assert_equal(words[1], copy_bytes - 1)
    words = sdma.const_fill(engine, dst_addr=0, src_data=0, count=fill_bytes)
    np.testing.assert_equal(words[4], fill_bytes - 1)
    for count in (0, copy_bytes + 1):
        with pytest.raises(BadArgument):
            sdma.copy_linear(engine, dst_addr=0, src_addr=0, count=count)
        with pytest.raises(BadArgument):
            sdma.const_fill(engine, dst_addr=0, src_data=0, count=count)


@pytest.mark.parametrize(("chip", "bits"), [("gfx942", 22), ("gfx1030", 30), ("gfx1201", 30)])
def test_both_widths_of_the_count(chip: str, bits: int) -> None:
    layout = sdma.engine_of(chip).layout("COPY_LINEAR")
    np.testing.assert_equal(layout.encode({"count": 1 << bits})[1], (1 << bits) - 1)
    with pytest.raises(BadArgument):
        layout.encode({"count": (1 << bits) + 1})


def test_fills_by_bytes_and_halves() -> None:
    fill, size = sdma.const_fill, sdma.FillSize
    np.testing.assert_equal(
        fill(NEW, dst_addr=3, src_data=0xFF, count=5, fillsize=size.BYTE), [11, 3, 0, 0xFF, 4]
    )
    np.testing.assert_equal(
        fill(NEW, dst_addr=2, src_data=0xBEEF, count=6, fillsize=size.SHORT),
        [11 | 1 << 30, 2, 0, 0xBEEF, 5],
    )


def test_fences_of_old_engines_have_no_memory_type() -> None:
    np.testing.assert_equal(sdma.fence(OLD, addr=8, data=9), [5, 8, 0, 9])


def test_old_engines_cannot_ask_for_caches() -> None:
    with pytest.raises(Unsupported):
        sdma.gcr(OLD, caches={"gl2_wb": 1})


@pytest.mark.parametrize("at", range(17))
def test_indirect_ends_where_it_must(at: int) -> None:
    padding = sdma.indirect_padding(at=at)
    np.testing.assert_equal(padding, (2 - at) & 7, "the formula of sdma_v6_0_ring_emit_ib")
    words = sdma.nop() * padding + sdma.indirect(NEW, ib_base=0, ib_size=8)
    np.testing.assert_equal((at + len(words)) % 8, 0)


def test_what_is_left_out_is_zero() -> None:
    words = sdma.atomic(NAVI, atomic_op=sdma.Atomic.ADD_RTN_32, addr=4, src_data=1)
    np.testing.assert_equal(words, [10 | 15 << 25, 4, 0, 1, 0, 0, 0, 0])
    np.testing.assert_equal(sdma.indirect(NAVI, ib_base=32, ib_size=8), [4, 32, 0, 8, 0, 0])
    np.testing.assert_equal(
        sdma.copy_linear(OLD, dst_addr=1, src_addr=2, count=1), [1, 0, 0, 2, 0, 1, 0]
    )


REFUSED: dict[str, Callable[[], object]] = {
    "nop of nothing": lambda: sdma.nop(words=0),
    "nop too long": lambda: sdma.nop(words=0x4001),
    "address": lambda: sdma.copy_linear(NEW, dst_addr=1 << 64, src_addr=0, count=1),
    "negative address": lambda: sdma.copy_linear(NEW, dst_addr=0, src_addr=-1, count=1),
    "fill alignment": lambda: sdma.const_fill(NEW, dst_addr=2, src_data=0, count=4),
    "fill count": lambda: sdma.const_fill(NEW, dst_addr=0, src_data=0, count=6),
    "fill value": lambda: sdma.const_fill(
        NEW, dst_addr=0, src_data=256, count=6, fillsize=sdma.FillSize.BYTE
    ),
    "fence alignment": lambda: sdma.fence(NEW, addr=2, data=0),
    "fence data": lambda: sdma.fence(NEW, addr=4, data=1 << 32),
    "trap": lambda: sdma.trap(int_context=1 << 28),
    "poll alignment": lambda: sdma.poll_mem(NEW, addr=2, value=0),
    "poll retries": lambda: sdma.poll_mem(NEW, addr=4, value=0, retry_count=1 << 12),
    "poll interval": lambda: sdma.poll_reg(NEW, reg=4, value=0, interval=1 << 16),
    "atomic alignment": lambda: sdma.atomic(
        NAVI, atomic_op=sdma.Atomic.ADD_RTN_64, addr=4, src_data=1
    ),
    "atomic interval": lambda: sdma.atomic(
        NAVI, atomic_op=sdma.Atomic.ADD_RTN_32, addr=4, src_data=1, loop_interval=1 << 13
    ),
    "no data": lambda: sdma.write(NEW, dst_addr=0, data=[]),
    "write alignment": lambda: sdma.write(NEW, dst_addr=2, data=[1]),
    "buffer alignment": lambda: sdma.indirect(NEW, ib_base=16, ib_size=8),
    "buffer length": lambda: sdma.indirect(NEW, ib_base=32, ib_size=9),
    "buffer size": lambda: sdma.indirect(NEW, ib_base=32, ib_size=1 << 20),
    "timestamp alignment": lambda: sdma.timestamp(NEW, addr=4),
    "cache range": lambda: sdma.gcr(NEW, caches={}, base_va=64),
    "cache range address": lambda: sdma.gcr(NEW, caches={}, limit_va=1 << 48),
    "cache control": lambda: sdma.gcr(NEW, caches={"gl2_wb": 2}),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()


@pytest.mark.parametrize(("chip", "uncached"), [("gfx942", 0), ("gfx1100", 3 << 16)])
def test_a_ready_copy_word_for_word(chip: str, uncached: int) -> None:
    """# src: sdma_v6_0_0_pkt_open.h COPY_LINEAR, FENCE, TRAP; of 4.4 without a memory type"""
    engine = sdma.engine_of(chip)
    trap = [*sdma.fence(engine, addr=0x7000, data=5), *sdma.trap(int_context=5)]
    ready = ReadyCopy(engine, 0x12_3456_7890, trap)
    memory = bytearray(ready.nbytes + 4)
    for dst, src, nbytes in ((0x7F_0000_1001, 0x55_6677_8899, 1), (64, 128, 1 << 20)):
        values = ready.values(dst=dst, src=src, nbytes=nbytes, progress=0xFEDC_BA98)
        ready.packer.pack_into(memory, 4, *values)
        fence = struct.pack("<IQI", 5 | uncached, 0x12_3456_7890, 0xFEDC_BA98)
        event = struct.pack("<IQIII", 5 | uncached, 0x7000, 5, 6, 5)
        expected = struct.pack("<IIIQQ", 1, nbytes - 1, 0, src, dst) + fence + event
        check(bytes(memory[4:]) == expected, memory.hex())
