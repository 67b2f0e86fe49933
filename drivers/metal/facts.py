"""What a Metal device says of itself -> its Limits and the name of its architecture."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Limits, World
from drivers.base.errors import MalformedInput, NotFound, Unsupported
from drivers.base.undo import Undo
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api, Owned, retained
from queues.metal.kernel_code import ARCH, MATRICES

FAMILIES: Final = ("Apple6", "Apple7", "Apple8", "Apple9", "Mac2", "Metal3")
NEEDED: Final = "Metal3"
"""Addresses of buffers and MSL 3.0; and a family that macOS 12 does not know: it is refused.
# src: Apple, "Metal Feature Set Tables": Metal3; MTLGPUFamily.metal3, "macOS 13.0+" """
_SIMD: Final = "Apple7"
"""Matrices of SIMD-groups, and 32 lanes in one.
# src: Apple, "Metal Feature Set Tables": SIMD-scoped matrix multiply operations (Apple7);
# "SIMD-scoped permute operations" (Apple6) """
WAVE_LANES: Final = 32
MAX_BUFFERS: Final = 31
"""# src: Apple, "Metal Feature Set Tables": entries in the buffer argument table, per kernel"""
MAX_GRID: Final = ((1 << 22) - 1, 65535, 65535)
"""Workgroups: with 1,024 lanes each, positions of lanes stay below 2^32."""
SIGNAL_BITS: Final = 64
VECTOR_BYTES: Final = 16
_INTEGERS: Final = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_DTYPES: Final = frozenset({"bool", "float16", "bfloat16", "float32", *_INTEGERS})
"""MSL has no float64. The compiler computes with 16-bit floats as bits and float32."""
HASH_CHARS: Final = 12
MAX_DEVICES: Final = 64
UNITS: Final = 8
"""Metal does not say how many cores a GPU has: the least of Apple silicon, for the schedule alone.
# src: Apple, "MacBook Air (M1)" technical specifications: 7 or 8 GPU cores"""


@dataclass(frozen=True, slots=True)
class Facts:
    """One device, as the driver uses it."""

    title: str
    limits: Limits
    arch: str
    families: frozenset[str]
    max_alloc_bytes: int


def devices(api: Api) -> list[Owned]:
    """All of the machine; each is ours to release. Raises: NotFound where there is none."""
    send = api.send
    array = api.functions["MTLCopyAllDevices"]()
    if not 0 < array < 1 << 56:
        raise NotFound("Metal has no device here", hint="run on a Mac, outside of its sandbox")
    held = Owned(api, array)
    try:
        count = send["count"](array)
        if not 0 < count <= MAX_DEVICES:
            raise NotFound(f"Metal has {count} devices here", hint="run on a Mac with a GPU")
        found: list[Owned] = []
        with Undo() as undo, api.pool():
            for at in range(count):
                found.append(retained(api, send["objectAtIndex:"](array, at)))
                undo.add(found[-1].release)
        return found
    finally:
        held.release()


def choose(world: World, index: int) -> tuple[Api, Owned]:
    """The device of that number. Raises: NotFound."""
    api = Api(world)
    found = devices(api)
    if index >= len(found):
        for one in found:
            one.release()
        raise NotFound(
            f"METAL:{index}: this machine has {len(found)}",
            hint="python -m drivers.probe lists them",
        )
    for place, one in enumerate(found):
        if place != index:
            one.release()
    return api, found[index]


def read_facts(api: Api, device: int) -> Facts:
    """Ask the device. Raises: Unsupported for GPUs and releases of macOS that lack too much."""
    send = api.send
    with api.pool():
        title = api.text(send["name"](device))
    families = frozenset(
        name
        for name in FAMILIES
        if send["supportsFamily:"](device, CONSTANTS[f"MTL::GPUFamily{name}"])
    )
    if NEEDED not in families:
        raise Unsupported(
            f"{title} is of the families {', '.join(sorted(families)) or 'none that is known'}",
            hint=f"{NEEDED} is needed: a Mac of 2017 or later with macOS 13 or later",
        )
    simd = _SIMD in families
    lanes = send["maxThreadsPerThreadgroup"](device)[0]
    shared, memory = (
        send[name](device)
        for name in ("maxThreadgroupMemoryLength", "recommendedMaxWorkingSetSize")
    )
    longest = send["maxBufferLength"](device)
    if not (0 < lanes <= 1 << 16 and 0 < shared < 1 << 32 and min(memory, longest) > 0):
        raise MalformedInput(
            f"{title}: {lanes} lanes, {shared} shared bytes, {memory} bytes", hint="update macOS"
        )
    limits = Limits(
        dtypes=_DTYPES, memory_bytes=memory, threads=UNITS, vector_bytes=VECTOR_BYTES,
        max_grid=MAX_GRID, max_block=lanes, shared_bytes=shared,
        wave_lanes=WAVE_LANES if simd else 0, max_params=MAX_BUFFERS, signal_bits=SIGNAL_BITS,
        features=frozenset({"fma"} | ({MATRICES} if simd else set())),
    )  # fmt: skip
    digest = hashlib.sha256("\n".join([title, *sorted(families), limits.text]).encode())
    arch = f"{ARCH}-{digest.hexdigest()[:HASH_CHARS]}"
    return Facts(title, limits, arch, families, longest)
