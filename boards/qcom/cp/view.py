"""GPU memory as shaders see it: gathers and scatters through the SMMU and UCHE."""

from __future__ import annotations

from typing import Any

import numpy as np

from boards.machine.arrays import Addresses, Array
from boards.qcom.cp.caches import Caches
from boards.qcom.memory import LINE_SHIFT, Memory
from boards.qcom.space import Mapping, Space

_TYPES: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class ShaderMemory:
    """What boards.qcom.wave.dispatch.Memory asks for, for one dispatch."""

    def __init__(self, space: Space, caches: Caches) -> None:
        self._space, self._caches = space, caches

    def gather(self, va: Addresses, item: int, count: int) -> Array:
        """Items from each address. Raises: PageFault."""
        only = self._space.one(va, item * count, "read")
        if only is not None:
            return self._gather(only, va, item, count)
        parts = self._space.split(va, item * count, "read")
        out = np.zeros((len(va), count), _TYPES[item])
        for mapping, inside in parts:
            out[inside] = self._gather(mapping, va[inside], item, count)
        return out

    def _gather(self, mapping: Mapping, va: Addresses, item: int, count: int) -> Array:
        offsets = _offsets(mapping, va)
        memory = mapping.memory
        words, first, each = _items(memory, offsets, item, count)
        self._caches.shader_reads(memory, _lines(offsets, item * count, alone=each == 1))
        if each == 1:
            return np.asarray(words[first][:, None])
        found: Array = words[first[:, None] + np.arange(each)]
        return found if each == count else found.view(_TYPES[item])

    def scatter(self, va: Addresses, data: Array) -> None:
        """Stores data at each address; the later one wins. Raises: PageFault."""
        item, count = data.dtype.itemsize, data.shape[1]
        only = self._space.one(va, item * count, "write")
        if only is not None:
            self._scatter(only, va, data)
            return
        for mapping, inside in self._space.split(va, item * count, "write"):
            self._scatter(mapping, va[inside], data[inside])

    def _scatter(self, mapping: Mapping, va: Addresses, data: Array) -> None:
        item, count = data.dtype.itemsize, data.shape[1]
        offsets, memory = _offsets(mapping, va), mapping.memory
        words, first, each = _items(memory, offsets, item, count)
        self._caches.shader_writes(memory, _lines(offsets, item * count, alone=each == 1))
        values = np.ascontiguousarray(data)
        places = first[:, None] + np.arange(each)
        words[places] = values if each == count else values.view(np.uint8)


def _offsets(mapping: Mapping, va: Addresses) -> Array:
    """In the mapping's memory."""
    found: Array = va.astype(np.int64) - (mapping.va - mapping.offset)
    return found


def _items(memory: Memory, offsets: Array, item: int, count: int) -> tuple[Array, Array, int]:
    """(DRAM as items, or as bytes where an address is not aligned; their numbers; how many)."""
    words = memory.items(item)
    if item == 1 or words is None or int(np.bitwise_or.reduce(offsets)) & (item - 1):
        return memory.dram, offsets, item * count
    return words, offsets >> (item.bit_length() - 1), count


def _lines(offsets: Array, nbytes: int, *, alone: bool) -> Array:
    """`alone`: each access is one aligned item, or one byte."""
    first: Array = offsets >> LINE_SHIFT
    if alone:
        return first
    last = (offsets + (nbytes - 1)) >> LINE_SHIFT
    if np.array_equal(first, last):
        return first
    found: Array = np.concatenate((first, last))
    return found
