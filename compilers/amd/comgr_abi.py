"""libamd_comgr's C interface: its functions, and the numbers that differ between its versions.

Source: amd_comgr.h of COMGR 2.4 (Debian 12, libamd-comgr-dev) and 3.x (ROCm/llvm-project,
amd/comgr/include/amd_comgr.h.in). Handles are structures of one 64-bit number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from drivers.base.errors import NotFound, Unsupported

PACKAGE: Final = "libamd-comgr2"
"""Debian's package."""
DIRECTORIES: Final = (
    "/opt/rocm/lib",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
NAMES: Final = ("libamd_comgr.so.3", "libamd_comgr.so.2")

_DECLARATIONS: Final = """
typedef struct { uint64_t handle; } data_t;
typedef struct { uint64_t handle; } data_set_t;
typedef struct { uint64_t handle; } action_info_t;
void amd_comgr_get_version(size_t *major, size_t *minor);
int amd_comgr_get_isa_count(size_t *count);
int amd_comgr_get_isa_name(size_t index, const char **name);
int amd_comgr_create_data(int kind, data_t *data);
int amd_comgr_release_data(data_t data);
int amd_comgr_set_data(data_t data, size_t size, const char *bytes);
int amd_comgr_get_data(data_t data, size_t *size, char *bytes);
int amd_comgr_set_data_name(data_t data, const char *name);
int amd_comgr_create_data_set(data_set_t *set);
int amd_comgr_destroy_data_set(data_set_t set);
int amd_comgr_data_set_add(data_set_t set, data_t data);
int amd_comgr_action_data_count(data_set_t set, int kind, size_t *count);
int amd_comgr_action_data_get_data(data_set_t set, int kind, size_t index, data_t *data);
int amd_comgr_create_action_info(action_info_t *info);
int amd_comgr_destroy_action_info(action_info_t info);
int amd_comgr_action_info_set_isa_name(action_info_t info, const char *name);
int amd_comgr_action_info_set_language(action_info_t info, int language);
int amd_comgr_action_info_set_logging(action_info_t info, bool logging);
int amd_comgr_action_info_set_option_list(action_info_t info, const char *options[], size_t count);
int amd_comgr_do_action(int kind, action_info_t info, data_set_t input, data_set_t result);
int amd_comgr_status_string(int status, const char **text);
"""

DATA_SOURCE, DATA_LOG, DATA_BC, DATA_RELOCATABLE, DATA_EXECUTABLE = 1, 5, 6, 7, 8
"""amd_comgr_data_kind_t: the same in 2.x and 3.x."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The enumerators that 3.0 renumbered."""

    language_hip: int
    compile_to_bc: int
    codegen_to_relocatable: int
    link_to_executable: int


NUMBERS: Final = {
    2: Numbers(language_hip=4, compile_to_bc=2, codegen_to_relocatable=6, link_to_executable=9),
    3: Numbers(language_hip=3, compile_to_bc=2, codegen_to_relocatable=4, link_to_executable=7),
}
"""By the library's major version."""


@dataclass(frozen=True, slots=True)
class Library:
    """The opened library."""

    ffi: Any
    calls: Any
    path: str
    version: tuple[int, int]
    numbers: Numbers
    isas: frozenset[str]
    """The chips it compiles for: "amdgcn-amd-amdhsa--gfx1030"."""


def find() -> str:
    """The library's path. Raises: NotFound."""
    for name in NAMES:
        for directory in DIRECTORIES:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                return os.path.realpath(path)
    raise NotFound(
        f"no COMGR ({' or '.join(NAMES)}) in {', '.join(DIRECTORIES)}",
        hint=f"Install Debian's package {PACKAGE} or ROCm's comgr, or use AMD_LLVM=1",
    )


def identity() -> bytes:
    """Identity of the installed COMGR, without loading it. Raises: NotFound."""
    path = find()
    facts = os.stat(path)
    return f"{os.path.basename(path)} {facts.st_size} {facts.st_mtime_ns}".encode()


@cache
def library() -> Library:
    """The library, opened once. Raises: NotFound; Unsupported for a version not known."""
    from cffi import FFI

    path, ffi = find(), FFI()
    ffi.cdef(_DECLARATIONS)
    stay = os.RTLD_NOW | os.RTLD_NODELETE  # LLVM aborts when it is loaded a second time
    try:
        calls: Any = ffi.dlopen(path, stay)
    except OSError as error:
        raise NotFound(f"{path} cannot be loaded: {error}", hint="Install it again") from error
    major, minor = ffi.new("size_t *"), ffi.new("size_t *")
    calls.amd_comgr_get_version(major, minor)
    numbers = NUMBERS.get(major[0])
    if numbers is None:
        raise Unsupported(
            f"{path} has interface {major[0]}.{minor[0]}",
            hint=f"Known: {', '.join(f'{number}.x' for number in NUMBERS)}",
        )
    return Library(ffi, calls, path, (major[0], minor[0]), numbers, _isas(ffi, calls))


def _isas(ffi: Any, calls: Any) -> frozenset[str]:
    count, name = ffi.new("size_t *"), ffi.new("const char **")
    calls.amd_comgr_get_isa_count(count)
    found = set()
    for index in range(count[0]):
        if calls.amd_comgr_get_isa_name(index, name) == 0:
            found.add(ffi.string(name[0]).decode("ascii", "replace"))
    return frozenset(found)
