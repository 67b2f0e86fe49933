"""Faults made on purpose in what the driver writes: the board notices each one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards.qcom.chips import CHIPS
from boards.qcom.cp.static import of_chip
from drivers.base.errors import DeviceError
from queues.qcom import pm4, words
from queues.qcom.pm4 import Op
from tests.qcom_devices import QcomMachine, opened
from tests.reliability.qcom_scene import work
from tests.support import check

Values = tuple[int, ...]


def _left_out(*values: int) -> Values:
    return ()


def _put(*values: int) -> Callable[..., Values]:
    return lambda *before: values


def _other_half(first: int, *rest: int) -> Values:
    return (first | 40 << 1, *rest)


BREAKAGES: dict[str, tuple[str, Callable[..., Values]]] = {
    "modes unset": ("SP_MODE_CONTROL", _left_out),
    "modes of OpenCL": ("SP_MODE_CONTROL", _put(2)),
    "floats unset": ("SP_FLOAT_CNTL", _left_out),
    "floats": ("SP_FLOAT_CNTL", _put(0xFF)),
    "counters unset": ("SP_PERFCTR_ENABLE", _left_out),
    "textures unset": ("SP_TP_MODE_CNTL", _left_out),
    "textures of OpenCL": ("SP_TP_MODE_CNTL", _put(0x9)),
    "state never invalidated": ("HLSQ_INVALIDATE_CMD", _left_out),
    "chicken bits unset": ("SP_CHICKEN_BITS", _left_out),
    "chicken bits": ("SP_CHICKEN_BITS", _put(0)),
    "texture processor's bits": ("TPL1_DBG_ECO_CNTL", _put(0)),
    "page faults of UCHE": ("UCHE_CLIENT_PF", _put(0)),
    "half registers of a merged file": ("SP_CS_CTRL_REG0", _other_half),
    "wave's width": ("SP_CS_CTRL_REG0", lambda first, *rest: (first ^ 1 << 20, *rest)),
    "a register less": ("SP_CS_CTRL_REG0", lambda first, *rest: (first - (1 << 7), *rest)),
    "constants": ("HLSQ_CS_CNTL", lambda first, *rest: (first - 1, *rest)),
    "units of code": ("SP_CS_CONFIG", lambda first, units: (first, units + 4000)),
    "first instruction": ("SP_CS_OBJ_FIRST_EXEC_OFFSET", lambda first, *rest: (128, *rest)),
}
"""The register that a fault is in, and what is written instead."""
OLD = {"shared constants": ("HLSQ_SHARED_CONSTS", _put(1))}
NEW = {"last group's size": ("HLSQ_CS_LAST_LOCAL_SIZE", _left_out)}


def _found(patch: pytest.MonkeyPatch, chip: str, name: str, made: Callable[..., Values]) -> str:
    before: Any = words.write

    def write(chip: Any, register: str, *values: int) -> list[int]:
        if register != name:
            return list(before(chip, register, *values))
        changed = made(*values)
        return list(before(chip, register, *changed)) if changed else []

    patch.setattr(words, "write", write)
    return _of_work(chip)


def _of_work(chip: str) -> str:
    """What a board says of a life's work, and the driver, too."""
    machine, said = QcomMachine(chip), ""
    try:
        with opened(machine) as device:
            work(device)
    except (AssertionError, DeviceError) as error:
        said = str(error)
    return " ".join([*machine.found(), said])


@pytest.mark.parametrize("chip", ["a630", "a740"])
def test_each_wrong_register_is_noticed(monkeypatch: pytest.MonkeyPatch, chip: str) -> None:
    every = {**BREAKAGES, **(OLD if chip == "a630" else NEW)}
    missed = []
    for fault, (name, made) in every.items():
        with monkeypatch.context() as patch:
            if not _found(patch, chip, name, made):
                missed.append(fault)
    check(not missed, str(missed))
    check(not (said := _of_work(chip)), said)


@pytest.mark.parametrize(
    ("chip", "left_out"),
    [
        ("a740", Op.THREAD_CONTROL),
        ("a630", Op.SET_MARKER),
        ("a740", Op.SET_MARKER),
        ("a630", Op.LOAD_STATE6_FRAG),
    ],
)
def test_each_packet_left_out_is_noticed(
    monkeypatch: pytest.MonkeyPatch, chip: str, left_out: Op
) -> None:
    before = pm4.pkt7

    def packet(op: Any, values: Any = ()) -> list[int]:
        return [] if op == left_out else before(op, values)

    monkeypatch.setattr(pm4, "pkt7", packet)
    check(bool(_of_work(chip)))


@pytest.mark.parametrize("chip", ["a630", "a740"])
def test_caches_never_invalidated(monkeypatch: pytest.MonkeyPatch, chip: str) -> None:
    monkeypatch.setattr(words, "invalidate", lambda chip: pm4.wait_for_idle())
    check(bool(_of_work(chip)))


@pytest.mark.parametrize("chip", sorted(CHIPS))
def test_each_chip_has_values_of_its_own(chip: str) -> None:
    check(len(of_chip(chip)) > len(of_chip(chip).keys() & {0xAE04, 0xAE0F}))
