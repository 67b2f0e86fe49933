"""Launches that stay in a graph's memory: their packets, with the grid and arguments filled in.

Each writes its number to `step_va` when it is done: a fault names the kernels that are not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from queues.qcom import words as qcom_words
from queues.qcom.chips import Chip
from queues.qcom.launch import (
    SIZES,
    Block,
    Kernel,
    Stream,
    argument_places,
    build,
    grid_values,
)
from queues.qcom.pm4 import WORD_BYTES

_EVEN = 2


@dataclass(frozen=True, kw_only=True)
class BoundLaunch:
    """A launch in a graph. `number`, from 1 on, counts launches."""

    chip: Chip
    kernel: Kernel
    block: Block
    grid: Block
    args: Sequence[int]
    number: int

    @cached_property
    def _stream(self) -> Stream:
        stream = build(self.chip, self.kernel, self.block)
        if stream.places.get("args", 0) % _EVEN:  # 64-bit arguments lie at whole 64-bit words
            pad = qcom_words.padding(1)
            stream.words = pad + stream.words
            stream.places = {name: at + 1 for name, at in stream.places.items()}
        for place, value in grid_values(stream.places, self.block, self.grid):
            stream.words[place] = value
        return stream

    @property
    def arguments_off(self) -> int:
        """Where arguments begin in its packets."""
        return self._stream.places.get("args", 0) * WORD_BYTES

    @cached_property
    def argument_places(self) -> list[int]:
        """The byte of each argument in its packets; those of images are elsewhere."""
        return argument_places(self._stream.places, self.kernel)

    def words(self, step_va: int = 0) -> list[int]:
        """Its packets; 0: it writes its number nowhere."""
        done = qcom_words.release(self.chip, va=step_va, value=self.number) if step_va else []
        words = [*self._stream.words, *done]
        packed = bytearray(struct.pack(f"<{len(words)}I", *words))
        places = self.argument_places
        for at, (_, nbytes), word in zip(places, self.kernel.args, self.args, strict=True):
            struct.pack_into(f"<{SIZES[nbytes]}", packed, at, word)
        return list(struct.unpack(f"<{len(words)}I", packed))
