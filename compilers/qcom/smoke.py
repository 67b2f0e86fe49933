"""The kernel that smoke tests and host-cost figures run: c[i] = a[i] + b[i] for i < n.

A driver is given its code as Firmware; this one is for command lines that open Adrenos.
"""

from __future__ import annotations

from compilers.qcom.targets import qcom_target
from compilers.toolchains import compile_source
from drivers.base.contracts import Binary
from drivers.base.errors import NotFound
from queues.qcom.kernel_code import MAX_FULL

KIND = "smoke"
BLOCK = 64
"""Lanes of a workgroup."""
_BODY = """
mov v16 g0
add.u v1 v16 c8
mov v2 r0
base v7 c0
base v11 c2
base v14 c4
shl.b v3 v1 k6
add.u v4 v3 v2
cmps.u.lt v5 v4 c6
cmps.s.ne p v5 k0
brn L6
shl.b v6 v4 k{shift}
ldga.u32 v8 v7 v6 0 0 1
ldga.u32 v12 v11 v6 0 0 1
add.u v13 v8.0 v12.0
stga.u32 v14 v6 0 0 v13 1
label L6
end
"""
"""On virtual registers; c6 is the low word of the fourth argument."""
_SHIFTS = {6: 0, 7: 2}
"""Generation 6 counts an access's offset in elements, generation 7 in bytes."""
_PARAMS = 4


def firmware(kind: str, arch: str) -> Binary:
    """Firmware for the driver's smoke test. Raises: NotFound, CompileError, Unsupported."""
    if kind != KIND:
        raise NotFound(f"there is no {kind!r} for {arch}", hint=f"Ask for {KIND!r}")
    generation = qcom_target(arch).generation
    source = f"ir3 {generation} {MAX_FULL} {BLOCK} 0 {_PARAMS}{_BODY}"
    source = source.replace("{shift}", str(_SHIFTS[generation]))
    made = compile_source(source, "smoke_add", "IR3", arch, frozenset())
    return made.in_blocks_of(BLOCK)
