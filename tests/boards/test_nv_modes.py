"""MIG, compute modes and confidential computing: refused by name, with the next step.

# src: open-gpu-kernel-modules subdevice_ctrl_gpu_kernel.c, conf_compute_api.c
"""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any
from unittest.mock import Mock

import pytest

from boards.nv.hardware import NvOptions
from boards.nv.machine import another_nv_process, open_nv_board
from drivers.base.errors import Busy, Denied, DeviceError, NotFound, Unsupported
from drivers.choice import choose
from drivers.nv import smi
from drivers.nv.device import NvDevice
from drivers.nv.nvk import iface
from drivers.nv.nvk.client import RmClient
from drivers.nv.nvk.iface import open_nvk
from drivers.nv.opening import open_nv
from drivers.nv.probe import probe
from drivers.world.foreign import ForeignWorld
from tests.support import check

EXCLUSIVE_THREAD, PROHIBITED, EXCLUSIVE_PROCESS = 1, 2, 3


def board(chip: str = "ga102", **options: Any) -> Any:
    return open_nv_board(chip, options=NvOptions(**options))


def opened(one: Any) -> NvDevice:
    return open_nv(ForeignWorld(one), choose({"DEV": "NV"}))


@pytest.mark.parametrize(
    ("chip", "options", "kind", "words"),
    [("ga102", {"mig": True}, Unsupported, ("MIG", "0000:01:00.0", "-mig 0", "CUDA=1")),
     ("ga102", {"compute_mode": PROHIBITED}, Denied, ("Prohibited", "nvidia-smi", "-c DEFAULT")),
     ("gh100", {"confidential": True}, Unsupported, ("confidential", "encrypted", "CUDA=1")),
     ("gh100", {"confidential": True, "driver": 535}, Unsupported, ("confidential",)),
     ("gb202", {"confidential": True}, Unsupported, ("confidential",))],
)  # fmt: skip
def test_a_mode_is_refused_by_name(
    chip: str, options: dict[str, Any], kind: type[DeviceError], words: tuple[str, ...]
) -> None:
    one = board(chip, **options)
    with pytest.raises(kind) as caught:
        opened(one)
    check(all(word in str(caught.value) for word in words), str(caught.value))
    check(not one.violations and sum(astuple(one.baseline())) == 0, str(one.violations))


@pytest.mark.parametrize("mode", [EXCLUSIVE_THREAD, EXCLUSIVE_PROCESS])
def test_an_exclusive_gpu_is_busy_until_its_owner_is_gone(mode: int) -> None:
    one = board(compute_mode=mode)
    other: Any = another_nv_process(one)
    with opened(one), pytest.raises(Busy, match=r"exclusive compute mode.*drivers.nv.smi"):
        opened(other)
    opened(other).close()
    held = opened(one)
    one.kill()
    opened(other).close()
    with pytest.raises(DeviceError):
        held.close()
    check(not one.violations, str(one.violations))


def test_in_the_default_mode_two_programs_compute() -> None:
    one = board()
    with opened(one), opened(another_nv_process(one)):
        pass
    check(not one.violations and sum(astuple(one.baseline())) == 0, str(one.violations))


def test_a_look_at_a_gpu_takes_nothing() -> None:
    one = board(compute_mode=EXCLUSIVE_PROCESS)
    with opened(one):
        open_nvk(ForeignWorld(another_nv_process(one)), 0, briefly=True).close()
    brief = open_nvk(ForeignWorld(one), 0, briefly=True)
    opened(another_nv_process(one)).close()
    brief.close()


def test_the_tools_name_a_divided_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """RM answers questions about the whole GPU, or refuses them: then it is said why."""
    world = ForeignWorld(board(mig=True))
    refusal = NotFound("no instance", hint="see dmesg")
    monkeypatch.setattr(iface, "read_facts", Mock(side_effect=refusal))
    text, _ = probe(["--json", "--ask"], world, {})
    (gpu,) = json.loads(text)["gpus"]
    check("MIG" in gpu["rm"]["reason"] and "-mig 0" in gpu["rm"]["advice"], str(gpu))
    (line,) = smi.report(world).lines
    check("MIG" in line.problem and "CUDA=1" in line.advice, str(line))


def test_a_kernel_driver_without_reservations_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control has no name in the headers: where it is gone, that is not taken for MIG."""
    one = board()
    monkeypatch.setattr(RmClient, "plain_control", lambda *_: 0x56)
    with opened(one) as device:
        check(device.alloc(64).nbytes == 64)


def test_gpus_before_hopper_are_not_asked_about_confidential_computing() -> None:
    """An APM mode of Ampere was never sold, and each question is a call at opening."""
    with opened(board("ga102", confidential=True)) as device:
        check(device.name == "NV:0", device.name)
