"""Runs graphs of numpy leaves on a CPU device; every buffer ends at an unreadable page."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import cffi
import numpy as np

from compilers import toolchains
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.cpu import CpuDevice
from tests import oracle
from tests.graph_maker import Value
from tests.support import check

PAGE = mmap.PAGESIZE
FFI = cffi.FFI()
FFI.cdef(
    "void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);"
    "int mprotect(void *, size_t, int);"
)
LIBC: Any = FFI.dlopen(None)
GARBAGE = 0xAB
UNITS = {"bfloat16": 2.0**-6, "float16": 2.0**-9, "float32": 2.0**-18, "float64": 2.0**-45}


class Guarded:
    """Buffers that end at an unreadable page; unmapped by `close`."""

    def __init__(self) -> None:
        self._maps: list[tuple[Any, int]] = []

    def array(self, nbytes: int, fill: bytes | None = None) -> np.ndarray:
        """`nbytes` of garbage, or of `fill`."""
        room = -(-max(nbytes, 1) // PAGE) * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = LIBC.mmap(FFI.NULL, room + PAGE, 3, flags, -1, 0)
        self._maps.append((base, room + PAGE))
        address = int(FFI.cast("uintptr_t", base))
        check(LIBC.mprotect(FFI.cast("void *", address + room), PAGE, 0) == 0, "mprotect")
        view: Any = FFI.buffer(FFI.cast("char *", address + room - nbytes), nbytes)
        array = np.frombuffer(view, np.uint8)
        array[:] = GARBAGE if fill is None else np.frombuffer(fill, np.uint8)
        return array

    def close(self) -> None:
        for base, nbytes in self._maps:
            LIBC.munmap(base, nbytes)
        self._maps.clear()


def compute(
    roots: Sequence[Node], device: CpuDevice, target: Target, compiler: str = "LLVM"
) -> list[np.ndarray]:
    """The stored elements of `roots`, as scheduled, compiled and launched."""
    key, leaves = signature(roots)
    made = plan(rebuild(key).roots, target)
    memory = Guarded()
    try:
        arrays = [memory.array(leaf.nbytes, leaf.tobytes()) for leaf in leaves]
        arrays += [memory.array(nbytes) for nbytes in made.nbytes]
        for step in made.steps:
            binary = toolchains.build(step.kernel, compiler, device.arch, target.features)
            places = [arrays[value].ctypes.data for value in step.values]
            device.launch(device.load(binary), places, step.kernel.grid)
        device.synchronize()
        return [
            arrays[value].copy().view(root.dtype.storage).reshape(root.shape)
            for value, root in zip(made.roots, roots, strict=True)
        ]
    finally:
        memory.close()


def compare(value: Value, got: np.ndarray, want: np.ndarray) -> None:
    """Bit for bit where the value is exact, within its bound where it is not."""
    if value.node.dtype.name == "bfloat16":
        got = (got.astype(np.uint32) << 16).view(np.float32)
    if value.exact:
        np.testing.assert_array_equal(got, want)
        return
    error = UNITS[value.node.dtype.name] * value.bound
    np.testing.assert_allclose(got, want, rtol=0, atol=error)


def differ(
    values: Sequence[Value], device: CpuDevice, target: Target, compiler: str = "LLVM"
) -> None:
    """The device's results against numpy's."""
    wanted = [oracle.evaluate(value.node) for value in values]
    found = compute([value.node for value in values], device, target, compiler)
    for value, got, want in zip(values, found, wanted, strict=True):
        compare(value, got, want)
