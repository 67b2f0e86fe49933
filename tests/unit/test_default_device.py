"""Which device is the default on made-up machines, why, what is passed over, and what it costs."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.command import heading
from benchmarks.context import Context
from drivers.base.errors import BadChoice, Busy, DeviceError
from drivers.choice import KINDS
from drivers.default import Default, explain, settle
from drivers.doctor import run as doctor
from drivers.doctor.checks import CHECKS as DOCTOR_CHECKS
from drivers.kinds import ways
from drivers.probe.__main__ import main as probe
from drivers.probe.kinds import CHECKS
from tests.amd_trees import (
    GFX942,
    GFX1036,
    GFX1100,
    GFX1102,
    GFX1151,
    GFX1201,
    ROOT,
    bank,
    machine,
    second,
)
from tests.fake_machine import X86, FakeMachine, pci
from tests.support import check

Files = Mapping[str, bytes | str]
FEW, SOME = 3, 200
MUTATIONS = 1000
RENDER, SECOND = "/dev/dri/renderD128", "/dev/dri/renderD136"
CARD = "the AMD GPU at 0000:03:00.0"
BROKEN = f"{ROOT}/nodes/1/properties"
NO_BANK = f"{ROOT}/nodes/1/mem_banks/0/properties"


class Counting(FakeMachine):
    """A made-up machine that counts what is asked of it."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name in ("read", "listdir", "readlink", "exists", "access"):
            object.__getattribute__(self, "__dict__")["asked"] = self.asked + 1
        return super().__getattribute__(name)


def default(files: Files, denied: tuple[str, ...] = (), **environ: str) -> Default:
    world = FakeMachine({**X86, **files}, denied)
    found = explain(world, environ)
    check(not world.touched, "it only looks")
    return found


def test_every_way_to_a_device_has_its_place_and_a_reason() -> None:
    ranked = [(kind.name, way.name) for kind, way in ways() if not way.named_only]
    asked_for = [(kind.name, way.name) for kind, way in ways() if way.named_only]
    every = ranked + asked_for
    check(len(set(every)) == len(every) and set(every) == set(CHECKS), "a way of the probe")
    check({kind for kind, _ in ranked} == set(KINDS), "a kind that is never the default")
    check(all(way.why for _, way in ways()))
    check(ranked[-1] == ("CPU", ""), "the processor is the last resort")
    check({iface for _, iface in asked_for} == {"PCI", "USB"}, "these are unbound or booted")


@pytest.mark.parametrize(
    ("files", "denied", "name", "passed"),
    [
        ({}, (), "CPU", ["AMD KFD: /dev/kfd does not exist"]),
        (machine(), (), "CPU", ["KFD manages no GPU"]),
        (machine(GFX1100), (), "AMD", []),
        (machine(GFX1100), ("/dev/kfd",), "CPU", ["AMD KFD: /dev/kfd may not be opened"]),
        (machine(GFX1100), (RENDER,), "CPU", [f"{CARD}: {RENDER} may not be"]),
        (machine(GFX1036), (), "CPU", ["AMD GPU at 0000:11:00.0: gfx1036"]),
        (machine(GFX1036, GFX1201), (), "AMD", ["gfx1036"]),
        (machine(GFX1100, second(GFX1100)), (), "AMD", []),
        (machine(GFX1100, second(GFX1100)), (RENDER,), "AMD", [f"{CARD}: {RENDER}"]),
        (machine(GFX1100, second(GFX1100)), (SECOND,), "AMD", [": /dev/dri/renderD136"]),
        (machine(GFX1102, second(GFX1100)), (), "AMD:1", []),
        (machine(GFX1151), (), "AMD", []),
        (machine(GFX1151, second(GFX1102)), (), "AMD:1", []),  # a card before a processor's GPU
        (machine(GFX942, second(GFX1100)), (), "AMD", []),
        (machine(GFX942, second(GFX1100)) | {NO_BANK: bank(0, 1 << 30)}, (), "AMD:1", []),
        (machine(GFX1100), (f"{ROOT}/nodes/1/gpu_id",), "CPU", ["KFD node 1: hidden"]),
        (machine(GFX1100) | {BROKEN: b"banana\n"}, (), "CPU", ["KFD node 1: "]),
        ({"/dev/kfd": b""}, (), "CPU", ["AMD KFD: ", "amdgpu kernel module is not loaded"]),
        (pci("0000:03:00.0", "1002:744c"), (), "CPU", ["/dev/kfd does not exist"]),
        (pci("0000:03:00.0", "10de:2330", "0x030200"), (), "CPU", ["/dev/kfd does not exist"]),
    ],
)  # fmt: skip
def test_the_best_gpu_that_its_kernel_driver_offers(
    files: Files, denied: tuple[str, ...], name: str, passed: list[str]
) -> None:
    found = default(files, denied)
    check(found.name == name, str(found))
    for part in passed:
        check(part in found.reasons, f"{part!r} is not in {found.reasons!r}")
    check(bool(found.passed) == bool(passed), str(found.passed))
    check(all(one.advice or "hidden" in one.reason for one in found.passed), str(found.passed))


def test_the_environment_wins_and_nothing_is_read() -> None:
    for environ, name in (
        ({"CPU": "1"}, "CPU"), ({"AMD": "1"}, "AMD"), ({"DEV": "amd:2"}, "AMD:2"),
        ({"LLVM": "1"}, "CPU"), ({"AMD_IFACE": "PCI"}, "AMD"), ({"NV": "1"}, "NV"),
    ):  # fmt: skip
        world = Counting({**X86, **machine(GFX1100)})
        found = explain(world, environ)
        check((found.name, found.passed, world.asked) == (name, (), 0), f"{environ}: {found}")
    check(default(machine(GFX1100), AMD="0", CPU_THREADS="1", AMD_HIP="1").name == "AMD")
    with pytest.raises(BadChoice, match="different devices"):
        default({}, AMD="1", CPU="1")


@pytest.mark.parametrize(
    ("files", "most"), [({}, FEW), (machine(GFX1100), SOME)], ids=["no GPU", "one GPU"]
)
def test_choosing_is_a_few_small_reads(files: Files, most: int) -> None:
    world = Counting({**X86, **files})
    settle(world)
    check(0 < world.asked <= most, f"{world.asked} file operations")


def test_a_gpu_that_cannot_be_opened_is_passed_over_with_one_line() -> None:
    tried: list[str] = []

    def opens(name: str) -> None:
        tried.append(name)
        if name == "AMD":
            raise Busy("all queues are taken", hint="wait")

    world = FakeMachine({**X86, **machine(GFX1100, second(GFX1100))})
    found = settle(world, opens)
    check((tried, found.name) == (["AMD", "AMD:1"], "AMD:1"), str(found))
    with pytest.warns(RuntimeWarning) as caught:
        found.warn()
    (text,) = [str(one.message) for one in caught]
    for part in ("AMD: cannot be opened: all queues are taken; AMD:1 is used", "DEV=AMD ",
                 "DEV=AMD:1 avoids this line"):  # fmt: skip
        check(part in text and "\n" not in text, text)


def test_what_is_no_failure_of_the_gpu_is_not_hidden() -> None:
    world = FakeMachine({**X86, **machine(GFX1100)})
    for error in (BadChoice("AMD_AQL=2"), KeyError("a mistake"), KeyboardInterrupt()):

        def opens(name: str, error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            settle(world, opens)


def test_inspection_alone_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        default(machine(GFX1100), ("/dev/kfd",)).warn()


def test_the_probe_says_which_and_why_and_how_to_choose_another() -> None:
    world = FakeMachine({**X86, **machine(GFX1036, GFX1100)})
    shown = " ".join(probe([], world, {}).split())
    check(shown.startswith("default AMD gfx1100 Radeon RX 7900 (Navi 31), 96 compute"), shown)
    check("CPU=1, AMD=1 or DEV=AMD:1 chooses another not the AMD GPU at 0000:11:00.0" in shown)
    check("AMD KFD usable AMD: gfx1100" in shown, shown)
    found = json.loads(probe(["--json"], world, {}))["default"]
    check((found["name"], len(found["passed"])) == ("AMD", 1), str(found))
    denied = FakeMachine({**X86, **machine(GFX1100)}, (RENDER,))
    shown = " ".join(probe([], denied, {}).split())
    check("default CPU the processor" in shown and f"{CARD}: {RENDER} may not" in shown, shown)
    check(f"AMD KFD - not usable; {CARD}: {RENDER} may not" in shown, shown)
    check("its group is 992 (render), and the user is in it" in shown, "the advice of the row")
    check("default - " in probe([], world, {"AMD": "1", "CPU": "1"}).replace("  ", ""))
    check("default AMD:3 the environment" in " ".join(probe([], world, {"DEV": "AMD:3"}).split()))


def test_the_doctor_says_it_too() -> None:
    world = FakeMachine({**X86, **machine(GFX1100, second(GFX1100))}, (RENDER,))
    text = next(
        line.text for line in doctor(DOCTOR_CHECKS, world, {"HOME": "/etc"})
        if line.topic == "settings" and line.text.startswith("device: ")
    )  # fmt: skip
    for part in ("device: AMD, gfx1100", "chooses another", f"not {CARD}: {RENDER} may not"):
        check(part in text, text)


def test_many_reasons_are_shortened() -> None:
    cards = [second(GFX1036, number) for number in range(1, 8)]
    found = default(machine(*cards))
    check(len(found.passed) == 7 and found.reasons.endswith("; and 3 more"), found.reasons)


def test_the_bench_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context()
    why = Default("CPU", "the processor", default({}).passed)
    monkeypatch.setattr(Context, "default", why)
    first, second_line, third = heading(context)
    check("1 thread(s) on both sides" in first or "beside the whole GPU" in first, first)
    check(second_line == "the default device: the processor; --device NAME measures another")
    check(third == "not AMD KFD: /dev/kfd does not exist", third)
    check(len(heading(Context("CPU"))) == 1, "a device that was asked for needs no reason")


def test_mutated_machines_still_have_a_default() -> None:
    files, rng = {**X86, **machine(GFX1100, second(GFX1102))}, random.Random(9)
    names = sorted(name for name in files if name.startswith(ROOT))
    found = []
    for _ in range(MUTATIONS):
        mutated = dict(files)
        for name in rng.sample(names, 2):
            data = bytes(mutated[name])
            at = rng.randint(0, len(data))
            mutated[name] = data[:at] + rng.randbytes(rng.randrange(9)) + data[at + 3 :]
        chosen = default(mutated)
        check(chosen.reasons.isprintable() and len(chosen.reasons) < 4000, ascii(chosen.reasons))
        found.append(chosen.name)
    check({"AMD", "CPU"} == set(found), str(set(found)))


def test_an_error_while_looking_is_a_reason() -> None:
    class Broken(FakeMachine):
        def exists(self, path: str) -> bool:
            raise DeviceError("the disk is gone", hint="reboot")

    found = settle(Broken(X86))
    check((found.name, found.reasons) == ("CPU", "AMD KFD: the disk is gone"), str(found))
