"""Opcodes that one family of architectures has, or has with another meaning than the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from boards.nv.warp import (
    atomics,
    convert,
    floating,
    flow,
    hgmma,
    integer,
    logic,
    newer,
    pairs,
    special,
    turing,
)
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.reach import Reach

Make = Callable[[Builder], Action]
_MINIMA: Final[dict[int, tuple[str, Make]]] = {
    0x00F: ("VIMNMX3", newer.vimnmx3), 0x036: ("VIADD", newer.viadd),
    0x046: ("VIADDMNMX", newer.viaddmnmx), 0x048: ("VIMNMX", newer.vimnmx),
    0x097: ("UIADD3.64", pairs.uiadd3), 0x0CA: ("R2UR", newer.r2ur),
    0x02F: ("ELECT", special.elect), 0x02E: ("ACQBULK", flow.nothing),
    0x02D: ("PREEXIT", flow.nothing), 0x1C6: ("FENCE.VIEW", hgmma.fence_view),
}  # fmt: skip
_UNIFORM: Final[dict[int, tuple[str, Make]]] = {
    0x049: ("UVIADD", partial(newer.viadd, uniform=True)),
    0x04A: ("UVIMNMX", partial(newer.vimnmx, uniform=True)),
    0x04D: ("UIABS", partial(logic.iabs, uniform=True)),
    0x050: ("UFMNMX", partial(floating.fmnmx, uniform=True)),
    0x051: ("UFSEL", partial(floating.fsel, uniform=True)),
    0x052: ("UFSET", partial(floating.fset, uniform=True)),
    0x053: ("UFSETP", partial(floating.fsetp, uniform=True)),
    0x054: ("UFADD", partial(floating.mixed_sum, uniform=True)),
    0x055: ("UFFMA", partial(floating.mixed_product, uniform=True)),
    0x056: ("UFMUL", partial(floating.fmul, uniform=True)),
    0x0A6: ("UIMAD.HI", partial(integer.imad_hi, uniform=True)),
    0x05E: ("UI2FP", convert.ui2fp), 0x087: ("USEL", pairs.usel),
    0x085: ("UIMNMX", partial(logic.imnmx, uniform=True)),
}  # fmt: skip
"""What Blackwell alone does once a warp. src: nvdisasm 13.5: the fields of the vector ones"""
UNIFORM_VARIANTS: Final = tuple(_UNIFORM)
VARIANTS: Final[Mapping[str, Mapping[int, tuple[str, Make]]]] = {
    "turing": {0x155: ("BMOV", turing.bmov)},
    "ampere": {0x035: ("HFMA2.MMA", newer.hfma2_mma)},
    "hopper": {
        0x035: ("HFMA2.MMA", newer.hfma2_mma), 0x1C5: ("WARPGROUP", hgmma.warpgroup),
        **_MINIMA,
    },
    "blackwell": {
        0x002: ("MOV", pairs.mov), 0x007: ("SEL", pairs.sel), 0x00C: ("ISETP", pairs.isetp),
        0x017: ("IMNMX", pairs.imnmx), 0x035: ("IADD", newer.iadd),
        0x082: ("UMOV", partial(pairs.mov, uniform=True)),
        0x08C: ("UISETP", partial(pairs.isetp, uniform=True)),
        0x021: ("FADD", floating.mixed_sum), 0x023: ("FFMA", floating.mixed_product),
        0x1AC: ("LDCU", newer.ldcu), 0x0CB: ("CS2UR", special.cs2ur), **_MINIMA, **_UNIFORM,
    },
}  # fmt: skip
"""By family and nine bits of opcode."""
_FLOAT_ATOMICS: Final[dict[int, tuple[str, Callable[[Builder, Reach], Action]]]] = {
    0x1A2: ("ATOM", lambda build, reach: atomics.atomg(
        build, reach.memory, reach.report, generic=True)),
    0x1A3: ("ATOMG", lambda build, reach: atomics.atomg(build, reach.memory, reach.report)),
    0x1A6: ("REDG", lambda build, reach: atomics.red(build, reach.memory)),
}  # fmt: skip
MEMORY_VARIANTS: Final[
    Mapping[str, Mapping[int, tuple[str, Callable[[Builder, Reach], Action]]]]
] = {
    "turing": {}, "ampere": {}, "blackwell": _FLOAT_ATOMICS,
    "hopper": {
        **_FLOAT_ATOMICS,
        0x1F0: ("HGMMA", lambda build, reach: hgmma.gmma(build, reach.report)),
        0x1F1: ("IGMMA", lambda build, reach: hgmma.gmma(build, reach.report, integer=True)),
    },
}  # fmt: skip
"""Those that need what a launch gives."""
