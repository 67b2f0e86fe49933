"""Every environment variable of the stack, read in this one module and nowhere else.

Names that belong to one kind of device come from its record in `drivers/kinds.py`; their values
are of the chosen kind, and of the first kind that has one where none is chosen. All are checked.
A wrong value is an error that lists the right ones; two values that contradict each other are an
error that names both. Nothing here touches the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from posixpath import join
from typing import TypeVar

from drivers.base.errors import BadChoice, NotFound
from drivers.kinds import BEST_FIRST, BY_NAME, NAMES, Kind

KINDS = NAMES
"""Kinds of device, as they are spelled in names ("AMD:1") and as environment variables (AMD=1)."""
_IFACES = {kind.name: kind.ifaces for kind in BEST_FIRST if kind.ifaces}
_KIND_FLAGS = {flag: kind.name for kind in BEST_FIRST for flag in (kind.name, *kind.flags)}
_COMPILER_FLAGS = {
    flag: (kind.name, compiler) for kind in BEST_FIRST for flag, compiler in kind.compilers.items()
}
DMA = ("IOMMU", "VRAM", "PHYSICAL")
_SAFE_DMA = "iommu or vram (physical lets the GPU write anywhere: docs/safety.md)"
CL_MEMORY = ("FINE", "COARSE", "BUFFER")
MAX_DEVICES = 256
MAX_THREADS = 1024
MAX_LIMIT_S = 100_000_000
_SHOWN_CHARS = 40
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VisibleList:
    """A variable that lists the GPUs this process may use; the driver knows which these are."""

    variable: str
    entries: tuple[str, ...]
    """Numbers and UUIDs in capitals, without spaces around them; none of an empty variable."""
    skips_repeats: bool
    """Whether an entry that names a GPU once more is read over; otherwise the list ends there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for. None leaves the decision to the stack."""

    kind: str | None
    index: int
    iface: str | None
    """Of the chosen kind: KFD, PCI, USB, NVK, KGSL or MSM."""
    compiler: str | None
    """Of the chosen kind: LLVM, CLANG, HIP or PTX. Without a kind, of the CPU."""
    cpu_threads: int | None
    cache_dir: str | None
    """Absolute path of where compiled kernels are kept; None without a home: nothing is kept."""
    firmware_dir: str | None
    firmware_files: tuple[str, ...] = ()
    """Firmware files that the user vouches for, one by one: they need not be known ones."""
    aql: bool | None = None
    """Whether compute queues read AQL packets; None for what the chip does best."""
    dma: str | None = None
    """What a GPU over PCI may reach of the host's memory: IOMMU, VRAM (nothing) or PHYSICAL.

    None: IOMMU where there is one, else VRAM. Physical addresses are asked for, each time.
    """
    firmware_manifest: str | None = None
    """A manifest that says which firmware files are known, in place of the one that comes along."""
    hang_s: float | None = None
    """After how long without progress a queue counts as hung; infinite for never."""
    rounds: bool = False
    """Whether matrix units may round the factors of float32 products."""
    images: bool = False
    """Whether kernels read operands that they do not write as images."""
    flush16: bool = False
    """Whether float16 is computed where subnormal numbers are 0."""
    timeline: str | None = None
    """Where kernels and copies are written to as trace events: an absolute path."""
    trace: str | None = None
    """Where every register access of a GPU over PCI is written to, by name."""
    visible: tuple[VisibleList, ...] = ()
    """Which GPUs of their kernel driver are left to this process."""
    cl_device: str | None = None
    """Which OpenCL device is CL:0: its number, or a part of its or its platform's name."""
    cl_memory: str | None = None
    """FINE, COARSE or BUFFER; None: the best that the device has."""
    cl_lanes: bool = False
    """Whether OpenCL on a processor gets kernels with lanes, as a GPU does."""
    vm_bind: bool = False
    """Whether an Adreno over msm has addresses of the process's own choice."""
    webgpu_device: str | None = None
    """Which WebGPU adapter is WEBGPU:0: its number, or a part of its title."""
    webgpu_library: str | None = None
    """The absolute path of the only WebGPU library to use; None: all that are found."""


def choose(environ: Mapping[str, str], name: str | None = None) -> Choice:
    """Read the environment; a device `name` ("CPU", "AMD:1") wins over its device choice.

    Raises: BadChoice for a wrong or contradictory value; NotFound for an unknown `name`.
    """
    kind, index = _device(environ)
    if name is not None:
        kind, index = split_name(name)
    compilers = _compilers(environ)
    ifaces = {key: _one_of(environ, f"{key}_IFACE", _IFACES[key]) for key in _IFACES}
    return Choice(
        kind=kind,
        index=index,
        iface=ifaces.get(kind) if kind else None,
        compiler=compilers.get(kind or "CPU"),
        cpu_threads=_threads(environ),
        cache_dir=_cache_dir(environ),
        firmware_dir=_directory(environ, "UNBOUND_FIRMWARE"),
        firmware_files=_paths(environ, "UNBOUND_FIRMWARE_FILES"),
        aql=_of_kind(kind, lambda known: _switch(environ, known.aql)),
        dma=_one_of(environ, _spelling(environ, "UNBOUND_DMA"), DMA, _SAFE_DMA),
        firmware_manifest=_file(environ, "UNBOUND_FIRMWARE_MANIFEST"),
        hang_s=_of_kind(kind, lambda known: _limit_s(environ, known.hang_s)),
        rounds=bool(_of_kind(kind, lambda known: _switch(environ, known.rounds))),
        flush16=bool(_of_kind(kind, lambda known: _switch(environ, known.flush16))),
        images=bool(_of_kind(kind, lambda known: _switch(environ, known.images))),
        timeline=_output(environ, "UNBOUND_TRACE"),
        trace=_file(environ, _spelling(environ, "UNBOUND_REGISTER_TRACE")),
        visible=_of_kind(kind, lambda known: visible_lists(environ, known.name) or None) or (),
        cl_device=environ.get("CL_DEVICE", "") or None,
        cl_memory=_one_of(environ, "CL_MEMORY", CL_MEMORY),
        cl_lanes=_flag(environ, "CL_LANES"),
        vm_bind=_flag(environ, "QCOM_VM_BIND"),
        webgpu_device=environ.get("WEBGPU_DEVICE", "") or None,
        webgpu_library=_file(environ, "WEBGPU_LIBRARY"),
    )


def _of_kind(kind: str | None, read: Callable[[Kind], T | None]) -> T | None:
    """What is read for the chosen kind; without one, for the first that has something."""
    found = {known.name: read(known) for known in BEST_FIRST}
    if kind is not None:
        return found[kind]
    return next((value for value in found.values() if value is not None), None)


def _spelling(environ: Mapping[str, str], name: str) -> str:
    """Which of a variable's names is set. Raises: BadChoice where two say different things."""
    older = (kind.older[name] for kind in BEST_FIRST if name in kind.older)
    given = [one for one in (name, *older) if environ.get(one)]
    if len({environ[one] for one in given}) > 1:
        raise BadChoice(f"{' and '.join(given)} contradict each other", hint=f"Set {name} alone")
    return given[0] if given else name


def visible_lists(environ: Mapping[str, str], kind: str) -> tuple[VisibleList, ...]:
    """The lists of a kind's visible GPUs that are set; each counts what the one before leaves."""
    return tuple(
        VisibleList(name, _entries(environ[name]), skips_repeats)
        for name, skips_repeats in BY_NAME[kind].visible.items()
        if name in environ
    )


def _entries(listed: str) -> tuple[str, ...]:
    return tuple(entry.strip().upper() for entry in listed.split(",")) if listed.strip() else ()


def split_name(name: str) -> tuple[str, int]:
    """("AMD", 1) of "AMD:1". Raises: NotFound, with the names there are."""
    parsed = _parse_name(name)
    if parsed is None:
        raise NotFound(
            f"no device is called {_shown(name)}",
            hint=f"Names are {', '.join(KINDS)}, with :1, :2, ... for the second, third one",
        )
    return parsed


def _parse_name(name: str) -> tuple[str, int] | None:
    kind, colon, number = name.partition(":")
    if kind.upper() not in KINDS or (colon and not _is_number(number, MAX_DEVICES - 1)):
        return None
    return kind.upper(), int(number or "0")


def _is_number(text: str, largest: int) -> bool:
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= len(str(largest))
        and int(text) <= largest
    )


def _shown(value: str) -> str:
    """The value as it may be printed: quoted, escaped, and short."""
    short = value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "..."
    return ascii(short)


def _flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "")
    if value not in ("", "0", "1"):
        raise BadChoice(
            f"{name}={_shown(value)} is neither on nor off",
            hint=f"Set {name}=1, or {name}=0, or unset it",
        )
    return value == "1"


def _switch(environ: Mapping[str, str], name: str) -> bool | None:
    """On or off; None where it is neither, and for no variable."""
    return _flag(environ, name) if name and environ.get(name) else None


def _one_of(
    environ: Mapping[str, str], name: str, values: tuple[str, ...], right: str = ""
) -> str | None:
    """One of `values` in any case. `right`: how the hint lists them, where not as they are."""
    value = environ.get(name, "")
    if value and value.upper() not in values:
        raise BadChoice(
            f"{name}={_shown(value)} is not known",
            hint=f"Set {name} to {right or ' or '.join(values)}",
        )
    return value.upper() or None


def _device(environ: Mapping[str, str]) -> tuple[str | None, int]:
    """The device that the environment forces, (None, 0) when it forces none."""
    asked = {flag: kind for flag, kind in _KIND_FLAGS.items() if _flag(environ, flag)}
    index = 0
    value = environ.get("DEV", "")
    if value:
        parsed = _parse_name(value)
        if parsed is None:
            raise BadChoice(
                f"DEV={_shown(value)} names no device",
                hint=f"Set DEV to one of {', '.join(KINDS)}, or to its number as in DEV=AMD:1",
            )
        asked[f"DEV={value}"], index = parsed
    kinds = set(asked.values())
    if len(kinds) > 1:
        names = " and ".join(flag if "=" in flag else f"{flag}=1" for flag in asked)
        raise BadChoice(
            f"{names} choose different devices", hint=f"Set one of {', '.join(KINDS)}, or DEV"
        )
    return (kinds.pop() if kinds else _of_iface(environ)), index


def _of_iface(environ: Mapping[str, str]) -> str | None:
    """The kind whose interface is named, where no device is: AMD_IFACE=PCI means an AMD GPU."""
    named = [kind for kind in _IFACES if environ.get(f"{kind}_IFACE")]
    if len(named) > 1:
        shown = " and ".join(f"{kind}_IFACE" for kind in named)
        raise BadChoice(
            f"{shown} are set, and nothing says which device is meant",
            hint=f"Set one of {', '.join(named)} to 1, or DEV",
        )
    return named[0] if named else None


def _compilers(environ: Mapping[str, str]) -> dict[str, str]:
    """The compiler that is forced for each kind of device."""
    chosen: dict[str, tuple[str, str]] = {}
    for flag, (kind, compiler) in _COMPILER_FLAGS.items():
        if not _flag(environ, flag):
            continue
        other = chosen.setdefault(kind, (flag, compiler))
        if other[1] != compiler:
            raise BadChoice(
                f"{other[0]}=1 and {flag}=1 choose different compilers for {kind}",
                hint="Set one of the two",
            )
    return {kind: compiler for kind, (_, compiler) in chosen.items()}


def _threads(environ: Mapping[str, str]) -> int | None:
    value = environ.get("CPU_THREADS", "")
    if not value:
        return None
    if not _is_number(value, MAX_THREADS) or int(value) == 0:
        raise BadChoice(
            f"CPU_THREADS={_shown(value)} is not a number of threads",
            hint=f"Set CPU_THREADS to 1 ... {MAX_THREADS}, or unset it for one per core",
        )
    return int(value)


def _limit_s(environ: Mapping[str, str], name: str) -> float | None:
    """Seconds, with or without decimals; infinite for 0 (no limit). None for no variable."""
    value = environ.get(name, "") if name else ""
    if not value:
        return None
    whole, _, rest = value.partition(".")
    if not _is_number(whole, MAX_LIMIT_S) or not _is_number(rest or "0", MAX_LIMIT_S):
        raise BadChoice(
            f"{name}={_shown(value)} is not a number of seconds",
            hint=f"Set {name} to seconds up to {MAX_LIMIT_S}, to 0 for no limit, or unset it",
        )
    return float(value) or inf


def _directory(environ: Mapping[str, str], name: str) -> str | None:
    """An absolute path; ~/ stands for HOME."""
    value = environ.get(name, "")
    if not value:
        return None
    home = environ.get("HOME", "")
    if value.startswith("~/") and home.startswith("/"):
        value = home + value[1:]
    if not value.startswith("/") or "\0" in value:
        raise BadChoice(
            f"{name}={_shown(value)} is not an absolute path",
            hint=f"Set {name} to a directory such as ~/.cache/unbound",
        )
    return value.rstrip("/") or "/"


def _file(environ: Mapping[str, str], name: str) -> str | None:
    """An absolute path of one file."""
    value = environ.get(name, "")
    if value and (not value.startswith("/") or "\0" in value):
        raise BadChoice(
            f"{name}={_shown(value)} is not an absolute path",
            hint=f"Set {name} to the full path of a file, or unset it",
        )
    return value or None


def _output(environ: Mapping[str, str], name: str) -> str | None:
    """The absolute path of a file to write; a relative one is below the current directory."""
    value = environ.get(name, "")
    if "\0" in value or value.endswith("/"):
        raise BadChoice(
            f"{name}={_shown(value)} names no file", hint=f"Set {name}=out.json, or unset it"
        )
    try:
        return os.path.join(os.getcwd(), value) if value else None
    except OSError as error:
        raise BadChoice(
            f"{name}={_shown(value)}: the current directory is gone",
            hint=f"Set {name} to the full path of a file",
        ) from error


def _paths(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Absolute paths with colons between them."""
    listed = tuple(filter(None, environ.get(name, "").split(":")))
    for path in listed:
        if not path.startswith("/") or "\0" in path:
            raise BadChoice(
                f"{name}={_shown(path)} is not an absolute path",
                hint=f"Set {name} to full paths of firmware files, with colons between them",
            )
    return listed


def _cache_dir(environ: Mapping[str, str]) -> str | None:
    """UNBOUND_CACHE, else below XDG_CACHE_HOME, else below HOME.

    Source: XDG Base Directory Specification 0.8: a relative XDG_CACHE_HOME is ignored.
    """
    chosen = _directory(environ, "UNBOUND_CACHE")
    if chosen is not None:
        return chosen
    for base, tail in (
        (environ.get("XDG_CACHE_HOME", ""), ""),
        (environ.get("HOME", ""), ".cache"),
    ):
        if base.startswith("/") and "\0" not in base:
            return join(base, tail, "unbound")
    return None


def state_bases(environ: Mapping[str, str]) -> list[str]:
    """Where the environment says that this user keeps what outlives a program.

    Source: XDG Base Directory Specification 0.8.
    """
    home = environ.get("HOME", "").rstrip("/")
    homes = [join(home, ".local", "state")] if home else []
    places = [environ.get("XDG_RUNTIME_DIR", ""), environ.get("XDG_STATE_HOME", ""), *homes]
    return [one.rstrip("/") or "/" for one in places if one.startswith("/") and "\0" not in one]
