"""Buffers of an Adreno in the host's caches: with a coherent SMMU, and with syncs without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivers.base.errors import Unsupported
from drivers.qcom.device import QcomDevice
from drivers.qcom.kgsl.abi import CacheOp
from drivers.qcom.kgsl.iface import KgslIface
from tests.qcom_devices import QcomMachine, opened
from tests.reliability.qcom_scene import N, binary
from tests.support import check

WAYS = [("KGSL", True), ("KGSL", False), ("MSM", True), ("MSM", False)]
CHIPS = {"KGSL": "a630", "MSM": "a660"}
LARGE = 300_000
"""Bytes of memory of its own."""


def sums(device: QcomDevice, at: int = 0) -> Any:
    """3 a + b of 64 int32 twice in the same buffers, as the host reads it."""
    program, found = device.load(binary(device)), []
    a, c = device.alloc(N * 4), device.alloc(LARGE)
    for start in (at, at + 1000):
        data = np.arange(start, start + N, dtype=np.int32)
        device.copy_in(a, memoryview(data))
        device.launch(program, [a, a, c], 1)
        out = np.zeros(N, np.int32)
        device.copy_out(memoryview(out), c)
        found.append(out)
    return np.array(found)


EXPECTED = 4 * np.array([np.arange(N), np.arange(1000, 1000 + N)], np.int32)


@pytest.mark.parametrize(("iface", "coherent"), WAYS)
def test_copies_are_seen_by_the_other_side(iface: str, coherent: bool) -> None:
    machine = QcomMachine(CHIPS[iface], iface, coherent=coherent)
    with opened(machine, iface) as device:
        np.testing.assert_array_equal(sums(device), EXPECTED)
        buffer = device.alloc(LARGE)
        memory: Any = buffer.block
        behind = [one for one in memories(machine, iface) if one.nbytes == memory.bo.nbytes]
        synced = iface == "KGSL" and not coherent
        check(bool(behind) and all((one.cached is not None) == synced for one in behind))
        check((buffer.host is None) == synced)
        if synced:
            with pytest.raises(Unsupported, match="copy_out"):
                buffer.view()
    check(not (found := machine.found()), str(found))


def memories(machine: QcomMachine, iface: str) -> list[Any]:
    """The memory of the objects that the process has."""
    board = machine.board
    if iface == "KGSL":
        return [one.memory for one in board.kgsl.objects]
    files = [file for file in board._fds.values() if file.msm is not None]
    return [one.memory for file in files for one in file.msm.gem.by_handle.values()]


@pytest.mark.parametrize("op", CacheOp)
def test_without_a_sync_the_other_side_sees_what_was_there(
    op: CacheOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, plain = QcomMachine("a630", coherent=False), KgslIface.sync

    def forgets(self: KgslIface, number: int, off: int, nbytes: int, one: CacheOp) -> None:
        if one is not op:
            plain(self, number, off, nbytes, one)

    monkeypatch.setattr(KgslIface, "sync", forgets)
    with opened(machine) as device:
        check(not np.array_equal(sums(device, 1), EXPECTED + 4), f"{op!r} was not needed")


def test_a_part_of_a_line_keeps_the_rest() -> None:
    """A copy that ends inside of a line leaves the bytes behind it, which the GPU wrote."""
    with opened(QcomMachine("a630", coherent=False)) as device:
        program, a, c = device.load(binary(device)), device.alloc(N * 4), device.alloc(N * 4)
        device.copy_in(a, memoryview(np.arange(N, dtype=np.int32)))
        device.launch(program, [a, a, c], 1)
        device.copy_in(c, memoryview(np.full(3, 7, np.int32)))
        device.launch(program, [c, c, a], 1)
        out = np.zeros(N, np.int32)
        device.copy_out(memoryview(out), a)
        wanted = 4 * np.arange(N, dtype=np.int32)
        wanted[:3] = 7
        np.testing.assert_array_equal(out, 4 * wanted)
