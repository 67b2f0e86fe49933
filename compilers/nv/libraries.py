"""Where NVIDIA's compiler libraries are: the CUDA wheels of PyPI, or an installed CUDA toolkit.

They are optional and need no GPU; extra `nv` of pyproject.toml installs the wheels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from drivers.base.errors import NotFound
from unbound.extras import install

HINT: Final = f"{install('nv')}, or install NVIDIA's CUDA toolkit"
_WHEELS: Final = "nvidia"
"""The namespace package of the wheels: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, ..."""
_SYSTEM: Final = (
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
)
_PROGRAMS: Final = ("/usr/local/cuda/bin", "/usr/bin")


def folders(part: str) -> Iterator[str]:
    """The folders of the wheels with that name: "lib" or "bin"."""
    spec = find_spec(_WHEELS)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for package in sorted(os.listdir(root), reverse=True):
            folder = os.path.join(root, package, part)
            if os.path.isdir(folder):
                yield folder


@cache
def find(names: tuple[str, ...]) -> str:
    """The first library of these names that there is. Raises: NotFound."""
    for name in names:
        for folder in (*folders("lib"), *_SYSTEM):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    raise NotFound(f"no {' or '.join(names)} in wheels or a CUDA toolkit", hint=HINT)


def find_program(name: str) -> str:
    """A program of the wheels or a toolkit. Raises: NotFound."""
    for folder in (*folders("bin"), *_PROGRAMS):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise NotFound(f"no {name} in wheels or a CUDA toolkit", hint=HINT)


def identity(names: tuple[str, ...]) -> bytes:
    """Identity of an installed library, without loading it. Raises: NotFound."""
    path = os.path.realpath(find(names))
    facts = os.stat(path)
    return f"{os.path.basename(path)} {facts.st_size} {facts.st_mtime_ns}".encode()


@cache
def opened(names: tuple[str, ...], declarations: str) -> tuple[Any, Any]:
    """cffi's FFI and the library, loaded once. Raises: NotFound."""
    from cffi import FFI

    path, ffi = find(names), FFI()
    ffi.cdef(declarations)
    try:
        return ffi, ffi.dlopen(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be loaded: {error}", hint=HINT) from error


def text_of(ffi: Any, raw: Any) -> str:
    """A C string as text."""
    return str(ffi.string(raw).decode(errors="replace"))
