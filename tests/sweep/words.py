"""What an error of a GPU over PCI has to name: the step, and the register or request that failed.

An access that fails at once (a time-out, a refused request) has to be named itself, with the
register that the board knows at its address. Where it is only noticed later, what notices it is
named: a register, a message to a processor of the GPU, or a queue.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from boards.machine.pci.panel import Kind
from boards.machine.pci.world import PciWorld
from drivers.amd.pci.psp_ring import Command
from drivers.amd.pci.smu import DIALECTS
from drivers.base.errors import DeviceError, DeviceFault, Hang

TABLES = Path(__file__).parents[2] / "drivers" / "amd" / "pci" / "registers"
BOOT_STEPS = (
    "find the previous owner", "take over: mode-1 reset", "open doorbells", "memory hub",
    "find VRAM", "interrupts", "load firmware", "power management", "graphics firmware",
    "say who is inside", "graphics core", "copy engines", "one partition", "count compute units",
    "clocks",
)  # fmt: skip
STEPS = (
    *BOOT_STEPS, "open the session", "map BAR 0", "map BAR 2", "map BAR 5",
    "read the discovery table", "bus mastering on", "bus mastering off", "open the address space",
    "close the address space", "flush translations", "start PM4 queue 0", "start AQL queue 0",
    "start SDMA queue 0", "stop PM4 queue 0", "stop AQL queue 0", "stop SDMA queue 0",
    "read interrupts", "reset", "at work", "leave", "close the session",
    "AMD:0 compute queue", "AMD:0 copy queue",
)  # fmt: skip
"""How the message of an error begins, or does after "undoing"."""
FLUSH_DW = (0x80000 - 0x1000) // 4
"""Where the board's flush register is moved to: src: nbio_v4_3.c, MMIO_REG_HOLE_OFFSET."""
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
INDIRECT = ("RSMU_INDEX", "RSMU_DATA", "PCIE_INDEX2", "PCIE_DATA2", "PCIE_INDEX2_HI")
"""Through these others are reached, which errors name instead."""
CONFIG = re.compile(r"config space 0x[0-9a-f]+")


@cache
def known_words() -> frozenset[str]:
    """Registers by the vendor's name and by their role, config space's, messages of firmware."""
    found = {"COMMAND", "HDP_MEM_FLUSH", "RCC_CONFIG_MEMSIZE"}
    found |= {command.name for command in Command}
    found |= {name for dialect in DIALECTS.values() for name in dialect.messages}
    for path in TABLES.glob("*.txt"):
        lines = [line.split() for line in path.read_text("ascii").splitlines()]
        names = {line[0] for line in lines if line and line[0] not in ("#", "role")}
        roles = [[*line, ""][1:3] for line in lines if line and line[0] == "role"]
        found |= names | {
            new + name.removeprefix(old)
            for old, new in roles
            for name in names
            if name.startswith(old)
        }
    return frozenset(found)


def step_of(message: str) -> str:
    """The step that a message begins with, "" for none."""
    plain = message.removeprefix("undoing ")
    return next((s for s in STEPS if plain.startswith((f"{s}: ", f"{s} made no progress"))), "")


def accessed(board: PciWorld, broke: str) -> list[str]:
    """What an access was to, in words of which its error must contain one."""
    kind, _, where = broke.partition(" ")
    if kind == "call":
        return [f"0x{int(where.split()[1], 16):08x}"]
    if where.startswith("config "):
        return [f"config space {where.split()[1]}"]
    _, bar, offset = where.rsplit(" ", 2)
    if bar == "2":
        return [f"doorbell {int(offset, 16) // 8}"]
    if int(offset, 16) // 4 == FLUSH_DW:
        return ["HDP_MEM_FLUSH"]
    return [name for _, name in registers_at(board, int(offset, 16))]


def registers_at(board: PciWorld, offset: int) -> list[tuple[int, str]]:
    """All registers that the board has at a byte of BAR 5: the block's instance, and its name."""
    blocks = board.gpus[0].board.registers.blocks
    return [
        (block.instance, name)
        for block in blocks
        for name in block.table
        if block.address_dw(name) * 4 == offset
    ]


def unnamed(board: PciWorld, kind: Kind, broke: str, error: DeviceError) -> str:
    """What the error's own message, without its hint, fails to name; "" when nothing."""
    message = error.message
    if not step_of(message):
        return "no step"
    if kind is Kind.TIMEOUT or broke.startswith("call"):
        wanted = accessed(board, broke)
        return "" if any(_names(message, one) for one in wanted) else f"not {wanted}"
    if isinstance(error, (DeviceFault, Hang)):
        return "" if error.queue and error.queue in message else "no queue"
    there = names(message) or CONFIG.search(message)
    return "" if there else "no register, no message to firmware"


def _names(message: str, wanted: str) -> bool:
    if not wanted.isidentifier():
        return wanted in message
    there = names(message)
    if wanted.endswith(INDIRECT):
        return bool(there)
    return any(wanted == name or wanted.endswith(f"_{name}") for name in there)


def names(message: str) -> frozenset[str]:
    """The registers and the messages to firmware that a message names."""
    return known_words().intersection(WORD.findall(message))
