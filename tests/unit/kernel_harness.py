"""Run kernels of the IR on numpy arrays, through either renderer, without a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cffi
import llvmlite.binding as llvm
import numpy as np

from compilers import dtype as dt
from compilers.cpu import clang
from compilers.cpu import llvm as llvm_toolchain
from compilers.dtype import DType
from compilers.index import Index, Var, var
from compilers.index import const as index_const
from compilers.ir import Expr, Kernel, Load, Loop, Ref, Store, Valid
from compilers.render import c as render_c
from compilers.render import llvm as render_llvm
from tests.host_code import addresses

T = TypeVar("T")
FFI = cffi.FFI()
RENDERERS: dict[str, Any] = {"llvm": render_llvm, "c": render_c}
TOOLCHAINS: dict[str, Any] = {"llvm": llvm_toolchain, "c": clang}
LLVM_PART = re.compile(r"^define.*?^}$|^[^\n]+$", re.MULTILINE | re.DOTALL)
"""A function, or one line."""
C_BODY = "static __attribute__((noinline)) void"
"""Where the kernel begins."""
VECTOR = 16
HOST = frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


def merge(texts: Sequence[str], renderer: str) -> str:
    """One module of many: what several of them declare, helpers too, is declared once."""
    if renderer == "llvm":
        parts = [part for text in texts for part in LLVM_PART.findall(text)]
        return "\n".join(dict.fromkeys(parts))
    split = [text.partition(C_BODY) for text in texts]
    header = dict.fromkeys(line for head, _, _ in split for line in head.splitlines())
    return "\n".join([*header, *(mark + body for _, mark, body in split)])


def compile_all(
    kernels: Sequence[Kernel], renderer: str, features: frozenset[str] = HOST
) -> list[Any]:
    """Functions of (addresses, begin, end, scratch address), by one call of the compiler."""
    renamed = [replace(kernel, name=f"kernel{n}") for n, kernel in enumerate(kernels)]
    text = merge([RENDERERS[renderer].render(kernel, features) for kernel in renamed], renderer)
    blob = TOOLCHAINS[renderer].compile_object(text, "x86_64", features)
    kind = "void (*)(uint64_t *, uint64_t, uint64_t, uint64_t)"
    return [FFI.cast(kind, at) for at in addresses(blob, [one.name for one in renamed])]


def launch(function: Any, kernel: Kernel, arrays: Sequence[np.ndarray]) -> None:
    """Run the whole grid; parameters are the arrays' memory."""
    scratch = np.zeros(kernel.scratch_bytes + 64, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64
    addresses = FFI.new("uint64_t[]", [array.ctypes.data for array in arrays] or [0])
    function(addresses, 0, kernel.grid, aligned)


def run(
    kernel: Kernel, arrays: Sequence[np.ndarray], renderer: str, features: frozenset[str] = HOST
) -> None:
    """Compile and run one kernel."""
    launch(compile_all([kernel], renderer, features)[0], kernel, arrays)


def storage(dtype: DType) -> np.dtype:
    """The numpy dtype of a parameter's elements."""
    return np.dtype(dtype.storage)


def read(ref: Ref, index: Index, valid: Valid = ()) -> Expr:
    """A load expression."""
    return Expr("load", ref.dtype, (), Load(ref, index, valid))


@dataclass(frozen=True, slots=True)
class Call:
    """op over equal-length arrays of the sources' storage dtypes; `lanes` 1 is a scalar loop."""

    op: str
    out: DType
    arrays: Sequence[np.ndarray]
    sources: Sequence[DType]
    lanes: int = VECTOR

    @property
    def count(self) -> int:
        """Elements, rounded up to whole vectors."""
        return -(-len(self.arrays[0]) // VECTOR) * VECTOR

    def kernel(self) -> Kernel:
        """out[i] = op(in0[i], in1[i], ...)."""
        refs = [Ref("out", self.out, self.count, "global", 0)]
        for slot, source in enumerate(self.sources, 1):
            refs.append(Ref(f"in{slot}", source, self.count, "global", slot))
        step, lane = Var("i", self.count // self.lanes), Var("l", self.lanes)
        at = var(step) * self.lanes + (var(lane) if self.lanes > 1 else index_const(0))
        value = Expr(self.op, self.out, tuple(read(ref, at) for ref in refs[1:]))
        body: tuple[Any, ...] = (Store(refs[0], at, value),)
        if self.lanes > 1:
            body = (Loop(lane, "vector", body),)
        return Kernel("kernel", tuple(refs), (), Loop(step, "grid", body))

    def launch(self, function: Any, kernel: Kernel) -> np.ndarray:
        """The result, of the output's storage dtype."""
        memory = [np.zeros(self.count, storage(self.out))]
        for array in self.arrays:
            memory.append(np.ones(self.count, array.dtype))
            memory[-1][: len(array)] = array
        launch(function, kernel, memory)
        return memory[0][: len(self.arrays[0])]


def apply_all(
    calls: Sequence[Call], renderer: str, features: frozenset[str] = HOST
) -> list[np.ndarray]:
    """The results of calls that are compiled together."""
    kernels = [call.kernel() for call in calls]
    functions = compile_all(kernels, renderer, features)
    triples = zip(calls, functions, kernels, strict=True)
    return [call.launch(function, kernel) for call, function, kernel in triples]


def by_all(work: Callable[[str], T]) -> dict[str, T]:
    """What `work` gives for each renderer; clang runs while LLVM does."""
    with ThreadPoolExecutor(len(RENDERERS)) as pool:
        return dict(zip(RENDERERS, pool.map(work, RENDERERS), strict=True))


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bits, half to even, by comparing both neighbours in float64."""
    words = np.asarray(values, np.float32).view(np.uint32)
    down = words & np.uint32(0xFFFF0000)
    rest = words & np.uint32(0xFFFF)
    up = (rest > 0x8000) | ((rest == 0x8000) & ((words >> 16) & 1).astype(bool))
    result = ((down >> 16) + up).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), result)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float_bits(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Bits to compare: every NaN is one NaN."""
    if dtype is dt.bfloat16:
        nan = np.isnan(from_bfloat16(array))
        return np.where(nan, np.uint16(0x7FC0), array)
    if dtype.kind != "f":
        return array
    bits = array.view(f"u{dtype.itemsize}").copy()
    bits[np.isnan(array)] = np.iinfo(bits.dtype).max
    return bits
