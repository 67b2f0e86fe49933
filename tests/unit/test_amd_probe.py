"""`python -m drivers.amd.probe` on made-up machines and on this one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivers.amd.kfd.iface import chosen
from drivers.amd.probe import main
from drivers.base.errors import Denied, NotFound
from drivers.kinds import BY_NAME
from drivers.machine.access import denied
from tests.amd_trees import (
    GFX942,
    GFX1030,
    GFX1036,
    GFX1100,
    GFX1201,
    ROOT,
    machine,
    second,
    text,
)
from tests.fake_machine import X86, FakeMachine, pci
from tests.support import check, run_limited

REPOSITORY = Path(__file__).resolve().parents[2]
Files = Mapping[str, bytes | str]


def report(files: Files, denied: tuple[str, ...] = ()) -> dict[str, Any]:
    world = FakeMachine({**X86, **files}, denied)
    found = json.loads(main(["--json"], world))
    check(not world.touched, "it only looks")
    return dict(found)


def table(files: Files, denied: tuple[str, ...] = ()) -> str:
    lines = main([], FakeMachine({**X86, **files}, denied))
    check(max(map(len, lines.splitlines())) <= 100, lines)
    return " ".join(lines.split())


def test_a_gfx1100_in_json() -> None:
    found = report(machine(GFX1100))
    (gpu,) = found["gpus"]
    check((gpu["name"], gpu["chip"], gpu["family"]) == ("AMD:0", "gfx1100", "RDNA3"))
    check(gpu["pci"] == {"address": "0000:03:00.0", "vendor": "1002", "device": "744c"})
    check((gpu["compute_units"], gpu["xccs"], gpu["vram_bytes"]) == (96, 1, 24 << 30))
    check(gpu["queues"] == {
        "compute": 8, "sdma_engines": 2, "sdma_xgmi_engines": 0, "per_sdma_engine": 6
    })  # fmt: skip
    check(gpu["save_area"] == {
        "ctl_stack_bytes": 0xA000, "context_bytes": 0x2BEA000, "debug_bytes": 0x18000,
        "total_bytes": 0x2C02000,
    })  # fmt: skip
    check(gpu["firmware"] == {"mec": "0x85c", "sdma": "0x14", "rlc": "0x74"})
    check(gpu["ip"] == {"GC": "11.0.0", "OSSSYS": "6.0.0", "SDMA0": "6.0.0", "NBIF": "4.3.0"})
    check(gpu["machine_ready"] and gpu["problems"] == [])
    check(found["kfd"]["ok"] and gpu["render_node"]["ok"] and found["problem"] is None)


def test_what_it_calls_usable_has_a_driver() -> None:
    check(BY_NAME["AMD"].opens and "KFD" in BY_NAME["AMD"].written)
    check(report(machine(GFX1100))["gpus"][0]["state"] == "usable")


def test_a_gfx1100_as_a_table() -> None:
    shown = table(machine(GFX1100))
    for part in (
        "/dev/kfd can be opened",
        "AMD:0 gfx1100 Radeon RX 7900 (Navi 31) at 0000:03:00.0, KFD node 1",
        "96 compute units at 2482 MHz, 24.0 GiB VRAM, all of it host-visible",
        "queues: 8 compute, 2 SDMA engines with 6 queues each",
        "saves its waves in 44.0 MiB",
        "blocks: GC 11.0.0",
        "mec 0x85c",
        "/dev/dri/renderD128 can be opened",
    ):
        check(part in shown, f"{part!r} is not in {shown}")


def test_an_instinct() -> None:
    shown = table(machine(GFX942, vram_bytes=192 << 30))
    for part in (
        "304 compute units in 8 XCCs",
        "192.0 GiB",
        "24 compute, 16 SDMA engines with 8 queues each",
    ):
        check(part in shown, f"{part!r} is not in {shown}")


def test_numbers_are_given_to_supported_gpus() -> None:
    card = second(GFX1100)
    found = report(machine(GFX1036, GFX1201, card, vram_bytes=8 << 30))
    check([gpu["name"] for gpu in found["gpus"]] == ["-", "AMD:0", "AMD:1"])
    small = found["gpus"][0]
    check((small["state"], small["chip"]) == ("not supported", None))
    (problem,) = small["problems"]
    check("gfx1036" in problem["reason"] and "gfx1032, gfx1100" in problem["advice"])


@pytest.mark.parametrize("how", ["denied", "missing"])
def test_a_gpu_whose_render_node_cannot_be_opened_has_no_number(how: str) -> None:
    """As in a container that was given one of two GPUs: sysfs shows both."""
    files, first = machine(GFX1100, second(GFX1100)), "/dev/dri/renderD128"
    if how == "missing":
        del files[first]
    world = FakeMachine({**X86, **files}, (first,) if how == "denied" else ())
    found = json.loads(main(["--json"], world))["gpus"]
    shown = [(gpu["name"], gpu["state"]) for gpu in found]
    check(shown == [("-", "not usable"), ("AMD:0", "usable")], str(shown))
    check(chosen(world, 0).node.render_path == "/dev/dri/renderD136")
    kind, words = {
        "denied": (Denied, "may not be opened"),
        "missing": (NotFound, "does not exist"),
    }[how]
    with pytest.raises(kind, match=f"0000:03:00.0: {first} {words}") as caught:
        chosen(world, 1)
    check(bool(caught.value.hint), "what to do")


@pytest.mark.parametrize(("what", "kept"), [("fw_version", "ip"), ("ip_discovery", "firmware")])
def test_a_file_that_only_informs_is_a_note(what: str, kept: str) -> None:
    """Containers, snaps and virtual functions may hide it; KFD works without."""
    files = machine(GFX1100)
    hidden = tuple(path for path in files if what in path)
    (gpu,) = report(files, hidden)["gpus"]
    check((gpu["name"], gpu["state"], gpu["problems"]) == ("AMD:0", "usable", []), str(gpu))
    check(len(gpu["notes"]) == 1 and what in gpu["notes"][0]["reason"], str(gpu["notes"]))
    check(bool(gpu[kept]), "the other file is read all the same")
    check("note: " in table(files, hidden))


def test_an_older_kernel() -> None:
    (gpu,) = report(machine(GFX1030))["gpus"]
    check(gpu["save_area"]["ctl_stack_bytes"] == 0x7000 and gpu["machine_ready"])


@pytest.mark.parametrize("path", ["/dev/kfd", "/dev/dri/renderD128"])
def test_a_node_that_may_not_be_opened(path: str) -> None:
    found = report(machine(GFX1100), (path,))
    seen = found["kfd"] if path == "/dev/kfd" else found["gpus"][0]["render_node"]
    check(not seen["ok"] and not found["gpus"][0]["machine_ready"])
    check(seen["reason"] == f"{path} may not be opened by this user")
    # the user of X86 is in video (44) and render (992)
    check("its group is 992 (render), and the user is in it" in seen["advice"], seen["advice"])


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (993, "its group is 993 (render), and the user is not in it: `usermod -aG render USER`"),
        (44, "its group is 44 (video), and the user is in it: see the node's mode"),
        (105, "its group is 105, which has no name here: in a container, `--group-add 105`"),
        (0, "its group is 0 (root): in a container, `--group-add 0`"),
    ],
)
def test_the_group_of_a_denied_node_is_told(group: int, says: str) -> None:
    files = {**X86, **machine(GFX1100)}
    files["/etc/group"] = b"root:x:0:\nvideo:x:44:\nrender:x:993:\n"
    for path in ("/dev/kfd", "/dev/dri/renderD128"):
        world = FakeMachine(files, (path,))
        world.groups[path] = group
        reason, advice = denied(world, path)
        check(reason == f"{path} may not be opened by this user" and says in advice, advice)


def test_a_container_without_the_nodes() -> None:
    files = {k: v for k, v in machine(GFX1100).items() if not k.startswith("/dev/")}
    found = report(files)
    check("--device=/dev/kfd" in found["kfd"]["advice"])
    check(found["gpus"][0]["render_node"]["reason"] == "/dev/dri/renderD128 does not exist")


def test_a_machine_without_amdgpu() -> None:
    found = report({})
    check(found["gpus"] == [] and found["problem"]["kind"] == "NotFound")
    check("modprobe amdgpu" in table({}))


def test_a_machine_with_processors_only() -> None:
    check("KFD manages no GPU that this process may see" in table(machine()))


def test_a_hidden_gpu() -> None:
    denied = (f"{ROOT}/nodes/1/gpu_id",)
    check(report(machine(GFX1100), denied)["hidden_nodes"] == [1])
    check("KFD node 1: hidden from this process" in table(machine(GFX1100), denied))


def test_a_table_that_names_another_chip() -> None:
    files = machine(GFX1100)
    device = "/sys/class/drm/renderD128/device/ip_discovery/die/0/11/0"
    (gpu,) = report({**files, f"{device}/revision": b"3\n"})["gpus"]
    check((gpu["state"], gpu["name"]) == ("not usable", "-"))
    check("IP discovery shows 11.0.3" in gpu["problems"][0]["reason"])


@pytest.mark.parametrize(
    ("driver", "advice"),
    [("", "modprobe amdgpu"), ("vfio-pci", "when vfio-pci no longer"), ("amdgpu", "PCIe atomics")],
)
def test_a_gpu_that_kfd_does_not_manage(driver: str, advice: str) -> None:
    files = {**machine(GFX1100), **pci("0000:0a:00.0", "1002:73bf", driver=driver)}
    (other,) = report(files)["unmanaged"]
    check((other["address"], advice in other["advice"]) == ("0000:0a:00.0", True), str(other))
    check("1002:73bf at 0000:0a:00.0" in table(files))
    check(len(report(pci("0000:0a:00.0", "1002:73bf", driver=driver))["unmanaged"]) == 1)


def test_a_managed_gpu_and_others_vendors_are_not_unmanaged() -> None:
    card = pci("0000:03:00.0", "1002:744c", driver="amdgpu")
    files = {**machine(GFX1100), **card, **pci("0000:0b:00.0", "10de:2330")}
    check(report(files)["unmanaged"] == [])
    partitions = [GFX942 | {"location_id": 0x300 | n} for n in (1, 2)]
    check(report({**machine(*partitions), **card})["unmanaged"] == [])


def test_what_the_cgroup_hides_is_not_called_unmanaged() -> None:
    card = pci("0000:03:00.0", "1002:744c", driver="amdgpu")
    found = report({**machine(GFX1100), **card}, (f"{ROOT}/nodes/1/gpu_id",))
    check((found["hidden_nodes"], found["unmanaged"]) == ([1], []))


def test_a_broken_pci_bus_is_a_reason() -> None:
    files = {**machine(GFX1100), "/sys/bus/pci/devices/0000:00:02.0/class": b"banana"}
    check("no 24-bit hex number" in report(files)["unmanaged"][0]["reason"])


def test_a_broken_topology_is_a_reason() -> None:
    files = {**machine(GFX1100), f"{ROOT}/nodes/1/properties": text({"simd_count": 1})}
    found = report(files)
    (broken,) = found["broken_nodes"]
    check((broken["kfd_node"], broken["kind"], found["gpus"]) == (1, "MalformedInput", []))
    check(broken["advice"] and "is missing" in table(files))


def test_the_command_exits_with_0_here() -> None:
    for arguments in ([], ["--json"]):
        done = run_limited(
            [sys.executable, "-m", "drivers.amd.probe", *arguments],
            cwd=REPOSITORY,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            cpu_s=60,
        )
        check(done.returncode == 0 and "/dev/kfd" in done.stdout, done.stderr)
