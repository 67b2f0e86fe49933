"""Queues on a whole board: page tables, coherence and poison around real kernels."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from boards.amd.wave.types import WaveFault
from tests.boards.board_driver import PAGE, SIGNALS, Driver, words
from tests.boards.engine_kernels import ids, load, user_data
from tests.support import check

BLOCK, GROUPS = 64, 3
CHIPS = ["gfx1100", "gfx1201", "gfx1030", "gfx942"]
# src: nvd.h, soc15d.h: ACQUIRE_MEM of every cache, as the kernel's *_emit_mem_sync
ACQUIRE_NV = [0xC0065800, 0, 0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA, 0xC3B1]
ACQUIRE_SOC15 = [0xC0055800, 0x28C40000, 0xFFFFFFFF, 0x00FFFFFF, 0, 0, 0xA]


OPEN: list = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    for machine in OPEN:
        machine.close()
    OPEN.clear()


class Machine(Driver):
    """A driver on a board with real engines."""

    def __init__(self, name: str) -> None:
        self.places: list = []
        self.name, self.gfx9 = name, name == "gfx942"
        self.world = open_board(name, vram_bytes=1 << 30, options=Options(gtt_bytes=32 << 20))
        self.start()
        OPEN.append(self)
        self.shared = self.buffer(PAGE, SIGNALS)
        self.kernarg = self.buffer(PAGE, SIGNALS)
        self.out, self.back = self.buffer(PAGE), self.buffer(PAGE, SIGNALS)
        self.code = self.buffer(2 * PAGE)
        self.signal = words(self.shared.region)

    def place(self, kernel: str) -> SimpleNamespace:
        """Code and arguments of a kernel where the GPU sees them."""
        loaded = load(kernel, self.name)
        self.code.region.write(0, bytes(loaded.image) + bytes(512))
        arguments = struct.pack("<QI", self.out.va, BLOCK)
        self.kernarg.region.write(0, arguments + bytes(272))
        descriptor = bytes(loaded.image[loaded.descriptor :][:64])
        kd = np.frombuffer(descriptor, np.uint32)
        return SimpleNamespace(
            entry=self.code.va + loaded.entry, descriptor=self.code.va + loaded.descriptor,
            rsrc1=int(kd[12]), rsrc2=int(kd[13]), rsrc3=int(kd[11]),
            wave32=int(kd[14]) >> 10 & 1, user=user_data(descriptor, self.kernarg.va),
        )  # fmt: skip

    def queue(self, kind: int) -> SimpleNamespace:
        parts = self.queue_parts()
        number, offset = self.create_queue(parts, kind)
        ring = words(parts.ring.region)
        bells = self.doorbells(offset)
        return SimpleNamespace(
            parts=parts, ring=ring, put=0, bells=bells, bell=offset & 0x1FFF, number=number
        )

    def send(self, queue: SimpleNamespace, packets: list[int], scale: int = 1) -> None:
        queue.ring[queue.put : queue.put + len(packets)] = np.array(packets, np.uint32)
        queue.put += len(packets)
        queue.parts.wptr.region.write64(0, queue.put * scale)
        queue.bells.write64(queue.bell, queue.put * scale)

    def launch(self, kernel: str, scratch: int = 0) -> list[int]:
        """ACQUIRE_MEM, SET_SH_REG, DISPATCH_DIRECT, as the gc headers of the chip number them."""
        k = self.place(kernel)
        registers = [
            (0x20C, [k.entry >> 8 & 0xFFFFFFFF, k.entry >> 40]), (0x212, [k.rsrc1, k.rsrc2]),
            (0x22D if self.gfx9 else 0x228, [k.rsrc3]), (0x240, k.user), (0x215, [0]),
            (0x204, [0, 0, 0, BLOCK, 1, 1, 0, 0]),
        ]  # fmt: skip
        if scratch:
            # COMPUTE_TMPRING_SIZE: 8 waves (of each shader engine from gfx11 on), 4 KiB each
            unit = 256 if self.name in ("gfx1100", "gfx1201") else 1024
            registers += [(0x218, [8 | 4096 // unit << 12])]
            registers += [(0x210, [scratch >> 8 & 0xFFFFFFFF, scratch >> 40])]
        if scratch and self.name == "gfx1030":
            # src: tinygrad ops_amd.py exec: base, swizzle, no limit, format and lane numbers
            k.user[:4] = [scratch & 0xFFFFFFFF, scratch >> 32 | 1 << 31, 0xFFFFFFFF, 0x20C14000]
        packets = list(ACQUIRE_SOC15 if self.gfx9 else ACQUIRE_NV)
        for offset, values in registers:
            packets += [0xC0007600 | len(values) << 16, offset, *values]
        return [*packets, 0xC0031500, GROUPS, 1, 1, 0x5 | k.wave32 << 15]

    def release(self, value: int, flush: bool = True) -> list[int]:
        back = 0x00008000 if self.gfx9 else 0x00200000
        va = self.shared.va
        control = 0x514 | (back if flush else 0)
        return [0xC0064900, control, 0x40000000, va & 0xFFFFFFFF, va >> 32, value, 0, 0]

    def copy_back(self) -> list[int]:
        """SDMA: wait for the signal, copy, fence."""
        source, target, va = self.out.va, self.back.va, self.shared.va
        wait = [0xD0000008, va & 0xFFFFFFFF, va >> 32, 1, 0xFFFFFFFF, 0x0FFF0004]
        copy = [
            1,
            PAGE - 1,
            0,
            source & 0xFFFFFFFF,
            source >> 32,
            target & 0xFFFFFFFF,
            target >> 32,
        ]
        fence = [0x00000005 if self.gfx9 else 0x00030005, va + 8 & 0xFFFFFFFF, va >> 32, 1]
        return wait + copy + fence

    def violations(self) -> list[str]:
        return [violation.kind for violation in self.world.hardware.violations]


@pytest.mark.parametrize("name", CHIPS)
def test_a_kernel_and_a_copy_of_its_result(name: str) -> None:
    m = Machine(name)
    compute, copies = m.queue(0), m.queue(1)
    m.out.region.write(0, bytes(PAGE))
    m.send(copies, m.copy_back(), 4)
    check(m.signal[2] == 0, "the copy waits")
    m.send(compute, m.launch("ids") + m.release(1))
    check(m.signal[0] == 1 and m.signal[2] == 1)
    expected = ids(GROUPS, BLOCK)
    np.testing.assert_array_equal(words(m.back.region)[: len(expected)], expected)
    check(m.violations() == [], str(m.world.hardware.violations))
    check(compute.parts.rptr.region.read64(0) == compute.put)
    check(copies.parts.rptr.region.read64(0) == 4 * copies.put)


def test_a_copy_of_what_was_not_flushed_is_found() -> None:
    m = Machine("gfx1100")
    compute, copies = m.queue(0), m.queue(1)
    m.send(compute, m.launch("ids") + m.release(1, flush=False))
    m.send(copies, m.copy_back(), 4)
    check("stale read" in m.violations(), str(m.world.hardware.violations))


def test_a_kernel_that_another_queue_overwrote_its_input_of_is_found() -> None:
    m = Machine("gfx1100")
    first, second = m.queue(0), m.queue(0)
    packets = m.launch("copy")
    m.out.region.write(0, bytes(PAGE))
    m.send(second, packets + m.release(1))
    check(m.violations() == [], str(m.world.hardware.violations))
    m.send(first, m.launch("ids") + m.release(2))
    m.send(second, m.launch("copy")[len(ACQUIRE_NV) :] + m.release(3))
    check("stale read" in m.violations(), "without ACQUIRE_MEM")


def test_an_acquire_of_one_queue_acts_for_all() -> None:
    """Data caches are the compute units', as the instruction caches are."""
    m = Machine("gfx1100")
    first, second = m.queue(0), m.queue(0)
    m.out.region.write(0, bytes(PAGE))
    m.send(second, m.launch("copy") + m.release(1))
    m.send(first, m.launch("ids") + m.release(2) + FLUSH + ACQUIRE_NV)
    m.send(second, m.launch("copy")[len(ACQUIRE_NV) :] + m.release(3))
    check(m.signal[0] == 3 and m.violations() == [], str(m.world.hardware.violations))


def test_a_new_queue_finds_what_others_have_filled() -> None:
    m = Machine("gfx1100")
    first = m.queue(0)
    m.out.region.write(0, bytes(PAGE))
    m.send(first, m.launch("ids") + m.release(1))
    second = m.queue(0)
    m.send(second, m.launch("copy")[len(ACQUIRE_NV) :] + m.release(2))
    check("stale read" in m.violations(), "its compute units may hold older lines")


def test_a_fault_names_the_address_and_the_next_queue_works() -> None:
    m = Machine("gfx1100")
    seen = []
    queue = m.queue(0)
    host = m.device().engines.host
    original = host.queue_fault
    host.queue_fault = lambda spec, error: (seen.append(error), original(spec, error))
    m.send(queue, m.launch("fault") + m.release(1))
    check(m.signal[0] == 0 and isinstance(seen[0], WaveFault) and seen[0].kind == "unmapped")
    m.call("destroy_queue", queue.number)
    again = m.queue(0)
    m.send(again, m.launch("ids") + m.release(2))
    check(m.signal[0] == 2)


# src: nvd.h EVENT_WRITE of CS_PARTIAL_FLUSH, index 4
FLUSH = [0xC0004600, 0x407]


@pytest.mark.parametrize(
    ("between", "acquire", "found"),
    [(FLUSH, True, []), ([], True, ["stale read"]), (FLUSH, False, ["stale read"])],
)
def test_a_kernel_that_reads_what_the_one_before_wrote(
    between: list[int], acquire: bool, found: list[str]
) -> None:
    m = Machine("gfx1100")
    queue = m.queue(0)
    m.out.region.write(0, bytes(PAGE))
    first = m.launch("both")
    again = first if acquire else first[len(ACQUIRE_NV) :]
    m.send(queue, first + between + again + m.release(1))
    check(words(m.out.region)[0] == 2)
    check(m.signal[0] == 1 and m.violations() == found, str(m.world.hardware.violations))


@pytest.mark.parametrize(("late", "waits"), [(False, True), (True, True), (False, False)])
def test_a_wait_for_an_end_of_pipe_value_is_a_wait_for_its_dispatches(
    late: bool, waits: bool
) -> None:
    m = Machine("gfx1100")
    queue, va = m.queue(0), m.shared.va
    m.out.region.write(0, bytes(PAGE))
    # src: nvd.h WAIT_REG_MEM: memory, >=; and a value that the release before the dispatch wrote
    wait = [0xC0053C00, 0x15, va & 0xFFFFFFFF, va >> 32, 1, 0xFFFFFFFF, 4]
    first = m.launch("both")
    packets = [*m.release(1), *first] if late else [*first, *m.release(1)]
    m.send(queue, [*packets, *(wait if waits else []), *first, *m.release(2)])
    check(m.signal[0] == 2)
    expected = [] if waits and not late else ["stale read"]
    check(m.violations() == expected, str(m.world.hardware.violations))


@pytest.mark.parametrize("name", CHIPS)
def test_an_aql_queue(name: str) -> None:
    """Two dispatches, the second reads what the first wrote; structures as in test_cp_aql."""
    m = Machine(name)
    parts, control = m.queue_parts(), m.buffer(PAGE, SIGNALS)
    _, offset = m.create_queue(parts, 2, wptr=control.va + 56, rptr=control.va + 128)
    ring, packets = parts.ring, parts.ring.nbytes // 64
    control.region.write(8, struct.pack("<Q", ring.va))
    control.region.write(24, struct.pack("<I", packets))
    control.region.write(136, struct.pack("<I", 128))
    signal = m.shared.va + 64
    m.shared.region.write(64, struct.pack("<qqQIIQQQQ", 1, 2, 0, 0, 0, 0, 0, 0, 0))
    m.out.region.write(0, bytes(PAGE))
    k = m.place("both")
    barrier, scopes = 1 << 8, 2 << 9 | 2 << 11
    packet = struct.pack(
        "<HHHHHHIIIIIQQQQ", 2 | barrier | scopes, 1, BLOCK, 1, 1, 0, GROUPS * BLOCK, 1, 1, 0, 0,
        k.descriptor, m.kernarg.va, 0, signal,
    )  # fmt: skip
    ring.region.write(0, packet + packet)
    control.region.write64(56, 2)
    m.doorbells(offset).write64(offset & 0x1FFF, 1)
    check(m.shared.region.read64(72) == 0, "both have counted the signal down")
    check(control.region.read64(128) == 2)
    np.testing.assert_array_equal(words(m.out.region)[: GROUPS * BLOCK], 2)
    check(m.violations() == [], str(m.world.hardware.violations))


@pytest.mark.parametrize("name", CHIPS)
def test_scratch(name: str) -> None:
    m = Machine(name)
    queue, scratch = m.queue(0), m.buffer(1 << 20)
    m.out.region.write(0, bytes(PAGE))
    m.send(queue, m.launch("scratch", scratch.va) + m.release(1))
    item = np.arange(BLOCK)
    expected = np.tile((item + 3) % 8 * 10 + item, GROUPS)
    np.testing.assert_array_equal(words(m.out.region)[: len(expected)], expected)
    check(m.signal[0] == 1)
    check(m.violations() == [], str(m.violations()))
