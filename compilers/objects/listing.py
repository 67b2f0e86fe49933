"""A Binary as annotated assembly: labels for jump targets, names for calls and data, the hot loop.

Its family decodes it (compilers/families.py): unknown instructions are shown as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compilers.families import family_of
from compilers.instruction import Instruction
from drivers.base.contracts import Binary


def disassemble(binary: Binary) -> list[Instruction]:
    """Every instruction of the code part, in order, annotated.

    Raises: Unsupported for an architecture that cannot be decoded; NotFound.
    """
    lines = list(family_of(binary.arch).instructions(binary))
    while lines and not any(lines[-1].code):  # each iteration drops a line
        lines.pop()
    labels = _labels(binary, lines)
    hot = _hot_loop(lines)
    return [
        replace(
            line,
            label=labels.get(line.address, ""),
            note=line.note or labels.get(line.target if line.target is not None else -1, ""),
            hot=line.address in hot,
        )
        for line in lines
    ]


def _labels(binary: Binary, lines: list[Instruction]) -> dict[int, str]:
    """Those that the family gave, numbers for other targets of jumps, and the entry's name."""
    given = {line.address: line.label for line in lines if line.label}
    targets = {line.target for line in lines if line.target is not None}
    places = sorted(targets & {line.address for line in lines} - set(given))
    labels = {place: f"L{number}" for number, place in enumerate(places)}
    entered = any(line.address == binary.entry for line in lines)  # else it is a descriptor
    entry = binary.entry if entered or not lines else lines[0].address
    return labels | given | {entry: binary.name}


def _hot_loop(lines: list[Instruction]) -> range:
    """The addresses of the loop that most of the time is likely spent in."""
    loops = [
        range(line.target, line.end)
        for line in lines
        if line.jump and line.target is not None and line.target <= line.address
    ]
    inner = [
        loop for loop in loops if not any(other != loop and _within(other, loop) for other in loops)
    ]

    def heat(loop: range) -> tuple[int, int, int]:
        depth = sum(_within(loop, other) for other in loops)
        body = [line for line in lines if line.address in loop]
        wide = sum("zmm" in line.text or "ymm" in line.text for line in body)
        return depth, wide, len(body)

    return max(inner, key=heat, default=range(0))


def _within(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def render(lines: Iterable[Instruction]) -> Iterator[str]:
    """The listing as text, a `>` before every line of the hot loop."""
    for line in lines:
        if line.label:
            yield f"{line.label}:"
        mark = ">" if line.hot else " "
        note = f"  ; {line.note}" if line.note else ""
        yield f" {mark} {line.address:6x}  {line.code.hex():<24} {line.text}{note}"
