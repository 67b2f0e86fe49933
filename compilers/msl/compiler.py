"""MSL to what a Metal device loads: the source itself, which macOS compiles and keeps."""

from __future__ import annotations

import re
from typing import Final

from drivers.base.errors import CompileError
from queues.metal.kernel_code import MetalCode

_BLOCK: Final = re.compile(r"\[\[max_total_threads_per_threadgroup\((\d{1,5})\)\]\]")
_BUFFER: Final = re.compile(r"\[\[buffer\(\d+\)\]\]")
_SHARED: Final = re.compile(r"^// threadgroup bytes: (\d{1,9})$", re.M)


def identity() -> bytes:
    """Nothing: nothing is compiled before the device is there."""
    return b""


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """The source of one kernel with what a launch needs. Raises: CompileError without that."""
    block, shared = _BLOCK.search(source), _SHARED.search(source)
    if block is None or shared is None:
        raise CompileError(
            "the source does not say how many lanes and bytes a threadgroup has",
            source=source, hint="use the source of compilers/msl/render.py",
        )  # fmt: skip
    return MetalCode(
        source=source.encode(),
        nargs=len(_BUFFER.findall(source)),
        block=int(block[1]),
        shared_bytes=int(shared[1]),
    ).encode()
