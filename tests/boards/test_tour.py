"""docs/tour.md: its commands are run, and what it shows is compared with what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import documented_commands
from tests.amd_toolbox import needs_libllvm
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
TOUR = (ROOT / "docs" / "tour.md").read_text()
ADDRESSES = re.compile(r"^( *(?:COMPUTE_PGM_(?:LO|HI)|COMPUTE_USER_DATA_\d)) =.*$", re.MULTILINE)
"""Registers whose values differ from run to run."""
POINTERS = re.compile(r"[0-9a-f]{8} 00007[0-9a-f]{3}|(?<=addr=)0x[0-9a-f]+")
"""Addresses of this process: two words, low half first, or in a field."""


def shown(heading: str, language: str = "text") -> list[str]:
    """The fenced blocks below a heading."""
    section = TOUR.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"(?s)```{language}\n(.*?)```", section)


def words(text: str) -> str:
    """Its words, one blank between, without what differs from run to run."""
    return POINTERS.sub("*", " ".join(ADDRESSES.sub(r"\1", text).split()))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the page prints, run in its order: by heading."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / "examples").symlink_to(ROOT / "examples")
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "UNBOUND_CACHE": str(folder)}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        needs_more = "compilers.disasm" in command  # libLLVM: its output is asked for below
        check(done.returncode == 0 or needs_more, f"{command}: {done.stderr}")
        return done.stdout + done.stderr

    commands = [each for each in documented_commands.in_blocks() if "tour.md" in each.place]
    outputs = [run(*each.words[1:]) for each in commands]
    outputs[-1] = run("-c", *shown("The doorbell and the fence", "python"))
    ring = np.frombuffer((folder / "ring.bin").read_bytes(), "<u4")
    headings = ("The program", "The kernel", "The packets", "The doorbell and the fence")
    return {**dict(zip(headings, outputs, strict=True)), "ring": " ".join(f"{n:08x}" for n in ring)}


@pytest.mark.parametrize(
    "heading",
    [
        pytest.param(each, marks=[needs_libllvm] if each == "The kernel" else [])
        for each in re.findall(r"^## (The .*)$", TOUR, re.MULTILINE)
    ],
)
def test_what_the_page_shows_is_what_the_commands_print(
    printed: dict[str, str], heading: str
) -> None:
    real, blocks = words(printed[heading]), shown(heading)
    check(blocks, heading)
    for block in blocks:
        if not block.startswith("word "):
            for piece in map(words, block.split("...\n")):
                check(piece in real, f"not printed: {piece}\nprinted: {real}")
                real = real.partition(piece)[2]


def test_single_words_are_those_in_the_ring(printed: dict[str, str]) -> None:
    ring = printed["ring"].split()
    block = next(each for each in shown("The packets") if each.startswith("word "))
    rows = re.findall(r"^ +(\d+)  ([0-9a-f]{8}) ", block, re.MULTILINE)
    check(len(rows) == 5, str(rows))
    for place, value in rows:
        check(ring[int(place)] == value, f"word {place} is {ring[int(place)]}, not {value}")
    arguments = [
        int(high + low, 16) for low, high in zip(ring[20:26:2], ring[21:26:2], strict=True)
    ]
    c, a, b = arguments
    check((c - a, b - a) == (256, 128), f"{arguments} are not 128 bytes apart")
