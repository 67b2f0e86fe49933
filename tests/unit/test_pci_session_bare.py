"""A session without an IOMMU: no DMA at all, or physical addresses when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivers.base.errors import Busy, Denied, DeviceError, MalformedInput, Unsupported
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession, open_session
from tests.support import check
from tests.vfio_kernel import FOLDER, HUGE, PAGE, Claimed, Options, VfioKernel

MASTER_OFF = "COMMAND <- 0x2"
PRESENT, SWAPPED = 1 << 63, 1 << 62


def bare(**options: Any) -> VfioKernel:
    """A machine without an IOMMU, the function without a driver."""
    return VfioKernel(Options(driver="", group="", **options))


def bars(kernel: VfioKernel, grade: Grade | None = None) -> PciSession:
    return open_session(kernel.world, Claimed("bars"), grade, address_bits=44)


def test_no_dma_without_an_iommu() -> None:
    kernel = bare()
    kernel.config[4] = 6  # somebody left bus mastering on
    with bars(kernel) as session:
        check(session.dma.grade is Grade.NONE and not session.interrupts)
        check(not kernel.master, "switched off at opening")
        for call in (lambda: session.dma.alloc(PAGE), lambda: session.dma.map(PAGE, PAGE)):
            with pytest.raises(Unsupported, match="nothing of the host's memory"):
                call()
        with pytest.raises(Unsupported, match="bus mastering stays off"):
            session.bus_master(True)
        session.bar(0, combine=True).write32(0, 7)
        check(kernel.bars[0][0] == 7)
        check(session.config_read(0, 2) == 0x1002)
        session.reset()
        check(f"{FOLDER}/reset <- 1" in kernel.log)
    kernel.check_empty("after closing")
    check([line for line in kernel.log if line.startswith("COMMAND")] == [MASTER_OFF])


def test_base_addresses_come_back_after_a_reset() -> None:
    kernel = bare()
    kept = bytes(kernel.config[0x10:0x28])
    with bars(kernel) as session:
        kernel.config[0x10:0x28] = bytes(24)
        kernel.config[4] = 0
        session.after_reset()
        check(kernel.config[0x10:0x28] == kept and kernel.command == 2)
    kernel = bare()
    kernel.config[4] = 0
    with pytest.raises(Unsupported, match="not enabled"):
        bars(kernel)
    kernel.check_empty("a function that is not enabled")


def test_physical_addresses() -> None:
    kernel = bare(frames=lambda page: PRESENT | (0x5000 if page < 512 else 0x9000) + page)
    with bars(kernel, Grade.PHYSICAL) as session:
        memory = session.dma.alloc(HUGE + 1)
        check(memory.pieces == ((0x5000 << 12, HUGE), (0x9200 << 12, HUGE)), str(memory.pieces))
        check(kernel.master and memory.nbytes == 2 * HUGE)
        with pytest.raises(Unsupported, match="IOMMU alone"):
            session.dma.map(memory.region.cpu_va, PAGE)
    kernel.check_empty("after closing")


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (lambda page: 0x10 if page == 9 else PRESENT | page + 1, MalformedInput),
        (lambda page: SWAPPED if page == 9 else PRESENT | page + 1, MalformedInput),
        (lambda page: PRESENT, Denied),
        (lambda page: PRESENT | 1 << 32, Unsupported),
    ],
    ids=["absent", "swapped", "hidden", "too high"],
)
def test_physical_pages_that_are_refused(
    frames: Callable[[int], int], error: type[DeviceError]
) -> None:
    kernel = bare(frames=frames)
    with bars(kernel, Grade.PHYSICAL) as session:
        with pytest.raises(error):
            session.dma.alloc(HUGE)
        check(not kernel.master and not kernel.maps)
    kernel.check_empty("after closing")


def test_physical_pages_that_move() -> None:
    reads = iter(range(1 << 30))
    kernel = bare(frames=lambda page: PRESENT | (1 + page + (next(reads) >= 512)))
    with bars(kernel, Grade.PHYSICAL) as session, pytest.raises(Busy, match="moved"):
        session.dma.alloc(HUGE)
    kernel.check_empty("after closing")


def test_physical_memory_stays_while_the_device_may_write() -> None:
    kernel = bare()
    session = bars(kernel, Grade.PHYSICAL)
    session.dma.alloc(HUGE)
    kernel.options.stuck_master = True
    with pytest.raises(Unsupported, match=r"COMMAND: .* is read after"):
        session.close()
    check(len(kernel.maps) == 1 and not kernel.violations, "the memory is not given back")
    kernel.options.stuck_master = False
    session.close()
    kernel.check_empty("after the second try")
