"""Which LLVM intrinsics a module for an AMD GPU may declare.

LLVM ends the whole process when a chip lacks what an intrinsic needs ("Cannot select"), and has no
library to call for the rest. So every declaration is looked up here first, by full name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from compilers.amd.targets import AmdTarget


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY: Final = _words(
    "fma fmuladd sqrt fabs floor ceil trunc rint nearbyint roundeven round minnum maxnum"
    " copysign canonicalize ldexp frexp is.fpclass ctpop ctlz cttz bitreverse bswap abs umin umax"
    " smin smax fshl fshr uadd.sat usub.sat sadd.sat ssub.sat uadd.with.overflow"
    " usub.with.overflow umul.with.overflow sadd.with.overflow ssub.with.overflow"
    " smul.with.overflow memcpy memset memmove lifetime.start lifetime.end assume expect"
    " vector.reduce.add vector.reduce.mul vector.reduce.fadd vector.reduce.fmul"
    " vector.reduce.fmax vector.reduce.fmin vector.reduce.smax vector.reduce.smin"
    " vector.reduce.umax vector.reduce.umin vector.reduce.and vector.reduce.or"
    " vector.reduce.xor ptrmask experimental.noalias.scope.decl"
)
"""Generic intrinsics of every type that kernels use."""
_SHORT: Final = _words("exp exp2 exp10 log log2 log10 sin cos pow")
"""Only of half and float: double would need a library."""
_SHORT_TYPES: Final = re.compile(r"(v\d+)?(f16|f32)")
_AMDGCN: Final = _words(
    "workitem.id.x workitem.id.y workitem.id.z workgroup.id.x workgroup.id.y workgroup.id.z"
    " s.barrier wave.barrier sched.barrier sched.group.barrier s.sleep s.setprio implicitarg.ptr"
    " dispatch.ptr kernarg.segment.ptr mbcnt.lo mbcnt.hi ds.bpermute ds.permute ds.swizzle"
    " readlane readfirstlane update.dpp ballot wavefrontsize rcp rsq sqrt sin cos fract"
    " exp2 log frexp.mant frexp.exp ldexp fmed3 cvt.pkrtz div.scale div.fmas div.fixup ubfe"
    " sbfe perm alignbyte class wave.reduce.umin wave.reduce.umax"
)
_RDNA: Final = _words("permlane16 permlanex16 mov.dpp8")
_DOT: Final = _words("fdot2 sdot4 udot4")
_DOT11: Final = _words("fdot2 fdot2.f32.bf16 sudot4 udot4")
_WMMA11: Final = _words(
    "wmma.f32.16x16x16.f16.v8f32.v16f16 wmma.f32.16x16x16.bf16.v8f32.v16i16"
    " wmma.i32.16x16x16.iu8.v8i32.v4i32"
)
_WMMA12: Final = _words(
    "wmma.f32.16x16x16.f16.v8f32.v8f16 wmma.f32.16x16x16.bf16.v8f32.v8i16"
    " wmma.i32.16x16x16.iu8.v8i32.v2i32"
)
_MFMA: Final = _words(
    "mfma.f32.32x32x8f16 mfma.f32.16x16x16f16 mfma.f32.32x32x8bf16.1k mfma.f32.16x16x16bf16.1k"
    " mfma.f32.16x16x4f32 mfma.f32.32x32x2f32 mfma.f64.16x16x4f64"
)
_MFMA_90A: Final = _MFMA | _words("mfma.i32.16x16x16i8 mfma.i32.32x32x8i8")
_MFMA_940: Final = _MFMA | _words("mfma.i32.16x16x32.i8 mfma.i32.32x32x16.i8")
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "RDNA2": _RDNA | _DOT,
    "RDNA3": _RDNA | _DOT11 | _WMMA11,
    "RDNA3.5": _RDNA | _DOT11 | _WMMA11,
    "RDNA4": _RDNA | _DOT11 | _WMMA12,
    "CDNA2": _DOT | _MFMA_90A,
    "CDNA3": _DOT | _MFMA_940,
    "CDNA4": _DOT | _MFMA_940,
}
"""By chip family: those that not all have. # src: LLVM IntrinsicsAMDGPU.td, AMDGPU.td features"""

_PREFIX, _AMD_PREFIX = "llvm.", "llvm.amdgcn."
_TYPE: Final = re.compile(r"\.(v\d+)?(i\d+|f16|f32|f64|bf16|p\d+)$")


def unknown(names: list[str], target: AmdTarget) -> list[str]:
    """Those of the declared `names` that may not be compiled for the chip, sorted."""
    return sorted(name for name in names if not _known(name, target))


def _known(name: str, target: AmdTarget) -> bool:
    if name.startswith(_AMD_PREFIX):
        rest = name.removeprefix(_AMD_PREFIX)
        base, own = _base(rest), _OWN[target.chip.family.name]
        return rest in own or base in _AMDGCN or base in _RDNA & own
    if not name.startswith(_PREFIX):
        return False
    base = _base(name.removeprefix(_PREFIX))
    if base in _SHORT:
        return _SHORT_TYPES.fullmatch(name.removeprefix(f"{_PREFIX}{base}.")) is not None
    return base in _ANY


def _base(name: str) -> str:
    """The name without the types it is overloaded on (at most four)."""
    for _ in range(4):
        name = _TYPE.sub("", name)
    return name
