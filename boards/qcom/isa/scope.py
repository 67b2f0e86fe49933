"""Fields of one word under one encoding: which case decides, what expressions give.

An operand's scope lies in its instruction's, and asks it for what the table passes down.
# src: Mesa 25.0.7, docs/isaspec.rst
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from boards.qcom.isa.forms import Form, form_of
from boards.qcom.isa.table import INSTRUCTION, Case, Encoding, Expression, Field, fitting, table

_GENERATION: Final = "ISA_GPU_ID"
OPTIONAL: Final = "NOP"
_ANY_LOW_BIT, _ANYTHING = ("ldib.b", "atomic.b."), 1
"""Bit 0, which compilers set at random. # src: Mesa 25.0.7, src/freedreno/isa/ir3-cat6.xml"""
_SIGNED: Final = frozenset({"int", "branch", "offset"})
_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "<<": operator.lshift, ">>": operator.rshift, "|": operator.or_,
    "&": operator.and_, "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


class UnknownInstruction(ValueError):
    """The generation has no instruction of these bits; `word` and `generation` say which."""

    def __init__(self, word: int, generation: int, why: str = "") -> None:
        self.word, self.generation = word, generation
        super().__init__(f"a{generation}xx has no instruction {word:016x}{why and f': {why}'}")


class Misfit(Exception):
    """Bits that no encoding of a set has, or that must be something else."""


def encoding_of(name: str, word: int, generation: int) -> Encoding:
    """The one encoding of a set that has these bits. Raises: Misfit."""
    found = fitting(name, word, generation)
    if len(found) != 1:
        raise Misfit(f"{len(found)} encodings of {name} have {word:x}")
    return found[0]


def signed(value: int, width: int) -> int:
    """Two's complement of so many bits."""
    half = 1 << width - 1
    return ((value & (1 << width) - 1) ^ half) - half


@dataclass(slots=True)
class Scope:
    """Some bits of a word, read as one encoding says."""

    encoding: Encoding
    bits: int
    generation: int
    """Times 100: 600, 700."""
    passed: Mapping[str, str] = field(default_factory=dict)
    outer: Scope | None = None
    _known: dict[str, int] = field(default_factory=dict)
    _asked: list[str] = field(default_factory=list)
    _form: Form | None = None

    def form(self) -> Form:
        """What holds for these bits."""
        if self._form is None:
            conditions = (case.condition for case in self.encoding.cases)
            holds = tuple(not one or bool(self.evaluate(one)) for one in conditions)
            self._form = form_of(self.encoding, holds)
        return self._form

    def find(self, name: str) -> Field | None:
        """The field of the case that decides; None: not of this encoding.

        While a case's own condition is evaluated, the case is taken to hold.
        """
        if self._form is not None:
            return self._form.fields.get(name)
        for case in self.encoding.cases:
            if name in case.fields and self._holds(case):
                return case.fields[name]
        return None

    def _holds(self, case: Case) -> bool:
        condition = case.condition
        asked = bool(self._asked) and self._asked[-1] == condition
        return not condition or asked or bool(self.evaluate(condition))

    def evaluate(self, name: str) -> int:
        """The value of an expression of the table."""
        if name not in self._known:
            self._asked.append(name)
            self._known[name] = self._value(table().expressions[name])
            self._asked.pop()
        return self._known[name]

    def _value(self, form: Expression) -> int:
        if isinstance(form, int):
            return form
        if isinstance(form, str):
            return self.generation if form == _GENERATION else self.raw(form)
        return self._operation(form)

    def _operation(self, form: tuple[Any, ...]) -> int:
        sign, *parts = form
        if sign == "and":
            return int(all(self._value(part) for part in parts))
        if sign == "or":
            return int(any(self._value(part) for part in parts))
        if sign == "not":
            return int(not self._value(parts[0]))
        left, right = parts
        return int(_OPERATORS[sign](self._value(left), self._value(right)))

    def resolve(self, name: str) -> tuple[Field, int, Scope]:
        """A field, its bits, and the scope that it is of. Raises: Misfit: there is none."""
        found = self.find(name)
        if found is not None:
            if found.expression:
                return found, self.evaluate(found.expression), self
            return found, self.bits >> found.low & (1 << found.width) - 1, self
        if self.outer is None or name not in self.passed:
            raise Misfit(f"{self.encoding.name} has no field {name}")
        return self.outer.resolve(self.passed[name])

    def lacks(self, name: str) -> bool:
        """Whether a text shows what the word does not have: (nopN) of dp2acc and dp4acc."""
        return name == OPTIONAL and self.find(name) is None

    def raw(self, name: str) -> int:
        """The bits of a field. Raises: Misfit."""
        return self.resolve(name)[1]

    def number(self, name: str) -> int:
        """The value of a field, with its sign. Raises: Misfit."""
        found, value, _ = self.resolve(name)
        return signed(value, found.width) if found.kind in _SIGNED else value

    def inner(self, found: Field, value: int) -> Scope:
        """The scope of an operand, `found.kind` being a set. Raises: Misfit."""
        encoding = encoding_of(found.kind, value, self.generation)
        return Scope(encoding, value, self.generation, found.passed, self)

    def shown(self) -> Case:
        """The case whose text is the encoding's. Raises: Misfit: none has one."""
        shown = self.form().shown
        if shown is None:
            raise Misfit(f"{self.encoding.name} has no text")
        return shown

    def surprise(self) -> str:
        """Bits that mean nothing and are set, or that must be something else; or nothing."""
        unused = self.bits & self.encoding.unused
        if unused and unused & ~(_ANYTHING if self.encoding.name.startswith(_ANY_LOW_BIT) else 0):
            return f"unused bits in {self.encoding.name}: {unused:x}"
        for low, high, expected in self.form().asserts:
            got = self.bits >> low & (1 << high + 1 - low) - 1
            if got != expected:
                return f"bits {low} to {high} of {self.encoding.name}: {got:b}"
        return ""


def scope_of(word: int, generation: int) -> Scope:
    """An instruction's scope; `generation` is 6 or 7. Raises: UnknownInstruction."""
    hundreds = generation * 100
    try:
        return Scope(encoding_of(INSTRUCTION, word, hundreds), word, hundreds)
    except Misfit as error:
        raise UnknownInstruction(word, generation, str(error)) from error
