"""The shared GPU printer over a language with vectors of its own, executed: C stands for it.

Each lane of a workgroup is a thread and a barrier is a barrier. What is C's alone are the words;
operators, conversions, masks, loads and stores are as in OpenCL C and MSL.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.lower.choose import Target
from compilers.math.expand import Expander
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from compilers.render.c_gpu import Dialect, GpuPrinter
from compilers.render.c_native import NativeUnit, Words
from compilers.render.dialects import MSL, MSL_WORDS, OPENCL, OPENCL_WORDS
from compilers.render.walk import Walker
from tests import oracle
from tests.c_compiler import COMPILERS, LACKING
from tests.compilers.lowering import leaf
from tests.compilers.test_made_up_gpus import KINDS, RANDOM, Made, halves, whole
from tests.graph_maker import Maker
from tests.share import part
from tests.support import check

Array = np.ndarray[Any, Any]
NAMES = {
    "i8": "schar", "i16": "short_", "i32": "int_", "i64": "long_", "u8": "uchar", "u16": "ushort_",
    "u32": "uint_", "u64": "ulong_", "f32": "float_", "f64": "double_",
}  # fmt: skip
C_TYPES = {
    "schar": "signed char", "short_": "short", "int_": "int", "long_": "long long",
    "uchar": "unsigned char", "ushort_": "unsigned short", "uint_": "unsigned int",
    "ulong_": "unsigned long long", "float_": "float", "double_": "double",
}  # fmt: skip
HEADER = """
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#pragma STDC FP_CONTRACT OFF
#define CONVERT(kind, x) __builtin_convertvector(x, kind)
#define BITS(kind, x) ({ __auto_type from_ = (x); kind to_; \\
  memcpy(&to_, &from_, sizeof to_); to_; })
#define SELECT(b, a, mask) ({ __auto_type a_ = (a); __auto_type b_ = (b); \\
  __auto_type m_ = (mask); \\
  __typeof__(m_) x_, y_; memcpy(&x_, &a_, sizeof x_); memcpy(&y_, &b_, sizeof y_); \\
  x_ = (x_ & m_) | (y_ & ~m_); memcpy(&a_, &x_, sizeof a_); a_; })
#define VLOAD(kind, place) ({ kind to_; memcpy(&to_, place, sizeof to_); to_; })
#define VSTORE(place, x) { __auto_type from_ = (x); memcpy(place, &from_, sizeof from_); }
static int group_number, block_size;
static __thread int lane_number;
static pthread_barrier_t all;
static void meet(void) { pthread_barrier_wait(&all); }
"""
LANES = """
static void (*step)(void);
static void *lane(void *number) { lane_number = (int)(long)number; step(); return 0; }
static void launch(void (*made)(void), int grid, int block) {
  pthread_t threads[1024];
  step = made;
  for (group_number = 0; group_number < grid; group_number++) {
    pthread_barrier_init(&all, 0, block);
    for (long n = 0; n < block; n++) pthread_create(&threads[n], 0, lane, (void *)n);
    for (long n = 0; n < block; n++) pthread_join(threads[n], 0);
    pthread_barrier_destroy(&all);
  }
}
"""
SAME = ("sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fma", "abs")
WORDS = Words(
    names=NAMES,
    convert="CONVERT({kind}, {x})",
    bits="BITS({kind}, ({x}))",
    select="SELECT(({b}), ({a}), ({mask}))",
    mask_of_width=True,
    make="({kind}){{{x}}}",
    lane="{x}[{lane}]",
    read="VLOAD({kind}, {place})",
    write="VSTORE({place}, ({x}));",
    functions={name: f"__builtin_elementwise_{name}" for name in SAME},
    helper="static inline {result} {name}({params})",
)
C = Dialect(
    name="C",
    entry="static void {name}({params})",
    param="{kind} *restrict p{i}",
    group="group_number",
    lane="lane_number",
    barrier=("meet();",),
    shared="static ",
)
GPU = GpuTarget(max_block=8, shared_bytes=16 << 10)
ONE = GpuTarget(max_block=8, shared_bytes=16 << 10, vectors=True)


def expander() -> Expander:
    return Expander(frozenset({"fma"}), native_half=False, soft=True)


def text(kernel: Kernel, dialect: Dialect, words: Words) -> str:
    printer = GpuPrinter(kernel, dialect, NativeUnit(frozenset({"fma"}), words))
    return Walker(kernel, printer, expander()).run()


def types() -> str:
    """The vectors that such a language has."""
    lines = [f"typedef {c} {name};" for name, c in C_TYPES.items()]
    lines += [
        f"typedef {name} {name}{lanes} __attribute__((ext_vector_type({lanes}), aligned(4)));"
        for name in C_TYPES
        for lanes in (2, 4, 8, 16)
    ]
    return "\n".join(lines)


class Program:
    """Graphs as one C program: it reads their leaves, and writes their results."""

    def __init__(self) -> None:
        self.parts, self.main = [HEADER, types(), LANES], list[str]()
        self.inputs, self.wanted, self.count = list[bytes](), list[Array](), 0

    def add(self, root: Node, want: Array, gpu: GpuTarget) -> None:
        key, leaves = signature([root])
        made = plan(rebuild(key).roots, Target(16, 4, frozenset({"fma"}), gpu=gpu))
        sizes = [array.nbytes for array in leaves] + list(made.nbytes)
        first = len(self.parts)
        values = [f"value{first}_{n}" for n in range(len(sizes))]
        self.parts += [
            f"static char {name}[{max(size, 1)}] __attribute__((aligned(64)));"
            for name, size in zip(values, sizes, strict=True)
        ]
        self.inputs += [array.tobytes() for array in leaves]
        self.main += [
            f"fread({name}, 1, {size}, stdin);"
            for name, size in zip(values, sizes[: len(leaves)], strict=False)
        ]
        self._steps(made, values)
        self.main.append(f"fwrite({values[made.roots[0]]}, 1, {sizes[made.roots[0]]}, stdout);")
        self.wanted.append(want)

    def _steps(self, made: Plan, values: list[str]) -> None:
        for step in made.steps:
            self.count += 1
            kernel = replace(step.kernel, name=f"kernel{self.count}")
            source = text(kernel, C, WORDS).splitlines()
            lines = [line for line in source if line not in self.parts]
            passed = ", ".join(f"(void *){values[value]}" for value in step.values)
            call = f"static void call{self.count}(void) {{ {kernel.name}({passed}); }}"
            self.parts += [*(line for line in lines if line.startswith("typedef")),
                           "\n".join(line for line in lines if not line.startswith("typedef")),
                           call]  # fmt: skip
            self.main.append(f"launch(call{self.count}, {kernel.grid}, {kernel.block});")

    def run(self, folder: Path) -> list[bytes]:
        """The results' bytes, one after another."""
        program = folder / "program"
        main = "\n".join(["int main(void) {", *self.main, "return 0; }"])
        wheel = COMPILERS["wheel"]
        if wheel is None:
            pytest.skip(LACKING["wheel"])
        options = ("-O0", "-fwrapv", "-w", "-o", str(program))
        wheel.run("\n".join([*self.parts, main]), folder, *options)
        ran = subprocess.run(
            [program], input=b"".join(self.inputs), capture_output=True, check=True
        )
        data, results = ran.stdout, list[bytes]()
        for want in self.wanted:
            results.append(data[: want.nbytes])
            data = data[want.nbytes :]
        return results


def sums_of_halves() -> tuple[Node, Array]:
    x = whole(20, 24)
    return graph.reduce("add", halves(x), (1,)), x.sum(1)


def operators() -> list[Made]:
    """Choices, comparisons, conversions and integers that wrap, in vectors."""
    x, y = whole(4, 64), whole(4, 64)
    less = graph.binary("lt", leaf(x), leaf(y))
    made: list[Made] = [
        (graph.where(less, leaf(x), graph.unary("neg", leaf(y))), np.where(x < y, x, -y)),
        (less, x < y),
        (graph.cast(less, dt.float32), (x < y).astype(np.float32)),
    ]
    for name in ("int8", "int32", "int64"):
        most = np.iinfo(name).max
        a, b = (RANDOM.integers(-most, most, 96).astype(name) for _ in range(2))
        for op, want in (("mul", a * b), ("add", a + b), ("sub", a - b), ("max", np.maximum(a, b))):
            made.append((graph.binary(op, leaf(a), leaf(b)), want))
        made.append((graph.unary("neg", leaf(a)), -a))
        made.append((graph.cast(leaf(a), dt.uint8), a.astype(np.uint8)))
    return made


SIMPLE = ("elementwise", "short_rows", "several_reductions", "scan_of_short_rows",
          "sort_of_columns")  # fmt: skip


@pytest.mark.parametrize("gpu", [GPU, ONE], ids=["lanes", "vectors"])
def test_kernels_compute_what_numpy_does(gpu: GpuTarget, tmp_path: Path) -> None:
    program = Program()
    for root, want in (*(KINDS[name]() for name in SIMPLE), sums_of_halves(), *operators()):
        program.add(root, np.asarray(want, root.dtype.storage), gpu)
    for seed in range(part(3, 1)):
        for value in Maker(seed).roots(10):
            if value.exact and value.node.dtype is not dt.bfloat16:
                want = oracle.evaluate(value.node)
                program.add(value.node, np.asarray(want, value.node.dtype.storage), gpu)
    for found, want in zip(program.run(tmp_path), program.wanted, strict=True):
        np.testing.assert_array_equal(np.frombuffer(found, want.dtype).reshape(want.shape), want)


def _sum() -> Kernel:
    root = graph.reduce("add", leaf(np.ones((40, 100), np.float32)), (1,))
    key, _ = signature([root])
    return plan(rebuild(key).roots, Target(16, 4, gpu=GPU)).steps[0].kernel


def test_opencl_names_its_spaces() -> None:
    """# src: The OpenCL C Specification 3.0, 6.7 (address spaces), 6.15.1, 6.15.8"""
    made = text(_sum(), OPENCL, OPENCL_WORDS)
    for phrase in ("__kernel __attribute__((reqd_work_group_size(8, 1, 1)))", "__global f32 *",
                   "__local f32 m", "barrier(CLK_LOCAL_MEM_FENCE);", "vload4(0, ",
                   "get_group_id(0)"):  # fmt: skip
        check(phrase in made, phrase)
    check("__builtin" not in made and "ext_vector" not in made, "no GNU extension")


def test_metal_names_its_spaces() -> None:
    """# src: Metal Shading Language Specification 3.1, 4 and 5.2"""
    made = text(_sum(), MSL, MSL_WORDS)
    for phrase in ("#include <metal_stdlib>", "device f32 *p0 [[buffer(0)]]", "threadgroup f32 m",
                   "threadgroup_barrier(mem_flags::mem_threadgroup);",
                   "uint group [[threadgroup_position_in_grid]]", "packed_float4"):  # fmt: skip
        check(phrase in made, phrase)
    check("__builtin" not in made and "__global" not in made, "nothing of another language")


def test_what_a_language_lacks_is_refused() -> None:
    wide = graph.reduce("add", leaf(np.ones((40, 100), np.float64)), (1,))
    key, _ = signature([wide])
    kernel = plan(rebuild(key).roots, Target(16, 4, gpu=GPU)).steps[0].kernel
    with pytest.raises(TypeError, match="no float64 here"):
        text(kernel, MSL, MSL_WORDS)
    key, _ = signature([graph.reduce("add", leaf(np.ones((40, 100), np.float32)), (1,))])
    swaps = GpuTarget(max_block=64, shared_bytes=16 << 10, wave_lanes=32, swaps=True)
    kernel = plan(rebuild(key).roots, Target(16, 4, gpu=swaps)).steps[0].kernel
    with pytest.raises(TypeError, match="OpenCL C: lanes exchange no values here"):
        text(kernel, OPENCL, OPENCL_WORDS)
    check("simd_shuffle_xor(" in text(kernel, MSL, MSL_WORDS), "Metal's do")
