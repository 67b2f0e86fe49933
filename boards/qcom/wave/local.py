"""ldl, stl, ldp, stp: shared memory of a workgroup and private memory of a lane.

Where PERWAVEMEMLAYOUT is set, an access to private memory moves one word. # src: Mesa 25.0.7,
ir3_shader.c, pvtmem_per_wave
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits, signed
from boards.qcom.wave.convert import BYTES
from boards.qcom.wave.lanes import chosen, columns, of_type, reads
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.shared import Storage
from boards.qcom.wave.state import Waves

Run = Callable[[Waves], None]
_OFFSET_BITS: Final = 13
_PRIVATE: Final = ("ldp", "stp")


def bind(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    word, load = inst.word, inst.op.startswith("ld")
    kind, count = bits(word, 49, 51), bits(word, 24, 31)
    if not 1 <= count <= 4:
        raise NotModelled(f"{count} components")
    private = inst.op in _PRIVATE
    if load:
        base = reads(uses, bits(word, 14, 21))
        offset = signed(bits(word, 1, 13), _OFFSET_BITS)
        data = of_type(uses, bits(word, 32, 39), count, kind, load=True)
    else:
        base = reads(uses, bits(word, 41, 48))
        offset = signed(bits(word, 9, 13) << 8 | bits(word, 32, 39), _OFFSET_BITS)
        data = of_type(uses, bits(word, 1, 8), count, kind, load=False)
    item = BYTES[kind]

    def storage(w: Waves) -> Storage:
        if private and count > 1 and w.dispatch.private_by_waves:
            w.report("words of private memory by waves", f"{count} words at once")
        return w.private if private else w.local_memory

    def run_load(w: Waves) -> None:
        at = chosen(w)
        found = storage(w).load(w, at, _where(w, base.read(w, 0, at), offset, item), item, count)
        for part in range(count):
            data.write(w, part, at, found[:, part])

    def run_store(w: Waves) -> None:
        at = chosen(w)
        values = columns([data.read(w, part, at) for part in range(count)], kind)
        storage(w).store(w, at, _where(w, base.read(w, 0, at), offset, item), values)

    return run_load if load else run_store


def _where(w: Waves, base: Array, offset: int, item: int) -> Array:
    """Byte offsets, aligned to their items."""
    at = base.astype(np.int32).astype(np.int64) + offset
    if item > 1 and (at & (item - 1)).any():
        w.report("misaligned", f"{int((at & (item - 1)).max())} bytes off")
        at &= -item
    return at
