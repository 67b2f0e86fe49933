"""What RM says an NVIDIA GPU is, opened for a moment: architecture, SMs, limits, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Limits, World
from drivers.nv.limits import limits_of
from drivers.nv.nvk.iface import NvkIface, open_nvk
from drivers.nv.tools.status import Status, read
from queues.nv.generations import sm_of

_GIB, _KIB = 1 << 30, 1 << 10
ASK: Final = "--ask opens it for a moment: architecture, SMs, memory and limits"


@dataclass(frozen=True, slots=True)
class About:
    """One GPU, as RM describes it."""

    architecture: str
    compute_capability: str
    sms: int
    """The most that it can have: RM does not say how many are fused off."""
    warps_per_sm: int
    limits: Limits
    status: Status

    def facts(self) -> dict[str, object]:
        """For JSON."""
        limits = self.limits
        return {
            "architecture": self.architecture,
            "compute_capability": self.compute_capability,
            "sms_at_most": self.sms,
            "warps_per_sm": self.warps_per_sm,
            "lanes_per_warp": limits.wave_lanes,
            "max_block": limits.max_block,
            "max_grid": list(limits.max_grid),
            "shared_bytes": limits.shared_bytes,
            "memory_bytes": limits.memory_bytes,
            "readings": self.status.known(),
            "lacks": self.status.lacks,
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        limits, status = self.limits, self.status
        free = status.memory_free_bytes
        left = f" ({free / _GIB:.1f} free)" if free is not None else ""
        yield (
            f"{self.architecture}, compute capability {self.compute_capability}, at most "
            f"{self.sms} SMs of {self.warps_per_sm} warps, {limits.memory_bytes / _GIB:.1f} GiB"
            f"{left}"
        )
        grid = " x ".join(map(str, limits.max_grid))
        yield (
            f"workgroups of {limits.max_block} lanes in warps of {limits.wave_lanes} with "
            f"{limits.shared_bytes // _KIB} KiB shared, grids of {grid}"
        )
        now = [f"state {status.performance_state}"] if status.performance_state else []
        now += [f"{place} {value} C" for place, value in status.temperatures_c.items()]
        if now:
            yield ", ".join(now)


def ask(world: World, minor: int) -> About:
    """Open a GPU without an address space, ask it, close it. Raises: what opening raises."""
    iface = open_nvk(world, 0, minor=minor, briefly=True)
    try:
        return _about(iface)
    finally:
        iface.close()


def _about(iface: NvkIface) -> About:
    facts = iface.facts
    sm = sm_of(facts.sm_version)
    return About(
        architecture=iface.generation.name,
        compute_capability=f"{sm // 10}.{sm % 10}",
        sms=facts.sms,
        warps_per_sm=facts.warps_per_sm,
        limits=limits_of(iface.generation, facts),
        status=read(iface),
    )
