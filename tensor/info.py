"""Questions about dtypes, and the standard's inspection interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from compilers import dtype as dt
from compilers.dtype import DType
from tensor import engine
from tensor.arguments import NUMBERS
from tensor.core import Tensor
from tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    PROMOTE,
    Number,
    as_dtype,
    as_scalar,
    scalar_dtype,
    with_scalar,
)

__all__ = [
    "ARRAY_API_VERSIONS", "Finfo", "Iinfo", "Info", "array_namespace_info", "can_cast", "finfo",
    "iinfo", "isdtype", "result_type",
]  # fmt: skip

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

Typed: TypeAlias = Tensor | DType


def _dtype(x: object, place: str) -> DType:
    if isinstance(x, Tensor | DType):
        return x.dtype if isinstance(x, Tensor) else x
    names = ", ".join(dt.BY_NAME)
    raise TypeError(
        f"{place} is of type {type(x).__name__}, neither tensor nor dtype; make a tensor with "
        f"asarray, or use one of {names}"
    )


def result_type(*arrays_and_dtypes: Typed | Number) -> DType:
    """The dtype that an operation on all of these has. Raises: ValueError for none."""
    if not arrays_and_dtypes:
        raise ValueError("result_type needs at least one array or dtype")
    place, scalars, typed = "an argument of result_type", [], []
    for x in arrays_and_dtypes:
        if isinstance(x, NUMBERS):
            scalars.append(as_scalar(x))
        else:
            typed.append(_dtype(x, place))
    if not typed:
        return scalar_dtype(*scalars)
    result = typed[0]
    for dtype in typed[1:]:
        result = PROMOTE[result, dtype]
    for value in scalars:
        result = with_scalar(result, value)
    return result


def can_cast(from_: Typed, to: DType, /) -> bool:
    """Whether promotion leads from one dtype to the other."""
    target = as_dtype(to)
    return PROMOTE[_dtype(from_, "from_ of can_cast"), target] is target


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether `dtype` is a dtype, of a kind ("bool", "integral", ...), or of one in a tuple."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, DType):
        return dtype is kind
    letters = KINDS.get(kind)
    if letters is None:
        raise ValueError(f"unknown kind {kind!r}; the kinds are {', '.join(KINDS)}")
    return as_dtype(dtype).kind in letters


@dataclass(frozen=True, slots=True)
class Finfo:
    """Machine limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iinfo:
    """Machine limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Typed, /) -> Finfo:
    """Machine limits of a floating dtype. Raises: TypeError for another."""
    dtype = _dtype(type, "type of finfo")
    if dtype.kind != "f":
        raise TypeError(f"finfo needs a floating dtype, not {dtype.name}")
    if dtype is dt.bfloat16:
        largest = (2.0 - 2.0**-7) * 2.0**127
        return Finfo(16, 2.0**-7, largest, -largest, 2.0**-126, dtype)
    info = np.finfo(dtype.name)
    return Finfo(
        info.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        dtype,
    )


def iinfo(type: Typed, /) -> Iinfo:
    """Machine limits of an integer dtype. Raises: TypeError for another."""
    dtype = _dtype(type, "type of iinfo")
    if dtype.kind not in "iu":
        raise TypeError(f"iinfo needs an integer dtype, not {dtype.name}")
    low, high = dt.limits(dtype)
    return Iinfo(dtype.bits, high, low, dtype)


class Info:
    """What this namespace can do."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """No shape depends on data; ranks have no limit of their own."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> str:
        """The device of arrays that name none."""
        return engine.default_device()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of arrays that name none."""
        return {"real floating": DEFAULT_FLOAT, "integral": DEFAULT_INT, "indexing": DEFAULT_INT}

    def devices(self) -> list[str]:
        """The default device first, then the others that can be opened, the best first.

        Nothing more is opened for it: files are inspected. OpenCL, CUDA, Metal and WebGPU devices
        are listed once they are open, since their libraries would have to be loaded to know.
        """
        return engine.devices()

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Dtypes by name, of one kind or all of them."""
        return {d.name: d for d in dt.ALL if kind is None or isdtype(d, kind)}


def array_namespace_info() -> Info:
    """The standard's inspection interface."""
    return Info()
