"""Kernel IR to HIP source for COMGR, without headers: the same kernels as the LLVM IR renderer's.

Vectors are clang's; exchanges between lanes and the matrix units are its builtins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compilers import dtype as dt
from compilers.amd.lanes import swap
from compilers.amd.matrix_forms import INSTRUCTIONS, MatrixInstruction
from compilers.amd.targets import ALIGN_BYTES, amd_target
from compilers.dtype import DType
from compilers.ir import WAVE_OPS, Kernel, Matrix, Ref
from compilers.math.build import UNSIGNED
from compilers.math.expand import Expander
from compilers.render.c_gpu import Dialect, GpuPrinter
from compilers.render.c_ops import Unit
from compilers.render.common import Value, memory_dtype
from compilers.render.walk import Walker

ARGUMENT_ALIGN_BYTES = 4
"""Declared alignment of a buffer. With a larger one clang reads the last three dwords as four."""
PREAMBLE = (
    "typedef unsigned char u8; typedef unsigned short u16;",
    "typedef unsigned int u32; typedef unsigned long long u64;",
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;",
    "typedef _Float16 f16; typedef float f32; typedef double f64;",
)
APART = 'asm("" : "+v"(x)); return x;'
"""A value that is opaque to the compiler."""
WORD_BYTES = 4
NOT_EQUAL = 33
"""A predicate of uicmp, the ballot that every clang has. # src: LLVM InstrTypes.h
CmpInst::ICMP_NE; HIP amd_device_functions.h __ballot"""
ELEMENTS = {"half": "f16", "i16": "i16"}
"""LLVM's name of a matrix operand's element -> ours."""
ELEMENT_BYTES = {"f16": 2, "i16": 2, "f32": 4}


def render(kernel: Kernel, arch: str) -> str:
    """The translation unit's text; equal kernels give equal texts.

    Raises: Unsupported for an unknown arch, TypeError for an op its dtype does not have.
    """
    expander = Expander(frozenset({"fma"}), native_half=True, soft=True)
    return Walker(kernel, HipPrinter(kernel, arch), expander).run()


class HipUnit(Unit):
    """C++ where it differs from C."""

    def header(self) -> list[str]:
        return [*PREAMBLE, *self.declared.values()]

    def helper(self, result: str, name: str, params: str, body: str) -> str:
        head = "static inline __device__ __attribute__((always_inline))"
        self.declared.setdefault(name, f"{head} {result} {name}({params}) {{ {body} }}")
        return name

    def _bitcast(self, value: Value, target: DType) -> str:
        return f"__builtin_bit_cast({self.type(target, value.lanes)}, {value.text})"

    def fragment(self, element: str, count: int) -> str:
        """A matrix instruction's vector, as stored in memory: aligned to 16 bytes at most, which
        is less than clang assumes for a longer one."""
        name = f"{element}x{count}_at"
        align = min(ALIGN_BYTES, count * ELEMENT_BYTES[element])
        attributes = f"__attribute__((ext_vector_type({count}), may_alias, aligned({align})))"
        self.declared.setdefault(name, f"typedef {element} {name} {attributes};")
        return name


HIP = Dialect(
    name="HIP",
    entry='extern "C" __global__ {attributes} void {{name}}({{params}})',
    param="{kind} *__restrict__ a{i}",
    group="__builtin_amdgcn_workgroup_id_x()",
    lane="__builtin_amdgcn_workitem_id_x()",
    assume="__builtin_assume({});",
    barrier=("__syncthreads();",),
    wave_barrier=(
        '__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");',
        "__builtin_amdgcn_wave_barrier();",
    ),
    order=("__builtin_amdgcn_sched_barrier(0);",),
    shared="__shared__ ",
    align_bytes=ALIGN_BYTES,
)


def _dialect(kernel: Kernel) -> Dialect:
    """With the size of the kernel's workgroups, and how many waves are enough."""
    size = f"__attribute__((amdgpu_flat_work_group_size({kernel.block}, {kernel.block})))"
    if kernel.waves:
        size += f" __attribute__((amdgpu_waves_per_eu(1, {kernel.waves})))"
    return replace(HIP, entry=HIP.entry.format(attributes=size))


class HipPrinter(GpuPrinter):
    """A lane's kernel with the exchanges, matrix units and arguments of AMD's GPUs."""

    unit: HipUnit

    def __init__(self, kernel: Kernel, arch: str) -> None:
        super().__init__(kernel, _dialect(kernel), HipUnit(frozenset({"fma"})))
        self.target = amd_target(arch)
        self.of_lane: set[str] = set()
        """Values computed from the lane's number."""

    # values

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        result = super().emit(op, dtype, args, name)
        if op in ("swap", *WAVE_OPS) or not any(arg.text in self.of_lane for arg in args):
            return result
        if op == "imod" and dtype.itemsize == WORD_BYTES and not result.lanes:
            # measured: COMGR 2.4 (LLVM 15), gfx1030: it makes `lane | 32` of `lane % 32 + 32`, then
            # adds where it should or when two addresses have that part
            kind = self.unit.type(dtype)
            apart = self.unit.helper(kind, f"apart_{kind}", f"{kind} x", APART)
            result = self._new(f"{apart}({result.text})", dtype)
        self.of_lane.add(result.text)
        return result

    def of_wave(self, op: str, value: Value) -> str:
        """ballot; below and among count the bits of one."""
        if op == "ballot":
            return f"__builtin_amdgcn_uicmp((u32){value.text}, 0u, {NOT_EQUAL})"
        if op == "among":
            return f"__builtin_popcountll((u64){value.text})"
        low = f"__builtin_amdgcn_mbcnt_lo((u32){value.text}, 0u)"
        if value.dtype.itemsize == WORD_BYTES:
            return low
        return f"__builtin_amdgcn_mbcnt_hi((u32)({value.text} >> 32), {low})"

    def swapped(self, value: Value, mask: int) -> Value:
        """The value of the lane `lane ^ mask`, moved as one or two dwords."""
        unsigned = UNSIGNED[value.dtype.itemsize]
        word = super().emit("bitcast", unsigned, [value], "")
        if unsigned is dt.uint64:
            low = self._dword(f"(u32){word.text}", mask)
            high = self._dword(f"(u32)({word.text} >> 32)", mask)
            moved = self._new(f"(u64){low} | (u64){high} << 32", dt.uint64)
        else:
            text = self._dword(f"(u32){word.text}", mask)
            moved = self._new(f"({self.unit.type(unsigned)}){text}", unsigned)
        return super().emit("bitcast", value.dtype, [moved], "")

    def _dword(self, word: str, mask: int) -> str:
        # measured: COMGR 2.4 (LLVM 15), gfx1030: it sinks permlanex16 into a branch that only some
        # lanes take, and those read lanes that are off
        way = swap(mask, self.target, permlane=False)
        if way.how == "dpp":
            text = f"update_dpp(0, {word}, {way.control}, 15, 15, true)"
        elif way.how == "swizzle":
            text = f"ds_swizzle({word}, {way.control})"
        else:
            lane = "__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u))"
            text = f"ds_bpermute(({lane} ^ {mask}u) << 2, {word})"
        return self._new(f"(u32)__builtin_amdgcn_{text}", dt.uint32).text

    # control

    def place(self, kind: str) -> Value:
        value = super().place(kind)
        if kind == "lane":
            self.of_lane.add(value.text)
        return value

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        """Both operands are loaded whole, and their products are added to the accumulator."""
        found = INSTRUCTIONS[step.form.name]
        total = self.unit.fragment("f32", step.form.sums.count)
        left = self._fragment(found, step.a, a_index)
        right = self._fragment(found, step.b, b_index)
        place = f"*({total} *)({self.names[step.acc]} + {step.slot})"
        extra = ", 0" * found.flags
        for a, b in zip(left, right, strict=True):
            call = f"__builtin_amdgcn_{found.builtin}({a}, {b}, {place}{extra})"
            self.lines.append(f"{place} = {call};")

    def _fragment(self, made: MatrixInstruction, ref: Ref, index: Value) -> list[str]:
        """A lane's operands of each instruction, from one load."""
        count, each = made.form.a.count, made.each
        kind = self.unit.fragment(ELEMENTS[made.element], count)
        whole = f"*(const {kind} *)({self.names[ref]} + {self._position(index)})"
        if made.times == 1:
            return [whole]
        orders = (range(first, first + each) for first in range(0, count, each))
        return [
            f"__builtin_shufflevector({whole}, {whole}, {', '.join(map(str, order))})"
            for order in orders
        ]

    def opening(self, kernel: Kernel) -> list[str]:
        """Buffers, with their alignment."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        return [
            f"{kind} *p{i} = ({kind} *)__builtin_assume_aligned(a{i}, {ARGUMENT_ALIGN_BYTES});"
            for i, kind in enumerate(kinds)
        ]
