"""Which submissions are held: what they wait for is neither there nor on its way."""

from __future__ import annotations

import pytest

from drivers.base.errors import OutOfMemory
from drivers.qcom.gate import Gate, Lane
from queues.qcom.words import Sync
from tests.support import check

A, B = 0x1000, 0x2000


def wait(va: int, value: int) -> Sync:
    return Sync(va, value, signals=False)


def signals(va: int, value: int) -> Sync:
    return Sync(va, value, signals=True)


class Scene:
    """Two queues, and a list of what was submitted."""

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}
        self.gate = Gate(self.memory.get)
        self.first, self.second = Lane(self.gate), Lane(self.gate)
        self.done: list[str] = []

    def give(self, lane: Lane, name: str, *syncs: Sync) -> None:
        lane.submit(lambda: self.done.append(name), syncs)


def test_what_waits_for_later_work_is_held() -> None:
    scene = Scene()
    scene.give(scene.first, "waits", wait(A, 1))
    scene.give(scene.first, "behind it")
    scene.give(scene.second, "free")
    check(scene.done == ["free"], str(scene.done))
    scene.give(scene.second, "signals", signals(A, 1))
    check(scene.done == ["free", "signals", "waits", "behind it"], str(scene.done))


def test_promises_of_a_chain() -> None:
    scene = Scene()
    scene.give(scene.first, "third", wait(B, 2))
    scene.give(scene.second, "second", wait(A, 5), signals(B, 2))
    check(not scene.done)
    scene.memory[A] = 5
    scene.gate.let_go()
    check(scene.done == ["second", "third"], str(scene.done))


def test_what_a_submission_signals_itself_it_may_wait_for() -> None:
    scene = Scene()
    scene.give(scene.first, "own", signals(A, 3), wait(A, 3))
    scene.give(scene.first, "too early", wait(A, 4), signals(A, 4))
    check(scene.done == ["own"], str(scene.done))


def test_a_signal_at_the_same_address_was_promised_nothing() -> None:
    scene = Scene()
    scene.give(scene.first, "signals", signals(A, 9))
    scene.gate.forget(A)
    scene.give(scene.second, "waits", wait(A, 1))
    check(scene.done == ["signals"], str(scene.done))


def test_a_closed_queue_holds_nothing_up() -> None:
    scene = Scene()
    scene.give(scene.first, "waits", wait(A, 1), signals(B, 1))
    scene.first.close()
    scene.memory[A] = 1
    scene.gate.let_go()
    check(not scene.done and scene.gate.lanes == [scene.second])


def test_an_error_of_a_held_submission_is_raised_once() -> None:
    scene = Scene()

    def fails() -> None:
        raise OutOfMemory("no room", requested=1, used=0, cached=0, limit=0, hint="free some")

    scene.first.submit(fails, (wait(A, 1),))
    scene.give(scene.first, "behind it")
    scene.memory[A] = 1
    with pytest.raises(OutOfMemory):
        scene.gate.let_go()
    scene.gate.let_go()
    check(scene.done == ["behind it"], str(scene.done))
