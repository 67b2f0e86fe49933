"""SDWA instructions decode to LLVM's text: every short opcode with random selections."""

from __future__ import annotations

import random

import pytest

from boards.amd.isa.decode import UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.layout import Encoding
from boards.amd.isa.text import disassemble
from tests.abi.llvm_disassembler import open_disassembler
from tests.boards.wave_harness import CHIPS
from tests.support import check

_SDWA, _TRIES = 249, 12
_SHORT = [
    pytest.param(cpu, layout, id=f"{cpu}-{layout.name}")
    for cpu in CHIPS
    for layout in FAMILIES[cpu].layouts
    if FAMILIES[cpu].sdwa and layout.name in ("VOP1", "VOP2", "VOPC")
]


def _words(layout: Encoding, opcode: int, rnd: random.Random) -> list[int]:
    """An instruction, and its SDWA dword with signs of one kind for both sources."""
    used = {slot.field for slot in layout.entries[opcode].slots}
    word = layout.value | opcode << layout.opcode[0] | _SDWA
    for name in ("d", "b"):
        if name in layout.fields and {name, name.upper()} & used:
            word |= rnd.randrange(0, 60, 4) << layout.fields[name][0]
    signs = rnd.choice([0, 0, 1, 2, 4, 6])
    sources = [rnd.randrange(7) | signs << 3 for _ in range(2)]
    extra = rnd.randrange(0, 60, 4) | sources[0] << 16
    if "b" in used:
        extra |= sources[1] << 24 | rnd.randrange(2) << 31
    if layout.name == "VOPC":
        extra |= rnd.choice([0, 0x8400])
    else:
        extra |= rnd.randrange(7) << 8 | rnd.randrange(3) << 11 | rnd.choice([0, 1]) << 13
    return [word, extra | rnd.randrange(2) << 23, 0, 0]


@pytest.mark.parametrize(("cpu", "layout"), _SHORT)
def test_sub_dword_selections_decode_to_llvms_text(cpu: str, layout: Encoding) -> None:
    oracle = open_disassembler(cpu)
    rnd = random.Random(layout.name)
    wrong, compared = [], set()
    for opcode in layout.entries:
        for _ in range(_TRIES):
            words = _words(layout, opcode, rnd)
            found = oracle.at(b"".join(w.to_bytes(4, "little") for w in words))
            if found is None or "Invalid" in found[1] or "/*" in found[1]:
                continue
            compared.add(opcode)
            inst = decode(FAMILIES[cpu], words, 0)
            text = " ".join(disassemble(inst).split())
            if text != found[1] or inst.size_bytes != found[0]:
                wrong.append(f"{text!r}, LLVM {found[1]!r}")
    check(not wrong, "\n".join(wrong))
    check(len(compared) > len(layout.entries) // 2, f"only {len(compared)} opcodes compared")


def test_reserved_selections_are_refused() -> None:
    with pytest.raises(UnknownInstruction):
        decode(FAMILIES["gfx1030"], [0x06180EF9, 0x06060704], 0)  # dst_sel 7
