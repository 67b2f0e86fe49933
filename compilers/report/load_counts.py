"""Loads that a kernel's machine code has in flight: vector loads between waits, as disassembled.

The loop that is likely hot is walked twice, so that loads issued in one iteration and waited for in
the next are counted; a kernel without loads in loops is walked once. Loads return in
order, and `s_waitcnt vmcnt(n)`, or `s_wait_loadcnt n`, waits until n are left.
# src: LLVM AMDGPUUsage, memory model; RDNA4 instruction set document, S_WAIT_LOADCNT
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from compilers.instruction import Instruction

_LOAD: Final = re.compile(r"(?:global|buffer|flat)_load_(\w+)")
_WIDTHS: Final = {
    "b128": 16, "dwordx4": 16, "b96": 12, "dwordx3": 12, "b64": 8, "dwordx2": 8, "b32": 4,
    "dword": 4, "ushort": 2, "sshort": 2, "short": 2, "u16": 2, "i16": 2, "b16": 2,
    "ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1,
}  # fmt: skip
"""How a load's name ends -> bytes a lane."""
_VMCNT: Final = re.compile(r"vmcnt\((\d+)\)")
_LOADCNT: Final = re.compile(r"s_wait_loadcnt(_dscnt)? (0x[0-9a-f]+|\d+)$")
_LOADCNT_SHIFT, _LOADCNT_MASK = 8, 0x3F
"""Where S_WAIT_LOADCNT_DSCNT keeps the loads. # src: RDNA4 document, S_WAIT_LOADCNT_DSCNT"""
_VECTOR_STORE: Final = re.compile(r"(?:global|buffer|flat)_store_")
_MATRIX: Final = ("v_wmma", "v_mfma")
_UNKNOWN: Final = ".long"
"""What `amd_disasm` shows for a word of no instruction."""
_TURNS: Final = 2


@dataclass(slots=True)
class LoadCounts:
    """Of the hot part of a kernel."""

    looped: bool
    """Whether the part is a loop; else it is the whole kernel, once."""
    loads: int = 0
    """Most loads of a lane in flight at once."""
    bytes: int = 0
    """Most bytes of a lane in flight at once."""
    issued: Counter[int] = field(default_factory=Counter)
    """Bytes of a load -> how many are issued in one iteration."""
    waits: int = 0
    """Waits for loads in one iteration."""
    vector: int = 0
    """Vector arithmetic instructions of one iteration; a dual one counts once. Two words that the
    disassembler does not know count as one: LLVM 19 does not know v_mov_b16 of two words."""
    matrix: Counter[str] = field(default_factory=Counter)
    """Those of the vector instructions that are a matrix unit's, by name."""
    other: int = 0
    """Everything else: scalar, memory, branches."""

    @property
    def turn_bytes(self) -> int:
        """Bytes that a lane loads in one iteration."""
        return sum(width * count for width, count in self.issued.items())


def load_bytes(text: str) -> int:
    """Bytes that a vector load gives each lane; 0 for anything else."""
    found = _LOAD.match(text)
    if found is None:
        return 0
    endings = found[1].split("_")
    return next((_WIDTHS[end] for end in reversed(endings) if end in _WIDTHS), 0)


def loads_left(text: str) -> int | None:
    """How many loads may still be in flight after a wait; None where it waits for none."""
    found = _LOADCNT.match(text)
    if found is not None:
        value = int(found[2], 0)
        return value >> _LOADCNT_SHIFT & _LOADCNT_MASK if found[1] else value
    wait = _VMCNT.search(text) if text.startswith("s_waitcnt") else None
    return int(wait[1]) if wait else None


def count_loads(lines: Sequence[Instruction], *, stores_wait: bool) -> LoadCounts:
    """Of a listing (`listing.disassemble`). `stores_wait`: stores count as loads (gfx9)."""
    hot = [line.text for line in lines if line.hot]
    looped = any(load_bytes(text) for text in hot)
    part = hot if looped else [line.text for line in lines]
    counts = LoadCounts(looped)
    _count_kinds(part, counts)
    flying: list[int] = []
    for text in part * (_TURNS if looped else 1):
        width = load_bytes(text)
        if width or (stores_wait and _VECTOR_STORE.match(text)):
            flying.append(width)
            counts.loads = max(counts.loads, sum(1 for one in flying if one))
            counts.bytes = max(counts.bytes, sum(flying))
        left = loads_left(text)
        if left is not None:
            flying = flying[max(len(flying) - left, 0) :]
    return counts


def _count_kinds(part: Iterable[str], counts: LoadCounts) -> None:
    unknown = 0
    for text in part:
        width = load_bytes(text)
        counts.waits += loads_left(text) is not None
        if width:
            counts.issued[width] += 1
        unknown += text.startswith(_UNKNOWN)
        if text.startswith("v_"):
            counts.vector += 1
            if text.startswith(_MATRIX):
                counts.matrix[text.split()[0]] += 1
        elif not text.startswith(("s_delay_alu", "s_clause", "s_nop", _UNKNOWN)):
            counts.other += 1
    counts.vector += -(-unknown // 2)
