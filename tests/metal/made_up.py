"""A made-up Mac: a Linux world whose Metal is `tests/metal/runtime`, and kernels run by clang.

The runtime is compiled by the clang of the `ziglang` wheel, as every kernel is that Metal is given:
as C++, against `shim/metal_stdlib`.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from cffi import FFI

import drivers
from drivers.base.library import Library
from drivers.metal import abi
from drivers.metal.device import MetalDevice
from drivers.world import libraries
from drivers.world.linux import LinuxWorld
from tests.c_compiler import LACKING, clang_command
from tests.support import check, run_limited

_HERE: Final = Path(__file__).parent
_SOURCES: Final = (
    "objects.c", "device.c", "library.c", "commands.c", "indirect.c", "gpu.c", "send.S",
)  # fmt: skip
_LIMIT_S: Final = 600
_C: Final = ("cc", "-std=gnu17", "-O1", "-g0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
_CXX: Final = (
    "c++", "-std=c++20", "-O1", "-g0", "-fPIC", "-shared", "-nostdlib++", "-fno-exceptions",
    "-fno-rtti", "-fno-sanitize=undefined", "-Wno-unknown-attributes", "-Wno-unused-value",
)  # fmt: skip
_KERNEL: Final = re.compile(
    r"(?:\[\[max_total_threads_per_threadgroup\((\d+)\)\]\]\s*)?"
    r"kernel void (\w+)\((.*?)\)\s*\{", re.S,
)  # fmt: skip
_PARAM: Final = re.compile(r"(.*?)(\w+)\s*\[\[(.*)\]\]", re.S)
_SHARED: Final = re.compile(
    r"^threadgroup (.*?)(?: __attribute__\(\(aligned\((\d+)\)\)\))?;$", re.M
)
_BUILTINS: Final = {
    "threadgroup_position_in_grid": "lane->group[0]",
    "thread_index_in_threadgroup": "lane->lane",
    "thread_index_in_simdgroup": "lane->lane % SIMD_LANES",
}
DECLARED: Final = """
const char *made_up_report(void);
uint64_t made_up_live(const char *);
uint64_t made_up_made(const char *);
void made_up_leaks(void);
void made_up_forget(void);
void made_up_full(int);
void made_up_families(int);
uint64_t made_up_device_refs(void);
uint64_t made_up_buffer(uint64_t, uint64_t, int);
uint64_t made_up_bytes(uint64_t);
void made_up_compiler(int (*)(const char *, char *, uint64_t));
void made_up_lanes(uint64_t);
void made_up_hold(int);
void made_up_fail(int);
"""
APPLE: Final = (abi.OBJC, abi.FOUNDATION, abi.METAL, abi.GRAPHICS)


@cache
def _folder() -> Path:
    """Where this process builds."""
    made = tempfile.TemporaryDirectory(prefix="made-up-metal-")
    atexit.register(made.cleanup)
    return Path(made.name)


def _zig(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the wheel's clang; skips where it is missing."""
    found = clang_command()
    if not found:
        pytest.skip(LACKING["wheel"])
    store = str(Path(tempfile.gettempdir()) / f"unbound-zig-{os.getuid()}")
    environ = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": store, "ZIG_LOCAL_CACHE_DIR": store}
    return run_limited(
        [found[0], *words], env=environ, capture_output=True, text=True, cpu_s=_LIMIT_S,
        check=False,
    )  # fmt: skip


def _wrapper(block: str, name: str, params: str) -> str:
    """What calls a kernel with a lane's buffers and numbers, and describes it."""
    args, used = [], 0
    for param in re.split(r",\s+", params):
        found = _PARAM.fullmatch(param.strip())
        check(found is not None, f"{param!r} has no attribute")
        if found is None:
            continue
        kind, what = found[1].strip(), found[3].strip()
        if what.startswith("buffer("):
            number = int(what[len("buffer(") : -1])
            used |= 1 << number
            args.append(f"({kind})lane->buffers[{number}]")
        else:
            args.append(_BUILTINS[what])
    return (
        f"static void call_{name}(const Lane *lane) {{ {name}({', '.join(args)}); }}\n"
        f'extern "C" __attribute__((visibility("default"))) const Kernel msl_kernel_{name} = '
        f'{{"{name}", call_{name}, {used}ull, {block or 0}, MSL_MEETS}};\n'
    )


def as_cxx(source: str) -> str:
    """MSL as C++ for the shim: shared arrays are named to it, and each kernel is described."""
    wrappers = "".join(_wrapper(*found) for found in _KERNEL.findall(source))
    body = _SHARED.sub(_shared, source)
    meets = int("barrier(" in source or "simd" in source)
    return (
        "#include <metal_stdlib>\nHooks msl_hooks;\n"
        f"#define MSL_MEETS {meets}\n"
        f'extern "C" {{\n#line 1 "program_source"\n{body}\n}}\n{wrappers}'
    )


def _shared(found: re.Match[str]) -> str:
    align = f"aligned({found[2] or 16})"
    return f'static threadgroup {found[1]} __attribute__(({align}, section("msl_group")));'


compiled: Final[dict[str, Path]] = {}
"""Sources that were compiled -> their libraries."""


def compile_msl(source: str) -> tuple[Path | None, str]:
    """(library, "") of a source, or (None, log)."""
    if source in compiled:
        return compiled[source], ""
    name = hashlib.sha256(source.encode()).hexdigest()[:24]
    unit, target = _folder() / f"{name}.cc", _folder() / f"{name}.so"
    unit.write_text(as_cxx(source))
    done = _zig([*_CXX, "-I", str(_HERE / "shim"), "-o", str(target), str(unit), "-lm"])
    if done.returncode:
        return None, done.stderr
    compiled[source] = target
    return target, ""


@cache
def runtime() -> MadeUp:
    """The runtime of this process."""
    return MadeUp(_built())


def _built() -> str:
    target = _folder() / "runtime.so"
    sources = [str(_HERE / "runtime" / name) for name in _SOURCES]
    done = _zig([*_C, "-o", str(target), *sources])
    check(not done.returncode, f"the runtime is not compiled: {done.stderr[-3000:]}")
    return str(target)


class MadeUp:
    """The runtime, and what tests ask of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        ffi = self._ffi = FFI()
        ffi.cdef(DECLARED)
        self.lib: Any = ffi.dlopen(path)
        self._callback = ffi.callback("int(const char *, char *, uint64_t)", self._compile, error=1)
        self.lib.made_up_compiler(self._callback)

    def _compile(self, source: Any, answer: Any, nbytes: int) -> int:
        path, log = compile_msl(self._ffi.string(source).decode())
        text = (str(path) if path else log).encode()[: nbytes - 1] + b"\0"
        self._ffi.memmove(answer, text, len(text))
        return int(path is None)

    def report(self) -> list[str]:
        """Violations since the last time."""
        text: str = self._ffi.string(self.lib.made_up_report()).decode()
        return text.splitlines()

    def live(self, name: str = "") -> int:
        """Objects of a class that live; of all classes without a name, and references to devices,
        which live for ever."""
        devices = 0 if name else int(self.lib.made_up_device_refs())
        return devices + int(self.lib.made_up_live(name.encode()))

    def made(self, name: str) -> int:
        """Objects of a class that were ever made."""
        return int(self.lib.made_up_made(name.encode()))

    def leaks(self) -> list[str]:
        """What lives, as violations."""
        self.lib.made_up_leaks()
        return self.report()


class MadeUpMac(LinuxWorld):
    """This machine, with Apple's libraries."""

    def library(self, name: str) -> Library:
        return libraries.load(runtime().path) if name in APPLE else super().library(name)


@contextmanager
def metal(**settings: str) -> Iterator[MetalDevice]:
    """An open device; at its end there is no violation, and no object is left."""
    made = runtime()
    check(made.report() == [], "violations from before")
    before = made.live()
    with drivers.open("METAL", world=MadeUpMac(), environ=settings) as device:
        yield cast(MetalDevice, device)
    check(made.report() == [], "no violation")
    check(made.live() == before, f"{made.live()} objects live, {before} did before")
