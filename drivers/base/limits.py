"""A device's capabilities, as numbers that compilers and callers read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, TypeAlias

Grid: TypeAlias = tuple[int, int, int]
LANES: Final = "lanes"
VECTORS: Final = "vectors"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can do. Sizes in bytes.

    `tests/contract` runs a kernel at each of `max_block`, `shared_bytes` and `signal_bits`, and
    checks that one above is refused.
    """

    dtypes: frozenset[str]
    """Names of the dtypes that tensors may have and kernels load, compute with and store:
    "float32", "bfloat16", ... Others are refused before anything is compiled; int64 only where it
    is stored, or a value may leave int32 (`compilers/plan/dtypes.py`)."""
    memory_bytes: int
    threads: int = 1
    """Host threads (CPU) or compute units that run workgroups at the same time."""
    vector_bytes: int = 16
    """Width of the widest vector register (CPU) or of one lane's widest load (GPU)."""
    max_grid: Grid = (1, 1, 1)
    """Workgroups of the largest launch along x, y and z; 1 along an axis that there is not.

    Hardware that counts lanes refuses less: workgroups times lanes along an axis stay below 2^32.
    """
    max_block: int = 1
    """Lanes in the largest workgroup; 1 where work is not split into lanes."""
    shared_bytes: int = 0
    """Shared memory of a workgroup; 0 for none."""
    wave_lanes: int = 1
    """Lanes that run in step; 0 or 1: not known, or different from kernel to kernel."""
    max_params: int | None = None
    """Most buffers that a kernel may name, its result included, at least 4: WebGPU has so many
    storage bindings. Graphs are cut into kernels that fit. None: as many as a kernel ever takes."""
    store_bytes: int = 1
    """Size of the smallest store that two lanes may do side by side: 4 where memory is written in
    words. Smaller elements are then stored a whole word at a time, by one lane; a buffer must be
    whole words."""
    schedule: str = LANES
    """How workgroups compute: `LANES`, many lanes of narrow vectors that share memory; or
    `VECTORS`, one lane a workgroup with vectors of `vector_bytes`, packed operands in the shared
    memory, as many workgroups as `threads` at a time: a CPU behind a GPU's interface."""
    signal_bits: int = 64
    """How wide a signal's value is: at most 2**signal_bits - 1."""
    uses_host_memory: bool = False
    """Whether the device computes in any host memory: `wrap` takes all of it, `Buffer.host` is
    always there, and a copy saves nothing. Otherwise `wrap` may require whole pages, or refuse."""
    survives_fork: bool = False
    """Whether a child may continue to use the device; otherwise every use there raises."""
    features: frozenset[str] = frozenset()
    """Features beside its arch, as the device's compiler spells them: "avx512f", ..."""

    @property
    def text(self) -> str:
        """All of it, the same in each process: the order of a set's elements is not."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(
            f"{name}={sorted(value) if isinstance(value, frozenset) else value!r}"
            for name, value in values.items()
        )
