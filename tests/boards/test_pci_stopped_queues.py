"""A queue of a bare GPU that stops for another reason than a page fault: the reason has a name."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drivers.amd.pci import gmc, ih
from drivers.amd.pci.fault import Fault
from drivers.amd.pci.process import Process
from drivers.base.errors import DeviceFault
from drivers.gpu.incident import Incident, PageFault
from queues.amd.kernel_code import AmdCode
from tests.boards.driver_harness import add, device_on, put
from tests.boards.test_driver_faults import N, still_works
from tests.support import check

KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PCI PM4"), ("gfx1201", "VRAM AQL"), ("gfx942", "PCI AQL")],
)
NO_INSTRUCTION = b"\xff" * 64
"""No instruction of any generation begins so."""


@KINDS
def test_an_illegal_instruction(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        good, binary = device.load(add(chip)), add(chip)
        at = AmdCode.of(binary).code_offset
        image = binary.image[:at] + NO_INSTRUCTION + binary.image[at + len(NO_INSTRUCTION) :]
        bad, x = device.load(replace(binary, image=image)), put(device, np.ones(N, np.float32))
        for _ in range(2):
            device.launch(bad, [x, x, x, N], 1)
            with pytest.raises(DeviceFault, match="Compile the kernel for this chip") as caught:
                device.synchronize()
            fault = caught.value
            check((fault.kind, fault.kernel) == ("illegal instruction", "k"), str(fault))
            check(fault.queue == "AMD:0 compute queue", fault.queue)
            still_works(device, good)


@KINDS
def test_a_bad_packet(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        good = device.load(add(chip))
        device.compute.emit([3 << 30 | 0xEE << 8, 0])
        with pytest.raises(DeviceFault, match="bad packet") as caught:
            device.synchronize()
        check(caught.value.kind == "bad packet" and "no kernel" in str(caught.value))
        still_works(device, good)


def _entry(source: int, *data: int) -> ih.Entry:
    """Of gfx11's command processor. # src: soc15_ih_clientid.h, irqsrcs_gfx_11_0_0.h"""
    return ih.decode(11, struct.pack("<8I", 0x14 | source << 8 | 8 << 24, 0, 0, 0, *data, 0, 0))


VIOLATION = _entry(239, 2 << 21, 2 << 6)
"""src: kfd_int_process_v11.c, SQ_INTERRUPT_ERROR_TYPE_MEMVIOL"""
PAGE = PageFault(0x123000, "unmapped", "read", client="TCP")


@pytest.mark.parametrize(
    ("entries", "kept", "reported", "cleared"),
    [
        ([VIOLATION], None, Incident(cause="memory violation"), 0),
        ([VIOLATION], Fault(0, PAGE, False), Incident(cause="memory violation"), 0),
        ([VIOLATION], Fault(8, PAGE, False), Incident(page=PAGE), 1),
        ([_entry(181, 0, 0)], Fault(8, PAGE, False), None, 0),
        ([_entry(239, 1 << 21, 1 << 6)], None, None, 0),
    ],
)
def test_which_of_several_reasons_is_told(
    monkeypatch: pytest.MonkeyPatch, entries: list[ih.Entry], kept: Fault | None,
    reported: Incident | None, cleared: int,
) -> None:  # fmt: skip
    """A wave tells of a page fault's consequence, perhaps before the fault itself is told."""
    clears: list[object] = []
    monkeypatch.setattr(ih, "poll", lambda gpu: entries)
    monkeypatch.setattr(gmc, "read_fault", lambda gpu: kept)
    monkeypatch.setattr(gmc, "clear_fault", clears.append)
    mmio = SimpleNamespace(bus=SimpleNamespace(step=""))
    gpu: Any = SimpleNamespace(gc_version=(11, 0, 0), mmio=mmio)
    check(Process(gpu).trouble() == reported and len(clears) == cleared)
