"""Ctrl-C held back for a block, and lists of steps that are not cut short."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from drivers.base import interrupts
from drivers.base.interrupts import deferred
from drivers.base.undo import Undo, run_all, whole
from tests.support import check


def interrupt() -> None:
    """Ctrl-C; its handler runs before this returns."""
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def same_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    after = signal.signal(signal.SIGINT, before)
    check(after is signal.default_int_handler, f"{after} was left")


def test_it_comes_behind_the_outermost_block() -> None:
    done: list[int] = []

    def run() -> None:
        with deferred():
            with deferred():
                interrupt()
                done.append(1)
            done.append(2)
        done.append(3)

    with pytest.raises(KeyboardInterrupt):
        run()
    check(done == [1, 2], f"{done}")
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_it_comes_where_it_may() -> None:
    done: list[int] = []

    def run() -> None:
        with deferred():
            interrupts.check()
            interrupt()
            done.append(1)
            interrupts.check()
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        run()
    check(done == [1], f"{done}")
    with deferred():
        interrupts.check()


def test_an_error_of_the_block_stays_its_context() -> None:
    def run() -> None:
        with deferred():
            interrupt()
            raise ValueError("both")

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    check(isinstance(caught.value.__context__, ValueError))


@pytest.mark.parametrize("own", ["handler", "ignored"])
def test_handlers_of_the_program(own: str) -> None:
    heard: list[int] = []
    mine = signal.SIG_IGN if own == "ignored" else lambda number, frame: heard.append(number)
    before = signal.signal(signal.SIGINT, mine)
    try:
        with deferred():
            interrupt()
            check(not heard, "held")
        check(heard == ([] if own == "ignored" else [signal.SIGINT]), f"{heard}")
        check(signal.getsignal(signal.SIGINT) == mine, "it is there again")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_the_block_installs_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with deferred():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        check(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("line", ["self.depth += 1", "self.end()"])
def test_an_error_of_another_handler_leaves_no_deaf_program(line: str) -> None:
    """A timer's handler that raises where the handlers are being exchanged."""
    text = inspect.getsource(interrupts).splitlines()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        at = text[frame.f_lineno - 1] if frame.f_globals is vars(interrupts) else ""
        if event == "line" and at.strip() == line:
            sys.settrace(None)
            raise TimeoutError(at)
        return trace

    def run() -> None:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with deferred():
                pass
        finally:
            sys.settrace(before)

    with pytest.raises(TimeoutError):
        run()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_other_threads_hold_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def run() -> None:
        with deferred():
            seen.append(signal.getsignal(signal.SIGINT))
        interrupts.check()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    check(seen == [before], f"{seen}")


@pytest.mark.parametrize("forker", ["the same", "another"])
def test_a_child_hears_it_again(forker: str) -> None:
    """One that another thread forked inside a block; one of the same thread leaves the block."""
    status: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            os._exit(heard)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with deferred():
        if forker == "another":
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
        else:
            fork()
    check(status == [forker == "another"], f"{status}")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
def test_every_step_runs(kind: type[BaseException]) -> None:
    done: list[int] = []

    def fails() -> None:
        done.append(1)
        raise kind("first")

    def later() -> None:
        done.append(2)
        raise OSError("second")

    with pytest.raises(kind) as caught:
        run_all([fails, later, lambda: done.append(3)])
    check(done == [1, 2, 3] and caught.value.__notes__ == ["and then: second"], f"{done}")
    with pytest.raises(kind):
        run_all([fails, lambda: done.append(4)])
    if not issubclass(kind, Exception):
        with pytest.raises(kind) as caught:
            run_all([later, fails])
        check(caught.value.__notes__ == ["and then: second"], "it is not taken for an error")


def failing(done: list[int]) -> None:
    """A block that fails, and Ctrl-C while it is undone."""
    with Undo() as undo:
        undo.add(lambda: done.append(2))
        undo.add(interrupt)
        raise ValueError("the block failed")


def test_an_interrupt_waits_for_the_last_step() -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run_all([interrupt, lambda: done.append(1)])
    with pytest.raises(KeyboardInterrupt) as caught:
        failing(done)
    check(done == [1, 2] and isinstance(caught.value.__context__, ValueError), f"{done}")


def test_what_is_opened_meanwhile_is_closed() -> None:
    closed: list[str] = []

    def make() -> str:
        interrupt()
        return "device"

    with pytest.raises(KeyboardInterrupt):
        whole(make, closed.append)
    check(closed == ["device"] and whole(lambda: "other", closed.append) == "other")
    check(closed == ["device"], f"{closed}")
