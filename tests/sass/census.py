"""The kernels that the decoder is held to, compiled for an architecture by nvrtc (`make nv`)."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from compilers.nv import nvrtc

SOURCE = Path(__file__).parent / "census.cu"
WORD_BYTES = 16
_TEXT = ".text."


@cache
def cubin(arch: str) -> bytes:
    """All kernels of census.cu that the architecture has. Raises: NotFound without nvrtc."""
    return nvrtc.compile_object(SOURCE.read_text("ascii"), arch, frozenset())


@cache
def kernels(arch: str) -> dict[str, tuple[int, ...]]:
    """The words of each kernel and of each function that kernels call."""
    out: dict[str, tuple[int, ...]] = {}
    for section in ELFFile(io.BytesIO(cubin(arch))).iter_sections():
        if section.name.startswith(_TEXT):
            data = section.data()
            starts = range(0, len(data), WORD_BYTES)
            out[section.name.removeprefix(_TEXT)] = tuple(
                int.from_bytes(data[start : start + WORD_BYTES], "little") for start in starts
            )
    return out


def words(arch: str) -> list[int]:
    """Each word of all kernels once, in order of first use."""
    return list(dict.fromkeys(word for one in kernels(arch).values() for word in one))
