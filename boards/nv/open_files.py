"""Open files of the kernel driver: the control node, a GPU's node, UVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from boards.nv.hardware import NvGpu
from boards.nv.memory import Memory
from boards.nv.process_memory import ProcessMemory


class Managed(Protocol):
    """What a file of UVM has once it is initialised: uvm.py's UvmSpace."""

    memory: ProcessMemory

    @property
    def range_count(self) -> int:
        """Ranges of addresses in it."""
        ...

    def shut_down(self) -> None:
        """The process's memory goes: nothing runs in the space any more."""
        ...

    def close(self) -> None:
        """The file is closed."""
        ...


@dataclass(frozen=True, slots=True)
class MmapContext:
    """What RM_MAP_MEMORY has prepared a file for."""

    memory: Memory | None
    """None: the usermode registers."""
    offset: int
    nbytes: int


@dataclass(eq=False, slots=True)
class NvFile:
    """An open file; plain ones have a path alone."""

    path: str
    control: bool = False
    gpu: NvGpu | None = None
    uvm: bool = False
    registered: NvFile | None = None
    """The control file that a GPU's file was registered with."""
    context: MmapContext | None = None
    space: Managed | None = None
    """UVM's, once it is initialised."""
    mm_of: NvFile | None = None
    """The file whose space this one ties to the process: UVM_MM_INITIALIZE."""
    paired: list[NvFile] = field(default_factory=list)

    @property
    def owner(self) -> NvFile:
        """Whose clients it may use."""
        return self if self.registered is None else self.registered
