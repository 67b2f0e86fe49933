"""Runs lines of ir3 on the board's shader processors, over memory that is one array."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from boards.machine.arrays import Addresses, Array, Words
from boards.qcom.wave.dispatch import Dispatch, Outcome, PageFault
from boards.qcom.wave.execute import run
from compilers.qcom.isa import encode
from compilers.qcom.isa.text import parse
from tests.support import check

BASE: Final = 0x1_0000_0000
LANES: Final = 64


def assemble(text: str, generation: int = 6) -> bytes:
    """Code of lines in Mesa's form; a line begins with its instruction."""
    lines = [line.strip() for line in text.strip().splitlines()]
    words = [encode(parse(line, generation), generation) for line in lines if line]
    return b"".join(word.to_bytes(8, "little") for word in words)


@dataclass
class Memory:
    """Words from BASE on."""

    words: Words
    faults: list[int] = field(default_factory=list)

    def _at(self, va: Addresses, nbytes: int, access: str) -> Array:
        offset = va.astype(np.int64) - BASE
        outside = (offset < 0) | (offset + nbytes > self.words.nbytes)
        if outside.any():
            raise PageFault(int(va[np.argmax(outside)]), access)
        return offset

    def gather(self, va: Addresses, item: int, count: int) -> Array:
        """As GPU memory does."""
        first = self._at(va, item * count, "read") // item
        answer: Array = self.words.view(f"u{item}")[first[:, None] + np.arange(count)]
        return answer

    def scatter(self, va: Addresses, data: Array) -> None:
        """As GPU memory does."""
        item, count = data.dtype.itemsize, data.shape[1]
        first = self._at(va, item * count, "write") // item
        self.words.view(data.dtype)[first[:, None] + np.arange(count)] = data


def dispatch(code: bytes, constants: list[int], **more: Any) -> Dispatch:
    """A dispatch of one workgroup of one wave, unless `more` says otherwise."""
    made = np.array(constants, np.uint32)
    settings: dict[str, Any] = {
        "generation": 6, "full_registers": 24, "group_id_reg": 192, "local_id_reg": 0,
        "branch_stack": 4, "groups": (1, 1, 1), "block": (LANES, 1, 1),
        "loaded": np.ones(len(made), np.bool_),
    }  # fmt: skip
    return Dispatch(code=code, code_va=0x1000, constants=made, **(settings | more))


def execute(text: str, constants: list[int], words: Words, **more: Any) -> Outcome:
    """Runs the lines on memory, which they change."""
    code = assemble(text, int(more.get("generation", 6)))
    return run(dispatch(code, constants, **more), Memory(words), most=1 << 16)


_HEAD = """
mad.u24 r1.x, c3.x, r48.x, r0.x
mov.u32u32 r1.y, c0.x
mov.u32u32 r1.z, c0.y
(rpt5)nop
"""
_REGISTER = ("2.x", "2.y", "2.z")
_FROM = 128
"""Rows of operands in memory, then the results."""


def results(op: str, operands: list[Array], *, half: str = "", generation: int = 6) -> Words:
    """One instruction over all rows of operands; `{0}`, `{1}`, ... in `op` name its sources.

    `half` holds a letter for each operand and, at its end, for the result: h or f.
    """
    rows = len(operands[0])
    groups = -(-rows // LANES)
    size = groups * LANES
    widths = half or "f" * (len(operands) + 1)
    words = np.zeros((len(operands) + 1) * size, np.uint32)
    lines, names = [_HEAD], []
    for number, operand in enumerate(operands):
        raw = operand.view(f"u{operand.dtype.itemsize}")
        words[number * size : number * size + rows] = raw
        is_half = widths[number] == "h"
        name = f"{'h' if is_half else ''}r{8 + number if is_half else 2 + number}.x"
        names.append(name)
        kind = "u16" if is_half else "u32"
        lines.append(f"ldg.a.{kind} {name}, g[r1.y+(r1.x)<<2], 1")
        lines.append("(sy)(rpt5)nop")
        lines.append("add.u r1.y, r1.y, c1.x")
        lines.append("(rpt5)nop")
    out_half = widths[-1] == "h"
    out = "hr16.x" if out_half else "r6.x"
    lines.append(op.format(*names, out=out))
    lines += ["(ss)(rpt5)nop", f"stg.a.{'u16' if out_half else 'u32'} g[r1.y+(r1.x)<<2], {out}, 1"]
    constants = [BASE & 0xFFFFFFFF, BASE >> 32, 0, 0, size * 4, *[0] * 7, LANES, 0, 0, 0]
    lines.append("end")
    done = execute("\n".join(lines), constants, words, groups=(groups, 1, 1), generation=generation)
    check(not done.violations and done.fault is None, f"{done.fault} {done.violations[:3]}")
    return words[len(operands) * size :][:rows]
