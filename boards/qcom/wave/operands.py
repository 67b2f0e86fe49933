"""Where the sources of an ALU instruction come from, and where its result goes.

A float instruction reads a constant of half width as a float32 and converts it; an integer one
takes its low half. # src: Mesa 25.0.7, src/freedreno/ir3/ir3_cp.c, lower_immed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Operand, Space
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.dispatch import NO_REGISTER
from boards.qcom.wave.state import A0, A1, FULL, P0, SHARED, Waves, slots_of

Source = Callable[[Waves], Array]
Sink = Callable[[Waves, Array], None]
_DTYPES: Final[dict[tuple[str, bool], type[np.generic]]] = {
    ("f", False): np.float32,
    ("s", False): np.int32,
    ("u", False): np.uint32,
    ("f", True): np.float16,
    ("s", True): np.int16,
    ("u", True): np.uint16,
}
_RELATIVE: Final = (Space.RELATIVE_REGISTER, Space.RELATIVE_CONSTANT)


def dtype_of(kind: str, *, half: bool) -> type[np.generic]:
    """The numpy type of "f", "s" or "u" of one width."""
    return _DTYPES[kind, half]


@dataclass(slots=True)
class Use:
    """One access to a register file, for the checks."""

    slots: tuple[int, ...]
    half: bool = False
    at: int = 0
    """Cycles after the instruction's issue."""


@dataclass(slots=True)
class Uses:
    """All accesses of an instruction."""

    reads: list[Use] = field(default_factory=list)
    writes: list[Use] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    """Words of the constant file that are read."""
    reads_constants: bool = False
    moving: list[Callable[[Waves], tuple[Array, bool]]] = field(default_factory=list)
    """Rows that a relative source reads in each lane, and whether they are half registers."""
    moving_writes: list[Callable[[Waves], tuple[Array, bool]]] = field(default_factory=list)


def register(number: int, kind: str, *, half: bool) -> Source:
    """A register, by its number as encoded."""
    if number >= NO_REGISTER:
        return lambda w: np.zeros(1, _DTYPES[kind, half])
    if number >= P0:
        part, dtype = number - P0, _DTYPES["s", half]
        return lambda w: (-w.p[part].astype(dtype)).view(_DTYPES[kind, half])
    if number == A0:
        return lambda w: w.a0.astype(_DTYPES[kind, half])
    if number == A1:
        return lambda w: w.a1.astype(_DTYPES[kind, half])
    if number >= SHARED:
        return _shared(number - SHARED, kind, half=half)
    if half:
        row, side = number >> 1, number & 1
        if kind == "f":
            return lambda w: w.hf[row, :, :, side]
        if kind == "s":
            return lambda w: w.hs[row, :, :, side]
        return lambda w: w.hu[row, :, :, side]
    if kind == "f":
        return lambda w: w.f[number]
    if kind == "s":
        return lambda w: w.s[number]
    return lambda w: w.u[number]


def _shared(at: int, kind: str, *, half: bool) -> Source:
    dtype = _DTYPES[kind, half]
    if not half:
        return lambda w: w.shared[at].view(dtype)
    row, shift = at >> 1, (at & 1) * 16
    return lambda w: (w.shared[row] >> shift).astype(np.uint16).view(dtype)


def _constant(number: int, kind: str, *, half: bool) -> Source:
    dtype = _DTYPES[kind, half]

    def read(w: Waves) -> Array:
        if number >= len(w.constants):
            return np.zeros(1, dtype)
        return _as_half(w.constants[number : number + 1], kind, half=half)

    return read


def _as_half(words: Array, kind: str, *, half: bool) -> Array:
    if not half:
        return words.view(_DTYPES[kind, False])
    if kind == "f":
        return words.view(np.float32).astype(np.float16)
    return words.astype(np.uint16).view(_DTYPES[kind, True])


def _moving(operand: Operand, step: int, kind: str, uses: Uses) -> Source:
    """r<a0.x + n> and c<a0.x + n>."""
    offset, half = operand.number + step, operand.half
    dtype = _DTYPES[kind, half]
    if operand.space is Space.RELATIVE_CONSTANT:
        uses.reads_constants = True

        def constant(w: Waves) -> Array:
            at = np.clip(w.a0 + offset, 0, max(0, len(w.constants) - 1))
            return _as_half(w.constants[at], kind, half=half)

        return constant
    uses.moving.append(lambda w: (w.a0 + offset, half))

    def read(w: Waves) -> Array:
        wave, lane = np.ogrid[: w.count, : w.lanes]
        at = np.clip(w.a0 + offset, 0, FULL - 1)
        row: Array = w.hu[at >> 1, wave, lane, at & 1] if half else w.u[at, wave, lane]
        return row.view(dtype)

    return read


def source(operand: Operand, kind: str, uses: Uses, *, step: int = 0, at: int = 0) -> Source:
    """A source without its modifiers, in repetition `step`, read `at` cycles after the issue."""
    half, number = operand.half, operand.number
    if operand.repeat and operand.space is not Space.IMMEDIATE:
        at += step
    elif operand.space in _RELATIVE or not operand.repeat:
        step = 0
    if operand.space is Space.IMMEDIATE:
        width = 16 if half else 32
        raw = np.array([(number + step) & ((1 << width) - 1)], f"u{width // 8}")
        made = raw.view(_DTYPES[kind, half])
        return lambda _: made
    if operand.space is Space.CONSTANT:
        uses.reads_constants = True
        uses.constants.append(number + step)
        return _constant(number + step, kind, half=half)
    if operand.space in _RELATIVE:
        uses.reads.append(Use(slots_of(A0, half=False)))
        return _moving(operand, step, kind, uses)
    if operand.space is not Space.REGISTER:
        raise NotModelled(f"a source {operand.space.value}")
    uses.reads.append(Use(slots_of(number + step, half=half), half, at))
    return register(number + step, kind, half=half)


def modified(read: Source, operand: Operand, op_kind: str) -> Source:
    """With (abs) and then (neg) of floats "f", integers "s" "u", or (not) of bits "b"."""
    if not operand.abs:
        return _negated(read, operand, op_kind)
    return _negated(lambda w: np.abs(read(w)), operand, op_kind)


def _negated(read: Source, operand: Operand, op_kind: str) -> Source:
    if not operand.neg:
        return read
    if op_kind == "b":
        return lambda w: np.invert(read(w))
    return lambda w: np.negative(read(w))


def sink(operand: Operand, uses: Uses, *, step: int = 0, at: int = 0) -> Sink:
    """Where a result goes; it has the width of the destination already."""
    if operand.space is Space.RELATIVE_REGISTER:
        uses.reads.append(Use(slots_of(A0, half=False)))
        return _moving_sink(operand, step, uses)
    if operand.space is not Space.REGISTER:
        raise NotModelled(f"a destination {operand.space.value}")
    number = operand.number if operand.number >= A0 else operand.number + step
    uses.writes.append(Use(slots_of(number, half=operand.half), operand.half, at))
    return register_sink(number, half=operand.half)


def register_sink(number: int, *, half: bool) -> Sink:
    """A register, by its number as encoded."""
    if number >= A0:
        return _special_sink(number)
    if number >= SHARED:
        return _shared_sink(number - SHARED, half=half)
    if half:
        row, side = number >> 1, number & 1

        def into_half(w: Waves, value: Array) -> None:
            w.flushed[row] = 0
            _put(w.hu[row, :, :, side], value.view(np.uint16), w.mask)

        return into_half

    def into(w: Waves, value: Array) -> None:
        w.flushed[number] = 0
        _put(w.u[number], value.view(np.uint32), w.mask)

    return into


def _put(row: Array, value: Array, mask: Array | None) -> None:
    if mask is None:
        row[...] = value
    else:
        np.copyto(row, value, where=mask)


def _special_sink(number: int) -> Sink:
    if number >= NO_REGISTER:
        return _discard
    if number >= P0:
        part = number - P0
        return lambda w, value: _put(w.p[part], value != 0, w.mask)
    if number == A0:
        return lambda w, value: _put(w.a0, value.astype(np.int16).astype(np.int32), w.mask)
    if number == A1:
        return lambda w, value: _put(w.a1, value.astype(np.uint16).astype(np.uint32), w.mask)
    raise NotModelled(f"a destination of number {number}")


def _discard(w: Waves, value: Array) -> None:
    """r63.x: nothing is wanted."""


def one_of_wave(w: Waves, value: Array) -> Array:
    """A value of each wave: that of its first lane."""
    if value.ndim == 2 and value.shape[1] == w.lanes:
        picked: Array = np.take_along_axis(value, w.first_lane(), axis=1)
        return picked
    return value


def _shared_sink(at: int, *, half: bool) -> Sink:
    def into(w: Waves, value: Array) -> None:
        _put(w.shared[at], one_of_wave(w, value).view(np.uint32), w.wave_mask())

    def into_half(w: Waves, value: Array) -> None:
        row, shift = w.shared[at >> 1], (at & 1) * 16
        one = one_of_wave(w, value).view(np.uint16).astype(np.uint32) << shift
        _put(row, row & ~np.uint32(0xFFFF << shift) | one, w.wave_mask())

    return into_half if half else into


def _moving_sink(operand: Operand, step: int, uses: Uses) -> Sink:
    offset, half = operand.number + step, operand.half
    uses.moving_writes.append(lambda w: (w.a0 + offset, half))

    def into(w: Waves, value: Array) -> None:
        w.flushed[:] = bytes(FULL)
        lanes = np.nonzero(w.chosen())
        at = np.clip(w.a0[lanes] + offset, 0, FULL - 1)
        data = np.broadcast_to(value, (w.count, w.lanes))[lanes]
        if half:
            w.hu[at >> 1, lanes[0], lanes[1], at & 1] = data.view(np.uint16)
        else:
            w.u[at, lanes[0], lanes[1]] = data.view(np.uint32)

    return into
