"""Opening, using and closing the CPU device while every operation in turn fails once.

Whatever fails: only our errors escape, they name the operation, nothing stays mapped, and the
next device opens and computes.
"""

from __future__ import annotations

import errno
import gc
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import drivers
from compilers.cpu.firmware import firmware
from drivers.base.contracts import Binary, Firmware, Fixup, Region, Resources, World
from drivers.base.errors import BadArgument, DeviceError, Hang
from drivers.base.undo import Undo, run_all
from drivers.cpu.workers import Workers
from drivers.world.faulty import Fault, FaultyRegion, FaultyWorld
from drivers.world.linux import LinuxWorld
from tests.cpu_harness import ARCH, both, int64s, kernel, open_device, read
from tests.support import check

MOST_OPERATIONS = 200
COUNT = 100
ERRNOS = (errno.EIO, errno.ENOMEM, errno.EPERM, errno.EAGAIN, errno.EINTR, errno.ENODEV)


class WatchedWorld(LinuxWorld):
    """The real machine, which also knows the mappings themselves: are they really gone?"""

    def __init__(self) -> None:
        super().__init__()
        self.mappings: list[weakref.ref[object]] = []

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Region | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        region = super().mmap(fd, nbytes, offset, write=write, within=within, at=at, huge=huge)
        self.mappings.append(weakref.ref(region.view().obj))
        return region

    def check_empty(self, what: str) -> None:
        """Nothing that was opened or mapped here is left."""
        gc.collect()
        np.testing.assert_equal((self.fds, self.maps, self.mapped_bytes), (0, 0, 0), what)
        alive = sum(mapping() is not None for mapping in self.mappings)
        np.testing.assert_equal(alive, 0, f"{what}: still mapped")


class UnmapFails(FaultyWorld):
    """Unmapping is an operation too. What fails is unmapped nevertheless, as close(2) does."""

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Region | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        self._pass(f"mmap {nbytes} bytes")
        region = self.inner.mmap(fd, nbytes, offset, write=write, within=within, at=at, huge=huge)
        return UnmapFailsRegion(self, region)


class UnmapFailsRegion(FaultyRegion):
    """Its first `close` is an operation."""

    def close(self) -> None:
        first, self.closed = not getattr(self, "closed", False), True
        self.inner.close()
        if first:
            self._store(f"munmap {self.nbytes} bytes")


def _binary() -> Binary:
    """A kernel with data, scratch memory and a symbol to look up."""
    made = kernel("ramp")
    image = made.image.ljust(4096, b"\0") + bytes(8)
    needs = Resources(scratch_bytes=5000)
    return Binary(made.arch, made.name, image, made.entry, (Fixup(4096, "memcpy"),), 4096, needs)


def _scenario(world: World, threads: int, code: Firmware | None) -> np.ndarray:
    """Open, allocate, load, launch, queue, wait, copy back, close."""
    environ = {"CPU_THREADS": str(threads)}
    with drivers.open("CPU", world=world, environ=environ, firmware=code) as device:
        out, source = device.alloc(8 * COUNT), device.alloc(1 << 17)
        device.copy_in(source, np.arange(1 << 14).data)
        program = device.load(_binary())
        device.launch(program, (out, 3, source), COUNT)
        signal = device.new_signal()
        queue = device.compute_queue().wait(signal, 1)
        queue.exec(program, (out, 5, source), (COUNT, 1, 1)).signal(signal, 2).submit()
        signal.set(1)
        signal.wait(2)
        program.close()
        source.free()
        result = np.zeros(COUNT, np.int64)
        device.copy_out(result.data, out)
    return result


def _check_run(world: FaultyWorld, run: Callable[[World], np.ndarray]) -> str:
    """One run with one fault; "" when the run was over before its fault."""
    inner = world.inner
    if not isinstance(inner, WatchedWorld):
        raise TypeError(inner)
    result, message = None, ""
    try:
        result = run(world)
    except DeviceError as error:
        message = str(error)
    what = f"operation {world.fail_at} ({world.failed}): {message or 'no error'}"
    inner.check_empty(what)
    if result is not None:
        np.testing.assert_array_equal(result, np.arange(COUNT) * 6, what)
    else:
        check(world.failed.removeprefix("read ") in message, f"{what} does not name it")
    return world.failed


def _sweep(
    fault: Fault, run: Callable[[World], np.ndarray], kind: type[FaultyWorld] = FaultyWorld
) -> list[str]:
    """The operations that failed, in order."""
    failed: list[str] = []
    for fail_at in range(MOST_OPERATIONS):
        operation = _check_run(kind(WatchedWorld(), fail_at, fault), run)
        if not operation:
            return failed
        failed.append(operation)
        np.testing.assert_array_equal(run(LinuxWorld()), np.arange(COUNT) * 6)
    raise AssertionError(f"more than {MOST_OPERATIONS} operations")


@both
@pytest.mark.parametrize("number", ERRNOS)
def test_every_operation_fails_once(number: int, native: bool) -> None:
    code = firmware if native else None
    failed = _sweep(Fault.of_errno(number), lambda world: _scenario(world, 3, code))
    check(sum(name.startswith("mmap") for name in failed) >= 8, str(failed))
    check("protect" in failed, str(failed))
    check("symbol memcpy" in failed, str(failed))


@both
@pytest.mark.parametrize("kind", ["ones", "zeros", "short"])
def test_everything_read_is_spoilt_once(kind: str, native: bool) -> None:
    code = firmware if native else None
    failed = _sweep(Fault(kind), lambda world: _scenario(world, 2, code))
    check("read /proc/cpuinfo" in failed, str(failed))


@both
def test_every_unmapping_fails_once(native: bool) -> None:
    code = firmware if native else None
    failed = _sweep(Fault.of_errno(errno.ENOMEM), lambda w: _scenario(w, 2, code), UnmapFails)
    check(sum(name.startswith("munmap") for name in failed) >= 8, str(failed))


def test_a_thread_that_cannot_start_is_told_and_tried_again() -> None:
    with open_device(2) as device:
        out, signal = int64s(device, [1]), device.new_signal()
        binary = kernel("bump")
        before = threading.stack_size(1 << 46)  # more than any address space has
        try:
            with pytest.raises(DeviceError, match="worker 1"):
                device.load(binary)
            with pytest.raises(DeviceError, match="compute"):
                device.compute_queue().wait(signal, 1).submit()
        finally:
            threading.stack_size(before)
        check(device.idle, "what was refused is not parked")
        device.launch(device.load(binary), (out, 6), 1)
        np.testing.assert_array_equal(read(out), [7])


def test_memory_stays_while_a_worker_does_not_return() -> None:
    world, done = WatchedWorld(), threading.Event()

    def stuck(state_va: int, words_va: int, index: int) -> int:
        done.wait(60)
        return index

    workers = Workers.open(world, ARCH, 2)
    workers.use_firmware(stuck)
    workers.start(2)
    for _ in range(2):
        with pytest.raises(Hang, match="worker 1"):
            workers.stop(0.01)
    np.testing.assert_equal(workers.running, 2)
    done.set()
    workers.stop()
    np.testing.assert_equal(workers.running, 1)
    workers.close()
    del workers
    world.check_empty("workers")


def test_undoing_is_in_reverse_and_loses_no_error() -> None:
    done: list[int] = []

    def step(number: int) -> Callable[[], None]:
        def run() -> None:
            done.append(number)
            if number > 1:
                raise DeviceError(f"step {number}")

        return run

    def broken() -> None:
        with Undo() as undo:
            for number in range(4):
                undo.add(step(number))
            raise BadArgument("the first error")

    with pytest.raises(BadArgument, match="first") as caught:
        broken()
    np.testing.assert_array_equal(done, [3, 2, 1, 0])
    check("step 3" in str(caught.value.__notes__), str(caught.value.__notes__))
    with pytest.raises(DeviceError, match="step 2") as second:
        run_all(step(number) for number in range(4))
    check("step 3" in str(second.value.__notes__), str(second.value.__notes__))
    with Undo() as unneeded:
        unneeded.add(step(5))
    np.testing.assert_array_equal(done, [3, 2, 1, 0, 0, 1, 2, 3])
