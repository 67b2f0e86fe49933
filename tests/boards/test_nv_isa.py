"""SASS words decode to the text that nvdisasm printed for them.

``tests/data/sass_*.txt`` hold words of compiled kernels and bit flips of them with the tool's
answer; ``python -m tests.record_sass`` makes them. Nothing in them comes from our decoder.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from boards.nv.isa.control import Control
from boards.nv.isa.decode import Guard, UnknownInstruction, decode
from boards.nv.isa.table import NoTable, architectures, table, table_file
from boards.nv.isa.text import word_text
from tests.nv_cubins import needs_nvrtc
from tests.nvdisasm import listing, program
from tests.sass import census
from tests.sass.make import again
from tests.support import check

DATA = Path(__file__).parent.parent / "data"
ARCHS = architectures()
HEX = 16
OPCODE_MASK = 0xFFF
UNFINISHED_SHARE = 0.1
WORD_BITS = 128
REFUSED = "-"


def recorded(arch: str) -> list[tuple[int, str]]:
    """Words and the tool's text; ``-`` where it refused the word. All were at address 0."""
    lines = (DATA / f"sass_{arch}.txt").read_text("ascii").splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return [(int(word, HEX), text) for word, text in pairs]


def ours(word: int, arch: str) -> str:
    """Our text, or ``-`` where the decoder refuses the word."""
    try:
        return word_text(word, arch)
    except UnknownInstruction:
        return REFUSED


def differences(pairs: Iterable[tuple[int, str]], arch: str) -> tuple[list[str], int]:
    """Lines that differ, and how many words of unfinished opcodes were refused instead."""
    wrong: list[str] = []
    refused = 0
    for word, text in pairs:
        made = ours(word, arch)
        if made == text:
            continue
        if made == REFUSED and word & OPCODE_MASK in table(arch).unfinished:
            refused += 1
        else:
            wrong.append(f"{word:032x} {text} | {made}")
    return wrong, refused


def compared(words: Sequence[int], arch: str) -> tuple[list[str], int]:
    """Words that print another text than the tool's, and how many only the decoder refuses."""
    rows = [(w, told, ours(w, arch)) for w, told in zip(words, listing(words, arch), strict=True)]
    wrong = [f"{w:032x} {told} | {made}" for w, told, made in rows if made not in (told, REFUSED)]
    return wrong, sum(made == REFUSED != told for _, told, made in rows)


@pytest.mark.parametrize("arch", ARCHS)
def test_words_of_compiled_kernels_print_as_the_tool_prints_them(arch: str) -> None:
    """Each recorded word: equal, or refused because its opcode is named as unfinished."""
    words = recorded(arch)
    wrong, refused = differences(words, arch)
    check(not wrong, f"{len(wrong)} differ, first: {wrong[:3]}")
    check(refused <= UNFINISHED_SHARE * len(words), f"{refused} of {len(words)} refused")


@pytest.mark.parametrize("arch", ARCHS)
def test_every_bit_of_a_word_is_read(arch: str) -> None:
    """A flip of any guard, opcode or control bit changes what was decoded, or is refused."""
    generator = random.Random(14)
    words = [word for word, _ in recorded(arch) if ours(word, arch) != REFUSED]
    for word in generator.sample(words, 40):
        first = decode(word, arch)
        for bit in (*range(12, 16), *range(110, 122)):
            try:
                other = decode(word ^ 1 << bit, arch)
            except UnknownInstruction:
                continue
            same = other.control == first.control and other.guard == first.guard
            check(not same, f"bit {bit} of {word:032x}")


def test_the_parts_of_an_instruction_are_named() -> None:
    """IMAD R0, R8, c[0x0][0x0], R9 behind a scoreboard wait, as the census has it."""
    # src: nvdisasm 13.5.37 on a compiled kernel: IMAD R0, R8, c[0x0][0x0], R9
    made = decode(0x001FCA00078E02090000000008007A24, "sm_86")
    check(made.mnemonic == "IMAD")
    check([one.kind for one in made.operands] == ["register", "register", "constant", "register"])
    numbers = [tuple(part.value for part in one.numbers) for one in made.operands]
    check(numbers == [(0,), (8,), (0, 0), (9,)], str(numbers))
    check(made.guard == Guard(7, False) and made.guard.always)
    # src: Mesa sm70_encode.rs: stall at 105, yield 109, barriers 110 and 113, wait mask 116
    wanted = Control(stall=5, yields=True, write_barrier=None, read_barrier=None, wait=1, reuse=0)
    check(made.control == wanted, str(made.control))


def test_an_architecture_without_a_table_is_refused() -> None:
    """The message lists the architectures that have one."""
    with pytest.raises(NoTable, match="sm_86"):
        table("sm_70")


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_every_instruction_of_compiled_kernels(arch: str) -> None:
    """All words of at least 50 kernels, compiled here: equal, or refused by name."""
    program()
    kernels = census.kernels(arch)
    check(len(kernels) >= KERNELS, f"{len(kernels)} kernels")
    words = census.words(arch)
    wrong, refused = compared(words, arch)
    check(not wrong, f"{len(wrong)} differ, first: {wrong[:3]}")
    check(refused <= MOST_REFUSED_WORDS * len(words), f"{refused} refused")


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_bit_flips_of_compiled_kernels(arch: str) -> None:
    """20,000 flips of one bit: no other text, and few that we alone refuse."""
    program()
    generator = random.Random(SEED)
    words = census.words(arch)
    flips = [generator.choice(words) ^ 1 << generator.randrange(WORD_BITS) for _ in range(FLIPS)]
    wrong, refused = compared(flips, arch)
    check(not wrong, f"seed {SEED}: {len(wrong)} differ, first: {wrong[:3]}")
    check(refused <= MOST_REFUSED_FLIPS * FLIPS, f"seed {SEED}: {refused} refused")


@pytest.mark.parametrize("arch", ARCHS)
def test_forms_measured_again_are_those_of_the_table(arch: str) -> None:
    """Five opcodes, measured from the words that the table keeps: equal to the file."""
    program()
    stored = json.loads(table_file(arch).read_text("ascii"))
    sample = random.Random(14).sample(sorted(stored["opcodes"]), 5)
    made = again(arch, {int(one, HEX) for one in sample})
    check(made["tool"] == stored["tool"], f"made by {stored['tool']}: run `make nv`")
    check(made["sha256"] == stored["sha256"], "inputs changed: python -m tests.sass")
    check(sorted(made["opcodes"]) == sorted(sample))
    for opcode, tree in made["opcodes"].items():
        check(_masked(tree, made) == _masked(stored["opcodes"][opcode], stored), opcode)


def _masked(tree: Any, data: Any) -> Any:
    """A tree with the masks of schedules in place of their names."""
    if isinstance(tree, dict) and "opex" in tree:
        return {**tree, "opex": data["opex"][tree["opex"]]}
    if isinstance(tree, dict):
        return {key: _masked(value, data) for key, value in tree.items()}
    return tree


FLIPS = 20_000
SEED = 2026
KERNELS = 50
MOST_REFUSED_FLIPS = 0.001
MOST_REFUSED_WORDS = 0.001
