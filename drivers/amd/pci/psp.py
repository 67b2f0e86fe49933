"""PSP: the security processor. It starts from its own firmware, then loads everybody else's.

Source: Linux 6.12, amdgpu_psp.c (psp_hw_start(), psp_load_non_psp_fw()), psp_v13_0.c, psp_v14_0.c;
tinygrad, ip.py (AM_PSP)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.amd.firmware import FirmwareSet
from drivers.amd.firmware_types import PspFw
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import PSP_MESSAGE, TMR
from drivers.amd.pci.psp_ring import READY, Command, PspRing
from drivers.amd.pci.registers import Version
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout, FirmwareRejected

_REG_LIST: Final = 67
"""src: psp_gfx_if.h, GFX_FW_TYPE_REG_LIST"""
_VIRTUAL_AND_PHYSICAL: Final = 1 << 1
"""cmd_setup_tmr: both addresses are given."""
_PAD_BYTES: Final = 16
_MESSAGE_SHIFT: Final = 20
_BOOTLOADER_TIMEOUT_S, _SOS_TIMEOUT_S = 10.0, 10.0
_SETTLE_S: Final = 0.02
"""src: psp_v13_0_bootloader_load_sos(), mdelay(20)"""
_ONE_PARTITION: Final = 1
# src: amdgpu_psp.h, enum psp_bootloader_cmd; order: psp_hw_start()
_STAGES: Final = (
    (PspFw.KDB, 0x80000), (PspFw.SPL, 0x10000000), (PspFw.SYS_DRV, 0x10000),
    (PspFw.SOC_DRV, 0xB0000), (PspFw.INTF_DRV, 0xD0000), (PspFw.DBG_DRV, 0xC0000),
    (PspFw.RAS_DRV, 0xE0000), (PspFw.IPKEYMGR_DRV, 0xF0000), (PspFw.SOS, 0x20000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generation:
    """What differs between security processors."""

    spl_is_kdb: bool
    """The bootloader's table of versions is the key database once more. src: psp_v13_0.c"""
    toc: bool
    """It is told a table of contents first. src: psp_hw_start(): autoload, or no boot-time TMR"""
    tmr: str
    """Trusted memory: "given" by us, "told" (it has its own, and is sent zeros), or "own"."""
    autoload: bool
    """The RLC loads what arrived; else a list of registers ends the loading."""


_NAVI3: Final = Generation(spl_is_kdb=True, toc=True, tmr="given", autoload=True)
_NAVI4: Final = Generation(spl_is_kdb=False, toc=True, tmr="own", autoload=True)
_MI300: Final = Generation(spl_is_kdb=True, toc=False, tmr="told", autoload=False)
# src: amdgpu_psp.c, psp_early_init(): boot_time_tmr, autoload_supported
GENERATIONS: Final[dict[Version, Generation]] = {
    (13, 0, 0): _NAVI3, (13, 0, 7): _NAVI3, (13, 0, 10): _NAVI3,
    (13, 0, 6): _MI300, (13, 0, 14): _MI300,
    (14, 0, 2): _NAVI4, (14, 0, 3): _NAVI4,
}  # fmt: skip


def is_alive(gpu: BareGpu) -> bool:
    """Whether sOS runs, whoever started it."""
    return gpu.block(HwId.MP0).read("C2PMSG_81") != 0


def up(gpu: BareGpu, firmware: FirmwareSet) -> PspRing:
    """Start sOS and load all firmware. Raises: FirmwareRejected, DeviceTimeout, DeviceGone."""
    generation = GENERATIONS[gpu.ips.version(HwId.MP0)]
    for kind, command in _STAGES:
        _load_stage(gpu, firmware, generation, kind, command)
    ring = PspRing(gpu)
    ring.create()
    tmr_bytes = 0
    if generation.toc and PspFw.TOC in firmware.bootloader:
        tmr_bytes = _load_toc(gpu, ring, firmware.bootloader[PspFw.TOC].data)
    if firmware.smu is not None:
        _load(gpu, ring, firmware.smu.kind, firmware.smu.data)
    if generation.tmr == "given":
        address, physical = gpu.mc_address(TMR), gpu.physical_base + TMR.offset
        ring.send(Command.SETUP_TMR, *_halves(address), tmr_bytes, _VIRTUAL_AND_PHYSICAL,
                  *_halves(physical))  # fmt: skip
    elif generation.tmr == "told":
        ring.send(Command.SETUP_TMR, 0, 0, 0, _VIRTUAL_AND_PHYSICAL, 0, 0)
    for part in firmware.parts:
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


def _load_stage(
    gpu: BareGpu, firmware: FirmwareSet, generation: Generation, kind: PspFw, command: int
) -> None:
    source = PspFw.KDB if kind is PspFw.SPL and generation.spl_is_kdb else kind
    part = firmware.bootloader.get(source)
    if part is None:
        return
    block = gpu.block(HwId.MP0)
    _wait_for_bootloader(gpu, kind)
    _place(gpu, part.data, kind.name)
    block.write("C2PMSG_36", gpu.mc_address(PSP_MESSAGE) >> _MESSAGE_SHIFT)
    block.write("C2PMSG_35", command)
    if kind is not PspFw.SOS:
        return
    gpu.mmio.bus.clock.sleep(_SETTLE_S)
    for _ in polls(_SOS_TIMEOUT_S, gpu.mmio.bus.clock):
        if is_alive(gpu):
            return
    raise DeviceTimeout(
        f"{gpu.mmio.step}: sOS does not start: MP0.C2PMSG_81 stays 0",
        register="MP0.C2PMSG_81",
        last=0,
        hint="See `python -m drivers.firmware`, then power the machine off and on",
    )


def _wait_for_bootloader(gpu: BareGpu, kind: PspFw) -> None:
    """Bit 31: ready for the next stage. The lowest byte is the last one's error."""
    value = gpu.block(HwId.MP0).wait("C2PMSG_35", READY, READY, _BOOTLOADER_TIMEOUT_S)
    if value != READY:
        raise FirmwareRejected(
            f"{gpu.mmio.step}: the bootloader refused what came before {kind.name}: "
            f"MP0.C2PMSG_35 is {value:#x}",
            hint="See `python -m drivers.firmware`; the files are not of this chip",
        )


def _load_toc(gpu: BareGpu, ring: PspRing, data: memoryview) -> int:
    _place(gpu, data, "TOC")
    nbytes = ring.send(Command.LOAD_TOC, *_halves(gpu.mc_address(PSP_MESSAGE)), len(data))
    if nbytes > TMR.nbytes:
        raise FirmwareRejected(
            f"{gpu.mmio.step}: the firmware wants {nbytes:#x} bytes of trusted memory, and "
            f"{TMR.nbytes:#x} are set aside",
            hint="It is too new: use the files that `python -m drivers.firmware` lists",
        )
    return nbytes


def _load(gpu: BareGpu, ring: PspRing, kind: int, data: memoryview) -> None:
    name = getattr(kind, "name", str(kind))
    _place(gpu, data, name)
    address = gpu.mc_address(PSP_MESSAGE)
    ring.send(Command.LOAD_IP_FW, *_halves(address), len(data), int(kind), what=name)


def _place(gpu: BareGpu, data: memoryview, name: str) -> None:
    """The very bytes whose digest was checked, where the security processor reads them."""
    if len(data) + 2 * _PAD_BYTES > PSP_MESSAGE.nbytes:
        raise FirmwareRejected(
            f"{gpu.mmio.step}: {name} has {len(data):#x} bytes, more than fit its buffer",
            hint="Use the files that `python -m drivers.firmware` lists",
        )
    gpu.vram.write(PSP_MESSAGE.offset, data)
    pad = -len(data) % _PAD_BYTES + _PAD_BYTES
    gpu.vram.write(PSP_MESSAGE.offset + len(data), bytes(pad))
    gpu.flush_hdp()


def _halves(address: int) -> tuple[int, int]:
    return address & 0xFFFFFFFF, address >> 32
