"""What the executor and its surroundings exchange: memory, dispatches, faults, violations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from boards.machine.arrays import Addresses, Words


class Memory(Protocol):
    """Device memory as a wave sees it: vectors of 64-bit addresses, translated and checked."""

    def load(self, va: Addresses, nbytes: int) -> Words:
        """Little-endian elements of `nbytes` (1, 2 or a multiple of 4), zero-extended.

        Shapes: va (n,) -> (dwords, n). Raises: MemoryFault.
        """

    def store(self, va: Addresses, data: Words, nbytes: int) -> None:
        """The low `nbytes` of each column of `data`; a later lane wins. Raises: MemoryFault."""

    def fetch(self, va: int, nbytes: int) -> bytes:
        """Code; at least 4 and up to `nbytes` bytes. Raises: MemoryFault."""


class MemoryFault(Exception):
    """An access that memory refused. `index` is its position in the address vector."""

    def __init__(self, kind: str, access: str, va: int, index: int = 0) -> None:
        self.kind, self.access, self.va, self.index = kind, access, va, index
        super().__init__(f"{kind} {access} at {va:#x}")


class Unmapped:
    """A memory with nothing in it."""

    def load(self, va: Addresses, nbytes: int) -> Words:
        raise MemoryFault("unmapped", "read", int(va[0]))

    def store(self, va: Addresses, data: Words, nbytes: int) -> None:
        raise MemoryFault("unmapped", "write", int(va[0]))

    def fetch(self, va: int, nbytes: int) -> bytes:
        raise MemoryFault("unmapped", "execute", va)


class WaveFault(Exception):
    """A wave cannot go on: who, where, and what it was doing.

    kind: "unmapped", "read-only", ... as memory says it; "illegal instruction"; "out of range";
    "endless"; "trap"; "unsupported".
    """

    def __init__(
        self,
        kind: str,
        *,
        pc: int,
        text: str,
        wave: int = 0,
        lane: int = 0,
        va: int = 0,
        access: str = "",
        detail: str = "",
    ) -> None:
        self.kind, self.pc, self.text, self.wave, self.lane = kind, pc, text, wave, lane
        self.va, self.access, self.detail = va, access, detail
        where = f" {access} at {va:#x}" if access else ""
        tail = f": {detail}" if detail else ""
        super().__init__(f"{kind}{where} in wave {wave} lane {lane}, pc {pc:#x}, {text}{tail}")


@dataclass(frozen=True, slots=True)
class Violation:
    """Something silicon would have let pass, and a strict board reports once per place.

    kind: "uninitialised", "wait count", "LDS race", "unwritten LDS", "misaligned".
    """

    kind: str
    pc: int
    text: str
    what: str
    wave: int
    lane: int = 0

    def __str__(self) -> str:
        return f"{self.kind}: {self.what} in wave {self.wave} at {self.pc:#x}, {self.text}"


@dataclass(frozen=True, slots=True)
class Strict:
    """What a strict board checks."""

    uninitialised: bool = True
    wait_counts: bool = True
    lds: bool = True


LENIENT = Strict(False, False, False)


@dataclass(slots=True)
class Privileged:
    """What a trap handler finds, and what it changes."""

    registers: dict[int, int]
    """Scalar registers by their codes."""
    flags: int
    """TRAPSTS, or EXCP_FLAG_PRIV: why the wave trapped."""
    status: int
    interrupt: Callable[[int], None]
    """Sends MSG_INTERRUPT with the low bits of M0."""
    halts: bool = False
    returned_to: int = 0
    """Address that s_rfe_b64 went to."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One kernel launch as the command processor hands it to the compute units."""

    entry: int
    """Address of the first instruction."""
    groups: tuple[int, int, int]
    """Workgroups in each dimension."""
    workgroup: tuple[int, int, int]
    """Work-items of one workgroup in each dimension."""
    rsrc1: int
    rsrc2: int
    rsrc3: int = 0
    user_sgprs: tuple[int, ...] = ()
    lanes: int = 32
    lds_bytes: int = 0
    scratch_va: int = 0
    scratch_wave_bytes: int = 0
    """Backing memory of one wave's scratch; lanes are interleaved in it by dword."""
    scratch_waves: int = 0
    """Waves that the backing memory has room for; no more run at a time."""
    items: tuple[int, int, int] | None = None
    """Work-items of the whole grid when the last workgroups are partial."""
    shared_base: int = 1 << 48
    private_base: int = 2 << 48
    max_steps: int = 20_000_000
    """Instructions (of a group of waves) after which the launch counts as endless."""
    privileged: Privileged | None = None
    """The one wave is a trap handler, and this its state."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Waves that ran side by side, and when: nanoseconds of the machine's monotonic clock."""

    first: int
    waves: int
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Report:
    """What a launch did."""

    waves: int = 0
    steps: int = 0
    """Instructions executed, counted once for all the waves that executed them together."""
    wave_instructions: int = 0
    violations: list[Violation] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    """How the waves were shared out over time."""
