"""C libraries for drivers: CUDA, OpenCL, Metal and WebGPU are reached through functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Native: TypeAlias = Callable[..., int]
"""Takes integers, an address counts as one, and tuples for structs. The GIL is released inside."""


class Library(Protocol):
    """A shared library of the machine, loaded for as long as the process lives."""

    name: str
    """As it was asked for: "libcuda.so.1"."""

    def function(self, symbol: str, signature: str) -> Native:
        """A function of it, `signature` written as C does: "int(*)(unsigned int, uint64_t)".

        Standard integer types, double, and uint64_t for every pointer. `words3` is a struct of
        three uint64_t by value: a tuple of so many ints. Raises: NotFound without the symbol;
        BadArgument for a signature that cannot be read.
        """
