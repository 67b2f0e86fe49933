"""The doctor's rows about AMD GPUs: firmware that is known to hang, memory of processors' GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.cwsr import SAVE_AREA_ADVICE, small_save_area
from drivers.amd.kfd.offers import UNMASK
from drivers.amd.kfd.unified import machine_limit
from drivers.amd.tools.look import Gpu, look
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput
from drivers.choice import visible_lists
from drivers.machine.lines import OK, WARN, Line
from drivers.machine.text import fields, first_line, read_text

TOPIC: Final = "gpus"
_MES_VERSION_MASK: Final = 0xFFF  # src: amdgpu_mes.h AMDGPU_MES_VERSION_MASK
_BAD_MES: Final = {("gfx1150", 0x83), ("gfx1151", 0x83)}
"""(chip, version) of the scheduler's firmware with which queues hang and memory faults.

# src: ROCm issue 5724, "amdgpu firmware (MES 0x83) causing GPU Hang / Memory access fault w/ Strix
# src: Halo"; linux-firmware 20251125 has it, commit 3d5c8135206c took it back for gfx1150
"""
_MES_ADVICE: Final = "install linux-firmware later than 20251125 (or 20251111), then reboot"
OLDEST: Final = (6, 1)
"""Linux whose KFD is 1.11. # src: drivers/amd/kfd/abi.py OLDEST_MINOR
# src: 6.1's kfd_int_process_v11.c event_interrupt_wq_v11() raises no event for a page fault"""
_WANTS_NEWER, _KFD_1_17 = "gfx1151", (6, 12)
"""# src: ROCr 7.2.4: "KFD ABI 1.20+ is recommended for gfx1151 ... may result in faults, crashes";
# src: kfd_ioctl.h of 6.12: 1.17, of 7.3: 1.23. Which kernel brought 1.20 was not read."""
_RELEASE_PATH: Final = "/proc/sys/kernel/osrelease"
_RELEASE: Final = re.compile(r"([0-9]{1,3})[.]([0-9]{1,4})").match
_BOOT: Final = "boot Linux 6.1 or later"
_GTTSIZE_PATH: Final = "/sys/module/amdgpu/parameters/gttsize"
_KEPT_BYTES: Final = 8 << 30
"""Left to the processor where all the rest is offered: a proposal, no rule of the kernel's."""
_GIB: Final = 1 << 30
_KIB_NUMBER: Final = re.compile(r"[0-9]{1,15}").fullmatch


def rows(world: World, environ: Mapping[str, str]) -> Iterator[Line]:
    """Rows of the AMD GPUs that KFD manages; none on a machine without one."""
    found = look(world)
    for node in found.broken:
        text = f"KFD node {node.index} is passed over: {node.error.message}"
        yield Line(TOPIC, WARN, text, node.error.hint)
    for gpu in found.gpus:
        if gpu.chip is not None:
            yield from _firmware(gpu, gpu.chip.name)
        if gpu.chip is not None and gpu.chip.integrated:
            yield from _memory(world, gpu)
        if gpu.chip is not None and small_save_area(gpu.chip, gpu.node):
            text = f"{_where(gpu)}: this kernel may refuse its queues, or save their waves badly"
            yield Line(TOPIC, WARN, text, SAVE_AREA_ADVICE)
    chips = [gpu for gpu in found.gpus if gpu.chip is not None]
    yield from _kernel(world, chips)
    yield from _masked(world, environ)


def _kernel(world: World, gpus: Sequence[Gpu]) -> Iterator[Line]:
    """What the kernel's release says of its KFD, which is not opened."""
    text = first_line(world, _RELEASE_PATH) if gpus else ""
    found = _RELEASE(text)
    if found is None:
        return
    release = int(found[1]), int(found[2])
    if release < OLDEST:
        yield Line(TOPIC, WARN, f"Linux {text} is too old for AMD GPUs: 6.1 is the oldest", _BOOT)
    for gpu in gpus:
        chip = gpu.chip
        if chip is not None and chip.name == _WANTS_NEWER and release <= _KFD_1_17:
            known = "may fault or hang: ROCr asks for KFD 1.20, this kernel has 1.17 or less"
            yield Line(TOPIC, WARN, f"{_where(gpu)} {known}", "boot a newer kernel: 7.3 has 1.23")
        if chip is not None and chip.name.startswith("gfx11") and release == OLDEST:
            known = "Linux 6.1 reports no page fault of it: one is a Hang"
            yield Line(TOPIC, WARN, f"{_where(gpu)}: {known}", "Linux 6.12 reports them")


def _masked(world: World, environ: Mapping[str, str]) -> Iterator[Line]:
    """GPUs that a variable hides, whichever device is chosen."""
    visible = visible_lists(environ, "AMD")
    for gpu in look(world, visible).gpus if visible else ():
        if gpu.masked:
            where = f"the AMD GPU at {gpu.node.pci_address}"
            yield Line(TOPIC, WARN, f"{where}: {gpu.masked}", UNMASK)


def _where(gpu: Gpu) -> str:
    name = gpu.chip.name if gpu.chip is not None else gpu.node.name
    return f"{name} at {gpu.node.pci_address}"


def _firmware(gpu: Gpu, chip: str) -> Iterator[Line]:
    version = gpu.firmware.get("mes", 0) & _MES_VERSION_MASK
    if (chip, version) in _BAD_MES:
        text = f"{_where(gpu)}: MES firmware {version:#x} is known to hang it"
        yield Line(TOPIC, WARN, text, _MES_ADVICE)


def _memory(world: World, gpu: Gpu) -> Iterator[Line]:
    """How much of the machine's memory a processor's GPU may use, and how to give it more."""
    try:
        limit, total = machine_limit(world), _total(world)
    except MalformedInput:
        raise
    except DeviceError as error:
        yield Line(TOPIC, WARN, f"{_where(gpu)}: {error.message}", error.hint)
        return
    node = gpu.node
    text = (
        f"{_where(gpu)} may use {node.memory_bytes / _GIB:.1f} GiB; "
        f"TTM's limit is {limit / _GIB:.1f} of {total / _GIB:.1f} GiB"
    )
    yield Line(TOPIC, OK, text, _more(total - _KEPT_BYTES, limit))
    gttsize = first_line(world, _GTTSIZE_PATH)
    if gttsize not in ("", "-1"):
        text = f"amdgpu.gttsize={gttsize} limits what {_where(gpu)} may use to that many MiB"
        yield Line(TOPIC, WARN, text, "leave it out and set ttm.pages_limit")


def _more(offered: int, limit: int) -> str:
    if offered <= limit:
        return ""
    pages = offered // PAGE_BYTES
    return f"for more: ttm.pages_limit={pages} on the kernel's command line ({offered // _GIB} GiB)"


def _total(world: World) -> int:
    """Memory of the machine in bytes. Raises: MalformedInput."""
    value = dict(fields(read_text(world, "/proc/meminfo"))).get("MemTotal", "")
    number, _, unit = value.partition(" ")
    if not _KIB_NUMBER(number) or unit != "kB":
        raise MalformedInput("/proc/meminfo has no MemTotal in kB")
    return int(number) << 10
