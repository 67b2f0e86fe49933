"""The dtype of a result: the standard's tables, and numpy 2's where the standard has none.

The standard leaves mixed kinds open; here an integer with a float gives what numpy 2 gives
(int32 with float32 is float64), and bfloat16 behaves as float16 does, except that both together
give float32. Python scalars are weak: they take the dtype of the array beside them. A numpy
scalar is the Python scalar of its kind: np.int8(1) is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from compilers import dtype as dt
from compilers.dtype import DType

__all__ = [
    "DEFAULT_FLOAT",
    "DEFAULT_INT",
    "PROMOTE",
    "Number",
    "Scalar",
    "accumulator",
    "as_dtype",
    "as_scalar",
    "floating",
    "from_numpy",
    "scalar_dtype",
    "summed",
    "with_scalar",
]  # fmt: skip

Scalar: TypeAlias = bool | int | float
Number: TypeAlias = Scalar | np.generic
"""Types that count as scalars."""

_NUMBERS = frozenset({bool, int, float})
_PLAIN: dict[str, Callable[[Any], Scalar]] = {"b": bool, "i": int, "u": int, "f": float}
"""Conversion of a numpy scalar to a Python number, by the kind of its dtype."""

DEFAULT_FLOAT = dt.float32
DEFAULT_INT = dt.int64


def _twin(dtype: DType) -> str:
    return "float16" if dtype is dt.bfloat16 else dtype.name


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if {a.name, b.name} == {"float16", "bfloat16"}:
        return dt.float32
    name = np.promote_types(_twin(a), _twin(b)).name
    return dt.bfloat16 if name == "float16" and dt.bfloat16 in (a, b) else dt.BY_NAME[name]


PROMOTE = {(a, b): _promote(a, b) for a in dt.ALL for b in dt.ALL}
"""Every pair of dtypes and their common dtype."""


def with_scalar(dtype: DType, value: Scalar) -> DType:
    """The dtype of an array of `dtype` beside a Python scalar."""
    kind = dtype.kind
    if isinstance(value, bool) or kind == "f":
        return dtype
    if isinstance(value, int):
        return DEFAULT_INT if kind == "b" else dtype
    return dt.float64


def scalar_dtype(*values: Number) -> DType:
    """The dtype of scalars without an array: the default of their widest kind."""
    found = [as_scalar(value) for value in values]
    if any(isinstance(value, float) for value in found):
        return DEFAULT_FLOAT
    return dt.bool_ if all(isinstance(value, bool) for value in found) else DEFAULT_INT


def as_scalar(value: Any) -> Scalar:
    """A Python number from one, or from a numpy scalar. Raises: TypeError for anything else."""
    if type(value) in _NUMBERS:
        number: Scalar = value
        return number
    if isinstance(value, np.generic):
        plain = _PLAIN.get(value.dtype.kind)
        if plain is not None:
            return plain(value)
    elif isinstance(value, int | float):
        return value
    raise TypeError(f"{type(value).__name__} is not a real number; make a tensor with asarray")


def floating(dtype: DType) -> DType:
    """The dtype in which a function of floats computes."""
    return dtype if dtype.kind == "f" else dt.float64


def accumulator(dtype: DType) -> DType:
    """The dtype that a sum or product is computed in: half precision in float32."""
    return dt.float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype


def summed(dtype: DType) -> DType:
    """The dtype of the sum or product of an array: small integers widen, as in the standard."""
    if dtype.kind == "f":
        return dtype
    return dt.uint64 if dtype.kind == "u" else dt.int64


def as_dtype(dtype: object, default: DType | None = None) -> DType:
    """Check a DType; None is `default`. Raises: TypeError with the names of all."""
    if isinstance(dtype, DType):
        return dtype
    if dtype is None and default is not None:
        return default
    names = ", ".join(dt.BY_NAME)
    raise TypeError(f"{dtype!r} is not a dtype of this namespace; use one of {names}")


def from_numpy(dtype: np.dtype[np.generic]) -> DType:
    """The DType of a numpy dtype. Raises: TypeError for one without a DType."""
    found = dt.BY_NAME.get(dtype.name)
    if found is None:
        raise TypeError(
            f"numpy dtype {dtype} is not one of ours; convert it to {', '.join(dt.BY_NAME)}"
        )
    return found
