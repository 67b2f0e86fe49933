"""Sub-dword addressing (SDWA): sources and destinations that are parts of a register."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand, Sdwa
from boards.amd.wave_operands import BITS, DTYPES, Reader, UnsupportedOperand, raw_bits, reader
from boards.amd.wave_state import Waves
from boards.amd.wave_types import Array

Put = Callable[[Waves, Array, "Array | None"], None]
_WHOLE, _WORDS = 6, 4
_SEXT, _KEEP = 1, 2


def part_of(selector: int) -> tuple[int, int]:
    """Lowest bit and width of a selection: bytes 0 to 3, words 4 and 5, 6 everything."""
    if selector == _WHOLE:
        return 0, 32
    return (16 * (selector - _WORDS), 16) if selector >= _WORDS else (8 * selector, 8)


def part_reader(inst: Instruction, sdwa: Sdwa, o: Operand, kind: str) -> Reader:
    """A source of which a part is read, extended to the whole type."""
    index = "ab".index(o.field)
    low, width = part_of(sdwa.sources[index])
    if BITS[kind] > 32:
        if width != 32:
            raise UnsupportedOperand(f"a part of a 64-bit source of {inst.name}")
        return reader(inst, o, kind)
    read = reader(inst, o, "u32")
    signed = bool(sdwa.sext >> index & 1)
    bits = BITS[kind]

    def run(w: Waves) -> Array:
        value = read(w) << np.uint32(32 - low - width)
        if signed:
            value = (value.view(np.int32) >> np.int32(32 - width)).view(np.uint32)
        else:
            value = value >> np.uint32(32 - width)
        return value.astype(f"u{bits // 8}").view(DTYPES[kind])

    return run


def part_writer(inst: Instruction, sdwa: Sdwa, o: Operand, kind: str) -> Put:
    """A destination of which a part is written; the rest is zeros, the sign, or stays."""
    low, width = part_of(sdwa.target)
    if BITS[kind] > 32:
        raise UnsupportedOperand(f"a part of the 64-bit result of {inst.name}")
    register = o.code - VGPR
    ones = np.uint32((1 << width) - 1)
    place = np.uint32(int(ones) << low)

    def put(w: Waves, value: Array, mask: Array | None) -> None:
        new = raw_bits(value, kind).astype(np.uint32) & ones
        if sdwa.unused == _SEXT and width < 32:
            up = np.int32(32 - width)
            new = ((new.view(np.int32) << up) >> up).view(np.uint32)
        new = new << np.uint32(low)
        if sdwa.unused == _KEEP:
            new = (w.vgpr[register][w.sel] & ~place) | new & place
        w.put(register, new, mask)

    return put
