"""A look at the events of a GPU before a doorbell is rung, where a reset unmaps doorbells.

Newer kernels unmap a process's doorbells before they reset a GPU. A store to one is then SIGBUS,
which ends the process. So whoever gives work to a queue asks first whether there was a reset, if
the last time was some milliseconds ago. A reset in between is not seen: docs/amd.md says so.
# src: Linux 7.3 amdgpu_amdkfd.c amdgpu_amdkfd_clear_kfd_mapping(), amdgpu_device.c; 6.12 has none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drivers.amd.iface import Iface

LOOK_S: Final = 0.01
"""A look is a system call: rare enough not to be felt by who launches without a pause."""


class Look:
    """Asks for faults, unless it did so just now or the kernel leaves doorbells alone."""

    __slots__ = ("_at_s", "_check", "_clock", "on")

    def __init__(self, iface: Iface, check: Callable[[], object]) -> None:
        self._clock, self._check, self._at_s = iface.world.monotonic_s, check, 0.0
        self.on = iface.loses_doorbells
        """Whether it asks at all."""

    def __call__(self) -> None:
        """With no lock of a queue held. Raises: the device's fault, its queues replaced."""
        if not self.on:
            return
        now_s = self._clock()
        if now_s >= self._at_s:
            self._at_s = now_s + LOOK_S
            self._check()
