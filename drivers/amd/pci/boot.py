"""Booting one GPU: what it is found as decides which steps are taken.

gpu = boot(session, chip, firmware)
...
leave(gpu)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from drivers.amd.chips import Chip
from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.pci import discovery, gfx, gmc, ih, nbio, ownership, psp, record, sdma, smu, units
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import BOOT_BYTES, FIRMWARE_BYTES, FIRMWARE_BYTES_GFX9
from drivers.amd.pci.mmio import MEMSIZE, Mmio
from drivers.amd.pci.ownership import Found
from drivers.amd.pci.psp_ring import PspRing
from drivers.amd.pci.record import Record
from drivers.bare.bus import RegisterBus
from drivers.bare.steps import Done, Progress, Step, run
from drivers.bare.trace import TracedRegion, TraceFile
from drivers.bare.vram import VramPages
from drivers.base.contracts import Region
from drivers.base.errors import DeviceError, DeviceGone, Unsupported
from drivers.base.undo import run_all

if TYPE_CHECKING:
    from drivers.pci.session import PciSession

BAR_VRAM, BAR_REGISTERS = 0, 5
_GFX9: Final = 9


@dataclass(slots=True)
class Report:
    """How a boot went."""

    found: Found
    done: list[Done]
    clocks_refused: list[str]
    smu_version: int = 0
    order_failed: str = ""
    """Why the order to reset failed, where the function's own reset did its work."""

    def __str__(self) -> str:
        reads, writes = sum(one.reads for one in self.done), sum(one.writes for one in self.done)
        reported = f"{self.found.value}: {len(self.done)} steps, {reads} reads, {writes} writes"
        if self.clocks_refused:
            reported += f"; clocks refused: {', '.join(self.clocks_refused)}"
        if self.order_failed:
            reported += f"; reset by its function, since {self.order_failed}"
        return reported


def boot(
    session: PciSession, chip: Chip, firmware: FirmwareSet, device_id: int = 0,
    *, trace: TraceFile | None = None,
) -> tuple[BareGpu, Report]:  # fmt: skip
    """Identify a GPU and start it. Raises: as those two do."""
    gpu = identify(session, chip, device_id, trace)
    return gpu, start(gpu, firmware)


def identify(
    session: PciSession, chip: Chip, device_id: int = 0, trace: TraceFile | None = None
) -> BareGpu:
    """Read the discovery table and know the GPU; nothing about it is changed.

    Raises: MalformedInput, Unsupported when the table is of another chip, DeviceGone.
    """
    bus = RegisterBus(session.bar(BAR_REGISTERS), session.clock, MEMSIZE)
    bus.step = "read the discovery table"
    vram: Region = session.bar(BAR_VRAM, combine=True)
    if trace is not None:
        bus.trace, vram = trace.register, TracedRegion(vram, trace.written)
    ips, vram_bytes = discovery.read_table(bus, vram)
    if ips.version(HwId.GC) not in chip.gc:
        shown = ".".join(map(str, ips.version(HwId.GC)))
        raise Unsupported(
            f"{session.address} has a graphics core {shown}, which is not {chip.name}",
            hint="Its PCI id belongs to another chip here: report both",
        )
    kept = FIRMWARE_BYTES_GFX9 if ips.version(HwId.GC)[0] == _GFX9 else FIRMWARE_BYTES
    node = units.describe(chip, ips, session.address, device_id, vram_bytes, vram.nbytes)
    pages = VramPages(BOOT_BYTES, vram_bytes - kept, vram.nbytes)
    gpu = BareGpu(session, chip, ips, Mmio(bus, ips), node, vram, vram_bytes, pages)
    nbio.prepare(gpu)
    bus.step = ""
    return gpu


def start(gpu: BareGpu, firmware: FirmwareSet, *, fresh: bool = False,
          progress: Progress | None = None) -> Report:  # fmt: skip
    """Bring an identified GPU up, from whatever state it is in. `fresh` never takes over our own.

    Raises: DeviceError naming step and register, with everything undone; the next boot resets.
    """
    bus = gpu.mmio.bus
    bus.step = "find the previous owner"
    found = ownership.look(gpu)
    known = record.read(gpu) if found is Found.WARM and not fresh else None
    if known is not None and known.firmware != record.digest_of(firmware):
        known = None
    report = Report(found, [], [])
    reset = found is not Found.COLD and known is None
    steps = _steps(gpu, firmware, report, known, reset=reset)
    report.done = run(bus, steps, progress)
    return report


def leave(gpu: BareGpu) -> None:
    """Put everything away so that the next boot is a warm one. Queues are stopped already."""
    bus = gpu.mmio.bus
    bus.step = "leave"
    try:
        run_all([partial(block.down, gpu) for block in (gfx, sdma, ih, nbio, smu)])
    except DeviceGone:
        raise
    except DeviceError:
        ownership.forget(gpu)
        raise
    ownership.leave(gpu)
    bus.step = ""


def reset(gpu: BareGpu) -> str:
    """Mode-1, or the function's own reset where the power management does not do it.

    All state of the GPU is gone; boot it again to use it. DMA is held back meanwhile.
    Returns: why it was not mode-1, "" where it was.
    Raises: DeviceError of the mode-1 reset when there is no other.
    """
    session, failed = gpu.session, ""
    session.bus_master(False)
    try:
        smu.mode1_reset(gpu)
    except DeviceError as error:
        try:
            session.reset()
        except DeviceError as later:
            error.add_note(f"and the function's own reset: {later}")
            raise error from error.__cause__
        failed = error.message
    session.after_reset()
    smu.wait_returned(gpu)
    return failed


def _steps(gpu: BareGpu, firmware: FirmwareSet, report: Report, known: Record | None, *,
           reset: bool) -> Sequence[Step]:  # fmt: skip
    warm = known is not None
    rings: list[PspRing] = []
    steps: list[Step] = []
    if reset:
        steps.append(Step("take over: mode-1 reset", partial(_take_over, gpu, report)))
    steps.append(Step("open doorbells", partial(nbio.up, gpu), partial(nbio.down, gpu)))
    if warm:
        steps.append(Step("find VRAM", partial(gmc.locate, gpu)))
        steps.append(Step("interrupts", partial(ih.up, gpu), partial(ih.down, gpu)))
    else:
        steps += [
            Step("memory hub", partial(gmc.up, gpu), partial(gmc.down, gpu)),
            Step("interrupts", partial(ih.up, gpu), partial(ih.down, gpu)),
            Step("load firmware", lambda: rings.append(psp.up(gpu, firmware)),
                 partial(psp.down, gpu)),
            Step("power management", lambda: _power_up(gpu, report)),
        ]  # fmt: skip
    steps += [
        Step("graphics firmware", partial(gfx.wait_loaded, gpu)),
        Step("say who is inside", partial(ownership.enter, gpu), partial(ownership.forget, gpu)),
        Step("graphics core", partial(gfx.up, gpu, firmware.start, warm), partial(gfx.down, gpu)),
        Step("copy engines", partial(sdma.up, gpu), partial(sdma.down, gpu)),
    ]
    if not warm:
        steps.append(Step("one partition", lambda: psp.one_partition(gpu, rings[0])))
    steps += [
        Step("count compute units", lambda: _count(gpu, firmware, known)),
        Step("clocks", lambda: report.clocks_refused.extend(smu.set_clocks(gpu))),
    ]
    return steps


def _power_up(gpu: BareGpu, report: Report) -> None:
    report.smu_version = smu.up(gpu)


def _count(gpu: BareGpu, firmware: FirmwareSet, known: Record | None) -> None:
    if known is not None:
        gpu.node = replace(gpu.node, simd_count=known.simds)
        return
    gpu.node = units.count_cus(gpu)
    record.write(gpu, Record(record.digest_of(firmware), gpu.node.simd_count))


def _reset_by_kernel(gpu: BareGpu) -> bool:
    """For want of an SMU that would do it. False where the function offers no reset."""
    try:
        gpu.session.reset()
    except Unsupported:
        return False
    return True


def _take_over(gpu: BareGpu, report: Report) -> None:
    """Reset: the state of another driver, or of an owner that was killed, is never trusted."""
    ownership.refuse_hive(gpu)
    alive = smu.is_alive(gpu)
    if alive:
        report.order_failed = reset(gpu)
    elif not _reset_by_kernel(gpu) and report.found is Found.FOREIGN:
        return  # sOS runs alone: its boot never came to the SMU's firmware
    if psp.is_alive(gpu):
        raise DeviceError(
            f"{gpu.mmio.step}: sOS is still there (MP0.C2PMSG_81); "
            f"the SMU answers: {'yes' if alive else 'no'}",
            hint="Power the machine off and on",
        )
