"""Which LLVM intrinsics a module for an NVIDIA GPU may declare.

LLVM ends the whole process when an architecture lacks what an intrinsic needs ("Cannot select"), so
every declaration is looked up here first, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from compilers.nv.matrix_forms import instructions_of, tile_forms_of
from compilers.nv.targets import NvTarget

_ANY: Final = (
    "fma fmuladd sqrt fabs floor ceil trunc rint nearbyint roundeven copysign ctpop ctlz cttz"
    " bitreverse bswap abs umin umax smin smax fshl fshr memcpy memset memmove lifetime.start"
    " lifetime.end assume expect"
)
"""Generic intrinsics, of every type that kernels use."""
_NVVM: Final = re.compile(
    r"read\.ptx\.sreg\.(n?tid|n?ctaid)\.[xyz]|read\.ptx\.sreg\.(laneid|lanemask\.(lt|le|eq|ge|gt))"
    r"|barrier0|barrier\.cta\.sync\.aligned\.all|bar\.warp\.sync|vote\.(ballot|all|any|uni)\.sync"
    r"|shfl\.sync\.(bfly|up|down|idx)\.(i32|f32)|membar\.(cta|gl|sys)"
)
_COPYING: Final = re.compile(
    r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.b16\.p3|cp\.async\.(commit|wait)\.group"
    r"|cp\.async\.cg\.shared\.global\.16(\.s)?|f2tf32\.rna"
)
"""From sm_80 on."""
_GROUPS: Final = re.compile(r"wgmma\.(fence|commit_group|wait_group)\.sync\.aligned")
"""Where there are forms of tiles."""
_SUFFIX: Final = re.compile(r"(\.(v\d+)?(i1|i8|i16|i32|i64|f16|f32|f64)|\.p\d)+$")


def unknown(declared: Iterable[str], target: NvTarget) -> list[str]:
    """The names among `declared` that the architecture lacks or that are not listed here."""
    own = {f"llvm.{made.intrinsic}" for made in instructions_of(target.matrix) if made.intrinsic}
    kinds = [_NVVM]
    kinds += [_COPYING] if target.copies else []
    kinds += [_GROUPS] if tile_forms_of(target.matrix) else []
    return [name for name in declared if name not in own and not _known(name, kinds)]


def _known(name: str, kinds: Iterable[re.Pattern[str]]) -> bool:
    plain = name.removeprefix("llvm.")
    if plain == name:
        return False
    if plain.startswith("nvvm."):
        return any(kind.fullmatch(plain.removeprefix("nvvm.")) for kind in kinds)
    return _SUFFIX.sub("", plain) in _ANY.split()
