"""Graphs on every device: recorded once, replayed with other buffers, closed."""

from __future__ import annotations

import numpy as np

from drivers.base.contracts import Device, Param, Program
from drivers.base.errors import BadArgument, UseAfterFree
from tests.contract.arrays import get, put, ramp, refused
from tests.contract.conftest import COUNT
from tests.contract.test_launches import WANTED, operands, whole
from tests.support import check

OPEN = (Param(0), Param(1), Param(2))


def test_a_graph_without_params(device: Device, program: Program) -> None:
    x, zero = put(device, ramp(COUNT)), put(device, np.zeros(COUNT, np.int32))
    y, grid = device.alloc(4 * COUNT), (whole(device), 1, 1)
    queue = device.compute_queue()
    graph = queue.exec(program, [x, zero, y], grid).barrier().exec(program, [y, zero, x], grid)
    recorded = graph.bind()
    queue.submit()  # the builder is empty
    np.testing.assert_array_equal(get(device, x), ramp(COUNT))
    for round_ in range(1, 4):
        recorded.replay()
        np.testing.assert_array_equal(get(device, x), 9**round_ * ramp(COUNT))
    recorded.close()


def test_params_are_filled_anew(device: Device, program: Program) -> None:
    graph = device.compute_queue().exec(program, OPEN, (whole(device), 1, 1)).bind()
    sets = [operands(device) for _ in range(3)]
    for a, b, c in [*sets, *sets]:
        graph.replay([a, b, c])
    for *_, c in sets:
        np.testing.assert_array_equal(get(device, c), WANTED)
    a, b, c = sets[0]
    graph.replay([b, a, c])
    np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT, 1000) + ramp(COUNT))
    graph.close()


def test_a_copy_graph(device: Device) -> None:
    a, b, c = operands(device)
    graph = device.copy_queue().copy(Param(0), Param(1), 4 * COUNT).bind()
    for src in (a, b):
        graph.replay([c, src])
        np.testing.assert_array_equal(get(device, c), get(device, src))
    short = device.alloc(4)
    for values in ([short, a], [c, short], [c, 5], [c, None]):
        with refused(BadArgument):
            graph.replay(values)
    np.testing.assert_array_equal(get(device, c), get(device, b))
    graph.close()


def test_one_param_in_many_places(device: Device, program: Program) -> None:
    queue, grid = device.compute_queue(), (whole(device), 1, 1)
    queue.exec(program, [Param(1), Param(1), Param(0)], grid).barrier()
    graph = queue.exec(program, [Param(1), Param(0), Param(2)], grid).bind()
    a, b, c = operands(device)
    for x in (a, b):
        given = get(device, x)
        graph.replay([c, x, c])
        np.testing.assert_array_equal(get(device, c), 3 * given + 4 * given)
    graph.close()


def test_a_fixed_side_of_an_open_copy_is_checked_when_it_is_added(device: Device) -> None:
    small = device.alloc(4)
    for pair in ((Param(0), small), (small, Param(0)), (Param(0), 5), (None, Param(0))):
        with refused(BadArgument):
            device.copy_queue().copy(*pair, 8)
    small.free()
    with refused(UseAfterFree):
        device.copy_queue().copy(Param(0), small, 4)


def test_wrong_values(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    graph = device.compute_queue().exec(program, OPEN, (whole(device), 1, 1)).bind()
    for values in ([], [a, b], [a, b, c, c], [a, b, 1.5], [a, b, "c"]):
        with refused(BadArgument):
            graph.replay(values)
    check((get(device, c) == -1).all(), "something ran")
    graph.replay([a, b, c])
    np.testing.assert_array_equal(get(device, c), WANTED)
    a.free()
    with refused(UseAfterFree):
        graph.replay([a, b, c])
    graph.close()


def test_a_graph_of_what_was_freed(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    graph = device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1)).bind()
    graph.replay()
    b.free()
    with refused(UseAfterFree):
        graph.replay()
    graph.close()


def test_a_closed_graph(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    for queue in (
        device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1)),
        device.copy_queue().copy(c, a, 4),
    ):
        graph = queue.bind()
        graph.close()
        graph.close()
        with refused(UseAfterFree):
            graph.replay()
    check((get(device, c) == -1).all(), "something ran")


def test_a_graph_signals(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    gate, done = device.new_signal(), device.new_signal()
    queue = device.compute_queue().wait(gate, 1)
    graph = queue.exec(program, [a, b, c], (whole(device), 1, 1)).signal(done, 1).bind()
    graph.replay()
    check(done.value == 0, "it did not wait")
    gate.set(1)
    done.wait(1)
    np.testing.assert_array_equal(get(device, c), WANTED)
    graph.close()
