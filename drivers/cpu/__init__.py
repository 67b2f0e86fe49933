"""The processor itself as a device."""

from drivers.cpu.device import CpuDevice
from drivers.cpu.opening import open_cpu

__all__ = ["CpuDevice", "open_cpu"]
