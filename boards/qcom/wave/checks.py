"""Values that nobody wrote: registers, constants; and what relative operands reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.bind import Bound
from boards.qcom.wave.hazards import Wants
from boards.qcom.wave.state import FULL, Waves, name_of, slots_of

_UNWRITTEN = "uninitialised register"
Reach = Callable[[Waves], tuple[Array, bool]]


def check_values(w: Waves, bound: Bound) -> None:
    """Reports what is read and has no value."""
    valued, selection = w.valued, w.selection
    for slot in bound.reads:
        if valued[slot] != selection and w.undefined(slot) is not None:
            w.report(_UNWRITTEN, name_of(slot))
    if bound.constants:
        _check_constants(w, bound.constants)
    for reach in bound.moving:
        _check_moving(w, reach)


def _check_constants(w: Waves, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        name = f"c{number >> 2}.{'xyzw'[number & 3]}"
        if number >= len(w.constants):
            w.report("constant beyond constlen", f"{name} of {len(w.constants) // 4} vec4")
        elif not w.loaded[number]:
            w.report("constant that was not loaded", name)


def _slots(w: Waves, reach: Reach) -> tuple[list[tuple[int, ...]], bool]:
    rows, half = reach(w)
    found = np.unique(rows[w.chosen()])
    inside = found[(found >= 0) & (found < FULL)]
    if len(inside) < len(found):
        w.report("register beyond the footprint", "by a0.x")
    return [slots_of(int(row), half=half) for row in inside], half


def _check_moving(w: Waves, reach: Reach) -> None:
    rows, half = reach(w)
    for slots in _slots(w, reach)[0]:
        for slot in slots:
            missing = w.undefined(slot)
            if missing is not None and (missing & (rows == (slot if half else slot >> 1))).any():
                w.report(_UNWRITTEN, name_of(slot))


def with_moving(w: Waves, bound: Bound) -> Wants:
    """The wants of an instruction with the registers that its relative operands reach now."""
    wants = bound.wants
    reads, writes = list(wants.reads), list(wants.writes)
    for reach in bound.moving:
        slots, half = _slots(w, reach)
        reads += [(slot, half, 0) for pair in slots for slot in pair]
    for reach in bound.moving_writes:
        slots, half = _slots(w, reach)
        reads_at = bound.inst.repeat
        writes += [(slot, half, reads_at) for pair in slots for slot in pair]
        for pair in slots:
            w.define(pair)
    return replace(wants, reads=tuple(reads), writes=tuple(writes))
