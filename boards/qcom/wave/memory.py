"""ldg, stg and their forms with an index: global memory by 64-bit addresses.

src: Mesa 25.0.7, src/freedreno/isa/ir3-cat6.xml; ir3_compiler_nir.c, ir3_a6xx.c (units of offsets)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Addresses, Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits, signed
from boards.qcom.wave.convert import BYTES
from boards.qcom.wave.lanes import address, chosen, columns, of_type, reads
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.state import Waves

Run = Callable[[Waves], None]
Where = Callable[[Waves, Array | None], Addresses]
_NEGATIVE: Final = 1 << 31
_OFFSET_BITS: Final = 13


def bind(inst: Instruction, generation: int, uses: Uses) -> Run:
    """Raises: NotModelled."""
    load = inst.op.startswith("ldg")
    word = inst.word
    count = bits(word, 24, 26)
    if not 1 <= count <= 4:
        raise NotModelled(f"{count} components")
    if inst.op in ("ldg", "stg"):
        where = _plain(word, uses, load=load)
    elif inst.op in ("ldg.a", "stg.a"):
        where = _indexed(word, generation, uses, load=load)
    else:
        raise NotModelled("no meaning in this executor")
    return _load(word, where, uses) if load else _store(word, where, uses)


def _load(word: int, where: Where, uses: Uses) -> Run:
    kind, count = bits(word, 49, 51), bits(word, 24, 26)
    target, item = of_type(uses, bits(word, 32, 39), count, kind, load=True), BYTES[kind]

    def run(w: Waves) -> None:
        at = chosen(w)
        data = w.memory.gather(aligned(w, where(w, at), item), item, count)
        for part in range(count):
            target.write(w, part, at, data[:, part])

    return run


def _store(word: int, where: Where, uses: Uses) -> Run:
    kind, count = bits(word, 49, 51), bits(word, 24, 26)
    data, item = of_type(uses, bits(word, 1, 8), count, kind, load=False), BYTES[kind]

    def run(w: Waves) -> None:
        at = chosen(w)
        values = [data.read(w, part, at) for part in range(count)]
        w.memory.scatter(aligned(w, where(w, at), item), columns(values, kind))

    return run


def aligned(w: Waves, va: Addresses, item: int) -> Addresses:
    """Addresses without the low bits that items of this size have not."""
    low = np.uint64(item - 1)
    if item > 1 and np.bitwise_or.reduce(va) & low:
        w.report("misaligned", f"{int((va & low).max())} bytes off")
        return va & ~low
    return va


def _base(word: int, uses: Uses, *, low: int, constant: bool) -> Where:
    number = bits(word, low, low + 7)
    if constant:
        uses.reads_constants = True
        uses.constants += [number, number + 1]

        def fixed(w: Waves, at: Array | None) -> Addresses:
            return address(w.constants[number : number + 1], w.constants[number + 1 : number + 2])

        return fixed
    pair = reads(uses, number, 2)
    return lambda w, at: address(pair.read(w, 0, at), pair.read(w, 1, at))


def _plain(word: int, uses: Uses, *, load: bool) -> Where:
    base = _base(word, uses, low=14 if load else 41, constant=False)
    if load:
        offset = signed(bits(word, 1, 13), _OFFSET_BITS)
    else:
        offset = signed(bits(word, 9, 13) << 8 | bits(word, 32, 39), _OFFSET_BITS)
    step = np.array(offset, np.int64).view(np.uint64)
    return lambda w, at: base(w, at) + step


def _indexed(word: int, generation: int, uses: Uses, *, load: bool) -> Where:
    """Generation 6: words, or more of them; generation 7: bytes."""
    constant = generation >= 7 and bool(bits(word, 13, 13))
    base = _base(word, uses, low=14 if load else 41, constant=constant)
    index = reads(uses, bits(word, 1, 8) if load else bits(word, 32, 39))
    if generation >= 7:
        shift, extra = 0, bits(word, 41, 48) if load else bits(word, 14, 21)
    else:
        more = bits(word, 12, 13)
        shift, extra = more + 2, bits(word, 9, 10) << 2

    def where(w: Waves, at: Array | None) -> Addresses:
        steps = index.read(w, 0, at)
        if int(np.bitwise_or.reduce(steps)) & _NEGATIVE:
            w.report("index of 2^31 or more", "whether it has a sign is not known")
        return base(w, at) + (steps.astype(np.uint64) << np.uint64(shift)) + np.uint64(extra)

    return where
