"""Values that go from lane to lane of a wave: shfl, brcst.active, quad_shuffle, getfiberid.

src: Mesa 25.0.7, src/freedreno/isa/ir3-cat5.xml, ir3-cat6.xml (documentation of each)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import is_half
from boards.qcom.wave.lanes import Registers, reads, writes
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.state import Waves

Run = Callable[[Waves], None]
_XOR, _UP, _DOWN, _ROTATE_UP, _ROTATE_DOWN = 1, 2, 3, 6, 7
_QUAD: Final = {"quad_shuffle.horiz": 1, "quad_shuffle.vert": 2, "quad_shuffle.diag": 3}
_QUAD_LANES: Final = 4
NAMES: Final = ("shfl", "brcst.active", "getfiberid", "quad_shuffle.brcst", *_QUAD)


def bind(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    if inst.op == "shfl":
        return _bind_shuffle(inst.word, uses)
    if inst.op == "brcst.active":
        return _bind_broadcast(inst.word, uses)
    if inst.op == "getfiberid":
        return _bind_number(inst.word, uses)
    return _bind_quad(inst, uses)


def _rows(w: Waves, register: Registers) -> Array:
    return register.read(w, 0, None).reshape(w.count, w.lanes)


def _put(w: Waves, register: Registers, value: Array, lanes: Array) -> None:
    at = np.flatnonzero(lanes)
    register.write(w, 0, at, np.broadcast_to(value, lanes.shape).reshape(-1)[at])


def _bind_number(word: int, uses: Uses) -> Run:
    target = writes(uses, bits(word, 32, 39), half=is_half(bits(word, 49, 51)))

    def run(w: Waves) -> None:
        kind = np.uint16 if target.half else np.uint32
        _put(w, target, np.arange(w.lanes, dtype=kind), w.chosen())

    return run


def _bind_shuffle(word: int, uses: Uses) -> Run:
    mode, half = bits(word, 45, 47), is_half(bits(word, 49, 51))
    if mode not in (_XOR, _UP, _DOWN, _ROTATE_UP, _ROTATE_DOWN):
        raise NotModelled(f"shfl of mode {mode}")
    data = reads(uses, bits(word, 1, 8), half=half)
    number = bits(word, 24, 31)
    amount = None if bits(word, 23, 23) else reads(uses, number)
    target = writes(uses, bits(word, 32, 39), half=half)

    def run(w: Waves) -> None:
        lane = np.arange(w.lanes)
        step = np.array([[number]]) if amount is None else _rows(w, amount).astype(np.int64)
        if mode == _XOR:
            source = lane ^ step
        else:
            source = lane - step if mode in (_UP, _ROTATE_UP) else lane + step
        if mode in (_ROTATE_UP, _ROTATE_DOWN):
            source = source % w.lanes
        source = np.broadcast_to(source, (w.count, w.lanes))
        inside = (source >= 0) & (source < w.lanes)
        taken = np.take_along_axis(_rows(w, data), np.where(inside, source, lane), axis=1)
        _put(w, target, taken, w.chosen())

    return run


def _bind_quad(inst: Instruction, uses: Uses) -> Run:
    word, half = inst.word, is_half(bits(inst.word, 44, 46))
    if bits(word, 40, 43) != 1:
        raise NotModelled("more than one component")
    data = reads(uses, bits(word, 1, 8), half=half)
    which = reads(uses, bits(word, 9, 16), half=half) if inst.op not in _QUAD else None
    target = writes(uses, bits(word, 32, 39), half=half)

    def run(w: Waves) -> None:
        lane = np.arange(w.lanes)
        if which is None:
            source = np.broadcast_to(lane ^ _QUAD[inst.op], (w.count, w.lanes))
        else:
            source = lane // _QUAD_LANES * _QUAD_LANES + (_rows(w, which) & 3)
        _put(w, target, np.take_along_axis(_rows(w, data), source, axis=1), w.chosen())

    return run


def _bind_broadcast(word: int, uses: Uses) -> Run:
    """The upper half of each cluster gets the value of the last chosen lane of the lower half."""
    cluster, half = 2 << bits(word, 19, 20), is_half(bits(word, 44, 46))
    if bits(word, 40, 43) != 1:
        raise NotModelled("more than one component")
    data = reads(uses, bits(word, 1, 8), half=half)
    target = writes(uses, bits(word, 32, 39), half=half)

    def run(w: Waves) -> None:
        lanes = w.chosen().reshape(w.count, -1, cluster)
        values = _rows(w, data).reshape(lanes.shape)
        lower = lanes[:, :, : cluster // 2]
        last = cluster // 2 - 1 - np.argmax(lower[:, :, ::-1], axis=2)
        taken = np.take_along_axis(values, last[:, :, None], axis=2)
        into = lanes & lower.any(axis=2, keepdims=True)
        into[:, :, : cluster // 2] = False
        whole = np.broadcast_to(taken, lanes.shape).reshape(w.count, w.lanes)
        _put(w, target, whole, into.reshape(w.count, w.lanes))

    return run
