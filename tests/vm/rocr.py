"""Debian's ROCr in the guest, on the real KFD: what the file system gets of it, how it runs there.

The programs are those of `make witness-rocr`, without its shim. docs/witnesses.md describes them.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from tests.debian import CannotRun
from tests.vm.cpio import CpioWriter
from tests.vm.lab import LabError
from tests.witness import rocr
from tests.witness.roots import Root, cache_folder

PLACE = "/rocr"
"""Folder of the guest that has the suite's loader, libraries and rocminfo, and our client."""
_TOO_LARGE = ("gfx942",)
"""Each of its queues saves waves in 177 MiB, and TTM gives the guest's GPU half of 3 GiB: there
rocminfo runs, and the client ends with OUT_OF_RESOURCES. measured: 2026-11-23"""
CHIPS = tuple(
    chip
    for chip, suite in rocr.SUITES.items()
    if suite == rocr.SUITES["gfx1100"] and chip not in _TOO_LARGE
)
"""Those that the suite in the guest knows."""
_LIBRARIES = f"{PLACE}/lib"
_LOADER = "ld-linux-x86-64.so.2"
_LOADED_LATER = ("libdrm_amdgpu.so.1",)
"""src: libhsakmt fmm.c and topology.c open these by name; no ELF header says so."""


def _needed(path: Path) -> list[str]:
    """The libraries that an ELF file names. Raises: OSError, ELFError."""
    with path.open("rb") as file:
        section: Any = ELFFile(file).get_section_by_name(".dynamic")
        return [tag.needed for tag in section.iter_tags("DT_NEEDED")] if section else []


def libraries(root: Root, programs: Iterable[Path]) -> Iterator[Path]:
    """Every library of the root that programs need, each once. Raises: CannotRun."""
    waiting = [*_LOADED_LATER, *(name for path in programs for name in _needed(path))]
    seen: set[str] = set()
    for name in waiting:  # grows while it runs, by names that are new
        if name in seen:
            continue
        seen.add(name)
        path = next((p / name for p in root.libraries if (p / name).exists()), None)
        if path is None and name == _LOADER:
            path = root.loader
        if path is None:
            raise CannotRun(f"no {name} in {root.folder}")
        yield path
        waiting += _needed(path)


def add(image: Path, boards: Iterable[str]) -> str:
    """Append rocminfo, our client, the boards' kernels and their libraries; what they are.

    Nothing, and "", for boards that the suite's ROCr does not know. Raises: CannotRun.
    """
    chips = [chip for chip in boards if chip in CHIPS]
    if not chips:
        return ""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock, CpioWriter(image, append=True) as files:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clients = [rocr.prepare(chip) for chip in chips]
        root = clients[0].setup.root
        for client in clients:
            files.file(f"{PLACE}/{client.setup.chip}.hsaco", client.kernels)
        programs = {"rocminfo": root.folder / "usr/bin/rocminfo", "client": clients[0].program}
        for name, path in programs.items():
            files.file(f"{PLACE}/{name}", path)
        for path in libraries(root, programs.values()):
            files.file(f"{_LIBRARIES}/{path.name}", path.resolve())
    return clients[0].words.partition(": ")[2]


def command(chip: str, program: str, *words: str) -> str:
    """The line for the guest's shell that runs a program of it."""
    loader = f"{_LIBRARIES}/{_LOADER} --library-path {_LIBRARIES}"
    environ = f"WITNESS_CHIP={chip} HSAKMT_DEBUG_LEVEL=3"
    return " ".join([environ, loader, f"{PLACE}/{program}", *words])


def rocminfo(board: str, shell: Callable[[str], str]) -> str:
    """rocminfo lists the GPU. Raises: LabError."""
    wrong = rocr.wrong_agent(board, shell(command(board, "rocminfo")))
    if wrong:
        raise LabError("; ".join(wrong))
    return f"agent {board}"


def client(board: str, shell: Callable[[str], str]) -> str:
    """Our client over ROCr: every result right, and none missing. Raises: LabError."""
    lines = shell(command(board, "client", "all", f"{PLACE}/{board}.hsaco")).splitlines()
    wrong = [line for line in lines if line.startswith("WRONG")]
    right = sum(line.startswith("ok: ") for line in lines)
    if wrong or right != rocr.CHECKS:
        raise LabError(f"{right} results right of {rocr.CHECKS}; {'; '.join(wrong)}")
    return f"{right} results right"
