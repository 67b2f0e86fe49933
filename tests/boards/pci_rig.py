"""A board's registers by name and its memory, as the few lines of a test's driver see them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from boards.amd.chip import chip
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.options import PciOptions

FIRST_VA = 0x1_0000_0000
VALID, SYSTEM, SNOOPED, EXECUTE, READ, WRITE = 1, 2, 4, 16, 32, 64
"""src: amdgpu_vm.h AMDGPU_PTE_*"""
ALL = VALID | EXECUTE | READ | WRITE
VRAM_BYTES = 1 << 28
TABLES, DATA = 0x10_0000, 0x100_0000
PAGE, LEVELS = 4096, (39, 30, 21)
# src: amdgpu_vm.h AMDGPU_PTE_MTYPE_*: uncached is 3
UNCACHED = {"gfx9": 3 << 57, "gfx11": 3 << 48, "gfx12": 3 << 54 | 1 << 63}


class Bus:
    """Host memory at bus address 0x4000_0000, and the interrupts that came."""

    def __init__(self, pool) -> None:
        self.pool, self.messages, self.mapped = pool, 0, {}

    def decode(self, address: int, nbytes: int, write: bool):
        for base, (offset, size, writable) in self.mapped.items():
            if base <= address and address + nbytes <= base + size and (writable or not write):
                return self.pool, offset + address - base
        return None

    def message(self, vector: int) -> None:
        self.messages += 1


class PciRig:
    """One GPU on a bus, a table for one VMID, and memory to put into it."""

    def __init__(self, name: str, options: Options | None = None, engines=None) -> None:
        options = options or Options()
        if engines is not None:
            options.engines = engines
        self.hardware = Hardware([], options)
        self.gpu = PciGpu(self.hardware, chip(name), VRAM_BYTES, PciOptions(firmware=False))
        self.chip, self.vram = self.gpu.chip, self.gpu.board.vram
        self.family = self.chip.family
        self.bus = Bus(self.hardware.gtt)
        self.gpu.connect(self.bus)
        self.gpu.config.write(4, b"\x06\x00")
        self.prefix = {"GC": "GCVM_", "MMHUB": "MMVM_"} if self.family != "gfx9" else {}
        self.memory = SimpleNamespace(place=self.place)
        self.next_table, self.next_va, self.next_data = TABLES, FIRST_VA, DATA
        self.root = self.table()
        self.work: dict[int, int] = {}

    # Registers

    def block(self, name: str, instance: int = 0):
        return self.gpu.board.block(name, instance)

    def write(self, block: str, register: str, value: int, instance: int = 0) -> None:
        """Beyond BAR5 through the index and data pair, which is tested elsewhere."""
        found = self.block(block, instance)
        address = 4 * found.address_dw(register)
        if address < self.gpu.bars[5].nbytes:
            self.gpu.write(5, address, 4, value & 0xFFFFFFFF)
        else:
            found.write(register, value & 0xFFFFFFFF)

    def read(self, block: str, register: str, instance: int = 0) -> int:
        found = self.block(block, instance)
        address = 4 * found.address_dw(register)
        inside = address < self.gpu.bars[5].nbytes
        return self.gpu.read(5, address, 4) if inside else found.read(register)

    def pair(self, block: str, register: str, value: int, low="_LO32", high="_HI32", instance=0):
        self.write(block, register + low, value, instance)
        self.write(block, register + high, value >> 32, instance)

    def fields(self, block: str, register: str, instance: int = 0, **fields: int) -> None:
        value, layout = self.read(block, register, instance), self.block(block).table[register]
        for field, number in fields.items():
            value = layout.put(value, field.upper(), number)
        self.write(block, register, value, instance)

    def hubs(self) -> list[tuple[str, int, str, str]]:
        """(block, instance, prefix of its VM registers, of its memory controller's)"""
        found = []
        for name in ("GC", "MMHUB"):
            vm = self.prefix.get(name, "VM_")
            mc = vm.replace("VM_", "MC_VM_")
            every = self.gpu.board.registers.every(name)
            found += [(name, block.instance, vm, mc) for block in every]
        return found

    # Memory

    def table(self) -> int:
        self.next_table += PAGE
        self.words(self.next_table - PAGE, [0] * 1024)
        return self.next_table - PAGE

    def words(self, offset: int, values) -> None:
        data = np.asarray(values, np.uint32).view(np.uint8)
        self.vram.bytes[offset : offset + len(data)] = data

    def word(self, offset: int) -> int:
        return int(self.vram.words[offset // 4])

    def entry(self, table: int, index: int) -> int:
        return int(self.vram.bytes[table : table + PAGE].view(np.uint64)[index])

    def set_entry(self, table: int, index: int, value: int) -> None:
        self.vram.bytes[table : table + PAGE].view(np.uint64)[index] = value

    def last_table(self, va: int) -> int:
        """The table of pages for an address, made on the way."""
        table = self.root
        for shift in LEVELS:
            index = va >> shift & 511
            if not self.entry(table, index) & VALID:
                self.set_entry(table, index, self.table() | VALID)
            table = self.entry(table, index) & 0xFFFFFFFFF000
        return table

    def map(self, va: int, pa: int, nbytes: int, flags: int = ALL) -> None:
        for at in range(0, nbytes, PAGE):
            entry = pa + at | flags | (UNCACHED[self.family] if flags else 0)
            self.set_entry(self.last_table(va + at), va + at >> 12 & 511, entry if flags else 0)

    def place(self, va: int, data: np.ndarray) -> int:
        """Bytes at an address of the VMID's, in fresh VRAM; returns where."""
        octets = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        offset, size = self.next_data, -(-len(octets) // PAGE) * PAGE
        self.next_data += size + PAGE
        self.vram.bytes[offset : offset + size] = 0
        self.vram.bytes[offset : offset + len(octets)] = octets
        self.map(va, offset, size)
        return offset

    def buffer(self, nbytes: int = PAGE) -> tuple[int, int]:
        """(address, offset in VRAM) of zeroed memory."""
        va = self.next_va
        self.next_va += -(-nbytes // PAGE) * PAGE + 0x10_0000
        return va, self.place(va, np.zeros(nbytes, np.uint8))

    def violations(self) -> list[str]:
        return [str(violation) for violation in self.hardware.violations]

    def hdp(self) -> None:
        self.gpu.board.flush_hdp()
        self.gpu.board.posted()
