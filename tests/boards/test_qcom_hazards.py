"""Random ir3 programs, legalized: the board finds no hazard, until a wait is taken out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from boards.machine.arrays import Addresses, Array
from boards.qcom.wave.dispatch import Dispatch, Outcome, PageFault
from boards.qcom.wave.execute import run
from compilers.qcom.isa import (
    Cond,
    Insn,
    Kind,
    Operand,
    Type,
    branch,
    compare,
    cov,
    encode_all,
    gpr,
    half,
    immediate,
    label,
    link,
    load,
    mov,
    op,
    predicate,
    store,
)
from compilers.qcom.isa.text import text
from compilers.qcom.legalize import legalize
from compilers.qcom.schedule import schedule
from tests.support import check

PROGRAMS = 24
REGISTERS = 24
BASE, NBYTES = 0x5_0000_0000, 4096
CODE_VA = 0x6_0000_0000
ADDRESS, LOCAL = 4 * 40, 4 * 41
"""r40.xy: an address of global memory; r41.x: one of local memory. Nothing overwrites them."""
SCRATCH_ADDRESS = 4 * 42
"""r42.xy: an address that programs write again and again."""
STEPS = 40
KEPT_AT = 2560
"""Where a program leaves its registers at its end."""


class Flat:
    """One mapped range."""

    def __init__(self) -> None:
        self.data = np.zeros(NBYTES, np.uint8)

    def _at(self, va: Addresses, nbytes: int, access: str) -> Array:
        at = (va - np.uint64(BASE)).astype(np.int64)
        if ((at < 0) | (at + nbytes > NBYTES)).any():
            raise PageFault(int(va[0]), access)
        return at

    def gather(self, va: Addresses, item: int, count: int) -> Array:
        """Items of each address."""
        at = self._at(va, item * count, "read")
        octets = self.data[at[:, None] + np.arange(item * count)]
        return np.ascontiguousarray(octets).view(f"u{item}")

    def scatter(self, va: Addresses, data: Array) -> None:
        """Items to each address."""
        octets = np.ascontiguousarray(data).view(np.uint8).reshape(len(va), -1)
        at = self._at(va, octets.shape[1], "write")
        self.data[at[:, None] + np.arange(octets.shape[1])] = octets


class Maker:
    """A program of random instructions on registers that all have values."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.code: list[Insn] = []
        self.labels = 0

    def full(self) -> Operand:
        """r0.x ... r5.w."""
        return gpr(self.chance.randrange(REGISTERS))

    def narrow(self) -> Operand:
        """A half of one of them."""
        return half(self.chance.randrange(2 * REGISTERS))

    def begin(self) -> None:
        """Values in all registers."""
        for place in range(REGISTERS):
            self.code.append(mov(Type.F32, gpr(place), immediate(0x3F800000 + place)))
        pairs = ((ADDRESS, BASE), (SCRATCH_ADDRESS, BASE))
        for first, value in pairs:
            self.code.append(mov(Type.U32, gpr(first), immediate(value & 0xFFFFFFFF)))
            self.code.append(mov(Type.U32, gpr(first + 1), immediate(value >> 32)))
        self.code.append(mov(Type.U32, gpr(LOCAL), immediate(0)))
        for component in range(4):
            self.code.append(mov(Type.U32, gpr(192 + component), immediate(component)))
        self.code.append(compare("cmps.f", Cond.LT, predicate(), gpr(0), gpr(1)))
        self.code.append(store("stl", Type.U32, gpr(LOCAL), gpr(0)))

    def step(self) -> None:
        """One instruction, or two that belong together."""
        self.chance.choice(self._steps())()

    def _steps(self) -> list[Callable[[], None]]:
        return [self._two, self._two, self._three, self._special, self._special, self._narrow,
                self._convert, self._repeat, self._far_load, self._far_load, self._far_store,
                self._near_load, self._near_store, self._shared, self._address, self._compare,
                self._skip, self._loop, self._lane, self._atomic]  # fmt: skip

    def _add(self, insn: Insn) -> None:
        self.code.append(insn)

    def _two(self) -> None:
        name = self.chance.choice(["add.f", "mul.f", "add.u", "and.b", "xor.b", "max.s"])
        self._add(op(name, self.full(), self.full(), self.full()))

    def _three(self) -> None:
        name = self.chance.choice(["mad.f32", "sel.b32", "madsh.m16"])
        self._add(op(name, self.full(), self.full(), self.full(), self.full()))

    def _special(self) -> None:
        self._add(op(self.chance.choice(["rcp", "rsq", "exp2"]), self.full(), self.full()))

    def _narrow(self) -> None:
        self._add(op("add.f", self.narrow(), self.narrow(), self.narrow()))

    def _convert(self) -> None:
        if self.chance.random() < 0.5:
            self._add(cov(Type.F16, self.narrow(), Type.F32, self.full()))
        else:
            self._add(cov(Type.F32, self.full(), Type.F16, self.narrow()))

    def _repeat(self) -> None:
        times = self.chance.randrange(1, 4)
        first, second = (gpr(self.chance.randrange(REGISTERS - times)) for _ in range(2))
        grown = Operand(Kind.GPR, second.number, repeat=True)
        self._add(Insn(op="add.f", dst=first, srcs=(grown, self.full()), repeat=times))

    def _far_load(self) -> None:
        size = self.chance.randrange(1, 5)
        target = gpr(self.chance.randrange(REGISTERS - size))
        where = gpr(self.chance.choice([ADDRESS, SCRATCH_ADDRESS]))
        self._add(load("ldg", Type.U32, target, where, size, 4 * self.chance.randrange(16)))

    def _far_store(self) -> None:
        self._add(store("stg", Type.U32, gpr(ADDRESS), self.full(), 1, 2048))

    def _near_load(self) -> None:
        self._add(load("ldl", Type.U32, self.full(), gpr(LOCAL)))

    def _near_store(self) -> None:
        self._add(store("stl", Type.U32, gpr(LOCAL), self.full()))

    def _shared(self) -> None:
        if self.chance.random() < 0.5:
            self._add(mov(Type.U32, gpr(192 + self.chance.randrange(4)), immediate(7)))
        else:
            self._add(op("add.u", self.full(), gpr(192 + self.chance.randrange(4)), self.full()))

    def _address(self) -> None:
        self._add(mov(Type.U32, gpr(SCRATCH_ADDRESS), immediate(BASE & 0xFFFFFFFF)))

    def _compare(self) -> None:
        self._add(compare("cmps.f", Cond.LT, predicate(), self.full(), self.full()))

    def _skip(self) -> None:
        name = f"skip{self.labels}"
        self.labels += 1
        self._add(branch(name, predicate()))
        for _ in range(self.chance.randrange(1, 4)):
            self._simple()
        self._add(label(name))

    def _loop(self) -> None:
        name, count = f"loop{self.labels}", gpr(4 * 43)
        self.labels += 1
        self._add(mov(Type.U32, count, immediate(0)))
        self._add(label(name))
        for _ in range(self.chance.randrange(1, 5)):
            self._simple()
        self._add(op("add.u", count, count, immediate(1)))
        self._add(compare("cmps.u", Cond.LT, predicate(1), count, immediate(3)))
        self._add(branch(name, predicate(1)))

    def _simple(self) -> None:
        made = [self._two, self._three, self._special, self._far_load, self._near_load,
                self._convert, self._address]  # fmt: skip
        self.chance.choice(made)()

    def _lane(self) -> None:
        self._add(op("getfiberid", self.full(), type=Type.U32))

    def _atomic(self) -> None:
        fields = {"type": int(Type.U32)}
        sources = (gpr(ADDRESS), self.full())
        self._add(Insn(op="atomic.g.add", dst=self.full(), srcs=sources, fields=fields))


def program(seed: int, generation: int, *, ordered: bool = False) -> list[Insn]:
    """Legalized and linked; as it was made, or in the scheduler's order."""
    maker = Maker(seed)
    maker.begin()
    for _ in range(STEPS):
        maker.step()
    for place in range(REGISTERS):
        kept = store("stg", Type.U32, gpr(ADDRESS), gpr(place), 1, KEPT_AT + 4 * place)
        maker.code.append(kept)
    maker.code.append(op("end", None))
    code = schedule(maker.code, generation) if ordered else maker.code
    return link(legalize(code, generation))


def executed(code: list[Insn], generation: int, memory: Flat | None = None) -> Outcome:
    """On one workgroup of one wave."""
    words = encode_all(code, generation)
    words += bytes(-len(words) % 128)
    made = Dispatch(
        generation=generation, code=words, code_va=CODE_VA, constants=np.zeros(16, np.uint32),
        loaded=np.ones(16, bool), groups=(1, 1, 1), block=(64, 1, 1), full_registers=48,
        branch_stack=16, shared_bytes=1024, scalar_alu=generation == 7,
    )  # fmt: skip
    return run(made, memory or Flat())


def _hazards(outcome: Outcome) -> list[str]:
    return [str(one) for one in outcome.violations if "race" not in one.kind]


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("generation", [6, 7])
def test_random_programs_wait_enough(seed: int, generation: int) -> None:
    code = program(seed, generation)
    outcome = executed(code, generation)
    lines = "\n".join(text(insn, generation) for insn in code)
    check(outcome.fault is None, f"{outcome.fault}\n{lines}")
    check(not _hazards(outcome), "\n".join(_hazards(outcome)[:4]) + "\n" + lines)


def _slots(code: list[Insn]) -> int:
    return sum(insn.nop + (1 + insn.repeat if insn.op == "nop" else 0) for insn in code)


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("generation", [6, 7])
def test_another_order_leaves_the_same(seed: int, generation: int) -> None:
    plain, ordered = Flat(), Flat()
    executed(program(seed, generation), generation, plain)
    code = program(seed, generation, ordered=True)
    outcome = executed(code, generation, ordered)
    check(outcome.fault is None and not _hazards(outcome), str(_hazards(outcome)[:4]))
    check(
        bool((plain.data == ordered.data).all()), f"bytes {np.nonzero(plain.data - ordered.data)}"
    )


def test_another_order_has_fewer_free_slots() -> None:
    plain = sum(_slots(program(seed, 6)) for seed in range(6))
    ordered = sum(_slots(program(seed, 6, ordered=True)) for seed in range(6))
    check(ordered < 0.95 * plain, f"{ordered}, not much fewer than {plain}")


def _without(code: list[Insn], place: int, what: str) -> list[Insn]:
    """A copy that lacks one wait."""
    made = [replace(insn, flags=set(insn.flags)) for insn in code]
    if what == "slot":
        made[place].nop -= 1
    else:
        made[place].flags.discard(what)
    return made


def _waits(code: list[Insn], what: str) -> list[int]:
    if what == "slot":
        return [place for place, insn in enumerate(code) if insn.nop]
    return [place for place, insn in enumerate(code) if what in insn.flags and insn.op != "lock"]


FOUND = {"ss": 0.5, "sy": 0.5, "slot": 0.5}
"""At least this share of removed waits is found; the others wait for the side not taken."""


@pytest.mark.parametrize("what", FOUND)
@pytest.mark.parametrize("seed", range(2))
def test_a_wait_that_is_taken_out_is_found(seed: int, what: str) -> None:
    code, found = program(seed, 6), 0
    places = _waits(code, what)
    for place in places:
        found += bool(_hazards(executed(_without(code, place, what), 6)))
    check(found >= FOUND[what] * len(places) > 0, f"{found} of {len(places)}")
