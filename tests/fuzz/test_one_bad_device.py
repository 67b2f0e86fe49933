"""One bad device among good ones: 20,000 mutations of its files, and the others are still listed.

Of each kind of listing: KFD's topology, amdgpu's sysfs, PCI, NVIDIA's /proc, USB, and sysfs of an
Adreno, where the bad one is of the other kernel driver. A file of the bad device is changed, taken
away, made a link or a folder, or it answers an errno; every report is made from what is left.
"""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from drivers.amd import doctor as amd_doctor
from drivers.amd import probe as amd_probe
from drivers.amd import smi
from drivers.amd.kfd.offers import offered
from drivers.amd.tools.look import look as look_amd
from drivers.base.offer import Offer
from drivers.base.oserrors import translate
from drivers.doctor import run
from drivers.doctor.checks import CHECKS
from drivers.machine.buses import pci_gpus
from drivers.nv import probe as nv_probe
from drivers.nv.tools.look import look as look_nv
from drivers.pci.functions import gpus
from drivers.qcom import probe as qcom_probe
from drivers.qcom.look import look as look_qcom
from drivers.usb.asm24.enclosures import enclosures
from tests.amd_trees import GFX1100, GFX1201, ROOT, machine, second
from tests.fake_machine import X86, FakeMachine, enclosure, pci
from tests.mutation import EXTREMES, mutate
from tests.share import part
from tests.support import check
from tests.unit.test_amd_smi_machines import A, B, card
from tests.unit.test_nv_probe import AT, INFORMATION
from tests.unit.test_nv_probe import machine as nv_machine
from tests.unit.test_qcom_readings import KGSL, MSM

Files = dict[str, bytes | str]
NUMBERS = (
    errno.EBUSY, errno.EIO, errno.ENODEV, errno.ENXIO, errno.EPERM, errno.EACCES, errno.EINVAL,
    errno.ENODATA, errno.ESTALE, errno.ENOENT, errno.ENOMEM, errno.ETIMEDOUT,
)  # fmt: skip
FAMILIES = 6
TURNS = part(20_000, 480) // FAMILIES + 1
OTHER = "0000:66:00.0"


class Failing(FakeMachine):
    """A machine some of whose files answer an errno."""

    def __init__(self, files: Files, errors: dict[str, int]) -> None:
        super().__init__(files)
        self.errors = errors

    def _checked(self, what: str, path: str) -> None:
        number = self.errors.get(path)
        if number is not None:
            cause = OSError(number, os.strerror(number))
            error = translate(cause, f"{what} {path}")
            error.__cause__ = cause
            raise error

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        self._checked("read", path)
        return super().read(path, limit_bytes)

    def readlink(self, path: str) -> str:
        self._checked("readlink", path)
        return super().readlink(path)

    def listdir(self, path: str) -> list[str]:
        self._checked("list", path)
        return super().listdir(path)

    def open(self, path: str, flags: int) -> int:
        """A node is tried; it opens where it is there."""
        self._checked("open", path)
        return 7

    def close(self, fd: int) -> None:
        """Nothing is open."""


def changed(data: bytes, rng: random.Random) -> bytes:
    """One number made extreme, lines moved about, or bytes at random."""
    numbers = list(re.finditer(rb"\d+", data))
    if rng.randrange(3) == 0 and numbers:
        spot = rng.choice(numbers)
        number = rng.choice((*EXTREMES, rng.getrandbits(70), -1))
        return data[: spot.start()] + b"%d" % number + data[spot.end() :]
    if rng.randrange(4) == 0:
        lines = data.splitlines(keepends=True)
        rng.shuffle(lines)
        return b"".join(lines[rng.randrange(2) :]) * rng.choice((1, 1, 2, 300))
    return mutate(data, rng)


def spoilt(files: Files, bad: list[str], rng: random.Random) -> Failing:
    """One to three of the bad device's files, each spoilt in one way."""
    left, errors = dict(files), dict[str, int]()
    for path in rng.sample(bad, min(len(bad), rng.randint(1, 3))):
        data, kind = left[path], rng.randrange(8)
        if kind == 0:
            errors[path] = rng.choice(NUMBERS)
        elif kind == 1:
            errors[path.rpartition("/")[0]] = rng.choice(NUMBERS)  # its folder
            errors[path] = rng.choice(NUMBERS)
        elif kind == 2:
            del left[path]
        elif kind == 3:
            left[path] = "../" + "".join(rng.choices("abc/\x00\x1b0", k=12))
        elif kind == 4:
            left[f"{path}/{rng.randrange(9)}"] = left.pop(path)
        elif isinstance(data, bytes):
            left[path] = changed(data, rng)
        else:
            left[path] = changed(data.encode(), rng).decode("latin-1")
    return Failing(left, errors)


@dataclass(frozen=True)
class Family:
    """A machine, which files are those of the bad device, and what every report must still have."""

    files: Files
    is_bad: Callable[[str], bool]
    good: Callable[[Failing], object]
    """What is reported of the good device."""


def kfd(world: Failing) -> object:
    """The gfx1201: its node, that it has a number, and that it is offered."""
    found = look_amd(world)
    amd_probe.as_table(found)
    amd_probe.as_facts(found)
    if world.errors:  # the doctor reads all once more
        list(amd_doctor.rows(world, {}))
    offers = [one.title for one in offered(world, {}) if isinstance(one, Offer)]
    good = [gpu for gpu in found.gpus if gpu.node.gfx_target_version == 120001]
    return ([(gpu.node.index, gpu.numbered, gpu.node.memory_bytes) for gpu in good],
            [title for title in offers if "gfx1201" in title])  # fmt: skip


def sensors(world: Failing) -> object:
    found = smi.report(world, None)
    smi.as_text(found)
    smi.as_json(found)
    return [(line.readings, line.lacks) for line in found.lines if line.function.address == B]


def bus(world: Failing) -> object:
    run({"gpus": CHECKS["gpus"]}, world, {})
    return ([one for one in pci_gpus(world) if one.address == B],
            [one for one in gpus(world) if one.address == B])  # fmt: skip


def nvidia(world: Failing) -> object:
    text, _ = nv_probe.probe([], world)
    nv_probe.probe(["--json"], world)
    good = [gpu for gpu in look_nv(world).gpus if gpu.address == AT]
    return [(gpu.minor, gpu.node.ok, gpu.product) for gpu in good], "NVIDIA H200" in text


def usb(world: Failing) -> object:
    run({"usb": CHECKS["usb"]}, world, {})
    return [one for one in enclosures(world) if one.address == "2-2"]


def adreno(world: Failing) -> object:
    text, _ = qcom_probe.probe([], world)
    good = [node for node in look_qcom(world).nodes if node.way == "KGSL"]
    return [(node.ok, node.readings) for node in good], "a640, generation 6" in text


NV: Files = nv_machine() | pci(OTHER, "10de:2335", driver="nvidia") | {
    f"/proc/driver/nvidia/gpus/{OTHER}/information": INFORMATION.format("1").encode(),
    "/dev/nvidia1": b"",
}  # fmt: skip
TWO = machine(GFX1100, second(GFX1201))
FAMILY_OF = {
    "KFD": Family({**X86, **TWO}, lambda path: "/nodes/1/" in path or "renderD128" in path, kfd),
    "amdgpu": Family({**card(A), **card(B)}, lambda path: A in path, sensors),
    "PCI": Family({**X86, **card(A), **card(B)}, lambda path: A in path, bus),
    "NVIDIA": Family(NV, lambda path: OTHER in path or path == "/dev/nvidia1", nvidia),
    "USB": Family(
        {**enclosure("add1:0001", "custom v0.1"),
         **enclosure("add1:0001", "custom v0.1", address="2-2")},
        lambda path: "/2-1/" in path, usb),
    "Adreno": Family(
        {**MSM, **KGSL}, lambda path: "adreno" in path or "thermal" in path or "renderD" in path,
        adreno),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILY_OF)
def test_the_others_stay(name: str) -> None:
    """20,000 turns in all; a share of them in `make test`."""
    family, rng = FAMILY_OF[name], random.Random(f"one bad {name}")
    bad = sorted(filter(family.is_bad, family.files))
    whole = family.good(Failing(family.files, {}))
    check(len(bad) > 1 and whole, f"{bad}, {whole}")
    for turn in range(TURNS):
        world = spoilt(family.files, bad, rng)
        seen = family.good(world)
        check(seen == whole, f"turn {turn}: {seen} and not {whole}; {world.errors}")


def test_every_family_is_there() -> None:
    check(len(FAMILY_OF) == FAMILIES and ROOT in "".join(FAMILY_OF["KFD"].files))
