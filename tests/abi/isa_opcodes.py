"""Every opcode that LLVM's disassembler knows of an encoding: what `boards/amd/isa` was made from.

`python -m tests.abi.isa_opcodes gfx1100 [VOP1 ...]` prints `ENCODING OPCODE MNEMONIC` lines, and
marks with `!` what the board's tables do not have. Needs libLLVM 19 (Debian: libllvm19).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator

from boards.amd.isa.decode import Family
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.layout import Encoding
from tests.abi.llvm_disassembler import Disassembler, open_disassembler

_TRIES = 24
"""Operands are random: most choices are legal for most instructions."""
_FILLER = bytes.fromhex("44332211") * 2
_REFUSED = ("Invalid", "Warning", "/*")
_SUFFIXES = ("_e32", "_e64", "_dpp", "_sdwa")


def mnemonic(oracle: Disassembler, encoding: Encoding, opcode: int) -> str | None:
    """LLVM's name of an opcode, without the suffix of its encoding; None: no such opcode."""
    low, width = encoding.opcode
    rnd = random.Random(opcode)
    bits = 32 * encoding.dwords
    free = ~encoding.mask & ~((1 << width) - 1 << low) & (1 << bits) - 1
    for number in range(_TRIES):
        mask = (0, 0x01010101_01010101_01010101, 0x7F7F7F7F_7F7F7F7F_7F7F7F7F)[min(number, 2)]
        word = encoding.value | opcode << low | rnd.getrandbits(bits) & free & mask
        found = oracle.at(word.to_bytes(bits // 8, "little") + _FILLER)
        if found and not any(words in found[1] for words in _REFUSED):
            name = found[1].split()[0]
            for suffix in _SUFFIXES:
                name = name.removesuffix(suffix)
            return name
    return None


def _belongs(family: Family, encoding: Encoding, opcode: int) -> bool:
    """Whether no narrower encoding takes the opcode's bits: SOPP and others lie within SOP2."""
    word = encoding.value | opcode << encoding.opcode[0]
    first = next(one for one in family.layouts if word & one.mask == one.value)
    return (first.mask, first.value) == (encoding.mask, encoding.value)


def census(oracle: Disassembler, family: Family, encoding: Encoding) -> Iterator[tuple[int, str]]:
    """Every opcode of an encoding that LLVM knows, with its name."""
    _, width = encoding.opcode
    for opcode in range(1 << width):
        name = mnemonic(oracle, encoding, opcode) if _belongs(family, encoding, opcode) else None
        if name is not None:
            yield opcode, name


def lacking(oracle: Disassembler, family: Family, encoding: Encoding) -> set[str]:
    """Mnemonics of an encoding that LLVM knows and the board's tables do not have.

    Two tables with one encoding, as VOP3 and VOP3SD, count as one.
    """
    bits = encoding.mask, encoding.value
    tables = [one.entries for one in family.layouts if (one.mask, one.value) == bits]
    found = census(oracle, family, encoding)
    return {name for opcode, name in found if not any(opcode in table for table in tables)}


def main() -> int:
    """Prints the census of a chip."""
    parser = argparse.ArgumentParser(prog="python -m tests.abi.isa_opcodes", description=__doc__)
    parser.add_argument("chip", choices=sorted(FAMILIES))
    parser.add_argument("encodings", nargs="*", help="such as VOP1; none: all")
    asked = parser.parse_args()
    oracle, family = open_disassembler(asked.chip), FAMILIES[asked.chip]
    for encoding in family.layouts:
        if not asked.encodings or encoding.name in asked.encodings:
            absent = lacking(oracle, family, encoding)
            for opcode, name in census(oracle, family, encoding):
                print(f"{'!' if name in absent else ' '} {encoding.name} {opcode:#x} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
