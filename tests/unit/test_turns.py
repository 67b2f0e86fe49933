"""Work in turns, and memory for ioctls, where signal handlers ask for some in the middle."""

from __future__ import annotations

import threading

import pytest

from drivers.base.arena import Arena
from drivers.base.errors import Busy, Unsupported
from drivers.base.turns import Jobs
from drivers.world.linux import LinuxWorld
from tests.support import check


def test_a_job_given_inside_another_is_done_behind_it() -> None:
    jobs, done, refused = Jobs(), list[str](), list[str]()

    def first() -> None:
        jobs.give(lambda: done.append("handler's"))
        try:
            jobs.settle()
        except Busy as error:
            refused.append(str(error))
        done.append("first")

    jobs.give(first)
    check(done == ["first", "handler's"], str(done))
    check(len(refused) == 1 and "signal handler" in refused[0], str(refused))
    jobs.settle()
    check(len(done) == len({*done}), "nothing is done twice")


def test_a_job_that_fails_is_dropped_and_one_that_a_handler_ends_is_not() -> None:
    jobs, done, ends = Jobs(), list[str](), [Unsupported("no"), KeyboardInterrupt()]

    def fails() -> None:
        done.append("tried")
        if ends:
            raise ends.pop(0)

    with pytest.raises(Unsupported):
        jobs.give(fails)
    jobs.settle()
    check(done == ["tried"], str(done))
    with pytest.raises(KeyboardInterrupt):
        jobs.give(fails)
    jobs.settle()
    check(done == ["tried"] * 3, str(done))


def test_another_thread_waits_for_its_turn() -> None:
    jobs, inside, order = Jobs(), threading.Event(), list[str]()

    def other() -> None:
        inside.wait()
        jobs.give(lambda: order.append("other"))

    thread = threading.Thread(target=other)
    thread.start()

    def slow() -> None:
        inside.set()
        check(jobs.turns.interrupted, "this thread's")
        order.append("slow")

    jobs.give(slow)
    thread.join()
    check(order == ["slow", "other"], str(order))


def test_calls_inside_each_other_have_memory_of_their_own() -> None:
    region = LinuxWorld().mmap(-1, 4096)
    arena, seen = Arena(region), list[bytes]()

    def inside(left: int) -> None:
        with arena.piece(bytes([left]) * 100) as piece:
            if left:
                inside(left - 1)
            seen.append(piece.read())

    inside(9)
    check(seen == [bytes([left]) * 100 for left in range(10)])
    with pytest.raises(Busy, match="signal handlers"):
        inside(99)
    with arena.piece(bytes(4096)) as whole:
        check(whole.cpu_va == region.cpu_va, "all pieces were given back")
    region.close()


def test_a_piece_is_given_back_where_a_handler_raises() -> None:
    region = LinuxWorld().mmap(-1, 4096)
    arena = Arena(region)
    with pytest.raises(KeyboardInterrupt), arena.piece(b"1234"):
        raise KeyboardInterrupt
    with arena.piece(b"5678") as piece:
        check(piece.cpu_va == region.cpu_va and piece.read() == b"5678")
    region.close()


def test_work_under_a_lock_that_callers_hold_too() -> None:
    """One thread holds the cable and rings; another one's doorbell is in the middle of it."""
    cable, inside, done = threading.RLock(), threading.Event(), []
    jobs = Jobs(cable)

    def doorbell() -> None:
        inside.set()
        with cable:
            done.append(1)

    def holds_the_cable() -> None:
        with cable:
            inside.wait(0.2)  # the other one is at its doorbell, or waits for the cable
            jobs.give(doorbell)

    workers = [threading.Thread(target=holds_the_cable, daemon=True),
               threading.Thread(target=jobs.give, args=(doorbell,), daemon=True)]  # fmt: skip
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    check(len(done) == 2, "each waits for the other")
