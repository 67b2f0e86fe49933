"""Registers of the chosen lanes as flat arrays, as memory instructions take them."""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Addresses, Array
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.convert import BYTES, is_half
from boards.qcom.wave.dispatch import NO_REGISTER
from boards.qcom.wave.operands import Use, Uses, one_of_wave, register_sink
from boards.qcom.wave.state import SHARED, SHARED_COUNT, Waves, slots_of


def chosen(w: Waves) -> Array | None:
    """Flat positions of the chosen lanes; None: all."""
    return None if w.mask is None else np.flatnonzero(w.mask)


def take(row: Array, at: Array | None) -> Array:
    """A row's lanes."""
    flat = row.reshape(-1)
    return flat if at is None else flat[at]


class Registers:
    """`count` consecutive registers."""

    def __init__(self, number: int, count: int, *, half: bool) -> None:
        last = number + count - 1
        if number < NO_REGISTER and (number < SHARED <= last or last >= SHARED + SHARED_COUNT):
            raise NotModelled(f"registers {number} to {last}, which are none")
        self.number, self.count, self.half = number, count, half

    def used(self) -> list[Use]:
        """As the checks see them."""
        return [
            Use(slots_of(self.number + part, half=self.half), self.half)
            for part in range(self.count)
        ]

    def read(self, w: Waves, part: int, at: Array | None) -> Array:
        """The values of the chosen lanes: uint32, or uint16 of half registers."""
        number = self.number + part
        if number >= NO_REGISTER:
            return np.zeros(w.count * w.lanes if at is None else len(at), np.uint32)
        if number >= SHARED:
            row = np.broadcast_to(w.shared[number - SHARED], (w.count, w.lanes))
            return take(row, at)
        if self.half:
            return take(np.ascontiguousarray(w.hu[number >> 1, :, :, number & 1]), at)
        return take(w.u[number], at)

    def write(self, w: Waves, part: int, at: Array | None, data: Array) -> None:
        """Into the chosen lanes."""
        number = self.number + part
        if number >= NO_REGISTER:
            return
        if number >= SHARED:
            whole = np.zeros(w.count * w.lanes, data.dtype)
            whole[slice(None) if at is None else at] = data
            value = one_of_wave(w, whole.reshape(w.count, w.lanes))
            register_sink(number, half=self.half)(w, value)
        elif self.half:
            w.flushed[number >> 1] = 0
            side = w.hu[number >> 1, :, :, number & 1]
            if at is None:
                side[...] = data.reshape(side.shape)
            else:
                side[np.divmod(at, w.lanes)] = data
        else:
            w.flushed[number] = 0
            w.u[number].reshape(-1)[slice(None) if at is None else at] = data


def reads(uses: Uses, number: int, count: int = 1, *, half: bool = False) -> Registers:
    """Registers that an instruction reads."""
    made = Registers(number, count, half=half)
    uses.reads += made.used()
    return made


def writes(uses: Uses, number: int, count: int = 1, *, half: bool = False) -> Registers:
    """Registers that an instruction writes."""
    made = Registers(number, count, half=half)
    uses.writes += made.used()
    return made


def of_type(uses: Uses, number: int, count: int, kind: int, *, load: bool) -> Registers:
    """Registers of values of a type."""
    return (writes if load else reads)(uses, number, count, half=is_half(kind))


def address(low: Array, high: Array) -> Addresses:
    """Two registers as an address."""
    pairs = np.empty((low.size, 2), np.uint32)
    pairs[:, 0], pairs[:, 1] = low, high
    answer: Addresses = pairs.view(np.uint64)[:, 0]
    return answer


def columns(data: list[Array], kind: int) -> Array:
    """Values of a store, shape (n, count), in the items that memory holds."""
    return np.stack(data, axis=1).astype(f"u{BYTES[kind]}")
