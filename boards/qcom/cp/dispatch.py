"""Registers and loaded state, as one dispatch for the shader processors.

src: Mesa 25.0.7, a6xx.xml; src/freedreno/computerator/a6xx.cc and tu_cmd_buffer.cc tu_dispatch
(what a dispatch needs), tu_shader.cc tu6_emit_cs_config
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from boards.machine.arrays import Array, Words
from boards.qcom.chips import AdrenoChip
from boards.qcom.cp import registers as r
from boards.qcom.cp.faults import HANG, GpuFault
from boards.qcom.cp.state import (
    CODE_BYTES,
    SHARED_VEC4,
    SHARED_WORDS,
    VEC4_BYTES,
    ComputeState,
    Find,
    Read,
)
from boards.qcom.memory import PAGE_BYTES
from boards.qcom.wave.dispatch import NO_REGISTER, Dispatch

_BLOCK_MASK = 0x3FF
_KIB = 1 << 10
_RAM_MODES = (128, 192, 256, 512)
"""vec4 of constants that CONSTANTRAMMODE keeps."""
_MOST_LANES = 1024
_READ_IMMEDIATE, _IMMEDIATES = 9, 64
_NTEX_SHIFT, _NSAMP_SHIFT = 9, 17
_BINDLESS = 3
"""Bits of SP_CS_CONFIG: textures, samplers."""
_STACK_SHIFT, _SIZE_SHIFT, _ITEM_SHIFT = 11, 12, 9

_PRELOADED = 6
"""The generation whose code is loaded by packets."""


class Composer:
    """Reads the registers of one submission."""

    def __init__(self, chip: AdrenoChip, registers: Mapping[int, int], find: Find) -> None:
        self._chip, self._registers, self._find = chip, registers, find
        self._at = r.offsets(chip.generation)

    def _read(self, register: int) -> int:
        value = self._registers.get(register)
        if value is None:
            self._find("unset register", f"a dispatch without register {register:#x} written")
            return 0
        return value

    def _pair(self, register: int) -> int:
        return self._read(register) | self._read(register + 1) << 32

    def check_grid(self, groups: tuple[int, int, int]) -> tuple[int, int, int]:
        """The workgroup's size, after what NDRANGE says of the grid was checked."""
        first = self._read(self._at.ndrange)
        block = tuple((first >> low & _BLOCK_MASK) + 1 for low in (2, 12, 22))
        dims = first & 3
        for axis in range(3):
            size = self._read(self._at.ndrange + 1 + 2 * axis)
            offset = self._read(self._at.ndrange + 2 + 2 * axis)
            last = groups[axis] * block[axis] if axis < dims else size
            if size != last and (
                self._chip.generation < 7 or -(-size // block[axis]) != groups[axis]
            ):
                self._find("grid", f"NDRANGE has {size} items along {'xyz'[axis]}, not {last}")
            if offset:
                self._find("unmodelled", "a global offset in NDRANGE")
        if block[0] * block[1] * block[2] > _MOST_LANES:
            raise GpuFault(HANG, f"workgroups of {block} are too large")
        return block[0], block[1], block[2]

    def check_last(self, block: tuple[int, int, int]) -> None:
        """LAST_LOCAL_SIZE of generation 7: partial workgroups are not modelled."""
        if self._at.last_local:
            value = self._read(self._at.last_local)
            last = tuple((value >> low & _BLOCK_MASK) + 1 for low in (2, 12, 22))
            if last != block:
                self._find("unmodelled", f"a last workgroup of {last}, others of {block}")

    def _sizes(self, constlen: int) -> int:
        """Shared bytes, after the constant RAM's mode was checked."""
        control = self._read(r.SP_CS_CTRL_REG1)
        mode = control >> 5 & 3
        if _RAM_MODES[mode] > self._chip.constants and self._chip.generation == _PRELOADED:
            self._find("constants", f"CONSTANTRAMMODE {mode} is generation 7's")
        if _RAM_MODES[mode] < constlen:
            what = f"CONSTANTRAMMODE {mode} keeps {_RAM_MODES[mode]} vec4, constlen is {constlen}"
            self._find("constants", what)
        size = control & 0x1F
        return (size + 1) * _KIB if size else 32 * _KIB

    def _private(self, read: Read) -> int:
        """Bytes of one lane; the memory must be mapped."""
        param = self._registers.get(r.SP_CS_PVT_MEM_PARAM, 0)
        each = (param & 0xFF) << _ITEM_SHIFT
        if each:
            total = (self._read(r.SP_CS_PVT_MEM_SIZE) & 0x3FFFF) << _SIZE_SHIFT
            if total < each * self._chip.fibers:
                what = f"{total:#x} bytes for each SP, {self._chip.fibers} lanes of {each}"
                self._find("private memory", what)
            base = self._pair(r.SP_CS_PVT_MEM_ADDR)
            for va in (base, base + total * self._chip.sps - PAGE_BYTES):
                read(va, 1)
            stack = (self._read(r.SP_CS_PVT_MEM_HW_STACK_OFFSET) & 0x7FFFF) << _STACK_SHIFT
            if stack < total:
                self._find("private memory", f"HW_STACK_OFFSET {stack:#x} is inside of it")
        return each

    def _control(self, wide: int) -> tuple[int, int]:
        """(register of the workgroup's id, of the local id), the same wherever they are said."""
        value = self._read(self._at.cntl_0)
        twice = self._chip.generation < 7 and self._chip.lpac
        if twice and self._read(r.SP_CS_CNTL_0) != value:
            self._find("registers differ", "SP_CS_CNTL_0 is not as HLSQ_CS_CNTL_0")
        sizes = [self._read(self._at.cntl_1) >> 9]
        if self._chip.lpac:
            sizes.append(self._read(r.SP_CS_CNTL_1) >> (8 if self._chip.generation >= 7 else 9))
        if any(size & 1 != wide for size in sizes):
            self._find("registers differ", "THREADSIZE of CS_CNTL_1 is not that of CTRL_REG0")
        return value & 0xFF, value >> 24

    def _code(self, state: ComputeState, read: Read) -> tuple[int, bytes]:
        va, units = self._pair(r.SP_CS_OBJ_START), self._read(r.SP_CS_INSTRLEN) & 0xFFFFFFF
        if va % 32 or self._registers.get(r.SP_CS_OBJ_FIRST_EXEC_OFFSET, 0):
            self._find("code", f"code at {va:#x} with a first offset, or not 32-aligned")
        if not state.code_units:  # src: Mesa tu6_emit_xs(): generation 7 fetches it itself
            if self._chip.generation == _PRELOADED:
                self._find("code", "no code was loaded by LOAD_STATE6 since HLSQ_INVALIDATE_CMD")
        elif state.code_va != va or state.code_units > units:
            self._find("code", f"LOAD_STATE6 loaded {state.code_va:#x}, the dispatch is at {va:#x}")
        return va, bytes(read(va, units * CODE_BYTES))

    def _sets(self) -> tuple[int, ...]:
        found = []
        for index in range(self._at.sets):
            register = r.SP_CS_BINDLESS_BASE + 2 * index
            low, high = self._registers.get(register, 0), self._registers.get(register + 1, 0)
            mirror = self._at.bindless
            if mirror and self._registers.get(mirror + 2 * index, 0) != low:
                self._find("registers differ", f"HLSQ_CS_BINDLESS_BASE {index} is not as SP's")
            found.append((low & ~3) | high << 32)
        return tuple(found)

    def _address(self, register: int, loaded: int, what: str) -> int:
        low, high = self._registers.get(register, 0), self._registers.get(register + 1, 0)
        va = low | high << 32
        if va and loaded and loaded != va:
            self._find("registers differ", f"LOAD_STATE6 took {what} from {loaded:#x}, not {va:#x}")
        return va or loaded

    def compose(self, groups: tuple[int, int, int], state: ComputeState, read: Read) -> Dispatch:
        """Everything for the shader processors. Raises: GpuFault, PageFault."""
        block = self.check_grid(groups)
        self.check_last(block)
        control = self._read(r.SP_CS_CTRL_REG0)
        constants = self._read(self._at.cs_cntl)
        config = self._read(r.SP_CS_CONFIG)
        if not constants & 1 << 8 or not config & 1 << 8:
            raise GpuFault(HANG, "EXEC_CS with SP_CS_CONFIG or HLSQ_CS_CNTL not enabled")
        constlen = (constants & 0xFF) << 2
        if constlen > self._chip.constants:
            what = f"constlen is {constlen} vec4, a kernel has {self._chip.constants} at most"
            self._find("constants", what)
        self._check_counts(config, state)
        if control >> 31 and control >> 1 & 0x3F:
            self._find("registers differ", "HALFREGFOOTPRINT of a merged register file")
        group_id, local_id = self._control(control >> 20 & 1)
        va, code = self._code(state, read)
        file, loaded = self._constants(state, min(constlen * 4, len(state.constants)))
        return Dispatch(
            generation=self._chip.generation, code=code, code_va=va,
            constants=file, loaded=loaded, shared_constants=self._immediate(constants),
            groups=groups, block=block, wave_lanes=128 if control >> 20 & 1 else 64,
            full_registers=control >> 7 & 0x3F, half_registers=control >> 1 & 0x3F,
            merged=bool(control >> 31), early_preamble=bool(control >> 23 & 1),
            branch_stack=2 * (control >> 14 & 0x3F),
            group_id_reg=group_id, local_id_reg=local_id,
            shared_bytes=self._sizes(constlen), private_bytes=self._private(read),
            private_by_waves=bool(self._registers.get(r.SP_CS_PVT_MEM_SIZE, 0) >> 31),
            textures=config >> _NTEX_SHIFT & 0xFF,
            textures_va=self._address(r.SP_CS_TEX_CONST, state.texture_va, "textures"),
            samplers_va=self._address(r.SP_CS_TEX_SAMP, state.sampler_va, "samplers"),
            uavs_va=self._address(r.SP_CS_IBO, state.uav_va, "UAVs"),
            ubos={at: (va, vec4 * VEC4_BYTES) for at, (va, vec4) in state.ubos.items()},
            bindless=self._sets(),
            bank_bit=self._chip.bank_bit,
            scalar_alu=self._chip.scalar_alu,
        )  # fmt: skip

    def _check_counts(self, config: int, state: ComputeState) -> None:
        """Textures and samplers that SP_CS_CONFIG counts are somewhere."""
        for count, register, loaded, what in (
            (config >> _NTEX_SHIFT & 0xFF, r.SP_CS_TEX_CONST, state.texture_va, "textures"),
            (config >> _NSAMP_SHIFT & 0x1F, r.SP_CS_TEX_SAMP, state.sampler_va, "samplers"),
        ):
            if count and not config & _BINDLESS and not (
                loaded and self._registers.get(register, 0)
            ):  # fmt: skip
                self._find("state block", f"SP_CS_CONFIG counts {count} {what} that are not loaded")

    def _constants(self, state: ComputeState, count: int) -> tuple[Words, Array]:
        """The constant file; with shared constants of generation 6 it reaches to their end."""
        if not self._at.shared or not self._registers.get(self._at.shared, 0) & 1:
            return state.constants[:count].copy(), state.loaded[:count].copy()
        file = np.zeros(SHARED_VEC4 * 4 + SHARED_WORDS, np.uint32)
        loaded = np.zeros(len(file), np.bool_)
        file[:count], loaded[:count] = state.constants[:count], state.loaded[:count]
        file[-SHARED_WORDS:], loaded[-SHARED_WORDS:] = state.shared, state.shared_loaded
        return file, loaded

    def _immediate(self, control: int) -> Words:
        """HLSQ_SHARED_CONSTS_IMM of generation 7, where HLSQ_CS_CNTL says they are read."""
        first = self._at.shared_consts
        if not first or not control >> _READ_IMMEDIATE & 1:
            return np.zeros(0, np.uint32)
        words = [self._registers.get(first + index, 0) for index in range(_IMMEDIATES)]
        return np.array(words, np.uint32)


__all__ = ["NO_REGISTER", "Composer"]
