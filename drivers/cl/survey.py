"""OpenCL's libraries asked one by one, for `python -m drivers.probe`: each may end its process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.cl import abi
from drivers.cl.libraries import LOADER, MAX_ICD_BYTES, load, vendors
from drivers.cl.platforms import Found, find_in
from drivers.machine.text import entries

ICD_FOLDER: Final = "/etc/OpenCL/vendors"


def survey(world: World, request: Request) -> Iterator[Step]:
    """Every device of every library, and why a library has none.

    The system's loader loads all vendors that are installed. Where that ended a process, each of
    them is asked by itself, which names the one that did it.
    """
    unread: list[DeviceError] = []
    names = [LOADER, *vendors(world, unread)]
    if LOADER in request["lost"]:
        names += installed(world, unread)
    yield from (Fact({"library": "", "missing": error.message}) for error in unread)
    seen: set[tuple[str, str]] = set()
    for name in dict.fromkeys(names):
        if name in request["skip"]:
            continue
        yield Begun(name)
        try:
            api = load(world, name)
        except DeviceError as error:
            yield Fact({"library": name, "missing": error.message})
            continue
        yield Begun(name, "asked")
        found, errors = find_in(api, seen)
        yield from (
            Fact({
                "library": name, "title": one.title, "platform": one.platform_name,
                "version": one.platform_version, **_memory(one),
            })
            for one in found
        )  # fmt: skip
        yield from (Fact({"library": name, "missing": error.message}) for error in errors)


def _memory(found: Found) -> dict[str, int]:
    """All memory of a device; nothing where it does not answer."""
    try:
        number = found.api.number("clGetDeviceInfo", found.device, abi.DEVICE_GLOBAL_MEM_SIZE)
    except DeviceError:
        return {}
    return {"memory_bytes": number}


def installed(world: World, unread: list[DeviceError]) -> list[str]:
    """The libraries that the system's .icd files name; src: cl_khr_icd, one in each file."""
    found = []
    for name in entries(world, ICD_FOLDER):
        try:
            if name.endswith(".icd"):
                found.append(world.read(f"{ICD_FOLDER}/{name}", MAX_ICD_BYTES))
        except DeviceError as error:
            unread.append(error)
    texts = [one.decode(errors="replace").strip() for one in found]
    return [one for one in texts if one and "\0" not in one]
