"""From a word to a step: where operands come from, what is read and what is written.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (forms of ALU operands, modifiers' bits)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from boards.machine.arrays import Array
from boards.nv.isa.control import Control
from boards.nv.warp.arch import Arch
from boards.nv.warp.fields import TRUE, ZERO, Bits, NotModelled
from boards.nv.warp.state import Threads

Source = Callable[[Threads], Array]
Action = Callable[[Threads, Array], None]
REGISTER, UNIFORM, PREDICATE, UNIFORM_PREDICATE = range(4)
"""Register files."""
_FORM_LOW, _FORM_BITS = 9, 3
_B_REGISTER, _C_IMMEDIATE, _C_CONSTANT, _B_IMMEDIATE, _B_CONSTANT, _B_UNIFORM, _C_UNIFORM = range(
    1, 8
)
_ALL_ONES = 0xFFFFFFFF
_UNIFORM_BIT = 91
WIDE = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, ready to run."""

    name: str
    offset: int
    control: Control
    guard: Source | None
    guards: tuple[tuple[int, int, int], ...]
    run: Action
    reads: tuple[tuple[int, int, int], ...]
    """(file, register, which source it belongs to)"""
    writes: tuple[tuple[int, int], ...]
    latency: str
    """Its class in latency.py; a result of "variable" needs a scoreboard."""
    pure: bool = False
    """Whether it only computes its results from its sources, each thread for itself."""
    values: tuple[int, ...] = ()
    """Immediates and constants that it reads."""
    needs: Mapping[int, int] = field(default_factory=dict)
    """Of a register that is not read whole, the bits that are."""


class Builder(Bits):
    """Takes a word apart. `a`, `b`, `c` are the sources of an ALU instruction."""

    def __init__(self, word: int, offset: int, banks: dict[int, bytes], arch: Arch) -> None:
        super().__init__(word)
        self.offset, self._banks, self.arch = offset, banks, arch
        self._nothing = (ZERO, arch.uniform_zero, TRUE, TRUE)
        self.reads: list[tuple[int, int, int]] = []
        self.writes: list[tuple[int, int]] = []
        self.latency = "alu"
        self.values: list[int] = []
        """Immediates and constants that are read."""
        self.needs: dict[int, int] = {}
        self.waits = 0
        """Scoreboards that the instruction itself waits for, beside those of its control word."""
        self.group: int | None = None
        """A scoreboard that the result waits for, beside that of its control word."""
        self.extends = False
        """An immediate of a pair is extended with its sign."""
        self.doubles = False
        """An immediate is the high word of a double."""

    # What is read

    def _read(self, file: int, register: int, source: int = 0) -> None:
        if register != self._nothing[file]:
            self.reads.append((file, register, source))

    def gpr(self, low: int, source: int = 0, count: int = 1) -> int:
        """A register that is read, or the first of several."""
        number = self.register(low)
        if number != ZERO:
            if number % count:
                raise NotModelled(f"R{number} as the first of {count}")
            for each in range(number, number + count):
                self._read(REGISTER, each, source)
        return number

    def predicate_in(self, low: int, negated: int, *, uniform: bool = False) -> Source:
        """A predicate that is read, or its opposite."""
        number, invert = self.predicate(low), bool(self.take(negated))
        self._read(UNIFORM_PREDICATE if uniform else PREDICATE, number)
        if uniform:
            return lambda t: t.uniform_predicates[number] ^ invert
        return lambda t: t.predicates[number] ^ invert

    def _of_register(self, low: int, source: int, part: int) -> Source:
        number = self.register(low)
        if number == ZERO:
            return lambda t: t.registers[ZERO]
        self._read(REGISTER, number + part, source + part)
        return lambda t: t.registers[number + part]

    def uniform(self, low: int, width: int = 8) -> int:
        """The number of a uniform register. Raises: NotModelled."""
        number = self.take(low, width)
        if number > self.arch.uniform_zero:
            raise NotModelled(f"UR{number}")
        return number

    def uniform_source(self, low: int, width: int = 8) -> int:
        """The number of a uniform register that is read."""
        number = self.uniform(low, width)
        self._read(UNIFORM, number)
        return number

    def _of_uniform(self, low: int, source: int, part: int) -> Source:
        number = self.uniform(low)
        if number == self.arch.uniform_zero:
            return lambda t: t.uniforms[number]
        self._read(UNIFORM, number + part, source)
        return lambda t: t.uniforms[number + part]

    def constant_bytes(self, low: int, width: int, nbytes: int, part: int = 0) -> bytes:
        """Bytes of the constant bank whose number stands at 54, their offset in a field."""
        offset = self.take(low, width) + nbytes * part
        bank = self._banks.get(self.take(54, 5), b"")
        if offset + nbytes > len(bank):
            raise NotModelled(f"a constant at {offset:#x} of a bank of {len(bank):#x} bytes")
        return bank[offset : offset + nbytes]

    def constant(self, low: int, part: int = 0) -> Source:
        """A word of a constant bank. # src: offset at 38, bank at 54 of the word"""
        return self.constant_at(low + 6, 16, part)

    def constant_at(self, low: int, width: int, part: int = 0) -> Source:
        """A word of the constant bank whose number stands at 54, its offset in a field."""
        value = np.uint32(int.from_bytes(self.constant_bytes(low, width, 4, part), "little"))
        self.values.append(int(value))
        return lambda t: np.broadcast_to(value, t.count)

    @property
    def form(self) -> int:
        """Which of the sources is no register."""
        return self.take(_FORM_LOW, _FORM_BITS)

    def a(self, part: int = 0, *, uniform: bool = False) -> Source:
        """The first source."""
        return self._of_uniform(24, 0, part) if uniform else self._of_register(24, 0, part)

    def _at_32(self, kind: int, source: int, part: int, *, uniform: bool) -> Source:
        if kind in (_B_IMMEDIATE, _C_IMMEDIATE):
            value = np.uint32(self._immediate(part))
            self.values.append(int(value))
            return lambda t: np.broadcast_to(value, t.count)
        if kind in (_B_CONSTANT, _C_CONSTANT):
            return self.constant(32, part)
        if kind in (_B_UNIFORM, _C_UNIFORM) or uniform:
            if not self.take(_UNIFORM_BIT):
                raise NotModelled("a uniform source without its bit")
            return self._of_uniform(32, source, part)
        return self._of_register(32, source, part)

    def _immediate(self, part: int) -> int:
        """An immediate of 64 bits is a word, extended with its sign for a signed product."""
        value = self.take(32, 32)
        if self.doubles:
            return value if part else 0
        if not part:
            return value
        return _ALL_ONES if value >> 31 and (self.extends or self.take(73)) else 0

    def b(self, part: int = 0, *, uniform: bool = False) -> Source:
        """The second source."""
        form = self.form
        if form in (_C_IMMEDIATE, _C_CONSTANT, _C_UNIFORM):
            return self._of_uniform(64, 1, part) if uniform else self._of_register(64, 1, part)
        return self._at_32(form, 1, part, uniform=uniform)

    def c(self, part: int = 0, *, uniform: bool = False) -> Source:
        """The third source."""
        form = self.form
        if form in (_C_IMMEDIATE, _C_CONSTANT, _C_UNIFORM):
            return self._at_32(form, 2, part, uniform=uniform)
        return self._of_uniform(64, 2, part) if uniform else self._of_register(64, 2, part)

    def b_sign(self, *, absolute: bool = False) -> tuple[bool, bool]:
        """(negated, absolute) of the second source."""
        if self.form == _B_IMMEDIATE:
            return False, False
        if self.form in (_C_IMMEDIATE, _C_CONSTANT, _C_UNIFORM):
            return bool(self.take(75)), absolute and bool(self.take(74))
        return bool(self.take(63)), absolute and bool(self.take(62))

    def c_sign(self, *, absolute: bool = False) -> tuple[bool, bool]:
        """(negated, absolute) of the third source."""
        if self.form == _C_IMMEDIATE:
            return False, False
        if self.form in (_C_CONSTANT, _C_UNIFORM):
            return bool(self.take(63)), absolute and bool(self.take(62))
        return bool(self.take(75)), absolute and bool(self.take(74))

    def needs_bits(self, register: int, bits: int) -> None:
        """Of a register, some bits are read."""
        if register != ZERO:
            self.needs[register] = self.needs.get(register, 0) | bits

    # What is written

    def gpr_out(self, low: int = 16, count: int = 1) -> int:
        """A register that is written, or the first of several."""
        number = self.register(low)
        if number != ZERO:
            if number % count:
                raise NotModelled(f"R{number} as the first of {count}")
            self.writes += [(REGISTER, each) for each in range(number, number + count)]
        return number

    def uniform_out(self, count: int = 1) -> int:
        """A uniform register that is written, or the first of several."""
        number = self.uniform(16)
        if number != self.arch.uniform_zero:
            self.writes += [(UNIFORM, each) for each in range(number, number + count)]
        return number

    def predicate_out(self, low: int, *, uniform: bool = False) -> int:
        """A predicate that is written."""
        number = self.predicate(low)
        if number != TRUE:
            self.writes.append((UNIFORM_PREDICATE if uniform else PREDICATE, number))
        return number
