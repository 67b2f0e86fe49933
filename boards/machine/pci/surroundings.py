"""What a process asks of the machine that it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from boards.machine.chassis import Chassis
from boards.machine.file_tree import FileTree
from boards.machine.frames import Frames
from boards.machine.pci.function import PciFunction
from boards.machine.pci.panel import BusPanel
from boards.machine.state import BoardState


class Surroundings(Protocol):
    """A machine with GPUs on its PCI bus, as one of its processes sees it."""

    @property
    def hardware(self) -> Chassis:
        """Clock, violations, lock."""
        ...

    @property
    def frames(self) -> Frames: ...
    @property
    def tree(self) -> FileTree: ...
    @property
    def firmware(self) -> str:
        """Path of the manifest of its synthetic firmware."""
        ...

    @property
    def gpus(self) -> Sequence[PciFunction]:
        """By address."""
        ...

    def panel(self, gpu: int) -> BusPanel:
        """The fault panel of one GPU's bus."""
        ...

    def state_of(self, pid: int) -> BoardState:
        """The directory of locks and records as a process sees it."""
        ...

    def buried(self, pid: int) -> None:
        """A process is gone."""
        ...

    def wrote(self, path: str, data: bytes) -> None:
        """A process writes to a file."""
        ...

    def pump(self) -> None:
        """Everything that can move moves."""
        ...
