"""The report of kernels for NVIDIA GPUs: instructions, bytes and matrix clocks of a step.

Counted in the text of the machine code. A step is a turn of the hot loop of one warp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compilers import toolchains
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.nv.rates import is_matrix, matrix_clocks
from compilers.objects.listing import disassemble
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Binary
from queues.nv.kernel_code import NvCode

UNITS: Final = 128
"""Multiprocessors that lowering plans for: between those of a small and a large GPU."""
_LOAD: Final = re.compile(r"\b(?:LDGSTS|LDG)\b(?:\.\w+)*")
_BITS: Final = re.compile(r"\.(?:U|S)?(8|16|64|128)\b")
_WORD_BITS, _BYTE_BITS = 32, 8


@dataclass(frozen=True, slots=True)
class NvStep:
    """A turn of a kernel's hot loop, or all of it where it has none."""

    looped: bool
    instructions: int
    loaded_bytes: int
    """From global memory, of one lane."""
    matrix: int
    """Matrix instructions."""
    matrix_clocks: float | None
    """Least clocks of them; None: the rate is not known."""


def loaded_bytes(text: str) -> int:
    """What a lane loads from global memory by one instruction."""
    found = _LOAD.search(text)
    if found is None:
        return 0
    bits = _BITS.search(found[0])
    return (int(bits[1]) if bits else _WORD_BITS) // _BYTE_BITS


def count(binary: Binary) -> NvStep:
    """Count a compiled kernel. Raises: see `compilers.nv.disasm.listed`."""
    lines, sm = disassemble(binary), NvCode.of(binary).sm
    hot = [line.text for line in lines if line.hot]
    texts = hot or [line.text for line in lines]
    clocks = [matrix_clocks(text, sm) for text in texts if is_matrix(text)]
    known = [each for each in clocks if each is not None]
    return NvStep(
        looped=bool(hot),
        instructions=len(texts),
        loaded_bytes=sum(map(loaded_bytes, texts)),
        matrix=len(clocks),
        matrix_clocks=sum(known) if len(known) == len(clocks) else None,
    )


def lines_of(root: Node, arch: str) -> Iterator[str]:
    """The report of an expression for one architecture."""
    key, _ = signature([root])
    for step in plan(rebuild(key).roots, Target.gpu_of(arch, UNITS)).steps:
        kernel = step.kernel
        binary = toolchains.build(kernel, "NVRTC", arch, frozenset())
        code, found = NvCode.of(binary), count(binary)
        place = "a turn of the loop" if found.looped else "in all"
        clocks = "unknown" if found.matrix_clocks is None else f"{found.matrix_clocks:.0f}"
        yield (
            f"{kernel.name}: {kernel.grid} workgroups of {kernel.block} lanes, {code.registers} "
            f"registers, {binary.resources.shared_bytes} bytes of shared memory, "
            f"{code.local_bytes} spilled, {code.code_bytes} bytes of code"
        )
        yield (
            f"  a warp, {place}: {found.instructions} instructions, {found.loaded_bytes} bytes "
            f"loaded by a lane, {found.matrix} matrix instructions of {clocks} clocks at least"
        )
