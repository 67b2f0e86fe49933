"""The board's list of registers that a GPU has: `python -m generators.adreno_registers MESA 6`.

Input: Mesa's src/freedreno/registers/adreno/a6xx.xml, the domain A6XX. A line is `first last`, in
hexadecimal: registers in a row. Those of other generations than the one asked for are left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from generators.source import Source, Unreadable
from unbound import terminal

FILE: Final = "src/freedreno/registers/adreno/a6xx.xml"
GENERATIONS: Final = (6, 7)
_RELEASE: Final = "Mesa 25.0.7"
_DOMAIN: Final = "A6XX"
_VARIANT: Final = re.compile(r"A(\d)XX(-(?:A(\d)XX)?)?")
_WORDS: Final = {"reg32": 1, "reg64": 2}
_LATEST: Final = 9


def _tree(text: str) -> Element:
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: builder.start(name, attributes)
    parser.EndElementHandler = builder.end
    parser.Parse(text, True)
    return builder.close()


def _in(variants: str | None, generation: int) -> bool:
    """Whether a generation has what is of these variants."""
    if not variants:
        return True
    for part in variants.split(","):
        found = _VARIANT.fullmatch(part.strip())
        if found is None:
            raise Unreadable(f"variants {variants}")
        first = int(found[1])
        last = int(found[3]) if found[3] else _LATEST if found[2] else first
        if first <= generation <= last:
            return True
    return False


def _number(element: Element, name: str, default: int) -> int:
    return int(element.get(name, str(default)), 0)


def _inside(parent: Element, base: int, generation: int) -> Iterator[int]:
    """Registers of a domain, an array or a stripe."""
    for element in parent:
        if not _in(element.get("variants"), generation):
            continue
        at = base + _number(element, "offset", 0)
        if element.tag in _WORDS:
            words = _WORDS[element.tag]
            stride = _number(element, "stride", words)
            for index in range(_number(element, "length", 1)):
                yield from range(at + index * stride, at + index * stride + words)
        elif element.tag == "array":
            stride, length = _number(element, "stride", 1), _number(element, "length", 1)
            if not any(child.tag in (*_WORDS, "array") for child in element):
                yield from range(at, at + stride * length)
            for index in range(length):
                yield from _inside(element, at + index * stride, generation)
        elif element.tag == "stripe":
            yield from _inside(element, base, generation)


def ranges(text: str, generation: int) -> list[tuple[int, int]]:
    """First and last of registers in a row. Raises: Unreadable."""
    found: list[tuple[int, int]] = []
    domains = [one for one in _tree(text).iter("domain") if one.get("name") == _DOMAIN]
    registers = {number for one in domains for number in _inside(one, 0, generation)}
    for number in sorted(registers):
        if found and found[-1][1] + 1 == number:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    if not found:
        raise Unreadable(f"{FILE} has no registers of generation {generation}")
    return found


def make(source: Source, generation: int) -> str:
    """The whole file. Raises: Unreadable."""
    found = ranges(source.read(FILE), generation)
    head = (
        f"# made by: python -m generators.adreno_registers MESA {generation}\n"
        f"# src: {_RELEASE}, {FILE}, sha256 {source.digests[FILE]}\n"
    )
    return head + "".join(f"{first:x} {last:x}\n" for first, last in found)


def main() -> int:
    """Prints the list."""
    parser = argparse.ArgumentParser(prog="python -m generators.adreno_registers")
    parser.add_argument("mesa", type=Path, help="Mesa's source tree")
    parser.add_argument("generation", type=int, choices=GENERATIONS)
    asked = parser.parse_args()
    try:
        sys.stdout.write(make(Source(asked.mesa), asked.generation))
    except (Unreadable, expat.ExpatError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
