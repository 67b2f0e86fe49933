"""Shared libraries of this machine through cffi's backend; see `drivers.base.library`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import _cffi_backend

from drivers.base.errors import BadArgument, NotFound
from drivers.base.library import Native
from drivers.world.cffi_modules import is_module, load_module

_NOW: Final = 2
"""# src: bits/dlfcn.h, RTLD_NOW: a library whose own needs are missing is not loaded half"""
_ffi: Final = _cffi_backend.FFI()
_WORDS: Final = re.compile(r"\bwords([1-8])\b")
_PARTS: Final = re.compile(r"([\w ]+)\(\*\)\(([\w ,]+)\)")

_loaded: Final[dict[str, Any]] = {}
"""Libraries stay: cffi unloads one with its handle, though functions of it are still held."""


class CLibrary:
    """A loaded library."""

    def __init__(self, name: str, handle: Any) -> None:
        self.name, self._handle = name, handle

    def function(self, symbol: str, signature: str) -> Native:
        """One of its functions. Raises: NotFound, BadArgument."""
        try:
            kind = _type_of(signature)
        except (_ffi.error, TypeError) as error:
            raise BadArgument(f"{signature!r:.200} is no C function type: {error}") from error
        if kind.kind != "function":
            raise BadArgument(f"{signature!r:.200} is not a pointer to a function")
        try:
            found: Native = self._handle.load_function(kind, symbol)
        except AttributeError as error:
            raise NotFound(
                f"{self.name} has no function {symbol!r:.80}", hint="install a newer version of it"
            ) from error
        if kind.result.kind != "struct":
            return found
        return partial(_in_words, found)


def _type_of(signature: str) -> Any:
    """The type of a function, structs of words among its arguments."""
    if not _WORDS.search(signature):
        return _ffi.typeof(signature)
    parts = _PARTS.fullmatch(signature)
    if parts is None:
        raise TypeError("a function of plain types and words is needed")
    kinds = [_part_of(part.strip()) for part in parts[2].split(",")]
    abi = _cffi_backend.FFI_DEFAULT_ABI
    return _cffi_backend.new_function_type(tuple(kinds), _part_of(parts[1].strip()), False, abi)


def _part_of(name: str) -> Any:
    """The type of one argument or of the result."""
    found = _WORDS.fullmatch(name)
    return _struct_of(int(found[1])) if found else _ffi.typeof(name)


@cache
def _struct_of(count: int) -> Any:
    """A struct of so many uint64_t."""
    made = _cffi_backend.new_struct_type(f"struct words{count}")
    word = _ffi.typeof("uint64_t")
    fields = [(f"word{number}", word, -1, -1) for number in range(count)]
    _cffi_backend.complete_struct_or_union(made, fields, None, -1, -1, 0, 0)
    return made


def _in_words(call: Callable[..., Any], *args: Any) -> Any:
    """A call that gives a struct: its words."""
    struct = call(*args)
    names = [name for name, _ in _ffi.typeof(struct).fields]
    return tuple(int(getattr(struct, name)) for name in names)


def tell(variable: str, value: str) -> None:
    """Set a variable that libraries of this process read, unless it is set. `os.environ` stays."""
    if variable not in os.environ:
        os.putenv(variable, value)


def _advice(name: str) -> str:
    """What to do about a library that cannot be loaded, by its place."""
    if name.startswith("/System/"):
        return "that is a framework of macOS: use a Mac"
    if name.startswith("/"):
        return "name another file, or install its package again (`ldd` shows what it needs)"
    return "install the package that has it, or name its folder in LD_LIBRARY_PATH"


def load(name: str) -> CLibrary:
    """dlopen(3) by file name or absolute path; also the functions inside a module of cffi's.

    Raises: NotFound with the loader's message; Unsupported for another Python extension.
    """
    if not name or "\0" in name:
        raise BadArgument(f"{name!r:.80} names no library", hint='a file name: "libcuda.so.1"')
    if is_module(name):
        return CLibrary(name, load_module(name))
    try:
        if name not in _loaded:
            _loaded[name] = _cffi_backend.load_library(name, _NOW)
    except OSError as error:
        raise NotFound(f"{name} cannot be loaded: {error}", hint=_advice(name)) from error
    return CLibrary(name, _loaded[name])
