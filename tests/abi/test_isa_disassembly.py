"""The decoder's text equals LLVM's, for compiled kernels and for every opcode."""

from __future__ import annotations

import random

import pytest

from boards.amd.isa.decode import Family, UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.layout import Encoding
from boards.amd.isa.text import disassemble
from tests import amd_kernels
from tests.abi.llvm_disassembler import WAVE64, Disassembler, open_disassembler
from tests.boards.isa_kernels import CASES, module
from tests.boards.isa_programs import MATRICES, programs
from tests.boards.wave_harness import CHIPS as ONE_OF_EACH
from tests.boards.wave_harness import Loaded, compile_object
from tests.support import check

CHIPS = (*ONE_OF_EACH, "gfx1151", "gfx90a")
"""With those whose tables differ from their family's."""
_ELEMENTWISE = {case.name: module(case) for case in CASES}
_SMALL = {
    f"small_{make.__name__}": make()
    for make in (amd_kernels.add, amd_kernels.reverse, amd_kernels.table, amd_kernels.scratch)
}
_KERNELS = {cpu: _ELEMENTWISE | _SMALL | programs(cpu) for cpu in CHIPS}
_BUILDS = [
    pytest.param(cpu, lanes, name, id=f"{cpu}-{lanes}-{name}")
    for cpu in CHIPS
    for lanes in FAMILIES[cpu].lane_counts
    for name in [*_KERNELS[cpu], *(MATRICES[cpu] if lanes == FAMILIES[cpu].lane_counts[0] else ())]
]
_LAYOUTS = [
    pytest.param(cpu, layout, id=f"{cpu}-{layout.name}")
    for cpu in CHIPS
    for layout in FAMILIES[cpu].layouts
]
_TRIES = 16


def _differences(family: Family, code: bytes, oracle: Disassembler, lanes: int) -> list[str]:
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
        inst = decode(family, words, at, lanes)
        text = " ".join(disassemble(inst).split())
        if text != expected or inst.size_bytes != size:
            wrong.append(f"{window[:size].hex()}: {text!r}, LLVM {expected!r}")
        at += size
    return wrong


def _oracle(cpu: str, lanes: int) -> tuple[str, Disassembler]:
    """Compiler features and a disassembler for waves of `lanes` lanes."""
    whole = "-real-true16"  # LLVM 19 prints 16-bit operands as whole registers
    if lanes == FAMILIES[cpu].lane_counts[0]:
        return whole, open_disassembler(cpu)
    return f"{whole},{WAVE64}", open_disassembler(cpu, WAVE64)


@pytest.mark.parametrize(("cpu", "lanes", "name"), _BUILDS)
def test_compiled_kernels_decode_to_llvms_text(cpu: str, lanes: int, name: str) -> None:
    features, oracle = _oracle(cpu, lanes)
    loaded = Loaded(compile_object((_KERNELS[cpu] | MATRICES[cpu])[name], cpu, features))
    wrong = _differences(FAMILIES[cpu], loaded.code, oracle, lanes)
    check(not wrong, "\n".join(wrong))


def _random_word(family: Family, layout: Encoding, opcode: int, rnd: random.Random) -> int:
    """An instruction with random registers and offsets and no modifiers."""
    none = 0x7F if family.null < 0 else family.null
    plain = {"hi_c": 1, "hi_ab": 3, "saddr": none, "soffset": none, "segment": 2}
    word = layout.value | opcode << layout.opcode[0]
    used = {slot.field.lower() for slot in layout.entries[opcode].slots}
    for name, (low, width) in layout.fields.items():
        if layout.mask >> low & 1:
            value = 0  # the encoding itself says it
        elif name in plain:
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


@pytest.mark.parametrize(("cpu", "layout"), _LAYOUTS)
def test_every_opcode_decodes_to_llvms_text(cpu: str, layout: Encoding) -> None:
    family = FAMILIES[cpu]
    oracle = open_disassembler(cpu)
    rnd = random.Random(layout.name)
    wrong: list[str] = []
    compared: set[int] = set()
    for opcode, entry in layout.entries.items():
        for _ in range(_TRIES):
            word = _random_word(family, layout, opcode, rnd)
            words = [word >> 32 * i & 0xFFFFFFFF for i in range(layout.dwords)]
            words += [0x3344 if layout.dwords == 1 else 0x11223344, 0, 0]
            code = b"".join(w.to_bytes(4, "little") for w in words)
            found = oracle.at(code)
            if found is None or "Invalid" in found[1] or "Warning" in found[1] or "/*" in found[1]:
                continue
            compared.add(opcode)
            text = " ".join(disassemble(decode(family, words, 0)).split())
            if text != found[1]:
                wrong.append(f"{entry.name}: {text!r}, LLVM {found[1]!r}")
    check(not wrong, "\n".join(wrong))
    missing = [entry.name for opcode, entry in layout.entries.items() if opcode not in compared]
    check(len(missing) <= len(layout.entries) // 20, f"never compared: {missing}")


_PERMUTING = [
    pytest.param(cpu, layout, id=f"{cpu}-{layout.name}")
    for cpu in CHIPS
    for layout in FAMILIES[cpu].layouts
    if layout.name in FAMILIES[cpu].dpp_encodings
]
_DPP16, _DPP8, _DPP8_FI = 250, 233, 234


def _dpp_word(layout: Encoding, opcode: int, rnd: random.Random) -> list[int]:
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


@pytest.mark.parametrize(("cpu", "layout"), _PERMUTING)
def test_lane_permutations_decode_to_llvms_text(cpu: str, layout: Encoding) -> None:
    family = FAMILIES[cpu]
    oracle = open_disassembler(cpu)
    rnd = random.Random(layout.name)
    wrong, compared = [], 0
    for opcode in (o for o, entry in layout.entries.items() if entry.slots):
        for _ in range(_TRIES):
            words = _dpp_word(layout, opcode, rnd)
            found = oracle.at(b"".join(w.to_bytes(4, "little") for w in words))
            if found is None or "Invalid" in found[1] or "/*" in found[1]:
                continue
            compared += 1
            text = " ".join(disassemble(decode(family, words, 0)).split())
            if text != found[1]:
                wrong.append(f"{text!r}, LLVM {found[1]!r}")
    check(not wrong, "\n".join(wrong))
    check(compared > 0 or not layout.entries, "nothing compared")


_LITERALS = (0, 1, 64, 65, 0xFFF0, 0xFFFFFFF0, 0xFFFFFFEF, 0x3F800000, 0x3E22F983, 0xBF000000,
             0x3800, 0x3C00, 0x3118, 0x3FE00000)  # fmt: skip
_WITH_LITERAL = (0x8205FF05, 0x7E0202FF, 0x060202FF, 0x640202FF)
"""A scalar addition, v_mov_b32, a float addition, a half addition (or another: VOP2)."""


@pytest.mark.parametrize("cpu", CHIPS)
def test_literals_are_shown_as_llvm_shows_them(cpu: str) -> None:
    family, oracle, wrong = FAMILIES[cpu], open_disassembler(cpu), []
    for word in _WITH_LITERAL:
        for literal in _LITERALS:
            words = [word, literal, 0, 0]
            found = oracle.at(b"".join(w.to_bytes(4, "little") for w in words))
            text = " ".join(disassemble(decode(family, words, 0, family.lane_counts[0])).split())
            if found is None or text != found[1]:
                wrong.append(f"{text!r}, LLVM {found!r}")
    check(not wrong, "\n".join(wrong))


@pytest.mark.parametrize("cpu", CHIPS)
def test_unknown_bytes_are_refused(cpu: str) -> None:
    family = FAMILIES[cpu]
    with pytest.raises(UnknownInstruction, match="no instruction ffffffff"):
        decode(family, [0xFFFFFFFF, 0, 0, 0], 0x40)
    with pytest.raises(UnknownInstruction, match="0x40"):
        decode(family, [], 0x40)
    with pytest.raises(UnknownInstruction):  # a literal is announced but missing
        decode(family, [0x7E0002FF], 0)
