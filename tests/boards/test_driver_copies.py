"""Host copies of the AMD driver: what they wait for, what overlaps, what ends them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from boards.amd.cp.engines import Engines
from boards.amd.machine import Options, open_board
from drivers.amd.sdma_ring import SdmaRing
from drivers.base.errors import Hang
from drivers.gpu import movers
from drivers.gpu.staging import SLOT_BYTES, Staging
from drivers.gpu.transfers import Transfers
from drivers.world.foreign import ForeignWorld
from queues.decode import decode, decoder, words_of
from tests.boards.driver_harness import QUEUES, add, device_on, get, open_on, put
from tests.share import part
from tests.support import check

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 256 * KIB, MIB - 1, 5 * MIB + 13, 16 * MIB)
N = 1000
GROUPS = -(-N // 64)
A, B = np.arange(N, dtype=np.float32), np.full(N, 3, np.float32)
RANDOM = np.random.default_rng(11)


def data(nbytes: int) -> np.ndarray:
    return RANDOM.integers(0, 256, nbytes, np.uint8)


class SlowBoard:
    """A board on which nothing is done before the driver sleeps; it counts what it slept for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, queue: str) -> None:
        self.board = open_board("gfx1100", options=Options(late=True))
        clock = self.board.hardware.clock
        monkeypatch.setattr(self.board, "monotonic_s", clock.now_s)  # a look lets nothing run
        self.device = open_on(ForeignWorld(self.board), queue)
        self.slept: list[bool] = []
        """Whether the wait ended with an interrupt, for each one that was long enough to sleep."""
        inner = self.device.iface.wait

        def wait(timeout_ms: int) -> Any:
            before_ns = clock.skipped_ns
            try:
                return inner(timeout_ms)
            finally:
                if timeout_ms:
                    self.slept.append(clock.skipped_ns == before_ns)

        monkeypatch.setattr(self.device.iface, "wait", wait)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_no_copy_sleeps_on_an_interrupt_that_nobody_asked_for(queue, monkeypatch) -> None:
    slow = SlowBoard(monkeypatch, queue)
    with slow.device as device:
        for nbytes in SIZES:
            source, back = data(nbytes), np.empty(nbytes, np.uint8)
            buffer = device.alloc(nbytes)
            slow.slept.clear()
            device.copy_in(buffer, memoryview(source))
            check(all(slow.slept) and len(slow.slept) > 0, f"in {nbytes}: {slow.slept}")
            slow.slept.clear()
            device.copy_out(memoryview(back), buffer)
            check(all(slow.slept) and len(slow.slept) > 0, f"out {nbytes}: {slow.slept}")
            np.testing.assert_array_equal(back, source)
    check(not slow.board.violations, str(slow.board.violations))


def test_every_slot_ends_in_its_progress_and_then_an_interrupt() -> None:
    with device_on("gfx1100") as (_, device):
        ring, before = device.copies, device.copies.put
        source = data(SLOT_BYTES + 5)
        put(device, source)
        raw = bytes(ring.bytes)[before : ring.put]
        names = [one.name for one in decode(decoder("sdma", "gfx1100"), words_of(raw))]
        check(names == ["COPY_LINEAR", "FENCE", "FENCE", "TRAP"] * 2, str(names))


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_copies_of_several_slots_and_with_threads(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        for nbytes in (3 * MIB + 5, movers.LEAST_BYTES + 7):
            source = data(nbytes)
            np.testing.assert_array_equal(get(device, put(device, source), "uint8"), source)


@pytest.mark.parametrize(("chip", "queue"), [("gfx1100", "PM4"), ("gfx942", "AQL")])
def test_a_new_buffer_is_filled_while_the_compute_queue_waits(chip: str, queue: str) -> None:
    """Memory that nothing used before: the copy does not wait for kernels that never see it."""
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.synchronize()
        go = device.new_signal()
        device.compute_queue().wait(go, 1).exec(program, [x, y, z, N], (GROUPS, 1, 1)).submit()
        w = put(device, A + 1)
        check(not device.compute.idle, "the copy is done, and the compute queue still waits")
        with pytest.raises(Hang, match=r"WAIT_REG_MEM|PM4_IB"):  # one that it may use
            device.copy_in(x, memoryview(B).cast("B"))
        go.set(1)
        device.launch(program, [w, z, z, N], GROUPS)
        np.testing.assert_array_equal(get(device, z), A + 1 + A + B)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_memory_that_was_used_before_waits_for_its_last_use_and_a_flush(queue: str) -> None:
    with device_on("gfx1100", queue) as (_, device):
        program = device.load(add("gfx1100"))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.launch(program, [x, y, z, N], GROUPS)
        va = z.gpu_va
        z.free()
        w = device.alloc(4 * N)
        check(w.gpu_va == va, "it is handed out again at once")
        flushes = device.compute.clean
        device.copy_in(w, memoryview(B).cast("B"))
        check(device.compute.clean != flushes, "what the kernel wrote there is written back before")
        w.free()
        del w
        again = put(device, A)  # its last use came before the flush
        check(again.gpu_va == va and device.compute.clean == device.compute.put)
        device.launch(program, [again, y, again, N], GROUPS)
        np.testing.assert_array_equal(get(device, again), A + B)


def test_a_copy_over_lines_that_are_not_written_back_is_reported(monkeypatch) -> None:
    """A driver that waits for nothing: the board has the L2's older lines overwrite the copy."""
    monkeypatch.setattr(Transfers, "_untouched", lambda self, dst: True)
    board = open_board("gfx1100")
    with open_on(ForeignWorld(board)) as device:
        program = device.load(add("gfx1100"))
        x, y, z = put(device, A), put(device, B), device.alloc(4 * N)
        device.launch(program, [x, y, z, N], GROUPS)
        device.copy_in(z, memoryview(A).cast("B"))
    check({one.kind for one in board.violations} == {"dirty line"}, str(board.violations))


class Timeline:
    """A copy on a board whose time is what engine and host take, and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, engine: float, host: float) -> None:
        options = Options(engines=partial(Engines, copy_bytes_per_s=engine))
        self.board = open_board("gfx1100", options=options)
        self.clock = self.board.hardware.clock
        monkeypatch.setattr(self.clock, "now_ns", lambda: self.clock.skipped_ns)
        monkeypatch.setattr(self.clock, "now_s", self._look)
        self.device = open_on(ForeignWorld(self.board))
        self.host, self.filled = host, 0.0
        self.copies: list[tuple[float, float]] = []
        """When the engine was copying, in seconds."""

    def _look(self) -> float:
        """The driver's clock: a look takes 1 us, so that no wait of its own is without end."""
        self.clock.skip(1e-6)
        return self.clock.now_ns() / 1e9

    def _move(self, real: Callable[[int, int, int], int], dst: int, src: int, nbytes: int) -> int:
        real(dst, src, nbytes)
        self.filled += nbytes / self.host
        self.board.sleep(nbytes / self.host)
        return dst

    def _wait(self, ring: SdmaRing, mark: int) -> None:
        for _ in range(100_000):
            if ring.done >= mark:
                return
            self.board.sleep(1e-6)
        raise AssertionError("the copy did not end")

    def run(self, nbytes: int, direction: str) -> float:
        """How long one copy takes."""
        device = self.device
        buffer = device.alloc(nbytes)
        staging = Staging(device.iface)
        staging.move = partial(self._move, staging.move)
        memory, source = np.zeros(nbytes, np.uint8), data(nbytes)
        staging.copy_in(device.copies, buffer.gpu_va, memoryview(source), self._wait)
        start = self.clock.now_s()
        self.filled = 0.0

        def trace(name: str, facts: dict) -> None:
            if name == "copying":
                self.copies.append((facts["begin"] / 1e8, facts["end"] / 1e8))

        self.board.hardware.trace = trace
        if direction == "in":
            source[:] = data(nbytes)
            staging.copy_in(device.copies, buffer.gpu_va, memoryview(source), self._wait)
            staging.copy_out(device.copies, memoryview(memory), buffer.gpu_va, self._wait)
            self.copies = self.copies[: len(self.copies) // 2]
            took = max(end for _, end in self.copies) - start
        else:
            staging.copy_out(device.copies, memoryview(memory), buffer.gpu_va, self._wait)
            took = self.clock.now_s() - start
        np.testing.assert_array_equal(memory, source)
        staging.close()
        device.close()
        return took


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("engine", [3e9, 26e9])
def test_engine_and_host_work_at_the_same_time(direction, engine, monkeypatch) -> None:
    """The slower of the two never waits, but for the other one's first or last slot."""
    nbytes, host = 7 * MIB, 10e9
    line = Timeline(monkeypatch, engine, host)
    took = line.run(nbytes, direction)
    slot = SLOT_BYTES / host + SLOT_BYTES / engine
    busiest = max(nbytes / engine, nbytes / host)
    check(busiest < took < busiest + slot, f"{took * 1e6:.0f} us, {busiest * 1e6:.0f} us at best")
    gaps = [after[0] - before[1] for before, after in pairwise(line.copies)]
    if engine < host:
        check(max(gaps) < 2e-6, f"the engine stands still for {max(gaps) * 1e6:.1f} us")
    check(len(line.copies) == 7)


@pytest.mark.parametrize("direction", ["in", "out"])
def test_large_copies_have_threads_of_their_own(direction, monkeypatch) -> None:
    """Each takes whole slots; none is left, and no more slots are used than there are."""
    nbytes = part(40, 20) * MIB + 77
    with device_on("gfx1100") as (_, device):
        source, back = data(nbytes), np.empty(nbytes, np.uint8)
        buffer = put(device, source)
        staging = device.transfers.staging
        who, inner, meeting = set(), staging.move, threading.Barrier(movers.THREADS)

        def move(dst: int, src: int, count: int) -> int:
            if threading.get_ident() not in who:
                who.add(threading.get_ident())
                meeting.wait(20)  # as many as that are at work at the same time
            return inner(dst, src, count)

        staging.move = move
        if direction == "in":
            source[:] = data(nbytes)
            device.copy_in(buffer, memoryview(source))
            staging.move = inner
        device.copy_out(memoryview(back), buffer)
        np.testing.assert_array_equal(back, source)
        check(len(who) == movers.THREADS and threading.get_ident() not in who)
        check(not [one for one in threading.enumerate() if one.name.startswith("copy ")])
        staging.move = inner


@pytest.mark.parametrize("nbytes", [3 * MIB, 20 * MIB])
def test_a_copy_that_is_given_up_leaves_nothing_to_the_next_one(nbytes: int, monkeypatch) -> None:
    """^C, or a fault: its slots are used again when the engine is done with them."""
    with device_on("gfx1100", options=Options(late=True)) as (_, device):
        source, back = data(nbytes), np.empty(nbytes, np.uint8)
        buffer, other = put(device, source), device.alloc(nbytes)
        staging, inner = device.transfers.staging, device.transfers.staging.move
        left = [2]

        def move(dst: int, src: int, count: int) -> int:
            left[0] -= 1
            return inner(dst, src, count)

        def wait(ring: SdmaRing, mark: int) -> None:
            if left[0] <= 0:
                raise KeyboardInterrupt
            device.waits.wait_ring(ring, mark)

        staging.move = move
        with pytest.raises(KeyboardInterrupt):
            staging.copy_in(device.copies, other.gpu_va, memoryview(data(nbytes)), wait)
        staging.move = inner
        check(not [one for one in threading.enumerate() if one.name.startswith("copy ")])
        device.copy_out(memoryview(back), buffer)
        np.testing.assert_array_equal(back, source)
        device.copy_in(other, memoryview(source))
        device.copy_out(memoryview(back), other)
        np.testing.assert_array_equal(back, source)


def test_a_signal_handler_copies_in_the_middle_of_a_copy() -> None:
    """What it would do inside any call of the copy that it interrupts."""
    nbytes = 3 * MIB
    with device_on("gfx1100") as (_, device):
        source, back, own = data(nbytes), np.empty(nbytes, np.uint8), data(2 * MIB)
        buffer, other = device.alloc(nbytes), put(device, own)
        staging, inner, calls = device.transfers.staging, device.transfers.staging.move, []

        def move(dst: int, src: int, count: int) -> int:
            staging.move = inner
            calls.append(count)
            np.testing.assert_array_equal(get(device, other, "uint8"), own)
            staging.move = move
            return inner(dst, src, count)

        staging.move = move
        device.copy_in(buffer, memoryview(source))
        device.copy_out(memoryview(back), buffer)
        staging.move = inner
        np.testing.assert_array_equal(back, source)
        check(calls == [MIB] * 6)


def test_a_job_that_is_done_is_not_waited_for() -> None:
    """Whatever a ^C left of its lock: on its way out of `with`, it may stay taken."""
    movers.DONE.wait()
    movers.DONE._done.acquire()
    try:
        movers.DONE.wait()
    finally:
        movers.DONE._done.release()


def test_a_ctrl_c_among_starting_threads_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start, before = threading.Thread.start, threading.active_count()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "copy 1":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), movers.Movers(lambda dst, src, count: dst, 3, 2):
        pass
    check(threading.active_count() == before, f"{threading.enumerate()}")
