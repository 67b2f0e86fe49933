"""`python -m tests.wheel`: an installation outside of the checkout: scripts, data files, types.

A wheel is built of what git has, installed into a fresh environment that borrows this one's
packages, and used from an empty folder. It takes setuptools and mypy, and half a minute.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support import check
from unbound import scripts, terminal

ROOT = Path(__file__).resolve().parent.parent
RUNS = {
    "probe": ["--json"],
    "doctor": ["--json"],
    "settings": ["--json"],
    "bench": ["--list"],
    "firmware": ["--json"],
    "regs": ["--chip", "gfx1100", "GRBM_STATUS"],
    "smi": ["--board", "ga102"],
    "boards": ["run", "a630", "program.py"],
}
"""Arguments of scripts; the others show their help."""
PROGRAM = "import tensor as xp\nreveal_type(xp.sum(xp.ones(3)))\n"
FAILED = 1


def built(folder: Path) -> Path:
    """The wheel, of a copy of what git has."""
    source = folder / "source"
    listed = run(["git", "ls-files", "-z"], ROOT).stdout.split("\0")
    for name in filter(None, listed):
        if not name.startswith("tests/"):
            place = source / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "-w", str(folder), str(source)], folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(wheel: Path, folder: Path) -> Path:
    """The folder of scripts of an environment with the wheel."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    run([*pip, str(wheel)], folder.parent)
    (own,) = folder.glob("lib/python*/site-packages")
    paths = [path for path in sys.path if path.endswith("site-packages")]
    (own / "zz-borrowed.pth").write_text("\n".join([*paths, sysconfig.get_path("purelib")]) + "\n")
    return python.parent


def run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program that has to succeed."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    check(done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def lost(wheel: Path) -> list[str]:
    """Files of the packages that git has and the wheel has not."""
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    listed = run(["git", "ls-files"], ROOT).stdout.splitlines()
    return [name for name in listed if name.partition("/")[0] in tops and name not in names]


def used(scripts_folder: Path, folder: Path) -> Iterator[str]:
    """Each script in an empty folder; then mypy on a program that imports tensor."""
    (folder / "program.py").write_text("import tensor as xp\nprint(xp.sum(xp.ones(3)).numpy())\n")
    for name in [*scripts.COMMANDS, scripts.SMI]:
        words = [str(scripts_folder / f"unbound-{name}"), *RUNS.get(name, ["--help"])]
        yield f"unbound-{name}: {len(run(words, folder).stdout)} characters"
    (folder / "typed.py").write_text(PROGRAM)
    python = str(scripts_folder / "python")
    place = run([python, "-c", "import tensor; print(tensor.__file__)"], folder).stdout
    check(str(scripts_folder.parent) in place, f"{place} is not the installed one")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "typed.py"]
    shown = run([*mypy, "--cache-dir", str(folder / "cache")], folder).stdout
    check('"tensor.core.Tensor"' in shown, shown)
    yield f"mypy: {shown.splitlines()[0]}"


def main(arguments: Sequence[str]) -> int:
    """Build, install, use; 1 at the first thing that is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built(folder)
        missing = lost(wheel)
        if missing:
            sys.stderr.write(f"not in {wheel.name}: {', '.join(missing)}\n")
            return FAILED
        place = installed(wheel, folder / "environment")
        empty = folder / "empty"
        empty.mkdir()
        for line in used(place, empty):
            sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    terminal.run(main)
