"""The GPU's clock, as the time of the host.

Both are read together once, when the device opens; crystals drift apart by tens of microseconds a
second, so that differences of GPU times are exact and their place in the host's time is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivers.amd.chips import NS_PER_TICK
from drivers.amd.kfd.bo import Gpu
from drivers.amd.kfd.process import GET_CLOCK_COUNTERS, GetClockCountersArgs


@dataclass(frozen=True, slots=True)
class KfdClock:
    """Both clocks at one moment."""

    gpu: Gpu
    ticks: int
    host_ns: int
    """CLOCK_BOOTTIME. # src: kfd_chardev.c kfd_ioctl_get_clock_counters(): ktime_get_boottime_ns"""

    def nanoseconds(self, ticks: int) -> int:
        """The host's time when the counter stood at `ticks`; 0 for a time never written."""
        return self.host_ns + (ticks - self.ticks) * NS_PER_TICK if ticks else 0

    def calibrate(self, ticks: int, host_s: float) -> None:
        """Nothing: the kernel read both clocks together."""

    def now_ticks(self) -> int:
        """The counter now."""
        ticks: int = _read(self.gpu).gpu_clock_counter
        return ticks


def _read(gpu: Gpu) -> GetClockCountersArgs:
    args = GetClockCountersArgs(gpu_id=gpu.gpu_id)
    return GET_CLOCK_COUNTERS(gpu.world, gpu.session.fd, args)


def read_clock(gpu: Gpu) -> KfdClock:
    """Both clocks, from the kernel."""
    now = _read(gpu)
    return KfdClock(gpu, now.gpu_clock_counter, now.system_clock_counter)
