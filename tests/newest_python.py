"""`make newest`: tests on the newest CPython that Debian has, beside the one of this machine.

The interpreter is unpacked below the user's cache, not installed. It runs by the dynamic loader
that comes with it, so that it needs nothing of this machine's C library, and no root. It is kept
until --refresh. Packages of Python come from the index, by this machine's pip, anew whenever
pyproject.toml or the interpreter has changed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.debian import Archive, CannotRun, command, fetched
from tests.references import cache_folder
from tests.witness.roots import pip

SUITE: Final = "testing"
TREE: Final = Path(__file__).parents[1]
SHARING: Final = ("test_sharing*.py", "test_tensor_interop.py", "test_cpu_launch_counts.py")
"""Below tests/unit: what other versions of Python have changed before. All cases run."""
OTHERS: Final = ("tests/unit", "tests/array_api", "tests/fuzz/test_sharing_mutations.py")
SHARE: Final = "0.1"
TOOLS: Final = ("pytest", "pytest-xdist", "hypothesis", "scikit-learn", "matplotlib")
"""Of the `dev` extra, what these tests need."""
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_LOADER: Final = "ld-linux-x86-64.so.2"
_LAUNCHER: Final = """#!/bin/sh
exec {libraries}/{loader} --argv0 "$0" --library-path {libraries} {program} "$@"
"""
_STAMP: Final = "made-of"
_INSTALL_LIMIT_S: Final = 1200.0


def unpack(archive: Archive, into: Path) -> list[str]:
    """The newest Python of a suite, with all it needs, and the C++ library of wheels.

    Raises: CannotRun.
    """
    found = archive.depends("python3", "python3.")
    if len(found) != 1:
        raise CannotRun(f"Debian's python3 depends on {found}, not on one python3.N")
    return archive.fetch_whole(found[0], into, "libstdc++6")


def launcher(root: Path) -> str:
    """A shell script that is `python`. Raises: CannotRun where the root has none."""
    programs = sorted((root / "usr/bin").glob("python3.[0-9]*[0-9]"))
    if len(programs) != 1:
        raise CannotRun(f"no single python3.N in {root}/usr/bin: fetch it again by --refresh")
    return _LAUNCHER.format(libraries=root / _LIBRARIES, loader=_LOADER, program=programs[0])


def environment(root: Path, contents: Sequence[str]) -> Path:
    """The `python` of a virtual environment on an unpacked root, filled once. Raises: CannotRun."""
    folder = root.with_name(f"{root.name}-env")
    text = (TREE / "pyproject.toml").read_text()
    state = sha256("\n".join([text, *contents, *TOOLS]).encode()).hexdigest()
    python, stamp = folder / "bin" / "python", folder / _STAMP
    if stamp.exists() and stamp.read_text() == state:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    python.parent.mkdir(parents=True)
    python.write_text(launcher(root))
    python.chmod(0o755)
    home = f"home = {root}/usr/bin\ninclude-system-site-packages = false\n"
    (folder / "pyvenv.cfg").write_text(home)
    print("installing the packages of the newest Python", file=sys.stderr, flush=True)
    needed = [*tomllib.loads(text)["project"]["dependencies"], *TOOLS]
    command(
        [*pip(), "--quiet", "--python", str(python), "install", *needed],
        limit_s=_INSTALL_LIMIT_S,
    )
    stamp.write_text(state)
    return python


def run(python: Path, arguments: Sequence[str]) -> int:
    """pytest's status on this tree."""
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode")}
    line = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(line, cwd=TREE, env=environ, check=False).returncode


def main() -> int:
    """0: all tests passed, or --prepare; 1: not, or there is no newer Python to be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.newest_python", description=__doc__)
    parser.add_argument("--refresh", action="store_true", help="fetch the interpreter again")
    parser.add_argument("--prepare", action="store_true", help="fetch and install, run nothing")
    parser.add_argument("--workers", default="auto", help='processes of pytest ("auto")')
    given, more = parser.parse_known_args()
    root = cache_folder() / "newest-python"
    try:
        contents = fetched(root, SUITE, unpack, refresh=given.refresh)
        python = environment(root, contents)
    except CannotRun as error:
        print(f"the newest Python could not be had: {error}", file=sys.stderr)
        return 1
    print(command([str(python), "-VV"]).strip(), flush=True)
    if given.prepare:
        return 0
    whole = [str(path) for name in SHARING for path in (TREE / "tests/unit").glob(name)]
    results = [
        run(python, ["-n", given.workers, f"--share={SHARE}", *more, *OTHERS]),
        run(python, ["-n", given.workers, *more, *sorted(whole)]),
    ]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"newest Python: {used.ru_utime + used.ru_stime:.0f} s of processors")
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main())
