"""Kernel IR with lanes to OpenCL C, for GPUs: workgroups, local memory, barriers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compilers.ir import Kernel
from compilers.math.expand import Expander
from compilers.opencl.common import DOUBLE, ENTRY
from compilers.opencl.compiler import BLOCK
from compilers.render.c_gpu import GpuPrinter
from compilers.render.c_native import NativeUnit
from compilers.render.dialects import OPENCL, OPENCL_WORDS
from compilers.render.walk import Walker

_HEAD: Final = f"__kernel __attribute__(({BLOCK.format('{block}')}))"
DIALECT: Final = replace(OPENCL, entry=f"{_HEAD}\nvoid {ENTRY}{{name}}({{params}})")
"""Its workgroups may have fewer lanes than they are compiled for."""


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, or one between the lanes of a wave.
    """
    names = dict(OPENCL_WORDS.names)
    header = OPENCL_WORDS.header
    if DOUBLE in features:
        names["f64"] = "double"
        header = (*header, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    unit = NativeUnit(features, replace(OPENCL_WORDS, names=names, header=header))
    expander = Expander(features, native_half=False, soft=True)
    return Walker(kernel, GpuPrinter(kernel, DIALECT, unit), expander).run()
