"""OpenCL C and MSL as tables: what `c_gpu.GpuPrinter` and `c_native.NativeUnit` print.

# src: The OpenCL C Specification 3.0, 6.3 to 6.15; Metal Shading Language Specification 3.1, 2 to 6
"""

from __future__ import annotations

from typing import Final

from compilers.render.c_gpu import Dialect
from compilers.render.c_native import Words

_SCALARS: Final = {
    "i8": "char", "i16": "short", "i32": "int", "i64": "long",
    "u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong", "f32": "float",
}  # fmt: skip
OPENCL: Final = Dialect(
    name="OpenCL C",
    entry="__kernel __attribute__((reqd_work_group_size({block}, 1, 1)))\nvoid {name}({params})",
    param="{space}{kind} *restrict p{i}",
    group="get_group_id(0)",
    lane="get_local_id(0)",
    barrier=("barrier(CLK_LOCAL_MEM_FENCE);",),
    spaces={"global": "__global ", "shared": "__local "},
)
OPENCL_WORDS: Final = Words(
    names=_SCALARS,
    header=("#pragma OPENCL FP_CONTRACT OFF",),
    convert="convert_{kind}({x})",
    bits="as_{kind}({x})",
    select="select({b}, {a}, {mask})",
    mask_of_width=True,
    make="({kind})({x})",
    lane="{x}.s{lane:x}",
    read="vload{lanes}(0, {place})",
    write="vstore{lanes}({x}, 0, {place});",
)
"""float64 is `{**names, "f64": "double"}`, where a device has it."""
MSL: Final = Dialect(
    name="MSL",
    entry="[[max_total_threads_per_threadgroup({block})]]\nkernel void {name}({params})",
    param="{space}{kind} *p{i} [[buffer({i})]]",
    more_params=(
        "uint group [[threadgroup_position_in_grid]]",
        "uint lane [[thread_index_in_threadgroup]]",
    ),
    group="group",
    lane="lane",
    barrier=("threadgroup_barrier(mem_flags::mem_threadgroup);",),
    wave_barrier=("simdgroup_barrier(mem_flags::mem_threadgroup);",),
    swap="simd_shuffle_xor({value}, {mask})",
    spaces={"global": "device ", "shared": "threadgroup ", "register": "thread "},
)
MSL_WORDS: Final = Words(
    names=_SCALARS,
    header=(
        "#include <metal_stdlib>",
        "#pragma clang fp contract(off)",
        "using namespace metal;",
    ),
    convert="{kind}({x})",
    bits="as_type<{kind}>({x})",
    select="select({b}, {a}, {mask})",
    mask_of_width=False,
    make="{kind}({x})",
    lane="{x}[{lane}]",
    read="{kind}(*(const {space}packed_{kind} *){place})",
    write="*({space}packed_{kind} *){place} = packed_{kind}({x});",
    helper="static inline {result} {name}({params})",
)
"""Vectors of at most 4 lanes (`GpuTarget.vector_lanes`). Never compiled by Apple's compiler."""
