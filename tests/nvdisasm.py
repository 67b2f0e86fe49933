"""NVIDIA's disassembler as a witness, where a tester has installed its wheel."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.support import run_limited

WORD_BYTES = 16
REFUSED = "-"
TIMEOUT_S = 300
_NOP = 0x000FC000000000000000000000007918
_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$", re.MULTILINE)
_ERROR = re.compile(r"^nvdisasm error\s*:.* at address 0x([0-9a-fA-F]+)", re.MULTILINE)
_ADDRESS = re.compile(r"( at address )0x([0-9a-fA-F]+)")
_FATAL = "nvdisasm fatal"
RELATIVE = re.compile(r"(?:BRA|BSSY|CALL\.REL|RET\.REL|LEPC)\S* (?:.*[ ,])?(-?0x[0-9a-f]+)$")
"""A line whose last number is an address that counts from the word's own."""
_HEX = 16
_OPCODE = 0xFFF
MOST_ENDS = 2


def program() -> Path:
    """The tool of the wheel nvidia-cuda-nvdisasm; skips the test where there is none."""
    try:
        files = distribution("nvidia-cuda-nvdisasm").files or []
    except PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    return next(Path(str(one.locate())) for one in files if one.name == "nvdisasm")


def _run(words: Sequence[int], arch: str) -> tuple[str, str]:
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(word.to_bytes(WORD_BYTES, "little") for word in words))
        file.flush()
        command = [str(program()), "-b", arch.replace("sm_", "SM"), "-raw"]
        done = run_limited(
            [*command, file.name], capture_output=True, text=True, cpu_s=TIMEOUT_S, check=False
        )
    return done.stdout, done.stderr


def answer(words: Sequence[int], arch: str, ended: Counter[int] | None = None) -> tuple[str, str]:
    """The tool's listing of the words, one after the other from 0, and its errors.

    The tool ends at a word that two of its patterns match: it is asked again from the next one on.
    With ``ended``, ends are counted by opcode, and after some its words are not asked any more.
    The listing is whole where there is no error.
    """
    start, errors, asked = 0, "", list(words)
    while start < len(words):
        if ended:
            asked = [_NOP if ended[word & _OPCODE] > MOST_ENDS else word for word in asked]
        stdout, stderr = _run(asked[start:], arch)
        errors += _ADDRESS.sub(partial(_moved, by=start * WORD_BYTES), stderr)
        if _FATAL not in stderr:
            return stdout, errors
        place = start + _end(asked[start:], arch, stderr)
        errors += f"nvdisasm error   : ends at address {place * WORD_BYTES:#x}\n"
        start = place + 1
        if ended is not None:
            ended[words[place] & _OPCODE] += 1
    return "", errors


def _end(words: Sequence[int], arch: str, stderr: str) -> int:
    """The place of the first word at which the tool ends."""
    before = stderr.partition(_FATAL)[0]
    low = max((int(one, _HEX) // WORD_BYTES for _, one in _ADDRESS.findall(before)), default=-1) + 1
    if _FATAL in _run(words[low : low + 1], arch)[1]:
        return low
    high = len(words) - 1
    while low < high:
        middle = (low + high) // 2
        if _FATAL in _run(words[low : middle + 1], arch)[1]:
            high = middle
        else:
            low = middle + 1
    return low


def _moved(found: re.Match[str], by: int) -> str:
    return f"{found[1]}{int(found[2], _HEX) + by:#x}"


def _at_zero(text: str, address: int) -> str:
    """The line as it would be at address 0: branch targets move with the word."""
    found = RELATIVE.search(text)
    if not found:
        return text
    target = int(found[1], _HEX) - address
    return f"{text[: found.start(1)]}{'-' if target < 0 else ''}{abs(target):#x}"


def listing(words: Sequence[int], arch: str) -> list[str]:
    """The tool's text of each word by itself, at address 0; ``-`` where it refuses the word.

    It leaves out the line of a few words without an error: they count as refused.
    """
    left = dict(enumerate(words))
    while left:
        stdout, stderr = answer([left.get(place, _NOP) for place in range(len(words))], arch)
        bad = {int(address, _HEX) // WORD_BYTES for address in _ERROR.findall(stderr)}
        if not bad & left.keys():
            break
        left = {place: word for place, word in left.items() if place not in bad}
    texts = {int(address, _HEX) // WORD_BYTES: text for address, text in _LINE.findall(stdout)}
    return [
        _at_zero(texts[place], place * WORD_BYTES) if place in left and place in texts else REFUSED
        for place in range(len(words))
    ]
