"""Kernel IR to CUDA C++ for nvrtc, without headers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from struct import pack, unpack
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import (
    COPIED_BYTES,
    Copy,
    Gather,
    Kernel,
    Matrix,
    Pending,
    TileMatrix,
    shared_size,
    staged,
)
from compilers.math.expand import Expander
from compilers.nv import cuda_matrix, cuda_text
from compilers.nv.cuda_text import INLINE, SCALARS
from compilers.nv.matrix_forms import INSTRUCTIONS
from compilers.nv.targets import ALIGN_BYTES, STATIC_SHARED_BYTES, nv_target
from compilers.render.c_gpu import Dialect, GpuPrinter
from compilers.render.c_native import NativeUnit, Words
from compilers.render.c_ops import OPERATORS, scalar_type
from compilers.render.common import FUNCTIONS, Value, memory_dtype
from compilers.render.walk import Walker

ALL: Final = "0xffffffffu"
"""Every lane of a warp takes part."""
LANE: Final = "(threadIdx.x & 31u)"
WORDS: Final = Words(
    names=SCALARS,
    convert="to<{kind}>({x})",
    bits="bits<{kind}>({x})",
    select="select({b}, {a}, {mask})",
    mask_of_width=False,
    make="make<{kind}>({x})",
    lane="{x}.e[{lane}]",
    read="loaded<{kind}, {align}>({place})",
    write="stored<{align}>({place}, {x});",
    functions={op: f"of_{name}" for op, name in FUNCTIONS.items()},
    helper=f"{INLINE} {{result}} {{name}}({{params}})",
)
CUDA: Final = Dialect(
    name="CUDA C",
    entry='extern "C" __global__ void __launch_bounds__({block}) {name}({params})',
    param="{kind} *__restrict__ p{i}",
    group="blockIdx.x",
    lane="threadIdx.x",
    assume="__builtin_assume({});",
    barrier=("__syncthreads();",),
    wave_barrier=("__syncwarp();",),
    swap=f"__shfl_xor_sync({ALL}, {{value}}, {{mask}})",
    shared="__shared__ ",
    align_bytes=ALIGN_BYTES,
)
_SHORT_BITS: Final = 32


def render(kernel: Kernel, arch: str) -> str:
    """The translation unit's text; equal kernels give equal texts.

    Raises: Unsupported for an unknown arch, TypeError for an op its dtype does not have.
    """
    nv_target(arch)
    expander = Expander(frozenset({"fma"}), native_half=True, soft=True, short_nans=False)
    return Walker(kernel, CudaPrinter(kernel), expander).run()


class CudaUnit(NativeUnit):
    """C++ where vectors are `Vec` of cuda_text.py."""

    def __init__(self) -> None:
        super().__init__(frozenset({"fma"}), WORDS)

    def header(self) -> list[str]:
        types = [f"typedef {native} {name};" for name, native in self.words.names.items()]
        return [*types, *cuda_text.preamble(), *self.declared.values()]

    def native(self, dtype: DType, lanes: int = 0) -> str:
        """Our own name of every type; of a vector it is declared first."""
        if not lanes:
            return scalar_type(dtype)
        name = f"{scalar_type(dtype)}x{lanes}"
        self.declared.setdefault(name, f"typedef Vec<{scalar_type(dtype)}, {lanes}> {name};")
        return name

    def type(self, dtype: DType, lanes: int = 0) -> str:
        return self.native(dtype, lanes)

    def literal(self, value: float, dtype: DType) -> str:
        """A constant; a float64 that is not finite by its bits, as there is no header."""
        if dtype is dt.float64 and (isnan(value) or not isfinite(value)):
            return f"bits<f64>({unpack('<Q', pack('<d', value))[0]:#x}ull)"
        return super().literal(value, dtype)

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """A number's sign is a bit: neg.f32 of PTX loses that of what is no number."""
        if op == "neg" and dtype.kind == "f":
            (x,) = args
            unsigned = dt.uint64 if dtype is dt.float64 else dt.uint32
            sign = Value(self.literal(1 << unsigned.bits - 1, unsigned), unsigned)
            word = Value(self._bits(x, unsigned), unsigned, x.lanes)
            turned = self._operator("xor", word, self._spread(sign, x.lanes))
            return self._bits(Value(turned, unsigned, x.lanes), dtype)
        return super().operation(op, dtype, args, name)

    def read(self, dtype: DType, lanes: int, align: int, space: str, place: str) -> str:
        if not lanes:
            return f"*{place}"
        return f"loaded<{self.type(dtype, lanes)}, {align}>({place})"

    def write(self, value: Value, align: int, space: str, place: str) -> str:
        if not value.lanes:
            return f"*{place} = {value.text};"
        return f"stored<{align}>({place}, {value.text});"

    def _operator(self, op: str, a: Value, b: Value) -> str:
        """Products of short integers as unsigned words: as int they would overflow."""
        if op == "mul" and a.dtype.kind in "iu" and a.dtype.bits < _SHORT_BITS and not a.lanes:
            return f"({scalar_type(a.dtype)})((u32){a.text} {OPERATORS[op]} (u32){b.text})"
        return super()._operator(op, a, b)


class CudaPrinter(GpuPrinter):
    """A lane's kernel with the exchanges and matrix units of NVIDIA's GPUs."""

    unit: CudaUnit

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, CUDA, CudaUnit())
        if kernel.shared_bytes > STATIC_SHARED_BYTES:
            self._declare_dynamic(kernel)

    def _declare_dynamic(self, kernel: Kernel) -> None:
        """Parts of one array instead of declared arrays: those may not have more than 48 KiB."""
        text = f"extern __shared__ u8 dynamic[] __attribute__((aligned({ALIGN_BYTES})));"
        declared, at = [text], 0
        for line, ref in zip(self.lines, kernel.locals, strict=True):
            if ref.space != "shared":
                declared.append(line)
                continue
            kind = self.unit.memory(memory_dtype(ref))
            declared.append(f"{kind} *{self.names[ref]} = ({kind} *)(dynamic + {at});")
            at += shared_size(ref)
        self.lines[:] = declared

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        """Not unrolled where it is a pipeline: code would not fit, and sums be spilled."""
        if staged(self.kernel.body.body):
            self.lines.append("#pragma unroll 1")
        with super().loop(extent) as at:
            yield at

    def of_wave(self, op: str, value: Value) -> str:
        """Bits of lanes; below and among count them."""
        if op == "ballot":
            return f"__ballot_sync({ALL}, {value.text} != 0)"
        if op == "among":
            return f"__popc({value.text})"
        return f"__popc({value.text} & ((1u << {LANE}) - 1u))"

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        """The operands are in registers, in words; the products are added to the sums."""
        made = INSTRUCTIONS[step.form.name]
        if made.narrowed:
            self.unit.declared.setdefault("rounded", cuda_matrix.ROUNDED)
        self.unit.declared.setdefault(made.helper, cuda_matrix.product(made))
        places = (
            f"{self.names[ref]} + {index.text} + {first}"
            for ref, index, count in (
                (step.a, a_index, step.form.a.count),
                (step.b, b_index, step.form.b.count),
            )
            for first in range(0, count, made.per_word)
        )
        word = "rounded(loaded<u32, 4>({}))" if made.narrowed else "loaded<u32, 4>({})"
        words = ", ".join(map(word.format, places))
        self.lines.append(f"{made.helper}({self.names[step.acc]} + {step.slot}, {words});")

    def gather(self, step: Gather, index: Value) -> None:
        name, functions = cuda_matrix.gather(turned=step.turned)
        self.unit.declared.setdefault(name, "\n".join(functions))
        row = f"{self.names[step.source]} + {self._position(index)}"
        self.lines.append(f"{name}({self.names[step.to]} + {step.slot}, {row});")

    def copy(self, step: Copy, index: Value, at: Value, mask: Value | None) -> None:
        to = f"{self.names[step.to]} + {self._position(index)}"
        source = f"{self.names[step.source]} + {self._position(at)}"
        if mask is None:
            self.unit.declared.setdefault("copy", cuda_matrix.COPY)
            self.lines.append(f"copy({to}, {source});")
        else:
            self.unit.declared.setdefault("copy_if", cuda_matrix.COPY_IF)
            size = f"{mask.text} ? {COPIED_BYTES}u : 0u"
            self.lines.append(f"copy_if({to}, {source}, {size});")

    def tile_matrix(self, step: TileMatrix, a_index: Value, b_index: Value) -> None:
        made = INSTRUCTIONS[step.form.name]
        name, function = cuda_matrix.tile_product(
            made, a_across=step.a.across, b_across=step.b.across
        )
        self.unit.declared.setdefault("tile", cuda_matrix.TILE)
        self.unit.declared.setdefault(name, function)
        tiles = []
        for operand, index in ((step.a, a_index), (step.b, b_index)):
            strides = cuda_matrix.strides(operand, step.form.dtype.itemsize)
            word = cuda_matrix.descriptor_strides(*strides)
            place = f"{self.names[operand.ref]} + {self._position(index)}"
            tiles.append(f"tile({place}, {word:#x}ull)")
        self.lines.append(f"{name}({self.names[step.acc]} + {step.slot}, {', '.join(tiles)});")

    def pending(self, step: Pending) -> None:
        name, function = cuda_matrix.pending(step)
        self.unit.declared.setdefault(name, function)
        self.lines.append(f"{name}();")
