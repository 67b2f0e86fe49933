"""Rings of plain memory: what a quick launch writes, and when a ring asks for an interrupt."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from drivers.amd.aql_ring import RING_BYTES as AQL_RING_BYTES
from drivers.amd.aql_ring import SIDE_BYTES, SLOTS, AqlRing
from drivers.amd.iface import Mailbox
from drivers.amd.pm4_ring import RING_BYTES, Pm4Ring
from drivers.base.errors import BadArgument
from drivers.gpu.ring import RingParts, Waited
from queues.amd import pm4
from queues.amd.aql_launch import PACKET_BYTES, AqlLauncher
from queues.amd.hidden import HiddenAqlLauncher, HiddenLauncher
from queues.amd.kernarg import Hidden
from queues.amd.pm4_launch import Launcher, Target
from tests.boards.test_driver_handlers import Signal, places
from tests.support import check
from tests.unit.test_amd_driver_launch import ARGUMENTS, GFX11, KERNEL, RING_VA, SCRATCH

PROGRESS_VA, SIDE_VA = 0x7F99_0000_0FC0, 0x7E00_0000_0000
LAPS = 3 << 40
"""Of the ring: positions of a queue that has worked for long."""
MAILBOX = Mailbox(0, 0)
BLOCK = (64, 1, 1)
TWO_XCCS = Target(pm4.flavour_of("gfx942"), architected_scratch=True, xccs=2)
ASKS = replace(KERNEL, kernarg_bytes=36, hidden=(Hidden(28, 4, "hidden_block_count_x"),))
SECOND = [1, 2, 3, 4]


class Plain:
    """What a ring is in front of. `rung` is what its doorbell was given."""

    def __init__(self, ring_bytes: int) -> None:
        self.progress, self.rung = memoryview(bytearray(64)), list[int]()
        self.side = memoryview(bytearray(SLOTS * SIDE_BYTES))
        self.hw: Any = SimpleNamespace(
            ring=SimpleNamespace(gpu_va=RING_VA),
            ring_view=memoryview(bytearray(ring_bytes)),
            write_pointer=memoryview(bytearray(8)).cast("Q"),
            read_pointer=memoryview(bytearray(8)).cast("Q"),
            doorbell=self.rung.append,
        )
        side = SimpleNamespace(view=lambda: self.side, gpu_va=SIDE_VA, free=None)
        self.iface: Any = SimpleNamespace(allocate=lambda *args, **kw: side)
        self.parts = RingParts(
            name="ring", arch="gfx1100", clock=lambda: 0.0, sleep=lambda ms: None,
            progress=lambda: self.progress, progress_va=PROGRESS_VA, lock=nullcontext(),
            hang_s=1.0, wait=lambda rings, reached: Waited.STUCK,
        )  # fmt: skip

    def done(self, position: int) -> None:
        """As the hardware says."""
        self.progress.cast("Q")[0] = position


def pm4_ring(target: Target) -> tuple[Plain, Pm4Ring]:
    plain = Plain(RING_BYTES)
    return plain, Pm4Ring(plain.parts, plain.hw, target, MAILBOX)


def aql_ring() -> tuple[Plain, AqlRing]:
    plain = Plain(AQL_RING_BYTES)
    return plain, AqlRing(plain.parts, plain.hw, GFX11, MAILBOX, plain.iface)


@pytest.mark.parametrize("target", [GFX11, TWO_XCCS], ids=["one XCC", "two XCCs"])
@pytest.mark.parametrize("asks", [False, True], ids=["plain", "hidden"])
def test_pm4_launches_in_place(target: Target, asks: bool) -> None:
    """The same words as a launch of three dimensions; none of a launch is left in the next one."""
    kernel = replace(ASKS if asks else KERNEL, properties=8 if target is TWO_XCCS else 0x408)
    launcher = (HiddenLauncher if asks else Launcher)(target, kernel, SCRATCH, BLOCK, PROGRESS_VA)
    plain, ring = pm4_ring(target)
    ring.put = first = LAPS * ring.size + 256
    plain.done(first)
    for words, grid in ((ARGUMENTS, 7), (SECOND, 1 << 30), (ARGUMENTS, 7)):
        at, mark = ring.put * 4 % RING_BYTES, ring.put + launcher.nwords
        kernarg_va, expected = RING_VA + at + launcher.arguments_off, bytearray(launcher.nbytes)
        values = launcher.values(words, kernarg_va, (grid, 1, 1), mark)
        launcher.pack_into(expected, 0, *values)
        ring.quick(launcher, words, grid)
        check(bytes(ring.bytes[at : at + launcher.nbytes]) == expected, f"{words} {grid}")
        check((ring.put, ring.write_pointer[0], plain.rung[-1]) == (mark, mark, mark))


@pytest.mark.parametrize("asks", [False, True], ids=["plain", "hidden"])
def test_aql_launches_in_place(asks: bool) -> None:
    launcher = (HiddenAqlLauncher if asks else AqlLauncher)(ASKS if asks else KERNEL, BLOCK)
    plain, ring = aql_ring()
    ring.put = LAPS * SLOTS + 5
    plain.done(ring.put)
    for words, grid in ((ARGUMENTS, 7), (SECOND, 1 << 20), (ARGUMENTS, 7)):
        slot, mark = ring.put % SLOTS, ring.put + 1
        off, expected = slot * SIDE_BYTES, bytearray(PACKET_BYTES)
        launcher.pack_into(expected, 0, *launcher.values(SIDE_VA + off, (grid, 1, 1)))
        ring.quick(launcher, words, grid)
        at = slot * PACKET_BYTES
        check(bytes(ring.bytes[at : at + PACKET_BYTES]) == expected, f"{words} {grid}")
        check(struct.unpack_from("<3QI", plain.side, off) == tuple(words))
        check(struct.unpack_from("<I", plain.side, off + 28)[0] == (grid if asks else 0))
        check((ring.put, ring.write_pointer[0], plain.rung[-1]) == (mark, mark, mark - 1))
    with pytest.raises(BadArgument, match="workgroups of 64"):
        ring.quick(launcher, ARGUMENTS, 1 << 26)
    check(ring.put == mark, "it was given all the same")


def launched(plain: Plain, ring: Pm4Ring | AqlRing, launch: Callable[[], None]) -> list[bool]:
    """Launches of three laps that the hardware keeps up with: which of them interrupt."""
    asked: list[bool] = []
    for _ in range(3 * ring.size):
        if ring.put >= 3 * ring.size:
            break
        before = ring.asked
        launch()
        plain.done(ring.put)
        asked.append(ring.asked != before)
    return asked


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_ring_asks_for_interrupts_where_it_fills_up(queue: str) -> None:
    """None while the hardware keeps up; one in a half of the ring once it does not."""
    plain: Plain
    ring: Pm4Ring | AqlRing
    if queue == "PM4":
        plain, ring = pm4_ring(GFX11)
        pm4_launcher = Launcher(GFX11, KERNEL, SCRATCH, BLOCK, PROGRESS_VA)
        words = pm4_launcher.nwords
    else:
        plain, ring = aql_ring()
        words = 1
    launcher = pm4_launcher if queue == "PM4" else AqlLauncher(KERNEL, BLOCK)
    kept_up = launched(plain, ring, lambda: ring.quick(launcher, ARGUMENTS, 7))
    check(len(kept_up) > 2 * ring.size // words and not any(kept_up), f"{sum(kept_up)} interrupts")
    stopped = ring.put
    for _ in range(3 * ring.size // words // 4):
        ring.quick(launcher, ARGUMENTS, 7)
    check(stopped < ring.asked <= stopped + ring.size // 2 + 2 * words, f"{ring.asked - stopped}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize("main", ["a launch", "packets"])
def test_a_handler_launches_while_another_one_is_written(queue: str, main: str) -> None:
    """At every place of the driver, the search for room included: both are in the ring, whole."""
    made = Launcher(GFX11, KERNEL, SCRATCH, BLOCK, PROGRESS_VA)
    launcher = made if queue == "PM4" else AqlLauncher(KERNEL, BLOCK)
    packets = pm4.nop(words=80)

    def fresh() -> tuple[Plain, Pm4Ring | AqlRing]:
        return pm4_ring(GFX11) if queue == "PM4" else aql_ring()

    def write(ring: Pm4Ring | AqlRing) -> None:
        if main == "packets":
            ring.emit(packets)
        else:
            ring.quick(launcher, ARGUMENTS, 7)

    def launch(ring: Pm4Ring | AqlRing) -> None:
        ring.quick(launcher, SECOND, 9)

    def held(plain: Plain, ring: Pm4Ring | AqlRing) -> list[bytes]:
        nbytes = ring.put * ring.unit_bytes
        side = [bytes(plain.side[slot * SIDE_BYTES :][:32]) for slot in range(2)]
        return [bytes(ring.bytes[:nbytes]), *side]

    allowed = list[list[bytes]]()
    for order in ((launch, write), (write, launch)):
        plain, ring = fresh()
        for work in order:
            work(ring)
        allowed.append(held(plain, ring))
    _, ring = fresh()
    ring.limit = 0  # the search for room has a function of its own
    places(partial(write, ring))  # Python 3.13 traces instructions from the second call on
    seen = 1
    for at in range(200):
        plain, ring = fresh()
        ring.limit = 0
        signal = Signal(partial(launch, ring), at)
        signal.run(partial(write, ring))
        if not at:  # nothing came
            seen = signal.seen
        elif at <= seen:
            check(held(plain, ring) in allowed, f"place {at} of {seen}")
    check(seen > 5, f"{seen} places")


def test_ready_packets_go_on_at_the_front_of_the_ring() -> None:
    plain, ring = aql_ring()
    for before, count in ((SLOTS - 3, 8), (LAPS * SLOTS - 8, 8), (LAPS * SLOTS + 1, 8)):
        ring.put = before
        plain.done(before)
        packets = memoryview(bytes(range(1, count + 1)) * PACKET_BYTES)
        check(ring.play(packets) == before + count and plain.rung[-1] == before + count - 1)
        for number in range(count):
            at = (before + number) % SLOTS * PACKET_BYTES
            data = bytes(packets[number * PACKET_BYTES :][:PACKET_BYTES])
            check(bytes(ring.bytes[at : at + PACKET_BYTES]) == data, f"packet {number} of {before}")
