"""Buffers of an Adreno in the host's caches: with a coherent SMMU, and with syncs without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import World
from drivers.base.errors import Unsupported
from drivers.qcom.device import QcomDevice
from drivers.qcom.kgsl import iface as kgsl_iface
from drivers.qcom.kgsl.abi import (
    OBJECT_INFO,
    OBJECT_SYNC,
    CacheOp,
    ObjectInfo,
    ObjectSync,
    SyncObject,
)
from drivers.qcom.kgsl.iface import KgslIface
from drivers.qcom.kgsl.memory import CachedMemory
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
        if one & ~op:
            plain(self, number, off, nbytes, CacheOp(one & ~op))

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


PAGE = 4096
SPANS = list[tuple[int, int]]


def spans(device: QcomDevice, monkeypatch: pytest.MonkeyPatch) -> SPANS:
    """(first, end) of what KGSL does in each sync from now on.

    # src: msm-4.9 to 6.x, kgsl.c kgsl_ioctl_gpuobj_sync(), _kgsl_gpumem_sync_cache(): all of the
    # object without KGSL_GPUMEM_CACHE_RANGE, which is 1 << 31
    """
    found: SPANS = []
    iface: Any = device.iface

    def spied(world: World, fd: int, call: ObjectSync) -> ObjectSync:
        memory = iface._arena._region
        one = SyncObject.of(memory.read(call.objs - memory.cpu_va, SyncObject.SIZE))
        ranged = bool(one.op & 1 << 31)
        made = OBJECT_INFO(world, fd, ObjectInfo(id=one.id))
        found.append((one.offset, one.offset + one.length) if ranged else (0, made.nbytes))
        return OBJECT_SYNC(world, fd, call)

    monkeypatch.setattr(kgsl_iface, "OBJECT_SYNC", spied)
    return found


def test_a_copy_syncs_what_it_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bytes of a buffer in a block of 2 MiB: not the buffer, and not the block."""
    with opened(QcomMachine("a630", coherent=False)) as device:
        small, large = device.alloc(4096), device.alloc(LARGE)
        for one in (small, large):
            device.copy_in(one, memoryview(bytes(4096)))
        found, out = spans(device, monkeypatch), bytearray(4)
        for one in (small, large):
            device.copy_in(one, memoryview(b"1234"))
            device.copy_out(memoryview(out), one)
            check(bytes(out) == b"1234")
        check(len(found) == 6 and all(0 < end - first <= 64 for first, end in found), str(found))


def test_a_neighbours_stores_survive_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read between the stores of another copy and their cleaning, in the same page.

    # src: msm-5.4 to 6.x, kgsl_sharedmem.c kgsl_cache_range_op(): whole pages
    """
    machine = QcomMachine("a630", coherent=False)
    sync, clean, reads = KgslIface.sync, CachedMemory.clean, [0]

    def pages(self: KgslIface, number: int, off: int, nbytes: int, op: CacheOp) -> None:
        first = off - off % PAGE
        sync(self, number, first, -(-(off + nbytes - first) // PAGE) * PAGE, op)

    with opened(machine) as device:
        a, b, out = device.alloc(256), device.alloc(256), bytearray(256)
        check(a.gpu_va // PAGE == b.gpu_va // PAGE, "the two are in one page")
        monkeypatch.setattr(KgslIface, "sync", pages)

        def between(self: CachedMemory, off: int, nbytes: int) -> None:
            if not reads[0]:
                reads[0] += 1
                device.copy_out(memoryview(out), b)
            clean(self, off, nbytes)

        monkeypatch.setattr(CachedMemory, "clean", between)
        device.copy_in(a, memoryview(b"AB" * 128))
        device.copy_out(memoryview(out), a)
        check(bytes(out) == b"AB" * 128 and reads == [1])
    check(not (found := machine.found()), str(found))


def test_an_empty_copy_syncs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bytes are EINVAL for kgsl_cache_range_op()."""
    with opened(QcomMachine("a630", coherent=False)) as device:
        found, one = spans(device, monkeypatch), device.alloc(64)
        device.copy_in(one, memoryview(b""))
        device.copy_out(memoryview(bytearray()), one)
        iface: Any = device.iface
        iface.sync(1, 0, 0, CacheOp.TO_GPU)
        check(not found, str(found))
