"""stc, stsc, ldc.k: the constant file written by code, as preambles do.

src: Mesa 25.0.7, src/freedreno/isa/ir3-cat6.xml (documentation of each)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import is_half
from boards.qcom.wave.descriptor import DESCRIPTOR_BYTES, read_words, set_base, ubo_at
from boards.qcom.wave.lanes import chosen, reads
from boards.qcom.wave.operands import Use, Uses
from boards.qcom.wave.state import A1, Waves, slots_of

Run = Callable[[Waves], None]
_VEC4: Final = 4
_VEC4_BYTES: Final = 16


def put(w: Waves, first: int, words: Array) -> None:
    """Words of the constant file from `first` on."""
    room = len(w.constants) - first
    if room < len(words):
        w.report("constant beyond constlen", f"stores word {first + len(words) - 1}")
        words = words[: max(0, room)]
    w.constants[first : first + len(words)] = words
    w.loaded[first : first + len(words)] = True


def bind(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    if inst.op == "stc":
        return _bind_store(inst.word, uses)
    if inst.op == "stsc":
        return _bind_shared(inst.word)
    if inst.op == "ldc.k":
        return _bind_uniform(inst.word, uses)
    raise NotModelled("no meaning in this executor")


def _bind_store(word: int, uses: Uses) -> Run:
    if is_half(bits(word, 49, 51)):
        raise NotModelled("half constants")
    if not bits(word, 24, 26):
        raise NotModelled("no components")
    data = reads(uses, bits(word, 1, 8), bits(word, 24, 26))
    offset, moving = bits(word, 32, 39), bool(bits(word, 40, 40))
    if moving:
        uses.reads.append(Use(slots_of(A1, half=False)))

    def run(w: Waves) -> None:
        at = chosen(w)
        words = [data.read(w, part, at)[:1] for part in range(data.count)]
        base = int(_one(w.a1, at)) if moving else 0
        put(w, base + offset, np.concatenate(words))

    return run


def loaded_ubo(w: Waves, number: int) -> tuple[int, int]:
    """Address and bytes of one that LOAD_STATE6 has loaded; none has no bytes, which is reported.

    # src: Mesa 25.0.7, tu_shader.cc tu6_emit_xs(), ST6_UBO
    """
    found = w.dispatch.ubos.get(number)
    if found is None:
        w.report("UBO that was not loaded", f"number {number}")
        return 0, 0
    return found


def _one(row: Array, at: Array | None) -> int:
    return int(row.reshape(-1)[0 if at is None else at[0]])


def _bind_shared(word: int) -> Run:
    first, count = bits(word, 9, 13) << 8 | bits(word, 32, 39), bits(word, 24, 31)
    source = bits(word, 1, 8)

    def run(w: Waves) -> None:
        found = w.dispatch.shared_constants[source : source + count]
        if len(found) < count:
            w.report("shared constant that was not set", f"word {source + count - 1}")
        put(w, first, found)

    return run


def _bind_uniform(word: int, uses: Uses) -> Run:
    uses.reads.append(Use(slots_of(A1, half=False)))
    count = bits(word, 32, 39) + 1
    number, which = bits(word, 24, 31), bits(word, 41, 48)
    offset = None if bits(word, 23, 23) else reads(uses, number)
    index = reads(uses, which) if bits(word, 6, 7) else None
    bindless = bits(word, 8, 8)

    def run(w: Waves) -> None:
        at = chosen(w)
        one = which if index is None else int(index.read(w, 0, at)[0])
        start = number if offset is None else int(offset.read(w, 0, at)[0])
        if bindless:
            va, size = ubo_at(w, set_base(w, bits(word, 1, 3)) + one * DESCRIPTOR_BYTES)
        else:
            va, size = loaded_ubo(w, one)
        words = np.zeros(count * _VEC4, np.uint32)
        inside = max(0, min(count, size // _VEC4_BYTES - start)) * _VEC4
        if inside:
            words[:inside] = read_words(w, va + start * _VEC4_BYTES, inside)
        put(w, _one(w.a1, at), words)

    return run
