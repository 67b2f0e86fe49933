"""dma-bufs as tensors on software AMD GPUs over KFD: two processes and one memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import another_process
from boards.front import Front, Setup, front_of, power_on
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Buffer
from drivers.base.errors import BadArgument, Hang, Unsupported
from drivers.gpu.iface import Use
from tensor import engine
from tests.support import check

COUNT = 100_000
"""Floats: more than shares its memory with other buffers."""


@contextmanager
def process(front: Front) -> Iterator[BoardWorld]:
    """Inside, AMD is this process's; nothing violated the board's rules in the end."""
    board = front.board
    if not isinstance(board, BoardWorld):
        raise TypeError("a board over KFD")
    with engine.on_machine(front.world):
        yield board
        gc.collect()
    check(not board.violations, str(board.violations))


def second(front: Front, board: BoardWorld) -> Front:
    """Another process in front of the same board."""
    return front_of(another_process(board), front.environ)


def memory(x: xp.Tensor) -> Buffer:
    return engine.realized(x._node, x.device).storage.buffer


def put(buffer: Buffer, values: np.ndarray[Any, Any]) -> None:
    """Write through one side."""
    buffer.device.copy_in(buffer, memoryview(values).cast("B"))
    buffer.device.synchronize()


def got(buffer: Buffer) -> np.ndarray[Any, Any]:
    values = np.zeros(buffer.nbytes // 4, np.float32)
    buffer.device.copy_out(memoryview(values).cast("B"), buffer)
    return values


def forgotten() -> None:
    """The next allocation gives up what is not used any more."""
    gc.collect()
    xp.sum(xp.ones(3, device="AMD")).item()
    xp.ones(1, device="AMD").realize()


def dmabuf(fd: int, shape: Any, device: str = "AMD", **more: Any) -> xp.Tensor:
    return xp.from_blob(fd, shape, "float32", device, kind="dmabuf", **more)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
def test_two_processes_share_a_buffer(chip: str) -> None:
    front = power_on(Setup(chip))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD")
        out = xp.export_dmabuf(x)
        check((out.offset, out.nbytes) == (0, 4 * COUNT), f"{out}")
        mine = memory(x)
        other = second(front, one)
        with process(other) as two:
            fd = two.receive(one, out.fd)
            one.close(out.fd)
            y = dmabuf(fd, (100, 20), offset=500, strides=(40, 2))
            whole = dmabuf(fd, COUNT)
            two.close(fd)
            for _ in range(2):
                strided = values[500:4500].reshape(100, 40)[:, ::2]
                np.testing.assert_array_equal(y.numpy(), strided)
                np.testing.assert_array_equal((y.T * 2).numpy(), strided.T * 2)
                values = values[::-1].copy()
                put(mine, values)
            values = values + 7
            put(memory(whole), values)
            np.testing.assert_array_equal(got(mine), values, "written through the other side")
            np.testing.assert_array_equal((whole + 1).numpy(), values + 1)
            del y, whole
            forgotten()
            check(two.baseline().fds == 2, "KFD and its render node")
            del mine, x


def test_an_import_outlives_the_other_tensor() -> None:
    front = power_on(Setup("gfx1100"))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD")
        out, device = xp.export_dmabuf(x), engine.device("AMD")
        with process(second(front, one)) as two:
            y = dmabuf(two.receive(one, out.fd), COUNT)
            held = one.gpus[0].memory.used_bytes
            del x
            gc.collect()
            device.trim()
            one.close(out.fd)
            check(one.gpus[0].memory.used_bytes == held, "an import keeps it")
            np.testing.assert_array_equal((y + 1).numpy(), values + 1)
            del y


def test_our_own_export_is_imported_and_given_back() -> None:
    """Nothing is left of a hundred imports, nor of work that still uses one that is dropped."""
    front = power_on(Setup("gfx1100", late=True))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD")
        out = xp.export_dmabuf(x)
        (x + 3).realize()
        forgotten()
        start = one.baseline()
        for number in range(100):
            y = dmabuf(out.fd, COUNT - 1, offset=1)
            z = (y + 3).realize()
            del y
            if number % 20 == 0:
                np.testing.assert_array_equal(z.numpy(), values[1:] + 3)
            del z
        forgotten()
        now = one.baseline()
        check(now.fds == start.fds, f"{now.fds} descriptors, not {start.fds}")
        check(now.buffers <= start.buffers + 2, f"{now.buffers} buffers, {start.buffers} before")
        check(now.mapped_to_gpus <= start.mapped_to_gpus + 2)
        one.close(out.fd)
        check(one.baseline().fds == start.fds - 1)


def test_two_gpus_of_one_process() -> None:
    front = power_on(Setup("gfx1100", gpus=2))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD:1")
        out = xp.export_dmabuf(x)
        with pytest.raises(Unsupported, match=r"is memory of GPU 0x.*import it with that GPU"):
            dmabuf(out.fd, COUNT)
        y = dmabuf(out.fd, COUNT, "AMD:1")
        np.testing.assert_array_equal((y * 2).numpy(), values * 2)
        np.testing.assert_array_equal(y.to("AMD").numpy(), values)
        check(one.baseline().fds == 4, "KFD, two render nodes, the export")
        one.close(out.fd)
        del x, y


def test_system_memory_of_another_gpu() -> None:
    """Every GPU reaches it, and Linux says GPU 0 whose it is."""
    front = power_on(Setup("gfx1100", gpus=2))
    with process(front) as one:
        here, there = (engine.device(name) for name in ("AMD", "AMD:1"))
        if not isinstance(here, AmdDevice) or not isinstance(there, AmdDevice):
            raise TypeError("devices over KFD")
        for device, other in ((here, there), (there, here)):
            source = device.iface.allocate(8192, Use.SHARED, "test", host=True)
            fd = device.iface.export_dmabuf(source)
            taken = other.import_dmabuf(fd, 4096, 4096, None)
            one.close(fd)
            values = np.arange(1024, dtype=np.float32)
            source.view()[4096:] = values.tobytes()
            np.testing.assert_array_equal(got(taken), values)
            put(taken, values + 1)
            check(bytes(source.view()[4096:]) == (values + 1).tobytes())
            with pytest.raises(Unsupported, match="not visible to the host"):
                taken.view()
            taken.free()
            source.free()


@pytest.mark.parametrize("aql", [False, True])
def test_a_queue_after_a_hang_acquires_too(aql: bool) -> None:
    front = power_on(Setup("gfx1100", aql=aql))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD")
        out, mine = xp.export_dmabuf(x), memory(x)
        with process(second(front, one)) as two:
            y = dmabuf(two.receive(one, out.fd), COUNT)
            device = engine.device("AMD")
            if not isinstance(device, AmdDevice):
                raise TypeError("a device over KFD")
            np.testing.assert_array_equal((y + 1).numpy(), values + 1)
            two.panel.hang(device.compute.hw.queue_id)
            with pytest.raises(Hang):
                (y + 1).numpy()
            for number in range(3):
                put(mine, values * number)
                np.testing.assert_array_equal((y + 1).numpy(), values * number + 1)
            del y
        one.close(out.fd)
        del x, mine


@pytest.mark.parametrize("aql", [False, True])
def test_a_replayed_graph_reads_what_was_written_since(aql: bool) -> None:
    front = power_on(Setup("gfx1100", aql=aql))
    with process(front) as one:
        values = np.arange(COUNT, dtype=np.float32)
        x = xp.asarray(values, device="AMD")
        out, mine = xp.export_dmabuf(x), memory(x)
        with process(second(front, one)) as two:
            y = dmabuf(two.receive(one, out.fd), COUNT)
            run = xp.jit(lambda y: (y + 1) * 2)
            for number in range(6):
                put(mine, values * number)
                np.testing.assert_array_equal(run(y).numpy(), (values * number + 1) * 2)
            del y, run
        one.close(out.fd)
        del x, mine


def refused(kind: type[Exception], match: str, call: Callable[..., Any], *args: Any) -> None:
    with pytest.raises(kind, match=match):
        call(*args)


def test_each_mistake_has_its_error() -> None:
    front = power_on(Setup("gfx1100"))
    with process(front) as one:
        small, x = xp.zeros(100, device="AMD").realize(), xp.zeros(COUNT, device="AMD")
        fd = xp.export_dmabuf(x).fd
        forgotten()
        room = one.baseline()
        refused(BadArgument, "descriptor 77 is not open", dmabuf, 77, 4)
        for number in (-1, 1 << 31):
            refused(BadArgument, "is not a descriptor", dmabuf, number, 4)
        refused(BadArgument, "is not a pointer", dmabuf, True, 4)
        file = one.open("/dev/kfd", 2)
        refused(BadArgument, "not a dma-buf of amdgpu", dmabuf, file, 4)
        one.close(file)
        buffers = one.process.memory.buffers if one.process else []
        [room_for] = [b.nbytes // 4 for b in buffers if b.kind == "VRAM" and b.maps]
        check(dmabuf(fd, room_for).shape == (room_for,), "all of it")
        forgotten()
        for shape, more in (
            (room_for + 1, {}), (2, {"offset": room_for - 1}), (2, {"offset": -1}),
            ((3, 2), {"strides": (-2, 1)}), (COUNT + 1, {"nbytes": 4 * COUNT}),
        ):  # fmt: skip
            with pytest.raises(BadArgument, match=r"outside of the \d+"):
                dmabuf(fd, shape, **more)
        with pytest.raises(Unsupported, match="only address and dmabuf"):
            xp.from_blob(fd, 4, "float32", "AMD", kind="cl_mem")
        with pytest.raises(Unsupported, match="shares no memory of kind 'dmabuf'"):
            dmabuf(fd, 4, "CPU")
        y = dmabuf(fd, COUNT, readonly=True)
        check((room.fds, room.buffers + 1) == (one.baseline().fds, one.baseline().buffers))
        refused(Unsupported, "memory of another library", xp.export_dmabuf, y)
        refused(Unsupported, "view of another library", xp.export_dmabuf, y[1:])
        refused(Unsupported, r"shares its memory.*262144", xp.export_dmabuf, small)
        refused(Unsupported, "CPU exports no dma-buf", xp.export_dmabuf, xp.zeros(4, device="CPU"))
        one.close(fd)
        del x, y, small


def test_over_pci_it_is_refused() -> None:
    front = power_on(Setup("gfx1100", iface="PCI"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in front.environ.items():
            patch.setenv(name, value)
        device = front.open()
        with device:
            with engine.adopted("AMD", device):
                refused(Unsupported, "no kernel driver has this GPU.*AMD_IFACE=KFD", dmabuf, 5, 4)
                x = xp.zeros(COUNT, device="AMD")
                refused(Unsupported, "only one could export", xp.export_dmabuf, x)
                del x
            gc.collect()
