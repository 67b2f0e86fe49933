"""The board's PM4 processor, on words that gcc made of the kernel's nvd.h and soc15d.h."""

from __future__ import annotations

import pytest

from boards.amd.cp.engine_types import PacketFault
from boards.amd.wave.types import MemoryFault
from tests.boards.engine_harness import RING_BYTES, RPTR, Rig, chip
from tests.support import check

# src: gcc on nvd.h, the macros of the packet's name; addresses are 0x7f_1000_0000 + offset.
NOP_1 = [0xFFFF1000]
NOP_3 = [0xC0011000, 0, 0]
WRITE_64 = [0xC0043700, 0x00100500, 0x10000040, 0x7F, 0x11223344, 0x55667788]
WRITE_32 = [0xC0033700, 0x00100200, 0x10000040, 0x7F, 0x11223344]
WAIT_GE_7 = [0xC0053C00, 0x15, 0x10000080, 0x7F, 7, 0xFFFFFFFF, 4]
HDP_FLUSH = [0xC0053C00, 0x43, 0xE26, 0xE27, 0xFFFFFFFF, 0xFFFFFFFF, 0x20]
RELEASE_64 = [0xC0064900, 0x06603514, 0x42000000, 0x10000040, 0x7F, 9, 0, 0x2A]
RELEASE_CLOCK = [0xC0064900, 0x00000514, 0x60000000, 0x10000048, 0x7F, 0, 0, 0]
ACQUIRE = [0xC0065800, 0, 0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA, 0xC3B1]
ACQUIRE_SCALAR_ONLY = [0xC0065800, 0, 0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA, 0x81]
BUFFER_6 = [0xC0023F00, 0x10000400, 0x7F, 0x00800006]
CHAIN_5 = [0xC0023F00, 0x10000500, 0x7F, 0x00900005]
COPY_CLOCK = [0xC0044000, 0x00110509, 0, 0, 0x10000060, 0x7F]
FLUSH = [0xC0004600, 0x407]
COND_5 = [0xC0032200, 0x10000080, 0x7F, 0, 5]
UCONFIG = [0xC0017900, 0x200, 0xE0000000]
# src: soc21_enum.h GL2_OP_ATOMIC_ADD_RTN_64 0x2f, header PACKET3(PACKET3_ATOMIC_MEM, 7)
ATOMIC_ADD_64 = [0xC0071E00, 0x2F, 0x10000040, 0x7F, 5, 0, 0, 0, 0]
# src: gcc on soc15d.h
SOC15_ACQUIRE = [0xC0055800, 0x28C40000, 0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA]
SOC15_RELEASE = [0xC0064900, 0x00238514, 0x22000000, 0x10000040, 0x7F, 9, 0, 0x2A]
PRED_XCC0_5 = [0xC0002300, 0x01000005]


def rig(which=None, **options) -> Rig:
    made = Rig(which, **options)
    made.create("pm4")
    return made


def gfx942() -> Rig:
    return rig(chip("gfx942", "gfx9", (4, 4, 2), xccs=8))


def test_write_data_and_the_read_pointer() -> None:
    r = rig()
    r.submit(NOP_3 + WRITE_64 + NOP_1)
    check(r.word(0x40, 8) == 0x5566778811223344)
    check(r.read_pointer() == 10 and r.engines.idle(1))
    check(r.packets() == ["NOP", "WRITE_DATA", "NOP"])
    check(not r.host.faults and not r.host.violations)


def test_write_data_to_one_address() -> None:
    r = rig()
    r.submit(_or(WRITE_64, 1, 1 << 16))  # src: nvd.h WR_ONE_ADDR
    check(r.word(0x40, 8) == 0x55667788, "the last word, where all of them went")


def test_a_wait_that_cannot_end_is_found() -> None:
    r = rig()
    equal = [0xC0053C00, 0x13, 0x10000080, 0x7F, 0x107, 0xFF, 4]
    r.put_words(0x80, [7])
    r.submit(equal)
    check([kind for kind, _ in r.host.violations] == ["endless wait"] and r.engines.waiting(1))


def test_read_pointer_wraps_and_packets_go_around_the_ring_s_end() -> None:
    r = rig()
    fill = RING_BYTES // 4 - 3
    r.submit(NOP_1 * fill)
    r.submit(WRITE_64)
    check(r.word(0x40, 8) == 0x5566778811223344)
    check(r.read_pointer(nbytes=4) == 3, "32 bits, modulo the ring")


def test_a_wait_parks_the_queue_until_memory_changes() -> None:
    r = rig()
    r.submit(WAIT_GE_7 + WRITE_32)
    check(r.word(0x40) == 0 and not r.engines.idle(1) and r.engines.waiting(1))
    check(not r.engines.pump())
    r.put_words(0x80, [6])
    check(not r.engines.pump())
    r.put_words(0x80, [7])
    check(r.engines.pump() and r.word(0x40) == 0x11223344 and r.engines.idle(1))
    check([name for name, _ in r.host.events].count("wait") == 1)


def test_one_queue_releases_another() -> None:
    r = rig()
    r.create("pm4", 2)
    waits = [0xC0053C00, 0x13, 0x10000040, 0x7F, 9, 0xFFFFFFFF, 4]
    writes = [0xC0033700, 0x00100500, 0x10000200, 0x7F, 1]
    r.submit(waits + writes, 1)
    check(r.word(0x200) == 0)
    r.submit(RELEASE_64, 2)
    check(r.word(0x200) == 1 and r.host.interrupts == [0x2A])


def test_two_queues_take_turns() -> None:
    r = rig()
    r.create("pm4", 2)
    r.submit(WAIT_GE_7 + NOP_3 * 3, 1)
    r.submit(WAIT_GE_7 + NOP_3 * 3, 2)
    r.host.events.clear()
    r.put_words(0x80, [7])
    r.engines.pump()
    order = [facts["queue"] for name, facts in r.host.events if name == "packet"]
    check(order == [1, 2] * 4, str(order))


def test_a_doorbell_inside_a_packet_does_not_recurse() -> None:
    r = rig()
    r.create("pm4", 2)
    r.host.interrupt = lambda event: r.submit(WRITE_32, 2)
    r.submit(RELEASE_64, 1)
    check(r.word(0x40) == 0x11223344 and r.engines.idle(2))


def test_hdp_flush_and_other_registers() -> None:
    r = rig()
    r.submit([*HDP_FLUSH, *UCONFIG])
    check(r.engines.idle(1) and not r.host.faults)
    r.submit([0xC0053C00, 0x03, 0x1234, 0, 0, 0xFFFFFFFF, 4])
    check(r.fault().kind == "unknown register")


def test_release_mem_flushes_writes_and_interrupts() -> None:
    r = rig()
    r.submit(RELEASE_64 + RELEASE_CLOCK)
    check(r.word(0x40, 8) == 9 and r.host.interrupts == [0x2A])
    check(r.word(0x48, 8) == 1000, "the host's clock")
    check(r.log.count(("release", "waves of queue 1")) == 1, "GL2_WB only in the first")


def test_acquire_mem_invalidates_what_it_names() -> None:
    r = rig()
    r.submit(ACQUIRE)
    check(("acquire", "waves of queue 1") in r.log and ("acquire", "code of queue 1") in r.log)
    check(("release", "waves of queue 1") in r.log, "GL2_WB")
    r.log.clear()
    r.submit(ACQUIRE_SCALAR_ONLY)
    check(("acquire", "waves of queue 1") not in r.log, "vector caches keep their lines")
    check(("acquire", "code of queue 1") in r.log)


def test_the_code_cache_belongs_to_all_queues() -> None:
    """ROCr writes code with a kernel of queue 1, invalidates there, and runs it on queue 2."""
    r = rig()
    r.create("pm4", 2)
    r.log.clear()
    r.submit(ACQUIRE_SCALAR_ONLY)
    check(("acquire", "code of queue 1") in r.log and ("acquire", "code of queue 2") in r.log)
    check(("acquire", "waves of queue 2") not in r.log, "data caches: its own acquire")


@pytest.mark.parametrize(
    ("family", "control", "data", "code"),
    # src: nvd.h PACKET3_ACQUIRE_MEM_GCR_CNTL: GLI_INV 0, GLK_INV 7, GLV_INV 8, GL1_INV 9
    [("gfx11", 0x380, True, False), ("gfx11", 0x180, False, False), ("gfx12", 0x180, True, False),
     ("gfx11", 0x300, False, False), ("gfx11", 0x001, False, True),
     # src: soc15d.h CP_COHER_CNTL: TCL1 22, SH_KCACHE 27, SH_ICACHE 29
     ("gfx9", 1 << 22 | 1 << 27, True, False), ("gfx9", 1 << 22, False, False),
     ("gfx9", 1 << 27, False, False), ("gfx9", 1 << 29, False, True)],
)  # fmt: skip
def test_each_cache_is_invalidated_by_its_bit(family, control, data, code) -> None:
    r = rig(chip("any", family, (4, 4, 2) if family == "gfx9" else (6, 0, 0)))
    words = [0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA]
    gfx9 = family == "gfx9"
    r.submit([0xC0055800, control, *words] if gfx9 else [0xC0065800, 0, *words, control])
    check(not r.host.faults, str(r.host.faults))
    check((("acquire", "waves of queue 1") in r.log) is data)
    check((("acquire", "code of queue 1") in r.log) is code)


def test_a_full_ring_is_found() -> None:
    r = rig()
    r.submit(NOP_1 * (RING_BYTES // 4))
    check([kind for kind, _ in r.host.violations] == ["full ring"])


def test_chains_are_counted_from_each_buffer_of_the_ring() -> None:
    """More than 4096 in all, and never two in a row."""
    r = rig()
    r.put_words(0x500, NOP_1 * 5)
    r.put_words(0x400, FLUSH + CHAIN_5)
    for _ in range(21):
        r.submit(BUFFER_6 * 200)
    check(not r.engines.hung and not r.host.faults and r.engines.idle(1))


def test_soc15_release_and_acquire() -> None:
    r = gfx942()
    r.submit(SOC15_ACQUIRE + SOC15_RELEASE)
    check(r.word(0x40) == 9 and r.host.interrupts == [0x2A] and not r.host.faults)
    check(("acquire", "waves of queue 1") in r.log and ("release", "waves of queue 1") in r.log)
    r.log.clear()
    r.submit([SOC15_RELEASE[0], SOC15_RELEASE[1] | 1 << 19, *SOC15_RELEASE[2:]])  # EOP_TC_NC
    check(("release", "waves of queue 1") not in r.log, "the card's own memory is not of MTYPE NC")


def test_indirect_buffer_and_chain() -> None:
    r = rig()
    r.put_words(0x400, FLUSH + CHAIN_5)
    r.put_words(0x500, WRITE_32)
    r.submit(BUFFER_6 + COPY_CLOCK)
    check(r.word(0x40) == 0x11223344 and r.word(0x60, 8) == 1000 and not r.host.faults)
    check(r.packets().index("WRITE_DATA") < r.packets().index("COPY_DATA"))


def test_a_wait_in_an_indirect_buffer_resumes() -> None:
    r = rig()
    r.put_words(0x400, [*WAIT_GE_7, *WRITE_32])
    r.submit([*BUFFER_6[:3], 0x00800000 | 12, *COPY_CLOCK])
    check(not r.engines.idle(1) and r.word(0x60) == 0)
    r.put_words(0x80, [8])
    r.engines.pump()
    check(r.word(0x40) == 0x11223344 and r.word(0x60) and r.engines.idle(1))


@pytest.mark.parametrize(("value", "written"), [(0, 0), (1, 0x11223344)])
def test_cond_exec(value: int, written: int) -> None:
    r = rig()
    r.put_words(0x80, [value])
    r.submit(COND_5 + WRITE_32 + COPY_CLOCK)
    check(r.word(0x40) == written and r.word(0x60))


def test_atomic_and_its_result() -> None:
    r = rig()
    r.put_words(0x40, [0xFFFFFFFF, 0])
    copy_result = [0xC0044000, 0x00110506, 0, 0, 0x10000060, 0x7F]
    r.submit(ATOMIC_ADD_64 + copy_result)
    check(r.word(0x40, 8) == 0x100000004 and r.word(0x60, 8) == 0xFFFFFFFF)


def test_pred_exec_masks_dies_and_only_in_buffers() -> None:
    r = gfx942()
    atomic = ATOMIC_ADD_64
    r.put_words(0x400, [0xC0002300, 0x01000009, *atomic, 0xC0002300, 0xFE000009, *atomic, *atomic])
    r.submit([*BUFFER_6[:3], 0x00800000 | 31])
    check(r.word(0x40) == 2 * 5, "by the first die, by the others, which have no part, by all")
    r.submit(PRED_XCC0_5 + WRITE_32)
    check(r.fault().kind == "order", "not in a ring")


def test_a_signal_that_decreases_is_found() -> None:
    r = rig()
    r.submit(RELEASE_64)
    lower = [*RELEASE_64[:5], 8, 0, 0x2A]
    r.submit(lower)
    check([kind for kind, _ in r.host.violations] == ["signal decreased"])


def test_a_signal_that_the_host_reset_may_start_again() -> None:
    r = rig()
    r.submit(RELEASE_64)
    r.put_words(0x40, [0, 0])
    r.submit([*RELEASE_64[:5], 8, 0, 0x2A])
    check(not r.host.violations)


def _or(words: list[int], index: int, bits: int) -> list[int]:
    return [word | (bits if i == index else 0) for i, word in enumerate(words)]


BROKEN = {
    "unknown opcode": ([0xC0001F00, 0], "unknown opcode"),
    "privileged opcode": ([0xC005A200, 0, 0, 0, 0, 0, 0], "unknown opcode"),
    "packet type 2": ([0x80000000], "unknown packet type"),
    "packet type 0": ([0x0], "unknown packet type"),
    "predicated": (_or(FLUSH, 0, 1), "reserved bits"),
    "too long": ([0xC0014600, 0x407, 0], "unsupported"),
    "wait too short": ([0xC0043C00, 0x15, 0x10000080, 0x7F, 7, 0xFFFFFFFF], "wrong length"),
    "acquire of the other flavour": (SOC15_ACQUIRE, "wrong length"),
    "release with a reserved bit": (_or(RELEASE_64, 1, 1 << 24), "reserved bits"),
    "release select reserved": (_or(RELEASE_64, 2, 1), "reserved bits"),
    "release of an odd event": ([*RELEASE_64[:1], 0x06603505, *RELEASE_64[2:]], "reserved value"),
    "release misaligned": (_or(RELEASE_64, 3, 4), "misaligned"),
    "interrupt only, with data": (
        [*RELEASE_64[:2], 0x41000000, *RELEASE_64[3:]], "reserved value"
    ),
    "write data engine": (_or(WRITE_32, 1, 1 << 30), "reserved bits"),
    "wait function 7": (_or(WAIT_GE_7, 1, 7), "reserved value"),
    "wait misaligned": (_or(WAIT_GE_7, 2, 2), "misaligned"),
    "buffer misaligned": (_or(BUFFER_6, 1, 1), "reserved bits"),
    "buffer not valid": ([*BUFFER_6[:3], 6], "reserved value"),
    "buffer with a VMID": (_or(BUFFER_6, 3, 1 << 24), "reserved value"),
    "buffer without words": ([*BUFFER_6[:3], 0x00800000], "wrong length"),
    "buffer that is too long": ([*BUFFER_6[:3], 0x00900000], "wrong length"),
    "chain from a ring": (CHAIN_5, "nested"),
    "flush with a reserved bit": (_or(FLUSH, 1, 1 << 7), "reserved bits"),
    "a range of GL1": (_or(ACQUIRE, 7, 1 << 2), "unsupported"),
    "a range of GL2": (_or(ACQUIRE, 7, 1 << 11), "unsupported"),
    "a range of code": ([*ACQUIRE[:7], 2], "unsupported"),
    "register of another engine": ([0xC0017600, 0x0, 1], "unknown register"),
    "beyond the registers": ([0xC0017600, 0x400, 1], "wrong length"),
    "pred exec on one die": (PRED_XCC0_5, "unknown opcode"),
    "atomic of floats": ([0xC0071E00, 0x22, *ATOMIC_ADD_64[2:]], "unsupported"),
    "atomic result of nothing": ([0xC0044000, 0x00110506, 0, 0, 0x10000060, 0x7F], "order"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_strictness(name: str) -> None:
    words, kind = BROKEN[name]
    r = rig()
    r.submit(words + WRITE_64)
    fault = r.fault()
    check(isinstance(fault, PacketFault) and fault.kind == kind, str(fault))
    check(fault.words[0] == words[0] or name == "packet type 0")
    check(r.word(0x40) == 0 and not r.engines.idle(1), "nothing after a fault")
    check(not r.engines.pump(), "the queue stays stopped")


def test_packet_past_the_write_pointer() -> None:
    r = rig()
    r.submit(WRITE_64[:4])
    check(r.fault().kind == "wrong length" and "write pointer" in str(r.fault()))


def test_packet_past_the_buffer_s_end() -> None:
    r = rig()
    r.put_words(0x400, NOP_1 + WRITE_64)
    r.submit(BUFFER_6)
    check("indirect buffer's end" in str(r.fault()))


@pytest.mark.parametrize("inner", [BUFFER_6, CHAIN_5], ids=["nested", "chained, and not last"])
def test_buffer_inside_a_buffer(inner: list[int]) -> None:
    r = rig()
    r.put_words(0x400, inner + FLUSH)
    r.submit(BUFFER_6)
    check(r.fault().kind == "nested")


def test_a_buffer_that_chains_to_itself_hangs() -> None:
    r = rig()
    r.put_words(0x500, [*NOP_1, *CHAIN_5])
    r.put_words(0x400, [*NOP_1, *NOP_1, *CHAIN_5])
    r.submit(BUFFER_6)
    check(r.engines.hung == {1} and not r.host.faults)


def test_unmapped_buffer_and_unmapped_target() -> None:
    r = rig()
    r.submit([0xC0023F00, 0x0, 0x55, 0x00800006])
    fault = r.fault()
    check(isinstance(fault, MemoryFault) and fault.va == 0x55_0000_0000 and fault.access == "read")
    r = rig()
    r.submit([0xC0033700, 0x00100500, 0x0, 0x55, 1])
    check(r.fault().access == "write")


def test_write_pointer_rules() -> None:
    r = rig()
    r.submit(NOP_1 * 8)
    r.ring(4)
    check(r.fault().kind == "write pointer" and "went back" in str(r.fault()))
    r = rig()
    r.ring(RING_BYTES // 4 + 1)
    check(r.fault().kind == "write pointer")
    r = rig()
    r.submit(NOP_1 * 4)
    r.engines.doorbell(1, 4)
    r.submit(NOP_1)
    r.engines.doorbell(1, 5)
    check(not r.host.violations)
    r.space.write(RPTR - 72, (9).to_bytes(8, "little"))
    r.engines.doorbell(1, 5)
    check(not r.host.violations, "memory may be ahead")
    r.space.write(RPTR - 72, (4).to_bytes(8, "little"))
    r.engines.doorbell(1, 5)
    check([kind for kind, _ in r.host.violations] == ["stale write pointer"])


def test_no_eop_buffer() -> None:
    r = Rig()
    r.create("pm4", eop_bytes=0)
    r.submit(RELEASE_64)
    check(r.fault().kind == "no EOP buffer")


def test_inactive_hung_and_destroyed_queues_do_not_move() -> None:
    r = Rig()
    r.create("pm4", active=False)
    r.submit(WRITE_32)
    check(r.word(0x40) == 0 and not r.engines.idle(1))
    r.engines._queues[1].context.spec.active = True
    r.engines.hung.add(1)
    check(not r.engines.pump() and r.word(0x40) == 0)
    r.engines.hung.clear()
    check(r.engines.pump() and r.word(0x40) == 0x11223344)
    r.engines.destroy(1)
    with pytest.raises(KeyError):
        r.engines.doorbell(1, 99)
