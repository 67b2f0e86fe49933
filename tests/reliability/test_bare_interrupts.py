"""Ctrl-C at a random line of a bare GPU's life: open, copy, launch, copy back, close.

A real SIGINT each time, raised in front of a line of the driver, as a user's Ctrl-C could fall.
The GPU must be given back by what runs anyway, or by a second close, or by opening it again. An
interrupted allocation may leave a mapping of the host's memory behind, until the process ends.
`UNBOUND_INTERRUPTS=1000` runs more than the share of each run; `UNBOUND_SEED` repeats a run.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import drivers
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.base.errors import DeviceError
from drivers.claim.record import lock_name
from drivers.gpu.iface import Use
from tests.boards.driver_harness import open_over_pci
from tests.reliability.pci_scene import GPU, driver_of, given_back, life, machine, work
from tests.share import part
from tests.support import check

COUNT = int(os.environ.get("UNBOUND_INTERRUPTS", part(40, 12)))
SEED = int(os.environ.get("UNBOUND_SEED", str(time.time_ns() % 1_000_000)))
PRODUCT = str(Path(drivers.__file__).parent)
BEGINNING, END = 3000, 4000
"""Lines from the start, and to the end, in which a third of the interrupts fall each."""


@pytest.fixture(autouse=True)
def as_python_starts() -> Iterator[None]:
    """Python's own handler of SIGINT, which a runner of tests may have replaced."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Lines:
    """Counts the lines of the product; in front of number `at` the process gets SIGINT.

    `finaliser`: whether that was inside a `__del__`.
    """

    def __init__(self, at: int) -> None:
        self.at, self.count, self.where, self.finaliser = at, 0, "", False

    def frame(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(PRODUCT):
            return None
        return self.line(frame, event, argument)

    def line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event in ("call", "line"):
            self.count += 1
            if self.count == self.at:
                name = frame.f_code.co_filename.removeprefix(PRODUCT)
                self.where = f"{name}:{frame.f_lineno} {frame.f_code.co_name}"
                self.finaliser = "__del__" in {one.f_code.co_name for one in _callers(frame)}
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self.line


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame and those that called it."""
    while frame is not None:  # bounded: as deep as the stack
        yield frame
        frame = frame.f_back


@contextmanager
def interrupted(lines: Lines) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(lines.frame)
    try:
        yield
    finally:
        sys.settrace(before)


def lived(board: PciWorld, kept: list[AmdDevice]) -> None:
    """A user's program, as it should be written."""
    device = open_over_pci(board)
    kept.append(device)
    try:
        work(device)
    finally:
        device.close()


def is_back(board: PciWorld) -> bool:
    """The kernel driver has the GPU, no record is left, and the lock is free."""
    try:
        board.state.lock(lock_name(GPU)).release()
    except OSError:
        return False
    records = [name for name in board.state.names() if name.endswith(".claim")]
    return driver_of(board) == "amdgpu" and not records


def outcome(board: PciWorld, kept: list[AmdDevice]) -> str:
    """How the GPU came back after an interrupt."""
    gc.collect()
    if is_back(board):
        return "given back"
    for device in kept:
        device.close()
    if kept and is_back(board):
        return "by a second close"
    kept.clear()
    life(board)
    return "by opening again" if is_back(board) else "lost"


def total_lines(iommu: bool) -> int:
    """How many lines a life has once modules are imported and kernels compiled."""
    lived(machine("gfx1100", iommu=iommu), [])
    lines = Lines(0)
    with interrupted(lines):
        lived(machine("gfx1100", iommu=iommu), [])
    return lines.count


def one(iommu: bool, at: int) -> tuple[str, str]:
    """What became of the GPU, and where the interrupt fell; "" where life was shorter."""
    board, kept = machine("gfx1100", iommu=iommu), []  # type: tuple[PciWorld, list[AmdDevice]]
    before, delivered, lines = signal.getsignal(signal.SIGINT), False, Lines(at)
    try:
        with interrupted(lines):
            lived(board, kept)
    except KeyboardInterrupt:
        delivered = True
    except DeviceError:  # of the close, which may be repeated
        delivered = True
    check(signal.getsignal(signal.SIGINT) is before, "the handler is the user's again")
    if not delivered:
        if lines.finaliser and is_back(board):  # Python prints what a finaliser raises, and goes on
            return "ignored in a finaliser", lines.where
        return "swallowed" if lines.where else "", lines.where
    try:
        result = outcome(board, kept)
        left = {name for name, count in board.baseline().items() if count}
        check(left <= {"mappings"}, f"{at}: {lines.where}: left {left}")
        return result + (", a mapping left" if left else ""), lines.where
    except DeviceError as error:
        return f"lost: {error}", lines.where


def test_interrupts_at_random_lines() -> None:
    rnd, found, bad = random.Random(SEED), Counter[str](), []
    totals = [total_lines(False), total_lines(True)]
    for turn in range(2 * COUNT):
        total = totals[turn % 2]
        at = rnd.choice(
            [rnd.randrange(total), rnd.randrange(BEGINNING), total - rnd.randrange(END)]
        )
        result, where = one(bool(turn % 2), at + 1)
        found[result.partition(":")[0]] += 1
        if result.startswith(("lost", "swallowed")):
            bad.append(f"{at}: {where}: {result}")
        elif result.startswith("by"):
            print(f"{at}: {where}: {result}")
        if found.total() - found[""] == COUNT:
            break
    print(f"UNBOUND_SEED={SEED}, {totals} lines without and with an IOMMU: {dict(found)}")
    check(not bad, f"UNBOUND_SEED={SEED}: {found} {bad}")
    check(found["given back"] > COUNT // part(2, 4), f"UNBOUND_SEED={SEED}: {found}")


def at_call(name: str, run: Callable[[], object]) -> bool:
    """SIGINT where the first call of a function of the product begins; whether it came."""

    def frame(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_qualname == name and code.co_filename.startswith(PRODUCT):
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)

    before = sys.gettrace()
    sys.settrace(frame)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_what_an_interrupted_allocation_made_is_not_kept() -> None:
    """A view of a BAR in a frame of the interrupt would keep the device open while it is closed."""
    board = machine("gfx1100")
    device = open_over_pci(board)

    def use() -> None:
        try:
            device.iface.allocate(4096, Use.CODE, "code", host=True)
        finally:
            device.close()

    check(at_call("AddressSpace.take", use), "it was interrupted")
    given_back(board)


@pytest.mark.parametrize(
    "name",
    [
        "AmdDevice.__enter__", "AmdDevice.__exit__", "AmdDevice.close", "Claim.close",
        "PciSession.close", "PciIface.__init__", "Claim.__init__", "Deferred.__enter__",
        "Deferred.__exit__", "Undo.__exit__", "restore", "whole", "set_command", "leave",
    ],
)  # fmt: skip
def test_interrupts_where_a_function_begins(name: str) -> None:
    """Before its first instruction, where no handler of ours can be in place."""
    board = machine("gfx1100")
    check(at_call(name, lambda: life(board)), "it was interrupted")
    check(outcome(board, []) != "lost", f"{driver_of(board)} has it")


def test_what_was_lost_comes_back_at_the_next_opening() -> None:
    """A device that nothing refers to, and that nobody closed."""
    board = machine("gfx1100")
    work(open_over_pci(board))
    check(driver_of(board) == "vfio-pci", "it is taken")
    life(board)
    given_back(board)


def test_a_second_close_gives_back_what_the_first_could_not() -> None:
    board = machine("gfx1100")
    device = open_over_pci(board)
    bind = "/sys/bus/pci/drivers/amdgpu/bind"
    tree = board.machine.tree
    node = tree.find(bind)
    tree.remove(bind)
    with pytest.raises(DeviceError, match="bind it to amdgpu"):
        device.close()
    check(driver_of(board) == "", "no driver has it")
    tree.place(bind, node)
    device.close()
    given_back(board)
    device.close()
