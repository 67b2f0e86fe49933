"""What amdgpu reports of a GPU in sysfs: hwmon, memory, and `gpu_metrics` for what those lack.

Source: Linux 6.12, Documentation/gpu/amdgpu/thermal.rst; amdgpu_pm.c
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

from drivers.amd.tools import gpu_metrics
from drivers.amd.tools.readings import Readings
from drivers.base.contracts import World
from drivers.base.errors import Denied, MalformedInput, NotFound, Unsupported
from drivers.machine.text import entries, first_line

_MILLI, _MICRO = 1e-3, 1e-6
_HZ_PER_MHZ: Final = 1_000_000
_MOST_DIGITS: Final = 20
_TEMPERATURES: Final = {"edge": "edge_c", "junction": "hotspot_c", "mem": "memory_c"}
_CLOCKS: Final = {"sclk": "gfx_mhz", "mclk": "memory_mhz"}
_CHANNELS: Final = range(1, 5)


def read(world: World, folder: str) -> tuple[Readings, list[str]]:
    """Readings of the function whose sysfs folder this is, and what could not be had.

    Raises: MalformedInput for a file that is not what the kernel writes.
    """
    found: dict[str, int | float] = {}
    lacks: list[str] = []
    names = entries(world, f"{folder}/hwmon")
    if names:
        _hwmon(world, f"{folder}/hwmon/{min(names)}", found)
    else:
        lacks.append("no hwmon: temperatures, power and clocks come from gpu_metrics alone")
    for name, key in (("mem_info_vram_total", "memory_bytes"),
                      ("mem_info_vram_used", "memory_used_bytes"),
                      ("gpu_busy_percent", "gfx_percent"),
                      ("mem_busy_percent", "memory_percent")):  # fmt: skip
        _put(world, f"{folder}/{name}", key, found)
    readings = Readings.of(found)
    try:
        table = gpu_metrics.parse(world.read(f"{folder}/gpu_metrics", gpu_metrics.LIMIT_BYTES))
    except (NotFound, Denied, Unsupported) as error:
        lacks.append(f"gpu_metrics: {error.message}")
        return readings, lacks
    return merged(readings, table), lacks


def merged(first: Readings, second: Readings) -> Readings:
    """What the first does not report, the second may."""
    values = {
        field.name: getattr(second, field.name)
        for field in fields(Readings)
        if getattr(first, field.name) is None
    }
    return replace(first, **values)


def _hwmon(world: World, folder: str, found: dict[str, int | float]) -> None:
    for channel in _CHANNELS:
        key = _TEMPERATURES.get(first_line(world, f"{folder}/temp{channel}_label"))
        if key is not None:
            _put(world, f"{folder}/temp{channel}_input", key, found, _MILLI)
        key = _CLOCKS.get(first_line(world, f"{folder}/freq{channel}_label"))
        if key is not None:
            _put(world, f"{folder}/freq{channel}_input", key, found)
            if key in found:
                found[key] = int(found[key]) // _HZ_PER_MHZ
    for name in ("power1_average", "power1_input"):
        _put(world, f"{folder}/{name}", "power_w", found, _MICRO)
    _put(world, f"{folder}/power1_cap", "power_limit_w", found, _MICRO)
    _put(world, f"{folder}/fan1_input", "fan_rpm", found)


def _put(
    world: World, path: str, key: str, found: dict[str, int | float], scale: float = 0.0
) -> None:
    """A number, unless the file is not there or is empty, as it is while a sensor sleeps."""
    text = first_line(world, path)
    if not text:
        return
    digits = text.removeprefix("-")
    if not (digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise MalformedInput(f"{path}: {text[:40]!a} is no number", hint="report it")
    found.setdefault(key, int(text) * scale if scale else int(text))
