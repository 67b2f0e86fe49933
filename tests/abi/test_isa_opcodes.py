"""The board's instruction tables have every opcode that LLVM knows, but for those named here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from boards.amd.isa.families import FAMILIES
from tests.abi.isa_opcodes import lacking
from tests.abi.llvm_disassembler import open_disassembler
from tests.support import check

OF_ALL = "s_atc_probe(_buffer)?|v_nop|v_pipeflush|v_illegal|v_clrexcp"
"""No data is computed by these; VOP1 has v_nop, too."""
OF_GFX9 = (
    "s_setvskip|s_cbranch_join|s_cbranch_[ig]_fork|s_rfe_restore_b64"  # branches, traps: no code
    "|s_(buffer_)?atomic_.*|s_scratch_.*|s_dcache_discard(_x2)?"  # scalar: LLVM emits none
    "|v_screen_partition_4se_b32"  # graphics
    "|ds_append|ds_consume|ds_nop|ds_(read|write)_addtid_b32|buffer_store_lds_dword"
)
LEFT_OUT = {
    "gfx942": OF_GFX9, "gfx90a": OF_GFX9, "gfx1030": "v_interp_.*", "gfx1100": "s_version",
    "gfx1151": "s_version", "gfx1201": "s_version|s_waitcnt|tbuffer_.*",
}  # fmt: skip
"""src: LLVM 19's disassembler, which also names what a chip has lost: s_waitcnt of gfx12."""


@pytest.mark.parametrize("chip", LEFT_OUT)
def test_opcodes_that_the_tables_lack(chip: str) -> None:
    family, oracle = FAMILIES[chip], open_disassembler(chip)
    left_out = re.compile(f"{OF_ALL}|{LEFT_OUT[chip]}")
    for encoding in family.layouts:
        if encoding.name != "VOPD":  # its opcode is two, for which one table each is asked
            names = lacking(oracle, family, encoding)
            more = sorted(name for name in names if not left_out.fullmatch(name))
            check(not more, f"{encoding.name} lacks {more}")


def test_a_lost_entry_is_noticed() -> None:
    family, oracle = FAMILIES["gfx1100"], open_disassembler("gfx1100")
    (sopp,) = (one for one in family.layouts if one.name == "SOPP")
    entries = {opcode: entry for opcode, entry in sopp.entries.items() if opcode}
    less = replace(sopp, entries=entries)
    layouts = tuple(less if one is sopp else one for one in family.layouts)
    check(lacking(oracle, replace(family, layouts=layouts), less) == {"s_nop"}, "s_nop is opcode 0")
