"""Graphs in memory on boards of every generation: one doorbell, chained QMDs, patched words."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from boards.nv.launch import SmException
from drivers.base.contracts import Arg, Binary, Param, Resources
from drivers.base.errors import DeviceFault, DeviceTimeout, Hang
from drivers.nv import graphs
from drivers.nv.device import NvDevice
from queues.nv.kernel_code import NvCode
from tests.boards.nv_harness import CODE, LANES, PARAMS, PARAMS_OF, add, binary, device_on
from tests.support import check

CHIPS = ("ga102", "ad102", "gh100", "gb202", "tu102")
UNCHAINED = "tu102"


def put(device: NvDevice, *values: int) -> Any:
    """A buffer of LANES 32-bit words."""
    buffer = device.alloc(4 * LANES)
    data = np.resize(np.array(values, np.uint32), LANES)
    device.copy_in(buffer, memoryview(data).cast("B"))
    return buffer


def get(device: NvDevice, buffer: Any) -> list[int]:
    out = np.empty(LANES, np.uint32)
    device.copy_out(memoryview(out).cast("B"), buffer)
    return [int(value) for value in out]


class Counts:
    """What a board does: entries of GPFIFOs, launches by their descriptors, doorbells."""

    def __init__(self, board: Any) -> None:
        self.entries, self.launches, self.doorbells = 0, 0, 0
        board.hardware.trace = self
        for channel in board.hardware.gpus[0].channels.values():
            self._watch(channel)

    def _watch(self, channel: Any) -> None:
        ring = channel.ring

        def rung() -> None:
            self.doorbells += 1
            ring()

        channel.ring = rung

    def __call__(self, name: str, facts: Any) -> None:
        self.entries += name == "GP entry done"
        self.launches += name == "launch"


@contextmanager
def counted(board: Any) -> Iterator[Counts]:
    counts = Counts(board)
    yield counts
    board.hardware.trace = None


@pytest.mark.parametrize("chip", CHIPS)
def test_a_replay_is_one_doorbell(chip: str) -> None:
    """A graph of 20 launches: c = a + b, then a = c + b, ten times."""
    with device_on(chip, kernel=add) as (device, board):
        program = device.load(binary(device))
        a, b, c = put(device, 1), put(device, 10), put(device, 0)
        queue = device.compute_queue()
        for _ in range(10):
            queue.exec(program, [c, a, Param(0), LANES]).exec(program, [a, c, Param(0), LANES])
        graph = queue.bind()
        graph.replay([b])
        device.synchronize()
        with counted(board) as counts:
            graph.replay([b])
            device.synchronize()
        check((counts.doorbells, counts.entries, counts.launches) == (1, 2, 20), f"{vars(counts)}")
        check(get(device, a) == [401] * LANES, f"{get(device, a)[:4]}")
        other = put(device, 1000)
        graph.replay([other])
        check(get(device, a) == [20401] * LANES, f"{get(device, a)[:4]}")
        check(device.compute.finished[0] == 20, "each launch wrote its number")
        graph.close()


@pytest.mark.parametrize("chip", CHIPS)
def test_launches_are_chained_where_the_chip_can(chip: str) -> None:
    with device_on(chip, kernel=add) as (device, _):
        program, a = device.load(binary(device)), put(device, 1)
        gate, middle = device.new_signal(1), device.new_signal()
        queue = device.compute_queue()
        for _ in range(5):
            queue.exec(program, [a, a, a, LANES])
        queue.signal(middle, 7).wait(gate, 1)
        for _ in range(3):
            queue.exec(program, [a, a, a, LANES])
        graph = queue.bind()
        graph.replay()
        text = device.compute.dump()
        check(text == "", text)
        check(get(device, a) == [2**8] * LANES and middle.value == 7)
        (copy,) = next(iter(device.recordings._all)).copies
        words = np.frombuffer(bytes(copy.view[:1024]), np.uint32)
        starts = int(np.count_nonzero(words == 0x200120AD))  # SEND_PCAS_A on subchannel 1
        check(starts == (8 if chip == UNCHAINED else 2), f"{starts} launches by methods")


def test_a_long_run_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_CHAINED", 4)
    with device_on(kernel=add) as (device, _):
        program, a, one = device.load(binary(device)), put(device, 0), put(device, 1)
        queue = device.compute_queue()
        for _ in range(11):
            queue.exec(program, [a, a, one, LANES])
        graph = queue.bind()
        graph.replay()
        check(get(device, a) == [11] * LANES)
        (made,) = list(device.recordings._all)
        check([len(run) for run in made._runs] == [4, 4, 3])


def test_replays_overlap_with_arguments_of_their_own() -> None:
    """Three replays wait behind a gate; each has the argument that it was given."""
    with device_on(kernel=add) as (device, _):
        program, zero = device.load(binary(device)), put(device, 0)
        gate, sources = device.new_signal(), [put(device, n) for n in (5, 6, 7)]
        results = [put(device, 0) for _ in sources]
        queue = device.compute_queue().exec(program, [Param(0), Param(1), zero, LANES])
        graph = queue.bind()
        device.synchronize()
        device.compute_queue().wait(gate, 1).submit()
        for result, source in zip(results, sources, strict=True):
            graph.replay([result, source])
        gate.set(1)
        for result, wanted in zip(results, (5, 6, 7), strict=True):
            check(get(device, result) == [wanted] * LANES)


def narrow(device: NvDevice) -> Binary:
    """(c, short, byte, word): arguments of 8, 2, 1 and 4 bytes."""
    sm = device.target.sm
    at = PARAMS[sm]
    code = NvCode(
        sm=sm, code_offset=0, code_bytes=len(CODE), registers=16, barriers=0, shared_bytes=1024,
        local_bytes=0, crs_bytes=0, param_offset=at, param_bytes=16, bank0_bytes=at + 16,
        max_threads=0,
    )  # fmt: skip
    args = (Arg(0, 8, True), Arg(8, 2, False), Arg(10, 1, False), Arg(12, 4, False))
    needs = Resources(block=LANES, max_block=1024, args=args, vendor=code.encode())
    return Binary(device.arch, "narrow", CODE, 0, resources=needs)


def keep(launch: Any) -> None:
    """c[0:3] = the other arguments, read where the kernel has them."""
    at = PARAMS_OF[launch.chip.name]
    c, short, byte, word = struct.unpack_from("<QHBxI", launch.constant(0), at)
    launch.space.write(c, struct.pack("<3I", short, byte, word))


@pytest.mark.parametrize("chip", CHIPS)
def test_narrow_arguments_are_filled_and_leave_their_neighbours(chip: str) -> None:
    with device_on(chip, kernel=keep) as (device, _):
        program, c = device.load(narrow(device)), put(device, 0)
        one = device.compute_queue().exec(program, [c, Param(0), 2, Param(1)]).bind()
        for first, second in ((3, 4), (0x1FFFF, (1 << 34) + 5), (3, 4)):
            one.replay([first, second])
            wanted = [first & 0xFFFF, 2, second & 0xFFFFFFFF]
            check(get(device, c)[:3] == wanted, f"{get(device, c)[:3]}")
        two = device.compute_queue().exec(program, [c, 1, Param(0), 3]).bind()
        two.replay([0x1FF])
        check(get(device, c)[:3] == [1, 0xFF, 3], f"{get(device, c)[:3]}")


@pytest.mark.parametrize("chip", ["ga102", "gh100", "gb202", "tu102"])
def test_a_fault_in_a_graph_names_the_kernel_that_ran(chip: str) -> None:
    """The third of four launches stops; the first two are done, and the graph runs again."""
    ran, bad = [], [True]

    def third(launch: Any) -> None:
        ran.append(launch)
        if len(ran) == 3 and bad:
            bad.clear()
            raise SmException(0x10, launch.code_va, "made up")
        add(launch)

    with device_on(chip, kernel=third) as (device, _):
        names = ("first", "second", "third", "fourth")
        programs = [device.load(named(device, name)) for name in names]
        a, one = put(device, 0), put(device, 1)
        queue = device.compute_queue()
        for program in programs:
            queue.exec(program, [a, a, one, LANES])
        graph = queue.bind()
        graph.replay()
        with pytest.raises(DeviceFault) as caught:
            device.synchronize()
        check(caught.value.kernel == "third", f"{caught.value.kernel}: {caught.value}")
        check(get(device, a) == [2] * LANES, "two were done")
        graph.replay()
        check(get(device, a) == [6] * LANES, "it runs again on the new channel")


def named(device: NvDevice, name: str) -> Binary:
    made = binary(device)
    return Binary(made.arch, name, made.image, made.entry, resources=made.resources)


def test_a_graph_that_waits_is_no_hang_and_one_that_stands_is() -> None:
    with device_on(kernel=add, hang_s=0.3) as (device, board):
        program, a = device.load(binary(device)), put(device, 3)
        gate = device.new_signal()
        queue = device.compute_queue().exec(program, [a, a, a, LANES]).wait(gate, 1)
        graph = queue.exec(program, [a, a, a, LANES]).bind()
        graph.replay()
        with pytest.raises(DeviceTimeout) as late:
            device.synchronize(0.05)
        check("SEM_EXECUTE" in str(late.value), "the graph's own methods are shown")
        gate.set(1)
        check(get(device, a) == [12] * LANES)
        compute = next(one for one in board.hardware.gpus[0].channels.values() if one.engine == 1)
        compute.stuck = True
        graph.replay()
        with pytest.raises(Hang) as stuck:
            device.synchronize()
        check("'add'" in str(stuck.value), f"{stuck.value}")
        graph.replay()
        check(get(device, a) == [48] * LANES)


def test_nothing_is_left_of_graphs() -> None:
    with device_on(kernel=add) as (device, board):
        program, a = device.load(binary(device)), put(device, 1)
        device.synchronize()
        device.trim()
        memory = board.hardware.gpus[0].memory

        def used() -> Any:
            device.synchronize()
            device.trim()
            return len(next(iter(board.hardware.clients.values())).objects)

        before = used()
        for _ in range(20):
            graph = device.compute_queue().exec(program, [a, a, a, LANES]).bind()
            graph.replay()
            graph.close()
        check(used() == before, f"{used()} objects of RM, before {before}; {memory}")
