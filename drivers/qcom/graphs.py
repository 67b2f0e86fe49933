"""Graphs in memory that host and GPU see: all packets of a recording, replayed as one buffer.

A replay submits the graph's packets and a line of the ring that writes the ring's progress once all
of them are done. Arguments are words of the packets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

from drivers.base.errors import BadArgument, Unsupported
from drivers.gpu import graph_memory
from drivers.gpu.graph_memory import Copy, GraphMemory, whole_place
from drivers.qcom.iface import QcomIface
from drivers.qcom.program import QcomProgram
from drivers.qcom.rings import QcomPair
from queues.qcom import words as qcom_words
from queues.qcom.bound import BoundLaunch
from queues.qcom.chips import Chip
from queues.qcom.contracts import Item
from queues.qcom.pieces import budget_slots
from queues.qcom.pm4 import WORD_BYTES
from queues.qcom.textures import check_bases
from queues.qcom.words import Sync, syncs_of, waits

MOST_BYTES = (1 << 20) - 1 << 2
"""Of one recording: an indirect buffer counts words with 20 bits. KGSL refuses more (EINVAL); msm
writes what fits into the packet's field: of 1 << 20 words, none.
# src: msm-4.9 to 6.x, adreno_dispatch.c _verify_ib(); Linux 6.12, a6xx_gpu.c a6xx_submit()"""
_ALIGN_WORDS = 2
"""Steps begin at whole 64-bit words, where arguments do."""


class Part(NamedTuple):
    """One submission of a replay."""

    va: int
    nbytes: int
    syncs: tuple[Sync, ...]


class Owner(graph_memory.Owner, Protocol):
    """The device of a graph."""

    pair: QcomPair
    chip: Chip
    iface: QcomIface


class QcomGraph(GraphMemory[Item]):
    """Steps bound once."""

    def __init__(self, device: Owner, items: Sequence[Item]) -> None:
        self._chip, self._pair = device.chip, device.pair
        self._budget = budget_slots(device.chip, device.iface.budget_s)
        launched = [item for item in items if item.program is not None]
        self._launches = {
            id(item): _launch(device, item, number) for number, item in enumerate(launched, 1)
        }
        steps = [(number, self._launches.get(id(item))) for number, item in enumerate(items)]
        self._images = [(at, one) for at, one in steps if one and one.kernel.code.textures]
        """Launches that read operands as images, by their steps."""
        super().__init__(device, items)
        if self.nbytes > MOST_BYTES:
            raise Unsupported(
                f"a graph of {self.nbytes} bytes; one has at most {MOST_BYTES}",
                hint="record two graphs",
            )

    def _words(self, item: Item) -> Sequence[int]:
        launch = self._launches.get(id(item))
        words = [*item.words] if launch is None else launch.words(self._pair.compute.step_va)
        return words + qcom_words.padding(-len(words) % _ALIGN_WORDS)

    def _slots(self, item: Item) -> int:
        """What a launch does, by the compiler's count."""
        launch = self._launches.get(id(item))
        if launch is None:
            return 0
        return launch.kernel.code.lane_slots * prod(launch.grid) * prod(launch.block)

    def size(self, item: Item) -> int:
        return len(self._words(item)) * WORD_BYTES

    def arguments_off(self, item: Item) -> int:
        launch = self._launches.get(id(item))
        return 0 if launch is None else launch.arguments_off

    def place(self, item: int, number: int) -> tuple[int, int]:
        launch = self._launches.get(id(self._items[item]))
        if launch is None or number >= len(launch.kernel.args):
            raise BadArgument(f"step {item} has no argument {number}")
        nbytes = launch.kernel.args[number][1]
        at = self._starts[item] + launch.argument_places[number]
        return nbytes, whole_place(at, nbytes, number)

    def prepare(self, given: list[int], patch: Callable[[Any, list[int]], None]) -> Copy | None:
        if not self._images:
            return super().prepare(given, patch)

        def checked(copy: Copy, words: list[int]) -> None:
            patch(copy, words)
            try:
                self._check_images(copy)
            except BadArgument:
                copy.given = []
                raise

        return super().prepare(given, checked)

    def _check_images(self, copy: Copy) -> None:
        """Raises: BadArgument for an address that no descriptor holds."""
        for item, launch in self._images:
            found = [self.place(item, number) for number in range(len(launch.kernel.args))]
            words = [copy.words[nbytes][at] for nbytes, at in found]
            check_bases(launch.kernel.name, launch.kernel.code.textures, words)

    def write(self, copy: Copy) -> None:
        """Its packets, cut before each wait, and where they take long: parts are submissions."""
        words: list[int] = []
        parts: list[Part] = []
        spent = 0
        for item in self._items:
            made, syncs, slots = self._words(item), syncs_of(item.words), self._slots(item)
            spent += slots
            if not parts or waits(item.words) or (slots and spent > self._budget):
                spent = slots
                parts.append(Part(copy.gpu_va + len(words) * WORD_BYTES, 0, ()))
            va, nbytes, before = parts[-1]
            parts[-1] = Part(va, nbytes + len(made) * WORD_BYTES, before + syncs)
            words += made
        struct.pack_into(f"<{len(words)}I", copy.view, 0, *words)
        if words:
            copy.packets = parts

    def play(self, copy: Copy) -> None:
        parts: list[Part] | None = copy.packets
        if parts is None:
            self.check_open()
            return
        ring = self._pair.compute
        if ring.stale:
            ring.refresh()
        try:
            for part in parts:
                ring.play(copy.bo, *part)
        finally:
            copy.last = ring, ring.put


def _launch(device: Owner, item: Item, number: int) -> BoundLaunch:
    """A step that launches. Raises: BadArgument."""
    program = item.program
    if not isinstance(program, QcomProgram):
        raise BadArgument(f"{program!r} is not a program")
    return BoundLaunch(
        chip=device.chip, kernel=program.kernel, block=item.block, grid=item.grid,
        args=item.values, number=number,
    )  # fmt: skip
