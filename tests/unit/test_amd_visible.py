"""ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES on made-up machines.

What a list stands for is that of ROCR's BuildUsrDeviceList() and of clr's Device::init().
"""

from __future__ import annotations

import json

import pytest

from drivers.amd.kfd.visible import select
from drivers.amd.probe import probe as amd_probe
from drivers.choice import choose, visible_lists
from drivers.default import explain, settle
from drivers.doctor import run as doctor
from drivers.doctor.checks import CHECKS
from drivers.probe.__main__ import main as probe
from tests.amd_trees import GFX942, GFX1036, GFX1100, GFX1201, machine, second
from tests.fake_machine import X86, FakeMachine
from tests.support import check

IDS = (0xA200_0000_0000_0001, 0xA2FF_0000_0000_0002, 0, 0x0BCD_0000_0000_0003)
ROCR, HIP = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"


def left(**environ: str) -> list[int]:
    shown, hidden = select(IDS, visible_lists(environ, "AMD"))
    check(sorted([*shown, *hidden]) == list(range(len(IDS))), f"{shown} {hidden}")
    return shown


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        ("0", [0]), ("3,1", [3, 1]), (" 2 , 0 ", [2, 0]), ("0x1,02,+3", [1, 2, 3]),
        ("", []), ("  ", []), ("-1", []), ("4", []), ("none", []), ("G", []),
        ("0,4,1", [0]), ("0,,1", [0]), ("1,x,0", [1]), ("1 2", []), ("08", []), ("0,", [0]),
        ("GPU-a200000000000001", [0]), ("gpu-A2FF", [1]), ("GPU-0bcd,0", [3, 0]),
        ("GPU-A2", []), ("GPU-", []), ("GPU-0000000000000000", []), ("Invalid-UUID", []),
        ("GPU-A2000000000000011", []), ("9" * 5000, []), ("0," * 5000, [0]),
    ],
)  # fmt: skip
def test_what_a_list_stands_for(listed: str, wanted: list[int]) -> None:
    check(left(**{ROCR: listed}) == wanted, f"{listed[:40]!r}: {left(**{ROCR: listed})}")
    check(left(**{HIP: listed}) == wanted, f"{listed[:40]!r}: {left(**{HIP: listed})}")


def test_a_list_that_is_not_set_hides_nothing() -> None:
    check(choose({}).visible == () and left() == [0, 1, 2, 3])


def test_hips_numbers_count_what_rocrs_list_leaves() -> None:
    check(left(**{ROCR: "3,1,0", HIP: "2,0"}) == [0, 3])
    check(left(**{ROCR: "3,1", HIP: "2,0"}) == [], "there is no third")
    check(left(**{ROCR: "3,1", HIP: "GPU-A2FF"}) == [1])
    check(left(**{ROCR: "3", HIP: "GPU-A2FF"}) == [], "the other list hides it")
    check(left(**{ROCR: "", HIP: "0"}) == [])


def test_a_repeated_entry_ends_rocrs_list_and_is_nothing_in_hips() -> None:
    check(left(**{ROCR: "1,0,GPU-A2FF,3"}) == [1, 0])
    check(left(**{HIP: "1,0,GPU-A2FF,3"}) == [1, 0, 3])


def test_the_default_is_the_best_of_what_is_left() -> None:
    world = FakeMachine({**X86, **machine(GFX942, second(GFX1100), second(GFX1201, 2))})
    for listed, name, title in (
        ("0,1,2", "AMD", "gfx942"), ("1,2", "AMD", "gfx1100"), ("2,1", "AMD:1", "gfx1100"),
        ("2", "AMD", "gfx1201"), ("2,0", "AMD:1", "gfx942"), ("", "CPU", ""),
    ):  # fmt: skip
        found = explain(world, {ROCR: listed})
        check((found.name, title in found.why) == (name, True), f"{listed}: {found}")
        check(settle(world, None, {ROCR: listed}) == found)
    check("hidden from this process: ROCR_VISIBLE_DEVICES is empty" in found.reasons, str(found))


def test_numbers_count_gpus_without_a_driver_too() -> None:
    world = FakeMachine({**X86, **machine(GFX1036, GFX1100)})
    check(explain(world, {HIP: "0"}).name == "CPU", "the processor's GPU alone is left")
    found = explain(world, {HIP: "1"})
    check((found.name, len(found.passed)) == ("AMD", 1), str(found))
    check("does not list it" in found.reasons and "gfx1036 (" not in found.reasons, found.reasons)


def test_the_amd_probe_shows_what_is_hidden_and_why() -> None:
    world = FakeMachine({**X86, **machine(GFX1100, second(GFX1201), second(GFX942, 2))})
    environ = {ROCR: "1,x,0", HIP: "0"}
    gpus = json.loads(amd_probe(["--json"], world, environ)[0])["gpus"]
    check([(gpu["name"], gpu["state"]) for gpu in gpus]
          == [("AMD:0", "usable"), ("-", "hidden"), ("-", "hidden")], str(gpus))  # fmt: skip
    check([gpu["chip"] for gpu in gpus] == ["gfx1201", "gfx1100", "gfx942"])
    lines = amd_probe([], world, environ)[0]
    check(max(map(len, lines.splitlines())) <= 100, lines)
    shown = " ".join(lines.split())
    for part in ("gfx1100 Radeon RX 7900 (Navi 31) at 0000:03:00.0, KFD node 1: hidden",
                 f"{ROCR} ends in front of its entry 'X' -> list it there"):  # fmt: skip
        check(part in shown, shown)


def test_the_probe_and_the_doctor_say_it_too() -> None:
    world = FakeMachine({**X86, **machine(GFX1100, second(GFX1201))})
    environ = {HIP: "1", "HOME": "/etc"}
    reason = "the AMD GPU at 0000:03:00.0: hidden from this process: HIP_VISIBLE_DEVICES does not"
    shown = " ".join(probe([], world, environ).split())
    check("default AMD gfx1201" in shown and shown.count(reason) == 2, shown)
    texts = [line.text for line in doctor(CHECKS, world, environ) if line.topic == "settings"]
    check(any("device: AMD, gfx1201" in text and reason in text for text in texts), str(texts))
    for chosen in ({}, {"DEV": "AMD"}, {"CPU": "1"}):
        lines = [line for line in doctor(CHECKS, world, environ | chosen) if line.topic == "gpus"]
        check([reason in line.text for line in lines].count(True) == 1, str(lines))
    shown = [line.text for line in doctor(CHECKS, world, {}) if "hidden" in line.text]
    check(not shown, str(shown))
