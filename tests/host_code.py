"""Host code of an object file, loaded as the CPU device loads it.

Not by LLVM's MCJIT: its sections may be further apart than code of the small model reaches, and
then it ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilers.objects import elf
from drivers.base.contracts import Region
from drivers.cpu.program import map_image
from drivers.world.linux import LinuxWorld

_WORLD = LinuxWorld()
_kept: list[Region] = []


def addresses(blob: bytes, names: Sequence[str]) -> list[int]:
    """Addresses of an x86-64 object's functions, each loaded in an image of its own."""
    found = []
    for name in names:
        binary = elf.load(blob, name, "x86_64")
        _kept.append(map_image(_WORLD, binary, "x86_64"))
        found.append(_kept[-1].cpu_va + binary.entry)
    return found
