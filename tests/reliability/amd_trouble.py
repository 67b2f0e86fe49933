"""Kinds of trouble with an AMD GPU, each made to happen on one queue of a device."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import numpy as np
import pytest

from boards.amd.cp.engines import Engines
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from drivers.amd.aql_ring import AqlRing
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.amd.memory import AmdBuffer
from drivers.amd.program import AmdProgram
from drivers.base.contracts import Binary
from drivers.base.errors import DeviceError, DeviceFault, Hang
from drivers.gpu.blocks import Wrapped
from drivers.gpu.iface import Use
from drivers.gpu.ring import Ring
from drivers.world.foreign import ForeignWorld
from queues.amd import aql, pm4, sdma
from queues.amd.aql_launch import PACKET_FORMAT
from queues.amd.kernel_code import AmdCode
from tests.boards.driver_harness import add, get, kernel, open_on, put
from tests.reliability.amd_scene import let_go
from tests.support import check

CHIP = "gfx1100"
N = 64
QUEUES = ("PM4", "AQL", "SDMA")
BIG_BYTES = 256 << 10
MAX_STEPS = 200
"""Instructions after which the board takes a kernel for endless."""
SHORT_S = 0.3
"""AMD_HANG_S of the rigs; no time passes on a board."""
ENDLESS = """
define amdgpu_kernel void @k(ptr addrspace(1) %c) #0 {
  br label %loop
loop:
  store volatile i32 1, ptr addrspace(1) %c
  br label %loop
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""
ATOMIC = """
define amdgpu_kernel void @k(ptr addrspace(1) %c) #0 {
  %old = atomicrmw add ptr addrspace(1) %c, i32 1 syncscope("agent") monotonic, align 4
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""
FAR = -(1 << 40)
"""From a descriptor to code that is not there."""


def patched(binary: Binary, at: int, data: bytes) -> Binary:
    """The binary with other bytes in its image."""
    image = bytearray(binary.image)
    image[at : at + len(data)] = data
    return replace(binary, image=bytes(image))


@dataclass
class Rig:
    """A device on a board, a buffer of its own with unmapped pages behind it, a program."""

    board: BoardWorld
    world: ForeignWorld
    device: AmdDevice
    queue: str
    program: AmdProgram = field(init=False)
    x: AmdBuffer = field(init=False)
    big: AmdBuffer = field(init=False)
    kernels: dict[str, AmdProgram] = field(init=False)
    """Loaded before anything is wrong: loading needs the copy queue."""

    def __post_init__(self) -> None:
        load, made = self.device.load, add(CHIP)
        self.program = load(made)
        self.kernels = {
            "endless": load(kernel(ENDLESS, CHIP, 1)),
            "atomic": load(kernel(ATOMIC, CHIP, 1)),
            # kernel_code_entry_byte_offset of the descriptor
            "lost": load(patched(made, made.entry + 16, struct.pack("<q", FAR))),
            "illegal": load(patched(made, AmdCode.of(made).code_offset, b"\xff" * 4)),
        }
        self.x = put(self.device, np.ones(N, np.float32))
        self.big = self.device.alloc(BIG_BYTES)

    @property
    def nowhere(self) -> int:
        """The first address behind the big buffer."""
        return self.big.gpu_va + BIG_BYTES

    @property
    def ring(self) -> Ring:
        return self.device.copies if self.queue == "SDMA" else self.device.compute

    def emit(self, words: Sequence[int]) -> None:
        """Packets as they are."""
        with self.ring.lock:
            if self.queue == "SDMA":
                self.device.copies.emit([words])
            else:
                self.device.compute.emit(words)

    def play(self, words: Sequence[int]) -> None:
        """One AQL packet as it is."""
        ring = self.device.compute
        if not isinstance(ring, AqlRing):
            raise TypeError("not a queue of AQL packets")
        with ring.lock:
            ring.play(memoryview(struct.pack(PACKET_FORMAT, *words)))

    def run(self, name: str, *args: int | AmdBuffer) -> None:
        """Launch one workgroup of a kernel."""
        self.device.launch(self.kernels[name], args, 1)

    def wait(self) -> None:
        """For everything on the rig's queue; the other one may be parked."""
        if self.queue != "SDMA":
            self.device.synchronize()
            return
        done = self.device.new_signal()
        self.device.copy_queue().signal(done, 1).submit()
        done.wait(1)


@contextmanager
def rig_on(queue: str, options: Options | None = None) -> Iterator[Rig]:
    """A rig for "PM4", "AQL" or "SDMA"; closed at the end, its violations are the test's."""
    engines = partial(Engines, max_steps=MAX_STEPS)
    board = open_board(CHIP, vram_bytes=256 << 20, options=options, engines=engines)
    world = ForeignWorld(board)
    kind = "AQL" if queue == "AQL" else "PM4"
    with open_on(world, kind, AMD_HANG_S=str(SHORT_S)) as device:
        yield Rig(board, world, device, queue)
    close_session(world)


# Trouble: each makes it happen and returns without waiting for it


def header(opcode: int, words: int) -> int:
    """src: nvd.h PACKET3(op, n): a type-3 header for `words` words of payload."""
    return 3 << 30 | (words - 1) << 16 | opcode << 8


def bad_opcode(rig: Rig) -> None:
    rig.emit([0xEE] if rig.queue == "SDMA" else [header(0xEE, 1), 0])


def bad_length(rig: Rig) -> None:
    if rig.queue == "SDMA":
        words = sdma.write(rig.device.copies.engine, dst_addr=rig.x.gpu_va, data=[1])
        words[3] = 5000  # more than the ring was given
        rig.emit(words)
    else:
        rig.emit([header(0x37, 1), 0])  # WRITE_DATA


def bad_packet_type(rig: Rig) -> None:
    rig.play([9, *[0] * 15])


def reserved_bits(rig: Rig) -> None:
    if rig.queue == "SDMA":
        words = sdma.fence(rig.device.copies.engine, addr=rig.x.gpu_va, data=1)
        words[1] |= 2
    else:
        words = pm4.write_data(dst=rig.x.gpu_va, data=[1])
        words[1] |= 1 << 31
    rig.emit(words)


def unmapped_buffer(rig: Rig) -> None:
    """An indirect buffer that is not there."""
    if rig.queue == "AQL":
        rig.play(aql.pm4_ib(ib_base=rig.nowhere, ib_size=8))
    elif rig.queue == "SDMA":
        engine = rig.device.copies.engine
        padding = sdma.indirect_padding(at=rig.ring.put // 4)
        jump = sdma.indirect(engine, ib_base=rig.nowhere, ib_size=8)
        rig.emit([*[0] * padding, *jump])
    else:
        rig.emit(pm4.indirect_buffer(ib_base=rig.nowhere, ib_size=8))


def unmapped_ring_write(rig: Rig) -> None:
    if rig.queue == "SDMA":
        rig.emit(sdma.fence(rig.device.copies.engine, addr=rig.nowhere, data=1))
    else:
        rig.emit(pm4.write_data(dst=rig.nowhere, data=[1]))


def endless_wait(rig: Rig) -> None:
    if rig.queue == "SDMA":
        rig.emit(sdma.poll_mem(rig.device.copies.engine, addr=rig.x.gpu_va, value=0xFFFFFFFF))
    else:
        rig.emit(pm4.wait_mem(addr=rig.x.gpu_va, reference=0xFFFFFFFF))


def unmapped_read(rig: Rig) -> None:
    if rig.queue == "SDMA":
        engine = rig.device.copies.engine
        rig.emit(sdma.copy_linear(engine, dst_addr=rig.x.gpu_va, src_addr=rig.nowhere, count=64))
    else:
        rig.device.launch(rig.program, [rig.nowhere, rig.x, rig.x, N], 1)


def unmapped_write(rig: Rig) -> None:
    if rig.queue == "SDMA":
        engine = rig.device.copies.engine
        rig.emit(sdma.copy_linear(engine, dst_addr=rig.nowhere, src_addr=rig.x.gpu_va, count=64))
    else:
        rig.device.launch(rig.program, [rig.x, rig.x, rig.nowhere, N], 1)


def unmapped_execute(rig: Rig) -> None:
    """A launch of code that is not there; AQL finds it through the descriptor."""
    if rig.queue == "AQL":
        rig.run("lost", rig.x, rig.x, rig.x, N)
        return
    lost = replace(rig.program.kernel, code_va=rig.nowhere)
    launcher = rig.device.programs.prepare(lost, (64, 1, 1), True)
    with rig.ring.lock:
        rig.device.compute.quick(launcher, [rig.x.gpu_va] * 3 + [N], 1)


def constants(rig: Rig) -> AmdBuffer:
    """A buffer that the GPU may only read."""
    device = rig.device
    bo = device.iface.allocate(4096, Use.CONSTANT, "constants")
    wrapped = Wrapped(bo, memoryview(b""), 0)
    device.heap.wrapped.append(wrapped)
    return AmdBuffer(device, 4096, wrapped, readonly=True)


def readonly_write(rig: Rig) -> None:
    rig.big = constants(rig)
    target = rig.big.gpu_va
    if rig.queue == "SDMA":
        rig.emit(sdma.fence(rig.device.copies.engine, addr=target, data=1))
    else:
        rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)


def misaligned(rig: Rig) -> None:
    if rig.queue == "SDMA":
        words = sdma.fence(rig.device.copies.engine, addr=rig.x.gpu_va, data=1)
        words[1] |= 1
        rig.emit(words)
    else:
        rig.run("atomic", rig.x.gpu_va + 1)


def illegal_instruction(rig: Rig) -> None:
    rig.run("illegal", rig.x, rig.x, rig.x, N)


def endless_kernel(rig: Rig) -> None:
    rig.run("endless", rig.x)


def busy(rig: Rig) -> None:
    """Any work."""
    if rig.queue == "SDMA":
        rig.device.copy_queue().copy(rig.big, rig.x, 4 * N).submit()
    else:
        rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)


def hung_engine(rig: Rig) -> None:
    rig.board.panel.hang(rig.ring.hw.queue_id)
    busy(rig)


def lost_doorbell(rig: Rig) -> None:
    rig.board.panel.mute(rig.ring.hw.queue_id)
    busy(rig)


def ecc(rig: Rig) -> None:
    busy(rig)
    rig.board.panel.ecc()


def gpu_reset(rig: Rig) -> None:
    busy(rig)
    rig.board.panel.gpu_reset()


Trouble = Callable[[Rig], None]


def still_right(rig: Rig) -> None:
    """What is launched next, with programs and data that are loaded anew, is right."""
    a = np.arange(N, dtype=np.float32)
    program = rig.device.load(add(CHIP))
    x, y = put(rig.device, a), rig.device.alloc(4 * N)
    rig.device.launch(program, [x, x, y, N], 1)
    np.testing.assert_array_equal(get(rig.device, y), a + a)
    program.close()
    x.free()
    y.free()


def settled(rig: Rig) -> tuple[object, ...]:
    """What the device holds when nothing is cached; the same before and after trouble."""
    still_right(rig)
    rig.device.trim()
    return rig.board.baseline(), rig.device.iface.handles, rig.device.iface.bytes_held


class Bystander:
    """Work on the queue that is not in trouble: parked before, and right afterwards."""

    def __init__(self, rig: Rig) -> None:
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
        self.done.wait(1, SHORT_S)
        np.testing.assert_array_equal(get(self.rig.device, self.y), self.expected)


def reported(rig: Rig, within_s: float = inf) -> DeviceError:
    """The error of the wait that follows trouble, in time."""
    clock = rig.board.hardware.clock
    before_ns = clock.skipped_ns
    with pytest.raises((DeviceFault, Hang)) as caught:
        rig.wait()
    slept_s = (clock.skipped_ns - before_ns) / 1e9
    check(slept_s <= within_s, f"it took {slept_s} s")
    error: DeviceError = caught.value
    let_go(error)
    return error
