"""Caches that lose their oldest entry while other threads change them.

A thread that changes the cache is stood for by a trace function: it does so in front of every
instruction of `make_room` in turn, wherever CPython might switch threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tensor.engine import make_room
from tests.support import check

MOST = 8


def interrupted(kept: dict[int, str], change: Callable[[dict[int, str]], None], at: int) -> bool:
    """make_room with `change` in front of instruction `at`; whether there is one."""
    seen = 0

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not make_room.__code__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        if event == "opcode":
            seen += 1
            if seen == at:
                change(kept)
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        make_room(kept, MOST)
    finally:
        sys.settrace(before)
    return seen >= at


def adds(kept: dict[int, str]) -> None:
    kept[100] = "another"


def drops_the_oldest(kept: dict[int, str]) -> None:
    kept.pop(0, None)


def drops_all(kept: dict[int, str]) -> None:
    kept.clear()


@pytest.mark.parametrize("change", [adds, drops_the_oldest, drops_all], ids=lambda f: f.__name__)
def test_another_thread_changes_the_cache(change: Callable[[dict[int, str]], None]) -> None:
    interrupted({}, change, 0)  # Python 3.13 traces instructions from the second call on
    for at in range(1, 1000):
        kept = dict.fromkeys(range(MOST), "executable")
        if not interrupted(kept, change, at):
            break
        check(len(kept) <= MOST, f"{kept} after instruction {at}")
    check(10 < at < 999, f"{at} instructions")


def test_the_oldest_go_first() -> None:
    kept = dict.fromkeys(range(MOST), "executable")
    make_room(kept, MOST)
    check(list(kept) == list(range(1, MOST)))
    make_room(kept, MOST)
    check(list(kept) == list(range(1, MOST)), "there was room")
    make_room(kept, 3)
    check(list(kept) == [MOST - 2, MOST - 1])
