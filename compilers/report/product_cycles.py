"""Clocks of one step of a product on matrix units, by counting: where its time goes.

A step is one iteration of the loop along k of one workgroup, on a workgroup's place: a
work-group processor (RDNA) or a compute unit (CDNA). Assumptions, all from
compilers/amd/rates.py: the waves are spread evenly over the SIMDs; a matrix instruction keeps its
SIMD for its clocks, and so does a vector instruction; every 32 banks of local memory serve one pass
a clock (lds_banks.py), and the workgroups are spread evenly over them; loads arrive at the rate of
the first-level caches. The
latency is that of memory as busy as the bytes in flight make it (`Rates.loaded_s`), without
repeated loads of several workgroups: each byte of the matrices is moved once.

`least` is the matrix unit's share where no clock of local memory or of vector instructions
overlaps with it, `most` where all that can do. Not in it: waiting at barriers, instruction
fetch, misses beyond the latency, what comes before and after the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from compilers.amd.rates import Rates
from compilers.ir import Kernel
from compilers.objects.listing import disassemble
from compilers.report.estimate import resident_groups
from compilers.report.lds_accesses import loop_accesses
from compilers.report.lds_banks import BANKS
from compilers.report.load_counts import load_bytes
from compilers.report.traffic import asked_bytes
from drivers.base.contracts import Binary
from queues.amd.kernel_code import AmdCode

_MATRIX = ("v_wmma", "v_mfma")
_VECTOR, _UNKNOWN = "v_", ".long"


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one wave's machine code in a step, and of all waves on local memory."""

    matrix: int
    """Clocks of its matrix instructions."""
    vector: int
    """Its other vector instructions. Two words that a disassembler does not know count as one."""
    loaded_bytes: int
    """Of a lane."""
    passes: int
    """Of local memory, by the whole workgroup."""


@dataclass(frozen=True, slots=True)
class StepCycles:
    """Clocks of a workgroup's step, and shares of the matrix unit's time."""

    matrix: float
    vector: float
    lds: float
    memory: float
    latency: float
    """Clocks until a load arrives."""
    resident: int
    """Workgroups in one place at a time."""
    balance: float
    """Places that have work, on average until the last workgroup is done."""

    @property
    def least(self) -> float:
        """The share without overlap of matrix, vector and local memory."""
        alone = self.matrix + self.vector + self.lds
        waited = (self.latency + self.lds) / max(self.resident, 1)
        return self.balance * self.matrix / max(alone, waited, self.memory)

    @property
    def most(self) -> float:
        """The share where they overlap perfectly; vector instructions issue beside none."""
        return self.balance * self.matrix / max(self.matrix + self.vector, self.lds, self.memory)


def work_of(texts: Iterable[str], rates: Rates, passes: int) -> Work:
    """Count the instructions of a loop."""
    matrix = vector = unknown = loaded = 0
    for text in texts:
        if text.startswith(_MATRIX):
            matrix += rates.issue.matrix_clocks[text.split()[0]]
        vector += text.startswith(_VECTOR) and not text.startswith(_MATRIX)
        unknown += text.startswith(_UNKNOWN)
        loaded += load_bytes(text)
    return Work(matrix, vector + -(-unknown // 2), loaded, passes)


def step_cycles(work: Work, kernel: Kernel, binary: Binary, rates: Rates) -> StepCycles:
    """The clocks of a step of a kernel's workgroups, from the work of one."""
    issue, lanes = rates.issue, AmdCode.of(binary).wave_lanes
    waves, simds = -(-kernel.block // lanes), issue.simds * issue.units_per_group
    rounds = kernel.grid / rates.groups
    waiting = min(kernel.grid * waves / rates.units, resident_groups(binary, rates) * waves)
    flying = waiting * lanes * work.loaded_bytes
    moved = sum(ref.size * ref.dtype.itemsize for ref in kernel.params)
    again = max(asked_bytes(kernel) / moved, 1)
    return StepCycles(
        matrix=work.matrix * waves / simds,
        vector=work.vector * issue.vector_clocks * waves / simds,
        lds=work.passes * BANKS / issue.lds_banks,
        memory=work.loaded_bytes * lanes * waves / (issue.load_bytes * issue.units_per_group),
        latency=rates.loaded_s(flying / again) * rates.clock_hz,
        resident=min(resident_groups(binary, rates), ceil(rounds)),
        balance=rounds / max(ceil(rounds), 1),
    )


def describe_cycles(found: StepCycles) -> Iterator[str]:
    """The lines of a report."""
    yield (
        f"clocks a step of a workgroup: {found.matrix:.0f} matrix, {found.vector:.0f} vector, "
        f"{found.lds:.0f} local memory, {found.memory:.0f} loads; {found.resident} workgroups at a "
        f"time, {found.balance:.0%} of the places busy"
    )
    yield (
        f"estimated {found.least:.0%} of the matrix unit's clocks where these take turns, "
        f"{found.most:.0%} where they overlap"
    )


def product_cycles(kernel: Kernel, binary: Binary, rates: Rates) -> StepCycles | None:
    """The step of a compiled product; None for a kernel without a loop of matrix instructions.

    Raises: NotFound without a disassembler.
    """
    hot = [line.text for line in disassemble(binary) if line.hot]
    if not any(text.startswith(_MATRIX) for text in hot):
        return None
    lanes = AmdCode.of(binary).wave_lanes
    passes = sum(access.passes(lanes) for access in loop_accesses(kernel))
    return step_cycles(work_of(hot, rates, passes), kernel, binary, rates)
