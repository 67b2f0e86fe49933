"""Launches of kernels with hidden arguments: the grid is among their arguments, too."""

from __future__ import annotations

from collections.abc import Sequence

from queues.amd import kernarg as amd_kernarg
from queues.amd.aql_launch import AqlLauncher
from queues.amd.pm4_launch import WORD_BYTES, Block, Kernel, Launcher, Packer, Words


def _count(packer: Packer, values: list[bytes | int], grid: Block) -> None:
    """Write the numbers of workgroups to their holes."""
    for axis, groups in enumerate(grid):
        slot = packer.slots.get(f"count{axis}")
        if slot is not None:
            values[slot] = groups


class HiddenLauncher(Launcher):
    """A `Launcher` with the numbers of workgroups in its arguments."""

    __slots__ = ()

    def values(
        self, words: Sequence[int], kernarg_va: int, grid: Block, done: int
    ) -> list[bytes | int]:
        """Arguments of `pack_into`; those of the kernel are already checked."""
        values = super().values(words, kernarg_va, grid, done)
        _count(self._packer, values, grid)
        return values


class HiddenAqlLauncher(AqlLauncher):
    """An `AqlLauncher` that writes the rest of the kernarg segment, too."""

    __slots__ = ("_behind", "_own_bytes")

    def __init__(self, kernel: Kernel, block: Block) -> None:
        super().__init__(kernel, block)
        own, count = self.arguments_bytes // WORD_BYTES, -(-kernel.kernarg_bytes // WORD_BYTES)
        made = Words()
        words, made.holes = amd_kernarg.appended(
            kernel.hidden, block, own, count, kernel.added_bytes
        )
        made.add(words)
        self._behind, self._own_bytes = Packer(made), self.arguments_bytes
        self.arguments_bytes = count * WORD_BYTES

    def arguments(self, words: Sequence[int], grid: Block) -> bytearray:
        """The kernarg segment of one launch."""
        made = super().arguments(words, grid)
        values = self._behind.template.copy()
        _count(self._behind, values, grid)
        self._behind.pack_into(made, self._own_bytes, *values)
        return made
