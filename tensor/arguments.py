"""The check that arguments of public functions are tensors, derived from their annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from types import FunctionType, NoneType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from tensor.core import Tensor, not_a_tensor

__all__ = ["NUMBERS", "OPERAND", "missing_method", "takes_tensors", "tensors_of"]

P = ParamSpec("P")
R = TypeVar("R")

NUMBERS = (int, float, np.bool_, np.integer, np.floating)
OPERAND = (Tensor, *NUMBERS)
_KINDS: dict[str, Any] = {
    "Tensor": Tensor,
    "Tensor | None": (Tensor, NoneType),
    "int | Tensor": (Tensor, int, np.integer),
    "Operand": OPERAND,
    "Operand | None": (*OPERAND, NoneType),
}
"""Types that an argument may have, by the text of its annotation."""


def takes_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which checks its arguments where their annotation is one of `_KINDS`.

    Raises, when called: TypeError naming the argument, the function and asarray.
    """
    code, notes = cast(FunctionType, function).__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    wanted = {name: _KINDS[notes[name]] for name in names if notes.get(name) in _KINDS}
    place = f"of {function.__name__.rstrip('_')}"
    # Python's own TypeErrors have __qualname__: sum_ is xp.sum for callers.
    function.__qualname__ = function.__qualname__.rstrip("_")
    if list(wanted) == [*names[:1]] and code.co_posonlyargcount:
        return cast("Callable[P, R]", _checks_first(function, f"{names[0]} {place}"))
    kinds = [(name, wanted.get(name, object)) for name in names[: code.co_argcount]]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for value, (name, kind) in zip(args, kinds, strict=False):
            if not isinstance(value, kind):
                raise not_a_tensor(value, f"{name} {place}")
        for name, value in kwargs.items():
            if name in wanted and not isinstance(value, wanted[name]):
                raise not_a_tensor(value, f"{name} {place}")
        return function(*args, **kwargs)

    return checked


def _checks_first(function: Callable[..., R], place: str) -> Callable[..., R]:
    """The same where only the first argument is a tensor, in half the time."""

    @wraps(function)
    def checked(x: object, /, *args: object, **kwargs: object) -> R:
        if not isinstance(x, Tensor):
            raise not_a_tensor(x, place)
        return function(x, *args, **kwargs)

    return checked


def missing_method(name: str) -> AttributeError | None:
    """The error for `x.name(...)` where the namespace has the function; None where it has none."""
    import tensor

    function = getattr(tensor, name, None) if name in tensor.__all__ else None
    if not isinstance(function, FunctionType):
        return None
    first = next(iter(signature(function).parameters.values()), None)
    if first is None or first.annotation not in ("Tensor", "Operand"):
        return None
    return AttributeError(
        f"a tensor has no method {name!r}: it is a function of the namespace; "
        f"import tensor as xp, then write xp.{name}(x, ...)"
    )


def tensors_of(arrays: Iterable[Tensor], place: str) -> list[Tensor]:
    """A sequence of tensors as a list. Raises: TypeError for anything else."""
    if not isinstance(arrays, Iterable):
        raise not_a_tensor(arrays, place)
    found = list(arrays)
    for x in found:
        if not isinstance(x, Tensor):
            raise not_a_tensor(x, f"an element of {place}")
    return found
