"""Shared libraries of this machine through cffi's backend; see `drivers.base.library`."""

from __future__ import annotations

from typing import Any, Final

import _cffi_backend

from drivers.base.errors import BadArgument, NotFound
from drivers.base.library import Native

_NOW: Final = 2
"""# src: bits/dlfcn.h, RTLD_NOW: a library whose own needs are missing is not loaded half"""
_ffi: Final = _cffi_backend.FFI()


class CLibrary:
    """A loaded library."""

    def __init__(self, name: str, handle: Any) -> None:
        self.name, self._handle = name, handle

    def function(self, symbol: str, signature: str) -> Native:
        """One of its functions. Raises: NotFound, BadArgument."""
        try:
            kind = _ffi.typeof(signature)
        except (_ffi.error, TypeError) as error:
            raise BadArgument(f"{signature!r:.200} is no C function type: {error}") from error
        if kind.kind != "function":
            raise BadArgument(f"{signature!r:.200} is no pointer to a function")
        try:
            found: Native = self._handle.load_function(kind, symbol)
        except AttributeError as error:
            raise NotFound(
                f"{self.name} has no function {symbol!r:.80}", hint="install a newer version of it"
            ) from error
        return found


def load(name: str) -> CLibrary:
    """dlopen(3) by file name or absolute path. Raises: NotFound with the loader's message."""
    if not name or "\0" in name:
        raise BadArgument(f"{name!r:.80} names no library", hint='a file name: "libcuda.so.1"')
    try:
        return CLibrary(name, _cffi_backend.load_library(name, _NOW))
    except OSError as error:
        raise NotFound(f"{name} cannot be loaded: {error}", hint="install it") from error
