"""Run kernels of the IR on numpy arrays, through either renderer, without a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cffi
import llvmlite.binding as llvm
import numpy as np

from compilers import clang, render_c, render_llvm
from compilers import dtype as dt
from compilers import llvm as llvm_toolchain
from compilers.dtype import DType
from compilers.index import Index, Var, var
from compilers.index import const as index_const
from compilers.ir import Expr, Kernel, Load, Loop, Ref, Store, Valid

FFI = cffi.FFI()
RENDERERS = ("llvm", "c")
VECTOR = 16
HOST = frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)
_ENGINES: list[Any] = []


def compile_text(kernel: Kernel, renderer: str, features: frozenset[str] = HOST) -> bytes:
    """The kernel's relocatable object."""
    if renderer == "llvm":
        text = render_llvm.render(kernel, features)
        return llvm_toolchain.compile_object(text, "x86_64", features)
    return clang.compile_object(render_c.render(kernel, features), "x86_64", features)


def load(kernel: Kernel, renderer: str, features: frozenset[str] = HOST) -> Any:
    """A function of (addresses, begin, end, scratch address)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    image = compile_text(kernel, renderer, features)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(image))
    engine.finalize_object()
    _ENGINES.append(engine)
    address = engine.get_function_address(kernel.name)
    return FFI.cast("void (*)(uint64_t *, uint64_t, uint64_t, uint64_t)", address)


def run(
    kernel: Kernel, arrays: Sequence[np.ndarray], renderer: str, features: frozenset[str] = HOST
) -> None:
    """Run the whole grid; parameters are the arrays' memory."""
    scratch = np.zeros(kernel.scratch_bytes + 64, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64
    addresses = FFI.new("uint64_t[]", [array.ctypes.data for array in arrays] or [0])
    load(kernel, renderer, features)(addresses, 0, kernel.grid, aligned)


def storage(dtype: DType) -> np.dtype:
    """The numpy dtype of a parameter's elements."""
    return np.dtype(dtype.storage)


def read(ref: Ref, index: Index, valid: Valid = ()) -> Expr:
    """A load expression."""
    return Expr("load", ref.dtype, (), Load(ref, index, valid))


def elementwise(
    op: str, out: DType, sources: Sequence[DType], count: int, lanes: int, arg: Any = None
) -> Kernel:
    """out[i] = op(in0[i], in1[i], ...); `lanes` 1 is a scalar loop."""
    params = [Ref("out", out, count, "global", 0)]
    params += [Ref(f"in{n}", source, count, "global", n + 1) for n, source in enumerate(sources)]
    step = Var("i", count // lanes)
    lane = Var("l", lanes)
    at = var(step) * lanes + (var(lane) if lanes > 1 else index_const(0))
    value = Expr(op, out, tuple(read(ref, at) for ref in params[1:]), arg)
    body: tuple[Any, ...] = (Store(params[0], at, value),)
    if lanes > 1:
        body = (Loop(lane, "vector", body),)
    return Kernel("kernel", tuple(params), (), Loop(step, "grid", body))


def apply(
    op: str,
    out: DType,
    arrays: Sequence[np.ndarray],
    sources: Sequence[DType],
    renderer: str,
    lanes: int = VECTOR,
    arg: Any = None,
    features: frozenset[str] = HOST,
) -> np.ndarray:
    """op over equal-length arrays of storage dtype; the result in storage dtype."""
    count = len(arrays[0])
    padded_count = -(-count // VECTOR) * VECTOR
    inputs = []
    for array in arrays:
        padded = np.ones(padded_count, array.dtype)
        padded[:count] = array
        inputs.append(padded)
    result = np.zeros(padded_count, storage(out))
    kernel = elementwise(op, out, sources, padded_count, lanes, arg)
    run(kernel, [result, *inputs], renderer, features)
    return result[:count]


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
