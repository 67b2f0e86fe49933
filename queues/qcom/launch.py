"""Launches prepared once: one list of packets, of which a launch changes few words.

State of the kernel, its constants (arguments, literals, number of workgroups), the grid, EXEC_CS,
then the ring's progress. # src: Mesa 25.0.7, computerator/a6xx.cc, vulkan/tu_shader.cc
(tu6_emit_cs_config, tu6_emit_xs), vulkan/tu_cmd_buffer.cc (tu_dispatch)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from operator import itemgetter
from typing import Final, TypeAlias

from drivers.base.errors import BadArgument
from queues.qcom import opencl, pm4, textures, words
from queues.qcom.chips import Chip
from queues.qcom.kernel_code import MAX_CONSTLEN, NO_BASE, NO_REGISTER, VEC4_BYTES, AdrenoCode
from queues.qcom.pieces import NO_LIMIT, most_groups
from queues.qcom.pm4 import WORD_BYTES, StateBlock, StateType, halves
from queues.qcom.registers import GEN6, NDRANGE_COUNT, field

Block: TypeAlias = tuple[int, int, int]
LINE_BYTES: Final = 64
"""What a block of a ring is a multiple of."""
PRIVATE_UNIT: Final = 512
PRIVATE_ALIGN: Final = 4096
"""Of one shader processor's part. # src: a6xx.xml MEMSIZEPERITEM, TOTALPVTMEMSIZE"""
SIZES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
VEC4_WORDS: Final = VEC4_BYTES // WORD_BYTES
_STACK_SHIFT, _SP_SHIFT, _ITEM_SHIFT = 11, 12, 9
_CS_STATE: Final = 1 << 5 | 1 << 6
"""HLSQ_INVALIDATE_CMD: CS_STATE, CS_IBO."""
_ENABLED: Final = 1 << 8
_MERGED: Final = 1 << 31
_WAVE_WIDE: Final = 128
_KIB: Final = 1024
_RAM_MODES: Final = (128, 192, 256, 512)
"""vec4 of constants: a6xx_const_ram_mode."""
_Z_FIRST: Final = 1 << 11
_TILES: Final = ((8, 3), (4, 5), (2, 9), (1, 17))
"""(what the workgroup's height is a multiple of, WGTILEHEIGHT). # src: tu6_emit_cs_config()"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """Memory of lanes (spills, arrays) in use: all shader processors' parts from `va` on."""

    va: int
    lane_bytes: int
    sp_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A loaded kernel."""

    name: str
    code_va: int
    code: AdrenoCode
    args: tuple[tuple[int, int], ...]
    """(offset from the first argument's constant, bytes) of each, in order."""
    literals: tuple[int, ...]
    block: Block
    max_block: int
    shared_bytes: int
    private: Private | None = None
    textures_va: int = 0
    """Memory for the descriptors of `code.textures`."""

    @property
    def param_words(self) -> int:
        """Constants of the arguments, in whole vec4."""
        end = max((offset + nbytes for offset, nbytes in self.args), default=0)
        if self.code.base_word != NO_BASE:
            end = max(end, (self.code.base_word + 1) * WORD_BYTES)
        return -(-end // VEC4_BYTES) * VEC4_WORDS


class Stream:
    """Words with names for some of them."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.places: dict[str, int] = {}
        """Name -> word."""

    def add(self, packet: Sequence[int], **places: int) -> None:
        """A packet; `places` names words of it, by their number in it."""
        start = len(self.words)
        self.words += packet
        self.places.update({name: start + word for name, word in places.items()})


def kernel_state(chip: Chip, kernel: Kernel, block: Block) -> list[int]:
    """Registers and code of a kernel."""
    code, made = kernel.code, list[int]()
    made += words.write(chip, "HLSQ_INVALIDATE_CMD", _CS_STATE)
    constlen = -(-code.constlen // VEC4_WORDS)
    made += words.write(chip, "HLSQ_CS_CNTL", field(constlen, 7, 0) | _ENABLED)
    config = _ENABLED | textures.config(len(code.textures))
    made += words.write(chip, "SP_CS_CONFIG", config, code.instrlen)
    wide = int(code.wave_lanes == _WAVE_WIDE)
    first = field(code.full_registers, 12, 7) | field(code.branch_stack, 19, 14)
    first |= opencl.half_registers(code) if code.opencl else _MERGED
    shared = max((kernel.shared_bytes - 1) // _KIB, 1)
    mode = next(number for number, most in enumerate(_RAM_MODES) if code.constlen <= most)
    second = field(shared, 4, 0) | field(mode, 6, 5)
    made += words.write(chip, "SP_CS_CTRL_REG0", first | wide << 20, second)
    made += _ids(chip, kernel, block, wide, second)
    made += _memory(chip, kernel)
    return made


def _ids(chip: Chip, kernel: Kernel, block: Block, wide: int, second: int) -> list[int]:
    """Which registers take the numbers of the workgroup and of the lane."""
    code, made = kernel.code, list[int]()
    none = NO_REGISTER
    ids = code.group_id_reg | none << 8 | none << 16 | code.local_id_reg << 24
    if code.opencl:
        ids = opencl.IDS
    if chip.generation == GEN6:
        made += words.write(chip, "HLSQ_CS_CNTL_0", ids, none | wide << 9)
        if chip.has_lpac:
            made += words.write(chip, "HLSQ_CS_CTRL_REG1", second)
            made += words.write(chip, "SP_CS_CNTL_0", ids, none | wide << 9)
        return made
    height = next(code for multiple, code in _TILES if block[1] % multiple == 0)
    tiles = field(4, 25, 20) | field(height, 31, 26)
    made += words.write(chip, "HLSQ_CS_CNTL_1", none | wide << 9 | _Z_FIRST | tiles)
    made += words.write(chip, "HLSQ_FS_CNTL_0", 0)
    made += words.write(chip, "SP_CS_CNTL_0", ids, none | wide << 8)
    return made + words.write(chip, "SP_CS_UNKNOWN_A9BE", 0)


def _memory(chip: Chip, kernel: Kernel) -> list[int]:
    """Where code and private memory are; the first part of the code is fetched ahead."""
    code, private, made = kernel.code, kernel.private, list[int]()
    va, lane, per_sp = (private.va, private.lane_bytes, private.sp_bytes) if private else (0, 0, 0)
    made += words.write(
        chip, "SP_CS_OBJ_FIRST_EXEC_OFFSET", 0, *halves(kernel.code_va),
        field(lane >> _ITEM_SHIFT, 7, 0), *halves(va), field(per_sp >> _SP_SHIFT, 17, 0),
    )  # fmt: skip
    stack = field(per_sp >> _STACK_SHIFT, 18, 0)
    made += words.write(chip, "SP_CS_PVT_MEM_HW_STACK_OFFSET", stack)
    units = min(code.instrlen, chip.icache_units)
    if chip.generation == GEN6:
        made += pm4.load_state(
            StateBlock.CS_SHADER, StateType.SHADER, first=0, units=units, va=kernel.code_va
        )
    else:
        made += words.write(chip, "SP_CS_VGPR_CONFIG", 0)
    if code.instrlen > chip.icache_units:  # src: Mesa issue 5892, tu_dispatch()
        made += words.write(chip, "SP_FS_INSTRLEN", code.instrlen)
        made += pm4.event(pm4.Event.LABEL)
    return made


def _constants(stream: Stream, kernel: Kernel) -> None:
    """Arguments, literals, number of workgroups: in the packets themselves."""
    code, kind, block = kernel.code, StateType.CONSTANTS, StateBlock.CS_SHADER
    head = len(pm4.load_state(block, kind, first=0, units=0))
    if code.opencl:
        units = len(kernel.literals) // VEC4_WORDS
        packet = pm4.load_state(block, kind, first=0, units=units, words=kernel.literals)
        stream.add(packet, args=head)
        return
    for name, first, values in (
        ("args", code.param_vec4, [0] * kernel.param_words),
        ("", code.literal_vec4, [*kernel.literals, *[0] * (-len(kernel.literals) % VEC4_WORDS)]),
        ("grid", code.grid_vec4, [0] * VEC4_WORDS if code.grid_vec4 != MAX_CONSTLEN else []),
    ):
        if values:
            units = len(values) // VEC4_WORDS
            packet = pm4.load_state(block, kind, first=first, units=units, words=values)
            stream.add(packet, **({name: head} if name else {}))
            if name == "args" and code.base_word != NO_BASE:
                stream.places["base"] = stream.places["args"] + code.base_word


def _images(chip: Chip, stream: Stream, kernel: Kernel) -> None:
    """Descriptors of operands that are read as images, with words for `image N` of argument N."""
    asked, va = kernel.code.textures, kernel.textures_va
    if not asked:
        return
    first = len(stream.words) + textures.HEAD_WORDS + textures.BASE_WORD
    stream.add(words.padding((first - stream.places.get("args", 0)) % 2))
    stream.add(textures.write_descriptors(va, asked), **{
        f"image {one.param}":
            textures.HEAD_WORDS + number * textures.DESCRIPTOR_WORDS + textures.BASE_WORD
        for number, one in enumerate(asked)
    })  # fmt: skip
    stream.add(textures.load_descriptors(chip, va, len(asked)))


def argument_places(places: dict[str, int], kernel: Kernel) -> list[int]:
    """The byte of a launch's words where each argument is."""
    first = places.get("args", 0) * WORD_BYTES
    return [
        places[f"image {number}"] * WORD_BYTES if f"image {number}" in places else first + offset
        for number, (offset, _) in enumerate(kernel.args)
    ]


def build(chip: Chip, kernel: Kernel, block: Block) -> Stream:
    """A launch, with words for `args`, `grid` (of the kernel), `ranges` and `groups`."""
    stream = Stream()
    stream.add(kernel_state(chip, kernel, block))
    if kernel.code.opencl:
        stream.add(opencl.mode(chip))
    _constants(stream, kernel)
    _images(chip, stream, kernel)
    stream.add(pm4.set_marker(pm4.COMPUTE_MARKER))
    x, y, z = block
    local = field(x - 1, 11, 2) | field(y - 1, 21, 12) | field(z - 1, 31, 22)
    ranges = [len(block) | local, *[0] * (NDRANGE_COUNT - 1)]
    stream.add(words.write(chip, "HLSQ_CS_NDRANGE_0", *ranges), ranges=_FIRST_RANGE)
    if chip.generation != GEN6:
        stream.add(words.write(chip, "HLSQ_CS_LAST_LOCAL_SIZE", local))
    if kernel.code.opencl:
        stream.add(opencl.groups(chip), groups=opencl.FIRST_GROUP)
        stream.add(opencl.run())
    else:
        stream.add(pm4.exec_cs((0, 0, 0)), groups=_FIRST_GROUP)
    if kernel.code.instrlen > chip.icache_units:
        stream.add(pm4.event(pm4.Event.LABEL))
    stream.add(words.barrier(chip))
    if kernel.code.opencl:
        stream.add(opencl.usual_mode(chip))
    return stream


class Launcher:
    """Launches of one kernel with workgroups of one size.

    `pack_into(memory, at, *values(...))` writes `nbytes`, of which a ring takes whole lines.
    """

    def __init__(
        self, chip: Chip, kernel: Kernel, block: Block, progress_va: int, budget_s: float = inf
    ) -> None:
        """`budget_s`: how long one launch may take, by the compiler's count."""
        if prod(block) > kernel.max_block:
            raise BadArgument(f"{kernel.name}: {prod(block)} lanes", hint="use smaller workgroups")
        self.kernel, self.block = kernel, block
        self.most_groups = NO_LIMIT
        """Workgroups of one launch: more are launched in pieces."""
        if budget_s < inf:
            self.most_groups = most_groups(chip, kernel.code, prod(block), budget_s)
        stream = build(chip, kernel, block)
        stream.add(words.release(chip, va=progress_va, value=0))
        self.nbytes = len(stream.words) * WORD_BYTES
        self.nlines = -(-self.nbytes // LINE_BYTES)
        holes = grid_holes(stream.places)
        if "base" in stream.places:
            holes.append((stream.places["base"] * WORD_BYTES, "I", _BASE))
        holes.append((len(stream.words) * WORD_BYTES - WORD_BYTES, "I", _MARK))
        args_at = argument_places(stream.places, kernel)
        for number, (_, nbytes) in enumerate(kernel.args):
            holes.append((args_at[number], SIZES[nbytes], _ARGS + number))
        packed = struct.pack(f"<{len(stream.words)}I", *stream.words)
        self.pack_into, self._fixed, self._pick = with_holes(
            packed, holes, _ARGS + len(kernel.args)
        )

    def values(
        self, args: Sequence[int], grid: Block, mark: int, first: int = 0
    ) -> Sequence[object]:
        """What is packed for one launch; `mark` is the progress once it is done.

        `first` is the number of its first workgroup.
        """
        (x, y, z), (gx, gy, gz) = self.block, grid
        return self._pick(
            (mark & pm4.WORD_MASK, gx, gy, gz, gx * x, gy * y, gz * z, first, *args, *self._fixed)
        )


class ImageLauncher(Launcher):
    """Launches of a kernel that reads operands as images."""

    def values(
        self, args: Sequence[int], grid: Block, mark: int, first: int = 0
    ) -> Sequence[object]:
        """What is packed for one launch. Raises: BadArgument for a misaligned image."""
        textures.check_bases(self.kernel.name, self.kernel.code.textures, args)
        return super().values(args, grid, mark, first)


_FIRST_RANGE, _FIRST_GROUP = 2, 2
"""Words of their packets: behind the header and NDRANGE_0, behind the header and 0."""
_MARK, _GROUPS, _RANGES, _BASE, _ARGS = 0, 1, 4, 7, 8
"""Where in a launch's list of values each begins."""
PackInto: TypeAlias = Callable[..., None]
Pick: TypeAlias = Callable[[Sequence[object]], Sequence[object]]
Hole: TypeAlias = tuple[int, str, int]
"""(byte, struct code, place in the list of values)."""


def grid_holes(places: dict[str, int]) -> list[Hole]:
    """Where the grid is in a launch's words."""
    holes: list[Hole] = []
    for axis in range(3):
        if "grid" in places:
            holes.append(((places["grid"] + axis) * WORD_BYTES, "I", _GROUPS + axis))
        holes.append(((places["groups"] + axis) * WORD_BYTES, "I", _GROUPS + axis))
        holes.append(((places["ranges"] + 2 * axis) * WORD_BYTES, "I", _RANGES + axis))
    return holes


def grid_values(places: dict[str, int], block: Block, grid: Block) -> list[tuple[int, int]]:
    """(word, value) of everything in a launch's words that the grid decides."""
    sizes = [groups * lanes for groups, lanes in zip(grid, block, strict=True)]
    values = (0, *grid, *sizes)
    return [(at // WORD_BYTES, values[value]) for at, _, value in grid_holes(places)]


def with_holes(
    packed: bytes, holes: Sequence[Hole], count: int
) -> tuple[PackInto, tuple[bytes, ...], Pick]:
    """What writes bytes with holes, the bytes that stay, what puts values and those in order.

    The bytes that stay follow the `count` values in the list that is put in order.
    """
    form, end = "<", 0
    fixed: list[bytes] = []
    order: list[int] = []
    for at, code, value in [*sorted(holes), (len(packed), "", 0)]:
        if at > end:
            form += f"{at - end}s"
            order.append(count + len(fixed))
            fixed.append(packed[end:at])
        if code:
            order.append(value)
        form, end = form + code, at + struct.calcsize(f"<{code}")
    return struct.Struct(form).pack_into, tuple(fixed), itemgetter(*order)
