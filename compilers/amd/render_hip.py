"""Kernel IR to HIP source for COMGR, without headers: the same kernels as the LLVM IR renderer's.

Vectors are clang's; exchanges between lanes and the matrix units are its builtins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compilers import dtype as dt
from compilers.amd.lanes import swap
from compilers.amd.matrix_forms import INSTRUCTIONS, MatrixInstruction
from compilers.amd.targets import ALIGN_BYTES, amd_target
from compilers.dtype import DType
from compilers.ir import WAVE_OPS, Kernel, Matrix, Ref
from compilers.math.build import UNSIGNED
from compilers.math.expand import Expander
from compilers.render.c import CPrinter
from compilers.render.c_ops import Unit
from compilers.render.common import MemoryAccess, Value, alignment, memory_dtype
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


class HipPrinter(CPrinter):
    """Prints one constant per value, for one lane."""

    narrow = True

    def __init__(self, kernel: Kernel, arch: str) -> None:
        super().__init__(Kernel(kernel.name, (), (), kernel.body), frozenset({"fma"}))
        self.unit: HipUnit = HipUnit(frozenset({"fma"}))
        self.target, self.kernel = amd_target(arch), kernel
        self.of_lane: set[str] = set()
        """Values computed from the lane's number."""
        self.names = {ref: f"p{position}" for position, ref in enumerate(kernel.params)}
        for position, ref in enumerate(kernel.locals):
            name, shared = f"m{position}", ref.space == "shared"
            self.names[ref] = name
            kind = self.unit.memory(memory_dtype(ref))
            self.lines.append(
                f"{'__shared__ ' if shared else ''}{kind} {name}[{max(ref.size, 1)}] "
                f"__attribute__((aligned({ALIGN_BYTES})));"
            )

    # values

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap":
            return self._swap(args[0], int(name))
        if op in WAVE_OPS:
            return self._new(f"({self.unit.type(dtype)}){self._of_wave(op, args[0])}", dtype)
        result = super().emit(op, dtype, args, name)
        if not any(arg.text in self.of_lane for arg in args):
            return result
        if op == "imod" and dtype.itemsize == WORD_BYTES and not result.lanes:
            # measured: COMGR 2.4 (LLVM 15), gfx1030: it makes `lane | 32` of `lane % 32 + 32`, then
            # adds where it should or when two addresses have that part
            kind = self.unit.type(dtype)
            apart = self.unit.helper(kind, f"apart_{kind}", f"{kind} x", APART)
            result = self._new(f"{apart}({result.text})", dtype)
        self.of_lane.add(result.text)
        return result

    def _of_wave(self, op: str, value: Value) -> str:
        """ballot; below and among count the bits of one."""
        if op == "ballot":
            return f"__builtin_amdgcn_uicmp((u32){value.text}, 0u, {NOT_EQUAL})"
        if op == "among":
            return f"__builtin_popcountll((u64){value.text})"
        low = f"__builtin_amdgcn_mbcnt_lo((u32){value.text}, 0u)"
        if value.dtype.itemsize == WORD_BYTES:
            return low
        return f"__builtin_amdgcn_mbcnt_hi((u32)({value.text} >> 32), {low})"

    def _swap(self, value: Value, mask: int) -> Value:
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

    # memory

    def _element(self, ref: Ref, index: str) -> str:
        return f"{self.names[ref]}[{index}]"

    def _position(self, index: Value) -> str:
        return index.text if index.dtype is dt.int64 else f"(u32)({index.text})"

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype = memory_dtype(ref)
        if not index.lanes and not mask:
            kind = self.unit.memory(dtype, lanes, alignment(dtype, lanes, access.unit, ALIGN_BYTES))
            place = f"({self.names[ref]} + {self._position(index)})"
            return self._new(f"*(const {kind} *){place}", dtype, lanes)
        kind = self.unit.type(dtype, lanes)
        parts = []
        for lane in range(lanes):
            at = f"{index.text}[{lane}]" if index.lanes else f"{index.text} + {lane}"
            wanted = mask and f"{mask.text}[{lane}]"
            place = f"{wanted} ? {at} : 0" if wanted else at
            found = self._new(self._element(ref, place), dtype).text
            parts.append(f"({wanted} ? {found} : ({self.unit.type(dtype)})0)" if wanted else found)
        return self._new(f"{kind}{{{', '.join(parts)}}}", dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        if not index.lanes and not mask:
            align = alignment(value.dtype, value.lanes, access.unit, ALIGN_BYTES)
            kind = self.unit.memory(value.dtype, value.lanes, align)
            place = f"({self.names[ref]} + {self._position(index)})"
            self.lines.append(f"*({kind} *){place} = {value.text};")
            return
        for lane in range(value.lanes):
            at = f"{index.text}[{lane}]" if index.lanes else f"{index.text} + {lane}"
            guard = f"if ({mask.text}[{lane}]) " if mask else ""
            self.lines.append(f"{guard}{self._element(ref, at)} = {value.text}[{lane}];")

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane."""
        name = "workgroup" if kind == "grid" else "workitem"
        count = self.kernel.grid if kind == "grid" else self.kernel.block
        value = self._new(f"(i32)__builtin_amdgcn_{name}_id_x()", dt.int32)
        self.lines.append(f"__builtin_assume({value.text} >= 0 && {value.text} < {count}ll);")
        if kind == "lane":
            self.of_lane.add(value.text)
        return value

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            self.lines.append('__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");')
            self.lines.append("__builtin_amdgcn_wave_barrier();")
            return
        self.lines.append("__syncthreads();")

    def order(self) -> None:
        self.lines.append("__builtin_amdgcn_sched_barrier(0);")

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

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        name = f"at{self.count}"
        self.lines.append(f"for (i32 {name} = 0; {name} < {extent}; {name}++) {{")
        yield Value(name, dt.int32)
        self.lines.append("}")

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers and the kernel."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        params = ", ".join(f"{kind} *__restrict__ a{i}" for i, kind in enumerate(kinds))
        aligned = [
            f"{kind} *p{i} = ({kind} *)__builtin_assume_aligned(a{i}, {ARGUMENT_ALIGN_BYTES});"
            for i, kind in enumerate(kinds)
        ]
        size = f"__attribute__((amdgpu_flat_work_group_size({kernel.block}, {kernel.block})))"
        if kernel.waves:
            size += f" __attribute__((amdgpu_waves_per_eu(1, {kernel.waves})))"
        lines = [
            *self.unit.header(),
            f'extern "C" __global__ {size} void {kernel.name}({params}) {{',
            *aligned,
            *self.lines,
            "}",
        ]
        return "\n".join(lines) + "\n"
