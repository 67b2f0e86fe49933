"""tinygrad's wheel and its test file, from the package index, in a folder outside the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.debian import CannotRun, command

VERSION = "0.14.0"
_HASHES = {
    "wheel": "d2a5bea33c637fdf105963632329876b3d3253d38295ac1ffd2ff81646d93be3",
    "source": "437be6bb7481ec26e332e4f4342f6ea09e41258e62c5c09f4a9ed7aeb7829a07",
}
"""sha256 of the files of release 0.14.0 on PyPI."""
TESTS = ("test_tiny.py",)
"""All that the source package has."""
_LLVM = re.compile(r"libLLVM[-.](?:so\.)?(\d+)(?:\.\d+)?(?:\.so[.\d]*)?$")
_OLDEST_LLVM = 19
"""The first that knows gfx1201. # src: llvm-project 19 llvm/docs/AMDGPUUsage.rst"""
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


@dataclass(frozen=True, slots=True)
class Wheel:
    """What a client needs."""

    packages: Path
    tests: tuple[Path, ...]
    llvm: Path


def cache_folder() -> Path:
    """Where the wheel is kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "unbound-witness"


def find_llvm() -> Path:
    """The newest libLLVM that tinygrad can load. Raises: CannotRun."""
    found: list[tuple[int, Path]] = []
    for folder in map(Path, _LIBRARIES):
        for path in folder.glob("libLLVM*"):
            name = _LLVM.match(path.name)
            if name and int(name[1]) >= _OLDEST_LLVM and path.is_file():
                found.append((int(name[1]), path))
    if not found:
        raise CannotRun(f"no libLLVM {_OLDEST_LLVM} or later: install libllvm{_OLDEST_LLVM}")
    return max(found)[1]


def _pip() -> list[str]:
    """A pip: this environment's, else the one outside of it. Raises: CannotRun."""
    for python in (sys.executable, "python3"):
        asked = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if not asked.returncode:
            return [python, "-m", "pip"]
    raise CannotRun("there is no pip")


def _fetch(into: Path) -> None:
    """Both files, checked against their hashes. Raises: CannotRun."""
    wanted, pip = into / "wanted", _pip()
    for kind, digest in _HASHES.items():
        wanted.write_text(f"tinygrad=={VERSION} --hash=sha256:{digest}\n")
        words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        if kind == "wheel":
            words = ["install", *words, "--only-binary", ":all:", "--target", str(into / "lib")]
        else:
            words = ["download", *words, "--no-binary", ":all:", "--dest", str(into)]
        command([*pip, *words, "--requirement", str(wanted)])
    with tarfile.open(into / f"tinygrad-{VERSION}.tar.gz") as packed:
        for name in TESTS:
            content = packed.extractfile(f"tinygrad-{VERSION}/test/{name}")
            if content is None:
                raise CannotRun(f"tinygrad's source has no test/{name}")
            (into / name).write_bytes(content.read())


def wheel() -> Wheel:
    """Fetched once. Raises: CannotRun, with nothing left behind."""
    llvm = find_llvm()
    folder = cache_folder() / f"tinygrad-{VERSION}"
    if not folder.is_dir():
        print(f"fetching tinygrad {VERSION} from the package index", file=sys.stderr, flush=True)
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            _fetch(fresh)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return Wheel(folder / "lib", tuple(folder / name for name in TESTS), llvm)
