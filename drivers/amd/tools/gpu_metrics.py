"""What amdgpu reports in one file: `gpu_metrics` in the folder of a PCI function.

Offsets: gcc's view of Linux 6.12, include/kgd_pp_interface.h, struct gpu_metrics_v1_0 to v1_5.
A field of all ones is one that the GPU does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from drivers.amd.tools.readings import Readings
from drivers.base.errors import Unsupported
from drivers.base.view import View

LIMIT_BYTES: Final = 1 << 12
_ABSENT: Final = 0xFFFF
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class MetricsOffsets:
    """Byte offsets of 16-bit numbers; None is a field that the version lacks."""

    nbytes: int
    edge: int | None
    hotspot: int
    memory: int
    power: int
    gfx_percent: int
    memory_percent: int
    gfx_clocks: int
    gfx_clock_count: int
    soc_clock: int
    memory_clock: int
    fan: int | None


_OLD: Final = MetricsOffsets(
    nbytes=96, edge=4, hotspot=6, memory=8, power=22, gfx_percent=16, memory_percent=18,
    gfx_clocks=54, gfx_clock_count=1, soc_clock=56, memory_clock=58, fan=72,
)  # fmt: skip
LAYOUTS: Final[dict[int, MetricsOffsets]] = {
    0: MetricsOffsets(
        nbytes=80, edge=16, hotspot=18, memory=20, power=34, gfx_percent=28, memory_percent=30,
        gfx_clocks=54, gfx_clock_count=1, soc_clock=56, memory_clock=58, fan=72,
    ),
    1: _OLD, 2: replace(_OLD, nbytes=104), 3: replace(_OLD, nbytes=120),
    4: MetricsOffsets(
        nbytes=288, edge=None, hotspot=4, memory=6, power=10, gfx_percent=12, memory_percent=14,
        gfx_clocks=240, gfx_clock_count=8, soc_clock=256, memory_clock=280, fan=None,
    ),
    5: MetricsOffsets(
        nbytes=360, edge=None, hotspot=4, memory=6, power=10, gfx_percent=12, memory_percent=14,
        gfx_clocks=312, gfx_clock_count=8, soc_clock=328, memory_clock=352, fan=None,
    ),
}  # fmt: skip
"""By content revision, all of format 1: discrete GPUs."""


def parse(data: bytes) -> Readings:
    """The table. Raises: MalformedInput; Unsupported for a version that is not known."""
    view = View(data, "gpu_metrics")
    size, major, minor = view.unpack("HBB", 0, "metrics_table_header")
    layout = LAYOUTS.get(minor) if major == _FORMAT else None
    if layout is None:
        raise Unsupported(
            f"gpu_metrics has version {major}.{minor}, and 1.0 to 1.{max(LAYOUTS)} are known",
            hint="The kernel is newer than this reader: hwmon has most of it, too",
        )
    if size < layout.nbytes:
        raise view.fail(f"structure_size {size} is less than the {layout.nbytes} of its version")
    table = view.sub(0, layout.nbytes, "the table")

    def number(at: int | None) -> int | None:
        value = _ABSENT if at is None else table.u16(at, "a number")
        return None if value == _ABSENT else value

    clocks = [number(layout.gfx_clocks + 2 * at) for at in range(layout.gfx_clock_count)]
    return Readings(
        gfx_mhz=max((clock for clock in clocks if clock is not None), default=None),
        soc_mhz=number(layout.soc_clock),
        memory_mhz=number(layout.memory_clock),
        power_w=number(layout.power),
        edge_c=number(layout.edge),
        hotspot_c=number(layout.hotspot),
        memory_c=number(layout.memory),
        fan_rpm=number(layout.fan),
        gfx_percent=number(layout.gfx_percent),
        memory_percent=number(layout.memory_percent),
    )
