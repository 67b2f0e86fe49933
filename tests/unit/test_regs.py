"""Registers: fields keep to their bits, unknown bits survive."""

from __future__ import annotations

import random
from enum import IntEnum

import pytest

from drivers.base.regs import Reg32, bits
from tests.support import check


class State(IntEnum):
    IDLE = 0
    RUN = 1


class Control(Reg32):
    reset: int = bits(0)
    vmid: int = bits(7, 4)
    state: int = bits(9, 8, State)
    top: int = bits(31)


def test_fields_are_packed_where_the_declaration_says() -> None:
    check(Control(reset=1, vmid=5, state=State.RUN).raw == 1 | 5 << 4 | 1 << 8)
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
