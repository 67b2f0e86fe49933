"""C compilers of this machine, for tests: the system's own, and the one in the `ziglang` wheel.

Each comes with kernel headers of its own: the system's in /usr/include (linux-libc-dev), the
wheel's inside the wheel. So header tests see two releases of Linux, one of them on every machine.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from compilers.cpu import clang
from tests.support import run_limited

_TIMEOUT_S, _FIRST_S = 120, 600
_DRM_STUB = "#include <linux/types.h>\n"
"""kfd_ioctl.h includes drm/drm.h for types alone, and not every machine has that header."""


@dataclass(frozen=True)
class CCompiler:
    """A command line, and the folder in which it finds <linux/...>."""

    command: tuple[str, ...]
    include: Path

    def run(self, source: str, folder: Path, *options: str) -> str:
        """Compile a translation unit with `options`; what the compiler prints."""
        path = folder / "unit.c"
        path.write_text(source)
        (folder / "drm").mkdir(exist_ok=True)
        (folder / "drm" / "drm.h").write_text(_DRM_STUB)
        command = [*self.command, "-idirafter", str(folder), *options, str(path)]
        caches = warm(self.command) if "zig" in Path(self.command[0]).name else {}
        done = run_limited(
            command, env={**os.environ, **caches}, capture_output=True, text=True,
            cpu_s=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{command} failed: {done.stderr[:4000]}")
        return done.stdout

    def constant(self, source: str, name: str, folder: Path, *options: str) -> bytes:
        """The bytes of a constant that a translation unit defines; it is not linked or run."""
        target = folder / "unit.o"
        self.run(source, folder, "-c", "-o", str(target), *options)
        with target.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            (symbol,) = table.get_symbol_by_name(name)
            section = table.elffile.get_section(symbol["st_shndx"])
            return bytes(section.data()[symbol["st_value"] :][: symbol["st_size"]])

    def values(self, headers: Sequence[str], expressions: Sequence[str], folder: Path) -> list[int]:
        """C expressions under some headers (`linux/vfio.h`, or a whole path) as numbers."""
        includes = "".join(f"#include {name}\n" for name in ["<stddef.h>", *map(_quoted, headers)])
        numbers = ",\n".join(f"(unsigned long long)({text})" for text in expressions)
        source = f"{includes}const unsigned long long values[] = {{\n{numbers}\n}};\n"
        return list(memoryview(self.constant(source, "values", folder)).cast("Q"))


def _quoted(header: str) -> str:
    return f'"{header}"' if header.startswith("/") else f"<{header}>"


@cache
def warm(command: tuple[str, ...]) -> dict[str, str]:
    """The environment of `zig cc`, whose cache has been filled: by one process for all.

    The first program that it links takes it a minute of processor time, for musl and its own
    runtime; others would start on the same work beside it.
    """
    folder = Path(tempfile.gettempdir()) / f"unbound-zig-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    environ = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(folder))
    wheel = Path(command[0]).stat()
    done = folder / f"warm-{wheel.st_size}-{wheel.st_mtime_ns}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not done.exists():
            source = folder / "first.c"
            source.write_text("int main(void) { return 0; }\n")
            run_limited(
                [*command, "-o", str(folder / "first"), str(source)], cpu_s=_FIRST_S, check=True,
                env={**os.environ, **environ}, capture_output=True,
            )  # fmt: skip
            done.touch()
    return environ


def _system() -> CCompiler | None:
    found = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    return CCompiler((found,), Path("/usr/include")) if found else None


def _wheel() -> CCompiler | None:
    spec = find_spec(clang.WHEEL)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    target = f"--target={platform.machine()}-linux-musl"  # named: the wheel's headers, no others
    command = (str(folder / "zig"), "cc", target)
    return CCompiler(command, folder / "lib/libc/include/any-linux-any")


COMPILERS = {"system": _system(), "wheel": _wheel()}
LACKING = {
    "system": "no C compiler on PATH: install gcc",
    "wheel": f"no C compiler in a wheel: pip install {clang.WHEEL}",
}


def any_compiler() -> CCompiler:
    """The system's, else the wheel's; skips the test, by name, where there is neither."""
    found = next(filter(None, COMPILERS.values()), None)
    if found is None:
        pytest.skip(" and ".join(LACKING.values()))
    return found


def clang_command() -> list[str]:
    """The command of the wheel's clang, or none. Debian 12's clang has no gfx11."""
    found = COMPILERS["wheel"]
    return [found.command[0], "clang"] if found is not None else []


needs_clang = pytest.mark.skipif(not clang_command(), reason=LACKING["wheel"])
