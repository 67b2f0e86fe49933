"""OpenCL devices and WebGPU adapters: one that does not answer hides no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from drivers.base.errors import DeviceError, NotFound
from drivers.cl import abi, libraries, platforms
from drivers.webgpu import adapters
from drivers.webgpu.adapters import About
from tests.fake_machine import FakeMachine
from tests.support import check


class Devices:
    """A library with two platforms of two devices; the objects in `silent` answer nothing."""

    name = "libmade.so"

    def __init__(self, *silent: int) -> None:
        self.silent = silent

    def objects(self, call: str, *args: int, none: int = 0) -> list[int]:
        if call == "clGetPlatformIDs":
            return [1, 2]
        return [10 * args[0], 10 * args[0] + 1]

    def text(self, call: str, handle: int, what: int) -> str:
        if handle in self.silent:
            raise DeviceError(f"{call}: CL_OUT_OF_HOST_MEMORY", hint="close other programs")
        return f"name {handle}"

    def number(self, call: str, handle: int, what: int) -> int:
        return int(what == abi.DEVICE_AVAILABLE)


@pytest.mark.parametrize(
    ("silent", "left"), [((), [10, 11, 20, 21]), ((11,), [10, 20, 21]), ((1,), [20, 21])]
)
def test_opencl_devices(
    silent: tuple[int, ...], left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    api: Any = Devices(*silent)
    monkeypatch.setattr(platforms, "load_all", lambda world: iter([api]))
    found, errors = platforms.find(FakeMachine({}))
    check([one.device for one in found] == left, f"{found}")
    check(len(errors) == len(silent), f"{errors}")
    check(all("libmade.so" in error.message and error.hint for error in errors), f"{errors}")


def test_a_vendors_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "/venv/etc/OpenCL/vendors"
    files: dict[str, bytes | str] = {
        f"{folder}/a.icd": b"x" * 70_000, f"{folder}/b.icd": b"/lib/libb.so\n", "/lib/libb.so": b"",
    }  # fmt: skip
    monkeypatch.setattr(libraries.sys, "prefix", "/venv")
    monkeypatch.setattr(libraries, "_VENDOR_FOLDERS", ("etc/OpenCL/vendors",))
    unread: list[DeviceError] = []
    check(list(libraries.vendors(FakeMachine(files), unread)) == ["/lib/libb.so"])
    check(len(unread) == 1 and "a.icd" in unread[0].message, f"{unread}")


class Instance:
    """An instance with adapters 1 and 2, of which 1 answers nothing."""

    instance = 7
    closed = 0

    def about(self, handle: int) -> About:
        if handle == 1:
            raise DeviceError("an adapter says nothing", hint="update its driver")
        return About("made", f"adapter {handle}", "1", "Vulkan", "a card")

    def close(self) -> None:
        self.closed += 1


def test_webgpu_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    instance: Any = Instance()

    def find(world: object, named: object = None) -> Iterator[tuple[Any, int]]:
        yield instance, 1
        yield instance, 2

    monkeypatch.setattr(adapters, "find", find)
    found, errors = adapters.listed(FakeMachine({}))
    check([one.name for one in found] == ["adapter 2"] and len(errors) == 1, f"{found} {errors}")
    check(instance.closed == 1, "released")
    chosen = adapters.choose(FakeMachine({}), 0, None, None)
    check(chosen[1] == 2, f"{chosen}")
    with pytest.raises(NotFound, match="adapter 2"):
        adapters.choose(FakeMachine({}), 1, None, None)
