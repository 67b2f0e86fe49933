"""Registers by address: storage, and behaviour where a block has attached some.

A block's part attaches itself in its constructor: `block.on_write("CP_HQD_ACTIVE", self._active)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from boards.amd.pci.register_table import Table

Reader = Callable[[], int]
Writer = Callable[[int], None]
Key = Hashable
Find = Callable[[str, str, str], None]
_WORD = 0xFFFF_FFFF
_ONE: Key = ()


@dataclass(frozen=True, slots=True)
class _Bank:
    """Which copy of a register a read returns, and which ones a write reaches."""

    read: Callable[[], Key]
    write: Callable[[], Iterable[Key]]


class Block:
    """One instance of one IP block."""

    def __init__(
        self, name: str, instance: int, bases_dw: Sequence[int], table: Table, find: Find
    ) -> None:
        self.name, self.instance, self.table = name, instance, table
        self.bases_dw = tuple(bases_dw)
        self._find = find
        self._values: dict[tuple[str, Key], int] = {}
        self._presets: dict[str, int] = {}
        self._readers: dict[str, Reader] = {}
        self._writers: dict[str, Writer] = {}
        self._banks: dict[str, _Bank] = {}
        self._read_only: set[str] = set()
        self.is_up: Callable[[str], bool] = lambda name: True
        """Whether a register takes what is written: its part of the block is out of reset."""

    def has(self, name: str) -> bool:
        """Whether this version of the block has such a register."""
        return name in self.table

    def address_dw(self, name: str) -> int:
        """Where a register is, counted in dwords. Raises: KeyError."""
        register = self.table[name]
        return self.bases_dw[register.segment] + register.offset_dw

    # What a part of the board attaches

    def on_read(self, name: str, reader: Reader) -> None:
        """A read of the register asks `reader` instead of storage."""
        self._readers[self._known(name)] = reader

    def on_write(self, name: str, writer: Writer) -> None:
        """A write is stored, and then passed to `writer`."""
        self._writers[self._known(name)] = writer

    def read_only(self, *names: str) -> None:
        """Writes change nothing and are violations."""
        self._read_only.update(self._known(name) for name in names)

    def bank(
        self,
        names: Iterable[str],
        read: Callable[[], Key],
        write: Callable[[], Iterable[Key]] | None = None,
    ) -> None:
        """Registers of which there are several copies; another register selects."""
        bank = _Bank(read, write or (lambda: (read(),)))
        for name in names:
            self._banks[self._known(name)] = bank

    def preset(self, name: str, value: int) -> None:
        """What a register holds after reset; zero unless this is called."""
        self._presets[self._known(name)] = value

    def _known(self, name: str) -> str:
        if name not in self.table:
            raise KeyError(f"{self.name} has no register {name} in its table")
        return name

    # What hardware sees

    def key(self, name: str) -> Key:
        """The copy of a register that a read from the bus would return now."""
        bank = self._banks.get(name)
        return _ONE if bank is None else bank.read()

    def get(self, name: str, key: Key = _ONE) -> int:
        """What is stored, without any behaviour; `key` names the copy of a banked register."""
        value = self._values.get((name, key))
        return self._presets.get(name, 0) if value is None else value

    def put(self, name: str, value: int, key: Key = _ONE) -> None:
        """Store as hardware does: no behaviour, no rule."""
        self._values[self._known(name), key] = value & _WORD

    def field(self, name: str, field: str, key: Key = _ONE) -> int:
        """A field of what is stored."""
        return self.table[name].get(self.get(name, key), field)

    def put_field(self, name: str, field: str, number: int, key: Key = _ONE) -> None:
        """Replace a field of what is stored."""
        self.put(name, self.table[name].put(self.get(name, key), field, number), key)

    # What the bus does

    def read(self, name: str) -> int:
        """A read from the bus."""
        reader = self._readers.get(name)
        return self.get(name, self.key(name)) if reader is None else reader() & _WORD

    def write(self, name: str, value: int) -> None:
        """A write from the bus."""
        if name in self._read_only:
            self._find("write to a read-only register", f"{self}.{name}", f"{value:#x}")
            return
        if not self.is_up(name):
            self._find("write before its block is up", f"{self}.{name}", f"{value:#x}")
            return
        bank = self._banks.get(name)
        for key in (_ONE,) if bank is None else tuple(bank.write()):
            self._values[name, key] = value & _WORD
        writer = self._writers.get(name)
        if writer is not None:
            writer(value & _WORD)

    def gives(self, name: str) -> bool:
        """Whether a read answers more than the zero of storage that nobody has written."""
        known = name in self._readers or name in self._presets
        return known or (name, self.key(name)) in self._values

    def reset(self) -> None:
        """Every register forgets."""
        self._values.clear()

    def __str__(self) -> str:
        return f"{self.name}[{self.instance}]"


@dataclass(frozen=True, slots=True)
class Place:
    """The register behind an address."""

    block: Block
    name: str


class RegisterFile:
    """All blocks of a GPU by address; an address is counted in dwords."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.blocks: list[Block] = []
        self._places: dict[int, Place] = {}
        self.holes: set[int] = set()
        """Addresses without a register that drivers write all the same, as silicon lets them."""
        self.watch: Callable[[str, str, int], None] | None = None
        """Called with ("read" or "write", "GC[0].CP_STAT", value) at every access, or None."""
        self.lacking: Callable[[str, str, int], None] | None = None
        """Called so ("dword 0x1260") for an address that no table has; it reports the violation."""
        self.known_as: Callable[[int], str] = lambda address_dw: f"dword {address_dw:#x}"
        """What reports call such an address: by its register in Linux's headers, where one is."""

    def add(self, block: Block, shift_dw: int = 0) -> Block:
        """Place the registers of a block; where two blocks share an address the first has it."""
        self.blocks.append(block)
        for name in block.table:
            self._places.setdefault(block.address_dw(name) + shift_dw, Place(block, name))
        return block

    def every(self, name: str) -> list[Block]:
        """All instances of a block, in order."""
        return [block for block in self.blocks if block.name == name]

    def at(self, address_dw: int) -> Place | None:
        """The register at an address."""
        return self._places.get(address_dw)

    def read(self, address_dw: int) -> int:
        """A read that arrived from the bus or through an index and data pair."""
        place = self._places.get(address_dw)
        if place is None:
            self._no_register("read", address_dw, 0)
            return 0
        value = place.block.read(place.name)
        if self.watch is not None:
            self.watch("read", f"{place.block}.{place.name}", value)
        return value

    def write(self, address_dw: int, value: int) -> None:
        """The same for a write."""
        place = self._places.get(address_dw)
        if place is None and address_dw in self.holes:
            return
        if place is None:
            self._no_register("write", address_dw, value)
            return
        if self.watch is not None:
            self.watch("write", f"{place.block}.{place.name}", value)
        place.block.write(place.name, value)

    def _no_register(self, kind: str, address_dw: int, value: int) -> None:
        where = self.known_as(address_dw)
        if self.lacking is not None:
            self.lacking(kind, where, value)
        else:
            self._find("unknown register", f"{kind} of {where}", f"{value:#x}")

    def reset(self) -> None:
        """Every register of every block forgets."""
        for block in self.blocks:
            block.reset()
