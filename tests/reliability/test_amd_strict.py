"""The board is strict with the driver: what the driver does is clean, and each sabotage is seen.

The queues here may run late: only while the process waits, so that what is reused or read too early
is reused and read before it is done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.amd.aql_ring import SLOTS
from drivers.amd.kfd.session import close_session
from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, DeviceFault, Hang
from drivers.world.foreign import ForeignWorld
from queues.amd import aql, pm4, sdma
from queues.amd import words as amd_words
from tests.boards.driver_harness import add, get, open_on, put
from tests.reliability import amd_trouble as t
from tests.reliability.amd_scene import let_go, work
from tests.support import check

N = t.N
LATE = (False, True)
CHIPS = (("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx1201", "PM4"), ("gfx1030", "AQL"),
         ("gfx942", "AQL"))  # fmt: skip


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize(("chip", "queue"), CHIPS)
def test_what_the_driver_does_is_clean(chip: str, queue: str, late: bool) -> None:
    """Copies, launches, private memory, queues of both kinds, signals, graphs: no violations."""
    board = open_board(chip, vram_bytes=256 << 20, options=Options(late=late))
    world = ForeignWorld(board)
    with open_on(world, queue) as device:
        for _ in range(2):
            work(device)
        a = np.arange(N, dtype=np.float32)
        x, y, z = put(device, a), put(device, a + 1), device.alloc(4 * N)
        program = device.load(add(chip))
        copied, summed = device.new_signal(), device.new_signal()
        device.copy_queue().wait(summed, 1).copy(x, z, 4 * N).signal(copied, 1).submit()
        steps = device.compute_queue().exec(program, [x, y, z, N]).timestamp(summed)
        steps.signal(summed, 1).wait(copied, 1).exec(program, [x, y, z, N]).barrier().submit()
        np.testing.assert_array_equal(get(device, z), a + 2 * (a + 1))
        chain = device.compute_queue()
        for _ in range(5):
            chain.exec(program, [Param(0), y, Param(0), N])
        graph = chain.bind()
        for _ in range(3):
            graph.replay([z])
        np.testing.assert_array_equal(get(device, z), a + 17 * (a + 1))
    close_session(world)
    check(not board.violations, f"{board.violations}")
    check(not any((board.baseline().buffers, board.baseline().fds)))


# Sabotage: `break_it` makes the driver forget something; the board has to report `kind`


def forget_acquires(patch: pytest.MonkeyPatch) -> None:
    def nothing(flavour: pm4.Flavour, **fields: object) -> list[int]:
        return pm4.nop(words=len(flavour.layout("ACQUIRE_MEM").words))

    patch.setattr(pm4, "acquire_mem", nothing)
    _scopes(patch, acquire=aql.FenceScope.NONE)


def forget_l2(patch: pytest.MonkeyPatch) -> None:
    """What copy engines wrote lies behind the L2."""
    real = pm4.acquire_mem

    def without_l2(flavour: pm4.Flavour, caches: Mapping[str, int], **fields: int) -> list[int]:
        kept = {name: value for name, value in caches.items() if name != "gl2_inv"}
        return real(flavour, caches=kept, **fields)

    patch.setattr(pm4, "acquire_mem", without_l2)
    _scopes(patch, acquire=aql.FenceScope.AGENT)


def forget_waits(patch: pytest.MonkeyPatch) -> None:
    real = pm4.event_write
    patch.setattr(pm4, "event_write", lambda **fields: pm4.nop(words=len(real(**fields))))
    _scopes(patch, barrier=0)


def forget_releases(patch: pytest.MonkeyPatch) -> None:
    real = pm4.release_mem

    def without_caches(flavour: pm4.Flavour, **fields: object) -> list[int]:
        return real(flavour, **{**fields, "caches": None})

    patch.setattr(pm4, "release_mem", without_caches)
    _scopes(patch, release=aql.FenceScope.NONE)


def _scopes(patch: pytest.MonkeyPatch, **changed: int) -> None:
    """All AQL packets with other header fields."""
    real = aql._header

    def header(*given: int) -> dict[str, int]:
        return real(*given) | changed

    patch.setattr(aql, "_header", header)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize(
    ("break_it", "kinds"),
    [
        (forget_acquires, {"stale read"}),
        (forget_l2, {"stale read"}),
        (forget_waits, {"stale read"}),
        (forget_releases, {"stale read", "unreleased"}),
    ],
)
def test_forgotten_synchronisation(
    queue: str,
    break_it: Callable[[pytest.MonkeyPatch], None],
    kinds: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two launches, one of which reads what the other wrote; the host reads the result."""
    break_it(monkeypatch)
    board = open_board(t.CHIP, vram_bytes=256 << 20)
    world = ForeignWorld(board)
    with open_on(world, queue) as device:
        x, y, z = (put(device, np.ones(N, np.float32)) for _ in range(3))
        program = device.load(add(t.CHIP))
        device.launch(program, [x, x, y, N], 1)
        device.launch(program, [y, x, z, N], 1)
        get(device, z)
    close_session(world)
    found = {violation.kind for violation in board.violations}
    check(found & kinds, f"{break_it.__name__}: {found}")


def wrong_event(rig: t.Rig) -> None:
    device = rig.device
    rig.emit(amd_words.notify(device.target, mailbox_va=device.mailbox_va + 8, event_id=99))


def signal_that_decreases(rig: t.Rig) -> None:
    signal = rig.device.new_signal()
    for value in (5, 3):
        rig.device.compute_queue().signal(signal, value).submit()


def write_pointer_forgotten(rig: t.Rig) -> None:
    rig.ring.write_pointer = memoryview(bytearray(8)).cast("Q")
    t.busy(rig)


def never_written(rig: t.Rig) -> None:
    fresh = rig.device.alloc(t.BIG_BYTES)
    rig.device.launch(rig.program, [fresh, rig.x, rig.big, N], 1)


def cached_fence(rig: t.Rig) -> None:
    words = sdma.fence(rig.device.copies.engine, addr=rig.x.gpu_va, data=1)
    rig.emit([words[0] & ~(7 << 16), *words[1:]])


def bounded_poll(rig: t.Rig) -> None:
    signal = rig.device.new_signal(1)
    engine = rig.device.copies.engine
    rig.emit(sdma.poll_mem(engine, addr=signal.gpu_va, value=1, retry_count=5))


def overlapping_copy(rig: t.Rig) -> None:
    engine, va = rig.device.copies.engine, rig.x.gpu_va
    rig.emit(sdma.copy_linear(engine, dst_addr=va + 4, src_addr=va, count=64))


@pytest.mark.parametrize(
    ("sabotage", "queue", "kind"),
    [
        (wrong_event, "PM4", "interrupt of no event"),
        (wrong_event, "AQL", "interrupt of no event"),
        (signal_that_decreases, "PM4", "signal decreased"),
        (signal_that_decreases, "AQL", "signal decreased"),
        (write_pointer_forgotten, "PM4", "stale write pointer"),
        (write_pointer_forgotten, "AQL", "stale write index"),
        (never_written, "PM4", "uninitialised VRAM"),
        (cached_fence, "SDMA", "cached fence"),
        (bounded_poll, "SDMA", "bounded poll"),
        (overlapping_copy, "SDMA", "overlapping copy"),
    ],
)
def test_sabotage_is_seen(sabotage: t.Trouble, queue: str, kind: str) -> None:
    with t.rig_on(queue) as rig:
        check(not rig.board.violations, f"{rig.board.violations}")
        sabotage(rig)
        found = {violation.kind for violation in rig.board.violations}
        check(found == {kind}, f"{rig.board.violations}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_memory_freed_while_a_queue_uses_it(queue: str) -> None:
    """Were it not waited for, the kernel would find nothing: the board has no mercy."""
    with t.rig_on(queue, Options(late=True)) as rig:
        bo = rig.big._held.bo
        rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)
        rig.device.heap.raw._large.pop(rig.big.gpu_va)
        va = rig.big.gpu_va
        bo.free()
        with pytest.raises(DeviceFault) as caught:
            rig.wait()
        check((caught.value.kind, caught.value.gpu_va) == ("unmapped", va), str(caught.value))
        let_go(caught.value)
        t.still_right(rig)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_memory_that_is_given_back_waits_for_its_queue(queue: str) -> None:
    """The same through the front door: freed at once, unmapped when nothing uses it."""
    with t.rig_on(queue, Options(late=True)) as rig:
        program = rig.device.load(add(t.CHIP))
        for _ in range(3):
            out = rig.device.alloc(t.BIG_BYTES * 2)
            rig.device.launch(program, [rig.x, rig.x, out, N], 1)
            out.free()
            rig.device.trim()
        rig.device.launch(program, [rig.x, rig.x, rig.big, N], 1)
        program.close()
        np.testing.assert_array_equal(get(rig.device, rig.big)[:N], np.full(N, 2, np.float32))
        check(not rig.board.violations, f"{rig.board.violations}")


# Back-pressure


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_more_launches_than_the_ring_holds(queue: str) -> None:
    """Nothing runs before somebody waits, and none of the launches is lost or overwritten."""
    with t.rig_on(queue, Options(late=True)) as rig:
        counter = put(rig.device, np.zeros(N, np.int32))
        program = rig.kernels["atomic"]
        ring = rig.device.compute
        each = getattr(program.launcher, "nbytes", ring.ring_bytes // SLOTS)
        count = ring.ring_bytes // each + 100
        for number in range(count):
            rig.device.launch(program, [counter.gpu_va + 4 * (number % N)], 1)
        got = get(rig.device, counter, "int32")
        expected = [len(range(lane, count, N)) for lane in range(N)]
        np.testing.assert_array_equal(got, expected)
        check(not rig.board.violations, f"{rig.board.violations}")


def test_more_copies_than_the_ring_holds() -> None:
    with t.rig_on("SDMA", Options(late=True)) as rig:
        device = rig.device
        sources = [put(device, np.full(N, n, np.float32)) for n in range(3)]
        target = device.alloc(4 * N * 3)
        ring_copies = device.copies.ring_bytes // 44 + 100
        copies = itertools.cycle(sources)
        for _ in range(ring_copies // 10):
            queue = device.copy_queue()
            for _ in range(10):
                queue.copy(target, next(copies), 4 * N)
            queue.submit()
        last = (ring_copies // 10 * 10 - 1) % 3
        np.testing.assert_array_equal(get(device, target)[:N], np.full(N, last, np.float32))
        check(not rig.board.violations, f"{rig.board.violations}")


def test_a_parked_copy_queue_that_is_full_goes_on() -> None:
    """Refused, not overwritten: what was given before the refusal is done in the end."""
    with t.rig_on("SDMA") as rig:
        device, go = rig.device, rig.device.new_signal()
        device.copy_queue().wait(go, 1).submit()
        most = device.copies.ring_bytes // 44
        fill(rig, most // 2)
        with pytest.raises(Hang, match="is full") as caught:
            fill(rig, most)
        let_go(caught.value)
        go.set(1)
        np.testing.assert_array_equal(get(device, rig.big)[:N], np.ones(N))
        t.still_right(rig)
        check(not rig.board.violations, f"{rig.board.violations}")


def fill(rig: t.Rig, count: int) -> None:
    for _ in range(count):
        rig.device.copy_queue().copy(rig.big, rig.x, 4 * N).submit()


def test_signals_never_decrease() -> None:
    with t.rig_on("PM4") as rig:
        signal = rig.device.new_signal(7)
        for value in (6, 0, -1):
            with pytest.raises(BadArgument):
                signal.set(value)
        check(signal.value == 7)
