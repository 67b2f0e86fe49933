"""CUDA C as nvrtc gets it, run lane by lane as C++ (cuda_shim.h), against numpy.

What only PTX can say are functions of one line; the shim has others, written from the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.nv import render_cuda
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from tests import oracle
from tests.c_compiler import LACKING, clang_command
from tests.compilers.lowering import matmul
from tests.compilers.test_made_up_gpus import KINDS, Made, halves, whole
from tests.compilers.test_render_gpu_c import operators
from tests.graph_maker import Maker
from tests.share import part
from tests.support import check, run_limited

Offered = Callable[[Target], Target]
Array = np.ndarray[Any, Any]
SHIM = Path(__file__).parent / "cuda_shim.h"
_FLAGS = ("-std=c++17", "-O0", "-fno-strict-aliasing", "-fno-sanitize=undefined", "-w",
          "--target=native")  # fmt: skip
"""The machine's own C library: the first program of the wheel's musl costs more than twice the
processor time, as all of that library is compiled then."""
_ONE_LINE = re.compile(r"(void|u64) (\w+)\(([^)]*)\) \{ (?:asm[ (]|return .*__cvta).*\}$", re.M)
_MMA = re.compile(r"mma_k(\d+)_(\w+)")
_WGMMA = re.compile(r"wgmma_n(\d+)_(\w+)_([01])([01])")
_WAIT = re.compile(r"(copies|products)_wait(\d*)")
_ELEMENTS = {"f16": "Half", "bf16": "Brain", "s8": "Short", "u8": "Byte", "tf32": "Tensor"}
_DYNAMIC = "extern __shared__ u8 dynamic[]"
_MOST_SHARED = 227 << 10
_TIMEOUT_S = 300


def as_cxx(source: str) -> str:
    """The program, with the shim's functions instead of PTX."""

    def other(found: re.Match[str]) -> str:
        result, name, params = found.groups()
        names = re.findall(r"(\w+)(?:,|$)", params)
        call = f"shim_{name}"
        if mma := _MMA.fullmatch(name):
            call = f"shim_mma<{mma[1]}, {_ELEMENTS[mma[2]]}>"
        elif tile := _WGMMA.fullmatch(name):
            call = f"shim_wgmma<{tile[1]}, {_ELEMENTS[tile[2]]}, {tile[3]}, {tile[4]}>"
        elif wait := _WAIT.fullmatch(name):
            call, names = f"shim_{wait[1]}_wait", [wait[2] or "0"]
        return f"{result} {name}({params}) {{ return {call}({', '.join(names)}); }}"

    made = _ONE_LINE.sub(other, source).replace(_DYNAMIC, f"static u8 dynamic[{_MOST_SHARED}]")
    check("asm" not in made and "__cvta" not in made, "every line of PTX is a function of the shim")
    return made


def as_it_is(target: Target) -> Target:
    return target


class Program:
    """Graphs as one C++ program: it reads their leaves, and writes their results."""

    def __init__(self, arch: str, *, offered: Offered = as_it_is) -> None:
        self.offered = offered
        self.arch, self.parts, self.main = arch, [SHIM.read_text()], list[str]()
        self.inputs, self.wanted, self.count = list[bytes](), list[Array](), 0

    def add(self, root: Node, want: Array) -> None:
        key, leaves = signature([root])
        made = plan(rebuild(key).roots, self.offered(Target.gpu_of(self.arch, 1)))
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
        for step in made.steps:
            self.count += 1
            space, kernel = f"u{self.count}", step.kernel
            source = as_cxx(render_cuda.render(kernel, self.arch)).replace('extern "C" ', "")
            passed = ", ".join(f"Any{{{values[v]}}}" for v in step.values)
            self.parts.append(f"namespace {space} {{\n{source}}}")
            self.parts.append(f"static void call_{space}() {{ {space}::{kernel.name}({passed}); }}")
            self.main.append(f"launch(call_{space}, {kernel.grid}, {kernel.block});")
        self.main.append(f"fwrite({values[made.roots[0]]}, 1, {sizes[made.roots[0]]}, stdout);")
        self.wanted.append(np.asarray(want, root.dtype.storage))

    def check(self, folder: Path, *flags: str) -> None:
        """Compile, run, compare."""
        from tests.c_compiler import COMPILERS

        wheel = COMPILERS["wheel"]
        if wheel is None or not clang_command():
            pytest.skip(LACKING["wheel"])
        anything = "struct Any { void *at; template <class T> operator T *() { return (T *)at; } };"
        main = "\n".join(["int main() {", *self.main, "return 0; }"])
        text = "\n".join([self.parts[0], anything, *self.parts[1:], main])
        program = folder / "program"
        wheel.run(text, folder, "-x", "c++", *_FLAGS, "-nostdlib++", *flags, "-o", str(program))
        ran = run_limited(
            [program], input=b"".join(self.inputs), capture_output=True, check=True,
            cpu_s=_TIMEOUT_S,
        )  # fmt: skip
        data = ran.stdout
        for want in self.wanted:
            found = np.frombuffer(data[: want.nbytes], want.dtype).reshape(want.shape)
            np.testing.assert_array_equal(found, want)
            data = data[want.nbytes :]


def brains(x: Array) -> Node:
    """Whole numbers as bfloat16: the upper halves of their float32."""
    words = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return graph.cast(graph.buffer(words, dt.bfloat16, x.shape), dt.float32)


def products() -> list[Made]:
    made: list[Made] = []
    for m, n, k in ((34, 33, 41),):
        a, b = whole(m, k), whole(k, n)
        want = a.astype(np.float32) @ b.astype(np.float32)
        made.append((matmul(halves(a), halves(b)), want))
        made.append((matmul(brains(a), brains(b)), want))
    return made


@pytest.mark.parametrize("arch", ["sm_75", "sm_86"])
def test_products_on_tensor_cores(arch: str, tmp_path: Path) -> None:
    program = Program(arch)
    for root, want in products():
        program.add(root, want)
    used = [text for text in program.parts if text.startswith("namespace") and "shim_mma<" in text]
    check(len(used) == (1 if arch == "sm_75" else 2), f"{len(used)} kernels with matrices")
    program.check(tmp_path)


SMALL = ("elementwise", "short_rows", "several_reductions", "sums_of_doubles", "transposition",
         "scan_of_short_rows", "sort_of_columns", "scan_down_the_columns", "sort_of_a_long_row",
         "product_of_doubles", "one_row_by_a_matrix")  # fmt: skip


@pytest.mark.parametrize("names", [SMALL[:6], SMALL[6:]], ids=["simple", "by waves"])
def test_kernels_compute_what_numpy_does(names: tuple[str, ...], tmp_path: Path) -> None:
    program = Program("sm_86")
    for name in names:
        program.add(*KINDS[name]())
    program.check(tmp_path)


def test_operators_and_random_graphs(tmp_path: Path) -> None:
    """Wrapping integers, conversions, choices; graphs whose results are exact."""
    program = Program("sm_86")
    for root, want in operators():
        program.add(root, want)
    for seed in range(part(6, 1)):
        for value in Maker(seed).roots(10):
            if value.exact and value.node.dtype is not dt.bfloat16:
                program.add(value.node, oracle.evaluate(value.node))
    program.check(tmp_path)
