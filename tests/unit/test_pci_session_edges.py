"""Ends of a session that are rare: forks, exits, failures half-way, kernels that say otherwise."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.base.errors import (
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    NotFound,
    Unsupported,
)
from drivers.pci import vfio_abi
from drivers.pci.dma import Grade
from drivers.pci.functions import gpus
from drivers.pci.info_caps import whole_answer
from drivers.pci.session import PciSession, open_session
from drivers.world.faulty import Fault, FaultyWorld
from tests.pci_tree import AUDIO, BUS, GPU, TreeWorld, desktop
from tests.support import check
from tests.vfio_kernel import FOLDER, PAGE, Claimed, Options, VfioKernel

LOWEST_IOVA = 1 << 20
"""docs/boot-amd.md and docs/pci.md: a null pointer of the device has to fault."""
GRADES = {"group": Grade.IOMMU, "cdev": Grade.IOMMU, "bare": Grade.PHYSICAL}


def machine(kind: str) -> VfioKernel:
    bare = kind == "bare"
    return VfioKernel(Options(driver="", group="") if bare else Options(cdev=kind == "cdev"))


def opened(kernel: VfioKernel, world: object = None) -> PciSession:
    method = "vfio" if kernel.options.driver else "bars"
    grade = Grade.IOMMU if method == "vfio" else Grade.PHYSICAL
    chosen = world if isinstance(world, FaultyWorld) else kernel.world
    return open_session(chosen, Claimed(method), grade, address_bits=44)


@pytest.mark.parametrize("kind", GRADES)
def test_a_forked_process_closes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = machine(kind)
    session = opened(kernel)
    session.dma.alloc(PAGE)
    before = len(kernel.open_files), len(kernel.maps), len(kernel.log)
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", lambda: 1)
        session.close()
    check((len(kernel.open_files), len(kernel.maps), len(kernel.log)) == before)
    check(kernel.master, "the owner goes on")
    session.close()
    kernel.check_empty("after the owner's close")


def test_the_end_of_the_process_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = machine("group")
    at_exit: list[Callable[[], object]] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    opened(kernel).dma.alloc(PAGE)
    check(len(at_exit) == 1 and kernel.master)
    at_exit[0]()
    kernel.check_empty("at the end")


@pytest.mark.parametrize("kind", ["group", "cdev"])
def test_memory_that_fails_half_way_leaves_dma_off(kind: str) -> None:
    """Whatever fails at the first memory: no bus mastering, and its address is free again."""
    for step in range(40):
        kernel = machine(kind)
        world = FaultyWorld(kernel.world, -1, Fault.of_errno(errno.EIO))
        session = opened(kernel, world)
        world.fail_at = world.count + step
        try:
            session.dma.alloc(PAGE)
        except DeviceError:
            check(not kernel.master, f"bus mastering after {world.failed}")
            check(len(kernel.maps) == 0, f"memory after {world.failed}")
            ((iova, _),) = session.dma.alloc(PAGE).pieces
            check(iova == LOWEST_IOVA, f"{iova:#x} after {world.failed}")
        world.fail_at = -1
        session.close()
        kernel.check_empty(f"after {world.failed}")
        if not world.failed:
            check(step >= 4, f"only {step} steps")
            return
    raise AssertionError("the first memory has no end")


def test_a_reset_after_which_nobody_answers() -> None:
    kernel = machine("group")
    world = FaultyWorld(kernel.world, -1, Fault("ones"))
    session = opened(kernel, world)
    world.fail_at = world.count + 2  # after the question whether it can be reset, and the reset
    with pytest.raises(DeviceGone, match="all ones"):
        session.reset()
    check(world.failed.startswith("pread"), world.failed)
    session.close()


def test_after_a_reset_of_its_own_base_addresses_come_before_interrupts() -> None:
    """The kernel puts BARs back when COMMAND is written; MSI-X would be written behind a BAR."""
    kernel = machine("group")
    with opened(kernel) as session:
        start = len(kernel.log)
        session.after_reset()
        check(kernel.log[start:][0] == "COMMAND <- 0x2", str(kernel.log[start:]))
        check("device 110" in kernel.log[start:], "interrupts are armed again")


@pytest.mark.parametrize("kind", ["group", "cdev"])
def test_a_kernel_that_unmaps_less_than_was_asked(kind: str) -> None:
    kernel = machine(kind)
    session = opened(kernel)
    memory = session.dma.alloc(PAGE)
    iommu = session.dma._iommu
    if iommu is None:
        raise AssertionError("no IOMMU")
    with pytest.raises(MalformedInput, match="0x1000 of 0x2000"):
        iommu.unmap(memory.pieces[0][0], 2 * PAGE)
    with pytest.raises((MalformedInput, NotFound)):  # it is not there any more
        session.close()
    kernel.check_empty("the memory went with its address space")


def test_an_iommu_without_small_pages() -> None:
    kernel = VfioKernel(Options(page_sizes=1 << 16))
    with opened(kernel) as session, pytest.raises(Unsupported, match="4 KiB"):
        session.dma.alloc(PAGE)
    kernel.check_empty("after closing")


@pytest.mark.parametrize("cdev", [False, True])
def test_a_platform_that_isolates_no_interrupts(cdev: bool) -> None:
    kernel = VfioKernel(Options(cdev=cdev, isolated=False))
    with pytest.raises(Denied, match="isolates no interrupts"):
        opened(kernel)
    kernel.check_empty("nothing stays open")


@pytest.mark.parametrize("denied", ["/dev/vfio/devices/vfio0", "/dev/iommu"])
def test_groups_where_the_character_device_may_not_be_opened(denied: str) -> None:
    kernel = VfioKernel(Options(cdev=True, denied=(denied,)))
    with opened(kernel):
        check("group 103" in kernel.log and "device 118" not in kernel.log, str(kernel.log))


def test_a_character_device_without_an_iommu_is_not_taken() -> None:
    """src: drivers/vfio/device_cdev.c vfio_init_device_cdev(): "noiommu-vfio%d" """
    kernel = VfioKernel(Options(cdev=True))
    node, made = "/dev/vfio/devices/vfio0", f"{FOLDER}/vfio-dev/vfio0/dev"
    kernel.files["/dev/vfio/devices/noiommu-vfio0"] = kernel.files.pop(node)
    kernel.files[f"{FOLDER}/vfio-dev/noiommu-vfio0/dev"] = kernel.files.pop(made)
    with opened(kernel):
        check("group 103" in kernel.log and "device 118" not in kernel.log, str(kernel.log))


def test_config_space_of_which_only_the_header_may_be_read() -> None:
    """src: drivers/pci/pci-sysfs.c pci_read_config(): 64 bytes without CAP_SYS_ADMIN"""
    kernel = machine("bare")
    del kernel.config[64:]
    with opened(kernel) as session:
        check(session.config_read(0, 2) == 0x1002)
        with pytest.raises(MalformedInput, match="0 of 4 bytes"):
            session.config_read(0x100, 4)


def test_a_gpu_that_is_unplugged_while_it_is_looked_at(tmp_path: Path) -> None:
    """sysfs: a file that is not there any more is ENOENT, one that was open then is ENODEV."""

    class Unplugging(TreeWorld):
        def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
            if path == f"{BUS}/devices/{AUDIO}/class":
                raise self._fail(errno.ENODEV, f"read {path}")
            return super().read(path, limit_bytes)

    desktop(tmp_path)
    check([function.address for function in gpus(Unplugging(tmp_path))] == [GPU])


def test_an_answer_of_vfio_that_is_absurdly_long() -> None:
    """No memory is taken for it, and nobody is asked again."""
    kernel = machine("group")
    args = vfio_abi.Type1Info(argsz=1 << 31)
    with pytest.raises(MalformedInput, match="2147483648 bytes"):
        whole_answer(kernel.world, 3, vfio_abi.IOMMU_GET_INFO, args)
    check(not kernel.log)
