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
        parts = self._space.split(va, item * count, "read")
        if len(parts) == 1:
            return self._gather(parts[0][0], va, item, count)
        out = np.empty((len(va), count), _TYPES[item])
        for mapping, inside in parts:
            out[inside] = self._gather(mapping, va[inside], item, count)
        return out

    def _gather(self, mapping: Mapping, va: Addresses, item: int, count: int) -> Array:
        offsets = _offsets(mapping, va)
        memory = mapping.memory
        self._caches.shader_reads(memory, _lines(offsets, item * count))
        words, first, each = _items(memory, offsets, item, count)
        found: Array = words[first[:, None] + np.arange(each)]
        return found if each == count else found.view(_TYPES[item])

    def scatter(self, va: Addresses, data: Array) -> None:
        """Stores data at each address; the later one wins. Raises: PageFault."""
        item, count = data.dtype.itemsize, data.shape[1]
        for mapping, inside in self._space.split(va, item * count, "write"):
            whole = len(inside) == len(va)
            offsets = _offsets(mapping, va if whole else va[inside])
            memory = mapping.memory
            self._caches.shader_writes(memory, _lines(offsets, item * count))
            words, first, each = _items(memory, offsets, item, count)
            values = np.ascontiguousarray(data if whole else data[inside])
            places = first[:, None] + np.arange(each)
            words[places] = values if each == count else values.view(np.uint8)


def _offsets(mapping: Mapping, va: Addresses) -> Array:
    """In the mapping's memory."""
    found: Array = va.astype(np.int64) - (mapping.va - mapping.offset)
    return found


def _items(memory: Memory, offsets: Array, item: int, count: int) -> tuple[Array, Array, int]:
    """(DRAM as items, or as bytes where an address is not aligned; their numbers; how many)."""
    dram = memory.dram
    if item == 1 or (offsets & (item - 1)).any() or dram.ctypes.data % item:
        return dram, offsets, item * count
    shift = item.bit_length() - 1
    return dram[: len(dram) & -item].view(_TYPES[item]), offsets >> shift, count


def _lines(offsets: Array, nbytes: int) -> Array:
    first = offsets >> LINE_SHIFT
    last = (offsets + (nbytes - 1)) >> LINE_SHIFT
    if np.array_equal(first, last):
        return first
    found: Array = np.concatenate((first, last))
    return found
