"""Kernel IR with lanes to OpenCL C, for GPUs: workgroups, local memory, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from compilers.dtype import DType
from compilers.ir import WAVE_OPS, Kernel
from compilers.opencl.common import ENTRY, FLOATS
from compilers.opencl.compiler import BLOCK
from compilers.opencl.expand import FUNCTIONS, expander
from compilers.render.c_gpu import GpuPrinter
from compilers.render.c_native import NativeUnit
from compilers.render.common import Value
from compilers.render.dialects import OPENCL, OPENCL_WORDS
from compilers.render.walk import Walker
from queues.cl.kernel_code import SUBGROUPS, WAVE_LANES

_HEAD: Final = f"__kernel __attribute__(({BLOCK.format('{block}')}))"
DIALECT: Final = replace(
    OPENCL,
    entry=f"{_HEAD}\nvoid {ENTRY}{{name}}({{params}})",
    wave_barrier=("sub_group_barrier(CLK_LOCAL_MEM_FENCE);",),
)
"""Its workgroups may have fewer lanes than they are compiled for."""
OF_WAVES: Final = f"__attribute__((intel_reqd_sub_group_size({WAVE_LANES})))\n"
WAVE_HEADER: Final = (
    "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable",
    "#pragma OPENCL EXTENSION cl_khr_subgroup_ballot : enable",
)


class LanesPrinter(GpuPrinter):
    """With what the lanes of a subgroup exchange, where the device has subgroups of a known size.
    Lanes of a workgroup with one dimension are numbered from subgroup to subgroup."""

    in_waves = False
    """Whether the kernel does so: others leave the size to the driver."""

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap" or op in WAVE_OPS:
            self._need(op)
        return super().emit(op, dtype, args, name)

    def _need(self, what: str) -> None:
        if SUBGROUPS not in self.unit.features:
            raise TypeError(f"OpenCL C: no {what} without subgroups of a known size")
        self.in_waves = True

    def swapped(self, value: Value, mask: int) -> Value:
        """Of vectors element by element."""
        parts = [self.unit.lane(value, lane) for lane in range(value.lanes)] or [value.text]
        parts = [f"sub_group_shuffle_xor({part}, {mask}u)" for part in parts]
        text = self.unit.vector_of(value.dtype, parts) if value.lanes else parts[0]
        return self._new(text, value.dtype, value.lanes)

    def of_wave(self, op: str, value: Value) -> str:
        """Bits of the lanes of a subgroup; below and among count them."""
        if op == "ballot":
            return f"sub_group_ballot({value.text} != 0).x"
        if op == "among":
            return f"popcount((uint){value.text})"
        return f"popcount((uint){value.text} & ((1u << get_sub_group_local_id()) - 1u))"

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            self._need("barrier of a wave")
        super().barrier(wave=wave)

    def finish(self, kernel: Kernel) -> str:
        if self.in_waves:
            self.dialect = replace(self.dialect, entry=OF_WAVES + self.dialect.entry)
        return super().finish(kernel)


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, or one between the lanes of a wave.
    """
    extra = {name: kind for name, kind in FLOATS.items() if name in features}
    names = {**OPENCL_WORDS.names, **{short: kind for short, kind, _ in extra.values()}}
    header = (*OPENCL_WORDS.header, *(pragma for _, _, pragma in extra.values()))
    functions = {**OPENCL_WORDS.functions, **FUNCTIONS}
    words = replace(OPENCL_WORDS, names=names, header=header, functions=functions)
    if SUBGROUPS in features:
        words = replace(words, header=(*WAVE_HEADER, *header))
    unit = NativeUnit(features, words)
    return Walker(kernel, LanesPrinter(kernel, DIALECT, unit), expander(features)).run()
