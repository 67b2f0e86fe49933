"""A program of Qualcomm's OpenCL compiler as a Binary that the Adreno driver launches.

Images, samplers, an entry of its own and constants beyond the 256 vec4 that are loaded are refused.
Only synthetic containers have come this way, never a program of that compiler.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

from compilers.qcom.cl_container import Argument, ClProgram
from compilers.qcom.targets import GRANULARITY, MAX_BLOCK, WAVE_LANES, qcom_target
from drivers.base.contracts import Arg, Binary, Resources
from drivers.base.errors import MalformedInput, Unsupported
from queues.qcom import opencl
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, MAX_CONSTLEN, VEC4_BYTES, AdrenoCode
from queues.qcom.registers import GEN6

POINTER_BYTES: Final = 8
_LIMIT_BYTES: Final = opencl.CONSTLEN * VEC4_BYTES
_HINT: Final = "use QCOM_IR3=1"


def generation_6(arch: str) -> None:
    """Raises: Unsupported for another chip: how such code is launched there is not known."""
    if qcom_target(arch).generation != GEN6:
        raise Unsupported(f"{arch}: OpenCL code of generation 6 alone is launched", hint=_HINT)


def binary_of(program: ClProgram, arch: str, block: int) -> Binary:
    """For workgroups of `block` lanes. Raises: Unsupported, MalformedInput."""
    generation_6(arch)
    _check(program)
    most = most_lanes(program, arch)
    if block > most:
        raise Unsupported(
            f"{program.name}: workgroups of {block} lanes, its registers leave {most}", hint=_HINT
        )
    constants = _constants(program)
    code = program.code + bytes(-len(program.code) % INSTR_UNIT_BYTES)
    made = AdrenoCode(
        generation=GEN6,
        instrlen=len(code) // INSTR_UNIT_BYTES,
        full_registers=program.full_registers,
        half_registers=program.half_registers,
        branch_stack=program.branch_stack,
        wave_lanes=WAVE_LANES,
        constlen=opencl.CONSTLEN,
        param_vec4=0,
        literal_vec4=0,
        literal_words=len(constants) // 4,
        grid_vec4=MAX_CONSTLEN,
        group_id_reg=opencl.GROUP_ID,
        local_id_reg=opencl.LOCAL_ID,
        private_bytes=program.private_bytes + -program.private_bytes % 4,
        opencl=1,
    )
    needs = Resources(
        block=block,
        max_block=most,
        shared_bytes=program.shared_bytes,
        scratch_bytes=made.private_bytes,
        args=tuple(Arg(one.offset, POINTER_BYTES, True) for one in program.parameters),
        vendor=made.encode(),
    )
    binary = Binary(arch, program.name, code + constants, 0, resources=needs)
    made.check(binary)
    return binary


def most_lanes(program: ClProgram, arch: str) -> int:
    """Of a workgroup, whose waves of 64 share the registers.
    # src: tinygrad 0.14.0, runtime/ops_qcom.py, QCOMProgram.max_threads; on a630 the same number"""
    vec4 = max(1, program.full_registers + -(-program.half_registers // 2))
    return min(MAX_BLOCK, qcom_target(arch).register_file // vec4 * GRANULARITY * WAVE_LANES)


def _check(program: ClProgram) -> None:
    if program.samplers or any(one.kind is not Argument.BUFFER for one in program.parameters):
        raise Unsupported(f"{program.name}: images and samplers of OpenCL", hint=_HINT)
    if program.entry:  # the unit of SP_CS_OBJ_FIRST_EXEC_OFFSET is not known
        raise Unsupported(f"{program.name}: it begins at {program.entry:#x}", hint=_HINT)


def _constants(program: ClProgram) -> bytes:
    """All constants, in whole vec4; zeros for the arguments. Raises: as binary_of."""
    uses = [(one.offset, one.offset + POINTER_BYTES) for one in program.parameters]
    uses += [(one.offset, one.offset + one.nbytes) for one in program.constants]
    uses.sort()
    for (_, stop), (start, _) in pairwise(uses):
        if stop > start:
            raise MalformedInput(f"{program.name}: two values at byte {start:#x} of the constants")
    if any(one.offset % POINTER_BYTES for one in program.parameters):
        raise MalformedInput(f"{program.name}: an address that is not at a multiple of 8 bytes")
    end = uses[-1][1] if uses else 0
    if end > _LIMIT_BYTES:
        raise Unsupported(
            f"{program.name}: constants up to byte {end:#x}, {_LIMIT_BYTES:#x} are loaded",
            hint=_HINT,
        )
    made = bytearray(end + -end % VEC4_BYTES)
    for one in program.constants:
        form = "<I" if one.nbytes == 4 else "<H"
        struct.pack_into(form, made, one.offset, one.value)
    return bytes(made)
