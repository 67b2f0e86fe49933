"""WGSL to a kernel of one device: checked by the library that has it open."""

from __future__ import annotations

import re
from typing import Final

from drivers.base.errors import MalformedInput
from drivers.webgpu.modules import builder
from queues.webgpu.kernel_code import WgslCode

_HEAD: Final = re.compile(r"//! ([rw]*) (\d{1,6}) (\d{1,9})\n")


def identity() -> bytes:
    """Nothing: the name of the architecture stands for adapter and driver version."""
    return b""


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Check a module of one kernel.

    Raises: CompileError with the library's log, the source and its line; Unsupported where no
    device of that architecture is open.
    """
    head = _HEAD.match(source)
    if head is None:
        raise MalformedInput("a WGSL module says no accesses", hint="render it from a kernel")
    builder(arch).check(source)
    return WgslCode(source.encode(), head[1].encode(), int(head[2]), int(head[3])).encode()
