"""The programs of a device: loading, prepared launches, names of what ran at an address."""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from math import prod
from typing import Final

from drivers.base.contracts import Binary
from drivers.base.errors import BadArgument
from drivers.base.undo import Step
from drivers.qcom.private_memory import PrivateMemory
from drivers.qcom.program import Owner, QcomProgram, load
from drivers.qcom.rings import QcomPair
from queues.qcom.chips import Chip
from queues.qcom.contracts import Item
from queues.qcom.launch import Block, ImageLauncher, Kernel, Launcher

DROPPED: Final = 64
"""Programs that are closed or gone and still named: a user may drop one while it runs."""


def is_long(item: Item) -> bool:
    """Whether a step is a launch in pieces."""
    program = item.program
    if not isinstance(program, QcomProgram):
        return False
    return prod(item.grid) > program.for_block(item.block).most_groups


def bad_count(program: QcomProgram, count: int) -> BadArgument:
    """The error for too many or too few arguments."""
    return BadArgument(
        f"{program!r} takes {program.count} arguments, not {count}", hint="pass them all"
    )


class Programs:
    """Programs for the compute queue of `pair`."""

    def __init__(self, chip: Chip, pair: QcomPair, private: PrivateMemory, budget_s: float) -> None:
        """`budget_s`: how long one launch may take."""
        self._chip, self._pair, self._private = chip, pair, private
        self._budget_s = budget_s
        self._all: weakref.WeakSet[QcomProgram] = weakref.WeakSet()
        self._dropped: deque[tuple[str, range]] = deque(maxlen=DROPPED)

    def load(self, device: Owner, binary: Binary) -> QcomProgram:
        """Copy a kernel to memory. Raises: Unsupported, MalformedInput, OutOfMemory."""
        program = load(device, binary, self._chip, self._private.at_least, self.prepare)
        self._all.add(program)
        program.forgotten = partial(self._dropped.appendleft, (program.name, program.code))
        return program

    def prepare(self, kernel: Kernel, block: Block) -> Launcher:
        """A launch of `kernel` that only needs its arguments."""
        made = ImageLauncher if kernel.code.textures else Launcher
        return made(self._chip, kernel, block, self._pair.compute.progress_va, self._budget_s)

    def names(self, code_va: int) -> list[str]:
        """Programs whose code is at the address; the last that is gone, where none is there."""
        found = [one.name for one in list(self._all) if one.alive and code_va in one.code]
        gone = [name for name, code in self._dropped.copy() if code_va in code]
        return found or gone[:1]

    @property
    def closers(self) -> list[Step]:
        """What closes every program."""
        return [program.close for program in list(self._all) if program.alive]
