"""The parts of `drivers/gpu` alone: a heap over plain memory, a life cycle, places of addresses."""

from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import drivers.gpu
from drivers.base.errors import UseAfterFree
from drivers.base.life import Life, State
from drivers.gpu.blocks import LARGE_BYTES, SLAB_BYTES, Block
from drivers.gpu.faults import FRONT_BYTES, NEAR_BYTES, place
from drivers.gpu.heap import Heap
from drivers.gpu.pair import RingPair
from drivers.gpu.slots import Slots
from tests.support import check

LIMIT_BYTES = 1 << 30
NAMES = ("amd", "nvidia", "qcom", "adreno")


class Users:
    """Queues that are as idle as the test says."""

    given, moment = 7, (None, 0)

    def __init__(self) -> None:
        self.idle, self.waits = (True, True), list[str]()

    def reach(self, mark: int) -> None:
        self.waits.append(f"reach {mark}")

    def synchronize(self) -> None:
        self.waits.append("synchronize")


class Rig:
    """A heap; `live` are the pieces of memory that its interface gave."""

    def __init__(self) -> None:
        self.live, self.peeks, self._next = set[int](), list[Any](), count(1 << 32, 1 << 28)
        self.life, self.users, iface = Life("GPU:0"), Users(), self
        self.heap = Heap(self.life, iface, Slots(iface), self.users, LIMIT_BYTES)

    def _piece(self, nbytes: int) -> Any:
        va = next(self._next)
        self.live.add(va)
        return SimpleNamespace(gpu_va=va, nbytes=nbytes, free=lambda: self.live.remove(va))

    def allocate(self, nbytes: int, use: object, name: str, *, host: bool) -> Any:
        return self._piece(nbytes)

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Any:
        return self._piece(nbytes)


def test_small_blocks_share_a_slab_and_large_ones_do_not() -> None:
    rig = Rig()
    blocks = [rig.heap.block(100) for _ in range(20)]
    check(len(rig.live) == 1 and len({block.gpu_va for block in blocks}) == 20)
    spans = sorted((block.gpu_va, block.gpu_va + 100) for block in blocks)
    check(all(end <= start for (_, end), (start, _) in pairwise(spans)))
    check(spans[-1][1] - spans[0][0] <= SLAB_BYTES, "one piece of memory")
    rig.heap.block(LARGE_BYTES)
    check(len(rig.live) == 2)


@pytest.mark.parametrize(
    ("idle", "overlaps", "reused"),
    [
        ((True, True), False, True),
        ((False, True), False, True),  # later work of the same queue comes after it
        ((False, True), True, False),
        ((True, False), False, False),
        ((True, True), True, True),
    ],
)
def test_memory_is_reused_when_no_queue_uses_it(
    idle: tuple[bool, bool], overlaps: bool, reused: bool
) -> None:
    rig = Rig()
    if overlaps:
        rig.heap.overlap()
    first = rig.heap.block(LARGE_BYTES)
    rig.users.idle = idle
    rig.heap.give_back(first)
    check((rig.heap.block(LARGE_BYTES).gpu_va == first.gpu_va) is reused, f"{idle} {overlaps}")


def test_memory_that_another_gpu_uses_is_not_reused() -> None:
    rig, other = Rig(), Rig()
    rig.heap.reached_by(other.heap)
    first = rig.heap.block(LARGE_BYTES)
    other.users.idle = (False, True)
    rig.heap.give_back(first)
    check(rig.heap.block(LARGE_BYTES).gpu_va != first.gpu_va, "the other one still uses it")
    rig.heap.trim()
    check("synchronize" in other.users.waits, "trim waits for both")
    other.life.state = State.CLOSED
    check(rig.heap.block(LARGE_BYTES).gpu_va == first.gpu_va, "a closed one uses nothing")


def test_what_may_be_in_use_is_waited_for_before_work_overlaps() -> None:
    rig = Rig()
    first = rig.heap.block(LARGE_BYTES)
    rig.users.idle = (False, True)
    rig.heap.give_back(first)
    check(rig.heap.block(LARGE_BYTES).gpu_va == first.gpu_va)
    rig.heap.overlap()
    check(rig.users.waits == ["reach 7"], f"{rig.users.waits}")


def test_pages_are_mapped_once() -> None:
    rig, pages = Rig(), np.empty(3 * 4096, np.uint8)
    start = -pages.ctypes.data % 4096
    view = memoryview(pages[start : start + 4096]).cast("B")
    one, two = rig.heap.wrap(view), rig.heap.wrap(view)
    check(one.bo is two.bo and len(rig.live) == 1)
    rig.heap.give_back(one)
    rig.heap.take_back()
    check(len(rig.live) == 1, "the second buffer has it still")
    rig.users.idle = (False, True)
    rig.heap.give_back(two)
    rig.heap.take_back()
    check(len(rig.live) == 1, "work under way may use it")
    rig.users.idle = (True, True)
    rig.heap.take_back()
    check(not rig.live)


def test_close_frees_everything_and_drops_what_comes_later() -> None:
    rig = Rig()
    left, large = rig.heap.block(64), rig.heap.block(LARGE_BYTES)
    rig.heap.give_back(large)
    rig.heap.close()
    check(not rig.live and not rig.peeks)
    rig.heap.give_back(left)
    piece = rig.allocate(64, None, "late", host=False)
    rig.heap.give_back(piece)
    rig.heap.take_back()
    check(rig.live == {piece.gpu_va}, "its interface is closed: nothing is asked of it")
    with pytest.raises(UseAfterFree, match="GPU:0 is closed"):
        rig.heap.block(64)


def test_copies_submitted_while_another_thread_looks_are_not_forgotten() -> None:
    """Between the look at the copy queue and the note of it, a copy is submitted."""
    pair = RingPair[Any, Any]()

    class Copies:
        @property
        def idle(self) -> bool:
            pair.copied = True  # the other thread
            return True

    pair.compute, pair.copies, pair.copied = SimpleNamespace(stale=False), Copies(), True
    pair.invalidate_sharers()
    check(pair.compute.stale and pair.copied, "the copy's destination stays in the caches")


def test_a_device_closes_once() -> None:
    life, done = Life("GPU:0"), list[str]()

    def finish() -> None:
        life.close(lambda: [lambda: done.append("inside")], lambda: done.append("inside, again"))
        with pytest.raises(UseAfterFree):
            life.check()
        life.state = State.CLOSED

    for _ in range(2):
        life.close(lambda: [lambda: done.append("first"), finish], lambda: done.append("again"))
    check(done == ["first", "again"], f"{done}")


@pytest.mark.parametrize(
    ("off", "where"),
    [
        (0, "offset 0x0"), (4095, "offset 0xfff"), (4096, "0x0 bytes behind"),
        (4096 + NEAR_BYTES - 1, "0xffffff bytes behind"), (-1, "0x1 bytes in front of"),
        (-FRONT_BYTES, "0x10000 bytes in front of"), (4096 + NEAR_BYTES, "no buffer"),
        (-FRONT_BYTES - 1, "no buffer"),
    ],
)  # fmt: skip
def test_where_an_address_is(off: int, where: str) -> None:
    bo: Any = None
    buffer, text = place([Block(bo, 1 << 40, 4096)], (1 << 40) + off)
    check(where in text and bool(buffer) == ("no buffer" not in where), text)


def test_no_vendor_is_named() -> None:
    for path in Path(drivers.gpu.__path__[0]).glob("*.py"):
        found = [name for name in NAMES if name in path.read_text().lower()]
        check(not found, f"{path.name}: {found}")
