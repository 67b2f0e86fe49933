"""Platforms and devices of all libraries, and the one that is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import BadChoice, DeviceError, NotFound
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.libraries import check_process, load_all
from unbound.extras import install

MISSING: Final = (
    f"install a vendor's OpenCL package, or {install('cl')} for OpenCL on the processor"
)


@dataclass(frozen=True, slots=True)
class Found:
    """One device of one platform."""

    api: Api
    platform: int
    device: int
    platform_name: str
    platform_version: str
    name: str
    driver: str
    """The driver's version."""
    available: bool

    @property
    def title(self) -> str:
        """As the probe shows it."""
        return f"{self.name} ({self.platform_name}, driver {self.driver})"

    def matches(self, wanted: str) -> bool:
        """Whether a part of its names is `wanted`, in any case."""
        names = f"{self.name}\n{self.platform_name}"
        return wanted.casefold() in names.casefold()


def find(world: World) -> tuple[list[Found], list[DeviceError]]:
    """Every device, in the order of libraries and platforms, and why a library was passed over.

    A platform that two libraries offer counts once. A platform or device that does not answer is
    among the errors, and hides no other.
    """
    found: list[Found] = []
    errors: list[DeviceError] = []
    seen: set[tuple[str, str]] = set()
    for api in load_all(world):
        if isinstance(api, DeviceError):
            errors.append(api)
            continue
        more, wrong = find_in(api, seen)
        found += more
        errors += wrong
    return found, errors


def find_in(api: Api, seen: set[tuple[str, str]]) -> tuple[list[Found], list[DeviceError]]:
    """Every device of one library but those of platforms in `seen`, where its own are put."""
    found: list[Found] = []
    errors: list[DeviceError] = []
    try:
        platforms = api.objects("clGetPlatformIDs", none=abi.PLATFORM_NOT_FOUND_KHR)
    except DeviceError as error:
        return [], [error.named(api.name)]
    for platform in platforms:
        try:
            _add(api, platform, seen, found, errors)
        except DeviceError as error:
            errors.append(error.named(api.name))
    return found, errors


def _add(
    api: Api, platform: int, seen: set[tuple[str, str]], found: list[Found],
    errors: list[DeviceError],
) -> None:  # fmt: skip
    """The devices of one platform."""
    name = api.text("clGetPlatformInfo", platform, abi.PLATFORM_NAME)
    version = api.text("clGetPlatformInfo", platform, abi.PLATFORM_VERSION)
    if (name, version) in seen:
        return
    seen.add((name, version))
    devices = api.objects(
        "clGetDeviceIDs", platform, abi.DEVICE_TYPE_ALL, none=abi.DEVICE_NOT_FOUND
    )
    for device in devices:
        try:
            found.append(_device(api, platform, device, (name, version)))
        except DeviceError as error:
            errors.append(error.named(f"{api.name}, a device of {name}"))


def _device(api: Api, platform: int, device: int, named: tuple[str, str]) -> Found:
    return Found(
        api=api, platform=platform, device=device,
        platform_name=named[0], platform_version=named[1],
        name=api.text("clGetDeviceInfo", device, abi.DEVICE_NAME),
        driver=api.text("clGetDeviceInfo", device, abi.DRIVER_VERSION),
        available=bool(api.number("clGetDeviceInfo", device, abi.DEVICE_AVAILABLE)),
    )  # fmt: skip


def choose(world: World, index: int, wanted: str | None) -> Found:
    """Device `index` of those that CL_DEVICE leaves: all, one number, or those of a name.

    Raises: NotFound with what there is; BadChoice for a CL_DEVICE that matches none; Unsupported in
    a child of a process that had loaded an OpenCL library.
    """
    check_process()
    found, errors = find(world)
    if not found:
        why = "; ".join(error.message for error in errors) or "no library has a platform"
        raise NotFound(f"no OpenCL device: {why}", hint=MISSING)
    shown = "; ".join(f"{number}: {one.title}" for number, one in enumerate(found))
    left = found
    if wanted:
        left = [one for number, one in enumerate(found) if _is(one, number, wanted)]
        if not left:
            raise BadChoice(f"CL_DEVICE={wanted!a} is none of {shown}", hint="Choose one")
    if index >= len(left):
        raise NotFound(f"there is no CL:{index}", hint=f"There is {shown}")
    if not left[index].available:
        raise NotFound(f"{left[index].title} is not available", hint="close what uses it")
    return left[index]


def _is(one: Found, number: int, wanted: str) -> bool:
    return wanted == str(number) if wanted.isdecimal() else one.matches(wanted)
