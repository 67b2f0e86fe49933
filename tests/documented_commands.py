"""The commands that documents show: lines of their blocks, and what stands between backticks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
_SETTING = r"[A-Z][A-Z0-9_]*=\S*"
_SET = re.compile(r"(?s)[A-Z][A-Z0-9_]*=.*")
_PROGRAM = r"(?:\.venv/bin/)?(?:python3?|pip|make)"
_LINE = re.compile(rf"^ {{4,}}((?:{_SETTING} )*{_PROGRAM} .*)$")
_FENCED = re.compile(rf"^((?:{_SETTING} )*{_PROGRAM} .*)$")
_FENCE = re.compile(r"^ *```(\w*)")
_SHELL = ("", "sh", "bash", "console")
_INLINE = re.compile(rf"`((?:{_SETTING} )*{_PROGRAM} [^`]*)`")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what is set for it, its words, and where it stands."""

    place: str
    text: str
    settings: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    """The program's name first; without comments, and without what follows "..." or ">"."""


def command(place: str, text: str) -> Command:
    """Raises: ValueError where a shell would wait for another quotation mark."""
    words = shlex.split(text, comments=True)
    leading = next((n for n, word in enumerate(words) if not _SET.fullmatch(word)), len(words))
    settings = [word.partition("=") for word in words[:leading]]
    rest = words[leading:]
    ends = [rest.index(mark) for mark in ("...", ">", "|", "&&") if mark in rest]
    return Command(
        place,
        shlex.join(words),
        tuple((name, value) for name, _, value in settings),
        tuple(rest[: min(ends, default=len(rest))]),
    )


def _block_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of indented blocks and of fenced ones that are for a shell, continuations joined."""
    fence: str | None = None
    begun, whole = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if whole:
            whole += line.strip()
        elif mark := _FENCE.match(line):
            fence = mark[1] if fence is None else None
        elif fence in (None, *_SHELL):
            found = (_LINE if fence is None else _FENCED).match(line)
            begun, whole = number, found[1] if found else ""
        if whole.endswith("\\"):
            whole = whole[:-1]
        elif whole:
            yield begun, whole
            whole = ""


def in_blocks() -> list[Command]:
    """Every command line of an indented or fenced block."""
    return [
        command(f"{path.relative_to(ROOT)}:{number}", line)
        for path in DOCUMENTS
        for number, line in _block_lines(path.read_text())
    ]


def in_texts() -> list[Command]:
    """Every command between backticks in prose."""
    return [
        command(str(path.relative_to(ROOT)), " ".join(found.split()))
        for path in DOCUMENTS
        for found in _INLINE.findall(re.sub(r"(?s)```.*?```", "", path.read_text()))
    ]
