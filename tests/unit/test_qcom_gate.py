"""Which submissions are held: what they wait for is neither there nor on its way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from drivers.base.errors import Busy, DeviceError, OutOfMemory, UseAfterFree
from drivers.gpu.iface import Memory
from drivers.qcom.gate import Block, Gate, Lane
from queues.qcom.words import Sync
from tests.support import check

A, B = 0x1000, 0x2000


def wait(va: int, value: int) -> Sync:
    return Sync(va, value, signals=False)


def signals(va: int, value: int) -> Sync:
    return Sync(va, value, signals=True)


class Queue:
    """One queue, which takes blocks until it is to fail."""

    def __init__(self, gate: Gate, done: list[str]) -> None:
        self._gate, self._done = gate, done
        self.lane = Lane(gate, self, self.refused)
        self.names: dict[int, str] = {}
        self.fails: DeviceError | None = None
        self.back: list[str] = []
        self.meanwhile: Callable[[], object] | None = None
        """What a signal handler does in the middle of the ioctl."""

    def add(self, name: str, *syncs: Sync) -> None:
        mark = len(self.names) + 1
        self.names[mark] = name
        self.lane.held.append((mark, mark - 1, mark, 0, syncs, None))
        self._gate.let_go()

    def settle(self, mark: int) -> bool:
        return self.lane.settle(mark, nullcontext())

    def submit(self, va: int, nbytes: int) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.fails is not None:
            raise self.fails
        self._done.append(self.names[va])

    def submit_with(self, memory: Memory, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        self.submit(tail_va, tail)

    def taken(self) -> bool:
        return False

    def refused(self, block: Block) -> None:
        self.back.append(self.names[block[0]])


class Scene:
    """Two queues, and a list of what was submitted."""

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}
        self.gate = Gate(self.memory.get)
        self.done: list[str] = []
        self.first, self.second = Queue(self.gate, self.done), Queue(self.gate, self.done)

    def give(self, queue: Queue, name: str, *syncs: Sync) -> None:
        queue.add(name, *syncs)


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
    scene.first.lane.close()
    scene.memory[A] = 1
    scene.gate.let_go()
    check(not scene.done and scene.gate.lanes == (scene.second.lane,))


def test_an_error_of_a_held_submission_is_raised_once() -> None:
    scene = Scene()
    scene.give(scene.first, "fails", wait(A, 1))
    scene.give(scene.first, "behind it")
    scene.first.fails = OutOfMemory(
        "no room", requested=1, used=0, cached=0, limit=0, hint="free some"
    )
    scene.memory[A] = 1
    with pytest.raises(OutOfMemory):
        scene.gate.let_go()
    scene.first.fails = None
    scene.gate.let_go()
    check(scene.done == ["behind it"] and scene.first.back == ["fails"], str(scene.done))


def test_what_a_handler_adds_in_the_middle_goes_out_behind() -> None:
    """In both queues; it cannot wait for that inside, and need not for what is given."""
    scene, refused = Scene(), list[str]()

    def handler() -> None:
        scene.give(scene.first, "handler's")
        scene.give(scene.second, "another")
        scene.first.settle(1)
        try:
            scene.first.settle(3)
        except Busy as error:
            refused.append(str(error))

    scene.give(scene.first, "before")
    scene.first.meanwhile = handler
    scene.give(scene.first, "interrupted")
    check(scene.done == ["before", "interrupted", "another", "handler's"], str(scene.done))
    check(len(refused) == 1 and "signal handler" in refused[0], str(refused))


def test_an_exception_of_a_handler_leaves_the_block() -> None:
    """It goes out with the next call, or with the next wait."""
    scene = Scene()

    def handler() -> None:
        raise KeyboardInterrupt

    scene.first.meanwhile = handler
    with pytest.raises(KeyboardInterrupt):
        scene.give(scene.first, "interrupted")
    check(not scene.done and not scene.first.back)
    check(scene.first.settle(1))
    check(scene.done == ["interrupted"], str(scene.done))


def test_a_queue_that_a_handler_closes_takes_nothing_more() -> None:
    """Its error is the ring's to raise: that of the ioctl only says that the context is gone."""
    scene = Scene()
    queue = scene.first
    queue.meanwhile = queue.lane.close
    queue.fails = UseAfterFree("a closed context was used", hint="open another one")
    scene.give(queue, "interrupted")
    check(not scene.done and not queue.back and not queue.lane.given)


def test_a_block_that_the_ring_submits_itself() -> None:
    """What a handler's exception ends goes out with the next call, in front of later blocks."""
    scene = Scene()
    queue = scene.first
    queue.names[1] = "the ring's"
    direct = queue.lane.direct = (1, 0, 1, 0, (), None)
    scene.give(queue, "handler's")
    check(not scene.done, "nothing passes it")
    with pytest.raises(Busy, match="signal handler"):
        queue.settle(1)
    check(queue.lane.failed(direct, KeyboardInterrupt()))
    check(queue.settle(2) and scene.done == ["the ring's", "handler's"], str(scene.done))


def test_a_block_that_the_ring_submits_itself_is_refused() -> None:
    scene = Scene()
    queue, gone = scene.first, UseAfterFree("a closed context was used", hint="open another one")
    queue.names[1] = "refused"
    direct = queue.lane.direct = (1, 0, 1, 0, (), None)
    check(queue.lane.failed(direct, gone) and queue.back == ["refused"])
    queue.lane.direct = direct
    queue.lane.close()
    check(not queue.lane.failed(direct, gone), "a handler closed the queue")
