"""Numbers of firmware kinds, against the kernel's headers as the C compiler sees them."""

from __future__ import annotations

from drivers.amd.firmware.types import LOAD_ORDER, GfxFw, PspFw
from tests.firmware_maker import ENUMS
from tests.support import check


def test_numbers_of_kinds() -> None:
    for kind in GfxFw:
        check(ENUMS[f"GFX_FW_TYPE_{kind.name}"] == kind, f"{kind.name} is {kind.value}")
    for part in PspFw:
        check(ENUMS[f"PSP_FW_TYPE_PSP_{part.name}"] == part, f"{part.name} is {part.value}")
    check(len(PspFw) == ENUMS["PSP_FW_TYPE_MAX_INDEX"] - 1, "a kind of PSP part is missing")


def test_the_rlc_starts_everything_so_it_is_last() -> None:
    last = max(GfxFw, key=LOAD_ORDER.__getitem__)
    check(last is GfxFw.RLC_G, f"the last one is {last.name}")
    check(LOAD_ORDER[GfxFw.RS64_MEC] < LOAD_ORDER[GfxFw.IMU_I] < LOAD_ORDER[GfxFw.RLC_IRAM])
