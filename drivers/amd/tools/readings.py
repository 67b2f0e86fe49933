"""What a GPU measures about itself, from its driver or from the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Readings:
    """None is "not reported by this GPU or its driver"."""

    gfx_mhz: int | None = None
    soc_mhz: int | None = None
    memory_mhz: int | None = None
    fabric_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    edge_c: float | None = None
    hotspot_c: float | None = None
    memory_c: float | None = None
    fan_rpm: int | None = None
    gfx_percent: int | None = None
    memory_percent: int | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From names and values."""
        return cls(**values)

    def known(self) -> dict[str, int | float]:
        """What is reported, by name."""
        found = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in found if value is not None}
