"""An OpenCL kernel as it is kept: what the driver made of it, and what a launch needs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from drivers.base.errors import MalformedInput

_HEAD: Final = struct.Struct("<4sIIIIII")
_MAGIC: Final = b"UCL2"
MAX_ARGS: Final = 1024
PROCESSOR: Final = "opencl-cpu"
"""How names of architectures begin whose kernels have a processor's shape."""
LANES: Final = "opencl-gpu"
DOUBLE: Final = "fp64"
"""The feature of devices that compute in float64."""
HALF: Final = "fp16"
"""The feature of devices that convert float16 themselves."""
HALF_OPS: Final = "fp16-arithmetic"
"""The feature of those whose sums and products of float16 keep subnormal numbers."""
SUBGROUPS: Final = "subgroups"
"""The feature of those that exchange values between the lanes of a subgroup, which has WAVE_LANES
where a kernel demands it."""
WAVE_LANES: Final = 32
ENTRY: Final = "k_"
"""Before a kernel's name, which could be a function of OpenCL C."""


@dataclass(frozen=True, slots=True)
class ClCode:
    """One kernel."""

    program: bytes
    """What clGetProgramInfo gave for its device; b"" where a driver gives nothing."""
    source: bytes
    nargs: int
    """Buffers that a launch names."""
    block: int
    """Lanes of its workgroups; 0: one, and each work item takes a range of the grid."""
    max_block: int
    shared_bytes: int

    def encode(self) -> bytes:
        """The image of a Binary."""
        numbers = self.nargs, self.block, self.max_block, self.shared_bytes
        head = _HEAD.pack(_MAGIC, len(self.source), len(self.program), *numbers)
        return head + self.source + self.program

    @classmethod
    def decode(cls, image: bytes) -> Self:
        """Raises: MalformedInput."""
        if len(image) <= _HEAD.size:
            raise MalformedInput(f"{len(image)} bytes are no OpenCL kernel", hint="compile it anew")
        magic, source, program, *numbers = _HEAD.unpack_from(image)
        if magic != _MAGIC or _HEAD.size + source + program != len(image) or numbers[0] > MAX_ARGS:
            raise MalformedInput(f"{image[:16]!r} begins no OpenCL kernel", hint="compile it anew")
        rest = image[_HEAD.size :]
        return cls(rest[source:], rest[:source], *numbers)
