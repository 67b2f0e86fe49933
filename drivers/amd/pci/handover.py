"""Giving a GPU to its kernel driver, where that would not reset what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.amd.chips import BUS_ADDRESS_BITS, chip_of_device
from drivers.amd.pci import boot, psp
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpTable
from drivers.base.contracts import World
from drivers.base.undo import Step, run_all
from drivers.claim.claim import Claim
from drivers.claim.record import Method, Record
from drivers.claim.steps import VFIO
from drivers.pci.functions import look_at
from drivers.pci.session import open_session

_AMDGPU: Final = "amdgpu"
"""The kernel driver that loads firmware; for vfio-pci, or none, a warm GPU stays warm."""
_KEPT: Final = (13, 0, 10)
"""Version of MP1 for which Linux 6.12 relies on what an earlier amdgpu left.

# src: amdgpu_device.c amdgpu_device_init(): a GPU whose sOS is alive is reset, but one with this
# version and no display by psp_gpu_reset(), for which psp_v13_0_funcs has no function: nothing is
# done, and the PSP's second ring, firmware and queues meet ours.
"""


def is_kept(ips: IpTable) -> bool:
    """Whether its kernel driver would take it over without a reset.

    # src: amdgpu_device.c amdgpu_device_has_display_hardware(): a fused-off DMU is no display
    """
    return ips.version(HwId.MP1) == _KEPT and not ips.instances(HwId.DMU)


def prepare(gpu: BareGpu, kernel_driver: str) -> None:
    """Reset a GPU that goes back to amdgpu, if that would keep our state. Queues are stopped.

    Hardware: mode-1 reset, as at takeover; no access where it is not needed. Raises: DeviceError.
    """
    if kernel_driver != _AMDGPU or not is_kept(gpu.ips) or not gpu.session.is_usable:
        return
    if psp.is_alive(gpu):
        gpu.mmio.bus.step = "give back: mode-1 reset"
        boot.reset(gpu)
        gpu.mmio.bus.step = ""


def give_back(gpu: BareGpu, claimed: Claim, closing: Sequence[Step]) -> None:
    """Prepare it, close its session and the claim; `closing` in any case. Queues are stopped.

    A GPU that could not be prepared is not handed over: its binding and its record stay, for the
    next claim or the doctor's --restore. Raises: the first error, after all steps have run.
    """
    is_prepared = False

    def ready() -> None:
        nonlocal is_prepared
        prepare(gpu, claimed.record.driver)
        is_prepared = True

    def end() -> None:
        (claimed.close if is_prepared else claimed.leave)()

    run_all([ready, gpu.session.close, end, *closing])


def recover(world: World, record: Record) -> None:
    """The same for a GPU whose owner was killed: before it goes back by `record`.

    An owner that was to use VFIO and died before vfio-pci was bound, or after it was unbound, left
    nothing to reset: nothing of ours runs before the one, and `prepare` ran before the other.
    Raises: DeviceError.
    """
    function = look_at(world, record.address)
    chip = chip_of_device(function.device)
    if chip is None or chip.bare is None or chip.bare.mp != _KEPT:
        return
    if record.driver != _AMDGPU or function.driver not in ("", VFIO):
        return
    if record.method is Method.VFIO and function.driver != VFIO:
        return
    session = open_session(world, record, address_bits=BUS_ADDRESS_BITS)
    try:
        prepare(boot.identify(session, chip, function.device), record.driver)
    finally:
        session.close()
