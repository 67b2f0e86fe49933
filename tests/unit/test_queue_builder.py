"""Builders and graphs of any device, for one whose steps are lists of what was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from queues.builder import Builder, Built
from queues.graph import StepGraph
from tests.support import check

Step = list[Any]


class Thing:
    """A buffer, program or signal: a number and whether it lives."""

    def __init__(self, device: ListDevice, va: int) -> None:
        self.device, self.va, self.alive = device, va, True

    def free(self) -> None:
        self.alive, self.device.freed_mark = False, object()


class ListDevice:
    """Runs lists of steps by noting them; it is its own Commands, Kernels and Copies."""

    name = "a list"

    def __init__(self) -> None:
        self.freed_mark = object()
        self.ran: list[list[Step]] = []
        self.checked: list[list[object]] = []
        self.during: Callable[[], object] = list
        """What happens while a list runs, as a signal handler would."""

    @property
    def owner(self) -> ListDevice:
        return self

    def things(self, count: int) -> list[Any]:
        return [Thing(self, 16 * number) for number in range(1, count + 1)]

    def builder(self, *, kernels: bool = True, copies: bool = True) -> Builder[Step]:
        return Builder(self, kernels=self if kernels else None, copies=self if copies else None)

    def check_alive(self, things: Sequence[object]) -> None:
        self.checked.append([*things])
        if not all(thing.alive for thing in things if isinstance(thing, Thing)):
            raise UseAfterFree("freed", hint="do not")

    def argument_word(self, value: Any) -> int:
        if isinstance(value, int):
            return value
        if not isinstance(value, Thing):
            raise BadArgument(f"{value!r}", hint="a Thing")
        self.check_alive([value])
        return value.va

    def copy_word(self, value: Any, nbytes: int, *, write: bool) -> int:
        return self.argument_word(value) + (nbytes << 32) + write

    def wait(self, signal: Any, value: int) -> Step:
        return ["wait", self.argument_word(signal), value]

    def signal(self, signal: Any, value: int) -> Step:
        return ["signal", self.argument_word(signal), value]

    def timestamp(self, signal: Any) -> Step:
        return ["time", self.argument_word(signal)]

    def barrier(self) -> Step:
        return ["barrier"]

    def launch(self, program: Any, words: Sequence[int], grid: Any, block: Any) -> Step:
        return ["exec", *words, self.argument_word(program), grid, block]

    def copy(self, dst: int, src: int, nbytes: int) -> Step:
        return ["copy", dst, src, nbytes]

    def fill(self, step: Step, number: int, word: int) -> Step:
        return [*step[: 1 + number], word, *step[2 + number :]]

    def run(self, built: Built[Step]) -> None:
        built.check()
        during, self.during = self.during, list
        during()
        self.ran.append(built.steps)

    def bind(self, built: Built[Step]) -> StepGraph[Step]:
        return StepGraph(self, built)


def test_steps_run_in_order_and_once() -> None:
    device = ListDevice()
    a, b, program, signal = device.things(4)
    queue = device.builder()
    queue.wait(signal, 3).exec(program, [a, 7, b], (2, 3, 4), (5, 1, 1)).barrier()
    queue.copy(a, b, 8).timestamp(signal).signal(signal, 4)
    check(not device.ran, "before submit")
    device.checked.clear()
    queue.submit()
    queue.submit()
    wanted = [
        ["wait", 64, 3], ["exec", 16, 7, 32, 48, (2, 3, 4), (5, 1, 1)], ["barrier"],
        ["copy", 16 + (8 << 32) + 1, 32 + (8 << 32), 8], ["time", 64], ["signal", 64, 4],
    ]  # fmt: skip
    check(device.ran == [wanted], f"{device.ran}")
    check(not device.checked, "nothing was freed since they were named")


@pytest.mark.parametrize("which", range(4))
def test_everything_named_is_checked_after_something_was_freed(which: int) -> None:
    device = ListDevice()
    things = device.things(4)
    a, b, program, signal = things
    queue = device.builder().exec(program, [a, 1]).copy(a, b, 1).signal(signal, 1)
    things[which].free()
    with pytest.raises(UseAfterFree):
        queue.submit()
    queue.submit()
    check(not device.ran, "it ran, or was not forgotten")


def test_what_is_refused_leaves_nothing() -> None:
    device = ListDevice()
    a, program = device.things(2)
    queue = device.builder().barrier()
    wrong: Any = 1.5
    for call in (
        lambda: queue.exec(program, [Param(0), a, wrong]),
        lambda: queue.exec(wrong, [Param(0)]),
        lambda: queue.exec(program, [Param(0), Param(-1)]),
        lambda: queue.copy(Param(0), wrong, 4),
        lambda: queue.copy(wrong, Param(0), 4),
        lambda: queue.copy(Param(0), wrong, 0),
        lambda: queue.copy(Param(0), a, -1),
        lambda: queue.wait(wrong, 1),
    ):
        with pytest.raises(BadArgument):
            call()
    one: Any = 1
    with pytest.raises(BadArgument, match="1 is not a buffer to copy"):
        queue.copy(a, one, 4)
    a.free()
    queue.submit()
    check(device.ran == [[["barrier"]]], f"{device.ran}")


def test_queues_that_do_not_do_everything() -> None:
    device = ListDevice()
    a, program = device.things(2)
    copies, kernels = device.builder(kernels=False), device.builder(copies=False)
    check((copies.can_exec, copies.can_copy) == (False, True), "copies")
    check((kernels.can_exec, kernels.can_copy) == (True, False), "kernels")
    with pytest.raises(Unsupported, match="a list only copies"):
        copies.exec(program, [a])
    with pytest.raises(Unsupported, match="a list runs kernels and does not copy"):
        kernels.copy(a, a, 1)


def recorded(device: ListDevice, program: Any, fixed: Any) -> Any:
    """Param 0 twice in a kernel, and as a source; 2 as a destination; 1 nowhere."""
    queue = device.builder().barrier().exec(program, [Param(0), fixed, Param(0)])
    queue.copy(Param(2), Param(0), 4)
    with pytest.raises(BadArgument, match="open Params"):
        queue.submit()
    return queue.bind()


def steps(first: int, second: int) -> list[Step]:
    launch = ["exec", first, 48, first, 32, (1, 1, 1), None]
    return [["barrier"], launch, ["copy", second + (4 << 32) + 1, first + (4 << 32), 4]]


def test_every_place_of_a_param_is_filled() -> None:
    device = ListDevice()
    a, program, fixed, c = device.things(4)
    graph = recorded(device, program, fixed)
    for values in ([a, 5, c], [c, 5, a], [c, 5, c]):
        graph.replay(values)
    check(device.ran == [steps(16, 64), steps(64, 16), steps(64, 64)], f"{device.ran}")


def test_a_replay_inside_a_replay_has_steps_of_its_own() -> None:
    device = ListDevice()
    a, program, fixed, c = device.things(4)
    graph = recorded(device, program, fixed)
    device.during = lambda: graph.replay([c, 5, a])
    graph.replay([a, 5, c])
    check(device.ran == [steps(64, 16), steps(16, 64)], f"{device.ran}")


def test_values_that_are_refused() -> None:
    device = ListDevice()
    a, program, fixed, c = device.things(4)
    graph = recorded(device, program, fixed)
    for values in ((), (a, 5), (a, 5, c, c), None, (1.5, 5, c), (a, 5, 6), (3, 5, c)):
        with pytest.raises(BadArgument):
            graph.replay(values)
    device.during = c.free
    graph.replay((a, 5, c))  # freed while it ran: the device keeps the memory for that long
    with pytest.raises(UseAfterFree):
        graph.replay((a, 5, c))
    check(len(device.ran) == 1, "something else ran")


def test_what_a_recording_names_has_to_live() -> None:
    device = ListDevice()
    a, program, fixed, c = device.things(4)
    graph = recorded(device, program, fixed)
    fixed.free()
    with pytest.raises(UseAfterFree):
        graph.replay((a, 5, c))
    graph.close()
    graph.close()
    with pytest.raises(UseAfterFree, match="closed graph"):
        graph.replay((a, 5, c))
    check(not device.ran, "something ran")
