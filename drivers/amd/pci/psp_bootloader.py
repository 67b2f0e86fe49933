"""The security processor's bootloader: stage by stage, until sOS runs.

It takes each stage once, and before sOS runs nothing can reset the GPU. So a boot that was killed
has to be continued where it stopped. Every stage is loaded from an address of its own, and another
address is left in the mailbox (C2PMSG_36) when it has passed:

| the mailbox holds     | bootloader | what is loaded                                       |
|-----------------------|------------|------------------------------------------------------|
| none of the addresses | any        | all stages                                           |
| stage n has passed    | ready      | the stages after n                                   |
| stage n is at work    | any        | stage n, then those after it; its command may have   |
|                       |            | arrived, so that a refusal of it is ignored          |
| stage n has passed    | error      | the same                                             |
| sOS was ordered       | any        | the first stage: if it passes, a reset kept the      |
|                       |            | mailbox, and the others follow; if not, sOS again    |

Source: Linux 6.12, psp_v13_0.c, psp_v14_0.c; order: amdgpu_psp.c, psp_hw_start()
"""

from __future__ import annotations

from typing import Final

from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.firmware.header import Part
from drivers.amd.firmware.types import PspFw
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import MIB, PSP_STAGES
from drivers.amd.pci.psp_message import READY, place
from drivers.bare.place import Place
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout, FirmwareRejected

_MESSAGE_SHIFT: Final = 20
_TIMEOUT_S: Final = 10.0
_SETTLE_S: Final = 0.02
"""src: psp_v13_0_bootloader_load_sos(), mdelay(20)"""
# src: amdgpu_psp.h, enum psp_bootloader_cmd
STAGES: Final = (
    (PspFw.KDB, 0x80000), (PspFw.SPL, 0x10000000), (PspFw.SYS_DRV, 0x10000),
    (PspFw.SOC_DRV, 0xB0000), (PspFw.INTF_DRV, 0xD0000), (PspFw.DBG_DRV, 0xC0000),
    (PspFw.RAS_DRV, 0xE0000), (PspFw.IPKEYMGR_DRV, 0xF0000), (PspFw.SOS, 0x20000),
)  # fmt: skip


def up(gpu: BareGpu, firmware: FirmwareSet, *, spl_is_kdb: bool) -> None:
    """Load what is missing; sOS runs afterwards. Raises: FirmwareRejected, DeviceTimeout."""
    todo: list[tuple[int, Part]] = []
    for number, (kind, _) in enumerate(STAGES):
        # psp_hw_start() leaves SPL out where a file has none (gfx942, gfx1101); tinygrad, which is
        # known to run on gfx942, does not
        source = PspFw.KDB if kind is PspFw.SPL and spl_is_kdb else kind
        if source in firmware.bootloader:
            todo.append((number, firmware.bootloader[source]))
    failed = _wait(gpu) != READY
    last, passed = _last(gpu)
    if last == len(STAGES) - 1:
        todo = _afresh(gpu, todo)
    elif passed and not failed:
        todo = [one for one in todo if one[0] > last]
    elif last >= 0:
        todo = _after(gpu, [one for one in todo if one[0] >= last])
    for number, part in todo:
        value = _load(gpu, number, part)
        if value != READY:
            raise _refusal(gpu, number, value)
    _wait_for_sos(gpu)


def _after(gpu: BareGpu, todo: list[tuple[int, Part]]) -> list[tuple[int, Part]]:
    """The stages after the first one, whose command may or may not have arrived.

    It is sent once more, and refused if it had passed; the next stage shows whether it had.
    """
    if todo:
        _load(gpu, *todo[0])
    return todo[1:]


def _afresh(gpu: BareGpu, todo: list[tuple[int, Part]]) -> list[tuple[int, Part]]:
    """sOS was ordered to start and does not run. Returns the stages that remain.

    If a reset that kept the mailbox came after the order, the first stage passes and the others
    remain. If the order never arrived, the first stage is refused and only sOS remains.
    """
    return todo[1:] if _load(gpu, *todo[0]) == READY else todo[-1:]


def _slot(number: int) -> Place:
    return Place(PSP_STAGES.offset + number * MIB, MIB)


def _mark(gpu: BareGpu, number: int, *, passed: bool) -> int:
    """What the address register holds while a stage is loaded, and when it has passed."""
    return gpu.mc_address(_slot(number + len(STAGES) * passed)) >> _MESSAGE_SHIFT


def _last(gpu: BareGpu) -> tuple[int, bool]:
    """The stage that an earlier boot came to, -1 when there was none; whether it passed."""
    value = gpu.block(HwId.MP0).read("C2PMSG_36", ones=True)
    for number in range(len(STAGES)):
        for passed in (False, True):
            if value == _mark(gpu, number, passed=passed):
                return number, passed
    return -1, False


def _load(gpu: BareGpu, number: int, part: Part) -> int:
    """Load one stage. Returns the bootloader's status; READY alone is success."""
    kind, command = STAGES[number]
    block, slot = gpu.block(HwId.MP0), _slot(number)
    place(gpu, slot, part.data, kind.name)
    block.write("C2PMSG_36", _mark(gpu, number, passed=False))
    block.write("C2PMSG_35", command)
    if kind is PspFw.SOS:
        gpu.mmio.bus.clock.sleep(_SETTLE_S)
        return READY
    value = _wait(gpu)
    if value == READY:
        block.write("C2PMSG_36", _mark(gpu, number, passed=True))
    return value


def _wait(gpu: BareGpu) -> int:
    """Bit 31: ready for the next stage. The lowest byte is the last one's error."""
    return gpu.block(HwId.MP0).wait("C2PMSG_35", READY, READY, _TIMEOUT_S)


def _wait_for_sos(gpu: BareGpu) -> None:
    block = gpu.block(HwId.MP0)
    for _ in polls(_TIMEOUT_S, gpu.mmio.bus.clock):
        if block.read("C2PMSG_81"):
            return
        value = block.read("C2PMSG_35")
        if value & READY and value != READY:
            raise _refusal(gpu, len(STAGES) - 1, value)
    raise DeviceTimeout(
        f"{gpu.mmio.step}: sOS does not start: MP0.C2PMSG_81 stays 0",
        register="MP0.C2PMSG_81",
        last=0,
        hint="See `python -m drivers.firmware`, then power the machine off and on",
    )


def _refusal(gpu: BareGpu, number: int, value: int) -> FirmwareRejected:
    return FirmwareRejected(
        f"{gpu.mmio.step}: the bootloader refuses {STAGES[number][0].name}: "
        f"MP0.C2PMSG_35 is {value:#x}",
        hint="See `python -m drivers.firmware`; with the right files: power the machine off and on",
    )
