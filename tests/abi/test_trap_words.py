"""LLVM reads the words of the trap handler as the instructions written beside them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from drivers.amd import trap_code
from drivers.amd.trap_code import HANDLERS, assemble
from tests.abi.llvm_disassembler import open_disassembler
from tests.support import check

REPORT, MAILBOX, EVENT = 0x1122_3344_5566, 0x7788_99AA_BBCC, 0x321
NAMES = {
    "report >> 32": hex(REPORT >> 32), "report": hex(REPORT & 0xFFFFFFFF),
    "mailbox >> 32": hex(MAILBOX >> 32), "mailbox": hex(MAILBOX & 0xFFFFFFFF), "event": hex(EVENT),
}  # fmt: skip


def written(name: str) -> list[str]:
    """The comments beside the words of one family."""
    source = Path(trap_code.__file__).read_text()
    block = re.search(rf"^{name}: Final\[Words\] = \((.*?)^\)", source, re.DOTALL | re.MULTILINE)
    check(block is not None, f"no words {name}")
    return re.findall(r"  # (.*)$", block[1] if block else "", re.MULTILINE)


@pytest.mark.parametrize(
    ("family", "cpu", "name"),
    [("CDNA2", "gfx90a", "_GFX9"), ("CDNA3", "gfx942", "_GFX9"), ("RDNA2", "gfx1030", "_GFX10"),
     ("RDNA3", "gfx1100", "_GFX11"), ("RDNA4", "gfx1201", "_GFX12")],
)  # fmt: skip
def test_the_words_are_the_instructions_beside_them(family: str, cpu: str, name: str) -> None:
    llvm = open_disassembler(cpu)
    code, at = assemble(HANDLERS[family], REPORT, MAILBOX, EVENT), 0
    texts = written(name)
    check(len(texts) >= 30 and texts[-1] == "s_branch -2", f"{texts}")
    for text in texts:
        found = llvm.at(code[at : at + 16])
        check(found is not None, f"no instruction at {at}: {text}")
        size, read = found or (0, "")
        for word, value in NAMES.items():
            text = re.sub(rf"(?<=, ){re.escape(word)}$", value, text)
        text = text.replace("v_mov_b32 ", "v_mov_b32_e32 ").replace("s_branch -2", "s_branch 65534")
        if cpu == "gfx90a":
            text = text.replace("sc0 sc1", "glc scc")
        check(read == text, f"{read!r}, not {text!r}")
        at += size
    rest = struct.unpack(f"={(len(code) - at) // 4}I", code[at:])
    check(set(rest) == {HANDLERS[family].pad} and len(rest) >= 64, "what may be fetched ahead")
