"""Builds Mesa's Turnip and its disassembler from Debian's source, once, below the user's cache.

`make turnip`, which installs meson, mako and PyYAML for this Python. It takes four minutes of
processor time: nothing is optimised.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.debian import CannotRun
from tests.references import MESA, cache_folder, find
from unbound import terminal

_OPTIONS: Final = (
    "-Dbuildtype=plain", "-Db_ndebug=true", "-Dplatforms=", "-Dgallium-drivers=",
    "-Dvulkan-drivers=freedreno", "-Dfreedreno-kmds=kgsl,msm", "-Dglx=disabled", "-Degl=disabled",
    "-Dgbm=disabled", "-Dopengl=false", "-Dgles1=disabled", "-Dgles2=disabled", "-Dllvm=disabled",
    "-Dshared-glapi=disabled", "-Dtools=freedreno", "-Dxmlconfig=disabled", "-Dvalgrind=disabled",
    "-Dlibunwind=disabled", "-Dzstd=disabled",
)  # fmt: skip
_DEFINED: Final = (
    "-D_GNU_SOURCE", "-DHAVE_ENDIAN_H", "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_PTHREAD",
    "-DHAVE_SECURE_GETENV",
)  # fmt: skip
"""What meson found, for Mesa's headers."""
_DISASSEMBLER: Final = "src/freedreno/isa/ir3-disasm"
_DRIVER: Final = "src/freedreno/vulkan/libvulkan_freedreno.so"
_PACKAGES: Final = {
    "flex": "flex", "bison": "bison", "m4": "m4", "glslangValidator": "glslang-tools",
    "ninja": "ninja-build", "pkg-config": "pkg-config", "g++": "g++",
}  # fmt: skip
_LIBRARIES: Final = {"libdrm": "libdrm-dev", "libarchive": "libarchive-dev", "zlib": "zlib1g-dev"}
_LIMIT_S: Final = 3600


@dataclass(frozen=True)
class Turnip:
    """What was built."""

    folder: Path

    @property
    def driver(self) -> Path:
        """The Vulkan driver."""
        return self.folder / _DRIVER

    @property
    def disassembler(self) -> Path:
        """ir3-disasm."""
        return self.folder / _DISASSEMBLER


def installed() -> Turnip | None:
    """What an earlier run has built."""
    built = Turnip(cache_folder() / "turnip" / "build")
    return built if built.driver.is_file() and built.disassembler.is_file() else None


def _run(words: list[str], environ: dict[str, str]) -> None:
    done = subprocess.run(
        words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise CannotRun(f"{' '.join(words[:3])} failed:\n{done.stdout[-2000:]}")


def _lacking() -> list[str]:
    """Debian packages that this machine has not."""
    lacking = [package for tool, package in _PACKAGES.items() if not shutil.which(tool)]
    if shutil.which("pkg-config"):
        for library, package in _LIBRARIES.items():
            if subprocess.run(["pkg-config", "--exists", library], check=False).returncode:
                lacking.append(package)
    return lacking


def build() -> Turnip:
    """Builds it, or finds it built. Raises: CannotRun."""
    there = installed()
    if there is not None:
        return there
    source = find(MESA)
    if source is None:
        raise CannotRun("no source of Mesa: run `make references`")
    lacking = _lacking()
    if lacking:
        raise CannotRun(f"Turnip's build needs: apt-get install {' '.join(lacking)}")
    folder, tools = cache_folder() / "turnip" / "build", Path(sys.executable).parent
    meson = tools / "meson"
    if not meson.is_file():
        raise CannotRun("no meson beside this Python: run `make turnip`")
    environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    shutil.rmtree(folder, ignore_errors=True)
    _run([str(meson), "setup", str(folder), str(source), *_OPTIONS], environ)
    _run(["ninja", "-C", str(folder), _DISASSEMBLER, _DRIVER], environ)
    return Turnip(folder)


def compile_c(source: Path, target: Path, *more: str) -> None:
    """A shared library of one file, and of what `more` names. Raises: CannotRun."""
    if shutil.which("cc") is None:
        raise CannotRun("no C compiler named cc: apt-get install gcc")
    words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    _run([*words, "-o", str(target), str(source), *more, "-ldl"], dict(os.environ))


def compile_tiles(turnip: Turnip, target: Path) -> None:
    """tiles.c with Mesa's copy into tiled images. Raises: CannotRun."""
    mesa = find(MESA)
    if mesa is None:
        raise CannotRun("no source of Mesa: run `make references`")
    places = (mesa / "include", mesa / "src", mesa / "src/freedreno", mesa / "src/freedreno/fdl",
              mesa / "src/freedreno/common", turnip.folder / "src")  # fmt: skip
    made = turnip.folder / "src/freedreno/fdl/libfreedreno_layout.a.p/fd6_tiled_memcpy.cc.o"
    compile_c(
        Path(__file__).parent / "tiles.c", target, *(f"-isystem{one}" for one in places), *_DEFINED,
        "-fvisibility=hidden", "-ffunction-sections", "-Wl,--gc-sections", str(made),
    )  # fmt: skip


def main() -> int:
    """0: it is there."""
    try:
        print(build().folder)
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
