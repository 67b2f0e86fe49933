"""The board's copy engines, on words that gcc made of the kernel's *_sdma_pkt_open.h."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import MemoryFault
from tests.boards.engine_harness import RING_BYTES, Rig, chip
from tests.support import check

# src: gcc on vega10_, navi10_ and sdma_v6_0_0_pkt_open.h; addresses are 0x7f_1000_0000 + offset.
NOP_3 = [0x00020000, 0xFFFFFFFF, 0xFFFFFFFF]
COPY_100 = [0x00000001, 0x63, 0, 0x10001000, 0x7F, 0x10002004, 0x7F]
COPY_V7 = [0x00080001, 0x63, 0, 0x10001000, 0x7F, 0x10002004, 0x7F, 0]
FILL_DWORDS = [0x8000000B, 0x10002000, 0x7F, 0xDEADBEEF, 0x10]
FILL_V7 = [0x0001000B, 0x10002000, 0x7F, 0, 0x3F]
"""src: sdma_v7_0.c sdma_v7_0_emit_fill_buffer(): compress is bit 16"""
FILL_ZERO = [0x0000000B, 0x10002000, 0x7F, 0, 0x3F]
WRITE_2 = [0x00000002, 0x10002000, 0x7F, 1, 0x11223344, 0x55667788]
FENCE_4 = [0x00000005, 0x10000040, 0x7F, 9]
FENCE = [0x00030005, 0x10000040, 0x7F, 9]
TRAP = [0x00000006, 0x2A]
POLL_GE_7 = [0xD0000008, 0x10000080, 0x7F, 7, 0xFFFFFFFF, 0x0FFF0004]
HDP_FLUSH = [0x34000008, 0x389C, 0x3898, 0x400, 0x400, 0x0FFF000A]
DECREMENT = [0x5E00000A, 0x10000040, 0x7F, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0]
SWAP_WHEN_3 = [0x5001000A, 0x10000040, 0x7F, 5, 0, 3, 0, 0]
TIMESTAMP = [0x0000020D, 0x10000048, 0x7F]
BUFFER_8 = [0x00000004, 0x10000400, 0x7F, 8, 0, 0]
COND_4 = [0x00000009, 0x10000080, 0x7F, 1, 4]
GCR = [0x00000111, 0, 0xC3A10000, 0, 0]
VERSIONS = {
    "4.4": chip("gfx942", "gfx9", (4, 4, 2)), "5.2": chip("gfx1030", "gfx10", (5, 2, 0)),
    "6.0": chip(), "7.0": chip("gfx1201", "gfx12", (7, 0, 1)),
}  # fmt: skip


def rig(version: str = "6.0") -> Rig:
    made = Rig(VERSIONS[version])
    made.create("sdma")
    made.data[0x1000:0x1100] = np.arange(256, dtype=np.uint8)
    return made


def send(r: Rig, words: list[int]) -> None:
    r.submit(words, scale=4)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_copies_fills_writes_and_signals(version: str) -> None:
    r = rig(version)
    fence = FENCE_4 if version == "4.4" else FENCE
    send(r, NOP_3 + COPY_100 + fence + TRAP + TIMESTAMP + HDP_FLUSH)
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(r.data[0x2004:0x2068], np.arange(100))
    check(not r.data[0x2068:0x2100].any() and not r.data[0x2000:0x2004].any())
    check(r.word(0x40) == 9 and r.host.interrupts == [0x2A] and r.word(0x48, 8) >= 1000)
    check(r.read_pointer() == 4 * (3 + 7 + 4 + 2 + 3 + 6) and r.engines.idle(1))
    send(r, FILL_DWORDS + WRITE_2)
    check(r.word(0x2000, 8) == 0x5566778811223344 and not r.host.violations)
    np.testing.assert_array_equal(r.data[0x2008:0x2014].view(np.uint32), [0xDEADBEEF] * 3)
    check(r.word(0x2014) == int.from_bytes(bytes(range(16, 20)), "little"), "five dwords only")
    send(r, FILL_ZERO)
    check(not r.data[0x2000:0x2040].any() and r.data[0x2040])


def test_v7_alone_fills_with_compression() -> None:
    r = rig("7.0")
    r.data[0x2000:0x2041] = 0xFF
    send(r, FILL_V7 + FENCE)
    check(not r.data[0x2000:0x2040].any() and r.data[0x2040] == 0xFF)
    check(r.word(0x40) == 9 and not r.host.faults)
    older = rig("6.0")
    send(older, FILL_V7)
    check(older.fault().kind == "reserved bits", f"{older.fault()}")


def test_v7_copy_with_its_compression_word() -> None:
    r = rig("7.0")
    send(r, COPY_V7 + FENCE)
    np.testing.assert_array_equal(r.data[0x2004:0x2068], np.arange(100))
    check(r.word(0x40) == 9)
    send(r, [*COPY_V7[:7], 1])
    check(r.fault().kind == "reserved bits")


def test_poll_parks_and_resumes() -> None:
    r = rig()
    send(r, POLL_GE_7 + FENCE)
    check(r.word(0x40) == 0 and r.engines.waiting(1) and r.read_pointer() == 0)
    r.put_words(0x80, [7])
    check(r.engines.pump() and r.word(0x40) == 9)


# src: ROCr 6.1 amd_blit_sdma.cpp, SDMA_PKT_HDP_FLUSH: what each of its copies begins with
HDP_FLUSH_OF_ROCR = [0x8, 0, 0x80000000, 0, 0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_poll_that_compares_nothing_goes_on(version: str) -> None:
    r = rig(version)
    send(r, HDP_FLUSH_OF_ROCR + (FENCE_4 if version == "4.4" else FENCE))
    check(r.word(0x40) == 9 and not r.host.violations, str(r.host.violations))


def test_copy_waits_for_compute_and_compute_for_copy() -> None:
    r = rig()
    r.create("pm4", 2)
    send(r, POLL_GE_7 + COPY_100 + FENCE)
    signal = [0xC0033700, 0x00100500, 0x10000080, 0x7F, 7]
    wait = [0xC0053C00, 0x15, 0x10000040, 0x7F, 9, 0xFFFFFFFF, 4]
    done = [0xC0033700, 0x00100500, 0x10000060, 0x7F, 3]
    r.submit(signal + wait + done, 2)
    check(r.word(0x60) == 3 and r.data[0x2005] == 1 and r.engines.idle(1) and r.engines.idle(2))


def test_atomics() -> None:
    r = rig()
    r.put_words(0x40, [0, 1])
    send(r, DECREMENT)
    check(r.word(0x40, 8) == 0xFFFFFFFF)
    send(r, SWAP_WHEN_3)
    check(r.engines.waiting(1))
    r.put_words(0x40, [3, 0])
    r.engines.pump()
    check(r.word(0x40, 8) == 5 and r.engines.idle(1))


def test_indirect_buffer_ends_on_eight_dwords() -> None:
    r = rig()
    r.put_words(0x400, FENCE + TRAP + [0, 0])
    send(r, [0, 0, *BUFFER_8, *TIMESTAMP])
    check(r.word(0x40) == 9 and r.host.interrupts == [0x2A] and r.word(0x48) and r.engines.idle(1))
    send(r, BUFFER_8)
    check(r.fault().kind == "misaligned")


def test_an_indirect_buffer_has_none_inside() -> None:
    r = rig()
    r.put_words(0x400, [0, 0, *BUFFER_8])
    send(r, [0, 0, *BUFFER_8])
    check(r.fault().kind == "nested")


@pytest.mark.parametrize(("value", "written"), [(1, 9), (0, 0)])
def test_conditional_execution(value: int, written: int) -> None:
    r = rig()
    r.put_words(0x80, [value])
    send(r, COND_4 + FENCE + TIMESTAMP)
    check(r.word(0x40) == written and r.word(0x48))


def test_cache_request_reaches_the_waves_of_all_queues() -> None:
    r = rig()
    r.create("pm4", 2)
    send(r, GCR)
    for what in ("release", "acquire"):
        check((what, "waves of queue 2") in r.log)
    r = rig("4.4")
    send(r, GCR)
    check(r.fault().kind == "unknown opcode", "4.4 has no such packet")


def _or(words: list[int], index: int, bits: int) -> list[int]:
    return [word | (bits if i == index else 0) for i, word in enumerate(words)]


BROKEN = {
    "unknown opcode": ([0x00000007], "unknown opcode"),
    "tiled copy": (_or(COPY_100, 0, 1 << 8), "unknown opcode"),
    "register write": ([0xF000000E, 0, 0], "privileged"),
    "page tables": ([0x0000000C, 0, 0], "privileged"),
    "encrypted copy": (_or(COPY_100, 0, 1 << 16), "reserved bits"),
    "broadcast copy": (_or(COPY_100, 0, 1 << 27), "reserved bits"),
    "copy count": (_or(COPY_100, 1, 1 << 30), "reserved bits"),
    "swapped copy": (_or(COPY_100, 2, 1 << 16), "reserved bits"),
    "fence misaligned": (_or(FENCE, 1, 2), "reserved bits"),
    "trap context": (_or(TRAP, 1, 1 << 28), "reserved bits"),
    "poll func 7": (_or(POLL_GE_7, 0, 7 << 28), "reserved value"),
    "poll of a register": ([0x30000008, 0x1000, 0, 0, 0, 0x0FFF0004], "unknown register"),
    "timestamp misaligned": (_or(TIMESTAMP, 1, 4), "reserved bits"),
    "fill misaligned": (_or(FILL_DWORDS, 1, 2), "misaligned"),
    "fill size 3": (_or(FILL_DWORDS, 0, 3 << 30), "reserved value"),
    "byte fill of a dword": ([0x0000000B, 0x10002000, 0x7F, 0x1234, 0x3F], "unsupported"),
    "buffer misaligned": ([0, 0, *_or(BUFFER_8, 1, 0x10)], "reserved bits"),
    "buffer of 6": ([0, 0, *BUFFER_8[:3], 6, 0, 0], "wrong length"),
    "buffer with a VMID": ([0, 0, *_or(BUFFER_8, 0, 1 << 16)], "reserved bits"),
    "condition past the end": ([*COND_4[:4], 5], "wrong length"),
    "cache request with a VMID": (_or(GCR, 4, 1 << 24), "reserved value"),
    "ranged caches": (_or(GCR, 2, 1 << 27), "unsupported"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_strictness(name: str) -> None:
    words, kind = BROKEN[name]
    r = rig()
    send(r, [*words, *FENCE])
    check(r.fault().kind == kind, str(r.fault()))
    check(r.word(0x40) == 0 and not r.engines.pump() and not r.engines.idle(1))


def test_old_engines_count_22_bits() -> None:
    r = rig("4.4")
    send(r, _or(COPY_100, 1, 1 << 22))
    check(r.fault().kind == "reserved bits")


def test_lengths_and_pointers() -> None:
    r = rig()
    send(r, COPY_100[:5])
    check("write pointer" in str(r.fault()))
    r = rig()
    send(r, WRITE_2[:5])
    check("write pointer" in str(r.fault()))
    r = rig()
    r.ring(6)
    check(r.fault().kind == "write pointer")
    r = rig()
    r.ring(RING_BYTES + 4)
    check(r.fault().kind == "write pointer")


def test_unmapped_source() -> None:
    r = rig()
    send(r, [*COPY_100[:4], 0x55, *COPY_100[5:]])
    fault = r.fault()
    check(isinstance(fault, MemoryFault) and fault.access == "read" and fault.va >> 32 == 0x55)


def test_violations() -> None:
    r = rig()
    send(r, FENCE_4)
    send(r, [*POLL_GE_7[:3], 0, 0xFFFFFFFF, 0x00100004])
    overlap = [1, 0x63, 0, 0x10001000, 0x7F, 0x10001010, 0x7F]
    send(r, overlap)
    kinds = [kind for kind, _ in r.host.violations]
    check(kinds == ["cached fence", "bounded poll", "overlapping copy"], str(kinds))


def test_packets_wrap_around_the_ring() -> None:
    r = rig()
    send(r, [0] * (RING_BYTES // 4 - 3))
    send(r, COPY_100 + FENCE)
    check(r.word(0x40) == 9 and r.data[0x2005] == 1)
    check(r.read_pointer() == RING_BYTES - 12 + 44)
