"""What a PM4 processor remembers between packets: registers, where it reads, what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.amd.cp.context import Context, dwords, xccs_of
from boards.amd.cp.registers import (
    HDP_FLUSH_DONE,
    HDP_FLUSH_REQ,
    SH_BASE,
    SH_NAMES,
    SH_WORDS,
    UCONFIG_BASE,
    UCONFIG_NAMES,
    UCONFIG_WORDS,
)


@dataclass(slots=True)
class Stream:
    """Words to be executed: the ring (size_dw > 0: positions wrap), or an indirect buffer."""

    base_va: int
    limit: int
    """Position behind the last word."""
    size_dw: int = 0
    position: int = 0
    skip: int = 0
    """Words that a COND_EXEC discards."""
    masked: int = 0
    """Words that only the XCCs of `xccs` execute."""
    xccs: tuple[int, ...] = ()

    def follow(self, context: Context) -> None:
        """UPDATE_QUEUE may have moved the ring."""
        self.base_va, self.size_dw = context.spec.ring_va, context.spec.ring_bytes // 4

    def va(self, position: int) -> int:
        """Address of a word."""
        return self.base_va + 4 * (position % self.size_dw if self.size_dw else position)

    def read(self, context: Context, position: int, count: int) -> tuple[int, ...]:
        """Words from `position` on, around the ring's end. Raises: MemoryFault."""
        start = position % self.size_dw if self.size_dw else position
        first = min(count, self.size_dw - start) if self.size_dw else count
        data = context.read(self.base_va + 4 * start, 4 * first)
        if first < count:
            data += context.read(self.base_va, 4 * (count - first))
        return dwords(data)


@dataclass(slots=True)
class State:
    """Registers of one queue. `xccs` are the dies that execute the current packet."""

    context: Context
    sh: list[dict[int, int]] = field(default_factory=list)
    """SH registers of each XCC, by dword offset from the space's start."""
    uconfig: dict[int, int] = field(default_factory=dict)
    xccs: tuple[int, ...] = ()
    everyone: tuple[int, ...] = ()
    atomic_result: int | None = None
    hdp_done: int = 0
    buffer: Stream | None = None
    """The indirect buffer that is being executed."""
    chained: int = 0

    def __post_init__(self) -> None:
        self.everyone = xccs_of(self.context.spec, self.context.host.chip)
        self.sh = [{} for _ in self.everyone]

    def set_sh(self, offset: int, values: tuple[int, ...]) -> None:
        """SET_SH_REG. Raises: PacketFault for a register that a compute queue has not."""
        names = SH_NAMES[self.context.host.chip.family]
        for number, value in enumerate(values, offset):
            if number not in names:
                raise self.context.fault("unknown register", f"SH register {number:#x}")
            for xcc in self.xccs:
                self.sh[xcc][number] = value

    def set_uconfig(self, offset: int, values: tuple[int, ...]) -> None:
        """SET_UCONFIG_REG. Raises: PacketFault."""
        kernel = self.context.spec.kernel
        for number, value in enumerate(values, offset):
            if number not in UCONFIG_NAMES and kernel is not None:
                kernel.write_register(UCONFIG_BASE + number, value)
                continue
            if number not in UCONFIG_NAMES:
                raise self.context.fault("unknown register", f"UCONFIG register {number:#x}")
            self.uconfig[number] = value

    def read_register(self, register: int) -> int:
        """A register by its address in dwords. Raises: PacketFault for one unknown or unset."""
        sh = register - SH_BASE
        if 0 <= sh < SH_WORDS and sh in self.sh[self.xccs[0]]:
            return self.sh[self.xccs[0]][sh]
        uconfig = register - UCONFIG_BASE
        if 0 <= uconfig < UCONFIG_WORDS and uconfig in self.uconfig:
            return self.uconfig[uconfig]
        if self.context.spec.kernel is not None:
            return int(self.context.spec.kernel.read_register(register))
        if register == HDP_FLUSH_DONE:
            return self.hdp_done
        raise self.context.fault("unknown register", f"{register:#x} is read")

    def write_register(self, register: int, value: int) -> None:
        """A register by its address in dwords. Raises: PacketFault."""
        if self.context.spec.kernel is not None and not (
            SH_BASE <= register < SH_BASE + SH_WORDS
        ):  # fmt: skip
            self.context.spec.kernel.write_register(register, value)
        elif register == HDP_FLUSH_REQ:
            self.hdp_done = value
        elif SH_BASE <= register < SH_BASE + SH_WORDS:
            self.set_sh(register - SH_BASE, (value,))
        elif UCONFIG_BASE <= register < UCONFIG_BASE + UCONFIG_WORDS:
            self.set_uconfig(register - UCONFIG_BASE, (value,))
        else:
            raise self.context.fault("unknown register", f"{register:#x} is written")
