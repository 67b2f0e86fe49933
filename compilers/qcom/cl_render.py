"""Kernel IR with lanes to OpenCL C for Qualcomm's compiler: no extension, one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import WAVE_OPS, Kernel
from compilers.opencl.expand import FUNCTIONS, expander
from compilers.render.c_gpu import GpuPrinter
from compilers.render.c_native import NativeUnit
from compilers.render.common import Value
from compilers.render.dialects import OPENCL, OPENCL_WORDS
from compilers.render.walk import Walker
from drivers.base.errors import Unsupported
from queues.cl.kernel_code import ENTRY

DIALECT: Final = replace(OPENCL, entry=OPENCL.entry.replace("{name}", f"{ENTRY}{{name}}"))
WORDS: Final = replace(OPENCL_WORDS, functions={**OPENCL_WORDS.functions, **FUNCTIONS})


class ClPrinter(GpuPrinter):
    """Without what the compiler is not asked for: float64, and values of other lanes."""

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if dtype is dt.float64:
            raise Unsupported(
                "an Adreno computes nothing in float64", hint="use another dtype, or the CPU"
            )
        if op == "swap" or op in WAVE_OPS:
            raise _planned_for_waves(op)
        return super().emit(op, dtype, args, name)

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            raise _planned_for_waves("barrier of a wave")
        super().barrier()


def _planned_for_waves(what: str) -> Unsupported:
    """Only a device that was opened for it has kernels without them."""
    return Unsupported(
        f"OpenCL C has no {what} without subgroups of a known size",
        hint="open the device with QCOM_CL=1",
    )


def render(kernel: Kernel) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: Unsupported for float64, and for lanes that exchange values; TypeError for an op its
    dtype does not have.
    """
    none = frozenset[str]()
    return Walker(kernel, ClPrinter(kernel, DIALECT, NativeUnit(none, WORDS)), expander(none)).run()
