"""Category 1: mov, cov, mova, swz, gat, sct, movmsk.

src: Mesa 25.0.7, src/freedreno/isa/ir3-cat1.xml
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction, Operand, Space
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import KINDS, S8, check, convert, is_half
from boards.qcom.wave.operands import (
    Sink,
    Source,
    Use,
    Uses,
    dtype_of,
    register,
    register_sink,
    sink,
    source,
)
from boards.qcom.wave.state import SHARED, Waves, slots_of

Run = Callable[[Waves], None]
_MOVE, _MULTIPLE, _MASK = 0, 2, 3
_SWZ, _GAT, _SCT = range(3)
_WORD_LANES: Final = 32


def _types(word: int) -> tuple[int, int, int]:
    """Types of source and destination, rounding."""
    return bits(word, 50, 52), bits(word, 46, 48), bits(word, 55, 56)


def _half(kind: int) -> bool:
    return is_half(kind) or kind == S8


def bind(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    opcode = bits(inst.word, 57, 58)
    if opcode == _MOVE:
        return _bind_move(inst, uses)
    if opcode == _MULTIPLE:
        return _bind_multiple(inst.word, uses)
    if opcode == _MASK:
        return _bind_mask(inst.word, uses)
    raise NotModelled("no meaning in this executor")


def _bind_move(inst: Instruction, uses: Uses) -> Run:
    if inst.dst is None or len(inst.srcs) != 1:
        raise NotModelled("not one source and one destination")
    (operand,) = inst.srcs
    from_type, to_type, rounding = _types(inst.word)
    kind = KINDS[from_type]
    if operand.space is Space.IMMEDIATE:
        operand = Operand(Space.IMMEDIATE, bits(inst.word, 0, 31), half=_half(from_type))
    pairs = [
        (
            _moved(source(operand, kind, uses, step=step), from_type, to_type, rounding),
            sink(inst.dst, uses, step=step, at=step),
        )
        for step in range(inst.repeat + 1)
    ]
    return _in_turn(pairs)


def _moved(read: Source, from_type: int, to_type: int, rounding: int) -> Source:
    if from_type == to_type:
        return read
    check(from_type, to_type)
    return lambda w: convert(read(w), from_type, to_type, rounding)


def _in_turn(pairs: list[tuple[Source, Sink]]) -> Run:
    if len(pairs) == 1:
        ((read, write),) = pairs
        return lambda w: write(w, read(w))

    def run(w: Waves) -> None:
        values = [np.array(read(w)) for read, _ in pairs]
        for (_, write), value in zip(pairs, values, strict=True):
            write(w, value)

    return run


def _bind_multiple(word: int, uses: Uses) -> Run:
    """All sources are read before a destination is written."""
    which = bits(word, 40, 41)
    octets = [bits(word, low, low + 7) for low in (0, 8, 16, 24)]
    last = bits(word, 32, 39)
    if which == _SWZ:
        reads, writes = [octets[0], octets[1]], [last, octets[2]]
    elif which == _GAT:
        reads, writes = octets, [last + part for part in range(4)]
    elif which == _SCT:
        reads, writes = [octets[0] + part for part in range(4)], [last, *octets[1:]]
    else:
        raise NotModelled("no meaning in this executor")
    from_type, to_type, rounding = _types(word)
    kind, half_in, half_out = KINDS[from_type], _half(from_type), _half(to_type)
    pairs = []
    for turn, (read, write) in enumerate(zip(reads, writes, strict=True)):
        uses.reads.append(Use(slots_of(read, half=half_in), half_in, turn))
        uses.writes.append(Use(slots_of(write, half=half_out), half_out, turn))
        taken = register(read, kind, half=half_in)
        pairs.append(
            (_moved(taken, from_type, to_type, rounding), register_sink(write, half=half_out))
        )
    return _in_turn(pairs)


def _bind_mask(word: int, uses: Uses) -> Run:
    """movmsk: a bit for each lane in the instruction, 32 lanes to a register."""
    first, count = bits(word, 32, 39), bits(word, 40, 41) + 1
    if bits(word, 49, 49) or first < SHARED:
        raise NotModelled("lanes' mask into a register that is not shared")
    sinks = []
    for part in range(count):
        uses.writes.append(Use(slots_of(first + part, half=False), at=count - 1))
        sinks.append(register_sink(first + part, half=False))

    def run(w: Waves) -> None:
        words = lane_mask(w, w.chosen())
        for part, write in enumerate(sinks):
            column = words[:, part : part + 1] if part < words.shape[1] else words[:, :1] * 0
            write(w, column)

    return run


def lane_mask(w: Waves, lanes: Array) -> Array:
    """Lanes as words of bits, shape (waves, lanes / 32)."""
    packed = np.packbits(np.ascontiguousarray(lanes), axis=1, bitorder="little")
    return packed.view(dtype_of("u", half=False)).reshape(w.count, w.lanes // _WORD_LANES)
