"""What waits before a library's queue: steps that run in order, from the first unmet wait on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from drivers.base.errors import Hang

_SHOWN: Final = 20
T = TypeVar("T")


class Waits(Protocol):
    """A ring, as far as this needs it."""

    name: str

    @property
    def pending(self) -> deque[Any]:
        """Its steps."""

    def dump(self) -> str:
        """What waits, as text."""


RingT = TypeVar("RingT", bound=Waits)


def advance(
    pending: deque[T], run: Callable[[T], bool], flush: Callable[[], object] | None = None
) -> bool:
    """Run steps until one returns False; whether fewer are left. `flush` hands over what ran.

    One that fails drops the rest; one that finds a failure before it may drop them itself.
    """
    before, ran = len(pending), 0
    try:
        for _ in range(before):
            if not run(pending[0]):
                break
            pending.popleft()
            ran += 1
    except BaseException:
        pending.clear()
        raise
    finally:
        if ran and flush is not None:
            flush()
    return len(pending) < before


def pump(rings: Sequence[RingT], advance_one: Callable[[RingT], bool]) -> None:
    """Advance rings until none moves: a step of one may be what another waits for."""
    for _ in range(sum(len(ring.pending) for ring in rings)):
        moved = [advance_one(ring) for ring in rings if ring.pending]
        if not any(moved):
            return


def waiting(rings: Sequence[Waits]) -> bool:
    """Whether a step waits for a signal."""
    return any(ring.pending for ring in rings)


def stuck(rings: Sequence[Waits]) -> Hang:
    """The error for a step that still waits for a signal."""
    ring = next((one for one in rings if one.pending), rings[0])
    return Hang(
        f"{ring.name} waits for a signal", queue=ring.name, dump=ring.dump(),
        hint="set what it waits for",
    )  # fmt: skip


def shown(pending: Sequence[object], more: str = "") -> str:
    """The first steps that wait, as text."""
    first = [repr(step) for step in list(pending)[:_SHOWN]]
    return "\n".join([f"{len(pending)} steps wait{more}", *first])
