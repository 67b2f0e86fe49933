"""Our own loader: a relocatable ELF object becomes one flat, position-independent image.

    code sections | jump stubs | (next page) data sections | slots

References inside the image are resolved here. A call of an external function (sinf, memcpy) goes to
a stub, which jumps through an eight-byte slot; the slot becomes a Fixup that the device fills in.

Source: System V gABI chapter 4; the relocations are in elf_x86_64.py and elf_aarch64.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from compilers.cpu.targets import Target, target
from compilers.objects import elf_aarch64, elf_x86_64
from compilers.objects.elf_read import Object, Relocation, Section, Symbol
from drivers.base.contracts import Binary, Fixup
from drivers.base.errors import MalformedInput

IMAGE_LIMIT_BYTES = 16 << 20
_SLOT_BYTES = 8


class Machine(Protocol):
    """Interface of an architecture's relocation file to the loader."""

    ABSOLUTE: int
    """The relocation that stores a whole 64-bit address."""
    SLOTS: frozenset[int]
    """Relocations that name the slot of a symbol and not the symbol."""
    CALLS: frozenset[int]
    """Branches: the only ones that may go through a stub."""
    STUB_BYTES: int

    @property
    def patch(self) -> Callable[[bytearray, int, int, int], None]:
        """patch(image, place, kind, value): resolve one relocation.

        Raises: MalformedInput for an unknown kind, or a value out of its range.
        """

    @property
    def stub(self) -> Callable[[int, int], bytes]:
        """stub(at, slot): code at `at` that jumps to the address held at `slot`."""


_MACHINES: dict[str, Machine] = {"x86_64": elf_x86_64, "aarch64": elf_aarch64}


@dataclass(slots=True)
class Link:
    """One object on its way to an image."""

    source: Object
    machine: Machine
    page_bytes: int
    image: bytearray = field(default_factory=bytearray)
    at: dict[int, int] = field(default_factory=dict)
    """Section number -> offset in the image."""
    slots: dict[Symbol, int] = field(default_factory=dict)
    stubs: dict[Symbol, int] = field(default_factory=dict)
    fixups: list[Fixup] = field(default_factory=list)
    data_offset: int = 0
    """Where the data sections start, on a page of their own."""

    def place(self, sections: list[Section]) -> None:
        """Append sections, each at its alignment."""
        for section in sections:
            self._grow(section.align)
            self.at[section.number] = len(self.image)
            if len(self.image) + section.nbytes > IMAGE_LIMIT_BYTES:
                raise MalformedInput(
                    f"ELF: section {section.number} makes the image larger than "
                    f"{IMAGE_LIMIT_BYTES >> 20} MiB"
                )
            self.image += section.data if section.data is not None else bytes(section.nbytes)

    def _grow(self, align: int) -> None:
        self.image += bytes(-len(self.image) % align)

    def reserve_stubs(self, relocations: list[Relocation]) -> None:
        """A slot for every external symbol, and a stub when it is called."""
        self._grow(16)
        for relocation in relocations:
            symbol = relocation.symbol
            if relocation.kind in self.machine.SLOTS or not symbol.section:
                self.slots.setdefault(symbol, 0)
            called = relocation.kind in self.machine.CALLS and not symbol.section
            if called and symbol not in self.stubs:
                self.stubs[symbol] = len(self.image)
                self.image += bytes(self.machine.STUB_BYTES)

    def reserve_slots(self) -> None:
        """Place the slots after the data, with a Fixup for each."""
        self._grow(_SLOT_BYTES)
        for symbol in self.slots:
            self.slots[symbol] = len(self.image)
            self.fixups.append(self._address(symbol, len(self.image), 0))
            self.image += bytes(_SLOT_BYTES)
        for symbol, at in self.stubs.items():
            code = self.machine.stub(at, self.slots[symbol])
            self.image[at : at + len(code)] = code

    def _address(self, symbol: Symbol, place: int, addend: int) -> Fixup:
        if not symbol.section:
            return Fixup(place, symbol.name, addend)
        goal = self.value(symbol) + addend
        if abs(goal) > IMAGE_LIMIT_BYTES:
            raise MalformedInput(f"ELF: the address at {place:#x} points {goal:#x} into the image")
        return Fixup(place, "", goal)

    def value(self, symbol: Symbol) -> int:
        """Where a symbol of this object lies in the image."""
        start = self.at.get(symbol.section)
        if start is None:
            raise MalformedInput(
                f"ELF: symbol {symbol.name!r} is in section {symbol.section}, which is not loaded"
            )
        return start + symbol.value

    def resolve(self, relocation: Relocation) -> None:
        """Write one relocation into the image, or leave it to the device as a Fixup."""
        symbol, kind = relocation.symbol, relocation.kind
        place = self.at[relocation.section] + relocation.offset
        if kind == self.machine.ABSOLUTE:
            if place + _SLOT_BYTES > len(self.image):
                raise MalformedInput(f"ELF: the address at {place:#x} leaves the image")
            self.fixups.append(self._address(symbol, place, relocation.addend))
            return
        if kind in self.machine.SLOTS:
            goal = self.slots[symbol]
        elif symbol.section:
            goal = self.value(symbol)
        elif kind in self.machine.CALLS:
            goal = self.stubs[symbol]
        else:
            raise MalformedInput(
                f"ELF: relocation {kind} reaches the outside symbol {symbol.name!r} directly",
                hint="Compile position-independent code",
            )
        self.machine.patch(self.image, place, kind, goal + relocation.addend)


def link(source: Object, machine: Machine, page_bytes: int) -> Link:
    """Lay out and resolve an object, without an entry. Raises: MalformedInput."""
    done = Link(source, machine, page_bytes)
    loaded = source.sections()
    relocations = source.relocations({section.number for section in loaded})
    done.place([section for section in loaded if section.code])
    done.reserve_stubs(relocations)
    done.image += bytes(-len(done.image) % page_bytes)
    done.data_offset = len(done.image)
    done.place([section for section in loaded if not section.code])
    done.reserve_slots()
    for relocation in relocations:
        done.resolve(relocation)
    return done


def load(blob: bytes, name: str, arch: str) -> Binary:
    """Lay out and link the object `blob`; `name` is the function to enter.

    Raises: MalformedInput for anything else than a relocatable object of `arch` with `name` in it.
    """
    goal: Target = target(arch)
    source = Object(blob, goal.machine)
    done = link(source, _MACHINES[arch], goal.page_bytes)
    entry = done.value(source.function(name))
    if entry >= done.data_offset:
        raise MalformedInput(f"ELF: {name!r} is not in a code section")
    return Binary(arch, name, bytes(done.image), entry, tuple(done.fixups), done.data_offset)
