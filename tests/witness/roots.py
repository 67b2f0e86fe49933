"""Folders with a Debian suite's programs, libraries and Python: run with their own loader.

Fetched once below the user's cache, as `make references` does; never installed, never committed.
numpy and cffi, which a board needs, are wheels for the suite's Python beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path

from tests.debian import CannotRun, fetched

_LOADERS = ("usr/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2")
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
_PYTHON = "libpython3-dev"
"""Whichever Python the suite has, as a library."""
_WHEELS = ("numpy", "cffi")
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
_PIP_LIMIT_S = 300


def cache_folder() -> Path:
    """Where roots are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "unbound-witness"


@dataclass(frozen=True)
class Root:
    """A suite's root in the cache."""

    suite: str
    folder: Path
    packages: tuple[str, ...]
    """"name version, fetched on day", of every package in it."""

    def version(self, package: str) -> str:
        """A package's version. Raises: StopIteration when the root does not have it."""
        found = next(text for text in self.packages if text.startswith(f"{package} "))
        return found.split()[1].rstrip(",")

    @property
    def python(self) -> Path:
        """The suite's libpython."""
        return next(found for path in self.libraries for found in path.glob("libpython3.*.so.1.0"))

    @property
    def wheels(self) -> Path:
        """Where the wheels of its Python are."""
        return self.folder / "wheels"

    @property
    def libraries(self) -> list[Path]:
        """Its folders of libraries."""
        return [self.folder / name for name in _LIBRARIES if (self.folder / name).is_dir()]

    @property
    def loader(self) -> Path:
        """Its dynamic loader."""
        return next(self.folder / name for name in _LOADERS if (self.folder / name).exists())

    def command(self, program: Path, preload: Path) -> list[str]:
        """The command line that runs a program with this root's loader and libraries."""
        path = ":".join(map(str, self.libraries))
        return [
            str(self.loader), "--library-path", path, "--preload", str(preload), str(program)
        ]  # fmt: skip

    def environ(self) -> dict[str, str]:
        """Variables under which its Python finds itself and the wheels."""
        return {
            "PYTHONHOME": str(self.folder / "usr"), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{self.wheels}:{Path(__file__).parents[2]}", "LC_ALL": "C",
        }  # fmt: skip


def _version_of(python: Path) -> str:
    """ "3.13" of libpython3.13.so.1.0."""
    return python.name.removeprefix("libpython").removesuffix(".so.1.0")


def pip() -> list[str]:
    """Of the environment, else of the Python that it was made with. Raises: CannotRun."""
    for python in (sys.executable, os.path.realpath(sys.executable)):
        command = [python, "-m", "pip"]
        if not subprocess.run([*command, "--version"], capture_output=True, check=False).returncode:
            return command
    raise CannotRun(f"{sys.executable} has no pip, nor has the Python it was made with")


def _add_wheels(root: Root) -> None:
    """Raises: CannotRun."""
    wanted = [text for text in requires("unbound") or () if text.startswith(_WHEELS)]
    fresh = root.wheels.with_name("wheels.new")
    shutil.rmtree(fresh, ignore_errors=True)
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    command = [
        *pip(), "install", "--quiet", "--target", str(fresh),
        "--only-binary=:all:", "--python-version", _version_of(root.python), *platforms, *wanted,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PIP_LIMIT_S, check=False
    )
    if done.returncode:
        raise CannotRun(f"no {' and '.join(_WHEELS)} for {root.python.name}: {done.stderr[-300:]}")
    fresh.rename(root.wheels)


def open_root(name: str, suite: str, packages: tuple[str, ...], *, refresh: bool = False) -> Root:
    """The root with these packages, fetched when it is not there. Raises: CannotRun."""
    folder = cache_folder() / f"{name}-{suite}"
    first, *more = packages
    found = fetched(
        folder, suite, lambda archive, to: archive.fetch_whole(first, to, *more, _PYTHON),
        refresh=refresh,
    )  # fmt: skip
    root = Root(suite, folder, tuple(found))
    if not root.wheels.is_dir():
        _add_wheels(root)
    return root
