"""Registers of AMD's IP blocks by name, as data: one text file for each version of a block.

The texts are as drivers/bare/registers.py says; a segment's base is in the chip's discovery table.
Fields whose names repeat the number of their doorbell entry are without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from drivers.amd.pci.hwid import HwId
from drivers.bare.registers import RegisterFile
from drivers.base.errors import Unsupported

Version = tuple[int, int, int]

FILES: Mapping[HwId, Mapping[Version, str]] = {
    HwId.GC: {
        (9, 4, 3): "gc_9_4_3", (9, 4, 4): "gc_9_4_3", (11, 0, 0): "gc_11_0_0",
        (11, 0, 2): "gc_11_0_0", (11, 0, 3): "gc_11_0_3",
        (12, 0, 0): "gc_12_0_0", (12, 0, 1): "gc_12_0_0",
    },
    HwId.MMHUB: {
        (1, 8, 0): "mmhub_1_8_0", (3, 0, 0): "mmhub_3_0_0", (3, 0, 2): "mmhub_3_0_2",
        (4, 1, 0): "mmhub_4_1_0",
    },
    HwId.NBIF: {
        (4, 3, 0): "nbio_4_3_0", (4, 3, 1): "nbio_4_3_0", (7, 9, 0): "nbio_7_9_0",
        (6, 3, 1): "nbif_6_3_1",
    },
    HwId.MP0: {
        (13, 0, 0): "mp0_13_0_2", (13, 0, 6): "mp0_13_0_2", (13, 0, 7): "mp0_13_0_2",
        (13, 0, 10): "mp0_13_0_2", (13, 0, 14): "mp0_13_0_2",
        (14, 0, 2): "mp0_14_0_2", (14, 0, 3): "mp0_14_0_2",
    },
    HwId.MP1: {
        (13, 0, 0): "mp1_13_0_0", (13, 0, 6): "mp1_13_0_0", (13, 0, 7): "mp1_13_0_0",
        (13, 0, 10): "mp1_13_0_0", (13, 0, 14): "mp1_13_0_0",
        (14, 0, 2): "mp1_13_0_0", (14, 0, 3): "mp1_13_0_0",
    },
    HwId.OSSSYS: {
        (4, 4, 2): "osssys_4_4_2", (6, 0, 0): "osssys_6_0_0", (6, 0, 1): "osssys_6_0_0",
        (6, 0, 2): "osssys_6_0_0", (7, 0, 0): "osssys_7_0_0",
    },
    HwId.HDP: {
        (4, 4, 2): "hdp_4_4_2", (6, 0, 0): "hdp_6_0_0", (6, 0, 1): "hdp_6_0_0",
        (6, 1, 0): "hdp_6_0_0", (6, 1, 1): "hdp_6_0_0", (7, 0, 0): "hdp_7_0_0",
    },
    HwId.SDMA0: {(4, 4, 2): "sdma_4_4_2", (4, 4, 5): "sdma_4_4_2"},
}  # fmt: skip
"""Which file describes which version of which block. src: Linux 6.12: the headers that the source
files for these versions include (amdgpu_discovery.c says which source file is for which version).
SDMA since gfx11 is in the graphics core's file, as `SDMA0_*` and `SDMA1_*`."""


@cache
def load(hw: HwId, version: Version) -> RegisterFile:
    """The registers of a block. Raises: Unsupported for a version that nothing is known about."""
    name = FILES.get(hw, {}).get(version)
    if name is None:
        shown = ".".join(map(str, version))
        raise Unsupported(
            f"the registers of {hw.name} {shown} are not known",
            hint="The chip is newer than this driver: leave it to its kernel driver",
        )
    text = files("drivers.amd.pci").joinpath("registers", f"{name}.txt").read_text("ascii")
    return RegisterFile(name, text)
