"""What a kernel is called with, and what has to come out: data alone, for compiler and runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TYPES: Final = {
    "float32": "fp32", "float64": "fp64", "float16": "fp16", "int32": "i32", "uint32": "u32",
    "int8": "i8", "uint8": "u8",
}  # fmt: skip


@dataclass(frozen=True)
class Bits:
    """An array of a type that numpy lacks, by its bits."""

    kind: str
    """Triton's name: "bf16", "fp8e5"."""
    bits: Array


@dataclass(frozen=True)
class Wanted:
    """An array of expected values, and how far results may be away."""

    values: Array
    relative: float = 0.0
    absolute: float = 0.0

    def wrong(self, found: Array) -> int:
        """How many values are not the expected ones; NaN is right where it is expected."""
        if not self.relative and not self.absolute:
            return int(np.count_nonzero(found.reshape(-1) != self.values.reshape(-1)))
        near = np.isclose(
            found.reshape(-1).astype(np.float64), self.values.reshape(-1).astype(np.float64),
            self.relative, self.absolute, equal_nan=True,
        )  # fmt: skip
        return int(np.count_nonzero(~near))


Argument = Array | Bits | int
Constant = int | float | bool | str


@dataclass(frozen=True)
class Case:
    """One launch."""

    kernel: str
    args: Mapping[str, Argument]
    """In the kernel's order. Arrays are copied to the device and back."""
    wanted: Mapping[str, Wanted]
    constants: Mapping[str, Constant]
    grid: tuple[int, int, int] = (1, 1, 1)
    warps: int = 4
    name: str = ""
    """Where a kernel has several cases."""

    @property
    def title(self) -> str:
        """Unique among all cases."""
        return self.name or self.kernel

    def signature(self) -> dict[str, str]:
        """Triton's types of all parameters, by name."""
        found = {name: _type(value) for name, value in self.args.items()}
        return found | dict.fromkeys(self.constants, "constexpr")


def _type(value: Argument) -> str:
    if isinstance(value, int):
        return "i32"
    return f"*{value.kind}" if isinstance(value, Bits) else f"*{TYPES[value.dtype.name]}"


def raw(value: Array | Bits) -> Array:
    """The array that is copied."""
    return value.bits if isinstance(value, Bits) else value


def brain(values: Array) -> Array:
    """bfloat16's bits of float32 values, rounded to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def of_brain(bits: Array) -> Array:
    """float32 values of bfloat16's bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def quarter(values: Array) -> Array:
    """float8_e5m2's bits of float32 values, rounded to even: a half's upper byte."""
    bits = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return ((bits + 0x7F + (bits >> 8 & 1)) >> 8).astype(np.uint8)


def of_quarter(bits: Array) -> Array:
    """float32 values of float8_e5m2's bits."""
    return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def blocks(n: int, block: int) -> tuple[int, int, int]:
    """A grid of whole blocks."""
    return -(-n // block), 1, 1


def stacked(rows: Sequence[Array], dtype: str) -> Array:
    """Results that a kernel stores one behind the other."""
    return np.concatenate([np.asarray(row).astype(dtype) for row in rows])
