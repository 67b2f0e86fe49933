"""ir3 on virtual registers to a kernel of one chip: registers, hazards, instruction words."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from compilers import binary
from compilers.qcom.allocate import Allocation
from compilers.qcom.assemble import Assembler
from compilers.qcom.fit import Fitter
from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.build import link
from compilers.qcom.isa.encode import encode_all
from compilers.qcom.legalize import scheduled
from compilers.qcom.parse import Code, Item, parse
from compilers.qcom.slots import lane_slots
from compilers.qcom.targets import QcomTarget, qcom_target
from compilers.qcom.tidy import tidy
from drivers.base.contracts import Arg, Binary, Resources
from queues.qcom.kernel_code import (
    INSTR_UNIT_BYTES,
    MAX_CONSTLEN,
    NO_BASE,
    NO_REGISTER,
    AdrenoCode,
)

GROUP_ID: Final = 192
"""r48.x. # src: Mesa 25.0.7, ir3_compiler_nir.c: the workgroup's number is in shared registers"""
LOCAL_ID: Final = 0
PARAM_BYTES: Final = 8
_WORDS: Final = 4
_PARAM_WORDS: Final = 2
_CONST_ALIGN: Final = 4
"""# src: Mesa 25.0.7, ir3_shader.c: constlen is a multiple of 4 vec4"""
_NOP: Final = bytes(8)


def identity() -> bytes:
    """Nothing: the code generator's own modules are named by the toolchain."""
    return b""


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Machine code of a kernel, as a Binary's bytes without its name.

    Raises: CompileError, MalformedInput, Unsupported.
    """
    qcom_target(arch)
    code = parse(source)
    tidy(code)
    Fitter(code).run()
    allocation = Allocation(code)
    allocation.run()
    base = _base_word(code)
    start = -(-(_PARAM_WORDS * code.params + (base != NO_BASE)) // _WORDS)
    made = Assembler(allocation.places, start * _WORDS, code.generation)
    for item in code.items:
        made.add(item)
    legal = scheduled(made.code, code.generation)
    turns = {item.label: item.numbers[0] for item in code.items if item.numbers and item.label}
    slots = lane_slots(legal, turns)
    words = encode_all(link(legal), code.generation)
    words += _NOP * (-len(words) % INSTR_UNIT_BYTES // len(_NOP))
    literals = struct.pack(f"<{len(made.literals)}I", *made.literals)
    kernel = replace(
        _record(code, made, start, len(words), allocation.private_bytes, qcom_target(arch)),
        base_word=base, lane_slots=slots,
    )  # fmt: skip
    needs = Resources(
        block=code.block,
        max_block=code.block,
        shared_bytes=code.shared_bytes,
        scratch_bytes=allocation.private_bytes,
        args=tuple(Arg(PARAM_BYTES * place, PARAM_BYTES, True) for place in range(code.params)),
        vendor=kernel.encode(),
    )
    return binary.encode(Binary(arch, "", words + literals, 0, resources=needs))


def _base_word(code: Code) -> int:
    """Where the number of a launch's first workgroup is, if the kernel reads it."""
    word = _PARAM_WORDS * code.params
    read = any(src.kind == "c" and src.number == word for one in code.items for src in one.srcs)
    return word if read else NO_BASE


def _record(
    code: Code, made: Assembler, start: int, nbytes: int, private: int, target: QcomTarget
) -> AdrenoCode:
    literals = len(made.literals)
    end = start + -(-literals // _WORDS)
    constlen = end + -end % _CONST_ALIGN
    if constlen > target.constants:
        raise refused(f"{constlen} vec4 of constants, the chip has {target.constants}")
    registers, branches = -(-made.words // _WORDS), _depth(code.items)
    lane = any(one.srcs and one.srcs[0].kind == "r" for one in code.items)
    return AdrenoCode(
        generation=code.generation,
        instrlen=nbytes // INSTR_UNIT_BYTES,
        full_registers=registers,
        half_registers=0,
        branch_stack=branches,
        wave_lanes=target.wave_lanes(registers, code.block, code.shared_bytes, branches),
        constlen=constlen,
        param_vec4=0,
        literal_vec4=start,
        literal_words=literals,
        grid_vec4=MAX_CONSTLEN,
        group_id_reg=GROUP_ID,
        local_id_reg=LOCAL_ID if lane else NO_REGISTER,
        private_bytes=private,
        textures=code.textures,
    )


def _depth(items: list[Item]) -> int:
    """Branches and loops that are open at once."""
    loops = {one.label for one in items if one.stem == "br"}
    depth = most = 0
    for item in items:
        if item.stem == "brn" or (item.stem == "label" and item.label in loops):
            depth += 1
        elif item.stem in ("br", "label"):
            depth -= 1
        most = max(most, depth)
    return most
