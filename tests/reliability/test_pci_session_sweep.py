"""Every operation of a session's life fails once, in every way: nothing leaks, errors are ours."""

from __future__ import annotations

import errno

import pytest

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession, open_session
from drivers.world.faulty import Fault, FaultyWorld
from tests.support import check
from tests.vfio_kernel import HUGE, PAGE, Claimed, Options, VfioKernel

FAULTS = [
    *map(Fault.of_errno, (errno.EIO, errno.ENOMEM, errno.EBUSY, errno.ENODEV, errno.EINTR)),
    Fault("ones"), Fault("zeros"), Fault("short"),
]  # fmt: skip
MACHINES = {
    "group": (Options(sparse=True), Grade.IOMMU),
    "cdev": (Options(cdev=True), Grade.IOMMU),
    "none": (Options(driver="", group=""), Grade.NONE),
    "physical": (Options(driver="", group=""), Grade.PHYSICAL),
}
LEAST = {"group": 60, "cdev": 60, "none": 40, "physical": 60}
"""Operations that each life has at least: fewer would mean that the sweep stops early."""


def life(kernel: VfioKernel, world: World, grade: Grade, opened: list[PciSession]) -> None:
    """Open, map, give memory to the device, wait, close."""
    method = "vfio" if grade is Grade.IOMMU else "bars"
    with open_session(world, Claimed(method), grade, address_bits=44) as session:
        opened.append(session)
        session.bar(0)
        session.bar(5).read32(PAGE)
        session.config_read(0, 4)
        if grade is not Grade.NONE:
            memory = session.dma.alloc(3 * PAGE)
            if grade is Grade.PHYSICAL:
                kernel.reported.add(memory.region.cpu_va)
            session.dma.alloc(HUGE)
            if grade is Grade.IOMMU:
                memory.close()
        session.wait_interrupt(0.0)
        session.reset()
        session.after_reset()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.kind}{f.number}")
@pytest.mark.parametrize("name", MACHINES)
def test_every_operation_fails_once(name: str, fault: Fault) -> None:
    options, grade = MACHINES[name]
    for fail_at in range(1000):
        kernel = VfioKernel(options)
        world = FaultyWorld(kernel.world, fail_at, fault)
        caught: DeviceError | None = None
        opened: list[PciSession] = []
        try:
            life(kernel, world, grade, opened)
        except DeviceError as error:
            caught = error
        if not world.failed:
            check(fail_at >= LEAST[name] and caught is None, f"{fail_at} operations")
            return
        for session in opened:
            session.close()  # as the end of the process does; nothing, unless it had to stay open
        after(kernel, f"{fault.kind} at {fail_at}, {world.failed}: {caught!r}")
        with open_session(
            kernel.world,
            Claimed("vfio" if grade is Grade.IOMMU else "bars"),
            grade,
            address_bits=44,
        ):
            check(not kernel.master, "the next one opens, with bus mastering off")
        kernel.check_empty(f"the next one after {world.failed}")
    raise AssertionError("the life has no end")


def after(kernel: VfioKernel, what: str) -> None:
    """Nothing is left. The kernel itself ends DMA where switching it off was what failed."""
    check(not kernel.open_files, f"{what}: open {[f.kind for f in kernel.open_files.values()]}")
    check(not kernel.maps, f"{what}: {len(kernel.maps)} mappings")
    check(not kernel.master, f"{what}: bus master")
    at_command = "pwrite 0x7" in what or "pread 0x7" in what or "ioctl 0x00003b6c" in what
    check(not kernel.violations or at_command, f"{what}: {kernel.violations}")
    known = "closed while it was bus master"
    check(
        all(known in violation for violation in kernel.violations), f"{what}: {kernel.violations}"
    )
    kernel.violations.clear()
