"""OpenCL C to a kernel of one device, by the driver that has it open."""

from __future__ import annotations

import re
from typing import Final

from drivers.cl.building import builder

BLOCK: Final = "work_group_size_hint({}, 1, 1)"
"""What a renderer writes of the lanes of a workgroup. A hint alone: launches may ask for fewer."""
_BLOCK: Final = re.compile(r"work_group_size_hint\((\d{1,6}), 1, 1\)")


def identity() -> bytes:
    """Nothing: the name of the architecture stands for device and driver version."""
    return b""


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Build a program of one kernel.

    Raises: CompileError with the build log and the source; Unsupported where no device of that
    architecture is open.
    """
    found = _BLOCK.search(source)
    return builder(arch).build(source, int(found[1]) if found else 0).encode()
