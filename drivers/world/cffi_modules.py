"""C functions inside a Python extension that cffi made, such as wheels of static libraries.

Its symbols are hidden from dlsym(3). The module itself gives their addresses: `ffi.addressof`.
# src: cffi documentation, "Using the ffi/lib objects", ffi.addressof(lib, "name")
"""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import PurePath
from typing import Any, Final

import _cffi_backend

from drivers.base.errors import NotFound, Unsupported

_own: Final = _cffi_backend.FFI()

ENDS: Final = ".abi3.so"
"""How file names of such modules end on Linux and macOS. # src: PEP 3149; cffi's default"""


class ModuleFunctions:
    """Functions of one module, as cffi's backend has those of a library that it loaded."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib

    def load_function(self, kind: Any, symbol: str) -> Any:
        """One function. Raises: AttributeError, as cffi's libraries do."""
        found = self._ffi.addressof(self._lib, symbol)
        return _own.cast(kind, int(self._ffi.cast("uintptr_t", found)))


def is_module(name: str) -> bool:
    """Whether a path is that of a Python extension."""
    return name.endswith(ENDS)


def load_module(path: str) -> ModuleFunctions:
    """Load an extension by its path. Its package is not imported.

    Raises: NotFound with the loader's message; Unsupported for one that cffi did not make.
    """
    stem = PurePath(path).name.partition(".")[0]
    try:
        module = module_from_spec(ModuleSpec(stem, ExtensionFileLoader(stem, path), origin=path))
    except Exception as error:  # of an initialiser: whatever its author raises
        raise NotFound(f"{path} cannot be loaded: {error}", hint="install it") from error
    ffi, lib = getattr(module, "ffi", None), getattr(module, "lib", None)
    if ffi is None or lib is None:
        raise Unsupported(f"{path} is not a module that cffi made", hint="name a C library")
    return ModuleFunctions(ffi, lib)
