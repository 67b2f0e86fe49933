"""Questions about dtypes, and the standard's inspection interface."""

from __future__ import annotations

from typing import TypeAlias

from compilers import dtype as dt
from compilers.dtype import DType
from tensor import engine
from tensor.core import Tensor
from tensor.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    PROMOTE,
    Finfo,
    Iinfo,
    Scalar,
    finfo_of,
    iinfo_of,
    isdtype,
    scalar_dtype,
    with_scalar,
)

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

Typed: TypeAlias = Tensor | DType


def _dtype(x: Typed) -> DType:
    return x if isinstance(x, DType) else x.dtype


def result_type(*arrays_and_dtypes: Typed | Scalar) -> DType:
    """The dtype that an operation on all of these has. Raises: ValueError for none."""
    if not arrays_and_dtypes:
        raise ValueError("result_type needs at least one array or dtype")
    typed = [_dtype(x) for x in arrays_and_dtypes if isinstance(x, Tensor | DType)]
    scalars = [x for x in arrays_and_dtypes if not isinstance(x, Tensor | DType)]
    found = typed or [scalar_dtype(scalars[0])]
    result = found[0]
    for dtype in found[1:]:
        result = PROMOTE[result, dtype]
    for value in scalars:
        result = with_scalar(result, value)
    return result


def can_cast(from_: Typed, to: DType, /) -> bool:
    """Whether promotion leads from one dtype to the other."""
    return PROMOTE[_dtype(from_), to] is to


def finfo(type: Typed, /) -> Finfo:
    """Machine limits of a floating dtype. Raises: TypeError for another."""
    return finfo_of(_dtype(type))


def iinfo(type: Typed, /) -> Iinfo:
    """Machine limits of an integer dtype. Raises: TypeError for another."""
    return iinfo_of(_dtype(type))


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
        """The default device first, then the CPU."""
        return list(dict.fromkeys([engine.default_device(), "CPU"]))

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Dtypes by name, of one kind or all of them."""
        return {d.name: d for d in dt.ALL if kind is None or isdtype(d, kind)}


def array_namespace_info() -> Info:
    """The standard's inspection interface."""
    return Info()
