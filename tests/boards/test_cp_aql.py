"""The board's AQL processor; structures by hsa.h, amd_hsa_queue.h and amd_hsa_signal.h."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.boards.engine_harness import (
    DATA,
    QUEUE,
    RING,
    RING_BYTES,
    RPTR,
    WPTR,
    Rig,
    chip,
)
from tests.boards.engine_kernels import ARGUMENTS, CODE, SCRATCH, Work, ids
from tests.boards.test_cp_pm4 import ATOMIC_ADD_64
from tests.support import check

# src: hsa.h: type [7:0], barrier 8, acquire scope [10:9], release scope [12:11]; 2 is the system.
SYSTEM = 2 << 9 | 2 << 11
KERNEL, AND, OR, VENDOR, INVALID = 2, 3, 5, 0, 1
SIGNAL, OTHER, INACTIVE, MAILBOX = DATA + 0x1000, DATA + 0x1040, DATA + 0x1080, DATA + 0x1100
PACKETS = RING_BYTES // 64


class AqlRig(Rig):
    """A rig with one AQL queue whose amd_queue_t is filled in."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.create("aql")
        self.rings[1].view(np.uint16)[::32] = INVALID
        # src: amd_hsa_queue.h: base_address 8, size 24, read_dispatch_id offset 136
        self.poke(QUEUE + 8, struct.pack("<Q", RING))
        self.poke(QUEUE + 24, struct.pack("<I", PACKETS))
        self.poke(QUEUE + 136, struct.pack("<I", 128))
        for va in (SIGNAL, OTHER, INACTIVE):
            self.signal(va, 1)

    def poke(self, va: int, data: bytes) -> None:
        self.space.write(va, data)

    def signal(self, va: int, value: int, mailbox: int = 0, event: int = 0) -> None:
        """src: amd_hsa_signal.h: kind, value, event_mailbox_ptr, event_id, start, end."""
        self.poke(va, struct.pack("<qqQIIQQQQ", 1, value, mailbox, event, 0, 0, 0, 0, 0))

    def value(self, va: int) -> int:
        return struct.unpack("<q", self.space.read(va + 8, 8))[0]

    def send(self, *packets: bytes) -> None:
        at = self.put[1]
        for packet in packets:
            check(len(packet) == 64)
            self.poke(RING + at % PACKETS * 64, packet)
            at += 1
        self.put[1] = at
        self.poke(WPTR, struct.pack("<Q", at))
        self.engines.doorbell(1, at - 1)


def dispatch(work: Work, grid, group=(32, 1, 1), signal: int = SIGNAL, **changes) -> bytes:
    """src: hsa.h hsa_kernel_dispatch_packet_t."""
    f = {
        "header": KERNEL | SYSTEM, "dims": 1, "private": work.private, "lds": work.lds,
        "kernel": work.descriptor_va, "kernarg": ARGUMENTS, "reserved": 0,
    } | changes  # fmt: skip
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", f["header"], f["dims"], *group, 0, *grid, f["private"], f["lds"],
        f["kernel"], f["kernarg"], f["reserved"], signal,
    )  # fmt: skip


def barrier(kind: int, *deps: int, signal: int = 0, header: int = SYSTEM) -> bytes:
    """src: hsa.h hsa_barrier_and_packet_t."""
    five = [*deps, *[0] * (5 - len(deps))]
    return struct.pack("<HHI5QQQ", kind | header, 0, 0, *five, 0, signal)


def buffer(va: int, count: int, signal: int = 0, remaining: int = 0xA) -> bytes:
    """src: amd_aql_queue.cpp ExecutePM4 amd_aql_pm4_ib; the jump is PACKET3(0x3f, 2), VALID."""
    jump = [0xC0023F00, va & 0xFFFFFFFF, va >> 32, 0x00800000 | count]
    return struct.pack("<HH4II8IQ", SYSTEM, 1, *jump, remaining, *[0] * 8, signal)


def barrier_value(signal: int, value: int, mask: int, condition: int, done: int = 0) -> bytes:
    """src: hsa_ext_amd.h hsa_amd_barrier_value_packet_t."""
    head = struct.pack("<HBBI", SYSTEM, 2, 0, 0)
    return head + struct.pack("<QqqIIQQQ", signal, value, mask, condition, 0, 0, 0, done)


def test_dispatch_completes() -> None:
    r = AqlRig()
    work = Work(r, "ids")
    r.signal(SIGNAL, 1, MAILBOX, 7)
    r.send(dispatch(work, (96, 1, 1)))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:96], ids(3, 32))
    check(r.value(SIGNAL) == 0 and r.host.interrupts == [7])
    check(int.from_bytes(r.space.read(MAILBOX, 8), "little") == 7)
    check(r.read_pointer() == 1 and r.rings[1].view(np.uint16)[0] == INVALID)
    check(r.engines.idle(1) and not r.host.violations)
    check(("acquire", "waves of queue 1") in r.log and ("release", "waves of queue 1") in r.log)


@pytest.mark.parametrize(("scope", "found"), [(0, True), (1, True), (2, False)])
def test_a_host_is_told_at_system_scope(scope: int, found: bool) -> None:
    r = AqlRig()
    r.signal(SIGNAL, 1, MAILBOX, 7)
    r.send(dispatch(Work(r, "ids"), (32, 1, 1), header=KERNEL | scope << 11))
    check(r.host.interrupts == [7])
    check([kind for kind, _ in r.host.violations] == ["unreleased"] * found)
    check((("release", "waves of queue 1") in r.log) is (scope > 0), "other queues see it")


@pytest.mark.parametrize("packet", ["and", "value"])
@pytest.mark.parametrize(
    ("scope", "profiled", "found"),
    [(0, True, False), (0, False, True), (1, True, True), (2, True, False)],
)
def test_a_marker_brings_the_host_a_time(
    packet: str, scope: int, profiled: bool, found: bool
) -> None:
    """src: ROCclr rocvirtual.cpp, submitMarker: hipEventRecord's packet releases nothing."""
    r = AqlRig()
    r.poke(QUEUE + 180, struct.pack("<I", profiled << 3))  # amd_hsa_queue.h: ENABLE_PROFILING
    r.signal(SIGNAL, 1, MAILBOX, 7)
    r.send(dispatch(Work(r, "ids"), (32, 1, 1), header=KERNEL, signal=0))
    header = 1 << 8 | scope << 11
    sent = barrier(AND, signal=SIGNAL, header=header)
    if packet == "value":
        sent = struct.pack("<H", header) + barrier_value(0, 0, 0, 0, SIGNAL)[2:]
    r.send(sent)
    check(r.host.interrupts == [7], str(r.host.faults))
    check([kind for kind, _ in r.host.violations] == ["unreleased"] * found)


def test_partial_groups_and_no_scopes() -> None:
    r = AqlRig()
    work = Work(r, "ids")
    r.send(dispatch(work, (40, 1, 1), header=KERNEL))
    np.testing.assert_array_equal(work.out[:40], ids(2, 32)[:40])
    check(not work.out[40:].any())
    check(("acquire", "waves of queue 1") not in r.log)
    check(("release", "waves of queue 1") not in r.log)


def test_lds_and_scratch() -> None:
    r = AqlRig()
    work = Work(r, "mirror")
    r.send(dispatch(work, (32, 1, 1)))
    np.testing.assert_array_equal(work.out[:32], np.arange(32)[::-1])
    r = AqlRig()
    work = Work(r, "scratch")
    r.memory.place(SCRATCH, np.zeros(1 << 20, np.uint8))
    units = -(-work.private * 32 // 256)
    r.poke(QUEUE + 140, struct.pack("<I", 4 | units << 12))
    r.poke(QUEUE + 160, struct.pack("<Q", SCRATCH))
    r.send(dispatch(work, (32, 1, 1)))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:32], (np.arange(32) + 3) % 8 * 10 + np.arange(32))


def test_too_little_scratch_asks_and_waits() -> None:
    r = AqlRig()
    work = Work(r, "scratch")
    r.signal(INACTIVE, 0)
    r.poke(QUEUE + 192, struct.pack("<Q", INACTIVE))
    r.send(dispatch(work, (32, 1, 1)))
    check(r.value(INACTIVE) == 0x400 and not work.out.any() and not r.engines.idle(1))
    r.memory.place(SCRATCH, np.zeros(1 << 20, np.uint8))
    r.poke(QUEUE + 140, struct.pack("<I", 4 | -(-work.private * 32 // 256) << 12))
    r.poke(QUEUE + 160, struct.pack("<Q", SCRATCH))
    r.engines.pump()
    check(not work.out.any(), "the signal still says so")
    r.signal(INACTIVE, 0)
    r.engines.pump()
    check(work.out.any() and r.engines.idle(1) and not r.host.faults)


def test_profiling_stamps_the_signal() -> None:
    r = AqlRig()
    r.poke(QUEUE + 180, struct.pack("<I", 1 << 3))
    r.send(dispatch(Work(r, "ids"), (32, 1, 1)))
    begin, end = struct.unpack("<QQ", r.space.read(SIGNAL + 32, 16))
    check(1000 <= begin < end < 1010)


@pytest.mark.parametrize(("kind", "first", "second"), [(AND, False, True), (OR, True, True)])
def test_barriers(kind: int, first: bool, second: bool) -> None:
    r = AqlRig()
    done = DATA + 0x10C0
    r.signal(done, 5)
    r.send(barrier(kind, SIGNAL, OTHER, signal=done))
    check(r.value(done) == 5 and not r.engines.idle(1))
    r.signal(SIGNAL, 0)
    r.engines.pump()
    check(r.engines.idle(1) is first)
    r.signal(OTHER, 0)
    r.engines.pump()
    check(r.engines.idle(1) is second and r.value(done) == 4)


def test_barrier_without_signals_passes() -> None:
    r = AqlRig()
    r.send(barrier(AND), barrier(OR))
    check(r.engines.idle(1) and r.read_pointer() == 2)


@pytest.mark.parametrize(
    ("condition", "no", "yes"), [(0, 3, 0x105), (1, 5, 4), (2, 5, 4), (3, 4, 5)]
)
def test_barrier_value(condition: int, no: int, yes: int) -> None:
    r = AqlRig()
    r.signal(SIGNAL, no)
    r.send(barrier_value(SIGNAL, 5, 0xFF, condition, OTHER))
    check(r.value(OTHER) == 1)
    r.signal(SIGNAL, yes)
    r.engines.pump()
    check(r.value(OTHER) == 0 and r.engines.idle(1))


def test_pm4_buffer() -> None:
    r = AqlRig()
    wait = [0xC0053C00, 0x15, 0x10000080, 0x7F, 7, 0xFFFFFFFF, 4]
    r.put_words(0x400, [*wait, 0xC0033700, 0x00100500, 0x10000040, 0x7F, 0x55])
    r.send(buffer(DATA + 0x400, 12, SIGNAL), barrier(AND, signal=OTHER))
    check(r.word(0x40) == 0 and r.value(SIGNAL) == 1 and r.read_pointer() == 0)
    r.put_words(0x80, [7])
    r.engines.pump()
    check(r.word(0x40) == 0x55 and r.value(SIGNAL) == 0 and r.value(OTHER) == 0)
    check(r.read_pointer() == 2 and not r.host.faults)


def test_every_die_runs_a_buffer_and_a_dispatch_takes_all_of_them() -> None:
    r = AqlRig(which=chip("gfx942", "gfx9", (4, 4, 2), xccs=8))
    pred_first_9 = [0xC0002300, 0x01000009]
    r.poke(DATA + 0x400, np.array([*pred_first_9, *2 * ATOMIC_ADD_64], "<u4").tobytes())
    r.send(buffer(DATA + 0x400, 20))
    check(r.word(0x40) == 9 * 5, "one die, then all eight")
    dispatch_on_one = [0xC0002300, 0x01000005, 0xC0031500, 1, 1, 1, 0x5]
    r.poke(DATA + 0x400, np.array(dispatch_on_one, "<u4").tobytes())
    r.send(buffer(DATA + 0x400, len(dispatch_on_one)))
    check(r.fault().kind == "unsupported", "PRED_EXEC around a dispatch")


def test_dies_that_share_scratch_memory_are_found() -> None:
    """In a buffer that all dies run; each needs a COMPUTE_DISPATCH_SCRATCH_BASE of its own."""
    r = AqlRig(which=chip("gfx942", "gfx9", (4, 4, 2), xccs=8))
    work = Work(r, "scratch", block=64, cpu="gfx942")
    rsrc3 = (0x22D, [work.rsrc3])  # src: gc_9_4_3_offset.h regCOMPUTE_PGM_RSRC3
    words = work.pm4((1, 1, 1), 0x5, rsrc3=rsrc3, tmpring=(0x218, [8 | 16 << 12]))
    r.memory.place(SCRATCH, np.zeros(1 << 20, np.uint8))
    r.poke(DATA + 0x400, np.array(words, "<u4").tobytes())
    r.send(buffer(DATA + 0x400, len(words)))
    check([kind for kind, _ in r.host.violations] == ["scratch overlaps"], str(r.host.violations))


def test_an_invalid_packet_stops_the_reader_until_it_is_valid() -> None:
    r = AqlRig()
    r.poke(WPTR, struct.pack("<Q", 1))
    r.engines.doorbell(1, 0)
    check(r.engines.waiting(1) and r.read_pointer() == 0)
    r.poke(RING, barrier(AND, signal=SIGNAL))
    r.engines.pump()
    check(r.read_pointer() == 1 and r.value(SIGNAL) == 0)


def test_the_ring_wraps_and_doorbells_may_come_out_of_order() -> None:
    r = AqlRig()
    for _ in range(PACKETS // 2 + 3):
        r.send(barrier(AND), barrier(AND))
    check(r.read_pointer() == PACKETS + 6 and r.engines.idle(1))
    r.engines.doorbell(1, 0)
    check(r.engines.idle(1) and not r.host.faults)


def test_overrun() -> None:
    r = AqlRig()
    r.engines.doorbell(1, PACKETS)
    check(r.fault().kind == "write pointer")


def _bad(words: bytes, offset: int, value: int) -> bytes:
    return words[:offset] + bytes([value]) + words[offset + 1 :]


PLAIN = barrier(AND)
BROKEN = {
    "agent dispatch": (_bad(PLAIN, 0, 4), 32),
    "header reserved": (_bad(PLAIN, 1, 0xE0), 32),
    "scope 3": (_bad(PLAIN, 1, 3 << 1), 32),
    "barrier reserved": (_bad(PLAIN, 50, 1), 32),
    "vendor format": (_bad(_bad(PLAIN, 0, 0), 2, 9), 256),
    "vendor reserved": (_bad(buffer(DATA, 4), 3, 1), 256),
    "dw_cnt_remain": (buffer(DATA, 4, remaining=9), 256),
    "condition 4": (barrier_value(SIGNAL, 0, 0, 4), 256),
    "a signal that is none": (barrier(AND, DATA + 0x2000), 32),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_packets_tell_the_owner_why(name: str) -> None:
    packet, code = BROKEN[name]
    r = AqlRig()
    r.poke(QUEUE + 192, struct.pack("<Q", INACTIVE))
    r.send(packet, barrier(AND, signal=SIGNAL))
    check(len(r.host.faults) == 1 and r.value(INACTIVE) == code, str(r.host.faults))
    check(r.value(SIGNAL) == 1 and r.read_pointer() == 0 and not r.engines.pump())


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"grid": (0, 1, 1)}, 2), ({"grid": (32, 2, 1)}, 2), ({"dims": 0}, 2), ({"dims": 5}, 32),
     ({"group": (1024, 2, 1), "dims": 2}, 64), ({"lds": 65537}, 4), ({"kernel": 0}, 8),
     ({"kernel": 0x7F_4000_0020}, 8), ({"reserved": 1}, 32)],
)  # fmt: skip
def test_broken_dispatches(changes: dict, code: int) -> None:
    r = AqlRig()
    r.poke(QUEUE + 192, struct.pack("<Q", INACTIVE))
    work = Work(r, "ids")
    r.send(dispatch(work, changes.pop("grid", (32, 1, 1)), changes.pop("group", (32, 1, 1)),
                    **changes))  # fmt: skip
    check(len(r.host.faults) == 1 and r.value(INACTIVE) == code, str(r.host.faults))
    check(not work.out.any() and r.value(SIGNAL) == 1)


def test_violations_about_a_careless_packet() -> None:
    r = AqlRig()
    work = Work(r, "mirror")
    r.poke(WPTR, struct.pack("<Q", 0))
    r.poke(RING, dispatch(work, (32, 1, 1), lds=0))
    r.poke(QUEUE + 24, struct.pack("<I", 3))
    r.engines.doorbell(1, 0)
    kinds = {kind for kind, _ in r.host.violations}
    check(kinds == {"too little LDS", "amd_queue_t", "stale write index"}, str(kinds))


def test_more_violations_about_a_careless_packet() -> None:
    r = AqlRig()
    work = Work(r, "scratch")
    r.memory.place(SCRATCH, np.zeros(1 << 20, np.uint8))
    r.poke(QUEUE + 140, struct.pack("<I", 4 | 64 << 12))
    r.poke(QUEUE + 160, struct.pack("<Q", SCRATCH))
    r.send(dispatch(work, (32, 1, 1), private=work.private - 4))
    check([kind for kind, _ in r.host.violations] == ["too little scratch"])
    r = AqlRig()
    work = Work(r, "ids")
    arguments = next(data for base, data, _ in r.memory.regions if base == ARGUMENTS)
    r.memory.place(ARGUMENTS + 0x1008, arguments)
    r.send(dispatch(work, (32, 1, 1), kernarg=ARGUMENTS + 0x1008))
    check([kind for kind, _ in r.host.violations] == ["misaligned kernarg"])
    np.testing.assert_array_equal(work.out[:32], ids(1, 32))


def test_arguments_are_preloaded() -> None:
    """src: LLVM AMDGPUUsage: firmware that preloads starts 256 bytes behind the entry."""
    r = AqlRig(which=chip("gfx942", "gfx9", (4, 4, 2), xccs=8))
    work = Work(r, "preload", block=64, cpu="gfx942")
    check(work.descriptor[58] & 0x7F, "LLVM preloads no argument")
    for number, (base, data, writable) in enumerate(r.memory.regions):
        if base == CODE:
            image, at = data.copy(), work.entry - CODE
            image[at : at + 256] = 0xFF  # what firmware without preloading runs: no instruction
            r.memory.regions[number] = (base, image, writable)
    r.send(dispatch(work, (128, 1, 1), (64, 1, 1)))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:128], ids(2, 64))


@pytest.mark.parametrize("barrier_bit", [0, 1])
def test_the_barrier_bit_waits_for_the_kernels_before(barrier_bit: int) -> None:
    r = AqlRig()
    work = Work(r, "ids")
    r.send(dispatch(work, (32, 1, 1), header=KERNEL))
    r.log.clear()
    r.send(dispatch(work, (32, 1, 1), header=KERNEL | barrier_bit << 8 | 2 << 9))
    released = ("release", "waves of queue 1") in r.log
    check(released is bool(barrier_bit), "a kernel that still runs has written nothing back")


def test_an_amd_queue_without_its_offset() -> None:
    r = AqlRig()
    r.poke(RPTR + 8, struct.pack("<I", 0))
    r.send(barrier(AND))
    check("read_dispatch_id" in str(r.fault()))


def test_a_fault_in_a_kernel_leaves_its_signal_alone() -> None:
    r = AqlRig()
    r.send(dispatch(Work(r, "fault"), (32, 1, 1)))
    check(r.fault().access == "write" and r.value(SIGNAL) == 1 and not r.engines.idle(1))
