"""The kernel that copies memory for the Adreno driver, which has its code as data.

`python -m compilers.qcom.copying` prints what `queues/qcom/copy_code.py` keeps of it, for each
generation: instruction words and registers. tests/boards/test_qcom_copies.py compares them.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Final

from compilers import binary
from compilers.qcom.compiler import compile_object
from drivers.base.contracts import Binary
from queues.qcom.kernel_code import MAX_FULL, AdrenoCode
from unbound import terminal

SOURCE: Final = """\
ir3 {generation} {registers} 64 0 3
mov v1 g0
mov v2 r0
base v7 c0
base v11 c2
shl.b v3 v1 k6
add.u v4 v3 v2
cmps.u.lt v5 v4 c4
cmps.s.ne p v5 k0
brn L6
shl.b v6 v4 k{shift}
ldga.u32 v8 v11 v6 0 0 4
stga.u32 v7 v6 0 0 v8 4
label L6
end
"""
"""(to, from, units of 16 bytes): each lane copies one."""
_CHIPS: Final = {6: "a630", 7: "a740"}
_SHIFTS: Final = {6: 2, 7: 4}
"""Generation 6 counts an access's offset in elements, generation 7 in bytes."""


def made(generation: int) -> tuple[tuple[int, ...], AdrenoCode]:
    """(instruction words, the record) of a generation."""
    text = SOURCE.format(generation=generation, registers=MAX_FULL, shift=_SHIFTS[generation])
    arch = _CHIPS[generation]
    built: Binary = binary.decode(compile_object(text, arch, frozenset()))
    return struct.unpack(f"<{len(built.image) // 8}Q", built.image), AdrenoCode.of(built)


def main(_: Sequence[str]) -> int:
    """0, with the words of each generation printed."""
    for number in _CHIPS:
        words, code = made(number)
        sys.stdout.write(f"{number}: {', '.join(map(hex, words))}\n{code}\n")
    return 0


if __name__ == "__main__":
    terminal.run(main)
