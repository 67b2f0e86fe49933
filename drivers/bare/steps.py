"""A boot is a list of named steps, each with its undo; the runner counts, times and names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from drivers.bare.bus import RegisterBus
from drivers.base import interrupts
from drivers.base.errors import DeviceError
from drivers.base.undo import Undo

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `down` undoes it when a later one fails."""

    name: str
    up: Callable[[], object]
    down: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What a step cost."""

    name: str
    reads: int
    writes: int
    seconds: float


def run(bus: RegisterBus, steps: Sequence[Step], progress: Progress | None = None) -> list[Done]:
    """Take all steps, or none: a failure undoes those before it, the last first.

    Ctrl-C that an opening holds back comes between two steps.

    Raises: what a step raised, its message beginning with the step's name.
    """
    done: list[Done] = []
    with Undo() as undo:
        for number, step in enumerate(steps, 1):
            interrupts.check()
            if step.down is not None:
                undo.add(partial(_undo, bus, step.name, step.down))
            done.append(_take(bus, step))
            if progress is not None:
                progress(f"[{number:2}/{len(steps)}] {_line(done[-1])}")
    bus.step = ""
    return done


def _take(bus: RegisterBus, step: Step) -> Done:
    reads, writes, begun_s = bus.reads, bus.writes, bus.clock.monotonic_s()
    bus.step = step.name
    try:
        step.up()
    except DeviceError as error:
        if error.message.startswith(f"{step.name}: "):
            raise
        raise error.named(step.name) from error.__cause__
    return Done(
        step.name, bus.reads - reads, bus.writes - writes, bus.clock.monotonic_s() - begun_s
    )


def _undo(bus: RegisterBus, name: str, down: Callable[[], object]) -> None:
    bus.step = f"undoing {name}"
    down()


def _line(done: Done) -> str:
    return (
        f"{done.name:<28} {done.seconds * 1e3:8.1f} ms {done.reads:4} reads {done.writes:5} writes"
    )
