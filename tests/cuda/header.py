"""cuda.h of the toolkit's wheel (extra `nv-tools`): prototypes, numbers and names of symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

WHEEL: Final = "nvidia-cuda-runtime"
LACKING: Final = "no cuda.h: make nv"
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_PROTOTYPE: Final = re.compile(r"CUresult CUDAAPI (cu\w+)\(([^;]*?)\);")
_RENAMED: Final = re.compile(r"#define (cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?")
_ENUM: Final = re.compile(r"\b(CUD?A?_\w+)\s*=\s*(0x[0-9a-fA-F]+|\d+)")
_DEFINED: Final = re.compile(r"#define (CU_\w+)\s+\(?(0x[0-9a-fA-F]+|\d+)\)?")


@dataclass(frozen=True)
class Header:
    """What cuda.h says."""

    text: str
    prototypes: dict[str, str]
    """Symbol -> parameters."""
    numbers: dict[str, int]


def path_of() -> Path | None:
    try:
        files = metadata.files(WHEEL) or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == "cuda.h")
    return next((path for path in found if path.exists()), None)


@cache
def header() -> Header:
    """The header; skips where it is missing."""
    path = path_of()
    if path is None:
        pytest.skip(LACKING)
    text = _COMMENT.sub(" ", path.read_text())
    declared: dict[str, str] = {}
    for name, args in _PROTOTYPE.findall(text):  # older versions of a function follow
        declared.setdefault(name, " ".join(args.split()))
    renamed = {to: name for name, to in _RENAMED.findall(text)}
    prototypes = {to: declared[name] for to, name in renamed.items() if name in declared}
    numbers = {name: int(value, 0) for name, value in _ENUM.findall(text)}
    numbers |= {name: int(value, 0) for name, value in _DEFINED.findall(text)}
    return Header(text, declared | prototypes, numbers)
