"""Kernel IR with lanes to MSL: threadgroups, their memory, values exchanged in SIMD-groups."""

from __future__ import annotations

from compilers.ir import Kernel
from compilers.math.natives import NativeExpander
from compilers.msl.functions import MADE, NATIVE
from compilers.msl.narrow import in_fours
from compilers.msl.printer import DIALECT, WORDS, MslPrinter
from compilers.render.c_native import NativeUnit
from compilers.render.walk import Walker


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have.
    """
    kernel = in_fours(kernel)
    expander = NativeExpander(features, NATIVE, MADE)
    unit = NativeUnit(features, WORDS)
    text = Walker(kernel, MslPrinter(kernel, DIALECT, unit), expander).run()
    return f"// threadgroup bytes: {kernel.shared_bytes}\n{text}"
