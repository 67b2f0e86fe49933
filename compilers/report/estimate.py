"""How fast one GPU kernel is, by counting: waves, bytes in flight, instructions. An estimate.

Loads complete at the rate of the waves' bytes in flight per latency, or of the waves' instructions
where these take longer. The first-level caches bound that by their rate, and by their lines for
loads in flight. Memory moves each parameter once, at most at its bandwidth: repeated loads are
assumed to hit a cache. The slowest of these is the time, and the share is the part of it that
memory needs. A kernel begins with one latency of idle memory: later loads queue after earlier ones.
Not in it: launches and the time between two kernels, and losses by banks, channels and pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilers.amd.rates import Rates
from compilers.ir import Kernel
from compilers.objects.listing import disassemble
from compilers.report.load_counts import LoadCounts, count_loads
from compilers.report.traffic import asked_bytes
from drivers.base.contracts import Binary
from queues.amd.kernel_code import AmdCode

LDS_GRANULE_BYTES = 1024
"""Largest unit of local memory allocation: 512 on some chips. # src: drivers/amd/chips.py"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one kernel on one chip. Bytes are per lane, compute unit or kernel, as named."""

    kernel: Kernel
    rates: Rates
    counts: LoadCounts
    vgprs: int
    lds_bytes: int
    waves: int
    """Of a workgroup."""
    lanes: int
    """Of a wave."""
    resident_groups: int
    """Workgroups that fit where a workgroup can be (see `Rates.groups`)."""
    moved_bytes: int
    """Every parameter once: the least that the kernel moves."""
    asked_bytes: int
    """Bytes that all lanes load, repeated elements included."""

    @property
    def waves_possible(self) -> float:
        """Waves of a compute unit that fit at once."""
        return self.resident_groups * self.waves / self.rates.issue.units_per_group

    @property
    def waves_resident(self) -> float:
        """Waves of a compute unit, on average over the GPU, while all of it works."""
        return min(self.waves_possible, self.kernel.grid * self.waves / self.rates.units)

    @property
    def again(self) -> float:
        """Loads of each moved byte: 1 where no two lanes load the same element."""
        return max(self.asked_bytes / self.moved_bytes, 1)

    @property
    def unit_bytes(self) -> float:
        """Bytes in flight in a compute unit, on average over the GPU, without repetitions."""
        return self.waves_resident * self.lanes * self.counts.bytes / self.again

    @property
    def flight(self) -> float:
        """Bytes in flight, divided by bandwidth times latency."""
        return self.unit_bytes / self.rates.needed_bytes

    @property
    def busy_units(self) -> float:
        """Compute units that have a wave."""
        groups = min(self.kernel.grid, self.rates.groups)
        return groups * self.rates.issue.units_per_group

    @property
    def turn_clocks(self) -> float:
        """Clocks of one iteration in all resident waves: a wave waits for its loads and then
        issues its instructions; or all waves of a SIMD issue theirs, where that takes longer."""
        rates, issue, counts = self.rates, self.rates.issue, self.counts
        batches = max(counts.turn_bytes / max(counts.bytes, 1), 1)
        matrix = sum(n * issue.matrix_clocks[name] for name, n in counts.matrix.items())
        plain = counts.vector - counts.matrix.total()
        each = plain * issue.vector_clocks + matrix + counts.other
        waves = self.waves_resident * rates.units / (issue.simds * self.busy_units)
        latency = rates.loaded_s(self.unit_bytes) * rates.clock_hz
        return max(latency * batches + each, waves * each)

    @property
    def seconds(self) -> float:
        """The time that the module describes, of this kernel alone."""
        rates, issue, waves = self.rates, self.rates.issue, self.waves_resident * self.rates.units
        turn = waves * self.lanes * max(self.counts.turn_bytes, 1)
        units = self.busy_units * rates.clock_hz
        lines = issue.cache_bytes / rates.latency_clocks
        return max(
            self.asked_bytes / turn * self.turn_clocks / rates.clock_hz,
            self.asked_bytes / (units * issue.load_bytes),
            self.moved_bytes / (units * lines),
            rates.idle_s + self.moved_bytes / rates.bandwidth,
        )

    @property
    def share(self) -> float:
        """Of the bandwidth, estimated; see the module."""
        return self.moved_bytes / self.rates.bandwidth / self.seconds


def resident_groups(binary: Binary, rates: Rates) -> int:
    """Workgroups of a kernel that fit where a workgroup can be, by registers and local memory."""
    resources, issue, code = binary.resources, rates.issue, AmdCode.of(binary)
    waves, lds = -(-resources.block // code.wave_lanes), resources.shared_bytes
    slots = rates.waves_of(code.vgprs) * issue.simds * issue.units_per_group
    groups = max(slots // waves, 1)
    if lds:
        taken = -(-lds // LDS_GRANULE_BYTES) * LDS_GRANULE_BYTES
        groups = min(groups, max(issue.lds_bytes // taken, 1))
    return groups


def estimate(kernel: Kernel, binary: Binary, rates: Rates) -> Estimate:
    """Count a compiled kernel. Raises: NotFound without a disassembler."""
    code, lds = AmdCode.of(binary), binary.resources.shared_bytes
    lanes, vgprs = code.wave_lanes, code.vgprs
    waves, groups = -(-binary.resources.block // lanes), resident_groups(binary, rates)
    counts = count_loads(disassemble(binary), stores_wait=binary.arch.startswith("gfx9"))
    moved = sum(ref.size * ref.dtype.itemsize for ref in kernel.params)
    return Estimate(
        kernel, rates, counts, vgprs=vgprs, lds_bytes=lds, waves=waves, lanes=lanes,
        resident_groups=groups, moved_bytes=moved, asked_bytes=asked_bytes(kernel),
    )  # fmt: skip
