"""The shim, the client and its kernels, compiled by the clang of the `ziglang` wheel.

It brings a linker, and stubs of any glibc: what is built here runs in roots older than the machine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tests.c_compiler import LACKING, clang_command
from tests.debian import CannotRun

_HERE = Path(__file__).parent
_HOST = ["-target", "x86_64-linux-gnu.2.36", "-O1", "-Wall", "-Wextra", "-Werror"]
"""glibc of bookworm, the oldest root."""
_GPU = [
    "--target=amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-std=gnu2x", "-mcode-object-version=5",
    "-Wall", "-Werror", "-c",
]  # fmt: skip
_LIMIT_S = 120


def _zig() -> str:
    """Raises: CannotRun."""
    found = clang_command()
    if not found:
        raise CannotRun(LACKING["wheel"])
    return found[0]


def _run(words: list[str]) -> None:
    """Raises: CannotRun with the compiler's message."""
    cache = str(Path(tempfile.gettempdir()) / f"unbound-zig-{os.getuid()}")
    environ = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    done = subprocess.run(
        [_zig(), *words], env=environ, capture_output=True, text=True, timeout=_LIMIT_S,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise CannotRun(f"{' '.join(words[:2])} failed: {done.stderr[-2000:]}")


def shim(folder: Path) -> Path:
    """The library that a client is started with. Raises: CannotRun."""
    target = folder / "shim.so"
    sources = [str(_HERE / name) for name in ("shim.c", "shim_python.c", "shim_memory.c")]
    _run(["cc", *_HOST, "-shared", "-fPIC", "-o", str(target), *sources])
    return target


def client(folder: Path, root: Path, libraries: Path) -> Path:
    """Our HSA client, against the headers and the library of a root. Raises: CannotRun."""
    sources = ("client.c", "client_checks.c", "client_faults.c")
    return _program(folder / f"client-{root.name}", sources, root, libraries, "hsa-runtime64")


def hip_client(folder: Path, root: Path, libraries: Path) -> Path:
    """Our client of HIP, against the headers and the libraries of a root. Raises: CannotRun."""
    sources = ("hip_client.c", "hip_checks.c", "hip_runtime.c")
    target = folder / f"hip-{root.name}"
    return _program(target, sources, root, libraries, "amdhip64", "hiprtc")


def _program(target: Path, sources: tuple[str, ...], root: Path, at: Path, *linked: str) -> Path:
    """Raises: CannotRun."""
    paths = [str(_HERE / name) for name in sources]
    places = ["-idirafter", str(root / "usr/include"), "-L", str(at)]
    link = [*(f"-l{name}" for name in linked), "-lm", "-Wl,--allow-shlib-undefined"]
    _run(["cc", *_HOST, "-o", str(target), *paths, *places, *link])
    return target


def kernels(folder: Path, chip: str) -> Path:
    """The client's kernels as a linked code object of a chip. Raises: CannotRun."""
    unlinked, target = folder / f"{chip}.o", folder / f"{chip}.hsaco"
    source = str(_HERE / "kernels.c")
    _run(["clang", *_GPU, f"-mcpu={chip}", "-o", str(unlinked), source])
    _run(["ld.lld", "-shared", "-o", str(target), str(unlinked)])
    return target
