"""`python -m drivers.nv.probe --smoke` and `drivers.nv.smi` on boards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from boards.front import Setup, WholeMachine, power_on
from boards.nv import gpu_sensors
from boards.nv.hardware import NvOptions
from boards.nv.machine import open_nv_board
from compilers.nv import libraries, nvrtc
from compilers.nv.smoke import firmware
from compilers.toolchains import compile_source
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, NotFound
from drivers.choice import choose
from drivers.gpu.smoke_outcome import Outcome
from drivers.nv import smi
from drivers.nv.nvk import sensors
from drivers.nv.probe import probe
from drivers.nv.tools.smoke import smoke
from drivers.world.foreign import ForeignWorld
from tests.boards.nv_harness import binary, device_on
from tests.support import check

PRODUCT = """
extern "C" __global__ void __launch_bounds__(64)
smoke_add(const unsigned *a, const unsigned *b, unsigned *c, long long n) {
  long long i = (long long)blockIdx.x * 64 + threadIdx.x;
  if (i < n) c[i] = a[i] * b[i];
}
"""


def board_of(driver: int = 580, gpus: int = 1) -> tuple[Any, WholeMachine]:
    board: Any = open_nv_board("ga102", gpus=gpus, options=NvOptions(driver=driver))
    return board, WholeMachine(board)


def need_nvrtc() -> None:
    try:
        libraries.find(nvrtc.NAMES)
    except NotFound:
        pytest.skip("no nvrtc: make nv")


def test_smoke_on_a_board() -> None:
    need_nvrtc()
    text, status = probe(["--board", "ga102", "--smoke", "--json"])
    found = json.loads(text)
    names = [one["test"] for one in found["smoke"] if one["ok"]]
    wanted = {"open", "memory", "compute channel", "kernel", "graph", "copies of 1 bytes",
              "copies of 1048589 bytes", "close"}  # fmt: skip
    check(status == 0 and wanted <= set(names) and len(names) == len(found["smoke"]), text)
    check(found["board"]["violations"] == [], text)


def test_a_wrong_kernel_fails_and_the_rest_goes_on() -> None:
    need_nvrtc()
    front = power_on(Setup("ga102"))

    def wrong(kind: str, arch: str) -> Binary:
        made = compile_source(PRODUCT, "smoke_add", "NVRTC", arch, frozenset())
        return made.in_blocks_of(64)

    found: dict[str, Outcome] = {
        one.name: one for one in smoke(front.world, choose({"DEV": "NV"}), firmware)
    }
    check(all(one.ok for one in found.values()), str(found))
    broken = {one.name: one for one in smoke(front.world, choose({"DEV": "NV"}), wrong)}
    failed = {name for name, one in broken.items() if not one.ok}
    check(failed == {"kernel", "graph"}, str(broken))
    check("Wrong: sums: byte 0 of" in broken["kernel"].detail, broken["kernel"].detail)


def test_smi_on_every_release() -> None:
    for driver in (550, 570, 580, 590, 610):
        board, world = board_of(driver, gpus=2)
        lines, problem = smi.lines_of(world)
        check(len(lines) == 2 and not problem, problem)
        for line in lines:
            known, lacks = line.status.known(), " ".join(line.status.lacks)
            check(known["memory_bytes"] == 1 << 28 and known["performance_state"] == "P2")
            hot = dict(zip(("GPU", "memory"), (41, 52), strict=True))
            check(known.get("temperatures_c") == (hot if driver >= 580 else None), str(known))
            check(("temperatures:" in lacks) == (driver < 580), lacks)
            busy = (known.get("graphics_percent"), known.get("memory_percent"))
            check(busy == (gpu_sensors.SHARES[-1] if driver >= 570 else (None, None)), str(busy))
        check(not board.violations, str(board.violations))
        left = board.baseline()
        check((left.fds, left.clients, left.objects) == (0, 0, 0), str(left))


def test_the_probe_asks_rm_what_a_gpu_is() -> None:
    """src: CUDA C++ Programming Guide, "Technical Specifications" of compute capability 9.0."""
    text, status = probe(["--board", "gh100", "--json"])
    rm = json.loads(text)["gpus"][0]["rm"]
    check(status == 0 and (rm["architecture"], rm["compute_capability"]) == ("Hopper", "9.0"), text)
    check((rm["shared_bytes"], rm["warps_per_sm"], rm["max_block"]) == (227 << 10, 64, 1024), text)
    check(rm["sms_at_most"] == 144 and rm["readings"]["performance_state"] == "P2", text)
    board, world = board_of(gpus=2)
    shown, _ = probe([], world)
    check("--ask opens it" in shown and board.baseline().clients == 0, shown)
    board.panel.fall_off_the_bus(0)
    shown, status = probe(["--ask"], world)
    check("Ampere, compute capability 8.6" in shown and "nvidia0" in shown, shown)
    left = board.baseline()
    check((left.fds, left.clients, left.objects) == (0, 0, 0), str(left))


def test_a_gpu_that_is_lost_is_reported_and_the_other_is_read() -> None:
    board, world = board_of(gpus=2)
    board.panel.fall_off_the_bus(0)
    lines, _ = smi.lines_of(world)
    check(bool(lines[0].problem) and not lines[0].status.known(), str(lines[0]))
    check(lines[1].status.known()["performance_state"] == "P2", str(lines[1]))
    shown = smi.as_text(smi.report(world))
    check("nvidia0" in shown and "P2" in shown, shown)
    check(max(map(len, shown.splitlines())) <= 100, shown)


@pytest.mark.parametrize("share", [10_001, 0xFFFF_FFFF])
def test_impossible_utilisation_is_malformed(share: int) -> None:
    raw = bytearray(sensors.UtilSamples.SIZE - 16)
    raw[0] = 1
    raw[sensors.GR_OFF : sensors.GR_OFF + 4] = share.to_bytes(4, "little")
    with pytest.raises(MalformedInput, match="utilisation"):
        sensors.newest(sensors.UtilSamples(samples=bytes(raw)))


def test_an_unusable_probe_of_a_board_without_nodes() -> None:
    board, world = board_of()
    board.denied.add("/dev/nvidia-uvm")
    text, status = probe(["--smoke"], ForeignWorld(board))
    check(status == 1 and "/dev/nvidia-uvm may not be opened" in text, text)
    _ = world


def test_a_program_of_the_driver_and_its_tools_at_once() -> None:
    with device_on() as (device, board):
        device.load(binary(device))
        lines, _ = smi.lines_of(ForeignWorld(board))
        check(lines[0].status.known()["memory_bytes"] == 1 << 28, str(lines))
