"""What a device says of itself -> its Limits, the name of its architecture, its build options."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Final

from drivers.base.contracts import Limits
from drivers.base.errors import Unsupported
from drivers.cl import abi
from drivers.cl.platforms import Found
from queues.cl.kernel_code import (
    DOUBLE,
    HALF,
    HALF_OPS,
    LANES,
    PROCESSOR,
    SUBGROUPS,
    WAVE_LANES,
)

MAX_GRID: Final = ((1 << 31) - 1, 65535, 65535)
"""Workgroups; global sizes stay below 2^32 along y and z, and below 2^64 along x."""
SIGNAL_BITS: Final = 64
PROCESSOR_VECTOR_BYTES: Final = 32
"""Of AVX2. A processor's driver does not say which vectors its code generator uses: PoCL says 16
floats where it generates AVX2, Intel's runtime says 1."""
LANE_VECTOR_BYTES: Final = 16
HASH_CHARS: Final = 12
ROUNDED: Final = "-cl-fp32-correctly-rounded-divide-sqrt"
"""Without it x / y may be off by 2.5 ulp and sqrt by 3 ulp in float32; a device that does not offer
it rejects it.
# src: OpenCL API 3.0, clBuildProgram, "Math Intrinsics Options"; OpenCL C 3.0, "Relative Error as
# ULPs" """
_BYTE_BITS: Final = 8
_NUMBER: Final = re.compile(r"[0-9]{1,4}").fullmatch
HALF_NEEDS: Final = abi.FP_INF_NAN | abi.FP_ROUND_TO_NEAREST
"""Of CL_DEVICE_HALF_FP_CONFIG, to convert float16 with its own type; to compute in it, a device
keeps subnormal numbers, too: much of its range is such.
# src: OpenCL Extension 3.0, cl_khr_fp16 """
WAVE_EXTENSIONS: Final = frozenset(
    {"cl_intel_required_subgroup_size", "cl_khr_subgroup_shuffle", "cl_khr_subgroup_ballot"}
)
"""OpenCL itself says no size of subgroups: the compiler chooses one for each kernel."""
_OLDEST: Final = (1, 2)
_INTEGERS: Final = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_ALWAYS: Final = frozenset({"bool", "float16", "bfloat16", "float32", *_INTEGERS})
"""The compiler computes with 16-bit floats as bits and float32: no device lacks them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One device, as the driver uses it."""

    found: Found
    limits: Limits
    arch: str
    version: tuple[int, int]
    """Of OpenCL."""
    extensions: frozenset[str]
    processor: bool
    """Whether its kernels have a processor's shape."""
    units: int
    svm: int
    """CL_DEVICE_SVM_CAPABILITIES."""
    max_alloc_bytes: int
    part_align_bytes: int
    """Where a sub-buffer may begin: CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits."""
    options: str
    """Of clBuildProgram."""


def read_facts(found: Found, lanes: bool) -> Facts:
    """Ask the device. `lanes`: whether a processor's kernels get a GPU's shape as well.

    Raises: Unsupported below OpenCL 1.2, without a compiler, or without float64's operations.
    """
    api, device = found.api, found.device

    def number(which: int) -> int:
        return api.number("clGetDeviceInfo", device, which)

    def text(which: int) -> str:
        return api.text("clGetDeviceInfo", device, which)

    version = _version(text(abi.DEVICE_VERSION))
    if version < _OLDEST or not number(abi.DEVICE_COMPILER_AVAILABLE):
        raise Unsupported(
            f"{found.title} has OpenCL {version[0]}.{version[1]}, or no compiler",
            hint="update its driver: OpenCL 1.2 with a compiler is needed",
        )
    extensions = frozenset(text(abi.DEVICE_EXTENSIONS).split())
    svm = number(abi.DEVICE_SVM_CAPABILITIES) if version >= (2, 0) else 0
    processor = bool(number(abi.DEVICE_TYPE) & abi.DEVICE_TYPE_CPU) and not lanes
    units = max(number(abi.DEVICE_MAX_COMPUTE_UNITS), 1)
    doubles = "cl_khr_fp64" in extensions or number(abi.DEVICE_DOUBLE_FP_CONFIG) != 0
    single = number(abi.DEVICE_SINGLE_FP_CONFIG)
    half = number(abi.DEVICE_HALF_FP_CONFIG) if "cl_khr_fp16" in extensions else 0
    offered = {"fma": bool(single & abi.FP_FMA), DOUBLE: doubles, HALF: _has(half, HALF_NEEDS),
               HALF_OPS: _has(half, HALF_NEEDS | abi.FP_DENORM),
               SUBGROUPS: not processor and _waves(found, extensions)}  # fmt: skip
    options = ROUNDED if single & abi.FP_CORRECTLY_ROUNDED_DIVIDE_SQRT else ""
    limits = Limits(
        dtypes=_ALWAYS | (frozenset({"float64"}) if doubles else frozenset()),
        memory_bytes=number(abi.DEVICE_GLOBAL_MEM_SIZE),
        threads=units,
        vector_bytes=PROCESSOR_VECTOR_BYTES if processor else LANE_VECTOR_BYTES,
        max_grid=MAX_GRID,
        max_block=1 if processor else number(abi.DEVICE_MAX_WORK_GROUP_SIZE),
        shared_bytes=0 if processor else number(abi.DEVICE_LOCAL_MEM_SIZE),
        wave_lanes=WAVE_LANES if offered[SUBGROUPS] else 1,
        signal_bits=SIGNAL_BITS,
        features=frozenset(name for name, there in offered.items() if there),
    )
    lasting = replace(limits, memory_bytes=1)  # PoCL says what this process may still have
    known = [found.platform_name, found.platform_version, found.name, found.driver,
             text(abi.DEVICE_VERSION), *sorted(extensions), lasting.text, options]  # fmt: skip
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()[:HASH_CHARS]
    return Facts(
        found=found, limits=limits, arch=f"{PROCESSOR if processor else LANES}-{digest}",
        version=version, extensions=extensions, processor=processor, units=units, svm=svm,
        max_alloc_bytes=number(abi.DEVICE_MAX_MEM_ALLOC_SIZE), options=options,
        part_align_bytes=max(-(-number(abi.DEVICE_MEM_BASE_ADDR_ALIGN) // _BYTE_BITS), 1),
    )  # fmt: skip


def _waves(found: Found, extensions: frozenset[str]) -> bool:
    """Whether kernels may demand subgroups of WAVE_LANES, and exchange values in them."""
    if not extensions >= WAVE_EXTENSIONS:
        return False
    sizes = found.api.info("clGetDeviceInfo", found.device, abi.DEVICE_SUB_GROUP_SIZES_INTEL)
    words = range(0, len(sizes), abi.POINTER_BYTES)
    return WAVE_LANES in {
        int.from_bytes(sizes[at : at + abi.POINTER_BYTES], "little") for at in words
    }


def _has(config: int, bits: int) -> bool:
    return config & bits == bits


def _version(text: str) -> tuple[int, int]:
    """(3, 0) of "OpenCL 3.0 PoCL"; (0, 0) of anything else."""
    words = text.split()
    parts = words[1].split(".") if len(words) > 1 else []
    if len(parts) < len(_OLDEST) or not all(map(_NUMBER, parts[:2])):
        return 0, 0
    return int(parts[0]), int(parts[1])
