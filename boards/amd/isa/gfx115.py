"""The encodings of gfx11.5 (RDNA3.5): gfx1150 and gfx1151."""

# src: "RDNA3.5" Instruction Set Architecture Reference Guide, 1.1 (what is new) and chapter 16; the
# opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text with its disassembler.

from __future__ import annotations

from dataclasses import replace

from boards.amd.isa import scalar_floats
from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.table import Entries, table

_MINIMA = table("""
d1 a1 b1:
    0x42 s_min_f32 s_max_f32 0x4b s_min_f16 s_max_f16
""")
_HINT = table("""
i:
    0x13 s_singleuse_vdst
""")
_MORE: dict[str, Entries] = {
    "SOP1": scalar_floats.SOP1,
    "SOP2": scalar_floats.SOP2 | _MINIMA,
    "SOPC": scalar_floats.SOPC,
    "SOPP": _HINT,
}

GFX115 = replace(
    GFX11,
    name="gfx11.5",
    layouts=tuple(
        replace(layout, entries={**layout.entries, **_MORE.get(layout.name, {})})
        for layout in GFX11.layouts
    ),
    meanings={"s_singleuse_vdst": "s_nop"},
)
"""gfx11 with floats in scalar registers; a hint about registers that has no effect here."""
