"""Blocks of the bare GPU on a board at register level: memory, queues, interrupts, faults."""

from __future__ import annotations

from typing import Any

import pytest

from boards.amd.pci.gpu import PciGpu
from drivers.amd.pci import fault, gfx, gmc, ih, sdma
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.ih import Cause
from drivers.base.errors import BadArgument, Busy, DeviceTimeout, Unsupported
from drivers.gpu.incident import PageFault
from queues.amd import aql, pm4
from queues.amd import sdma as copies
from tests.amd_pci_bench import (
    NAMES,
    PAGE,
    VMID,
    BenchQueue,
    Process,
    bring_up,
    brought_up,
    identified,
    violations,
)
from tests.support import check

REPRESENTATIVE = ("gfx1100", "gfx1201", "gfx942")
WARM_READS = 160
"""Of the blocks under test; the whole boot may read 900 and 200 times."""


def stamp(name: str, va: int, value: int, event: int = 0) -> list[int]:
    """A number to an address and an interrupt, after everything before."""
    flavour = pm4.flavour_of(name)
    return pm4.release_mem(
        flavour, addr=va, data=value, data_sel=pm4.DataSel.SEND_64_BIT_DATA,
        int_sel=pm4.IntSel.SEND_INTERRUPT_AFTER_WRITE_CONFIRM, int_ctxid=event,
        caches=flavour.release_all,
    )  # fmt: skip


def quiet(board: PciGpu) -> None:
    check(not violations(board), "\n".join(violations(board)))


def troubles(gpu: BareGpu) -> list[PageFault]:
    entries = [entry for entry in ih.poll(gpu) if entry.cause is Cause.PAGE_FAULT]
    return [fault.merged(entry, gmc.read_fault(gpu)).page for entry in entries]


@pytest.mark.parametrize("name", NAMES)
def test_from_registers_to_results(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    data = process.alloc(PAGE)
    queue = BenchQueue(process, "PM4")
    queue.start()
    reads = gpu.mmio.reads
    queue.submit(pm4.write_data(dst=data, data=[0x1234]) + stamp(name, data + 8, 77, 5))
    check(gpu.mmio.reads == reads + 1, "a launch reads one register: it posts the flush")
    check((process.read64(data), process.read64(data + 8)) == (0x1234, 77))
    (entry,) = ih.poll(gpu)
    check((entry.cause, entry.vmid, entry.data[0]) == (Cause.END_OF_PIPE, VMID, 5), f"{entry}")
    check(gpu.mmio.reads == reads + 1, "looking for interrupts read registers")
    check(queue.stop())
    quiet(board)


@pytest.mark.parametrize("name", NAMES)
def test_copies(name: str) -> None:
    board, gpu = brought_up(name)
    process, engine = Process(board, gpu), copies.engine_of(name)
    source, target, done = (process.alloc(PAGE) for _ in range(3))
    process.write(source, bytes(range(64)))
    queue = BenchQueue(process, "SDMA", doorbell=0x100)
    queue.start()
    words = copies.copy_linear(engine, dst_addr=target, src_addr=source, count=64)
    queue.submit(words + copies.fence(engine, addr=done, data=9) + copies.trap(int_context=3))
    check(process.read(target, 64) == bytes(range(64)) and process.read64(done) == 9)
    (entry,) = ih.poll(gpu)
    check((entry.cause, entry.data[0]) == (Cause.COPY, 3), f"{entry}")
    check(queue.stop())
    sdma.down(gpu)
    quiet(board)


def test_every_copy_engine_of_a_chip_of_dies() -> None:
    board, gpu = brought_up("gfx942")
    process, engine = Process(board, gpu), copies.engine_of("gfx942")
    data, count = process.alloc(PAGE), len(sdma.engines(gpu))
    check(count == 16)
    for slot in range(count):
        queue = BenchQueue(process, "SDMA", doorbell=0x100 + 0xA * slot, slot=slot)
        queue.start()
        queue.submit(copies.fence(engine, addr=data + 8 * slot, data=slot + 1))
        check(process.read64(data + 8 * slot) == slot + 1, f"engine {slot}")
    quiet(board)


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_aql_on_all_cores(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    data = process.alloc(PAGE)
    words = stamp(name, data, 42)
    buffer = process.alloc(PAGE)
    words += pm4.nop(words=8 - len(words) % 8) if len(words) % 8 else []
    process.write(buffer, b"".join(word.to_bytes(4, "little") for word in words))
    queue = BenchQueue(process, "AQL")
    queue.start()
    active = [gc for gc in _cores(gpu) if _active(gc)]
    check(len(active) == len(gpu.xccs), f"active on {len(active)} of {len(gpu.xccs)}")
    queue.submit(aql.pm4_ib(ib_base=buffer, ib_size=len(words)))
    check(process.read64(data) == 42)
    check(queue.stop() and not any(_active(gc) for gc in _cores(gpu)))
    quiet(board)


def _cores(gpu: BareGpu) -> list[Any]:
    return [gpu.block(gfx.HwId.GC, xcc) for xcc in gpu.xccs]


def _active(gc: Any) -> bool:
    gc.set("GRBM_GFX_CNTL", meid=1)
    value = gc.read("CP_HQD_ACTIVE")
    gc.write("GRBM_GFX_CNTL", 0)
    return bool(value)


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_page_faults_name_page_kind_and_unit(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    constant = process.alloc(PAGE, writable=False)
    nowhere = constant + PAGE
    for target, kind in ((nowhere + 0x40, "unmapped"), (constant + 0x80, "read-only")):
        queue = BenchQueue(process, "PM4")
        queue.start()
        queue.submit(pm4.write_data(dst=target, data=[1]))
        (page,) = troubles(gpu)
        wanted = (target & -PAGE, kind, "write")
        check((page.gpu_va, page.kind, page.access) == wanted, f"{page}")
        check(page.client in {"CPC", "CPF"}, f"{page}")
        gmc.clear_fault(gpu)
        check(gmc.read_fault(gpu) is None, "a fault that was cleared is still there")
        check(queue.stop(), "a queue with a fault does not stop")


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_copy_faults(name: str) -> None:
    board, gpu = brought_up(name)
    process, engine = Process(board, gpu), copies.engine_of(name)
    source = process.alloc(PAGE)
    queue = BenchQueue(process, "SDMA", doorbell=0x100)
    queue.start()
    queue.submit(copies.copy_linear(engine, dst_addr=source, src_addr=source + PAGE, count=64))
    (page,) = troubles(gpu)
    check((page.gpu_va, page.kind, page.access) == (source + PAGE, "unmapped", "read"), f"{page}")
    check(page.client == "SDMA0", f"{page}")
    gmc.clear_fault(gpu)
    check(queue.stop() == (name != "gfx942"), "an engine with a fault is reset, but on gfx942")
    if name != "gfx942":
        again = BenchQueue(process, "SDMA", doorbell=0x100)
        again.start()
        again.submit(copies.fence(engine, addr=source, data=4))
        check(process.read64(source) == 4, "the engine does not work after its reset")


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_unmapped_memory_is_out_of_reach_after_a_flush(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    data = process.alloc(PAGE)
    queue = BenchQueue(process, "PM4")
    queue.start()
    queue.submit(pm4.write_data(dst=data, data=[1]))
    process.unmap(data)
    queue.submit(pm4.write_data(dst=data, data=[2]))
    check([page.gpu_va for page in troubles(gpu)] == [data])
    check(process.read64(data) == 1, "a write through a translation that was flushed")
    check(not any("stale" in text for text in violations(board)), f"{violations(board)}")


def test_a_missing_flush_is_seen() -> None:
    board, gpu = brought_up("gfx1100")
    process = Process(board, gpu)
    data = process.alloc(PAGE)
    queue = BenchQueue(process, "PM4")
    queue.start()
    queue.submit(pm4.write_data(dst=data, data=[1]))
    process.unmap(data, flush=False)
    queue.submit(pm4.write_data(dst=data, data=[2]))
    check(any("stale" in text for text in violations(board)), "the board did not notice")


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_queue_that_waits_is_drained_or_reset(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    flag = process.alloc(PAGE)
    queue = BenchQueue(process, "PM4")
    queue.start()
    queue.submit(pm4.wait_mem(addr=flag, reference=1))
    check(queue.stop(), "neither drained nor reset")
    again = BenchQueue(process, "PM4")
    again.start()
    again.submit(stamp(name, flag, 3))
    check(process.read64(flag) == 3)
    quiet(board)


def test_the_order_of_a_queues_life() -> None:
    """The descriptor has arrived before the queue is active; banked registers are left alone."""
    board, gpu = brought_up("gfx1100")
    queue = BenchQueue(Process(board, gpu), "PM4")
    reported: list[Any] = []
    gpu.mmio.bus.trace = reported.append
    queue.start()
    names = [access.name for access in reported if access.op == "W"]
    active = len(names) - 1 - names[::-1].index("GC.CP_HQD_ACTIVE")
    check("HDP_MEM_FLUSH" in names[:active], f"{names}")
    check(names[active + 1 :] == ["GC.GRBM_GFX_CNTL"], f"{names[active:]}")
    check(gpu.block(gfx.HwId.GC).read("GRBM_GFX_CNTL") == 0)
    board.graphics.compute.hang((1, 0, 0), for_good=False)
    reported.clear()
    check(queue.stop())
    wanted = [("GC.CP_HQD_DEQUEUE_REQUEST", 1), ("GC.CP_HQD_DEQUEUE_REQUEST", 2),
              ("GC.SPI_COMPUTE_QUEUE_RESET", 1), ("GC.CP_HQD_DEQUEUE_REQUEST", 0)]  # fmt: skip
    found = [(t.name, t.value) for t in reported if t.op == "W" and t.name != "GC.GRBM_GFX_CNTL"]
    check(found == wanted, f"{found}")
    check(gpu.block(gfx.HwId.GC).read("GRBM_GFX_CNTL") == 0)


@pytest.mark.parametrize("kind", ["PM4", "SDMA"])
def test_a_queue_that_is_stuck_is_told(kind: Any) -> None:
    board, gpu = brought_up("gfx1100")
    queue = BenchQueue(Process(board, gpu), kind, doorbell=3 if kind == "PM4" else 0x100)
    queue.start()
    part: Any = board.graphics.compute if kind == "PM4" else board.graphics.sdma
    for key in part.queues():
        part.hang(key, for_good=True)
    check(not queue.stop())


def test_slots_are_used_once() -> None:
    board, gpu = brought_up("gfx1100")
    process = Process(board, gpu)
    for kind, doorbell in (("PM4", 3), ("SDMA", 0x100)):
        first: Any = BenchQueue(process, kind, doorbell=doorbell)
        first.start()
        with pytest.raises(Busy):
            first.start()
    with pytest.raises(Unsupported):
        BenchQueue(process, "SDMA", slot=1).start()
    with pytest.raises(BadArgument):
        BenchQueue(process, "PM4", slot=9).start()
    with pytest.raises(BadArgument):
        BenchQueue(process, "PM4", ring=3 * PAGE, slot=1).start()


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_interrupt_ring_wraps_and_overflows(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    queue = BenchQueue(process, "SDMA", doorbell=0x100, ring=64 * PAGE)
    queue.start()
    entries = 256 * 1024 // 32
    seen, burst = 0, 1000
    for _ in range(entries // burst + 2):
        queue.submit(_traps(seen, burst))
        found = [entry.data[0] for entry in ih.poll(gpu)]
        check(found == list(range(seen, seen + burst)), "interrupts are lost or out of order")
        seen += burst
    queue.submit(_traps(0, entries + 5))
    found = [entry.data[0] for entry in ih.poll(gpu)]
    check(0 < len(found) < entries and found[-1] == entries + 4, f"{len(found)}: {found[-3:]}")
    queue.submit(_traps(7, 1))
    check([entry.data[0] for entry in ih.poll(gpu)] == [7], "no interrupts after an overflow")


def _traps(first: int, count: int) -> list[int]:
    return [word for at in range(first, first + count) for word in copies.trap(int_context=at)]


@pytest.mark.parametrize("name", NAMES)
def test_leaving_and_coming_back(name: str) -> None:
    board, gpu = brought_up(name)
    process = Process(board, gpu)
    queue = BenchQueue(process, "PM4")
    queue.start()
    gfx.down(gpu)
    sdma.down(gpu)
    check(not any(_active(gc) for gc in _cores(gpu)), "a queue is still active")
    later = identified(board)
    reads = later.mmio.reads
    bring_up(later, warm=True)
    check(later.mmio.reads - reads <= WARM_READS, f"{later.mmio.reads - reads} reads")
    process = Process(board, later)
    data = process.alloc(PAGE)
    queue = BenchQueue(process, "PM4")
    queue.start()
    queue.submit(stamp(name, data, 6))
    check(process.read64(data) == 6)
    quiet(board)


@pytest.mark.parametrize(("name", "most"), [("gfx1100", 40), ("gfx1201", 45), ("gfx942", 120)])
def test_few_reads_to_bring_up(name: str, most: int) -> None:
    board, gpu = brought_up(name)
    fresh = identified(board)
    identify = fresh.mmio.reads
    check(gpu.mmio.reads - identify <= most, f"{gpu.mmio.reads - identify} reads")


def test_a_flush_that_is_not_acknowledged_names_its_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, gpu = brought_up("gfx1100")
    gc = _cores(gpu)[0]
    silent = 4 * gc.dword("VM_INVALIDATE_ENG17_ACK")
    region: Any = gpu.mmio.bus.region
    read32 = region.read32
    monkeypatch.setattr(region, "read32", lambda off: 0 if off == silent else read32(off))
    gpu.mmio.step = "flush"
    with pytest.raises(DeviceTimeout) as caught:
        gmc.flush_tlb(gpu, VMID)
    check("VM_INVALIDATE_ENG17_ACK" in caught.value.register, caught.value.register)
    check(str(caught.value).startswith("flush: "), str(caught.value))
