"""The steps of one command queue that wait, before the device's one stream."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from drivers.hosted.pending import advance, shown

DeviceT_contra = TypeVar("DeviceT_contra", contravariant=True)
DeviceT = TypeVar("DeviceT")


class Runs(Protocol[DeviceT_contra]):
    """A step of a queue."""

    def run(self, device: DeviceT_contra) -> bool:
        """Encode it; False while it waits for a signal."""


class Ring(Generic[DeviceT]):
    """`pending` runs in order, from the first step that waits for a signal on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pending: deque[Runs[DeviceT]] = deque()

    def advance(self, device: DeviceT) -> bool:
        """Encode what can be; whether that was anything."""
        return advance(self.pending, lambda step: step.run(device))

    def dump(self) -> str:
        """What waits, as text."""
        return shown(self.pending)
