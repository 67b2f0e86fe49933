"""The board's reading of ir3 is Mesa's: its text of real and of random words, its refusals."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from boards.qcom.isa.decode import decode
from boards.qcom.isa.instruction import Space
from boards.qcom.isa.scope import UnknownInstruction
from boards.qcom.isa.table import INSTRUCTION, table
from boards.qcom.isa.text import disassemble
from generators.adreno_isa import OUTPUT, make
from generators.registry import differs
from generators.source import Source
from tests.ir3_reference import vectors
from tests.references import MESA, find
from tests.support import check
from tests.turnip.build import installed

_CHIP_IDS = {6: "0x06030001", 7: "0x43050a01"}
_RANDOM, _OF_EACH, _PARTS = 5000, 20, 8
_LINE = re.compile(r"\s*(\d+)\[([0-9a-f]{8})_([0-9a-f]{8})\] ?(.*)")
_LABEL = re.compile(r"(l|fxn)\d+:")
_STRICTER = "no constant"
"""What is refused here and printed by Mesa: a number of no constant of its table."""
_NO_NOP = "\t; no field 'NOP'"
"""Mesa remarks so on dp2acc and dp4acc without (nopN), which it writes itself."""
_ANY_LOW_BIT = ("ldib.b", "atomic.b.")


@pytest.mark.skipif(find(MESA) is None, reason="no source of Mesa")
def test_the_table_is_what_its_generator_makes() -> None:
    source = find(MESA)
    check(source is not None)
    recorded = (Path(__file__).parents[2] / OUTPUT).read_text()
    check(not differs(recorded, make(Source(source or Path()))))


@pytest.mark.skipif(find(MESA) is None, reason="no source of Mesa")
@pytest.mark.parametrize("part", range(_PARTS))
def test_mesas_own_pairs_of_word_and_text(part: int) -> None:
    pairs = [one for one in vectors() if not one.text.startswith("raw ")]
    check(len(pairs) > 200)
    for generation, word, text in pairs[part::_PARTS]:
        check(disassemble(word, generation) == text.strip(), f"{word:016x}")
        check(decode(word, generation).word == word)


def _built(words: list[int], generation: int, folder: Path, tool: Path) -> list[str]:
    """Mesa 25.0.7's listing, in which branches have labels."""
    path = folder / "words.bin"
    path.write_bytes(struct.pack(f"<{len(words)}Q", *words))
    done = subprocess.run(
        [str(tool), "-c", _CHIP_IDS[generation], str(path)], capture_output=True, check=True
    )
    found = [_LINE.match(line) for line in done.stdout.decode("latin-1").split("\n")]
    texts = {int(one[1]): one[4] for one in found if one and not _LABEL.fullmatch(one[4])}
    return [texts[number] for number in range(len(words))]


@cache
def _known_words(generation: int) -> list[int]:
    return [word for one, word, _ in vectors() if one == generation]


def _words(generation: int, seed: int) -> Iterator[int]:
    """Random ones, random operands of every encoding, and real ones with a bit turned."""
    made = random.Random(seed)
    for _ in range(_RANDOM // _PARTS):
        yield made.getrandbits(64)
    for one in table().sets[INSTRUCTION]:
        for _ in range(_OF_EACH // 4):
            yield one.match | made.getrandbits(64) & ~one.mask
    for word in _known_words(generation):
        yield word ^ 1 << made.randrange(64)


def _agrees(word: int, generation: int, expected: str, place: tuple[int, int]) -> bool:
    expected = expected.removesuffix(_NO_NOP)
    refused = "\t; " in expected or expected.startswith("no match")
    try:
        decode(word, generation)
    except UnknownInstruction as error:
        if refused:
            return True
        if _STRICTER not in str(error):
            return False
    else:
        if refused:
            return any(name in expected for name in _ANY_LOW_BIT)
    return disassemble(word, generation, place).strip() == expected.strip()


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("generation", [6, 7])
def test_random_words_read_as_mesa_reads_them(generation: int, part: int, tmp_path: Path) -> None:
    built, words = installed(), list(_words(generation, part))
    if built is None:
        pytest.skip("Turnip's tools are not built")
    listing = _built(words, generation, tmp_path, built.disassembler)
    wrong = [
        f"{word:016x}: {text}"
        for number, (word, text) in enumerate(zip(words, listing, strict=True))
        if not _agrees(word, generation, text, (number, len(words)))
    ]
    check(not wrong, "\n".join(wrong[:5]))


@pytest.mark.parametrize(
    ("word", "generation"), [(0xFFFFFFFFFFFFFFFF, 6), (0xC0C0000000000000, 6), (0xE3CA << 48, 6)]
)
def test_a_word_of_no_instruction_is_refused_by_name(word: int, generation: int) -> None:
    with pytest.raises(UnknownInstruction, match=f"{word:016x}") as caught:
        decode(word, generation)
    check((caught.value.word, caught.value.generation) == (word, generation))


# The words and texts are of Mesa 25.0.7, src/freedreno/ir3/tests/disasm.c
def test_operands_have_places_and_flags() -> None:
    added = decode(0x40100007_68000008, 6)  # add.f r1.w, r2.x, (neg)(0.0)
    check(added.dst is not None and added.dst.number == 7 and not added.dst.half)
    first, second = added.srcs
    check((first.space, first.number, first.neg) == (Space.REGISTER, 8, False))
    check((second.space, second.number, second.neg) == (Space.IMMEDIATE, 0, True))


def test_a_branch_has_a_signed_target() -> None:
    check(decode(0x00800000_FFFFFFFC, 6).target == -4)  # br p0.x, #-4
    check(decode(0x00900000_00000003, 6).fields["INV1"] == 1)  # br !p0.x, #3


def test_a_local_store_of_half_registers_is_told_by_its_type() -> None:
    stored = decode(0xC1060500_01800008 & ~(7 << 49) | 2 << 49, 6)  # stl.u16 l[r0.z], r1.x, 1
    check(stored.dst is None and [one.half for one in stored.srcs] == [False, True], str(stored))
