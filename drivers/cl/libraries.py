"""Where OpenCL comes from: the system's ICD loader, and vendors' libraries that wheels bring.

A vendor's library without exported functions is used as an ICD loader uses it: it gives platforms,
and a platform's first word is the address of its dispatch table.
# src: cl_khr_icd, "ICD Loader Vendor Enumeration"; KhronosGroup/OpenCL-Headers CL/cl_icd.h
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Final

from drivers.base import forks
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, NotFound, Unsupported
from drivers.base.library import Library, Native
from drivers.cl import abi
from drivers.cl.api import Api, Text, Words

LOADER: Final = "libOpenCL.so.1"
_VENDOR_FOLDERS: Final = ("etc/OpenCL/vendors", "pyopencl/.libs")
"""In the environment of an interpreter, and among its packages: Intel's wheel, PoCL's."""
_LIBRARY_FOLDERS: Final = ("lib",)
MAX_ICD_BYTES: Final = 4096
_FIRST: Final = "clGetPlatformIDs"


class _Loaded:
    """Libraries of this process. Never unloaded: PoCL's threads live on, and a second loading of it
    waits for them for ever."""

    def __init__(self) -> None:
        self.libraries: list[Library] = []
        self.forked = False
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: the libraries' threads are the parent's."""
        self.forked = bool(self.libraries)


_loaded: Final = _Loaded()


def check_process() -> None:
    """Raises: Unsupported in a child of a process that had loaded an OpenCL library."""
    if _loaded.forked:
        raise Unsupported(
            "an OpenCL library was loaded before a fork: its threads are not in the child",
            hint="start the child with multiprocessing's `spawn`, or open CL in the child alone",
        )


def vendors(world: World, unread: list[DeviceError] | None = None) -> Iterator[str]:
    """Absolute paths of the libraries that .icd files of wheels name, and that are there.

    A folder or file that cannot be read hides no other; its error is added to `unread`.
    """
    prefix = sys.prefix
    packages = [path for path in sys.path if path.endswith("-packages")]
    errors = [] if unread is None else unread
    for root in dict.fromkeys([prefix, *packages]):
        for folder in _VENDOR_FOLDERS:
            where = os.path.join(root, folder)
            for name in _icd_files(world, where, errors):
                try:
                    yield from _named(world, where, name, prefix)
                except DeviceError as error:
                    errors.append(error)


def _icd_files(world: World, folder: str, errors: list[DeviceError]) -> list[str]:
    try:
        names = sorted(world.listdir(folder)) if world.exists(folder) else []
    except DeviceError as error:
        errors.append(error)
        return []
    return [name for name in names if name.endswith(".icd")]


def _named(world: World, folder: str, name: str, prefix: str) -> Iterator[str]:
    """The library of one .icd file: where it says, beside it, or among the libraries.

    A wheel's file holds the path of the machine that it was made on.
    """
    text = world.read(os.path.join(folder, name), MAX_ICD_BYTES).decode(errors="replace").strip()
    base = os.path.basename(text)
    if not base or "\0" in text:
        return
    places = [text, os.path.join(folder, base), *(
        os.path.join(prefix, one, base) for one in _LIBRARY_FOLDERS
    )]  # fmt: skip
    for place in places:
        if os.path.isabs(place) and world.exists(place):
            yield place
            return


def load_all(world: World) -> Iterator[Api | DeviceError]:
    """Every library that there is, or why it cannot be used."""
    unread: list[DeviceError] = []
    for name in [LOADER, *vendors(world, unread)]:
        try:
            yield load(world, name)
        except DeviceError as error:
            yield error
    yield from unread


def load(world: World, name: str) -> Api:
    """One library by name or path. Raises: NotFound; MalformedInput for a vendor without one of
    OpenCL 1.2's functions; Unsupported after a fork."""
    check_process()
    kept = world.kept.get(f"OpenCL {name}")
    if isinstance(kept, Api):
        return kept
    library = world.library(name)
    _loaded.libraries.append(library)
    try:
        library.function(_FIRST, abi.CALLS[_FIRST].signature)
    except NotFound:
        found = Api(world, library, _dispatched(world, library))
    else:
        found = Api(world, library, _exported(library))
    world.kept[f"OpenCL {name}"] = found
    return found


def _exported(library: Library) -> dict[str, Native]:
    """Functions that a library exports by name."""
    found = {name: library.function(name, call.signature) for name, call in abi.CALLS.items()}
    for name, call in abi.SVM_CALLS.items():
        try:
            found[name] = library.function(name, call.signature)
        except NotFound:
            continue  # a loader of OpenCL 1.2
    return found


def _dispatched(world: World, library: Library) -> dict[str, Native]:
    """Functions of the dispatch table of a vendor's first platform."""
    name = "clGetExtensionFunctionAddress"
    get = library.function(name, abi.CALLS[name].signature)
    text = Text(b"clIcdGetPlatformIDsKHR")
    address = get(text.at)
    if not 0 < address < 1 << 64:
        raise NotFound(f"{library.name} is not a vendor's OpenCL library", hint="update it")
    platforms = world.function(address, 3)
    count, first = Words([0]), Words([0])
    if platforms(1, first.at, count.at) & 0xFFFFFFFF or not first.words[0]:
        raise NotFound(f"{library.name} has no platform", hint="update it")
    table = word(world, first.words[0])
    found = {_FIRST: _platforms(platforms)}
    for one, call in {**abi.CALLS, **abi.SVM_CALLS}.items():
        if one in found:
            continue
        code = word(world, table + call.place * abi.POINTER_BYTES)
        if code:
            found[one] = world.function(code, call.nargs)
        elif one in abi.CALLS:
            raise MalformedInput(f"{library.name} has no {one}", hint="update it")
    return found


def _platforms(call: Callable[..., int]) -> Native:
    """clIcdGetPlatformIDsKHR under the name that users of a loader call."""
    return lambda count, platforms, found: call(count, platforms, found)


def word(world: World, address: int) -> int:
    """A word that the library owns: memcpy(3) reads it."""
    room = Words([0])
    world.function(world.symbol("memcpy"), 3)(room.at, address, abi.POINTER_BYTES)
    return room.words[0]
