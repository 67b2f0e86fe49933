"""One kernel launch as an AQL packet, built once: grid and arguments' address are patched.

Kernels of one queue see each other's results: agent scope, which on a GPU of several L2s also
writes back what another XCC is to read. Data of the host, a copy engine or another GPU needs
system scope: that of `jump`.
# src: LLVM AMDGPUUsage.rst, "Memory Model GFX942": lines of local memory (RW, snooped) that another
# src: L2 wrote back are dropped by probes; gmc_v9_0.c gmc_v9_0_get_coherence_flags() maps it so, as
# src: pci/page_format.py does; ROCm clr rocvirtual.cpp kBarrierPacketReleaseHeader ends a stream
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from drivers.base.errors import BadArgument
from queues.amd import aql
from queues.amd.aql import FenceScope
from queues.amd.pm4_launch import WORD_BYTES, Block, Kernel, Packer, Target, Words, argument_words

_GRID_WORD: Final = aql.KERNEL_DISPATCH.word("grid_size_x")
_KERNARG_WORD: Final = aql.KERNEL_DISPATCH.word("kernarg_address")
_CODES: Final = {1: "I", 2: "Q"}
MAX_ITEMS: Final = (1 << 32) - 1
"""Work-items of one dimension of a grid."""


class AqlLauncher:
    """The packet of a kernel with one workgroup size, and how its arguments are packed."""

    __slots__ = ("_block", "arguments_bytes", "grid", "kernarg", "kernel", "lanes",
                 "pack_arguments", "pack_into", "shared")  # fmt: skip

    def __init__(self, kernel: Kernel, block: Block) -> None:
        self.kernel, self._block, self.lanes = kernel, block, block[0]
        codes = "".join(_CODES[words] for words in argument_words(kernel))
        layout = struct.Struct(f"={codes}")
        self.pack_arguments: Callable[..., None] = layout.pack_into
        self.arguments_bytes = layout.size
        made = Words()
        words = aql.kernel_dispatch(
            workgroup_size=block,
            grid_size=(0, 0, 0),
            kernel_object=kernel.descriptor_va,
            private_segment_size=kernel.private_bytes,
            group_segment_size=kernel.group_bytes,
            acquire=FenceScope.AGENT,
            release=FenceScope.AGENT,
        )
        grid = [(f"grid_{axis}", _GRID_WORD + at, 1) for at, axis in enumerate("xyz")]
        made.add(words, [*grid, ("kernarg", _KERNARG_WORD, 2)])
        packer = Packer(made, {"grid_y": block[1], "grid_z": block[2]})
        self.pack_into, self.shared = packer.pack_into, packer.template
        """`shared`: what a ring's quick launches pack, of one row of workgroups. They rewrite it
        right before, with the ring's lock."""
        self.grid, self.kernarg = packer.slots["grid_x"], packer.slots["kernarg"]

    def arguments(self, words: Sequence[int], grid: Block) -> bytearray:
        """The kernarg segment of one launch."""
        made = bytearray(self.arguments_bytes)
        self.pack_arguments(made, 0, *words)
        return made

    def values(self, kernarg_va: int, grid: Block) -> list[bytes | int]:
        """What `pack_into` takes. Raises: BadArgument for more work-items than 32 bits count."""
        values = self.shared.copy()
        values[self.kernarg] = kernarg_va
        for axis, (groups, lanes) in enumerate(zip(grid, self._block, strict=True)):
            if groups * lanes > MAX_ITEMS:
                raise too_many(groups, lanes)
            values[self.grid + axis] = groups * lanes
        return values


def too_many(groups: int, lanes: int) -> BadArgument:
    """The error for more work-items in one dimension of a grid than 32 bits count."""
    return BadArgument(f"{groups} workgroups of {lanes} work-items", hint="launch fewer at a time")


def jump_slots(target: Target) -> int:
    """How many packets `jump` makes."""
    return 1 if target.xccs == 1 else 2


def jump(target: Target, ib_va: int, nwords: int) -> bytes:
    """The packets that run `nwords` PM4 words which lie at `ib_va`.

    Each of several XCCs has an L2, and a RELEASE_MEM that one of them runs (`once`) writes back
    only its own: a packet before it makes all do so. The next packet, with its barrier bit, waits.
    """
    packets = [aql.pm4_ib(ib_base=ib_va, ib_size=nwords)]
    if target.xccs > 1:
        packets.insert(0, aql.barrier_and(acquire=FenceScope.NONE, release=FenceScope.SYSTEM))
    return b"".join(struct.pack(PACKET_FORMAT, *packet) for packet in packets)


def jumper(target: Target, nwords: int) -> Packer:
    """The same packets with a hole "ib" for the address."""
    data = jump(target, 0, nwords)
    made, last = Words(), len(data) // WORD_BYTES - aql.PACKET_WORDS
    made.add(
        struct.unpack(f"={len(data) // WORD_BYTES}I", data),
        [("ib", last + aql.PM4_IB.word("ib_base"), 2)],
    )
    return Packer(made)


PACKET_BYTES: Final = aql.PACKET_BYTES
PACKET_FORMAT: Final = f"={aql.PACKET_WORDS}I"
EMPTY_SLOT: Final = struct.pack(PACKET_FORMAT, *aql.invalid())
