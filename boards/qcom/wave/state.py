"""The registers of all waves of a chunk of workgroups, and which lanes an instruction works on.

A row of a register file is (waves, lanes). A shared register is a column of it: (waves, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.dispatch import NO_REGISTER, Dispatch, Memory
from boards.qcom.wave.races import Races
from boards.qcom.wave.shared import PrivateMemory, SharedMemory, step_of

FULL: Final = 192
"""r0.x ... r47.w."""
SHARED: Final = 192
"""r48.x, the first that all lanes of a wave share."""
SHARED_COUNT: Final = 32
A0, A1, P0 = 244, 245, 248
SLOTS_SHARED: Final = 2 * FULL
SLOTS_SPECIAL: Final = SLOTS_SHARED + 2 * SHARED_COUNT
SLOTS: Final = SLOTS_SPECIAL + 8
"""A slot is a half register; a full one has two. Those of a0, a1 and p0 are at the end."""


def slots_of(number: int, *, half: bool) -> tuple[int, ...]:
    """The slots of a register, by its number as encoded. Raises: NotModelled."""
    if number >= A0:
        return (SLOTS_SPECIAL + number - A0,) if number < NO_REGISTER else ()
    if number < 0 or number >= SHARED + SHARED_COUNT:
        raise NotModelled(f"register {number}, which is none")
    first = SLOTS_SHARED if number >= SHARED else 0
    at = number - (SHARED if number >= SHARED else 0)
    return (first + at,) if half else (first + 2 * at, first + 2 * at + 1)


def name_of(slot: int) -> str:
    """A slot as a register's name."""
    if slot >= SLOTS_SPECIAL:
        number = slot - SLOTS_SPECIAL + A0
        return {A0: "a0.x", A1: "a1.x"}.get(number, f"p0.{'xyzw'[number & 3]}")
    at = slot >> 1
    row = at if at < FULL else at - FULL + SHARED
    return f"r{row >> 2}.{'xyzw'[row & 3]}"


class Waves:
    """Registers, predicates, constants and the selection of lanes."""

    def __init__(
        self, dispatch: Dispatch, memory: Memory, first_group: int, groups: int,
        report: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        d = dispatch
        self.memory, self.report = memory, report
        """`report` names a violation of the instruction that runs, and its detail."""
        threads = d.block[0] * d.block[1] * d.block[2]
        self.per_group = -(-threads // d.wave_lanes)
        self.count, self.lanes = groups * self.per_group, d.wave_lanes
        self.groups, self.first_wave = groups, first_group * self.per_group
        self.dispatch = d
        shape = (self.count, self.lanes)
        self.u = np.zeros((FULL, *shape), np.uint32)
        self.f, self.s = self.u.view(np.float32), self.u.view(np.int32)
        self.hu = self.u.view(np.uint16).reshape(FULL, *shape, 2)
        self.hf, self.hs = self.hu.view(np.float16), self.hu.view(np.int16)
        self.flushed = bytearray(FULL)
        """Rows that hold no subnormal float32, as far as is known."""
        self.shared = np.zeros((SHARED_COUNT, self.count, 1), np.uint32)
        self.a0 = np.zeros(shape, np.int32)
        self.a1 = np.zeros(shape, np.uint32)
        self.p = np.zeros((4, *shape), np.bool_)
        self.constants, self.loaded = d.constants, d.loaded
        self.local = np.arange(threads)
        within = np.zeros(self.per_group * self.lanes, np.bool_)
        within[:threads] = True
        self.alive = np.tile(within.reshape(self.per_group, self.lanes), (groups, 1))
        self.everyone = self.alive.copy()
        self.full_house = bool(self.alive.all())
        self.mask: Array | None = None
        """The lanes of the instruction; None: every lane there is."""
        self.whole = True
        """Whether those are all that the chunk began with."""
        self.defined: list[Array | bool] = [False] * SLOTS
        self.selection = 0
        """Counts selections of lanes."""
        self.valued = [-1] * SLOTS
        """By slot: a selection of which every lane has a value."""
        self.races = Races(groups, groups * step_of(d.shared_bytes), self.per_group)
        self.local_memory = SharedMemory(groups, d.shared_bytes, self.races)
        self.private = PrivateMemory(self.count * self.lanes, d.private_bytes)
        self._begin(first_group, within)

    def _begin(self, first_group: int, within: Array) -> None:
        d = self.dispatch
        bx, by, _ = d.block
        thread = np.tile(np.arange(within.size) % max(1, self.local.size), self.groups)
        thread = thread.reshape(self.count, self.lanes)
        local = (thread % bx, thread // bx % by, thread // (bx * by))
        group = first_group + np.repeat(np.arange(self.groups), self.per_group)[:, None]
        gx, gy, _ = d.groups
        ids = (group % gx, group // gx % gy, group // (gx * gy))
        for part in range(3):
            if d.local_id_reg < SHARED:
                self._preload(d.local_id_reg + part, local[part])
            if d.group_id_reg != NO_REGISTER:
                self._preload(d.group_id_reg + part, ids[part] + d.first_group[part])

    def _preload(self, number: int, value: Array) -> None:
        if number >= SHARED:
            self.shared[number - SHARED] = value
        else:
            self.u[number] = value
        for slot in slots_of(number, half=False):
            self.defined[slot] = True

    def select(self, mask: Array | None) -> None:
        """Works on these lanes; None: on all of those that the chunk began with."""
        self.whole = mask is None
        self.selection += 1
        self.mask = (None if self.full_house else self.everyone) if mask is None else mask

    def chosen(self) -> Array:
        """The lanes of the instruction, as a mask."""
        return self.everyone if self.mask is None else self.mask

    def wave_mask(self) -> Array:
        """The waves with a lane in the instruction, shape (waves, 1)."""
        return np.asarray(self.chosen().any(axis=1, keepdims=True))

    def first_lane(self) -> Array:
        """The first lane of each wave's in the instruction, shape (waves, 1)."""
        answer: Array = np.argmax(self.chosen(), axis=1)[:, None]
        return answer

    def define(self, slots: tuple[int, ...]) -> None:
        """The chosen lanes have written these."""
        defined, valued = self.defined, self.valued
        for slot in slots:
            before = defined[slot]
            if before is True or valued[slot] == self.selection:
                continue
            valued[slot] = self.selection
            if self.whole:
                defined[slot] = True
                continue
            marks = self._marks(slot)
            if isinstance(before, np.ndarray):
                np.logical_or(marks, before, out=marks)
            defined[slot] = marks

    def _marks(self, slot: int) -> Array:
        if SLOTS_SHARED <= slot < SLOTS_SPECIAL:
            return np.repeat(self.wave_mask(), self.lanes, axis=1)
        return self.chosen().copy()

    def missing(self, slots: tuple[int, ...]) -> Array:
        """The lanes, chosen or not, in which one of these has no value."""
        answer = np.zeros((self.count, self.lanes), np.bool_)
        for slot in slots:
            have = self.defined[slot]
            if have is False:
                answer[...] = True
            elif isinstance(have, np.ndarray):
                answer |= ~have
        return answer

    def undefine(self, slots: tuple[int, ...], lanes: Array) -> None:
        """The chosen ones of these lanes have been given what has no value."""
        gone = lanes & self.chosen()
        if not gone.any():
            return
        for slot in slots:
            have = self.defined[slot]
            self.valued[slot] = -1
            if have is True:
                self.defined[slot] = ~gone
            elif isinstance(have, np.ndarray):
                self.defined[slot] = have & ~gone

    def undefined(self, slot: int) -> Array | None:
        """The chosen lanes that read this without a value; None: there are none."""
        have = self.defined[slot]
        if have is not True and self.valued[slot] != self.selection:
            missing = self.chosen() if have is False else self.chosen() & ~have
            if missing.any():
                return missing
        self.valued[slot] = self.selection
        return None
