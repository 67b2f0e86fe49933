"""The kernel descriptor: 64 bytes with the launch state of a kernel.

Source: LLVM AMDGPUUsage, "Kernel Descriptor"; llvm/Support/AMDHSAKernelDescriptor.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers.amd.targets import AmdTarget
from drivers.base.regs import Reg32, bits
from drivers.base.view import View
from queues.amd.registers import REGISTERS

DESCRIPTOR_BYTES: Final = 64
CODE_ALIGN_BYTES: Final = 256
"""COMPUTE_PGM_LO holds the address without its low 8 bits."""
_LAYOUT: Final = "III4sq20sIIIHH4s"
_SGPR_GRANULE: Final = 16  # src: AMDGPUUsage GRANULATED_WAVEFRONT_SGPR_COUNT, gfx9


class Properties(Reg32):
    """Bytes 56..59: the kernel's initial user SGPRs, in this order, and its execution mode."""

    private_segment_buffer: int = bits(0)
    dispatch_ptr: int = bits(1)
    queue_ptr: int = bits(2)
    kernarg_segment_ptr: int = bits(3)
    dispatch_id: int = bits(4)
    flat_scratch_init: int = bits(5)
    private_segment_size: int = bits(6)
    wave32: int = bits(10)
    dynamic_stack: int = bits(11)
    preload_length: int = bits(22, 16)
    preload_offset: int = bits(31, 23)

    def user_sgprs(self) -> int:
        """SGPRs that these properties request."""
        # src: AMDGPUUsage, "SGPR Register Set Up Order"
        return (
            4 * self.private_segment_buffer
            + 2 * (self.dispatch_ptr + self.queue_ptr + self.kernarg_segment_ptr)
            + 2 * (self.dispatch_id + self.flat_scratch_init)
            + self.private_segment_size
            + self.preload_length
        )


_RESERVED_PROPERTIES: Final = 1 << 7 | 1 << 8 | 1 << 9 | 0xF << 12


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A decoded kernel descriptor. Sizes in bytes."""

    group_bytes: int
    private_bytes: int
    kernarg_bytes: int
    code_off: int
    """Offset of the code from the descriptor's address."""
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: Properties
    wave_lanes: int
    vgprs: int
    """Vector registers of a lane that RSRC1 allocates."""
    sgprs: int
    """Scalar registers that RSRC1 allocates; 0 where every wave gets all of them."""
    fields: dict[str, int]
    """"rsrc1.vgprs", "rsrc2.user_sgpr", ...: the fields of the three registers."""


def read(view: View, target: AmdTarget) -> Descriptor:
    """Decode and check a descriptor for one chip. Raises: MalformedInput."""
    group, private, kernarg, zero0, code, zero1, rsrc3, rsrc1, rsrc2, low, high, zero2 = (
        view.unpack(_LAYOUT, 0, "kernel descriptor")
    )
    properties = Properties.of(high << 16 | low)
    if any(zero0 + zero1 + zero2) or properties.raw & _RESERVED_PROPERTIES:
        raise view.fail("reserved bits of the kernel descriptor are set")
    generation = target.generation
    if generation.wave_lanes == (64,) and properties.wave32:
        raise view.fail(f"a 32-lane wave on {target.arch}")
    wave_lanes = 32 if properties.wave32 else 64
    fields = _fields(generation.registers, rsrc1, rsrc2, rsrc3)
    if properties.user_sgprs() > fields["rsrc2.user_sgpr"]:
        raise view.fail(f"properties {properties!r} need more user SGPRs than RSRC2 gives")
    if group > target.chip.lds_bytes:
        raise view.fail(f"{group} bytes of LDS; {target.arch} has {target.chip.lds_bytes}")
    vgprs = (fields["rsrc1.vgprs"] + 1) * generation.vgpr_granule[wave_lanes]
    sgprs = (fields["rsrc1.sgprs"] // 2 + 1) * _SGPR_GRANULE
    return Descriptor(
        group, private, kernarg, code, rsrc1, rsrc2, rsrc3, properties, wave_lanes, vgprs,
        sgprs if generation.registers == "gfx9" else 0, fields,
    )  # fmt: skip


def _fields(registers: str, rsrc1: int, rsrc2: int, rsrc3: int) -> dict[str, int]:
    declared = REGISTERS[registers]
    return {
        f"rsrc{number}.{name}": value
        for number, raw in ((1, rsrc1), (2, rsrc2), (3, rsrc3))
        for name, value in declared.decode(f"COMPUTE_PGM_RSRC{number}", raw).items()
    }
