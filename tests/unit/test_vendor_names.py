"""Rooms that all vendors share name none of them: each line that does is known, with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
VENDOR = re.compile("amd", re.IGNORECASE)
SHARED = (
    "drivers/base/**/*", "drivers/bare/**/*", "drivers/claim/**/*", "drivers/doctor/**/*",
    "drivers/firmware/**/*", "drivers/gpu/**/*", "drivers/pci/**/*", "drivers/probe/**/*",
    "queues/*.py", "compilers/*.py", "compilers/lower/**/*", "compilers/math/**/*",
    "compilers/objects/**/*", "compilers/plan/**/*", "compilers/render/**/*", "tensor/**/*",
    "boards/*.py", "boards/machine/**/*", "boards/vfio_user/**/*", "benchmarks/**/*",
)  # fmt: skip
"""Rooms of any vendor. Packages of one vendor inside them have folders of their own."""


class Known(NamedTuple):
    """Why a file may name the vendor, and in how many lines at most."""

    lines: int
    reason: str


KNOWN = {
    "boards/machine/pci/drivers.py": Known(2, "source: functions of a kernel driver of Linux"),
    "boards/vendors.py": Known(14, "the one record of its boards"),
    "compilers/families.py": Known(3, "the one registration of its compilers"),
    "drivers/claim/rules.py": Known(2, "source: why a kernel driver alone can suspend functions"),
}


def files() -> Iterator[Path]:
    """Every file of the shared rooms, compiled ones aside."""
    for pattern in SHARED:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def found_in(path: Path) -> list[str]:
    """The lines that name the vendor."""
    return [line.strip() for line in path.read_text("utf-8").splitlines() if VENDOR.search(line)]


def judged(name: str, lines: list[str]) -> str:
    """What is wrong with a file, "" where nothing is."""
    known = KNOWN.get(name)
    if known is None and lines:
        return f"{name} names a vendor: {lines[0]!r}; let the vendor's package register it"
    if known is not None and len(lines) > known.lines:
        return f"{name} names a vendor in {len(lines)} lines, {known.lines} are known: {lines}"
    return ""


def test_no_shared_room_names_a_vendor() -> None:
    seen = list(files())
    check(len(seen) > 200, f"{len(seen)} files")
    wrong = [judged(str(path.relative_to(ROOT)), found_in(path)) for path in seen]
    check(not any(wrong), "\n".join(filter(None, wrong)))


@pytest.mark.parametrize(
    ("name", "lines"),
    [("drivers/pci/session.py", ["if gpu.vendor == AMD:"]),
     ("compilers/families.py", ["amd"] * 4)],
)  # fmt: skip
def test_a_new_leak_is_noticed(name: str, lines: list[str]) -> None:
    check(name in judged(name, lines), name)
    check(not judged(name, lines[: len(lines) - 1]), "what was there before")
