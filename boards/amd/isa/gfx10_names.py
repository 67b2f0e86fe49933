"""What the mnemonics of gfx10 mean: gfx9's names, and a few of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from boards.amd.isa import gfx9_names
from boards.amd.isa.table import Entry

# src: llvm/lib/Target/AMDGPU, *Instructions.td: one definition a meaning, several real mnemonics.
_SAME = {
    "s_inst_prefetch": "s_set_inst_prefetch_distance", "v_fma_legacy_f32": "v_fma_dx9_zero_f32",
    "v_fmac_legacy_f32": "v_fmac_dx9_zero_f32",
}  # fmt: skip
_FLOAT_ATOMIC = re.compile(r"^(.*atomic_)f(min|max|cmpswap)(_x2)?$")


def meaning(name: str) -> str:
    """The executor's name of a gfx10 mnemonic."""
    match = _FLOAT_ATOMIC.match(name)
    if match:
        return f"{match[1]}{match[2]}_f{64 if match[3] else 32}"
    return _SAME.get(name) or gfx9_names.meaning(name)


def meanings(*tables: Mapping[int, Entry]) -> dict[str, str]:
    """The mnemonics of some tables that mean what another name says."""
    names = {entry.name for entries in tables for entry in entries.values()}
    return {name: meaning(name) for name in names if meaning(name) != name}
