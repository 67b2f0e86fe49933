"""Registers by name: `mmio.block(HwId.GC).read("CP_STAT")`."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpTable
from drivers.amd.pci.registers import WORD_BITS, WORD_MASK, Register, RegisterFile, load
from drivers.bare.bus import Alive, RegisterBus
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, DeviceTimeout, NotFound

MEMSIZE = Alive(0xDE3, "RCC_CONFIG_MEMSIZE")
"""MiB of VRAM: at the same place on every chip, and never all ones.

src: Linux 6.12, amdgpu_discovery.c, mmRCC_CONFIG_MEMSIZE
"""


class Block:
    """One instance of one IP block; every error names the boot step and the register."""

    def __init__(self, bus: RegisterBus, registers: RegisterFile, label: str,
                 bases: Sequence[int]) -> None:  # fmt: skip
        self.bus, self.registers, self.label = bus, registers, label
        self.bases = tuple(bases)

    def __contains__(self, name: str) -> bool:
        return name in self.registers

    def dword(self, name: str) -> int:
        """Where the register is: its dword in BAR5, as packets and firmware number it too."""
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


class Mmio:
    """The registers of one GPU by block and name."""

    def __init__(self, bus: RegisterBus, ips: IpTable) -> None:
        self.bus, self.ips = bus, ips
        self._blocks: dict[tuple[HwId, int], Block] = {}

    @property
    def reads(self) -> int:
        """Reads so far, each a round trip over the bus."""
        return self.bus.reads

    @property
    def writes(self) -> int:
        """Writes so far."""
        return self.bus.writes

    @property
    def step(self) -> str:
        """The boot step at work; errors name it."""
        return self.bus.step

    @step.setter
    def step(self, name: str) -> None:
        self.bus.step = name

    def block(self, hw: HwId, instance: int = 0) -> Block:
        """An instance of a block. Raises: NotFound, Unsupported."""
        block = self._blocks.get((hw, instance))
        if block is None:
            ip = self.ips.get(hw, instance)
            label = hw.name if instance == 0 else f"{hw.name}{instance}"
            try:
                registers = load(hw, ip.version)
            except DeviceError as error:
                raise error.named(self.step) if self.step else error from None
            block = self._blocks[hw, instance] = Block(self.bus, registers, label, ip.bases)
        return block
