"""Memory of others on an Adreno: dma-bufs over KGSL and msm, pages of this process over KGSL."""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.qcom.files import DMA_HEAP
from drivers.base.contracts import Buffer
from drivers.base.errors import BadArgument, Unsupported
from drivers.base.order import in_order
from drivers.gpu import lent as host_lent
from drivers.qcom.device import QcomDevice
from drivers.world import native
from tensor import engine
from tests.qcom_devices import QcomMachine, opened, qcom_device
from tests.reliability.qcom_scene import N, binary, nothing_left
from tests.support import check

LARGE = 300_000
"""Bytes of memory of its own: smaller buffers are not exported."""
HEAP_ALLOC = 0xC0184800
"""DMA_HEAP_IOCTL_ALLOC. # src: include/uapi/linux/dma-heap.h"""
DATA = np.arange(N, dtype=np.int32)


def of_heap(machine: QcomMachine, nbytes: int) -> tuple[int, Any]:
    """A dma-buf of the system's heap: its descriptor, and what the host sees of it."""
    heap = machine.open(DMA_HEAP, 2)
    call = bytearray(struct.pack("<QIIQ", nbytes, 0, 0o2000002, 0))
    machine.ioctl(heap, HEAP_ALLOC, call)
    machine.close(heap)
    fd = struct.unpack("<QIIQ", call)[1]
    region = machine.mmap(fd, nbytes)
    return fd, region


def copied(device: QcomDevice, buffer: Buffer) -> Any:
    """What a kernel reads in a buffer: 3 a + b of it, by four."""
    c, out = device.alloc(N * 4), np.zeros(N, np.int32)
    device.launch(device.load(binary(device)), [buffer, buffer, c], 1)
    device.copy_out(memoryview(out), c)
    return out // 4


def test_a_dma_buf_of_the_heap_over_kgsl() -> None:
    machine = QcomMachine("a630")
    fd, region = of_heap(machine, 8192)
    np.frombuffer(region.view(), np.int32)[1024 : 1024 + N] = DATA
    with opened(machine) as device, engine.adopted("QCOM", device):
        lent = xp.from_blob(fd, (N,), "int32", "QCOM", kind="dmabuf", offset=1024)
        np.testing.assert_array_equal((lent + 1).numpy(), DATA + 1)
        target = device.import_dmabuf(fd, 0, N * 4, None)
        source = device.alloc(N * 4)
        device.copy_in(source, memoryview(DATA))
        device.launch(device.load(binary(device)), [source, source, target], 1)
        device.synchronize()
        np.testing.assert_array_equal(np.frombuffer(region.view(), np.int32)[:N], 4 * DATA)
        for wrong in (lambda: device.import_dmabuf(fd, 8000, 400, None),
                      lambda: device.import_dmabuf(999, 0, 4, None),
                      lambda: device.import_dmabuf(device.iface.fd, 0, 4, None)):  # fmt: skip
            with pytest.raises(BadArgument):
                wrong()
        with pytest.raises(Unsupported, match="dma_heap"):
            host_lent.export(device.alloc(LARGE))
        del lent, target
    region.close()
    machine.close(fd)
    check(not (found := machine.found()), str(found))
    nothing_left(machine.board, "a dma-buf")


def test_two_opens_share_a_buffer_over_msm() -> None:
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "MSM") as one, opened(machine, "MSM") as two:
        mine = one.alloc(LARGE)
        out = host_lent.export(mine)
        theirs = two.import_dmabuf(out.fd, out.offset, out.nbytes, None)
        for data in (DATA, DATA[::-1].copy()):
            one.copy_in(mine, memoryview(data))
            np.testing.assert_array_equal(copied(two, theirs), data)
        source = two.alloc(N * 4)
        two.copy_in(source, memoryview(DATA))
        two.launch(two.load(binary(two)), [source, source, theirs], 1)
        two.synchronize()
        found = np.zeros(N, np.int32)
        one.copy_out(memoryview(found), mine)
        np.testing.assert_array_equal(found, 4 * DATA)
        mine.free()
        machine.close(out.fd)
        one.trim()
        np.testing.assert_array_equal(copied(two, theirs), 4 * DATA, "the import keeps it")
        with pytest.raises(Unsupported, match="shares its memory"):
            host_lent.export(one.alloc(64))
    check(not (found := machine.found()), str(found))
    nothing_left(machine.board, "a dma-buf")


@pytest.mark.parametrize("first", ["the import", "the buffer"])
def test_our_own_dma_buf_has_one_handle(first: str) -> None:
    """msm gives the same handle again: it is closed with the last of both, and listed once."""
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "MSM") as device:
        mine = device.alloc(LARGE)
        device.copy_in(mine, memoryview(DATA))
        out = host_lent.export(mine)
        again = device.import_dmabuf(out.fd, 0, N * 4, None)
        machine.close(out.fd)
        gone, kept = (again, mine) if first == "the import" else (mine, again)
        gone.free()
        device.trim()
        np.testing.assert_array_equal(copied(device, kept), DATA)
        with pytest.raises(BadArgument, match="not open"):
            device.import_dmabuf(out.fd, 0, 4, None)
        with pytest.raises(BadArgument, match="dma-buf"):
            device.import_dmabuf(device.iface.fd, 0, 4, None)
    check(not (found := machine.found()), str(found))
    nothing_left(machine.board, "a handle")


def test_pages_of_the_process_over_kgsl() -> None:
    with qcom_device("a630") as device, engine.adopted("QCOM", device):
        memory = mmap.mmap(-1, 8192)
        words = np.frombuffer(memory, np.int32)
        words[:N] = DATA
        wrapped = device.wrap(memoryview(memory))
        np.testing.assert_array_equal(copied(device, wrapped), DATA)
        device.launch(device.load(binary(device)), [wrapped, wrapped, wrapped], 1)
        device.synchronize()
        np.testing.assert_array_equal(words[:N], 4 * DATA)
        array = np.arange(5000, dtype=np.float32)[3:]
        lent = xp.from_blob(native.address_of(memoryview(array)), array.shape, "float32", "QCOM",
                            owner=array)  # fmt: skip
        np.testing.assert_array_equal((lent * 2).numpy(), 2 * array)
        with pytest.raises(BadArgument, match="no GPU address"):
            xp.from_blob(0x1000, (4,), "float32", "QCOM", owner=device)
        wrapped.free()
        del lent


def test_pages_are_refused_where_caches_or_a_recording_would_be_wrong() -> None:
    pages = memoryview(mmap.mmap(-1, 4096))
    with (
        opened(QcomMachine("a630", coherent=False)) as device,
        pytest.raises(Unsupported, match="caches"),
    ):
        device.wrap(pages)
    with (
        in_order(),
        opened(QcomMachine("a630")) as device,
        pytest.raises(Unsupported, match="recorded"),
    ):
        device.wrap(pages)
    with opened(QcomMachine("a660", "MSM"), "MSM") as device, pytest.raises(Unsupported):
        device.wrap(pages)
