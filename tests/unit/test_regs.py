"""Registers: fields keep to their bits, unknown bits survive, waits end."""

from __future__ import annotations

import random
from enum import IntEnum

import pytest

from drivers.base.errors import DeviceGone, DeviceTimeout
from drivers.base.region import MemoryRegion
from drivers.base.regs import Block, Reg32, Reg64, at, bits
from tests.support import check


class State(IntEnum):
    IDLE = 0
    RUN = 1


class Control(Reg32):
    reset: int = bits(0)
    vmid: int = bits(7, 4)
    state: int = bits(9, 8, State)
    top: int = bits(31)


class Base(Reg64):
    low: int = bits(31, 0)
    high: int = bits(47, 32)


class Engine(Block):
    CONTROL = at(0x40, Control)
    BASE = at(0x48, Base)


class Clock:
    """A clock that only sleeping and looking advance."""

    def __init__(self) -> None:
        self.now_s, self.slept = 0.0, 0

    def monotonic_s(self) -> float:
        self.now_s += 1e-6
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now_s += seconds


def engine() -> tuple[Engine, bytearray]:
    memory = bytearray(0x100)
    return Engine(MemoryRegion(memory), clock=Clock()), memory


def test_fields_are_packed_where_the_declaration_says() -> None:
    check(Control(reset=1, vmid=5, state=State.RUN).raw == 1 | 5 << 4 | 1 << 8)
    check(Base(high=0xABCD).raw == 0xABCD << 32)
    rng = random.Random(1)
    for _ in range(200):
        raw = rng.getrandbits(32)
        reg = Control.of(raw)
        check((reg.reset, reg.vmid, reg.top) == (raw & 1, raw >> 4 & 15, raw >> 31), hex(raw))
        check(reg.replace(vmid=3).raw == raw & ~0xF0 | 0x30, "unknown bits survive")


def test_enums_are_named_and_unknown_values_stay_numbers() -> None:
    check(Control.of(0x100).state is State.RUN)
    check(Control.of(0x300).state == 3)
    check("State.RUN" in repr(Control.of(0x100)), repr(Control.of(0x100)))


@pytest.mark.parametrize(
    ("values", "error"),
    [({"vmid": 16}, ValueError), ({"vmid": -1}, ValueError), ({"vmdi": 1}, TypeError)],
)
def test_too_big_or_unknown_fields_are_refused(
    values: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Control(**values)


@pytest.mark.parametrize("raw", [-1, 1 << 32])
def test_of_takes_only_its_width(raw: int) -> None:
    with pytest.raises(ValueError, match="32-bit"):
        Control.of(raw)


@pytest.mark.parametrize("wrong", [(3, 3, 4, 3), (3, 0, 32, 31), (3, 0, 4, 6)])
def test_bad_declarations_do_not_become_classes(wrong: tuple[int, int, int, int]) -> None:
    fields = {"a": bits(wrong[0], wrong[1]), "b": bits(wrong[2], wrong[3])}
    with pytest.raises(TypeError):
        type("Wrong", (Reg32,), fields)


def test_a_register_is_a_value() -> None:
    with pytest.raises(AttributeError, match="replace"):
        Control().vmid = 3
    with pytest.raises(TypeError):
        Control().__eq__(0)
    check(Control(vmid=1) == Control.of(0x10) and hash(Control()) == hash(Control.of(0)))


def test_ports_read_and_write_at_their_offset() -> None:
    block, memory = engine()
    block.CONTROL.write(Control(vmid=9))
    check(memory[0x40:0x44] == bytes([0x90, 0, 0, 0]))
    memory[0x43] = 0x80
    block.CONTROL.update(reset=1)
    check(memory[0x40:0x44] == bytes([0x91, 0, 0, 0x80]))
    block.BASE.write(Base(low=1, high=2))
    check(memory[0x48:0x50] == bytes([1, 0, 0, 0, 2, 0, 0, 0]))
    check(block.BASE.read().high == 2)
    with pytest.raises(TypeError):
        block.CONTROL.write(Base())


def test_wait_returns_the_value_that_satisfied_it() -> None:
    block, memory = engine()
    seen: list[int] = []

    def ready(reg: Control) -> bool:
        seen.append(reg.raw)
        if len(seen) == 100:
            memory[0x40] = 1
        return reg.reset == 1

    check(block.CONTROL.wait(ready, 1.0).reset == 1)
    check(len(seen) == 101)


def test_wait_ends_at_its_deadline_with_the_last_value() -> None:
    block, memory = engine()
    memory[0x40] = 0x20
    with pytest.raises(DeviceTimeout, match=r"Engine\.CONTROL after 0\.5 s") as caught:
        block.CONTROL.wait(lambda reg: reg.reset == 1, 0.5)
    check(caught.value.register == "Engine.CONTROL" and caught.value.last == Control(vmid=2))
    check(isinstance(block.clock, Clock) and 100 < block.clock.slept < 2000, "it sleeps")


def test_a_zero_timeout_still_looks_once() -> None:
    block, memory = engine()
    memory[0x40] = 1
    check(block.CONTROL.wait(lambda reg: reg.reset == 1, 0.0).reset == 1)


def test_all_ones_is_a_device_that_left() -> None:
    block, memory = engine()
    memory[0x40:0x44] = b"\xff" * 4
    with pytest.raises(DeviceGone, match="all ones"):
        block.CONTROL.wait(lambda reg: reg.vmid == 3, 1.0)
