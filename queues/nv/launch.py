"""Launches prepared once: push buffer, QMD and constant bank 0 in one block; few words change.

    0      methods: schedule the QMD, then write the ring's progress
    256 n  QMD
    256 m  constant bank 0: sizes, windows, arguments

A launch changes the arguments, the grid, the addresses of QMD and bank, and the progress.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod
from operator import itemgetter
from typing import Final, TypeAlias

from drivers.base.errors import BadArgument
from queues.nv import words as nv_words
from queues.nv.classes import WORD_BITS, WORD_BYTES, WORD_MASK, Subchannel
from queues.nv.constant_bank import STACK_KEPT_BYTES, STACK_TOP, bank_of
from queues.nv.kernel_code import NvCode
from queues.nv.occupancy import check_block, resident_blocks
from queues.nv.qmd import QMD_SHIFT, Qmd, QmdLayout, layout_of
from queues.nv.words import Target

Block: TypeAlias = tuple[int, int, int]
PackInto: TypeAlias = Callable[..., None]
Pick: TypeAlias = Callable[[Sequence[object]], Sequence[object]]
LINE_BYTES: Final = 256
"""What a block of a ring is a multiple of: the alignment of QMDs."""
MAX_GRID: Final = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
"""# src: GRID_HEIGHT and GRID_DEPTH have 16 bits; CUDA's own limits"""
SHARED_ALIGN: Final = 256  # src: Mesa nak/qmd.rs set_smem_size
LOCAL_ALIGN: Final = 32
_KIB: Final = 1024
SIZES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_INVALIDATE_COPY_SCHEDULE: Final = 3
"""PCAS_ACTION. # src: clc7c0.h; Mesa nvk_cmd_dispatch.c uses it"""
_QMD_TYPE_GRID_CTA: Final = 2
_QMD_GROUP: Final = {"04_00": 0x3F, "05_00": 0x1F}
_CWD_MEMBAR_L1_SYSMEMBAR: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A loaded kernel."""

    name: str
    code_va: int
    code: NvCode
    args: tuple[tuple[int, int], ...]
    """(offset from `param_offset`, bytes) of each, in order of their offsets."""
    block: Block
    max_block: int
    shared_bytes: int
    """As the hardware counts it."""
    banks: tuple[tuple[int, int, int], ...] = ()
    """(number, address, bytes) of other constant banks."""

    def with_shared(self, added: int) -> Kernel:
        """The kernel with so much more shared memory than it declares, behind its own."""
        return replace(self, shared_bytes=self.shared_bytes + added) if added else self

    @property
    def lane_bytes(self) -> int:
        """Private memory of a lane; 0 for none."""
        if not self.code.local_bytes:
            return 0
        return _up(self.code.local_bytes + STACK_KEPT_BYTES, LOCAL_ALIGN)


def _up(value: int, to: int) -> int:
    return -(-value // to) * to


def shared_config(target: Target, nbytes: int) -> int:
    """How a share of an SM's L1 is encoded: the first that is large enough.

    # src: Mesa nak/qmd.rs gv100_sm_config_smem_size: 4 KiB units, plus one
    """
    for kib in target.shared_kib:
        if kib * _KIB >= nbytes:
            return kib // WORD_BYTES + 1
    raise BadArgument(
        f"{nbytes} bytes of shared memory: sm_{target.sm} has {target.max_shared_bytes}",
        hint="use less shared memory",
    )


def build_qmd(target: Target, kernel: Kernel, block: Block) -> Qmd:
    """Everything of the descriptor that no launch changes. Raises: BadArgument."""
    layout, code = layout_of(target.qmd), kernel.code
    qmd = Qmd(layout)
    major, minor = map(int, target.qmd.split("_"))
    qmd.put("QMD_MAJOR_VERSION", major)
    qmd.put("QMD_MINOR_VERSION", minor)
    qmd.put("SASS_VERSION", target.sass)
    qmd.put("API_VISIBLE_CALL_LIMIT", 1)
    qmd.put("CWD_MEMBAR_TYPE", _CWD_MEMBAR_L1_SYSMEMBAR)
    qmd.set_where(1, "SM_GLOBAL_CACHING_ENABLE")
    qmd.set_where(_QMD_TYPE_GRID_CTA, "QMD_TYPE")
    qmd.set_where(_QMD_GROUP.get(target.qmd, 0x3F), "QMD_GROUP_ID")
    for cache in (
        "TEXTURE_HEADER_CACHE", "TEXTURE_SAMPLER_CACHE", "TEXTURE_DATA_CACHE", "SHADER_DATA_CACHE",
        "SHADER_CONSTANT_CACHE",
    ):  # fmt: skip
        qmd.put(f"INVALIDATE_{cache}", 1)
    for axis, lanes in enumerate(block):
        qmd.put(f"CTA_THREAD_DIMENSION{axis}", lanes)
    qmd.put_address("PROGRAM_ADDRESS", kernel.code_va)
    qmd.put("REGISTER_COUNT", code.registers)
    qmd.put("BARRIER_COUNT", code.barriers)
    _put_memory(target, kernel, qmd, prod(block))
    return qmd


def _put_memory(target: Target, kernel: Kernel, qmd: Qmd, lanes: int) -> None:
    """Shared and private memory, constant banks.

    Of an SM's L1, one workgroup needs the least; wanted is enough for all that registers and lanes
    allow at once. # src: Mesa nak/qmd.rs gv100_get_qmd_smem_config(), newer than 25.0.7 (the least)
    """
    shared = _up(kernel.shared_bytes, SHARED_ALIGN)
    qmd.put("SHARED_MEMORY_SIZE", shared)
    qmd.put("MIN_SM_CONFIG_SHARED_MEM_SIZE", shared_config(target, shared))
    blocks = resident_blocks(target.sm, kernel.code.registers, lanes)
    wanted = min(shared * blocks, target.shared_kib[-1] * _KIB)
    qmd.put("TARGET_SM_CONFIG_SHARED_MEM_SIZE", shared_config(target, wanted))
    qmd.put("MAX_SM_CONFIG_SHARED_MEM_SIZE", target.shared_kib[-1] // WORD_BYTES + 1)
    qmd.put("SHADER_LOCAL_MEMORY_HIGH_SIZE", kernel.lane_bytes)
    banks = [(0, 0, kernel.code.bank0_bytes), *kernel.banks]
    for number, va, nbytes in banks:
        qmd.put("CONSTANT_BUFFER_VALID", 1, number)
        qmd.put("CONSTANT_BUFFER_SIZE", _up(nbytes, 16), number)
        qmd.put("CONSTANT_BUFFER_INVALIDATE", 1, number)
        qmd.put_address("CONSTANT_BUFFER_ADDR", va, number)


def build_bank(target: Target, kernel: Kernel, block: Block) -> bytearray:
    """Constant bank 0 without arguments and grid."""
    layout = bank_of(target.sm)
    bank = bytearray(_up(max(kernel.code.bank0_bytes, layout.end), LINE_BYTES))
    struct.pack_into("<3I", bank, layout.block, *block)
    struct.pack_into("<I", bank, layout.stack, STACK_TOP)
    windows = (
        (layout.shared_window, target.shared_window), (layout.local_window, target.local_window),
    )  # fmt: skip
    for at, va in windows:
        if at is not None:
            struct.pack_into("<Q", bank, at, va)
    return bank


class Launcher:
    """Launches of one kernel with workgroups of one size.

    `pack_into(memory, at, *values(...))` writes a block of `nbytes` that lies at an address;
    its first `nwords` words are the push buffer.
    """

    def __init__(self, target: Target, kernel: Kernel, block: Block, progress_va: int) -> None:
        if prod(block) > kernel.max_block:
            raise BadArgument(f"{kernel.name}: {prod(block)} lanes", hint="use smaller workgroups")
        check_block(kernel.name, kernel.code.registers, block)
        self.kernel, self.block = kernel, block
        layout = layout_of(target.qmd)
        push, payload = _methods(target, progress_va)
        self.nwords = len(push)
        self.qmd_off = _up(len(push) * WORD_BYTES, LINE_BYTES)
        self.bank_off = _up(self.qmd_off + layout.nbytes, LINE_BYTES)
        bank = build_bank(target, kernel, block)
        self.nbytes = self.bank_off + len(bank)
        self.nlines = self.nbytes // LINE_BYTES
        words = build_qmd(target, kernel, block).words
        self._shift, self._param_offset = layout.place(_ADDRESS)[2], kernel.code.param_offset
        packer = _Packer(self.nbytes)
        packer.fixed(0, struct.pack(f"<{len(push)}I", *push))
        packer.fixed(self.qmd_off, struct.pack(f"<{len(words)}I", *words))
        packer.fixed(self.bank_off, bytes(bank))
        packer.hole(_PCAS_WORD * WORD_BYTES, "I", Value.QMD)
        packer.hole(payload * WORD_BYTES, "Q", Value.MARK)
        self._qmd_holes(packer, layout)
        self._upper_fixed = words[layout.word(_ADDRESS) + 1]
        self._bank_holes(packer, target)
        self.pack_into, self._fixed, self._pick = packer.close(Value.ARGS + len(kernel.args))

    def _qmd_holes(self, packer: _Packer, layout: QmdLayout) -> None:
        for axis, name in enumerate(("GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH")):
            packer.hole(self.qmd_off + layout.word(name) * WORD_BYTES, "I", Value.GRID + axis)
        at = self.qmd_off + layout.word(_ADDRESS) * WORD_BYTES
        packer.hole(at, "I", Value.BANK_LOWER)
        packer.hole(at + WORD_BYTES, "I", Value.BANK_UPPER)

    def _bank_holes(self, packer: _Packer, target: Target) -> None:
        layout, code = bank_of(target.sm), self.kernel.code
        for axis in range(3):
            at = self.bank_off + layout.grid + axis * WORD_BYTES
            packer.hole(at, "I", Value.GRID + axis)
        if layout.params_va is not None:
            packer.hole(self.bank_off + layout.params_va, "Q", Value.PARAMS_VA)
        for number, (offset, nbytes) in enumerate(self.kernel.args):
            at = self.bank_off + code.param_offset + offset
            packer.hole(at, SIZES[nbytes], Value.ARGS + number)

    def values(self, args: Sequence[int], va: int, grid: Block, mark: int) -> Sequence[object]:
        """What is packed for one launch, whose block lies at `va`."""
        bank = va + self.bank_off
        shifted = bank >> self._shift
        lower, upper = shifted & WORD_MASK, self._upper_fixed | shifted >> WORD_BITS
        qmd, params = va + self.qmd_off >> QMD_SHIFT, bank + self._param_offset
        return self._pick((qmd, mark, *grid, lower, upper, params, *args, *self._fixed))


class Value(IntEnum):
    """Where in its list of values a launch has what it changes."""

    QMD = 0
    MARK = 1
    GRID = 2
    BANK_LOWER = 5
    BANK_UPPER = 6
    PARAMS_VA = 7
    ARGS = 8


_ADDRESS: Final = "CONSTANT_BUFFER_ADDR_LOWER"


def launch_methods(target: Target, qmd_va: int) -> list[int]:
    """Schedule a QMD; its address is the second word."""
    methods, channel = target.engine, Subchannel.COMPUTE
    push = methods.send(channel, "SEND_PCAS_A", qmd_va >> QMD_SHIFT)
    if "SEND_SIGNALING_PCAS2_B" in methods.by_name:
        action = methods.value("SEND_SIGNALING_PCAS2_B", PCAS_ACTION=_INVALIDATE_COPY_SCHEDULE)
        return push + methods.send(channel, "SEND_SIGNALING_PCAS2_B", action)
    both = methods.value("SEND_SIGNALING_PCAS_B", INVALIDATE=1, SCHEDULE=1)
    return push + methods.send(channel, "SEND_SIGNALING_PCAS_B", both)


def _methods(target: Target, progress_va: int) -> tuple[list[int], int]:
    """The push buffer, and the word of the progress in it."""
    push = launch_methods(target, 0)
    done = nv_words.release(target, Subchannel.COMPUTE, va=progress_va, value=0)
    return [*push, *done], len(push) + PAYLOAD_WORD


_PCAS_WORD: Final = 1
PAYLOAD_WORD: Final = 3
"""Of a host semaphore: after its header and its address."""


class _Packer:
    """A block of bytes with holes, written by one call."""

    def __init__(self, nbytes: int) -> None:
        self._bytes = bytearray(nbytes)
        self._holes: list[tuple[int, str, int]] = []

    def fixed(self, at: int, data: bytes) -> None:
        self._bytes[at : at + len(data)] = data

    def hole(self, at: int, code: str, value: int) -> None:
        """The bytes at `at` are those of a value, by its place in the list."""
        self._holes.append((at, code, value))

    def close(self, count: int) -> tuple[PackInto, tuple[bytes, ...], Pick]:
        """What writes it, the bytes that stay, what puts values and those bytes in order.

        The bytes that stay follow the `count` values in the list that is put in order.
        """
        form, end = "<", 0
        fixed: list[bytes] = []
        order: list[int] = []
        for at, code, value in [*sorted(self._holes), (len(self._bytes), "", 0)]:
            if at > end:
                form += f"{at - end}s"
                order.append(count + len(fixed))
                fixed.append(bytes(self._bytes[end:at]))
            if code:
                order.append(value)
            form, end = form + code, at + struct.calcsize(f"<{code}")
        return struct.Struct(form).pack_into, tuple(fixed), itemgetter(*order)
