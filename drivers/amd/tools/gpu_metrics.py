"""What amdgpu reports in one file: `gpu_metrics` in the folder of a PCI function.

Format 1 is of cards, 2 and 3 are of processors' GPUs. A number of all ones is one that the GPU
does not have. Each format is a structure with its size, but 1.9, which lists its attributes.

Offsets: gcc's view of include/kgd_pp_interface.h, struct gpu_metrics_v1_0 to v1_5, v2_0 to v2_4 and
v3_0 of Linux 6.12; v1_6 to v1_8 of the same header in Linux 6.15 to 6.18; v1_9 of Linux 6.19,
struct gpu_metrics_attr, AMDGPU_METRICS_ENC_ATTR() and DECLARE_SMU_METRICS_CLASS() of smu_cmn.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from drivers.amd.tools.readings import Readings
from drivers.base.errors import Unsupported
from drivers.base.view import View

LIMIT_BYTES: Final = 1 << 12
_HEADER_BYTES, _CODE_BYTES = 4, 8
_CENTI, _MILLI = 1e-2, 1e-3
_NEWER: Final = "the kernel is newer than this reader: hwmon and gpu_busy_percent have most of it"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reading is: `count` numbers of `nbytes`, of which the largest counts."""

    off: int
    scale: float = 0.0
    """Of one step, in the unit of the reading; 0 keeps the number as it is."""
    nbytes: int = 2
    count: int = 1
    instead: int | None = None
    """Where the GPU's average is, for firmware that reports no present value."""


Places = Mapping[str, Place]
"""A name of `Readings` -> where it is."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One structure."""

    nbytes: int
    places: Places


def _card(nbytes: int, first: int) -> Layout:
    """v1_0 to v1_3: `first` is where temperatures begin; what follows the clocks never moved."""
    return Layout(nbytes, {
        "edge_c": Place(first), "hotspot_c": Place(first + 2), "memory_c": Place(first + 4),
        "gfx_percent": Place(first + 12), "memory_percent": Place(first + 14),
        "power_w": Place(first + 18), "gfx_mhz": Place(54, instead=40),
        "soc_mhz": Place(56, instead=42), "memory_mhz": Place(58, instead=44),
        "fan_rpm": Place(72),
    })  # fmt: skip


def _instinct(nbytes: int, clocks: int) -> Layout:
    """v1_4 to v1_8: `clocks` is where those of eight XCCs begin."""
    return Layout(nbytes, {
        "hotspot_c": Place(4), "memory_c": Place(6), "power_w": Place(10),
        "gfx_percent": Place(12), "memory_percent": Place(14),
        "gfx_mhz": Place(clocks, count=8), "soc_mhz": Place(clocks + 16),
        "memory_mhz": Place(clocks + 40),
    })  # fmt: skip


def _processor(nbytes: int, gfx: int, average: int) -> Layout:
    """v2_0 to v2_3: the unit of power and of activity differs by chip and firmware: not read.

    # src: CurrentSocketPower is in watts in smu12_driver_if.h, in milliwatts in
    # src: smu13_driver_if_yellow_carp.h; GfxActivity is taken as percent in vangogh_ppt.c's
    # src: vangogh_common_get_smu_metrics_data(), as hundredths in its older twin
    """
    return Layout(nbytes, {
        "edge_c": Place(gfx, _CENTI), "gfx_mhz": Place(average + 12, instead=average),
        "soc_mhz": Place(average + 14, instead=average + 2),
        "memory_mhz": Place(average + 16, instead=average + 4),
    })  # fmt: skip


_V2_3: Final = _processor(152, 4, 64)
LAYOUTS: Final[dict[tuple[int, int], Layout]] = {
    (1, 0): _card(80, 16), (1, 1): _card(96, 4), (1, 2): _card(104, 4), (1, 3): _card(120, 4),
    (1, 4): _instinct(288, 240), (1, 5): _instinct(360, 312), (1, 6): _instinct(1664, 264),
    (1, 7): _instinct(2208, 296), (1, 8): _instinct(3872, 296),
    (2, 0): _processor(120, 16, 68), (2, 1): _processor(120, 4, 64),
    (2, 2): _processor(128, 4, 64), (2, 3): _V2_3,
    (2, 4): replace(_V2_3, nbytes=168, places={
        **_V2_3.places, "power_w": Place(40, _MILLI), "gfx_percent": Place(28, _CENTI),
    }),
    (3, 0): Layout(264, {
        "edge_c": Place(4, _CENTI), "gfx_percent": Place(42), "power_w": Place(112, _MILLI, 4),
        "gfx_mhz": Place(174), "soc_mhz": Place(176), "memory_mhz": Place(186),
    }),
}  # fmt: skip
"""By format and content revision."""
_PROCESSORS: Final = (2, 3)
"""# src: Linux 6.12, smu_cmn_init_soft_gpu_metrics() in vangogh_ppt.c, renoir_ppt.c and others"""
LISTED: Final = (1, 9)
"""Attributes one after the other: 64 bits of what it is, then its numbers."""
ATTRIBUTES: Final = {
    0: "hotspot_c", 1: "memory_c", 3: "power_w", 4: "gfx_percent", 5: "memory_percent",
    33: "gfx_mhz", 34: "soc_mhz", 37: "memory_mhz",
}  # fmt: skip
"""# src: enum amdgpu_metrics_attr_id: TEMPERATURE_HOTSPOT, TEMPERATURE_MEM, CURR_SOCKET_POWER,
# src: AVERAGE_GFX_ACTIVITY, AVERAGE_UMC_ACTIVITY, CURRENT_GFXCLK, CURRENT_SOCCLK, CURRENT_UCLK"""
_TYPES: Final = ((1, False), (1, True), (2, False), (2, True),
                 (4, False), (4, True), (8, False), (8, True))  # fmt: skip
"""(bytes, signed). # src: enum amdgpu_metrics_attr_type"""
_TYPE_SHIFT, _ID_SHIFT, _ID_MASK, _COUNT_MASK = 20, 10, 0x3FF, 0x3FF
_TYPE_MASK: Final = 0xF
_MOST_ATTRIBUTES: Final = 256


def is_processors(data: bytes) -> bool:
    """Whether a table is of a processor's GPU (APU): formats 2 and 3."""
    return len(data) >= _HEADER_BYTES and data[2] in _PROCESSORS


def parse(data: bytes) -> Readings:
    """The table. Raises: MalformedInput; Unsupported for a format that is not known."""
    view = View(data, "gpu_metrics")
    size, major, minor = view.unpack("HBB", 0, "metrics_table_header")
    if (major, minor) == LISTED:
        return _listed(view.sub(0, size, "the table"))
    layout = LAYOUTS.get((major, minor))
    if layout is None:
        raise Unsupported(f"format v{major}_{minor} unknown", hint=_NEWER)
    if size < layout.nbytes:
        raise view.fail(f"structure_size {size} is less than the {layout.nbytes} of its version")
    table = view.sub(0, layout.nbytes, "the table")
    return Readings.of({name: _read(table, place) for name, place in layout.places.items()})


def _read(table: View, place: Place) -> float | None:
    value = _largest(table, place.off, place.nbytes, place.count)
    if value is None and place.instead is not None:
        value = _largest(table, place.instead, place.nbytes, 1)
    return value * place.scale if value is not None and place.scale else value


def _largest(table: View, off: int, nbytes: int, count: int, *, signed: bool = False) -> int | None:
    """The largest number that is not all ones; None where all are."""
    raw = table.bytes(off, nbytes * count, "numbers")
    ones = b"\xff" * nbytes
    parts = [raw[at : at + nbytes] for at in range(0, len(raw), nbytes)]
    values = [int.from_bytes(part, "little", signed=signed) for part in parts if part != ones]
    return max(values, default=None)


def _listed(table: View) -> Readings:
    """Attributes until their count or the table's end."""
    count, off = table.u32(_HEADER_BYTES, "attr_count"), 2 * _HEADER_BYTES
    if count > _MOST_ATTRIBUTES:
        raise table.fail(f"{count} attributes; at most {_MOST_ATTRIBUTES} are read")
    found: dict[str, int | None] = {}
    for number in range(count):
        code = table.u64(off, f"attribute {number}")
        kind, numbers = code >> _TYPE_SHIFT & _TYPE_MASK, code & _COUNT_MASK
        if kind >= len(_TYPES):
            raise table.fail(f"attribute {number} has type {kind}")
        nbytes, signed = _TYPES[kind]
        name = ATTRIBUTES.get(code >> _ID_SHIFT & _ID_MASK)
        off += _CODE_BYTES
        if name is not None:
            found[name] = _largest(table, off, nbytes, numbers, signed=signed)
        off += nbytes * numbers
    return Readings.of(found)
