"""A session on one function: what the kernel is asked, what the device reaches, what is left."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.base.errors import (
    BadArgument,
    Busy,
    DeviceError,
    DeviceGone,
    MalformedInput,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession, open_session
from tests.support import check
from tests.vfio_kernel import BAR_BYTES, HUGE, PAGE, Claimed, Options, VfioKernel

MASTER_ON, MASTER_OFF = "COMMAND <- 0x6", "COMMAND <- 0x2"


def vfio(kernel: VfioKernel, grade: Grade | None = None) -> PciSession:
    return open_session(kernel.world, Claimed("vfio"), grade, address_bits=44)


@pytest.fixture(params=[False, True], ids=["group", "cdev"])
def kernel(request: pytest.FixtureRequest) -> VfioKernel:
    return VfioKernel(Options(cdev=request.param))


def test_the_order_of_a_group() -> None:
    kernel = VfioKernel()
    vfio(kernel).close()
    container, group = "/dev/vfio/vfio", "group"
    expected = [
        f"{container} 100", f"{container} 101", f"{group} 103", f"{group} 104", f"{container} 102",
        f"{group} 106", "device 107",
    ]  # fmt: skip
    np.testing.assert_array_equal(kernel.log[: len(expected)], expected)


def test_the_order_of_a_character_device() -> None:
    kernel = VfioKernel(Options(cdev=True))
    vfio(kernel).close()
    expected = ["device 118", "/dev/iommu 129", "device 119", "device 107"]
    np.testing.assert_array_equal(kernel.log[: len(expected)], expected)
    check(not any("group" in line or "/dev/vfio/vfio" in line for line in kernel.log))


def test_the_device_reaches_what_is_mapped_and_nothing_else(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        check(not kernel.master, "bus master before anything is mapped")
        memory = session.dma.alloc(3 * PAGE - 5)
        check(kernel.master and memory.nbytes >= 3 * PAGE - 5)
        ((iova, nbytes),) = memory.pieces
        check(memory.region.read(0, memory.nbytes) == bytes(memory.nbytes), "it is zeroed")
        kernel.device_access(iova + 100, b"from the device")
        check(memory.region.read(100, 15) == b"from the device")
        memory.region.write32(PAGE, 0xC0DE)
        check(kernel.device_access(iova + PAGE, None, 4) == b"\xde\xc0\0\0")
        for outside in (iova - 1, iova + nbytes, 0):
            with pytest.raises(PermissionError):
                kernel.device_access(outside, b"x")
        memory.close()
        memory.close()
        with pytest.raises(PermissionError):
            kernel.device_access(iova, b"x")
        with pytest.raises(UseAfterFree):
            memory.region.read32(0)
        session.dma.alloc(PAGE)
    kernel.check_empty("after closing")
    commands = [line for line in kernel.log if line.startswith("COMMAND")]
    check(commands == [MASTER_ON, MASTER_OFF], str(commands))
    with pytest.raises(UseAfterFree):
        session.dma.alloc(PAGE)
    session.close()


def test_memory_of_the_process(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        mine = kernel.world.mmap(-1, 4 * PAGE)
        memory = session.dma.map(mine.cpu_va + 40, PAGE)
        ((bus, nbytes),) = memory.pieces
        check(nbytes == PAGE and bus % PAGE == 40, "where in the page it starts")
        kernel.device_access(bus, b"abc")
        check(mine.read(40, 3) == b"abc")
        with pytest.raises(Unsupported, match="owner"):
            check(memory.region)
        memory.close()
        check(mine.read(40, 3) == b"abc", "the caller's memory stays")
        mine.close()
    kernel.check_empty("after closing")


def test_large_memory_is_aligned_and_reserved_addresses_are_avoided(kernel: VfioKernel) -> None:
    kernel.options.ranges = ((0, 5 * HUGE - 1), (9 * HUGE + PAGE, 30 * HUGE - 1))
    with vfio(kernel) as session:
        found = [session.dma.alloc(size).pieces[0] for size in (HUGE, HUGE, 3 * HUGE, PAGE)]
        check(all(iova % HUGE == 0 for iova, nbytes in found if nbytes >= HUGE), str(found))
        check(found[2][0] == 10 * HUGE, str(found))
        with pytest.raises(OutOfMemory, match="no free range"):
            session.dma.alloc(40 * HUGE)
    kernel.check_empty("after closing")


def test_the_limit_of_locked_memory(kernel: VfioKernel) -> None:
    kernel.options.locked_bytes = 2 * PAGE
    with vfio(kernel) as session:
        with pytest.raises(OutOfMemory, match="ulimit -l") as caught:
            session.dma.alloc(3 * PAGE)
        check(caught.value.requested == 3 * PAGE and not kernel.master)
        check(session.dma.alloc(2 * PAGE).pieces[0][0] == 1 << 20, "the address came back")
    kernel.check_empty("after closing")


def test_interrupts(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        check(session.interrupts and not session.wait_interrupt(0.0))
        files = len(kernel.open_files)
        session.listen()
        check(len(kernel.open_files) == files, "armed once")
        check(not kernel.interrupt(), "a message is a write: it needs bus mastering")
        session.dma.alloc(PAGE)
        check(
            kernel.interrupt() and session.wait_interrupt(0.0) and not session.wait_interrupt(0.0)
        )
        session.after_reset()
        check(kernel.interrupt() and session.wait_interrupt(0.0), "armed again")
    kernel.check_empty("after closing")


def test_without_interrupts(kernel: VfioKernel) -> None:
    kernel.options.msi = 0
    with vfio(kernel) as session:
        check(not session.interrupts and not session.wait_interrupt(5.0))
        check(0 < kernel.slept_s <= 1e-3, "it sleeps a little")


def test_bars(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        for number, nbytes in BAR_BYTES.items():
            region = session.bar(number)
            check(region.nbytes == nbytes and session.bar(number) is region)
            region.write32(8, 0xFACE + number)
            check(int.from_bytes(kernel.bars[number][8:12], "little") == 0xFACE + number)
        for number in (1, 3, 6, -1):
            with pytest.raises((Unsupported, BadArgument)):
                session.bar(number)
        with pytest.raises(BadArgument, match="without write combining"):
            session.bar(0, combine=True)
    with pytest.raises(UseAfterFree):
        region.read32(0)
    kernel.check_empty("after closing")


def test_a_bar_of_which_a_page_cannot_be_mapped(kernel: VfioKernel) -> None:
    kernel.options.sparse = True
    content = np.arange(BAR_BYTES[5] // 4, dtype=np.uint32)
    kernel.bars[5][:] = content.tobytes()
    with vfio(kernel) as session:
        region = session.bar(5)
        check(len(kernel.maps) == 2 and region.nbytes == BAR_BYTES[5])
        for off in (0, PAGE - 4, PAGE, 2 * PAGE - 4, 2 * PAGE, BAR_BYTES[5] - 8):
            np.testing.assert_equal(region.read32(off), content[off // 4])
            np.testing.assert_equal(region.read64(off & ~7), content.view(np.uint64)[off // 8])
            region.write32(off, 0x8000_0000 + off)
            np.testing.assert_equal(
                int.from_bytes(kernel.bars[5][off : off + 4], "little"), 0x8000_0000 + off
            )
        across = region.read(PAGE - 16, 2 * PAGE)
        check(across == bytes(kernel.bars[5][PAGE - 16 : 3 * PAGE - 16]))
        region.write64(PAGE + 8, 1 << 63)
        region.write(PAGE - 2, b"\1\2\3\4")
        check(bytes(kernel.bars[5][PAGE - 2 : PAGE + 2]) == b"\1\2\3\4")
        for bad in (-4, BAR_BYTES[5] - 2):
            with pytest.raises(IndexError):
                region.read32(bad)
        with pytest.raises(Unsupported):
            region.view()
    kernel.check_empty("after closing")


def test_config_space(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        check(session.config_read(0, 2) == 0x1002 and session.config_read(0, 4) == 0x744C1002)
        session.config_write(0x40, 1, 0x5A)
        check(session.config_read(0x40, 1) == 0x5A)
        for off, nbytes in ((1, 2), (0, 3), (4096, 1), (-4, 4)):
            with pytest.raises(BadArgument):
                session.config_read(off, nbytes)
        for off, nbytes in ((4, 2), (4, 4), (5, 1)):
            with pytest.raises(BadArgument, match="COMMAND"):
                session.config_write(off, nbytes, 4)


def test_reset(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        session.dma.alloc(PAGE)
        session.reset()
        check("device 111" in kernel.log and kernel.master, "the master bit is as it was")
        kernel.options.reset = False
        with pytest.raises(Unsupported, match="no reset"):
            session.reset()


def test_dma_is_held_back_around_a_reset_of_its_own(kernel: VfioKernel) -> None:
    with vfio(kernel) as session:
        for wanted in (False, True):
            session.bus_master(False)
            check(not kernel.master)
            session.after_reset()
            check(kernel.master == wanted, "as on as what it may reach needs it")
            session.dma.alloc(PAGE)


def test_a_bar_that_is_still_viewed_keeps_the_device_open(kernel: VfioKernel) -> None:
    session = vfio(kernel)
    va = session.bar(5).cpu_va
    kernel.stuck = [f"{va:x}-{va + PAGE:x} rw-s 0 00:0e 1 anon_inode:[vfio-device]\n"]
    with pytest.raises(Busy, match="still viewed"):
        session.close()
    check(any(f.kind == "device" for f in kernel.open_files.values()) and not kernel.master)
    kernel.stuck = [f"{va:x}-{va + PAGE:x} rw-p 0 00:00 0 [heap]\n"]
    session.close()
    kernel.check_empty("after the second try")


def test_a_device_that_is_gone(kernel: VfioKernel) -> None:
    session = vfio(kernel)
    session.dma.alloc(PAGE)
    kernel.config[:] = b"\xff" * 4096
    with pytest.raises(DeviceGone):
        session.close()
    kernel.config[4:6] = b"\2\0"
    kernel.violations.clear()
    kernel.check_empty("everything else was given back")


def test_a_master_bit_that_stays(kernel: VfioKernel) -> None:
    kernel.options.stuck_master = True
    with vfio(kernel) as session, pytest.raises(Unsupported, match=r"COMMAND: .* is read after"):
        session.dma.alloc(PAGE)
    check(not kernel.maps and not kernel.open_files)


def test_the_kernel_is_strict() -> None:
    """The made-up kernel refuses what Linux refuses; else everything above proves little."""
    kernel = VfioKernel()
    with vfio(kernel) as session:
        memory = session.dma.alloc(PAGE)
        iommu = session.dma._iommu
        check(iommu is not None)
        if iommu is not None:
            with pytest.raises(DeviceError, match="EEXIST"):
                iommu.map(memory.pieces[0][0], memory.region.cpu_va, PAGE)
            with pytest.raises(Unsupported):
                iommu.map(0xFEE0_0000, memory.region.cpu_va, PAGE)
            with pytest.raises(MalformedInput, match="0x0 of"):
                iommu.unmap(0x7000_0000, PAGE)
        memory.region.close()
    check(
        any("was freed while" in violation for violation in kernel.violations),
        str(kernel.violations),
    )


@pytest.mark.parametrize("grade", [Grade.IOMMU, Grade.PHYSICAL])
def test_grades_that_do_not_fit(grade: Grade) -> None:
    kernel = VfioKernel(Options(driver="", group="")) if grade is Grade.IOMMU else VfioKernel()
    with pytest.raises(Unsupported):
        open_session(
            kernel.world,
            Claimed("bars" if grade is Grade.IOMMU else "vfio"),
            grade,
            address_bits=44,
        )
    kernel.check_empty("nothing was opened")
    check(not kernel.log)


def test_no_iommu_mode_is_never_used() -> None:
    kernel = VfioKernel(Options(group_name="vfio-noiommu\n"))
    with pytest.raises(Unsupported, match="IOMMU"):
        vfio(kernel)
    check(not kernel.log and not kernel.open_files)


def test_what_vfio_refuses() -> None:
    kernel = VfioKernel(Options(viable=False))
    with pytest.raises(Busy, match="14"):
        vfio(kernel)
    kernel.check_empty("not viable")
    kernel = VfioKernel(Options(driver="amdgpu"))
    with pytest.raises(Unsupported, match="bound to amdgpu"):
        vfio(kernel)
    kernel = VfioKernel()
    with vfio(kernel), pytest.raises(Busy):
        vfio(kernel)
    kernel.check_empty("opened twice")
