"""The decoder's text of gfx1100 code equals LLVM's, for compiled kernels and for every opcode."""

from __future__ import annotations

import random

import pytest

from boards.amd.isa.decode import UnknownInstruction, decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.layout import Layout
from boards.amd.isa.text import disassemble
from tests.abi.llvm_disassembler import WAVE64, Disassembler, open_disassembler
from tests.boards.isa_kernels import CASES, module
from tests.boards.isa_programs import PROGRAMS
from tests.boards.wave_harness import Loaded, compile_object
from tests.support import check

_KERNELS = {case.name: module(case) for case in CASES} | PROGRAMS
_WMMA = "wmma"
_TRIES = 16


def _differences(code: bytes, oracle: Disassembler, lanes: int) -> list[str]:
    wrong = []
    at = 0
    for _ in range(len(code) // 4):
        if at >= len(code):
            break
        window = code[at : at + 16] + bytes(16)
        found = oracle.at(window)
        if found is None:
            raise AssertionError(f"LLVM does not know the code at {at:#x}")
        size, expected = found
        words = [int.from_bytes(window[i : i + 4], "little") for i in range(0, 16, 4)]
        inst = decode(GFX11, words, at, lanes)
        text = " ".join(disassemble(inst).split())
        if text != expected or inst.size_bytes != size:
            wrong.append(f"{window[:size].hex()}: {text!r}, LLVM {expected!r}")
        at += size
    return wrong


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("name", _KERNELS)
def test_compiled_kernels_decode_to_llvms_text(name: str, lanes: int) -> None:
    # LLVM 19 prints 16-bit operands as whole registers: compile to that form of the code.
    features = ",".join(["-real-true16", *([] if lanes == 32 else [WAVE64])])
    oracle = open_disassembler("gfx1100", "" if lanes == 32 else WAVE64)
    if lanes == 64 and _WMMA in name:
        pytest.skip("the WMMA kernels here are written for 32 lanes")
    loaded = Loaded(compile_object(_KERNELS[name], "gfx1100", features))
    wrong = _differences(loaded.code, oracle, lanes)
    check(not wrong, "\n".join(wrong))


def _random_word(layout: Layout, opcode: int, rnd: random.Random) -> int:
    """An instruction with random registers and offsets and no modifiers."""
    plain = {"hi_c": 1, "hi_ab": 3, "saddr": 0x7C, "soffset": 0x7C, "segment": 2}
    word = layout.value | opcode << layout.opcode[0]
    used = {slot.field.lower() for slot in layout.entries[opcode].slots}
    for name, (low, width) in layout.fields.items():
        if name in plain:
            value = plain[name]
        elif name in "abcdsxyrqi" and not used & {name, "h"}:
            value = 0
        elif layout.name[0] == "V" and width == 9:
            value = rnd.choice([256 + rnd.randrange(64)] * 3 + [rnd.randrange(0, 100, 4)])
        elif layout.name[0] == "V" and name in "db":
            value = rnd.randrange(0, 64, 4)
        elif layout.name in ("DS", "FLAT", "MUBUF") and name in "axyd":
            value = rnd.randrange(64)
        elif name in ("offset", "offset0", "offset1", "i"):
            value = rnd.randrange(1 << min(width, 8))
        elif name in "abcdsqr":
            value = rnd.choice([4 * rnd.randrange(4), rnd.randrange(0, min(1 << width, 96), 8)])
        else:
            value = 0
        word |= value << low
    return word


@pytest.mark.parametrize("layout", GFX11.layouts, ids=lambda layout: layout.name)
def test_every_opcode_decodes_to_llvms_text(layout: Layout) -> None:
    oracle = open_disassembler("gfx1100")
    rnd = random.Random(layout.name)
    wrong: list[str] = []
    compared: set[int] = set()
    for opcode, entry in layout.entries.items():
        for _ in range(_TRIES):
            word = _random_word(layout, opcode, rnd)
            words = [word & 0xFFFFFFFF, word >> 32, 0x11223344, 0]
            if layout.dwords == 1:
                words = [words[0], 0x3344, 0, 0]
            code = b"".join(w.to_bytes(4, "little") for w in words)
            found = oracle.at(code)
            if found is None or "Invalid" in found[1] or "Warning" in found[1] or "/*" in found[1]:
                continue
            compared.add(opcode)
            text = " ".join(disassemble(decode(GFX11, words, 0)).split())
            if text != found[1]:
                wrong.append(f"{entry.name}: {text!r}, LLVM {found[1]!r}")
    check(not wrong, "\n".join(wrong))
    missing = [entry.name for opcode, entry in layout.entries.items() if opcode not in compared]
    check(len(missing) <= len(layout.entries) // 20, f"never compared: {missing}")


_SHORT_AND_LONG = [layout for layout in GFX11.layouts if layout.name.startswith("VOP")]
_DPP16, _DPP8, _DPP8_FI = 250, 233, 234


def _dpp_word(layout: Layout, opcode: int, rnd: random.Random) -> list[int]:
    """An instruction whose source 0 goes through a random DPP dword."""
    word = layout.value | opcode << layout.opcode[0]
    used = {slot.field.lower() for slot in layout.entries[opcode].slots}
    plain = {"hi_c": 1, "hi_ab": 3, "a": rnd.choice([_DPP16, _DPP8, _DPP8_FI])}
    for name, (low, width) in layout.fields.items():
        vector = 256 if width == 9 else 0
        value = vector + rnd.randrange(0, 60, 4) if name in used else 0
        word |= plain.get(name, value) << low
    bases = [0x100, 0x110, 0x120, 0x150, 0x160]
    control = rnd.choice(
        [rnd.randrange(256), rnd.choice(bases) | rnd.randrange(1, 16), 0x140, 0x141]
    )
    extra = rnd.randrange(64) | control << 8 | rnd.randrange(4) << 18 | rnd.getrandbits(8) << 24
    if plain["a"] != _DPP16:
        extra = rnd.getrandbits(24) << 8 | rnd.randrange(64)
    return [word & 0xFFFFFFFF, *([word >> 32] if layout.dwords > 1 else []), extra, 0]


@pytest.mark.parametrize("layout", _SHORT_AND_LONG, ids=lambda layout: layout.name)
def test_lane_permutations_decode_to_llvms_text(layout: Layout) -> None:
    oracle = open_disassembler("gfx1100")
    rnd = random.Random(layout.name)
    wrong, compared = [], 0
    for opcode in layout.entries:
        for _ in range(_TRIES):
            words = _dpp_word(layout, opcode, rnd)
            found = oracle.at(b"".join(w.to_bytes(4, "little") for w in words))
            if found is None or "Invalid" in found[1] or "/*" in found[1]:
                continue
            compared += 1
            text = " ".join(disassemble(decode(GFX11, words, 0)).split())
            if text != found[1]:
                wrong.append(f"{text!r}, LLVM {found[1]!r}")
    check(not wrong, "\n".join(wrong))
    check(compared > 0 or not layout.entries, "nothing compared")


def test_unknown_bytes_are_refused() -> None:
    with pytest.raises(UnknownInstruction, match="no instruction ffffffff"):
        decode(GFX11, [0xFFFFFFFF, 0, 0, 0], 0x40)
    with pytest.raises(UnknownInstruction, match="0x40"):
        decode(GFX11, [], 0x40)
    with pytest.raises(UnknownInstruction):  # a literal is announced but missing
        decode(GFX11, [0x7E0002FF], 0)
