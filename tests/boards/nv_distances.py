"""Least distances that nvrtc leaves: `python -m tests.boards.nv_distances sm_90a`, after make nv.

For code without a branch between writer and reader: the fewest cycles of stalls from an instruction
of one class to one of another that reads its result, beside what latency.py asks for. A distance
below the table's would be a false violation; none is one above it a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from boards.nv.isa.control import Control
from boards.nv.warp.arch import Arch, of_chip
from boards.nv.warp.build import REGISTER, UNIFORM, Builder
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.latency import CLASSES
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import UNIFORM as UNIFORM_OPERATIONS
from boards.nv.warp.opcodes import action
from boards.nv.warp.reach import Reach
from tests.boards.nv_warp_harness import chip_of, compiled
from tests.boards.nv_warp_kernels import CASES
from unbound import terminal

WORD_BYTES, OPERATION = 16, 0x1FF
BANKS = {number: bytes(1 << 16) for number in range(8)}
FILES = {REGISTER: "register", UNIFORM: "uniform"}
Pair = tuple[int, str, str]


def built(word: int, pc: int, arch: Arch) -> Builder | None:
    """An instruction's reads, writes and class; None for one that is not modelled."""
    build = Builder(word, pc, BANKS, arch)
    build.take(0, 12)
    try:
        build.predicate_in(12, 15, uniform=word & OPERATION in UNIFORM_OPERATIONS)
        action(build, Reach(cast(GlobalMemory, None), BANKS, lambda what: None))
    except NotModelled:
        return None
    return build


def distances(code: bytes, arch: Arch) -> Iterator[tuple[Pair, int]]:
    """(file, writer's class, reader's class) and cycles, in straight-line code."""
    clock, written = 0, dict[tuple[int, int], tuple[str, int]]()
    for pc in range(0, len(code), WORD_BYTES):
        word = int.from_bytes(code[pc : pc + WORD_BYTES], "little")
        build = built(word, pc, arch)
        if build is None or build.latency == "control":
            written.clear()
            continue
        for file, number, _ in build.reads:
            if (file, number) in written and file in FILES:
                writer, when = written[file, number]
                yield (file, writer, build.latency), clock - when
        for place, (file, number) in enumerate(build.writes):
            upper = build.latency == "wide" and place % 2
            written[file, number] = ("high" if upper else build.latency, clock)
        clock += max(1, Control.of(word).stall)


def main(arguments: list[str]) -> int:
    """Print them for each architecture."""
    for name in arguments or ["sm_75", "sm_86", "sm_90a", "sm_120"]:
        least: dict[Pair, int] = {}
        for case in CASES:
            code, record, _ = compiled(case.source, name)
            arch = of_chip(chip_of(record.sm))
            for pair, cycles in distances(code, arch):
                least[pair] = min(cycles, least.get(pair, cycles))
        for (file, writer, reader), cycles in sorted(least.items()):
            if writer not in CLASSES or reader in ("wide", "high"):
                continue
            latencies = arch.latencies
            tables = latencies.registers if file == REGISTER else latencies.uniforms
            asked = int(tables.get(reader, tables["alu"])[CLASSES[writer]])
            note = "" if cycles >= asked else "  below"
            print(f"{name} {FILES[file]:8} {writer:7} -> {reader:8} {cycles:3} >= {asked}{note}")
    return 0


if __name__ == "__main__":
    terminal.run(main)
