"""Tries that one process makes. A module of its own, so that a fresh process finds it."""

from __future__ import annotations

from dataclasses import dataclass

from boards.machine.pci.panel import Kind
from tests.sweep.attempt import Outcome, Tries
from tests.sweep.places import Place


@dataclass(frozen=True, slots=True)
class Task:
    """Some accesses of one place that go wrong in one way."""

    place: Place
    kind: Kind
    closing: int
    ats: tuple[int, ...]


def work(task: Task) -> list[Outcome]:
    """In a process of its own: the tries of a task."""
    tries = Tries(task.place, task.closing)
    return [tries.run(task.kind, at) for at in task.ats]
