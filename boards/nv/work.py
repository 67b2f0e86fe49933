"""What the engines of a channel know of it, and what the board knows of a channel."""

from __future__ import annotations

from typing import Protocol

from boards.nv.chip import NvChip
from boards.nv.faults import MmuReport, RcError, SmReport
from boards.nv.launch import Executor
from boards.nv.space import GpuSpace


class Work(Protocol):
    """A channel, for the engines that do its work."""

    handle: int

    @property
    def space(self) -> GpuSpace:
        """The addresses that it works in."""
        ...

    @property
    def chip(self) -> NvChip: ...

    @property
    def engine(self) -> int:
        """NV2080_ENGINE_TYPE of its group."""
        ...

    @property
    def executor(self) -> Executor: ...

    def has_object(self, number: int) -> bool:
        """Whether an object of a class was allocated on it."""
        ...

    def find(self, kind: str, what: str) -> None:
        """Report a violation."""
        ...

    def event(self, name: str, **facts: int | str) -> None:
        """One event of the timeline."""
        ...

    def now_ns(self) -> int:
        """The GPU's clock."""
        ...


class Group(Protocol):
    """A channel group, for who breaks it or asks what broke it."""

    dead: int
    mmu_fault: MmuReport | None
    sm_errors: list[SmReport]
    shown_faults: list[MmuReport]


class Queued(Protocol):
    """A channel, for doorbells and the fault panel."""

    handle: int
    token_taken: bool
    stuck: bool
    reason: str

    @property
    def group(self) -> Group: ...

    @property
    def pending(self) -> bool:
        """Whether it has something to do."""
        ...

    def ring(self) -> None:
        """Its doorbell."""
        ...

    def run(self) -> bool:
        """Go on as far as possible: whether it got on."""
        ...

    def fail(self, error: RcError) -> None:
        """Tear its group down."""
        ...
