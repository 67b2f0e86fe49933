"""Functions inside Python extensions: what is no extension, or none that cffi made, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivers.base.errors import DeviceError, NotFound, Unsupported
from drivers.webgpu.libraries import places
from drivers.world.cffi_modules import ENDS, is_module
from drivers.world.linux import LinuxWorld
from tests.c_compiler import any_compiler
from tests.support import check
from tests.webgpu import LIBRARIES, need

EMPTY = """
static struct {
  long count; void *type, *init; long index; void *copy;
  const char *name, *doc; long size; void *rest[5];
} about = {1, 0, 0, 0, 0, "empty", 0, -1, {0}};
void *PyModule_Create2(void *, int);
void *PyInit_empty(void) { return PyModule_Create2(&about, 1013); }
"""
"""A module of nothing. # src: CPython 3.11 Include/moduleobject.h, PyModuleDef; modsupport.h,
PYTHON_API_VERSION"""
SILENT = "void *PyInit_silent(void) { return 0; }"
OTHER = "void *PyInit_another_name(void) { return 0; }"


@pytest.mark.parametrize(
    ("name", "source", "kind", "why"),
    [
        ("empty", EMPTY, Unsupported, "not a module that cffi made"),
        ("silent", SILENT, NotFound, "without raising an exception"),
        ("missing", OTHER, NotFound, "PyInit_missing"),
    ],
)
def test_an_extension_that_brings_no_functions(
    name: str, source: str, kind: type[DeviceError], why: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}{ENDS}"
    any_compiler().run(source, tmp_path, "-shared", "-fPIC", "-o", str(path))
    with pytest.raises(kind, match=why):
        LinuxWorld().library(str(path))


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / f"text{ENDS}"
    path.write_text("no library")
    for one in (path, tmp_path / f"absent{ENDS}"):
        with pytest.raises(NotFound, match="cannot be loaded"):
            LinuxWorld().library(str(one))
    check(not is_module("libwebgpu_dawn.so"), "C libraries are loaded as such")


def test_a_function_that_the_module_lacks() -> None:
    need("standard")
    world = LinuxWorld()
    path = next(one for one in places(world) if LIBRARIES["standard"].path in one)
    check(is_module(path), path)
    with pytest.raises(NotFound, match="wgpuIsNotThere"):
        world.library(path).function("wgpuIsNotThere", "void(*)(void)")
