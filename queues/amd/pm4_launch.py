"""One kernel launch as PM4 words, built once: only arguments, grid and progress are patched.

A launch is one contiguous block of a ring or of an indirect buffer::

    NOP with the kernel's arguments as its data | ACQUIRE_MEM | SET_SH_REG ... | DISPATCH_DIRECT
    | EVENT_WRITE (wait for the waves) | RELEASE_MEM of the ring's progress

The arguments are in the NOP, so that freeing a block of ring frees its arguments, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from drivers.base.errors import BadArgument, Unsupported
from queues.amd import kernarg as amd_kernarg
from queues.amd import pm4
from queues.amd.kernarg import Hidden
from queues.amd.pm4 import DataSel, Flavour
from queues.amd.registers import REGISTERS, Registers

Block: TypeAlias = tuple[int, int, int]
WORD_BYTES: Final = 4
BLOCK_WORDS: Final = 16
"""Blocks are whole multiples of this many words: 64 bytes."""
ARGUMENT_ALIGN_WORDS: Final = 4
PGM_SHIFT: Final = 8
"""COMPUTE_PGM_LO and COMPUTE_DISPATCH_SCRATCH_BASE_LO hold addresses / 256."""
LDS_SHIFT, LDS_MAX = 15, (1 << 9) - 1
"""COMPUTE_PGM_RSRC2.LDS_SIZE, which the descriptor leaves open. # src: LLVM AMDGPUUsage"""
PRIV_BIT: Final = 1 << 20
"""COMPUTE_PGM_RSRC1.PRIV."""
_LOW: Final = (1 << 32) - 1
_U64: Final = 8

# src: LLVM AMDGPUUsage, kernel_code_properties: (name, bit, SGPRs), in the order of the registers.
USER_SGPRS: Final = (
    ("private_segment_buffer", 0, 4), ("dispatch_ptr", 1, 2), ("queue_ptr", 2, 2),
    ("kernarg_segment_ptr", 3, 2), ("dispatch_id", 4, 2), ("flat_scratch_init", 5, 2),
    ("private_segment_size", 6, 1),
)  # fmt: skip
WAVE32_BIT: Final = 10


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded kernel: where it is, and the words of its descriptor. Sizes in bytes."""

    name: str
    code_va: int
    descriptor_va: int
    rsrc1: int
    rsrc2: int
    """With the size of its local memory in place."""
    rsrc3: int
    properties: int
    block: int
    """Work-items of a workgroup."""
    max_block: int
    group_bytes: int
    """Local memory (LDS) that the kernel declares, then with what its launch adds."""
    private_bytes: int
    """Of one lane."""
    kernarg_bytes: int
    args: tuple[tuple[int, int], ...]
    """(offset, bytes) of every argument that a launch takes."""
    hidden: tuple[Hidden, ...] = ()
    """The hidden ones after them, with the shape of the launch."""
    lds_granule_bytes: int = 512
    """What RSRC2 counts local memory in."""
    added_bytes: int = 0
    """The part of `group_bytes` that a launch adds."""

    @property
    def wave32(self) -> int:
        """1 for waves of 32 lanes."""
        return self.properties >> WAVE32_BIT & 1

    def with_shared(self, added: int) -> Kernel:
        """The kernel with so much more local memory than it declares.

        The compiler has aligned the declared size for what follows it.
        # src: LLVM AMDGPUMachineFunction::setDynLDSAlign
        """
        group = self.group_bytes + added
        granules = -(-group // self.lds_granule_bytes)
        rsrc2 = self.rsrc2 & ~(LDS_MAX << LDS_SHIFT) | granules << LDS_SHIFT
        return replace(self, group_bytes=group, rsrc2=rsrc2, added_bytes=added)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Private memory of all concurrent waves, as register values."""

    va: int = 0
    xcc_bytes: int = 0
    """Bytes of one XCC's part; the parts are contiguous."""
    tmpring: int = 0
    """COMPUTE_TMPRING_SIZE."""
    descriptor: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The buffer resource that kernels without architected scratch start with."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a launch needs to know of the chip."""

    flavour: Flavour
    architected_scratch: bool
    privileged: bool = False
    """Set RSRC1.PRIV. # src: tinygrad ops_amd.py: gfx11's wave save needs it in PM4 launches"""
    xccs: int = 1

    @property
    def registers(self) -> Registers:
        """The compute registers of the chip's family."""
        return REGISTERS[self.flavour.name]


class Words:
    """Words with holes: (position, words) by name, which `Packer` leaves open."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.holes: dict[int, tuple[str, int]] = {}

    def add(self, words: Sequence[int], holes: Sequence[tuple[str, int, int]] = ()) -> None:
        """Append; each hole is (name, position in `words`, length)."""
        for name, at, length in holes:
            self.holes[len(self.words) + at] = (name, length)
        self.words += words


_FORMATS: Final = {1: "I", 2: "Q"}


class Packer:
    """Words with holes as one struct: `pack_into(buffer, offset, *values)`.

    `template` holds every value, constant pieces as bytes; `slots` says which are holes' values.
    """

    def __init__(self, made: Words, defaults: Mapping[str, int] | None = None) -> None:
        form, at = "=", 0
        self.template: list[bytes | int] = []
        self.slots: dict[str, int] = {}
        for position in [*sorted(made.holes), len(made.words)]:
            if position > at:
                self.template.append(_bytes(made.words[at:position]))
                form += f"{WORD_BYTES * (position - at)}s"
            if position in made.holes:
                name, length = made.holes[position]
                self.slots[name] = len(self.template)
                self.template.append((defaults or {}).get(name, 0))
                form += _FORMATS[length]
                at = position + length
        layout = struct.Struct(form)
        self.nbytes, self.nwords = layout.size, layout.size // WORD_BYTES
        self.pack_into: Callable[..., None] = layout.pack_into


def _bytes(words: Sequence[int]) -> bytes:
    return struct.pack(f"={len(words)}I", *words)


def user_data(kernel: Kernel, target: Target, scratch: Scratch) -> Words:
    """The user SGPRs that a kernel starts with; "kernarg" is a hole.

    The queue's address is 0, as among the hidden arguments. Raises: Unsupported for what only a
    queue of AQL packets can give.
    """
    given = {
        "private_segment_buffer": scratch.descriptor,
        "queue_ptr": (0, 0),
        "kernarg_segment_ptr": (0, 0),
        "flat_scratch_init": (scratch.va & _LOW, scratch.va >> 32),
        "private_segment_size": (kernel.private_bytes,),
    }
    made = Words()
    for name, bit, count in USER_SGPRS:
        if not kernel.properties >> bit & 1:
            continue
        if name not in given:
            raise Unsupported(
                f"kernel {kernel.name!r} asks for its {name}, which a PM4 launch does not have",
                hint="use an AQL queue (AMD_AQL=1), or compile it without implicit arguments",
            )
        holes = [("kernarg", 0, count)] if name == "kernarg_segment_ptr" else []
        made.add(given[name], holes)
    return made


def _set(made: Words, target: Target, name: str, values: Sequence[int]) -> None:
    made.add(pm4.set_sh_reg(reg=target.registers.addresses[name], values=values))


def launch(target: Target, kernel: Kernel, scratch: Scratch, block: tuple[int, int, int]) -> Words:
    """The packets of one launch; holes "kernarg" (64 bits), "grid_x", "grid_y" and "grid_z"."""
    made = Words()
    made.add(pm4.acquire_mem(target.flavour, caches=target.flavour.acquire_data))
    pgm = kernel.code_va >> PGM_SHIFT
    _set(made, target, "COMPUTE_PGM_LO", [pgm & _LOW, pgm >> 32])
    rsrc1 = kernel.rsrc1 | (PRIV_BIT if target.privileged else 0)
    _set(made, target, "COMPUTE_PGM_RSRC1", [rsrc1, kernel.rsrc2])
    _set(made, target, "COMPUTE_PGM_RSRC3", [kernel.rsrc3])
    _set(made, target, "COMPUTE_TMPRING_SIZE", [scratch.tmpring])
    if target.architected_scratch:
        _scratch_base(made, target, scratch)
    _set(made, target, "COMPUTE_RESTART_X", [0, 0, 0])
    _user_data(made, target, user_data(kernel, target, scratch))
    _set(made, target, "COMPUTE_RESOURCE_LIMITS", [0])
    # START_X, Y, Z, NUM_THREAD_X, Y, Z, PIPELINESTAT_ENABLE, PERFCOUNT_ENABLE
    _set(made, target, "COMPUTE_START_X", [0, 0, 0, *block, 0, 0])
    names = {"compute_shader_en": 1, "force_start_at_000": 1}
    if kernel.wave32:
        names["cs_w32_en"] = 1
    initiator = target.registers.encode("COMPUTE_DISPATCH_INITIATOR", **names)
    grid = pm4.dispatch_direct(dim_x=0, dim_y=0, dim_z=0, dispatch_initiator=initiator)
    made.add(grid, [("grid_x", 1, 1), ("grid_y", 2, 1), ("grid_z", 3, 1)])
    made.add(pm4.event_write())
    return made


def _scratch_base(made: Words, target: Target, scratch: Scratch) -> None:
    """Each XCC's own part, where there are several."""
    for xcc in range(target.xccs):
        base = scratch.va + xcc * scratch.xcc_bytes >> PGM_SHIFT
        reg = target.registers.addresses["COMPUTE_DISPATCH_SCRATCH_BASE_LO"]
        words = pm4.set_sh_reg(reg=reg, values=[base & _LOW, base >> 32])
        if target.xccs > 1:
            made.add(
                pm4.pred_exec(target.flavour, virtual_xcc_id_select=1 << xcc, exec_count=len(words))
            )
        made.add(words)


def _user_data(made: Words, target: Target, given: Words) -> None:
    if given.words:
        reg = target.registers.addresses["COMPUTE_USER_DATA_0"]
        words = pm4.set_sh_reg(reg=reg, values=given.words)
        head = len(words) - len(given.words)
        made.add(words, [(name, head + at, size) for at, (name, size) in given.holes.items()])


def progress(target: Target, addr: int, caches: Mapping[str, int] | None = None) -> Words:
    """When everything before is done: write a 64-bit number, the hole "progress", to `addr`."""
    words = pm4.release_mem(
        target.flavour, addr=addr, data_sel=DataSel.SEND_64_BIT_DATA, caches=caches
    )
    made = Words()
    if target.xccs > 1:  # one of them writes it for all
        made.add(pm4.pred_exec(target.flavour, virtual_xcc_id_select=1, exec_count=len(words)))
    made.add(words, [("progress", target.flavour.layout("RELEASE_MEM").word("data"), 2)])
    return made


def step(target: Target, addr: int) -> Words:
    """When the launch before is done: write a 32-bit number, the hole "progress", to `addr`."""
    words = pm4.write_data(dst=addr, data=[0], wr_confirm=0)
    made = Words()
    if target.xccs > 1:
        made.add(pm4.pred_exec(target.flavour, virtual_xcc_id_select=1, exec_count=len(words)))
    made.add(words, [("progress", len(words) - 1, 1)])
    return made


def enclose(inner: Words, *, arguments: int = 0) -> tuple[Words, int]:
    """A whole number of blocks of ring, ready for `Packer`: the packets behind a NOP.

    The NOP has room for `arguments` words, which begin at the second number, in words.
    """
    begin = ARGUMENT_ALIGN_WORDS if arguments else 0
    least = begin + arguments
    covered = least + -(least + len(inner.words)) % BLOCK_WORDS
    made = Words()
    if covered:
        made.add(pm4.nop(words=covered))
    made.add(inner.words, [(name, at, size) for at, (name, size) in inner.holes.items()])
    return made, begin


def words_of(*parts: Words | Sequence[int]) -> Words:
    """Packets in sequence."""
    made = Words()
    for part in parts:
        if isinstance(part, Words):
            made.add(part.words, [(name, at, size) for at, (name, size) in part.holes.items()])
        else:
            made.add(part)
    return made


class Launcher:
    """A launch of one kernel with one workgroup size, ready to be packed again and again."""

    __slots__ = ("_packer", "arguments", "arguments_off", "grid", "kernarg",
                 "kernel", "nbytes", "nwords", "pack_into", "progress", "quick",
                 "shared")  # fmt: skip

    def __init__(
        self, target: Target, kernel: Kernel, scratch: Scratch, block: Block,
        progress_va: int, *, in_graph: bool = False,
    ) -> None:  # fmt: skip
        """Progress is written to `progress_va`: the ring's position, or a graph's step."""
        report = step if in_graph else progress
        packets = words_of(launch(target, kernel, scratch, block), report(target, progress_va))
        taken = argument_words(kernel)
        count = -(-kernel.kernarg_bytes // WORD_BYTES)
        made, begin = enclose(packets, arguments=count)
        for number, length in enumerate(taken):
            at = begin + kernel.args[number][0] // WORD_BYTES
            made.holes[at] = (f"arg{number}", length)
        if kernel.hidden:
            behind = begin + sum(taken)
            words, holes = amd_kernarg.appended(
                kernel.hidden, block, sum(taken), count, kernel.added_bytes
            )
            made.words[behind : behind + len(words)] = words
            made.holes |= {behind + at: hole for at, hole in holes.items()}
        self.arguments_off = begin * WORD_BYTES
        self.kernel = kernel
        packer = self._packer = Packer(made, {"grid_x": 1, "grid_y": 1, "grid_z": 1})
        self.pack_into, self.nbytes, self.nwords = packer.pack_into, packer.nbytes, packer.nwords
        first = packer.slots.get("arg0", 1)
        self.arguments = slice(first, first + len(taken))
        self.kernarg = packer.slots.get("kernarg", 0)
        """0: no hole; every hole has words before it."""
        self.progress, self.grid = packer.slots["progress"], packer.slots["grid_x"]
        self.quick = self.kernarg > 0
        """Whether a ring may pack `shared` itself, for one row of workgroups. It rewrites
        arguments, kernarg, grid and progress right before, with its lock."""
        self.shared = packer.template

    def values(
        self, words: Sequence[int], kernarg_va: int, grid: Block, done: int
    ) -> list[bytes | int]:
        """Arguments of `pack_into`; those of the kernel are already checked."""
        values = self.shared.copy()
        values[self.arguments] = words
        if self.kernarg:
            values[self.kernarg] = kernarg_va
        at = self.grid
        values[at], values[at + 1], values[at + 2] = grid
        values[self.progress] = done
        return values


def argument_words(kernel: Kernel) -> list[int]:
    """How many words each argument takes, with the padding after it: one or two.

    Raises: Unsupported for arguments that are not contiguous words of 32 or 64 bits.
    """
    starts = [offset for offset, _ in kernel.args]
    ends = [*starts[1:], sum(kernel.args[-1]) if kernel.args else 0]
    taken = [(end - start) // WORD_BYTES for start, end in zip(starts, ends, strict=True)]
    for (offset, nbytes), words in zip(kernel.args, taken, strict=True):
        wide = nbytes in (WORD_BYTES, _U64) and words in _FORMATS and words * WORD_BYTES >= nbytes
        if not wide or offset % WORD_BYTES or starts[0]:
            raise Unsupported(
                f"kernel {kernel.name!r}: an argument of {nbytes} bytes at {offset}",
                hint="pass buffers and numbers of 32 or 64 bits",
            )
    if ends and ends[-1] > kernel.kernarg_bytes:
        raise BadArgument(f"kernel {kernel.name!r}: arguments outside their segment")
    return taken
