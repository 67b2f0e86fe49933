"""What libcuda says of a device -> its Limits and the name of its architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Limits
from drivers.base.errors import MalformedInput, NotFound, Unsupported
from drivers.cuda import abi
from drivers.cuda.api import Api, Words
from queues.cuda.kernel_code import ARCH, KNOWN, SPECIFIC

SIGNAL_BITS: Final = 64
ROUNDED: Final = "tf32"
"""The feature that lets compilers round the factors of float32 products."""
VECTOR_BYTES: Final = 16
"""Most bytes that one lane loads at once. # src: PTX ISA, vectors of at most 128 bits"""
STATIC_SHARED_BYTES: Final = 48 << 10
"""# src: CUDA C++ Programming Guide, "Shared Memory": more is dynamic, by opting in"""
MAX_DEVICES: Final = 256
_DTYPES: Final = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | {"bool", "float16", "bfloat16", "float32", "float64"}


@dataclass(frozen=True, slots=True)
class Facts:
    """One device, as the driver uses it."""

    title: str
    ordinal: int
    """Its CUdevice."""
    arch: str
    limits: Limits


def count_of(api: Api) -> int:
    """How many devices there are. Raises: NotFound where there is none."""
    count = api.number("cuDeviceGetCount")
    if not 0 < count <= MAX_DEVICES:
        raise NotFound(
            f"libcuda has {count} devices here",
            hint="nvidia-smi lists GPUs; CUDA_VISIBLE_DEVICES may hide them",
        )
    return count


def read_facts(api: Api, index: int, *, rounds: bool = False) -> Facts:
    """Ask a device; `rounds`: products of float32 may be of tf32.

    Raises: NotFound, Unsupported, MalformedInput.
    """
    count = count_of(api)
    if index >= count:
        raise NotFound(
            f"CUDA:{index}: this machine has {count}", hint="python -m drivers.probe lists them"
        )
    device = api.number("cuDeviceGet", index)

    def number(which: int) -> int:
        return api.number("cuDeviceGetAttribute", which, device)

    title = api.device_name(device)
    major, minor = number(abi.COMPUTE_CAPABILITY_MAJOR), number(abi.COMPUTE_CAPABILITY_MINOR)
    arch = arch_of(major, minor, title)
    if not number(abi.UNIFIED_ADDRESSING):
        raise Unsupported(f"{title} has no unified addresses", hint="use 64-bit Linux")
    total = Words()
    api.do("cuDeviceTotalMem_v2", total.at, device)
    grid = tuple(map(number, (abi.MAX_GRID_DIM_X, abi.MAX_GRID_DIM_Y, abi.MAX_GRID_DIM_Z)))
    lanes, warp = number(abi.MAX_THREADS_PER_BLOCK), number(abi.WARP_SIZE)
    shared, units = number(abi.MAX_SHARED_MEMORY_PER_BLOCK), number(abi.MULTIPROCESSOR_COUNT)
    opted = number(abi.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    if min(*grid, lanes, warp, shared, units, total.word) <= 0 or warp > lanes:
        raise MalformedInput(
            f"{title}: grid {grid}, {lanes} lanes, warps of {warp}, {shared} shared bytes, "
            f"{units} processors, {total.word} bytes", hint="update the driver",
        )  # fmt: skip
    limits = Limits(
        dtypes=_DTYPES, memory_bytes=total.word, threads=units, vector_bytes=VECTOR_BYTES,
        max_grid=(grid[0], grid[1], grid[2]), max_block=lanes,
        shared_bytes=max(min(shared, STATIC_SHARED_BYTES), opted), wave_lanes=warp,
        signal_bits=SIGNAL_BITS,
        features=frozenset({ROUNDED} if rounds else ()),
    )  # fmt: skip
    return Facts(title, device, arch, limits)


def arch_of(major: int, minor: int, title: str) -> str:
    """The newest known architecture whose code the device runs: of its major version, and no later.

    Raises: Unsupported.
    # src: CUDA C++ Programming Guide, "Binary Compatibility": a cubin runs on devices of its major
    # version with an equal or a higher minor one; code for sm_90a on 9.0 alone
    """
    wanted = 10 * major + minor
    fits = [sm for sm in KNOWN if sm // 10 == major and sm <= wanted]
    if not fits:
        known = ", ".join(f"{sm // 10}.{sm % 10}" for sm in KNOWN)
        raise Unsupported(
            f"{title} has compute capability {major}.{minor}", hint=f"known here: {known}"
        )
    return f"{ARCH}{max(fits)}{'a' * (max(fits) == wanted and wanted in SPECIFIC)}"
