"""One kernel of the corpus, and the words that all sources begin with."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Dim = tuple[int, int, int]
PRELUDE: Final = """
typedef unsigned u32; typedef unsigned long long u64; typedef long long i64;
typedef unsigned short u16; typedef unsigned char u8;
#define F extern "C" __global__ void f
#define T const int t = threadIdx.x
#define I const int i = blockIdx.x * blockDim.x + threadIdx.x
#define SYNC __syncthreads()
#define ALL 0xffffffffu
#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("unroll 1")
#define SHARED(p) ((u32)__cvta_generic_to_shared(p))
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel `f`; its first buffers are its results."""

    name: str
    source: str
    args: tuple[Any, ...]
    expected: Callable[..., Any]
    """Of all arguments: the first buffer, or a tuple of the first ones."""
    grid: int = 1
    block: int | Dim = 128
    least: int = 75
    """The first architecture that has its instructions."""
    rtol: float = 0
    only: tuple[int, ...] = ()
    """Architectures, where it is for some alone."""

    def on(self, sm: int) -> bool:
        """Whether an architecture can run it."""
        return sm >= self.least and (not self.only or sm in self.only)

    @property
    def text(self) -> str:
        """The whole source."""
        return PRELUDE + self.source

    @property
    def dim(self) -> Dim:
        """Threads of a block."""
        return self.block if isinstance(self.block, tuple) else (self.block, 1, 1)


def rng(name: str) -> np.random.Generator:
    """Numbers that a name always draws again."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def ints(name: str, count: int, low: int = 0, high: int = 1 << 32, dtype: Any = np.uint32) -> Any:
    """Integers from low to below high."""
    return rng(name).integers(low, high, count, dtype)


def floats(name: str, count: int, low: float = -4, high: float = 4, dtype: Any = np.float32) -> Any:
    """Numbers between two."""
    return rng(name).uniform(low, high, count).astype(dtype)


def zeros(count: int, dtype: Any = np.uint32) -> Any:
    """What a result is before."""
    return np.zeros(count, dtype)
