"""Messages, clocks and limits of the power controllers, by generation, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards.amd.cp.engine_types import Chip, Version

_FOLDER = Path(__file__).parent / "smu_data"


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a metrics table."""

    offset: int
    nbytes: int
    """Of one element."""
    count: int


@dataclass(frozen=True, slots=True)
class Smu:
    """One generation."""

    data: str
    """Suffix of its files."""
    driver_interface: int
    version: int
    debug_mailbox: bool
    """Whether mode-1 resets go through C2PMSG_53, 54, 75."""
    clocks: Mapping[int, tuple[str, tuple[int, ...]]]
    """PPCLK number to name and frequencies in MHz, lowest first."""
    power_w: int
    """Default power limit."""
    metrics_bytes: int


_GFX, _SOC, _UCLK, _FCLK = 0, 1, 2, 3
# src: smu13_driver_if_v13_0_0.h, smu13_driver_if_v13_0_7.h, smu14_driver_if_v14_0.h PPCLK_e: the
# same four first. Frequencies are made up, within what the cards' data sheets say.
_OTHER_MHZ = (500, 1000)
"""Of clocks of blocks that no board has, which amdgpu asks for all the same."""
_CLOCKS_11 = {
    _GFX: ("GFX", (500, 2500)),
    _SOC: ("SOC", (500, 700, 900, 1100, 1200)),
    _UCLK: ("UCLK", (96, 456, 772, 1249)),
    _FCLK: ("FCLK", (500, 1000, 1500, 2000)),
} | {
    number: (name, _OTHER_MHZ)
    for number, name in enumerate(
        ("DCLK0", "VCLK0", "DCLK1", "VCLK1", "DISP", "DPP", "DPREF", "DCF", "DTB"), 4
    )
}
_CLOCKS_12 = {
    _GFX: ("GFX", (500, 2970)),
    _SOC: ("SOC", (500, 800, 1000, 1200)),
    _UCLK: ("UCLK", (96, 456, 772, 1000, 1124, 1258)),
    _FCLK: ("FCLK", (500, 1000, 1500, 1900)),
} | {
    number: (name, _OTHER_MHZ)
    for number, name in enumerate(("DCLK0", "VCLK0", "DISP", "DPP", "DPREF", "DCF", "DTB"), 4)
}
# src: smu13_driver_if_v13_0_6.h PPCLK_e; its graphics clock has messages of its own
_CLOCKS_942 = {
    0: ("VCLK", (914, 1333)),
    1: ("DCLK", (711, 1143)),
    2: ("SOC", (800, 1000, 1143)),
    3: ("UCLK", (900, 1100, 1200, 1300)),
    4: ("FCLK", (1200, 1600, 1900, 2000)),
    5: ("LCLK", (800, 1000, 1143)),
}
GFX_942_MHZ = (500, 2100)
_SMUS: Mapping[Version, Smu] = {
    # src: smu13_driver_if_v13_0_0.h, smu13_driver_if_v13_0_7.h *_DRIVER_IF_VERSION, smu_v14_0.h,
    # smu13_driver_if_v13_0_6.h; smu_v13_0_0_ppt.c smu_v13_0_0_mode1_reset()
    (13, 0, 0): Smu(
        data="13_0_0",
        driver_interface=0x3D,
        version=0x004E_8100,
        debug_mailbox=True,
        clocks=_CLOCKS_11,
        power_w=339,
        metrics_bytes=392,
    ),
    (13, 0, 10): Smu(
        data="13_0_0",
        driver_interface=0x3D,
        version=0x0050_7000,
        debug_mailbox=True,
        clocks=_CLOCKS_11,
        power_w=212,
        metrics_bytes=392,
    ),
    (13, 0, 7): Smu(
        data="13_0_7",
        driver_interface=0x35,
        version=0x0052_5A00,
        debug_mailbox=True,
        clocks=_CLOCKS_11,
        power_w=145,
        metrics_bytes=392,
    ),
    (14, 0, 2): Smu(
        data="14_0_2",
        driver_interface=0x2E,
        version=0x0066_4600,
        debug_mailbox=True,
        clocks=_CLOCKS_12,
        power_w=150,
        metrics_bytes=412,
    ),
    (14, 0, 3): Smu(
        data="14_0_2",
        driver_interface=0x2E,
        version=0x0068_4600,
        debug_mailbox=True,
        clocks=_CLOCKS_12,
        power_w=304,
        metrics_bytes=412,
    ),
    (13, 0, 6): Smu(
        data="13_0_6",
        driver_interface=0x0804_2024,
        version=0x0055_8100,
        debug_mailbox=False,
        clocks=_CLOCKS_942,
        power_w=750,
        metrics_bytes=2008,
    ),
}
"""Firmware versions are newer than any that Linux works around."""


def smu_of(chip: Chip) -> Smu:
    """The generation of a chip. Raises: KeyError."""
    return _SMUS[chip.ip["MP1"]]


def _lines(name: str) -> list[list[str]]:
    text = (_FOLDER / f"{name}.txt").read_text(encoding="ascii")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


@cache
def messages(data: str) -> Mapping[int, str]:
    """Names of all messages by number."""
    return {int(number, 16): name for name, number in _lines(f"messages_{data}")}


@cache
def metrics(data: str) -> Mapping[str, Field]:
    """Members of the metrics table."""
    rows = _lines(f"metrics_{data}")
    return {name: Field(int(off, 16), int(size), int(count)) for name, off, size, count in rows}
