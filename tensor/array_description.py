"""Array interfaces of other libraries' device memory, read strictly: `__cuda_array_interface__`.

Whether anything is at the pointer, the driver checks; that the stream is one, nothing can.
# src: Numba documentation, CUDA Array Interface (Version 3); NumPy, The array interface protocol
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, Final, NoReturn

import numpy as np

from drivers.base.errors import BadArgument, Unsupported

__all__ = ["ArrayDescription", "read", "steps"]

_TYPESTR: Final = re.compile(r"[<>|][tbiufcmMOSUV][0-9]{1,9}")
_REQUIRED: Final = ("shape", "typestr", "data", "version")
_PAIR: Final = 2
_WORDS: Final = 1 << 64
_SHOWN_BITS: Final = 80
_MOST_BYTES: Final = (1 << 63) - 1
_REPORT: Final = "report it to the library that it comes from"
_LEAST_STREAM: Final = 1
"""The interface forbids 0, which could be either default stream: 1 and 2 name these."""


@dataclass(frozen=True, slots=True)
class ArrayDescription:
    """What an array interface says. Units: `strides` in bytes; None: row-major, without gaps."""

    name: str
    """Whose interface it is, for messages."""
    shape: tuple[int, ...]
    element: np.dtype[Any]
    pointer: int
    readonly: bool
    strides: tuple[int, ...] | None
    stream: int | None


def read(obj: Any, interface: str) -> ArrayDescription:
    """What an object's interface says.

    Raises: BadArgument for what it lacks, or has in another form; Unsupported for a mask.
    """
    name = f"{type(obj).__name__}.{interface}"
    said = getattr(obj, interface)
    if not isinstance(said, Mapping):
        _refuse(name, f"is a {type(said).__name__}, not a mapping")
    for key in _REQUIRED:
        if key not in said:
            _refuse(name, f"has no {key!r}")
    _number(said["version"], f"{name} version", 0)
    if said.get("mask") is not None:
        raise Unsupported(f"{type(obj).__name__} has a mask", hint="fill it in before")
    shape = _numbers(said["shape"], f"{name} shape", 0)
    data = said["data"]
    if not isinstance(data, tuple | list) or len(data) != _PAIR:
        _refuse(name, "data is not a pair (pointer, readonly)")
    if not isinstance(data[1], bool | int | np.bool_):
        _refuse(name, f"data has a {type(data[1]).__name__} for readonly")
    strides, stream = said.get("strides"), said.get("stream")
    if strides is not None:
        strides = _numbers(strides, f"{name} strides", -_WORDS)
        if len(strides) != len(shape):
            _refuse(name, f"has {len(strides)} strides for {len(shape)} axes")
    element = _element(said["typestr"], name)
    if prod(max(n, 1) for n in shape) * element.itemsize > _MOST_BYTES:
        _refuse(name, "has more elements than an array can")
    return ArrayDescription(
        name=name, shape=shape, element=element,
        pointer=_number(data[0], f"{name} pointer", 0), readonly=bool(data[1]), strides=strides,
        stream=None if stream is None else _number(stream, f"{name} stream", _LEAST_STREAM),
    )  # fmt: skip


def steps(said: ArrayDescription, itemsize: int) -> tuple[int, ...] | None:
    """Its strides in elements. An axis of one element, or of an empty array, has no step.

    Raises: Unsupported for strides that are no multiple of the element, as of a record's field.
    """
    if said.strides is None:
        return None
    moving = [n > 1 and all(said.shape) for n in said.shape]
    for step, moves in zip(said.strides, moving, strict=True):
        if moves and step % itemsize:
            raise Unsupported(
                f"{said.name} has a stride of {step} bytes, which is not a multiple of the "
                f"{itemsize} of an element",
                hint="copy it where it comes from, so that it is contiguous",
            )
    pairs = zip(said.strides, moving, strict=True)
    return tuple(step // itemsize if moves else 0 for step, moves in pairs)


def _element(typestr: object, name: str) -> np.dtype[Any]:
    """numpy's dtype of a type string. Raises: BadArgument."""
    if not isinstance(typestr, str) or not _TYPESTR.fullmatch(typestr):
        shown = f"{typestr!r:.40}" if isinstance(typestr, str) else type(typestr).__name__
        _refuse(name, f"typestr {shown} is none of the array interface, such as '<f4'")
    try:
        return np.dtype(typestr)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"{name} typestr {typestr!r}: {error}", hint=_REPORT) from error


def _refuse(name: str, why: str) -> NoReturn:
    raise BadArgument(f"{name} {why}", hint=_REPORT)


def _numbers(value: object, name: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, tuple | list):
        _refuse(name, f"is a {type(value).__name__}, not a tuple of numbers")
    return tuple(_number(one, name, least) for one in value)


def _number(value: Any, name: str, least: int) -> int:
    """A whole number. Raises: BadArgument for anything else, and outside of 64 bits."""
    try:
        number = index(value)
    except TypeError as error:
        kind = type(value).__name__
        raise BadArgument(f"{name} is a {kind}, no whole number", hint=_REPORT) from error
    if not least <= number < _WORDS:
        wide = number.bit_length() > _SHOWN_BITS
        shown = f"a number of {number.bit_length()} bits" if wide else f"{number}"
        _refuse(name, f"{shown} is not between {least} and 2**64")
    return number
