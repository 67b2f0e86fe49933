"""The registers of one block of a GPU by name: `block.read("CP_STAT")`."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.bare.bus import RegisterBus
from drivers.bare.registers import WORD_BITS, WORD_MASK, Register, RegisterFile
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout, NotFound


class Block:
    """One instance of a block; every error names the boot step and the register."""

    def __init__(self, bus: RegisterBus, registers: RegisterFile, label: str,
                 bases: Sequence[int]) -> None:  # fmt: skip
        self.bus, self.registers, self.label = bus, registers, label
        self.bases = tuple(bases)

    def __contains__(self, name: str) -> bool:
        return name in self.registers

    def dword(self, name: str) -> int:
        """Where the register is: its dword in the register BAR, as packets and firmware count."""
        return self._place(self.registers.get(name))

    def _place(self, register: Register) -> int:
        if register.segment >= len(self.bases):
            raise NotFound(
                f"{self.label}.{register.name} is in segment {register.segment}, and the chip's "
                f"table has {len(self.bases)}",
                hint="The chip's discovery table is not the one that this driver knows",
            )
        return self.bases[register.segment] + register.offset_dw

    def read(self, name: str, *, ones: bool = False) -> int:
        """One read. `ones`: all ones is a value that it may have. Raises: DeviceGone."""
        register = self.registers.get(name)
        return self.bus.read(self._place(register), f"{self.label}.{register.name}", ones=ones)

    def expect(self, *names: str) -> None:
        """A hint: these are read next, in this order; nothing is written to them between."""
        self.bus.expect(*[self.dword(name) for name in names])

    def write(self, name: str, value: int) -> None:
        """One write."""
        register = self.registers.get(name)
        if not 0 <= value <= WORD_MASK:
            raise ValueError(f"{self.label}.{name}: {value:#x} is not a 32-bit value")
        self.bus.write(self._place(register), value, f"{self.label}.{register.name}")

    def encode(self, name: str, /, **fields: int) -> int:
        """A value from its fields, the others 0."""
        return self.registers.get(name).encode(0, **fields)

    def decode(self, name: str, value: int) -> dict[str, int]:
        """A value's fields."""
        return self.registers.get(name).decode(value)

    def set(self, name: str, /, **fields: int) -> int:
        """Write a value made of fields, the others 0."""
        value = self.encode(name, **fields)
        self.write(name, value)
        return value

    def fields(self, name: str) -> dict[str, int]:
        """Read, and take apart."""
        return self.decode(name, self.read(name))

    def update(self, name: str, /, **fields: int) -> int:
        """Read, replace fields, write; the value written."""
        value = self.registers.get(name).encode(self.read(name), **fields)
        self.write(name, value)
        return value

    def write_pair(self, low: str, high: str, value: int) -> None:
        """A 64-bit value into two registers, the lower half first."""
        self.write(low, value & WORD_MASK)
        self.write(high, value >> WORD_BITS)

    def wait(self, name: str, mask: int, value: int, timeout_s: float) -> int:
        """Poll until `register & mask == value`; the register.

        Raises: DeviceTimeout with the register and its last value; DeviceGone.
        """
        register = self.registers.get(name)
        dword, label = self._place(register), f"{self.label}.{register.name}"
        last = 0
        for _ in polls(timeout_s, self.bus.clock):
            last = self.bus.read(dword, label)
            if last & mask == value:
                return last
        raise DeviceTimeout(
            f"{self.bus.where(label)} is {last:#x} after {timeout_s} s, and {value:#x} in "
            f"{mask:#x} was waited for",
            register=label,
            last=last,
            hint="Open the GPU again: it is then reset first",
        )
