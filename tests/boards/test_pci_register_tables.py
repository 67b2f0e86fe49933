"""Driver and board took their registers from the headers apart: where both have one, they agree."""

from __future__ import annotations

from pathlib import Path

import pytest

import drivers.amd.pci
from boards.amd.pci.register_table import table
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.registers import load
from tests.support import check

FOLDER = Path(drivers.amd.pci.__file__).parent / "registers"
SHARED = {
    "gc_11_0_0": (HwId.GC, (11, 0, 0)), "gc_11_0_3": (HwId.GC, (11, 0, 3)),
    "gc_12_0_0": (HwId.GC, (12, 0, 1)), "gc_9_4_3": (HwId.GC, (9, 4, 3)),
    "mmhub_1_8_0": (HwId.MMHUB, (1, 8, 0)), "mmhub_3_0_0": (HwId.MMHUB, (3, 0, 0)),
    "mmhub_3_0_2": (HwId.MMHUB, (3, 0, 2)), "mmhub_4_1_0": (HwId.MMHUB, (4, 1, 0)),
    "nbio_4_3_0": (HwId.NBIF, (4, 3, 0)), "nbif_6_3_1": (HwId.NBIF, (6, 3, 1)),
    "nbio_7_9_0": (HwId.NBIF, (7, 9, 0)), "osssys_6_0_0": (HwId.OSSSYS, (6, 0, 0)),
    "osssys_7_0_0": (HwId.OSSSYS, (7, 0, 0)), "osssys_4_4_2": (HwId.OSSSYS, (4, 4, 2)),
    "hdp_6_0_0": (HwId.HDP, (6, 0, 0)), "hdp_7_0_0": (HwId.HDP, (7, 0, 0)),
    "hdp_4_4_2": (HwId.HDP, (4, 4, 2)), "sdma_4_4_2": (HwId.SDMA0, (4, 4, 2)),
}  # fmt: skip


def names(name: str) -> list[str]:
    """What the driver's file has, role lines left out."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    return [word[0] for word in words if word[0] != "role"]


@pytest.mark.parametrize("name", SHARED)
def test_offsets_and_fields_agree(name: str) -> None:
    ours, theirs = table(name), load(*SHARED[name])
    shared = [register for register in names(name) if register in ours]
    check(len(shared) > 1, f"only {shared}")
    compared = 0
    for register in shared:
        board, driver = ours[register], theirs.get(register)
        places = (board.segment, board.offset_dw), (driver.segment, driver.offset_dw)
        check(places[0] == places[1], f"{register}: {places}")
        fields = {field.lower(): bits for field, bits in board.fields.items()}
        for field, bits in driver.fields.items():
            if field in fields:
                check(fields[field] == tuple(bits), f"{register}.{field}")
                compared += 1
    check(compared or name.startswith("hdp"), "no field was compared")


@pytest.mark.parametrize("name", SHARED)
def test_the_board_knows_what_the_driver_may_ask_for(name: str) -> None:
    ours = table(name)
    missing = [register for register in names(name) if register not in ours]
    # src: the headers' marks of where a block begins, which are no registers
    unknown = [register for register in missing if not register.endswith("_DEC_START")]
    check(unknown == [], f"{len(unknown)}: {unknown[:5]}")
