"""One try: a life of a GPU whose `at`-th access to the bus goes wrong, and the life after it.

A life is open, copy in, launch, copy out, close. What is wrong with a try is said in words:

* an error that is not ours, that gives no next thing to do, or does not name step and register;
* no error although the access is one whose failure has to be noticed (`tests.sweep.silence`);
* a next life that fails, that the board has complaints about, or whose GPU is not given back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from boards.machine.pci.panel import Kind
from boards.machine.pci.world import PciWorld
from drivers.base.errors import DeviceError
from tests.reliability.amd_scene import let_go
from tests.reliability.pci_scene import given_back, life
from tests.sweep import silence
from tests.sweep.places import Place
from tests.sweep.words import accessed, step_of, unnamed

SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a try. `error` is its class, "" when the life went well."""

    at: int
    access: str
    """What was accessed: "write BAR 5 0x50", and its name."""
    error: str
    step: str
    problem: str
    """What is wrong, "" when nothing is."""


class Tries:
    """Tries on one machine, one after the other; a new machine after a problem, or a GPU lost."""

    def __init__(self, place: Place, closing: int) -> None:
        self.place, self.closing = place, closing
        """`closing`: the last access before a life begins to close."""
        self._board: PciWorld | None = None

    def run(self, kind: Kind, at: int) -> Outcome:
        """One try."""
        board = self._board = self._board or self.place.board()
        resets = board.gpus[0].function_resets
        error, problem = _broken(board, kind, at)
        broke = board.panel.broke[-1] if board.panel.broke else ""
        if board.panel.pending or not broke:
            problem = problem or f"the life has no access {at}"
        board.panel.heal()
        if not problem and isinstance(error, DeviceError):
            problem = _badly_reported(board, kind, broke, error)
        elif not problem and kind is not Kind.GONE:
            reset = self.place.grade == "none" and board.gpus[0].function_resets > resets
            # behind an IOMMU every life begins with VFIO's reset: there it says nothing
            why = silence.must_be_noticed(
                board, kind, broke, closing=at > self.closing, reset=reset
            )
            problem = f"unnoticed: {why}" if why else ""
        if kind is Kind.GONE:
            problem = problem or ("" if error else "nobody noticed that the GPU is gone")
            board.kill()
        else:
            problem = problem or _next(board)
        if problem or kind is Kind.GONE:
            self._board = None
        name = "/".join(accessed(board, broke)[:1]) if broke else ""
        step = step_of(error.message) if isinstance(error, DeviceError) else ""
        shown = f"{problem} [{error!r}]"[:SHOWN] if problem else ""
        return Outcome(at, f"{broke} {name}", type(error).__name__ if error else "", step, shown)


def _broken(board: PciWorld, kind: Kind, at: int) -> tuple[BaseException | None, str]:
    """The life that goes wrong: its error, and what is wrong with that."""
    board.panel.broke.clear()
    board.panel.fail(kind, at=at)
    try:
        life(board)
    except DeviceError as error:
        let_go(error)
        return error, ""
    except Exception as error:  # whatever comes is the sweep's to report
        let_go(error)
        return error, "an error that is not ours"
    return None, ""


def _badly_reported(board: PciWorld, kind: Kind, broke: str, error: DeviceError) -> str:
    missing = unnamed(board, kind, broke, error)
    if missing:
        return f"the error names {missing}"
    return "" if error.hint or error.__cause__ is not None else "the error has no next thing to do"


def _next(board: PciWorld) -> str:
    """The life after it: what is wrong with it."""
    board.hardware.forget_violations()
    try:
        life(board)
        given_back(board)
    except (Exception, AssertionError) as error:
        let_go(error)
        return f"the next life: {error!r}"
    return f"the next life: the board complains {board.violations}" if board.violations else ""
