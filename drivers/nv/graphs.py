"""Graphs in memory that host and GPU see: methods, QMDs and constant banks, replayed as one entry.

A replay gives the channel two entries of its GPFIFO with one doorbell: the graph's methods, and a
line of the ring that writes the ring's progress once all of them are done.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol

from drivers.base.errors import BadArgument, Unsupported
from drivers.gpu import graph_memory
from drivers.gpu.graph_memory import Copy, GraphMemory, whole_place
from drivers.nv.program import NvProgram
from drivers.nv.rings import NvPair
from queues.nv import bound
from queues.nv.bound import MOST_CHAINED, BoundLaunch, Run
from queues.nv.classes import WORD_BYTES
from queues.nv.contracts import Item
from queues.nv.launch import LINE_BYTES
from queues.nv.words import MAX_SEGMENT_WORDS, Target, gp_entry


class Owner(graph_memory.Owner, Protocol):
    """The device of a graph."""

    pair: NvPair
    target: Target


class NvGraph(GraphMemory[Item]):
    """Steps bound once; arguments are words of constant banks."""

    def __init__(self, device: Owner, items: Sequence[Item]) -> None:
        self._target, self._pair = device.target, device.pair
        launched = [item for item in items if item.program is not None]
        self._launches = {
            id(item): _launch(item, number) for number, item in enumerate(launched, 1)
        }
        self._runs = _runs(items, self._launches)
        self._followed = {
            one.number for run in self._runs if not isinstance(run, list) for one in run[:-1]
        }
        """Launches that schedule the next one, where the chip can."""
        words = bound.methods(self._target, self._runs, [0] * len(self._launches), 0)
        self._nwords = len(words)
        if self._nwords > MAX_SEGMENT_WORDS:
            raise Unsupported(
                f"a graph of {self._nwords} words; one has at most {MAX_SEGMENT_WORDS}",
                hint="record two graphs",
            )
        super().__init__(device, items)

    def head(self) -> int:
        return -(-self._nwords * WORD_BYTES // LINE_BYTES) * LINE_BYTES

    def size(self, item: Item) -> int:
        launch = self._launches.get(id(item))
        return 0 if launch is None else bound.nbytes_of(self._target, launch)

    def arguments_off(self, item: Item) -> int:
        launch = self._launches.get(id(item))
        return 0 if launch is None else bound.argument_off(self._target, launch.kernel)

    def place(self, item: int, number: int) -> tuple[int, int]:
        launch = self._launches.get(id(self._items[item]))
        if launch is None or number >= len(launch.kernel.args):
            raise BadArgument(f"step {item} has no argument {number}")
        offset, nbytes = launch.kernel.args[number]
        return nbytes, whole_place(self.arguments_at(item) + offset, nbytes, number)

    def write(self, copy: Copy) -> None:
        target, step_va = self._target, self._pair.compute.step_va
        starts = [
            (start, self._launches[id(item)])
            for start, item in zip(self._starts, self._items, strict=False)
            if id(item) in self._launches
        ]
        places = [copy.gpu_va + start for start, _ in starts]
        for start, launch in starts:
            made = bound.encode(
                target, launch, va=copy.gpu_va + start, step_va=step_va,
                following=places[launch.number] if launch.number in self._followed else None,
            )  # fmt: skip
            copy.view[start : start + len(made)] = made
        words = bound.methods(target, self._runs, places, step_va)
        struct.pack_into(f"<{len(words)}I", copy.view, 0, *words)
        if self._items:
            copy.packets = gp_entry(copy.gpu_va, len(words))

    def play(self, copy: Copy) -> None:
        entry: Any = copy.packets
        if entry is None:
            self.check_open()
            return
        ring = self._pair.compute
        if ring.stale:
            ring.refresh()
        try:
            ring.play(entry)
        finally:
            copy.last = ring, ring.put


def _launch(item: Item, number: int) -> BoundLaunch:
    """A step that launches. Raises: BadArgument."""
    program = item.program
    if not isinstance(program, NvProgram):
        raise BadArgument(f"{program!r} is not a program")
    launcher = program.for_block(item.block, item.shared_bytes)
    return BoundLaunch(
        kernel=launcher.kernel, block=item.block, grid=item.grid, args=item.values, number=number
    )


def _runs(items: Sequence[Item], launches: dict[int, BoundLaunch]) -> list[Run]:
    """Steps in order, launches that follow each other together."""
    found: list[Run] = []
    for launched, steps in groupby(items, lambda item: id(item) in launches):
        if not launched:
            found += [[*item.words] for item in steps]
            continue
        run = [launches[id(item)] for item in steps]
        parts = range(0, len(run), MOST_CHAINED)
        found += [tuple(run[first : first + MOST_CHAINED]) for first in parts]
    return found
