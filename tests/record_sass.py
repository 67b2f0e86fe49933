"""Record what nvdisasm prints for words of compiled kernels and for bit flips of them.

    python -m tests.record_sass sm_86 DIR/*.cubin > tests/data/sass_sm_86.txt

A word is kept when its text has a shape that no earlier word had (its numbers left out), so that
the file stays small. Then come bit flips, half of all lines.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tests.nvdisasm import REFUSED, WORD_BYTES, listing
from unbound import terminal

SEED = 14
WORD_BITS = 128
FLIPS = 400
_NUMBER = re.compile(r"(?<=R)\d+|(?<=P)\d|0x[0-9a-f]+|-?\d+\.\d+\S*")


def code_words(path: Path) -> Iterator[int]:
    """The words of a cubin's code sections."""
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section.name.startswith(".text"):
                data = section.data()
                for start in range(0, len(data), WORD_BYTES):
                    yield int.from_bytes(data[start : start + WORD_BYTES], "little")


def shapes(words: Iterable[int], arch: str) -> dict[str, int]:
    """One word for each shape of text."""
    unique = sorted(set(words))
    kept: dict[str, int] = {}
    for word, text in zip(unique, listing(unique, arch), strict=True):
        kept.setdefault(_NUMBER.sub("#", text), word)
    kept.pop(REFUSED, None)
    return kept


def main() -> None:
    """Print the recording of an architecture."""
    arch, *paths = sys.argv[1:]
    words = [word for path in sorted(paths) for word in code_words(Path(path))]
    generator = random.Random(SEED)
    kept = list(shapes(words, arch).values())
    kept += [generator.choice(words) ^ 1 << generator.randrange(WORD_BITS) for _ in range(FLIPS)]
    tool = version("nvidia-cuda-nvdisasm")
    sys.stdout.write(f"# nvdisasm {tool}, {arch}: word at address 0, text or {REFUSED}\n")
    for word, text in zip(kept, listing(kept, arch), strict=True):
        sys.stdout.write(f"{word:032x} {text}\n")


if __name__ == "__main__":
    terminal.run(lambda _: main())
