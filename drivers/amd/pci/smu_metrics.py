"""What the SMU measures: clocks, power, temperatures, decoded from its table of metrics.

Offsets: gcc's view of Linux 6.12, smu13_driver_if_v13_0_0.h, smu13_driver_if_v13_0_7.h,
smu14_driver_if_v14_0.h (SmuMetricsExternal_t), smu_v13_0_6_pmfw.h (MetricsTableX_t)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drivers.amd.pci import smu
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.registers import Version
from drivers.amd.tools.readings import Readings
from drivers.base.view import View

_BUSY_PERCENT: Final = 15
"""Below it the frequency after deep sleep counts. src: SMU_13_0_0_BUSY_THRESHOLD"""
_Q10: Final = 10
"""Fraction bits of the numbers of 13.0.6. src: smu_v13_0_6_ppt.c, SMUQ10_TO_UINT"""
_XCCS: Final = 8


@dataclass(frozen=True, slots=True)
class RdnaOffsets:
    """Byte offsets in SmuMetricsExternal_t."""

    nbytes: int
    gfx_before_sleep: int
    gfx_after_sleep: int
    gfx_percent: int
    memory_percent: int
    socket_w: int
    temperatures: int
    fan_rpm: int
    gfx_clock: int = 0
    soc_clock: int = 4
    memory_clock: int = 8
    fabric_clock: int = 12
    hotspot: int = 1
    memory: int = 4


_V13: Final = RdnaOffsets(
    nbytes=392, gfx_before_sleep=54, gfx_after_sleep=56, gfx_percent=104, memory_percent=106,
    socket_w=116, temperatures=120, fan_rpm=152,
)  # fmt: skip
_V14: Final = RdnaOffsets(
    nbytes=412, gfx_before_sleep=46, gfx_after_sleep=48, gfx_percent=124, memory_percent=126,
    socket_w=136, temperatures=140, fan_rpm=170,
)  # fmt: skip
_MI300_BYTES: Final = 2008
_MI300: Final = {"socket": 4, "hbm": 12, "limit": 40, "power": 48, "fabric": 108, "memory": 112,
                 "soc": 116, "busy": 1272, "gfx": 1372}  # fmt: skip


def parse_rdna(data: bytes, at: RdnaOffsets) -> Readings:
    """A table of SMU 13.0.0, 13.0.7, 13.0.10 or 14.0.x. Raises: MalformedInput when short."""
    view = View(data, "SMU metrics")
    busy = view.u16(at.gfx_percent, "AverageGfxActivity")
    after = at.gfx_after_sleep if busy <= _BUSY_PERCENT else at.gfx_before_sleep
    hot = at.temperatures + 2 * at.hotspot
    return Readings(
        gfx_mhz=view.u16(after, "AverageGfxclkFrequency"),
        soc_mhz=view.u32(at.soc_clock, "CurrClock[SOC]"),
        memory_mhz=view.u32(at.memory_clock, "CurrClock[U]"),
        fabric_mhz=view.u32(at.fabric_clock, "CurrClock[F]"),
        power_w=float(view.u16(at.socket_w, "AverageSocketPower")),
        edge_c=float(view.u16(at.temperatures, "edge")),
        hotspot_c=float(view.u16(hot, "hotspot")),
        memory_c=float(view.u16(at.temperatures + 2 * at.memory, "memory")),
        fan_rpm=view.u16(at.fan_rpm, "AvgFanRpm"),
        gfx_percent=busy,
        memory_percent=view.u16(at.memory_percent, "AverageUclkActivity"),
    )


def parse_mi300(data: bytes) -> Readings:
    """A table of SMU 13.0.6: the graphics clock is the fastest XCC's. Raises: MalformedInput."""
    view = View(data, "SMU metrics")

    def number(name: str) -> float:
        return view.u32(_MI300[name], name) / (1 << _Q10)

    clocks = view.table("I", _MI300["gfx"], _XCCS, "GfxclkFrequency")
    return Readings(
        gfx_mhz=max(value for (value,) in clocks) >> _Q10,
        soc_mhz=int(number("soc")),
        memory_mhz=int(number("memory")),
        fabric_mhz=int(number("fabric")),
        power_w=number("power"),
        power_limit_w=number("limit"),
        hotspot_c=number("socket"),
        memory_c=number("hbm"),
        gfx_percent=int(number("busy")),
    )


_PARSERS: Final[dict[Version, tuple[int, Callable[[bytes], Readings]]]] = {
    **{version: (_V13.nbytes, lambda data: parse_rdna(data, _V13))
       for version in ((13, 0, 0), (13, 0, 7), (13, 0, 10))},
    **{version: (_V14.nbytes, lambda data: parse_rdna(data, _V14))
       for version in ((14, 0, 2), (14, 0, 3))},
    **dict.fromkeys(((13, 0, 6), (13, 0, 14)), (_MI300_BYTES, parse_mi300)),
}  # fmt: skip


def metrics(gpu: BareGpu) -> Readings:
    """What a booted GPU measures now. Raises: Unsupported, DeviceError, DeviceTimeout."""
    smu.dialect(gpu)
    nbytes, parse = _PARSERS[gpu.ips.version(HwId.MP1)]
    return parse(smu.read_table(gpu, nbytes))
