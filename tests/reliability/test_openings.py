"""Every device opened, used and closed again and again through `drivers.open`.

Nothing is injected but the machine of a board: locks, clocks, libraries and worlds are those that
the product makes for itself. The process has no more descriptors, mappings and threads afterwards.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import drivers
import tensor as xp
from boards.front import Setup, power_on
from compilers.cpu.firmware import firmware
from drivers.base.contracts import Device, Firmware, World
from drivers.base.errors import Busy, DeviceError
from drivers.claim import place
from drivers.claim.claim import claim
from drivers.doctor.__main__ import main as doctor
from drivers.registry import this_machine
from tensor import engine
from tests import nv_boards, opencl, webgpu
from tests.cuda.made_up import CudaWorld
from tests.metal.made_up import MadeUpMac
from tests.pci_tree import BUS, GPU, TreeWorld, desktop
from tests.share import part
from tests.support import check

WINDOWS: Final = 3
OPENINGS: Final = 10
"""Of a window; the first ones are used for what the process keeps, such as compiled kernels."""
FIRST: Final = 3
NUMBERS: Final = np.arange(64, dtype=np.float32)


@dataclass(frozen=True)
class Machine:
    """What `drivers.open` is called with, and whether its kernels run here."""

    name: str
    world: World | None = None
    environ: Mapping[str, str] | None = None
    firmware: Firmware | None = None
    computes: bool = True

    def open(self, number: str = "") -> Device:
        return drivers.open(
            self.name + number, world=self.world, environ=self.environ, firmware=self.firmware
        )

    def use(self) -> None:
        """One life of a device."""
        with self.open() as device:
            if not self.computes:
                device.alloc(4096).free()
                return
            with engine.on_machine(this_machine()), engine.adopted(self.name, device):
                x = xp.asarray(NUMBERS, device=self.name)
                np.testing.assert_array_equal((x + x).numpy(), NUMBERS + NUMBERS)
                del x


def board(chip: str, iface: str = "", **environ: str) -> Machine:
    """As `python -m boards run` has it, but for the directory of locks, which that hands over."""
    front = power_on(Setup(chip, iface=iface))
    settings = {**front.environ, **environ}
    return Machine(settings.pop("DEV"), front.world, settings)


def nv() -> Machine:
    nv_boards.need(ptx=False)
    return board("ga102")


def cuda() -> Machine:
    nv_boards.need(ptx=False)
    return Machine("CUDA", CudaWorld(), {})


def webgpu_device() -> Machine:
    title = webgpu.need("wgpu")
    return Machine("WEBGPU", None, {"WEBGPU_DEVICE": title})


MACHINES: Final[Mapping[str, Callable[[], Machine]]] = {
    "CPU": lambda: Machine("CPU", firmware=firmware),
    "CPU without firmware": lambda: Machine("CPU", computes=False),
    "gfx1100": lambda: board("gfx1100"),
    "gfx942": lambda: board("gfx942"),
    "gfx1100 over PCI": lambda: board("gfx1100", "PCI"),
    "gfx1100 over USB": lambda: board("gfx1100", "USB"),
    "ga102": nv,
    "a630 over KGSL": lambda: board("a630", "KGSL"),
    "a630 over MSM": lambda: board("a630", "MSM"),
    "made-up Metal": lambda: Machine("METAL", MadeUpMac(), {}, computes=False),
    "made-up libcuda": cuda,
    "CL": lambda: Machine("CL", None, {"CL_DEVICE": opencl.need("pocl")}),
    "WEBGPU": webgpu_device,
}
CLAIMED: Final = ("gfx1100 over PCI", "gfx1100 over USB")
Held = tuple[Counter[str], int, int]
"""Descriptors by what they are of, mappings, threads."""


def held() -> Held:
    gc.collect()
    found: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{fd}")] += 1
        except FileNotFoundError:  # the directory itself, which was listed
            continue
    maps = len(Path("/proc/self/maps").read_bytes().splitlines())
    return found, maps, threading.active_count() + len(os.listdir("/proc/self/task"))


@pytest.fixture
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's directories, of root or not: what is there of the machine's real GPUs is let be."""
    monkeypatch.setattr(place, "ROOT_FOLDER", str(tmp_path))
    monkeypatch.setattr(place, "RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(place, "_home", lambda: str(tmp_path))
    return tmp_path


def flat(again: Callable[[], object], openings: int) -> None:
    """Windows of so many lives: no descriptor and thread more, and no mapping more in one of them.

    A mapping that a life loses is lost in every window; what a vendor's pool or the allocator of
    the C library takes now and then is not.
    """
    for _ in range(FIRST):
        again()
    before, grown = held(), []
    for _ in range(WINDOWS):
        start = held()[1]
        for _ in range(openings):
            again()
        descriptors, maps, threads = held()
        check(not descriptors - before[0], f"left open: {descriptors - before[0]}")
        check(threads <= before[2], f"{threads} threads, {before[2]} before")
        grown.append(maps - start)
        if grown[-1] <= 0:
            return
    check(False, f"mappings grew by {grown}, over {openings} openings each")


@pytest.mark.parametrize("name", MACHINES)
def test_a_device_opened_again_and_again_leaves_nothing(name: str, own_place: Path) -> None:
    flat(MACHINES[name]().use, part(OPENINGS, 4))


def refused(machine: Machine, number: str, kind: type[DeviceError]) -> None:
    with pytest.raises(kind):
        machine.open(number)


@pytest.mark.parametrize("name", MACHINES)
def test_a_device_that_is_not_there_leaves_nothing(name: str, own_place: Path) -> None:
    machine = MACHINES[name]()
    flat(lambda: refused(machine, ":9", DeviceError), part(OPENINGS, 4))


@pytest.mark.parametrize("name", CLAIMED)
def test_a_gpu_in_use_refused_again_and_again_leaves_nothing(name: str, own_place: Path) -> None:
    machine = MACHINES[name]()
    with machine.open():
        flat(lambda: refused(machine, "", Busy), part(OPENINGS, 4))
    machine.use()


def test_each_life_closes_the_trace_of_its_accesses(own_place: Path) -> None:
    machine = board("gfx1100", "PCI", UNBOUND_TRACE=str(own_place / "trace"))
    flat(machine.use, part(OPENINGS, 4))
    with machine.open():
        flat(lambda: refused(machine, "", Busy), part(OPENINGS, 4))


def test_what_could_not_be_given_back_is_given_back_later(own_place: Path) -> None:
    """The directory of its record stays open for that, and no longer."""
    tree, before = desktop(own_place / "machine"), held()[0]
    claimed = claim(TreeWorld(tree.root), None, GPU, lambda function: True)
    tree.at(f"{BUS}/drivers/amdgpu/bind").unlink()
    with pytest.raises(DeviceError, match="bind it to amdgpu"):
        claimed.close()
    tree.put(f"{BUS}/drivers/amdgpu/bind", "")
    claimed.close()
    check(tree.bound() == "amdgpu", f"bound to {tree.bound()!r}")
    check(not held()[0] - before, f"left open: {held()[0] - before}")


def test_the_doctor_closes_the_place_of_its_records(own_place: Path) -> None:
    tree, before = desktop(own_place / "machine"), held()[0]
    check("nothing to give back" in doctor(["--restore"], TreeWorld(tree.root), {})[0], "no record")
    check(not held()[0] - before, f"left open: {held()[0] - before}")
