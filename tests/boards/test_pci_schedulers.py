"""Queues of the schedulers: what has to run before one is activated, and how it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from boards.amd.cp import kernel, layouts
from tests.boards.pci_bringup import COMPUTE_DOORBELL, MQD, RING_BYTES, VMID, Bringup, release
from tests.boards.pci_rig import VALID
from tests.support import check

# src: mes_v11_0.c mes_v11_0_kiq_ring_init(): micro engine 3, pipe 1, queue 0
ME, PIPE = 3, 1
NAMES_KIQ = 0x80 | ME << 5 | PIPE << 3
"""src: mes_v11_0_kiq_setting()"""
KMD_QUEUE = 1 << 31
"""src: gc_11_0_0_sh_mask.h CP_HQD_PQ_CONTROL__KMD_QUEUE"""
DEQUEUE, RB_CNTL = "CP_HQD_DEQUEUE_REQUEST", "SDMA0_QUEUE0_RB_CNTL"


def kiq(*, running: bool = True, doorbell: int = 1 << 30) -> tuple[Bringup, SimpleNamespace]:
    """A GPU with the interface queue activated by its registers."""
    board = Bringup("gfx1100").boot()
    board.context(0, board.root | VALID)
    if running:
        board.fields("GC", "CP_MES_CNTL", mes_pipe1_active=1)
        board.write("GC", "RLC_CP_SCHEDULERS", NAMES_KIQ)
    ring, pointers, eop = board.buffer(RING_BYTES), board.buffer(), board.buffer()
    made = SimpleNamespace(ring=ring, pointers=pointers, put=0, queue=0, eop=eop)
    board.flush(0)
    board.select(me=ME, pipe=PIPE)
    control = doorbell | COMPUTE_DOORBELL << 2
    board.hqd(made, 0, 0, 0, CP_HQD_PQ_DOORBELL_CONTROL=control)
    board.select()
    return board, made


def is_active(board: Bringup, pipe: int = PIPE) -> bool:
    board.select(me=ME, pipe=pipe)
    found = board.read("GC", "CP_HQD_ACTIVE")
    board.select()
    return bool(found & 1)


def test_the_interface_queue_takes_its_doorbell_until_it_is_dequeued() -> None:
    board, made = kiq()
    check(board.violations() == [] and is_active(board), str(board.violations()))
    board.submit(made, [0xFFFF_1000])
    check(board.violations() == [], str(board.violations()))
    board.select(me=ME, pipe=PIPE)
    board.write("GC", DEQUEUE, 1)
    check(board.read("GC", DEQUEUE) == 0, "the request was taken")
    board.select()
    check(not is_active(board), "dequeued")
    board.submit(made, [0xFFFF_1000])
    check("doorbell without a queue" in board.violations()[0], str(board.violations()))


def test_the_interface_queue_is_switched_off() -> None:
    board, made = kiq()
    board.select(me=ME, pipe=PIPE)
    board.write("GC", "CP_HQD_ACTIVE", 0)
    board.select()
    board.submit(made, [0xFFFF_1000])
    check("doorbell without a queue" in board.violations()[0], str(board.violations()))


def test_its_engine_has_to_run_and_to_know_of_it() -> None:
    board, _ = kiq(running=False)
    found = " ".join(board.violations())
    check("pipe 1 is not active" in found and "RLC_CP_SCHEDULERS" in found, found)
    board = Bringup("gfx1100").boot()
    board.fields("GC", "CP_MES_CNTL", mes_pipe1_active=1, mes_halt=1, mes_pipe1_reset=1)
    board.gpu.board.options = type(board.gpu.options)()
    board.gpu.board.loaded.discard("CP_MES_KIQ")
    board.select(me=ME, pipe=PIPE)
    board.write("GC", "CP_HQD_ACTIVE", 1)
    found = " ".join(board.violations())
    for why in ("is halted", "in reset", "firmware is not there (CP_MES_KIQ)"):
        check(why in found, found)


def test_it_needs_a_doorbell_and_a_flush() -> None:
    board, _ = kiq(doorbell=0)
    check("it has no doorbell" in board.violations()[0], str(board.violations()))
    check(not is_active(board), "it was refused")
    board, _ = kiq()
    board.gpu.board.flush_hdp()
    board.gpu.board.registers.write(board.block("GC").address_dw("GRBM_GFX_CNTL"), PIPE | ME << 2)
    board.write("GC", "CP_HQD_ACTIVE", 1)
    check("HDP flush under way" in board.violations()[0], str(board.violations()))


def test_gfx9_has_no_third_micro_engine() -> None:
    board = Bringup("gfx942").boot()
    board.select(me=ME, pipe=PIPE)
    board.write("GC", "CP_HQD_ACTIVE", 1)
    check("is activated: it is neither" in board.violations()[0], str(board.violations()))
    check(not is_active(board), "it was refused")


def test_schedulers_doorbells_are_eight_bytes() -> None:
    board, _ = kiq()
    board.hdp()
    board.gpu.write(2, 4 * COMPUTE_DOORBELL, 4, 0)
    check("4 bytes are stored, not 8" in board.violations()[0], str(board.violations()))


def test_a_route_to_the_interrupt_ring_leads_to_no_queue() -> None:
    board = Bringup("gfx1100").boot()
    board.compute()
    board.flush()
    graphics = board.gpu.graphics
    check(not graphics._doorbell("IH", COMPUTE_DOORBELL, 8, 0), "a compute queue heard it")
    check(graphics._doorbell("GC", COMPUTE_DOORBELL, 8, 0), "the queue listens")


@pytest.mark.parametrize("vmid", [0, VMID])
def test_a_queue_of_registers_is_not_the_kernels(vmid: int) -> None:
    """KMD_QUEUE in a register that a driver writes gives no privileges."""
    board = Bringup("gfx1100").boot()
    board.context(0, board.root | VALID)
    made = board.compute(vmid=vmid, CP_HQD_PQ_CONTROL=KMD_QUEUE | 0x509)
    board.flush(vmid)
    signal, _ = board.buffer()
    board.flush(vmid)
    board.submit(made, release(signal, 1))
    live = board.gpu.graphics.compute.queues()[1, 0, 0]
    check(live is not None and live.spec.kernel is None, "privileged")


def test_a_scheduler_keeps_the_rules_of_the_kernels_own_queues() -> None:
    """src: gfx_v11_0_cp_set_doorbell_range(): the kernel's own doorbells are in the range."""
    board = Bringup("gfx1100").boot()
    compute, key = board.gpu.graphics.compute, (1, 0, 0)
    for chosen in (True, False):
        board.compute(CP_HQD_PQ_DOORBELL_CONTROL=1 << 30 | 0x4000 << 2)
        board.dequeue(1)
        board.hardware.forget_violations()
        board.hdp()
        compute.activate(key, chosen_vmid=chosen, for_kernel=not chosen)
        found = " ".join(board.violations())
        check(("is not in the engine's range" in found) != chosen, found)
        compute.deactivate(0x4000)


def test_inherited_vmids_are_the_kernels() -> None:
    """src: gfx_v11_0_ring_emit_ib_compute(): bit 30 of an INDIRECT_BUFFER's size"""
    process = layouts.layouts("gfx11")[layouts.INDIRECT_BUFFER].reserved[2]
    ours = kernel.LAYOUTS[kernel.COMPUTE][layouts.INDIRECT_BUFFER].reserved[2]
    check((process >> 30 & 1, ours >> 30 & 1) == (1, 0), f"{process:#x} {ours:#x}")
    check(process & ~ours == 1 << 30, "nothing else differs")


def test_a_copy_ring_that_was_dropped_is_not_scheduled() -> None:
    board = Bringup("gfx1100").boot()
    sdma = board.gpu.graphics.sdma
    for end in (lambda: sdma.reset_engine(0), lambda: board.write("GC", RB_CNTL, 0)):
        board.sdma()
        ring = sdma._ring(0, 0)
        ring.scheduled = True
        end()
        check(not ring.scheduled, "its doorbell still comes by the graphics block's route")
        board.write("GC", RB_CNTL, 0)


@pytest.mark.parametrize(("role", "found"), [("KIQ", 0), ("MES", 0), ("graphics", 1)])
def test_who_may_invalidate_without_the_semaphore(role: str, found: int) -> None:
    """src: gmc_v11_0_flush_gpu_tlb(): none where KIQ or MES does it for the driver"""
    board = Bringup("gfx1100").boot()
    request = board.block("MMHUB").address_dw("MMVM_INVALIDATE_ENG17_REQ")
    board.gpu.board.flush_hdp()  # under way: another CPU's, and none of the engine's business
    with board.gpu.board.by_engine(role):
        board.gpu.board.registers.write(request, 0xF8_0100)
    check(len(board.violations()) == found, str(board.violations()))
    check(all("semaphore" in text for text in board.violations()), str(board.violations()))


@pytest.mark.parametrize("kfd", [True, False])
def test_a_queue_of_kfds_processes_is_never_the_kernels(kfd: bool) -> None:
    """src: mes_v11_api_def.h is_kfd_process; amdgpu_mes_self_test() adds queues without it"""
    board = Bringup("gfx1100").boot()
    made = board.compute(CP_HQD_PQ_CONTROL=KMD_QUEUE | 0x509)
    board.dequeue(1)
    board.flush()
    queues, mqd = board.gpu.graphics.kernel_queues, board.gpu.board.mc_base + MQD
    why = queues.map_queue(kernel.COMPUTE, 0, 0, mqd, VMID, kfd=kfd)
    check(not why, why)
    board.submit(made, [0xFFFF_1000])
    live = board.gpu.graphics.compute.queues()[1, 0, 0]
    check(live is not None and (live.spec.kernel is None) == kfd, "privileges")


def test_the_scheduler_ring_stops_and_takes_eight_bytes() -> None:
    board, _ = kiq()
    queues, mqd = board.gpu.graphics.kernel_queues, board.gpu.board.mc_base + MQD
    board.fields("GC", "CP_MES_CNTL", mes_pipe0_active=1)
    board.select(me=ME, pipe=PIPE)
    board.write("GC", DEQUEUE, 1)
    board.select()
    check(queues.map_queue("MES", 0, 0, mqd) == "", "the scheduler's ring")
    check(is_active(board, pipe=0), "active")
    board.hdp()
    board.gpu.write(2, 4 * COMPUTE_DOORBELL, 4, 0)
    check("4 bytes are stored, not 8" in board.violations()[0], str(board.violations()))
    check(queues.unmap_queue("MES", COMPUTE_DOORBELL) == "", "unmapped")
    check(not is_active(board, pipe=0), "no longer")
    check(not board.gpu.graphics.mes.doorbell(COMPUTE_DOORBELL, 8, 0), "it hears its doorbell")
