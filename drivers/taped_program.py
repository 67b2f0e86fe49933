"""A program on a device that is recorded or replayed: what both commands do alike."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from drivers.base.contracts import Device
from drivers.base.errors import NotFound
from drivers.base.inputs import read_input
from drivers.base.order import in_order
from drivers.choice import KINDS, choose
from drivers.kinds import BY_NAME
from drivers.machine.program import run_program

DEFAULT: Final = "AMD"
_MOST_BYTES: Final = 1 << 20
_MANIFEST: Final = "UNBOUND_FIRMWARE_MANIFEST"
_CHOICES: Final = ("AQL", "LLVM", "HIP", "PTX", "HANG_S")


def device_name(environ: Mapping[str, str]) -> str:
    """The device that the environment names, else AMD. Raises: BadChoice."""
    choice = choose(environ)
    kind = choice.kind or DEFAULT
    return f"{kind}:{choice.index}" if choice.index else kind


def choices(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """What the environment says about how a device works, to be the same in a replay.

    No path, and no list of visible GPUs: those hold names of this machine. A recording comes from
    anybody: its header is read through this, too. So no interface that claims a GPU is kept, but
    for one of which a tape has everything, with the firmware manifest: a file of the tape as well.
    """
    kind = name.partition(":")[0]
    kept = (f"{kind}_{choice}" for choice in _CHOICES)
    found = {variable: environ[variable] for variable in kept if variable in environ}
    ways = BY_NAME[kind].ways if kind in BY_NAME else ()
    variable = f"{kind}_IFACE"
    for way in ways:
        if environ.get(variable) == way.name and (way.taped or not way.named_only):
            found[variable] = way.name
            if way.taped and _MANIFEST in environ:
                found[_MANIFEST] = environ[_MANIFEST]
    return found


@contextmanager
def default(name: str) -> Iterator[None]:
    """Inside, the environment chooses this device."""
    saved = dict(os.environ)
    _replace(choosing(name, saved))
    try:
        yield
    finally:
        _replace(saved)


def _replace(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


def choosing(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment that chooses this device and no other."""
    kinds = {"GPU", "CLANG", "LLVM", *KINDS}
    return {variable: environ[variable] for variable in environ if variable not in kinds} | {
        "DEV": name
    }


def digest(program: Path) -> str:
    """SHA-256 of a program's text. Raises: NotFound, BadArgument, MalformedInput."""
    return hashlib.sha256(read_input(str(program), _MOST_BYTES)).hexdigest()


def example(name: str, sha256: str) -> Path | None:
    """The example of this repository that has a name and a digest."""
    found = _examples() / Path(name).name
    return found if found.is_file() and digest(found) == sha256 else None


def is_example(program: Path) -> bool:
    """Whether a program is one of this repository's."""
    return program.resolve().parent == _examples()


def _examples() -> Path:
    return Path(__file__).resolve().parent.parent / "examples"


@contextmanager
def repeatable() -> Iterator[None]:
    """Inside, every run does the same in the same order.

    Objects go when nothing refers to them, and copies use one thread.
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        with in_order():
            yield
    finally:
        if enabled:
            gc.enable()


def run_on(
    name: str, opened: Callable[[], Device], program: Path, arguments: Sequence[str],
    stderr: TextIO,
) -> int:  # fmt: skip
    """The program's exit status, `name` being the device that `opened` opens, closed at the end.

    Raises: DeviceError of opening and closing; NotFound where the program is no file.
    """
    from tensor import engine

    if not program.is_file():
        raise NotFound(f"there is no file {str(program)!r}", hint="name a Python program")
    with default(name), repeatable(), opened() as device, engine.adopted(name, device):
        return run_program(program, arguments, stderr)
