"""Hangs and faults of an AMD GPU: noticed, named, survived, and nothing is lost on the way.

R6: every kind on every type of queue. After each the next launch on the same device is right, the
other queue keeps what it was given, and nothing more is allocated than before (R13).
"""

from __future__ import annotations

import gc
import traceback
from dataclasses import astuple, dataclass
from itertools import product

import numpy as np
import pytest

from boards.amd.machine import Options, another_process
from boards.amd.world import BoardWorld
from drivers.amd.session import close_session
from drivers.base.errors import (
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    OutOfMemory,
)
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import get, open_on, put
from tests.reliability import amd_trouble as t
from tests.reliability.amd_scene import let_go
from tests.support import check

N = t.N
QUEUES = ("PM4", "AQL", "SDMA")
NAMES = {"PM4": "AMD:0 compute queue", "AQL": "AMD:0 compute queue", "SDMA": "AMD:0 copy queue"}


@dataclass(frozen=True)
class Fault:
    """What a memory exception has to say."""

    make: t.Trouble
    access: str
    kind: str = "unmapped"
    by_kernel: bool = True
    """Whether a kernel did it, on a compute queue."""


@dataclass(frozen=True)
class Stop:
    """What the dump of a queue that stopped has to show: of PM4, AQL, SDMA packets."""

    make: t.Trouble
    shown: tuple[str, str, str]
    by_kernel: bool = False


FAULTS = {
    "unmapped indirect buffer": Fault(t.unmapped_buffer, "read", by_kernel=False),
    "unmapped ring write": Fault(t.unmapped_ring_write, "write", by_kernel=False),
    "unmapped read": Fault(t.unmapped_read, "read"),
    "unmapped write": Fault(t.unmapped_write, "write"),
    "unmapped execute": Fault(t.unmapped_execute, "read"),
    "read-only write": Fault(t.readonly_write, "write", "read-only"),
}
_DISPATCH = ("DISPATCH_DIRECT", "KERNEL_DISPATCH", "")
STOPS = {
    "bad opcode": Stop(t.bad_opcode, ("opcode 0xee",) * 2 + ("operation in 0x000000ee",)),
    "bad length": Stop(t.bad_length, ("WRITE_DATA cannot be 2 words",) * 2 + ("WRITE of 5005",)),
    "reserved bits": Stop(t.reserved_bits, ("0x80000000", "0x80000000", "reserved[1]=0x2")),
    "endless wait": Stop(t.endless_wait, ("WAIT_REG_MEM", "WAIT_REG_MEM", "POLL_REGMEM")),
    "bad packet type": Stop(t.bad_packet_type, ("", "0x00000009", "")),
    "misaligned": Stop(t.misaligned, (*_DISPATCH[:2], "FENCE"), by_kernel=True),
    "illegal instruction": Stop(t.illegal_instruction, _DISPATCH, by_kernel=True),
    "endless kernel": Stop(t.endless_kernel, _DISPATCH, by_kernel=True),
    "hung engine": Stop(t.hung_engine, (*_DISPATCH[:2], "COPY_LINEAR"), by_kernel=True),
    "lost doorbell": Stop(t.lost_doorbell, (*_DISPATCH[:2], "COPY_LINEAR"), by_kernel=True),
}
ONLY = {
    "unmapped execute": ("PM4", "AQL"),
    "bad packet type": ("AQL",),
    "illegal instruction": ("PM4", "AQL"),
    "endless kernel": ("PM4", "AQL"),
}
FAULT_CASES = [(k, q) for k, q in product(FAULTS, QUEUES) if q in ONLY.get(k, QUEUES)]
STOP_CASES = [(k, q) for k, q in product(STOPS, QUEUES) if q in ONLY.get(k, QUEUES)]
KILLERS = {"ecc": (t.ecc, "ECC"), "gpu reset": (t.gpu_reset, "GPU hang")}


class Bystander:
    """Work on the queue that is not in trouble: parked before, and right afterwards."""

    def __init__(self, rig: t.Rig) -> None:
        self.rig, device = rig, rig.device
        self.a = np.arange(N, dtype=np.float32) + 1
        self.x, self.y = put(device, self.a), put(device, 0 * self.a)
        self.go, self.done = device.new_signal(), device.new_signal()
        if rig.queue == "SDMA":
            steps = device.compute_queue().wait(self.go, 1)
            steps.exec(rig.program, [self.x, self.x, self.y, N]).signal(self.done, 1).submit()
            self.expected = self.a + self.a
        else:
            steps = device.copy_queue().wait(self.go, 1)
            steps.copy(self.y, self.x, 4 * N).signal(self.done, 1).submit()
            self.expected = self.a

    def check(self) -> None:
        check(self.done.value == 0, "it was not parked")
        self.go.set(1)
        self.done.wait(1, t.SHORT_S)
        np.testing.assert_array_equal(get(self.rig.device, self.y), self.expected)


def told(rig: t.Rig) -> DeviceError:
    """The error of the wait that follows trouble."""
    with pytest.raises((DeviceFault, Hang)) as caught:
        rig.wait()
    error: DeviceError = caught.value
    let_go(error)
    return error


def check_fault(rig: t.Rig, case: Fault, error: DeviceError, va: int | None) -> None:
    check(isinstance(error, DeviceFault), f"{error!r}")
    if not isinstance(error, DeviceFault):
        return
    check((error.kind, error.access, error.queue) == (case.kind, case.access, NAMES[rig.queue]))
    kernel = "k" if case.by_kernel and rig.queue != "SDMA" else ""
    check(error.kernel == kernel or case.make is t.unmapped_execute, f"kernel {error.kernel!r}")
    if va is not None:
        check(error.gpu_va == va, f"{error.gpu_va:#x}, not {va:#x}")
        check(hex(va) in str(error) and f"{rig.big.nbytes} bytes" in error.buffer, str(error))
        where = "offset 0x0" if case.kind == "read-only" else "0x0 bytes behind"
        check(where in str(error), str(error))
    check("can be used" in error.hint, error.hint)


@pytest.mark.parametrize(("name", "queue"), FAULT_CASES)
def test_faults(name: str, queue: str) -> None:
    case = FAULTS[name]
    with t.rig_on(queue) as rig:
        bystander = Bystander(rig)
        case.make(rig)
        va = rig.big.gpu_va if case.kind == "read-only" else rig.nowhere
        if case.make is t.unmapped_execute and queue == "AQL":
            error = told(rig)
            check_fault(rig, case, error, None)
            lost = rig.kernels["lost"].kernel.descriptor_va + t.FAR & -0x1000
            check(isinstance(error, DeviceFault) and error.gpu_va == lost, str(error))
        else:
            check_fault(rig, case, told(rig), va)
        bystander.check()
        before = t.settled(rig)
        case.make(rig)
        let_go(told(rig))
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.findings, f"{rig.board.findings}")


@pytest.mark.parametrize(("name", "queue"), STOP_CASES)
def test_hangs(name: str, queue: str) -> None:
    case = STOPS[name]
    with t.rig_on(queue) as rig:
        bystander = Bystander(rig)
        case.make(rig)
        error = told(rig)
        check(isinstance(error, Hang), f"{error!r}")
        if isinstance(error, Hang):
            shown = case.shown[QUEUES.index(queue)]
            check(error.queue == NAMES[queue] and shown in error.dump, f"{shown}: {error.dump}")
        named = "in kernel 'k'" in str(error)
        check(named == (case.by_kernel and queue != "SDMA"), str(error))
        check("can be used" in error.hint, error.hint)
        bystander.check()
        before = t.settled(rig)
        case.make(rig)
        let_go(told(rig))
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.findings, f"{rig.board.findings}")


@pytest.mark.parametrize(("name", "queue"), list(product(KILLERS, QUEUES)))
def test_resets_end_the_process_and_say_so(name: str, queue: str) -> None:
    """Linux gives a process whose GPU was reset no queue that runs; a new process is fine."""
    make, kind = KILLERS[name]
    with t.rig_on(queue) as rig:
        make(rig)
        error = told(rig)
        check(isinstance(error, DeviceFault) and error.kind == kind, f"{error!r}")
        check("new process" in error.hint, error.hint)
        x = np.zeros(N, np.float32)
        for use in (
            lambda: rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1),
            lambda: get(rig.device, rig.x),
            lambda: put(rig.device, x),
            rig.device.synchronize,
            lambda: rig.device.compute_queue().signal(rig.device.new_signal(), 1).submit(),
        ):
            with pytest.raises(DeviceGone, match="start a new process") as caught:
                use()
            let_go(caught.value)
        board = rig.board
    fresh = another_process(board)
    fresh_world = ForeignWorld(fresh)
    with open_on(fresh_world) as device:
        check(len(get(device, put(device, x))) == N)
    close_session(fresh_world)
    check(not any(astuple(fresh.baseline())), f"{fresh.baseline()}")


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("keep", [False, True])
def test_a_kernel_that_evicts_after_a_fault(queue: str, keep: bool) -> None:
    """Linux without no_queue_eviction_on_vm_fault: the fault is told, then a clear refusal."""
    options = Options(evict_on_fault=True, close_ends_process=not keep)
    with t.rig_on(queue, options) as rig:
        bystander = Bystander(rig)
        t.unmapped_write(rig)
        error = told(rig)
        check(isinstance(error, DeviceFault) and error.gpu_va == rig.nowhere, f"{error!r}")
        for use in (
            lambda: t.still_right(rig),
            rig.wait,
            lambda: bystander.done.wait(1, t.SHORT_S),
            lambda: rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1),
        ):
            with pytest.raises(DeviceGone, match="no_queue_eviction_on_vm_fault=1") as caught:
                use()
            let_go(caught.value)
        check("start a new process" in str(caught.value) and "start a new process" in error.hint)
        check(frames(caught.value) == 0, "a refusal that is told again and again grows")
        for _ in range(20):
            with pytest.raises(DeviceGone) as caught:
                rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)
        check(frames(caught.value) < 10, f"{frames(caught.value)} frames")
        let_go(caught.value)
        with pytest.raises(DeviceGone, match="no_queue_eviction_on_vm_fault=1"):
            open_on(rig.world)
        board = rig.board
    again = another_process(board) if keep else board
    world = ForeignWorld(again)
    with open_on(world) as device:
        a = np.arange(N, dtype=np.float32)
        np.testing.assert_array_equal(get(device, put(device, a)), a)
    close_session(world)


def frames(error: BaseException) -> int:
    """How many frames an error holds."""
    return sum(1 for _ in traceback.walk_tb(error.__traceback__))


@pytest.mark.parametrize("queue", QUEUES)
def test_a_hang_that_costs_the_gpu(queue: str) -> None:
    """A kernel that cannot reset one queue resets the GPU: the hang is told, then a refusal."""
    with t.rig_on(queue, Options(queue_reset=False)) as rig:
        t.hung_engine(rig)
        error = told(rig)
        check(isinstance(error, Hang) and "start a new process" in error.hint, f"{error!r}")
        for use in (lambda: t.still_right(rig), rig.wait):
            with pytest.raises(DeviceGone, match="start a new process") as caught:
                use()
            let_go(caught.value)
        board = rig.board
    world = ForeignWorld(board)
    with open_on(world) as device:
        check(len(get(device, put(device, np.ones(N, np.float32)))) == N)
    close_session(world)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_on_the_kernels_own_terms_a_device_opens_again(queue: str) -> None:
    """The process outlives its files: devices come and go, a session that left stays away."""
    with t.rig_on(queue, Options(close_ends_process=False)) as rig:
        t.unmapped_write(rig)
        told(rig)
        t.still_right(rig)
        rig.device.close()
        before = rig.board.baseline()
        for _ in range(3):
            with open_on(rig.world, queue) as device:
                a = np.arange(N, dtype=np.float32)
                np.testing.assert_array_equal(get(device, put(device, a)), a)
            check(rig.board.baseline() == before, f"{rig.board.baseline()}")
        world = rig.world
    with pytest.raises(DeviceError, match="start a new process"):
        open_on(world, queue)


def test_an_allocation_that_fails() -> None:
    with t.rig_on("PM4") as rig:
        before = rig.board.baseline()
        for at in (1, 2):
            rig.board.panel.fail_alloc()
            rig.board.panel.fail_alloc(at=2)  # the allocator gives its cache back and tries again
            with pytest.raises(OutOfMemory, match="1,048,576 bytes do not fit") as caught:
                rig.device.alloc(1 << 20)
            check(caught.value.requested == 1 << 20, str(at))
            let_go(caught.value)
        check(rig.board.baseline() == before, f"{rig.board.baseline()}")
        t.still_right(rig)


def test_a_killed_process() -> None:
    """Its memory and its queue, with a kernel that does not end, are gone; the next one is fine."""

    def life() -> None:
        with t.rig_on("PM4") as rig:
            boards.append(rig.board)
            Bystander(rig)
            t.endless_kernel(rig)
            rig.board.panel.kill_process()

    boards: list[BoardWorld] = []
    with pytest.raises(DeviceError, match="Bad file descriptor") as caught:
        life()
    let_go(caught.value)
    (board,) = boards
    gc.collect()  # this test's own views of what the dead process had mapped
    fresh = another_process(board)
    check(not any(astuple(fresh.baseline())), f"{fresh.baseline()}")
    world = ForeignWorld(fresh)
    with open_on(world) as device:
        a = np.arange(N, dtype=np.float32)
        np.testing.assert_array_equal(get(device, put(device, a)), a)
    close_session(world)


@pytest.mark.parametrize(
    ("make", "queue", "cycles"),
    [
        (t.unmapped_write, "PM4", 100),
        (t.misaligned, "PM4", 100),
        (t.endless_kernel, "PM4", 10),  # the board takes its time to call one endless
        (t.unmapped_read, "AQL", 100),
        (t.illegal_instruction, "AQL", 100),
        (t.unmapped_write, "SDMA", 100),
        (t.bad_opcode, "SDMA", 100),
    ],
)
def test_a_hundred_times(make: t.Trouble, queue: str, cycles: int) -> None:
    """Trouble and recovery leave nothing behind, however often."""
    with t.rig_on(queue) as rig:
        for cycle in range(cycles):
            make(rig)
            error = told(rig)
            check(isinstance(error, DeviceFault | Hang))
            rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)
            rig.device.synchronize()
            if cycle == 0:
                before = t.settled(rig)
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.findings, f"{rig.board.findings}")
