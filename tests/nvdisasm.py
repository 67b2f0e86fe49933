"""NVIDIA's disassembler as a witness, where a tester has installed its wheel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

WORD_BYTES = 16
REFUSED = "-"
TIMEOUT_S = 300
_NOP = 0x000FC000000000000000000000007918
_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$", re.MULTILINE)
_ERROR = re.compile(r"^nvdisasm error\s*:.* at address 0x([0-9a-fA-F]+)", re.MULTILINE)
RELATIVE = re.compile(r"(?:BRA|BSSY|CALL\.REL|RET\.REL)\S* (?:.*[ ,])?(-?0x[0-9a-f]+)$")
"""A line whose last number is an address that counts from the word's own."""
_HEX = 16


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
        command = [str(program()), "-b", arch.replace("sm_", "SM"), "-raw", file.name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    return done.stdout, done.stderr


def _at_zero(text: str, address: int) -> str:
    """The line as it would be at address 0: branch targets move with the word."""
    found = RELATIVE.search(text)
    if not found:
        return text
    target = int(found[1], _HEX) - address
    return f"{text[: found.start(1)]}{'-' if target < 0 else ''}{abs(target):#x}"


def listing(words: Sequence[int], arch: str) -> list[str]:
    """The tool's text of each word by itself, at address 0; ``-`` where it refuses the word."""
    left = dict(enumerate(words))
    while left:
        stdout, stderr = _run([left.get(place, _NOP) for place in range(len(words))], arch)
        bad = {int(address, _HEX) // WORD_BYTES for address in _ERROR.findall(stderr)}
        if not bad & left.keys():
            break
        left = {place: word for place, word in left.items() if place not in bad}
    texts = {int(address, _HEX) // WORD_BYTES: text for address, text in _LINE.findall(stdout)}
    return [
        _at_zero(texts[place], place * WORD_BYTES) if place in left and place in texts else REFUSED
        for place in range(len(words))
    ]
