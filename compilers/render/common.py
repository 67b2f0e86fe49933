"""Common to all renderers: the values they name, what they must print.

A printer (LLVM IR, C) implements `Printer`; `render_walk.Walker` drives it over a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import copysign, gcd, inf
from struct import pack, unpack
from typing import Protocol

from compilers.dtype import DType
from compilers.ir import Copy, Gather, Kernel, Matrix, Pending, Ref, TileMatrix
from compilers.math.build import MEMORY

CACHE_LINE = 64
DOT2_LANES = 4
"""Lanes of the narrowest vector that has the bfloat16 pair product."""

FUNCTIONS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
             "rint": "rint", "copysign": "copysign", "fma": "fma"}  # fmt: skip
"""Op -> the name that C's builtins and LLVM's intrinsics have for it."""


def float32_word(value: float) -> int:
    """The bits of a float32; of an infinity above its range, as IEEE 754 rounds."""
    try:
        word: int = unpack("<I", pack("<f", value))[0]
    except OverflowError:
        return float32_word(copysign(inf, value))
    return word


def memory_dtype(ref: Ref) -> DType:
    """The dtype a renderer loads and stores for an element of `ref`."""
    return MEMORY.get(ref.dtype, ref.dtype)


def alignment(dtype: DType, lanes: int, unit: int, most: int) -> int:
    """Bytes that `lanes` elements from a multiple of `unit` on are aligned to, in an array that is
    aligned to `most` bytes."""
    return min(most, dtype.itemsize * gcd(unit, max(lanes, 1)))


@dataclass(frozen=True, slots=True)
class Value:
    """A printed value: a name or literal, its dtype, and its lanes (0: a scalar)."""

    text: str
    dtype: DType
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """What a load or store names: consecutive elements from a scalar index on, or the elements at
    each lane of an index."""

    ref: Ref
    index: Value
    mask: Value | None = None
    """A bool lane for each element; not for scalars."""
    unit: int = 1
    """A scalar index is a multiple of it (0: it is 0): known alignment where that counts."""
    streaming: bool = False
    """A store past the caches, aligned to its own size, to CACHE_LINE at most."""


class Printer(Protocol):
    """One target language. Operands of `emit` have equal lanes; masks are bool values."""

    narrow: bool
    """Whether indices are int32 where they fit; otherwise all are int64."""

    def literal(self, value: float, dtype: DType) -> Value: ...
    def iota(self, lanes: int, dtype: DType) -> Value: ...
    def splat(self, value: Value, lanes: int) -> Value: ...
    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value: ...
    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value: ...
    def load(self, access: MemoryAccess, lanes: int) -> Value: ...
    def store(self, access: MemoryAccess, value: Value) -> None: ...
    def loop(self, extent: int | None) -> AbstractContextManager[Value]:
        """A serial loop; None: the launch's grid items."""

    def poll(self) -> None:
        """Return from a CPU's kernel when the HOLD bit of its packet is set."""

    def place(self, kind: str) -> Value:
        """ "grid" or "lane": the number of this workgroup or lane of a GPU."""

    def barrier(self, *, wave: bool = False) -> None: ...
    def order(self) -> None:
        """What was printed before is issued before what is printed later."""

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None: ...
    def gather(self, step: Gather, index: Value) -> None: ...
    def copy(self, step: Copy, index: Value, at: Value, mask: Value | None) -> None: ...
    def tile_matrix(self, step: TileMatrix, a_index: Value, b_index: Value) -> None: ...
    def pending(self, step: Pending) -> None: ...
    def branch(self, condition: Value) -> AbstractContextManager[None]: ...
    def rarely(self, condition: Value, usual: Value, other: Callable[[], Value]) -> Value:
        """`usual`, but `other` in the lanes where the condition holds. `other` prints its value in
        a branch that is taken where one of them does."""

    def finish(self, kernel: Kernel) -> str: ...


class LanesApart:
    """A printer's errors for what lanes of only some GPUs do together, or leave to others."""

    def gather(self, step: Gather, index: Value) -> None:
        raise TypeError(f"no lanes gather {step.source.name} together here")

    def copy(self, step: Copy, index: Value, at: Value, mask: Value | None) -> None:
        raise TypeError(f"nothing copies {step.source.name} while a lane goes on here")

    def tile_matrix(self, step: TileMatrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"no matrix step {step.form.name} here")

    def pending(self, step: Pending) -> None:
        raise TypeError(f"no {step.of} under way here")


class HostPrinter(LanesApart):
    """A CPU printer's errors for the parts of the IR that only GPUs have."""

    narrow = False

    def place(self, kind: str) -> Value:
        raise TypeError(f"a CPU has no {kind} number")

    def barrier(self, *, wave: bool = False) -> None:
        raise TypeError("a CPU kernel has no barrier")

    def order(self) -> None:
        raise TypeError("a CPU orders its instructions itself")

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"a CPU has no matrix step {step.form.name}")
