"""What an adapter says of itself -> its Limits, the name of its architecture, its features."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Limits
from drivers.base.errors import Unsupported
from drivers.webgpu import abi
from drivers.webgpu.adapters import About, Adapters
from drivers.webgpu.layout import Record
from queues.webgpu.kernel_code import ARCH, HALF, SUBGROUPS

SIGNAL_BITS: Final = 64
VECTOR_BYTES: Final = 16
WORD_BYTES: Final = 4
HASH_CHARS: Final = 12
MOST_MEMORY_BYTES: Final = 1 << 40
"""WebGPU does not say how much memory there is: the library refuses what does not fit."""
MOST_BUFFER_BYTES: Final = (1 << 31) - 1
"""Bit 31 of a size is the zero of `compilers/wgsl/exact.py`; indices are 32 bits wide."""
LEAST_BINDINGS: Final = 4
UNITS: Final = 16
"""WebGPU does not say how many compute units there are. So many are kept busy at least."""
INT64: Final = "shader-int64"
FLOAT64: Final = "shader-f64"
TIMES: Final = "timestamp-query"
PROCESSOR: Final = abi.ADAPTER_TYPES[3]
_CONVERTS: Final = re.compile(r"llvmpipe\b")
"""Names of adapters that convert float16 as IEEE 754 has it: WGSL lets others round either way.
# measured: Mesa 22.3.6 and 25.0.7, lavapipe, 2026-11: all 65,536 to float32; to float16 all halves
# between two, subnormal numbers, NaN, infinities, and 524,288 at random"""
_ALWAYS: Final = frozenset(
    {"bool", "float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16",
     "uint32"}
)  # fmt: skip
"""Of fewer than 32 bits they are stored in whole words; 16-bit floats are computed as bits and
float32, as on every device."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One adapter, as the driver uses it."""

    about: About
    limits: Limits
    arch: str
    features: tuple[int, ...]
    """WGPUFeatureName of those that are asked for."""
    times: bool
    max_buffer_bytes: int


def read_facts(adapters: Adapters, adapter: int, about: About) -> Facts:
    """Ask the adapter. Raises: Unsupported below WebGPU's own least limits."""
    api = adapters.api
    has = api.functions["wgpuAdapterHasFeature"]
    known = api.flavour.features
    offered = {name for name, number in known.items() if has(adapter, number) & 0xFFFFFFFF}
    wanted = offered & {INT64, FLOAT64, TIMES}
    lanes = _wave_lanes(adapters, adapter, offered)
    wanted |= {SUBGROUPS} if lanes else set()
    record = api.record("Limits")
    if api.functions["wgpuAdapterGetLimits"](adapter, record.at) != abi.SUCCESS:
        raise Unsupported(f"{about.title} says no limits", hint="update the WebGPU library")
    limits = _limits(api.flavour.limits_at, record, wanted, about, lanes)
    words = [about.title, about.driver, *sorted(wanted), limits.text]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:HASH_CHARS]
    return Facts(
        about=about, limits=limits, arch=f"{ARCH}-{digest}",
        features=tuple(known[name] for name in sorted(wanted)), times=TIMES in wanted,
        max_buffer_bytes=min(
            MOST_BUFFER_BYTES,
            record[f"{api.flavour.limits_at}maxBufferSize"],
            record[f"{api.flavour.limits_at}maxStorageBufferBindingSize"],
        ),
    )  # fmt: skip


def _wave_lanes(adapters: Adapters, adapter: int, offered: set[str]) -> int:
    """Lanes of a subgroup, where kernels may exchange values in it; 0: they do not."""
    if SUBGROUPS not in offered or INT64 in offered:  # WGSL exchanges nothing of 64 bits
        return 0
    lanes = adapters.subgroup_lanes(adapter)
    return lanes if lanes > 1 and not lanes & (lanes - 1) else 0


def _limits(at: str, record: Record, wanted: set[str], about: About, lanes: int) -> Limits:
    def limit(name: str) -> int:
        return record[f"{at}max{name}"]

    bindings = min(limit("StorageBuffersPerShaderStage"), limit("BindingsPerBindGroup"))
    if bindings < LEAST_BINDINGS:
        raise Unsupported(f"{about.title}: {bindings} storage buffers", hint="another adapter")
    wide = {"int64", "uint64"} if INT64 in wanted else set()
    double = {"float64"} if {INT64, FLOAT64} <= wanted else set()
    groups = limit("ComputeWorkgroupsPerDimension")
    return Limits(
        dtypes=_ALWAYS | wide | double,
        memory_bytes=MOST_MEMORY_BYTES,
        threads=UNITS,
        vector_bytes=VECTOR_BYTES,
        max_grid=(groups, groups, groups),
        max_block=min(limit("ComputeInvocationsPerWorkgroup"), limit("ComputeWorkgroupSizeX")),
        shared_bytes=limit("ComputeWorkgroupStorageSize"),
        wave_lanes=lanes,
        max_params=bindings,
        store_bytes=WORD_BYTES,
        signal_bits=SIGNAL_BITS,
        features=frozenset(wanted & {INT64, FLOAT64, SUBGROUPS})
        | frozenset({PROCESSOR} if about.kind == PROCESSOR else ())
        | frozenset({HALF} if _CONVERTS.match(about.name) else ()),
    )
