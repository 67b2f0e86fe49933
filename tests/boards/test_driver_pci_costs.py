"""A bare GPU: what it costs the bus, what it is shown of the host, its small windows, its clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from boards.amd.machine import Options
from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions, open_pci_board
from drivers.amd import opening
from drivers.base.errors import NotFound, Unsupported
from tests.boards.driver_harness import add, device_on, device_over_pci, get, open_over_pci, put
from tests.boards.test_driver_over_pci import BIG_BYTES, KINDS, MIB, SECRET, VRAM_BYTES, N, work
from tests.support import check

SLACK_S = 0.5
"""More than clocks are apart after a look; much less than a machine is up."""


def test_what_a_launch_costs_the_bus() -> None:
    """Not one register is read; a ring in VRAM takes a flush of the BAR, a write and a read."""
    for iommu, reads, writes in ((True, 0, 1), (False, 1, 2)):
        with device_over_pci("gfx1100", "PM4", iommu=iommu) as (board, device):
            program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))
            device.launch(program, [x, x, x, N], 1)
            before = board.panel.reads, board.panel.writes
            device.launch(program, [x, x, x, N], 1)
            after = board.panel.reads, board.panel.writes
            cost = after[0] - before[0], after[1] - before[1]
            check(cost == (reads, writes), f"{before} {after}")


def test_what_a_signal_of_the_host_costs_the_bus() -> None:
    """A queue that waits sees it at once: in VRAM that takes a flush, a write and a read."""
    for iommu, accesses in ((True, 0), (False, 1)):
        with device_over_pci("gfx1100", "PM4", iommu=iommu) as (board, device):
            x, go = put(device, np.ones(N, np.float32)), device.new_signal()
            program = device.load(add("gfx1100"))
            device.compute_queue().wait(go, 1).exec(program, [x, x, x, N]).submit()
            before = board.panel.reads, board.panel.writes
            go.set(1)
            after = board.panel.reads, board.panel.writes
            cost = after[0] - before[0], after[1] - before[1]
            check(cost == (accesses, accesses), f"{before} {after}")
            np.testing.assert_array_equal(get(device, x), np.full(N, 2, np.float32))


@KINDS
def test_times_of_the_gpu_are_the_hosts(chip: str, queue: str) -> None:
    """Of queues and of the host's own signals alike: between two looks at the host's clock."""
    with device_on(chip, queue) as (_, device):
        now_s, signal = device.iface.world.monotonic_s, device.new_signal()
        check(signal.timestamp_ns == 0, "nobody signalled")
        before_s = now_s() - SLACK_S
        device.compute_queue().timestamp(signal).submit()
        device.synchronize()
        check(before_s < signal.timestamp_ns / 1e9 < now_s() + SLACK_S, f"{signal.timestamp_ns}")
        signal.set(1)
        check(before_s < signal.timestamp_ns / 1e9 < now_s() + SLACK_S, f"{signal.timestamp_ns}")


def test_the_clock_is_measured_by_the_tightest_looks() -> None:
    looks, ticks, reported = iter([0, 9, 20, 21, 30, 35, 40, 44]), iter([100, 200, 300, 400]), []
    signal = SimpleNamespace(ticks=0, close=lambda: None)

    def synchronize() -> None:
        signal.ticks = next(ticks)

    queue = SimpleNamespace(timestamp=lambda _: SimpleNamespace(submit=lambda: None))
    clock = SimpleNamespace(calibrate=lambda *known: reported.append(known))
    world = SimpleNamespace(monotonic_s=lambda: next(looks))
    device: Any = SimpleNamespace(
        iface=SimpleNamespace(world=world, clock=clock), new_signal=lambda: signal,
        compute_queue=lambda: queue, synchronize=synchronize,
    )  # fmt: skip
    opening._calibrate(device)
    np.testing.assert_equal(reported, [(200, 20.5)])


def test_what_the_user_chooses_to_show_the_gpu() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(vram_bytes=VRAM_BYTES))
    with open_over_pci(board, AMD_DMA="vram") as device:
        work(device)
        check(not board.machine.slot(0).gpu.config.master_on, "bus mastering is on")
    with pytest.raises(Unsupported, match="behind an IOMMU"):
        open_over_pci(board, AMD_DMA="physical")
    board = open_pci_board("gfx1100", options=MachineOptions(iommu=False, vram_bytes=VRAM_BYTES))
    with open_over_pci(board) as device:
        work(device)
        check(not board.machine.slot(0).gpu.config.master_on, "bus mastering is on")
    with open_over_pci(board, AMD_DMA="physical") as device:
        work(device)
        check(board.machine.slot(0).gpu.config.master_on, "bus mastering is off")
    with pytest.raises(NotFound, match="IOMMU"):
        open_over_pci(board, AMD_DMA="iommu")
    check(not board.violations and not any(board.baseline().values()), f"{board.violations[:5]}")


def test_physical_memory_takes_few_huge_pages() -> None:
    """Rings, pointers, signals and graphs share the few that an administrator set aside."""
    options = MachineOptions(iommu=False, vram_bytes=VRAM_BYTES, huge_pages=7)
    board = open_pci_board("gfx1100", options=options)
    with open_over_pci(board, "AQL", AMD_DMA="physical") as device:
        graphs = [device.compute_queue().barrier().bind() for _ in range(30)]
        for graph in graphs:
            graph.replay()
        work(device)
    check(board.machine.frames.free_huge == 7, "huge pages are left")
    check(not board.violations and not any(board.baseline().values()), f"{board.violations[:5]}")


@pytest.mark.parametrize("iommu", [True, False])
def test_a_small_window_on_the_memory(iommu: bool) -> None:
    """Without a driver the BAR is enlarged; behind VFIO the copy engine zeroes what nobody sees."""
    options = MachineOptions(
        iommu=iommu, vram_bytes=2 * VRAM_BYTES, function=PciOptions(bar_bytes=VRAM_BYTES // 2)
    )
    board = open_pci_board("gfx1100", options=options)
    with open_over_pci(board) as device:
        check(device.node.host_visible != iommu, f"{device.node.banks}")
        held = [device.alloc(32 * MIB) for _ in range(9)]
        for number, buffer in enumerate(held):
            check(not np.any(get(device, buffer, "uint8")), f"buffer {number}")
        device.copy_in(held[0], memoryview(SECRET))
        work(device)
    check(not board.violations, f"{[str(one) for one in board.violations[:5]]}")


def test_large_memory_waits_for_copies_under_way() -> None:
    """The host's zeroes go through the BAR slowly; an engine that waits is not waited for."""
    by_host: list[object] = []
    options = MachineOptions(vram_bytes=VRAM_BYTES, strictness=Options(late=True))
    board = open_pci_board("gfx1100", options=options)
    with open_over_pci(board) as device:
        memories: Any = device.iface
        zero = memories.memories._zero
        memories.memories._zero = lambda pieces: (by_host.append(pieces), zero(pieces))
        x, go = device.alloc(BIG_BYTES), device.new_signal()
        device.copy_queue().copy(x, x, BIG_BYTES).submit()
        check(not device.copies.idle, "the copy is done already")
        y = device.alloc(8 * MIB)
        check(not by_host, "the host did it")
        device.copy_queue().wait(go, 1).copy(x, x, BIG_BYTES).submit()
        z = device.alloc(8 * MIB)
        check(len(by_host) == 1 and not device.copies.idle, f"{by_host}")
        go.set(1)
        for buffer in (y, z):
            check(not np.any(get(device, buffer, "uint8")))
        work(device)


def test_the_next_opening_is_a_warm_one() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(vram_bytes=VRAM_BYTES))
    writes, order = [0], list[str]()
    for _ in range(2):
        with open_over_pci(board) as device:
            writes.append(board.panel.writes - sum(writes))
            iface: Any = device.iface
            for name, part, step in (
                ("context off", iface._process, "leave"),
                ("tables away", iface._table, "close"),
            ):
                spy(part, step, order, name)
        writes.append(board.panel.writes - sum(writes))
    check(order == ["context off", "tables away"] * 2, f"{order}")
    check(writes[3] < 0.75 * writes[1], f"{writes[3]} writes after {writes[1]}")


def spy(part: Any, step: str, order: list[str], name: str) -> None:
    """Remember when a step is taken."""
    real = getattr(part, step)

    def reported() -> None:
        order.append(name)
        real()

    setattr(part, step, reported)
