"""Hangs and faults of an AMD GPU: noticed, named, survived, and nothing is lost on the way.

R6: every kind on every type of queue. After each the next launch on the same device is right, the
other queue keeps what it was given, and nothing more is allocated than before (R13).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from itertools import product

import numpy as np
import pytest

from boards.amd.machine import open_board
from drivers.amd.kfd.session import close_session
from drivers.base.errors import (
    DeviceError,
    DeviceFault,
    Hang,
    OutOfMemory,
)
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, get, open_on, put
from tests.reliability import amd_trouble as t
from tests.reliability.amd_scene import let_go
from tests.support import check

N = t.N
QUEUES = t.QUEUES
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
EXCEPTIONS = {
    ("misaligned", "PM4"): "memory violation",
    ("misaligned", "AQL"): "memory violation",
    ("illegal instruction", "PM4"): "illegal instruction",
    ("illegal instruction", "AQL"): "illegal instruction",
    ("bad packet type", "AQL"): "bad packet",
}
"""Those that a wave's trap handler, or the packet processor, reports: found without a wait."""
ONLY = {
    "unmapped execute": ("PM4", "AQL"),
    "bad packet type": ("AQL",),
    "illegal instruction": ("PM4", "AQL"),
    "endless kernel": ("PM4", "AQL"),
}
FAULT_CASES = [(k, q) for k, q in product(FAULTS, QUEUES) if q in ONLY.get(k, QUEUES)]
STOP_CASES = [(k, q) for k, q in product(STOPS, QUEUES) if q in ONLY.get(k, QUEUES)]


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
        bystander = t.Bystander(rig)
        case.make(rig)
        va = rig.big.gpu_va if case.kind == "read-only" else rig.nowhere
        if case.make is t.unmapped_execute and queue == "AQL":
            error = t.reported(rig)
            check_fault(rig, case, error, None)
            lost = rig.kernels["lost"].kernel.descriptor_va + t.FAR & -0x1000
            check(isinstance(error, DeviceFault) and error.gpu_va == lost, str(error))
        else:
            check_fault(rig, case, t.reported(rig), va)
        bystander.check()
        before = t.settled(rig)
        case.make(rig)
        let_go(t.reported(rig))
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.violations, f"{rig.board.violations}")


@pytest.mark.parametrize(("name", "queue"), STOP_CASES)
def test_hangs(name: str, queue: str) -> None:
    case = STOPS[name]
    with t.rig_on(queue) as rig:
        bystander = t.Bystander(rig)
        case.make(rig)
        error = t.reported(rig, within_s=1.2 * t.SHORT_S)
        exception = EXCEPTIONS.get((name, queue))
        shown = case.shown[QUEUES.index(queue)]
        if exception is None:
            check(isinstance(error, Hang), f"{error!r}")
            check("sq_intr: error" in error.hint, "the kernel's log has the reason, if any")
        else:
            check(isinstance(error, DeviceFault) and error.kind == exception, f"{error!r}")
        if isinstance(error, Hang | DeviceFault):
            check(error.queue == NAMES[queue] and shown in str(error), f"{shown}: {error}")
        named = "kernel 'k'" in str(error)
        check(named == (case.by_kernel and queue != "SDMA"), str(error))
        check("can be used" in error.hint, error.hint)
        bystander.check()
        before = t.settled(rig)
        case.make(rig)
        let_go(t.reported(rig))
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.violations, f"{rig.board.violations}")


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
            error = t.reported(rig)
            check(isinstance(error, DeviceFault | Hang))
            rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)
            rig.device.synchronize()
            if cycle == 0:
                before = t.settled(rig)
        after = t.settled(rig)
        check(before == after, f"{before} became {after}")
        check(not rig.board.violations, f"{rig.board.violations}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_the_other_gpu_does_not_suffer(queue: str) -> None:
    """A fault on one of two GPUs; the other one waits for a signal of the first, then goes on."""
    board = open_board(t.CHIP, gpus=2, vram_bytes=256 << 20)
    world = ForeignWorld(board)
    a = np.arange(N, dtype=np.float32)
    with open_on(world, queue, 0) as bad, open_on(world, queue, 1) as good:
        programs = [device.load(add(t.CHIP)) for device in (bad, good)]
        x, y, z = put(good, a), good.alloc(4 * N), put(bad, a)
        go = bad.new_signal()
        steps = good.compute_queue().wait(go, 1).exec(programs[1], [x, x, y, N])
        steps.submit()
        for _ in range(3):
            bad.launch(programs[0], [z, z, 0x10000, N], 1)
            with pytest.raises(DeviceFault, match="AMD:0 compute queue: unmapped write") as caught:
                bad.synchronize()
            let_go(caught.value)
        with pytest.raises(Hang, match="AMD:1 compute queue") as waiting:
            good.synchronize()
        let_go(waiting.value)
        go.set(1)
        np.testing.assert_array_equal(get(good, y), a + a)
        bad.launch(programs[0], [z, z, z, N], 1)
        np.testing.assert_array_equal(get(bad, z), a + a)
    close_session(world)
    check(not board.violations, f"{board.violations}")
    check(not any(astuple(board.baseline())), f"{board.baseline()}")
