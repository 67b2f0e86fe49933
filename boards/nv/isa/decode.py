"""A 128-bit SASS word becomes an Instruction: mnemonic, modifiers, operands, guard, control.

The form comes from the architecture's table (table.py); nothing here knows an opcode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from boards.nv.isa.control import (
    REUSE_LOW,
    STALL_LOW,
    YIELD_BIT,
    Control,
    field,
)
from boards.nv.isa.table import Form, Table, table

WORD_BYTES = 16
_WORD_BITS = 128
_SHOWN_DIGITS = 32

# src: Mesa src/nouveau/compiler/nak/sm70_encode.rs: opcode 0..11, guard 12..14 and its sign 15
_OPCODE_BITS = 12
_GUARD_LOW, _GUARD_BITS, _GUARD_NOT = 12, 3, 15
_TRUE = 7

# What the tables call opex: three reuse bits above stall and yield.
# measured: nvdisasm 13.5.37 names the value of these eight bits where it refuses them
_STALL_YIELD_BITS, _OPEX_REUSE_BITS = 5, 3
_CACHED = 1 << 16


class UnknownInstruction(Exception):
    """The architecture has no instruction of these bits; ``word`` and ``arch`` say which."""

    def __init__(self, word: int, arch: str) -> None:
        self.word, self.arch = word, arch
        super().__init__(f"{arch} has no instruction {word:0{_SHOWN_DIGITS}x}")


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate that lets the instruction run; 7 is always true."""

    register: int
    negated: bool
    file: str = "P"
    """P or UP; empty where the listing does not show a guard."""

    @property
    def always(self) -> bool:
        """Whether no predicate is asked."""
        return self.register == _TRUE and not self.negated


@dataclass(frozen=True, slots=True)
class Field:
    """A part of the text and the field that it comes from: low bit, number, kind of number.

    ``low`` is -1 for a literal, which has no number. ``kind`` is one of number_text's
    (``R UR P UP f32 hex*4``) or ``text`` where each value has a word of its own.
    """

    text: str
    low: int = -1
    value: int = 0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: its parts, in order. ``numbers`` are the registers and immediates in it."""

    parts: tuple[Field, ...]

    @property
    def text(self) -> str:
        """As the listing shows it."""
        return "".join(part.text for part in self.parts).strip()

    @property
    def numbers(self) -> tuple[Field, ...]:
        """The parts that are fields with a number: registers, offsets, banks, immediates."""
        return tuple(part for part in self.parts if part.low >= 0 and part.kind != "text")

    @property
    def kind(self) -> str:
        """``constant``, ``address``, ``register``, ``uniform``, ``predicate`` or ``immediate``."""
        text = self.text.lstrip("-~!|")
        for start, name in _KINDS:
            if text.startswith(start):
                return name
        return "immediate"

    @property
    def negated(self) -> bool:
        """A minus, a complement or a logical not in front."""
        return self.kind != "immediate" and self.text[0] in "-~!"

    @property
    def absolute(self) -> bool:
        """Bars around the value."""
        return "|" in self.text


_KINDS = (
    ("c[", "constant"),
    ("cx[", "constant"),
    ("desc[", "address"),
    ("gdesc[", "address"),
    ("tmem[", "address"),
    ("[", "address"),
    ("a[", "address"),
    ("SR_", "special"),
    ("SB", "scoreboard"),
    ("B", "barrier"),
    ("UP", "uniform predicate"),
    ("UR", "uniform"),
    ("PT", "predicate"),
    ("PR", "predicates"),
    ("P", "predicate"),
    ("R", "register"),
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded word. ``fields`` are all modifiers, named ones and those that print nothing."""

    arch: str
    word: int
    mnemonic: str
    fields: tuple[Field, ...]
    operands: tuple[Operand, ...]
    guard: Guard
    control: Control
    relative: bool

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers of the listing, in its order and without dots."""
        return tuple("".join(part.text for part in self.fields).split(".")[1:])

    def modifier(self, low: int) -> Field | None:
        """The modifier whose lowest bit is ``low``, or None where the form has none there."""
        return next((part for part in self.fields if part.low == low), None)


def _parts(form: Form, word: int) -> Iterator[Field]:
    """The form's text in parts; a field that its table does not have ends the decoding."""
    for item in form.items:
        if isinstance(item, str):
            yield Field(item)
            continue
        value = item.value(word)
        text = item.text(value)
        if text is None:
            raise LookupError
        yield Field(text, item.bits[0], value, item.kind)


def _split(parts: list[Field]) -> tuple[list[Field], list[list[Field]]]:
    """Modifiers in front of the first blank, then operands between commas."""
    head: list[Field] = []
    groups: list[list[Field]] = []
    target = head
    for part in parts:
        separator = ", " if target is not head else " "
        pieces = part.text.split(separator, 1) if separator in part.text else [part.text]
        while True:
            if pieces[0] or part.low >= 0:
                target.append(Field(pieces[0], part.low, part.value, part.kind))
            if len(pieces) == 1:
                break
            target = []
            groups.append(target)
            pieces = pieces[1].split(", ", 1)
            part = Field(pieces[0])
    return head, groups


def _legal(form: Form, word: int) -> bool:
    """Whether the scheduling bits and the fields without a text are ones that the form takes."""
    opex = field(word, REUSE_LOW, _OPEX_REUSE_BITS) << _STALL_YIELD_BITS
    opex |= field(word, STALL_LOW, _STALL_YIELD_BITS)
    if form.schedules is not None and not form.schedules >> opex & 1:
        return False
    shown = _without_reuse(word)
    return all(slot.text(slot.value(shown)) is not None for slot in form.legal)


def _without_reuse(word: int) -> int:
    """Reuse bits count only where bit 109 is set; elsewhere the pair means something else."""
    if word >> YIELD_BIT & 1:
        return word
    return word & ~(((1 << _OPEX_REUSE_BITS) - 1) << REUSE_LOW) | 1 << YIELD_BIT


@lru_cache(maxsize=_CACHED)
def decode(word: int, arch: str) -> Instruction:
    """The instruction of a 128-bit word on ``sm_86`` or another architecture with a table.

    Raises: UnknownInstruction; NoTable.
    """
    return read(word, table(arch))


def read(word: int, known: Table) -> Instruction:
    """The instruction of a word by a table. Raises: UnknownInstruction."""
    arch = known.arch
    opcode = field(word, 0, _OPCODE_BITS)
    form = known.form(opcode, word)
    if form is None or not _legal(form, word):
        raise UnknownInstruction(word, arch)
    try:
        head, groups = _split(list(_parts(form, _without_reuse(word))))
    except LookupError:
        raise UnknownInstruction(word, arch) from None
    name, _, rest = head[0].text.partition(".")
    head[0] = Field(f".{rest}" if rest else "")
    operands = tuple(Operand(tuple(group)) for group in groups)
    return Instruction(
        arch=arch,
        word=word,
        mnemonic=name,
        fields=tuple(part for part in head if part.text or part.low >= 0),
        operands=tuple(operand for operand in operands if operand.text),
        guard=Guard(
            register=field(word, _GUARD_LOW, _GUARD_BITS),
            negated=bool(word >> _GUARD_NOT & 1),
            file=known.guards.get(opcode, "P"),
        ),
        control=Control.of(word),
        relative=form.relative,
    )
