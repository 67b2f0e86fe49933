"""`python -m tests.locked`: writes tests/requirements.txt, what `make test` installs, with hashes.

Versions and hashes are what pip's own report says for each Python, of wheels for x86-64 Linux with
glibc 2.28 or later. Elsewhere pyproject.toml's ranges apply. Nothing is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unbound import terminal

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "tests" / "requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_GLIBCS = (28, 27, 26, 24, 17, 12, 5)
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in _GLIBCS), "manylinux2014_x86_64",
    "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64",
)  # fmt: skip
HEAD = f"""\
# Made by `python -m tests.locked`: the extra dev of pyproject.toml with all that it needs, for
# CPython {", ".join(PYTHONS)} on x86-64 Linux with glibc 2.28 or later.
# pip install --require-hashes --only-binary :all: -r tests/requirements.txt
"""
_NAME = re.compile(r"[-_.]+")
_EXTRAS = re.compile(r"^unbound\[(.+)\]$")
Locked = Mapping[tuple[str, str], Mapping[str, set[str]]]
"""(name, version) -> Python -> sha256 of its files."""


def wanted() -> list[str]:
    """The requirements of the extra dev, with those of extras that it names, and of everybody."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return list(dict.fromkeys([*project["dependencies"], *_expanded(optional, "dev")]))


def _expanded(optional: Mapping[str, Sequence[str]], extra: str) -> Iterator[str]:
    for one in optional[extra]:
        found = _EXTRAS.match(one)
        if found is None:
            yield one
            continue
        for name in found[1].split(","):
            yield from _expanded(optional, name)


def normal(name: str) -> str:
    """A distribution's name as indexes compare it. # src: PyPA, "Names and normalization"."""
    return _NAME.sub("-", name).lower()


def asked(python: str, requirements: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(name, version, sha256) of every wheel that pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--report", "-", "--target", folder, "--only-binary", ":all:",
            "--python-version", python,
            *(f"--platform={platform}" for platform in PLATFORMS), *requirements,
        ]  # fmt: skip
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    for one in json.loads(done.stdout)["install"]:
        about, archive = one["metadata"], one["download_info"]["archive_info"]
        yield normal(about["name"]), about["version"], archive["hashes"]["sha256"]


def page(locked: Locked) -> str:
    """The file: a version for each Python, one line where all have the same."""
    lines = [HEAD]
    for (name, version), pythons in sorted(locked.items()):
        marker = ""
        if set(pythons) != set(PYTHONS):
            known = [f"python_version == '{one}'" for one in PYTHONS if one in pythons]
            marker = f" ; {' or '.join(known)}"
        hashes = sorted(set().union(*pythons.values()))
        lines.append(f"{name}=={version}{marker} \\")
        lines += [f"    --hash=sha256:{one} \\" for one in hashes]
        lines[-1] = lines[-1].removesuffix(" \\")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Ask for every Python and write the file."""
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    requirements = wanted()
    for python in PYTHONS:
        for name, version, sha256 in asked(python, requirements):
            found.setdefault((name, version), {}).setdefault(python, set()).add(sha256)
    PLACE.write_text(page(found))
    return 0


if __name__ == "__main__":
    terminal.run(main)
