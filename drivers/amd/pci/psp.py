"""PSP: the security processor. It starts from its own firmware, then loads all others'.

Source: Linux 6.12, amdgpu_psp.c (psp_hw_start(), psp_load_non_psp_fw()), psp_v13_0.c, psp_v14_0.c;
tinygrad, ip.py (AM_PSP)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.firmware.types import PspFw
from drivers.amd.pci import psp_bootloader
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import PSP_MESSAGE, TMR
from drivers.amd.pci.psp_message import halves, place
from drivers.amd.pci.psp_ring import Command, PspRing
from drivers.amd.pci.registers import Version
from drivers.base.errors import FirmwareRejected

_REG_LIST: Final = 67
"""src: psp_gfx_if.h, GFX_FW_TYPE_REG_LIST"""
_VIRTUAL_AND_PHYSICAL: Final = 1 << 1
"""cmd_setup_tmr: both addresses are given."""
_ONE_PARTITION: Final = 1


@dataclass(frozen=True, slots=True)
class Generation:
    """What differs between security processors."""

    spl_is_kdb: bool
    """The bootloader's table of versions is the key database once more. src: psp_v13_0.c"""
    toc: bool
    """It is told a table of contents first. src: psp_hw_start(): autoload, or no boot-time TMR"""
    tmr: str
    """Trusted memory: "given" by us, "told" (it has its own, and is sent zeros), or "own"."""
    smu_before_tmr: bool
    """The SMU's firmware comes before trusted memory is set up, not behind it.

    # src: amdgpu_psp.c psp_check_pmfw_centralized_cstate_management(), psp_hw_start()
    """
    autoload: bool
    """The RLC loads what arrived; else a list of registers ends the loading."""


_NAVI31: Final = Generation(
    spl_is_kdb=True, toc=True, tmr="given", smu_before_tmr=True, autoload=True
)
_NAVI32: Final = replace(_NAVI31, smu_before_tmr=False)
_NAVI4: Final = replace(_NAVI32, spl_is_kdb=False, tmr="own")
_MI300: Final = replace(_NAVI32, toc=False, tmr="told", autoload=False)
# src: amdgpu_psp.c, psp_early_init(): boot_time_tmr, autoload_supported
GENERATIONS: Final[dict[Version, Generation]] = {
    (13, 0, 0): _NAVI31, (13, 0, 7): _NAVI31, (13, 0, 10): _NAVI32,
    (13, 0, 6): _MI300, (13, 0, 14): _MI300,
    (14, 0, 2): _NAVI4, (14, 0, 3): _NAVI4,
}  # fmt: skip


def is_alive(gpu: BareGpu) -> bool:
    """Whether sOS runs."""
    return gpu.block(HwId.MP0).read("C2PMSG_81") != 0


def up(gpu: BareGpu, firmware: FirmwareSet) -> PspRing:
    """Start sOS, unless it runs, and load all firmware.

    Raises: FirmwareRejected, DeviceTimeout, DeviceGone.
    """
    generation = GENERATIONS[gpu.ips.version(HwId.MP0)]
    if not is_alive(gpu):
        psp_bootloader.up(gpu, firmware, spl_is_kdb=generation.spl_is_kdb)
    ring = PspRing(gpu)
    ring.create()
    tmr_bytes = 0
    if generation.toc and PspFw.TOC in firmware.bootloader:
        tmr_bytes = _load_toc(gpu, ring, firmware.bootloader[PspFw.TOC].data)
    smu = () if firmware.smu is None else (firmware.smu,)
    first, rest = (smu, ()) if generation.smu_before_tmr else ((), smu)
    for part in first:
        _load(gpu, ring, part.kind, part.data)
    _setup_tmr(gpu, ring, generation, tmr_bytes)
    for part in (*rest, *firmware.parts):
        _load(gpu, ring, part.kind, part.data)
    if generation.autoload:
        ring.send(Command.AUTOLOAD_RLC)
    elif PspFw.RL in firmware.bootloader:
        _load(gpu, ring, _REG_LIST, firmware.bootloader[PspFw.RL].data)
    return ring


def one_partition(gpu: BareGpu, ring: PspRing) -> None:
    """Make all XCCs one device. Only once the graphics cores are up; nothing where one is."""
    if len(gpu.xccs) > 1:
        ring.send(Command.SRIOV_SPATIAL_PART, _ONE_PARTITION)


def down(gpu: BareGpu) -> None:
    """Take the ring away, if there is an sOS that could have one."""
    if is_alive(gpu):
        PspRing(gpu).destroy()


def _setup_tmr(gpu: BareGpu, ring: PspRing, generation: Generation, nbytes: int) -> None:
    if generation.tmr == "given":
        address, physical = gpu.mc_address(TMR), gpu.physical_base + TMR.offset
        ring.send(Command.SETUP_TMR, *halves(address), nbytes, _VIRTUAL_AND_PHYSICAL,
                  *halves(physical))  # fmt: skip
    elif generation.tmr == "told":
        ring.send(Command.SETUP_TMR, 0, 0, 0, _VIRTUAL_AND_PHYSICAL, 0, 0)


def _load_toc(gpu: BareGpu, ring: PspRing, data: memoryview) -> int:
    place(gpu, PSP_MESSAGE, data, "TOC")
    nbytes = ring.send(Command.LOAD_TOC, *halves(gpu.mc_address(PSP_MESSAGE)), len(data))
    if nbytes > TMR.nbytes:
        raise FirmwareRejected(
            f"{gpu.mmio.step}: the firmware wants {nbytes:#x} bytes of trusted memory, and "
            f"{TMR.nbytes:#x} are set aside",
            hint="It is too new: use the files that `python -m drivers.firmware` lists",
        )
    return nbytes


def _load(gpu: BareGpu, ring: PspRing, kind: int, data: memoryview) -> None:
    name = getattr(kind, "name", str(kind))
    place(gpu, PSP_MESSAGE, data, name)
    address = gpu.mc_address(PSP_MESSAGE)
    ring.send(Command.LOAD_IP_FW, *halves(address), len(data), int(kind), what=name)
