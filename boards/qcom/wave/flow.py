"""Where lanes go: branches, the parking of lanes that parted, their meeting at (jp), barriers.

The lanes at the lowest address run; others are parked at theirs until the running ones get there.
So the hardware does it: a branch parks those that go further, a jump over a parking place parks
who jumps. # src: Mesa 25.0.7, src/freedreno/ir3/ir3_reconvergence.c
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.hazards import Hazards, State
from boards.qcom.wave.state import P0, Waves, slots_of

_TAKES_ONE = ("br", "bany", "ball", "kill")


@dataclass(slots=True)
class Parked:
    """Lanes at one place."""

    lanes: Array
    state: State


class Places:
    """Where the lanes are that do not run, by the index of the instruction that comes next."""

    def __init__(self, hazards: Hazards) -> None:
        self._hazards = hazards
        self.ready: dict[int, Parked] = {}
        self.waiting: dict[int, Parked] = {}
        """At a barrier."""

    def park(self, index: int, lanes: Array, state: State, *, waits: bool = False) -> None:
        """Lanes stop before this instruction."""
        places = self.waiting if waits else self.ready
        here = places.get(index)
        if here is None:
            places[index] = Parked(lanes, state)
        else:
            merged = self._hazards.merge(here.state, state)
            places[index] = Parked(here.lanes | lanes, merged)

    def lowest(self) -> int:
        """The place of the lanes that run next; none: far away."""
        return min(self.ready, default=1 << 62)

    def most_parked(self, running: Array | None) -> int:
        """The largest number of places that one wave's lanes are parked at."""
        if not self.ready:
            return 0
        counts = sum(here.lanes.any(axis=1).astype(int) for here in self.ready.values())
        return int(np.max(counts))


def condition(inst: Instruction, w: Waves) -> Array:
    """The lanes of which a branch's condition holds."""
    first = w.p[bits(inst.word, 53, 54)] ^ bool(bits(inst.word, 52, 52))
    if inst.op in _TAKES_ONE:
        return np.asarray(first)
    if inst.op not in ("brao", "braa"):
        raise NotModelled("no meaning in this executor")
    second = w.p[bits(inst.word, 46, 47)] ^ bool(bits(inst.word, 45, 45))
    _check_decided(inst, w, np.asarray(first), np.asarray(second))
    return np.asarray(first | second if inst.op == "brao" else first & second)


def _check_decided(inst: Instruction, w: Waves, first: Array, second: Array) -> None:
    """A predicate without a value is reported where the other one does not decide."""
    slots = [slots_of(P0 + bits(inst.word, at, at + 1), half=False) for at in (53, 46)]
    one, other = (w.missing(found) for found in slots)
    wanted = inst.op == "brao"
    decided = (~one & (first == wanted)) | (~other & (second == wanted))
    if (w.chosen() & (one | other) & ~decided).any():
        w.report("uninitialised register", "p0")


def _any(w: Waves, inst: Instruction) -> Array:
    lanes = w.chosen()
    return lanes & (condition(inst, w) & lanes).any(axis=1, keepdims=True)


def _all(w: Waves, inst: Instruction) -> Array:
    lanes = w.chosen()
    return lanes & (condition(inst, w) | ~lanes).all(axis=1, keepdims=True)


def _but_one(w: Waves, inst: Instruction) -> Array:
    """getone: every lane but the first of its wave jumps."""
    stays = np.zeros((w.count, w.lanes), np.bool_)
    np.put_along_axis(stays, w.first_lane(), values=True, axis=1)
    answer: Array = w.chosen() & ~stays
    return answer


def _but_last_of_eight(w: Waves, inst: Instruction) -> Array:
    """getlast: of the first eight lanes with one chosen, all but the last jump."""
    lanes = w.chosen()
    clusters = lanes.reshape(w.count, -1, 8)
    first = np.argmax(clusters.any(axis=2), axis=1)
    inside = np.zeros_like(clusters)
    rows = np.arange(w.count)
    mine = clusters[rows, first]
    last = 7 - np.argmax(mine[:, ::-1], axis=1)
    inside[rows, first] = mine
    stays = np.zeros_like(lanes)
    stays[rows, first * 8 + last] = True
    return inside.reshape(lanes.shape) & ~stays


TAKEN: dict[str, Callable[[Waves, Instruction], Array]] = {
    "jump": lambda w, inst: w.chosen(),
    "br": lambda w, inst: w.chosen() & condition(inst, w),
    "brao": lambda w, inst: w.chosen() & condition(inst, w),
    "braa": lambda w, inst: w.chosen() & condition(inst, w),
    "bany": _any,
    "ball": _all,
    "getone": _but_one,
    "getlast": _but_last_of_eight,
}
"""By branch: the chosen lanes that go to its target."""


def preamble(w: Waves, *, done: bool) -> Array:
    """shps: the lanes that skip the preamble: all but those of one wave."""
    lanes = w.chosen().copy()
    if not done:
        lanes[np.argmax(lanes.any(axis=1))] = False
    return lanes
