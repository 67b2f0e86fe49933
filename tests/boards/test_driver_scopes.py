"""Whose writes are seen when: scopes of AQL packets, several L2s, copies behind caches, stamps."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np
import pytest

from boards.amd.cp import engines
from boards.amd.cp import state as cp_state
from boards.amd.cp.engines import Engines
from boards.amd.machine import Options, open_board
from drivers.amd import aql_ring, graphs
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Param
from drivers.gpu.pair import RingPair
from drivers.world.foreign import ForeignWorld
from queues.amd import aql
from queues.amd import aql_launch as amd_aql
from queues.amd.aql import FenceScope
from queues.decode import decode, decoder, words_of
from tests.boards.driver_harness import add, device_on, get, open_on, put
from tests.support import check

N = 1000
GROUPS = -(-N // 64)
A, B = np.arange(N, dtype=np.float32), np.full(N, 3, np.float32)


def header(words: bytes, acquire: FenceScope, release: FenceScope) -> bytes:
    """A packet with other scopes. # src: hsa.h, acquire in [10:9], release in [12:11]"""
    first = int.from_bytes(words[:2], "little") & ~0x1E00
    return (first | acquire << 9 | release << 11).to_bytes(2, "little") + words[2:]


def kinds(board) -> set[str]:
    return {violation.kind for violation in board.violations}


def chain(device: AmdDevice) -> np.ndarray:
    """a + 4 b on the GPU, by launches, a graph that signals, and one more launch."""
    program = device.load(add(device.arch))
    x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
    device.launch(program, [x, y, z, N], GROUPS)
    device.launch(program, [z, y, z, N], GROUPS)
    queue = device.compute_queue().exec(program, [Param(0), y, Param(0), N], (GROUPS, 1, 1))
    done = device.new_signal()
    graph = queue.signal(done, 1).bind()
    graph.replay([z])
    done.wait(1)
    device.launch(program, [z, y, z, N], GROUPS)
    return get(device, z)


@pytest.mark.parametrize(("chip", "barriers"), [("gfx942", 1), ("gfx1100", 0)])
def test_kernels_have_agent_scope_and_the_queue_s_end_the_system_s(chip, barriers) -> None:
    """On several XCCs a packet in front of what the host is told lets all write their L2s back."""
    with device_on(chip, "AQL", Options(late=True)) as (_, device):
        program, z = device.load(add(chip)), device.alloc(4 * N)
        x, y = put(device, A), put(device, B)
        device.synchronize()
        ring, start = device.compute, device.compute.put
        for _ in range(2):
            device.launch(program, [x, y, z, N], GROUPS)
        ring.flush()
        data = bytes(ring.bytes)[start * aql.PACKET_BYTES : ring.put * aql.PACKET_BYTES]
        found = list(decode(decoder("aql", chip), words_of(data)))
        scopes = [(one.name, one.fields.get("acquire"), one.fields["release"]) for one in found]
        end = [("BARRIER_AND", 0, 2)] * barriers + [("PM4_IB", 2, 2)]
        check(scopes == [*end, *[("KERNEL_DISPATCH", 1, 1)] * 2, *end], str(scopes))
        np.testing.assert_array_equal(get(device, z), A + B)


@pytest.mark.parametrize(
    ("release", "found"),
    [(FenceScope.SYSTEM, {"unreleased"}), (FenceScope.AGENT, {"unreleased", "stale read"})],
)
def test_a_release_that_stays_in_the_gpu_is_reported(release, found, monkeypatch) -> None:
    """The first XCC's RELEASE_MEM alone, without the packet that lets all write their L2s back."""

    def alone(target, ib_va, nwords):
        packet = aql.pm4_ib(ib_base=ib_va, ib_size=nwords, release=release)
        return struct.pack("=16I", *packet)

    for module in (amd_aql, graphs):
        monkeypatch.setattr(module, "jump", alone)
    for module in (aql_ring, graphs):
        monkeypatch.setattr(module, "jump_slots", lambda target: 1)
    board = open_board("gfx942")
    with open_on(ForeignWorld(board), "AQL") as device:
        chain(device)
    check(kinds(board) == found, str(board.violations))


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(
    ("acquire", "found"),
    [(FenceScope.AGENT, set()), (FenceScope.NONE, {"stale read"})],
)
def test_a_missing_acquire_of_what_the_host_brought_is_reported(chip, acquire, found) -> None:
    """SDMA copies it; a kernel of the same GPU needs no wider scope than its agent's."""
    board = open_board(chip)
    with open_on(ForeignWorld(board), "AQL") as device:
        program = device.load(add(chip))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.launch(program, [x, y, z, N], GROUPS)
        device.copy_in(x, memoryview(B).cast("B"))
        device.compute.stale = False
        scoped(program, acquire, FenceScope.AGENT)
        device.launch(program, [x, y, z, N], GROUPS)
        device.synchronize()
    check(kinds(board) == found, str(board.violations))


def scoped(program, acquire, release) -> None:
    """From now on the program's packets have these scopes."""
    pack = program.launcher.pack_into

    def packed(memory, off, *values):
        pack(memory, off, *values)
        memory[off : off + 64] = header(bytes(memory[off : off + 64]), acquire, release)

    program.launcher.pack_into = packed


@pytest.mark.parametrize(
    ("acquire", "release", "found"),
    [
        (FenceScope.AGENT, FenceScope.AGENT, set()),
        (FenceScope.AGENT, FenceScope.NONE, {"stale read"}),
        (FenceScope.NONE, FenceScope.AGENT, {"stale read", "no acquire"}),
    ],
)
def test_dependent_kernels_need_both_scopes_between_xccs(acquire, release, found) -> None:
    """On gfx942 a kernel's workgroups read what other XCCs wrote, through other L2s."""
    board = open_board("gfx942")
    with open_on(ForeignWorld(board), "AQL") as device:
        program = device.load(add("gfx942"))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.launch(program, [x, y, z, N], GROUPS)
        scoped(program, acquire, release)
        for _ in range(3):
            device.launch(program, [z, y, z, N], GROUPS)
        np.testing.assert_array_equal(get(device, z), A + 4 * B)
    check(kinds(board) == found, str(board.violations))


@pytest.mark.parametrize(("everyone", "found"), [(False, set()), (True, {"stale read"})])
def test_kernels_of_a_pm4_queue_share_the_l2_of_one_xcc(everyone, found, monkeypatch) -> None:
    """If all XCCs processed it, its kernels would need what the scopes of AQL packets do."""
    for module in (engines, cp_state) if everyone else ():
        monkeypatch.setattr(module, "xccs_of", lambda spec, chip: tuple(range(chip.xccs)))
    board = open_board("gfx942")
    with open_on(ForeignWorld(board), "PM4") as device:
        result = chain(device)
        ring = device.compute
        words = words_of(bytes(ring.bytes)[: ring.put * 4])
        names = {one.name for one in decode(decoder("pm4", "gfx942"), words)}
        check("DISPATCH_DIRECT" in names and "PRED_EXEC" not in names, str(names))
    np.testing.assert_array_equal(result, A + 4 * B)
    check(kinds(board) == found, str(board.violations))


@pytest.mark.parametrize(("chip", "queue"), [("gfx1100", "PM4"), ("gfx1100", "AQL"),
                                             ("gfx942", "AQL"), ("gfx1201", "PM4")])  # fmt: skip
def test_kernels_see_what_a_copy_queue_brought(chip: str, queue: str) -> None:
    """The copy engine writes behind the L2, which holds the old lines."""
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.launch(program, [x, y, z, N], GROUPS)
        device.synchronize()
        device.copy_queue().copy(x, y, 4 * N).submit()
        device.synchronize()
        device.launch(program, [x, y, z, N], GROUPS)
        np.testing.assert_array_equal(get(device, z), B + B)
        copied = device.new_signal()
        device.copy_queue().copy(x, z, 4 * N).signal(copied, 1).submit()
        copied.wait(1)
        device.launch(program, [x, y, z, N], GROUPS)
        np.testing.assert_array_equal(get(device, z), B + B + B)


@pytest.mark.parametrize(("chip", "queue"), [("gfx942", "AQL"), ("gfx942", "PM4")])
def test_a_signal_s_time_is_there_with_its_value(chip: str, queue: str) -> None:
    """On a board whose time stamps reach memory later than values that are written behind them."""
    options = Options(engines=partial(Engines, late_stamps=True))
    with device_on(chip, queue, options) as (_, device):
        done = device.new_signal()
        last = 0
        for value in range(1, 4):
            device.compute_queue().signal(done, value).submit()
            done.wait(value)
            check(done.ticks > last, f"value {value} with the time of {value - 1}")
            last = done.ticks


@pytest.mark.parametrize("reported", [True, False])
def test_a_gpu_drops_what_it_holds_of_another_one_s_memory(reported: bool, monkeypatch) -> None:
    """Both cache lines of the first one's memory; each changes what the other has read."""
    if not reported:
        monkeypatch.setattr(RingPair, "invalidate_sharers", lambda self: None)
    board = open_board("gfx1100", gpus=2)
    world = ForeignWorld(board)
    with open_on(world) as one, open_on(world, index=1) as two:
        x, y, z = put(one, A), put(one, B), two.alloc(4 * N)
        for buffer in (x, y):
            buffer.map_to(two)
        first, second = (device.load(add("gfx1100")) for device in (one, two))
        for turn in range(1, 3):
            one.launch(first, [x, y, x, N], GROUPS)
            one.synchronize()
            two.launch(second, [x, y, x, N], GROUPS)
            two.launch(second, [x, y, z, N], GROUPS)
            two.synchronize()
            np.testing.assert_array_equal(get(two, z), A + (2 * turn + 1) * B)
    check(kinds(board) == (set() if reported else {"stale read"}), str(board.violations))
