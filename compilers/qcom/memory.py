"""Loads and stores of kernels: global, shared and private memory, arrays in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compilers.dtype import DType, float16
from compilers.ir import Kernel, Ref, shared_size
from compilers.qcom import wide
from compilers.qcom.emitter import Emitter, is_literal, literal, number
from compilers.qcom.halves import half_of, word_of
from compilers.qcom.images import Images
from compilers.qcom.integer import fitted
from compilers.qcom.ops import pair_of, text_of
from compilers.render.common import memory_dtype

WORD_BYTES: Final = 4
MOST: Final = 4
"""Components of one load or store. # src: Mesa 25.0.7, ir3_nir.c, ir3_nir_should_vectorize_mem"""
OFFSET_LIMIT: Final = 4096
"""Bytes, below which an offset is part of the instruction. # src: ir3-cat6.xml, OFF, 13 bits"""
INDEX_LIMIT_BYTES: Final = 1 << 31
"""Larger buffers are not addressed by 32-bit offsets: whether those have a sign is not known."""
FAR_OFFSET: Final = {6: 3 * WORD_BYTES, 7: 255}
"""Most bytes that an offset beside an index has. # src: ir3-cat6.xml, ldg.a"""
HEAD_PARAMS: Final = 8
"""Of kernels with more parameters, addresses are not held in registers throughout."""


class Memory:
    """The arrays of one kernel."""

    def __init__(self, kernel: Kernel, e: Emitter, generation: int, images: Images) -> None:
        self.e, self.generation, self.images = e, generation, images
        self.slots = {ref: place for place, ref in enumerate(kernel.params)}
        self.held = len(kernel.params) <= HEAD_PARAMS
        self.places: dict[Ref, int] = {}
        self.elements: dict[tuple[Ref, int], str] = {}
        place = 0
        for ref in kernel.locals:
            if ref.space == "shared":
                self.places[ref] = place
                place += shared_size(ref)

    def load(self, ref: Ref, index: str, count: int, unit: int = 1) -> list[str]:
        """`count` elements from an index on, as scalars. The index is a multiple of `unit`."""
        if ref.space == "register":
            return [self._element(ref, number(index) + place) for place in range(count)]
        dtype, found = memory_dtype(ref), list[str]()
        each = MOST // self._words(dtype)
        if self.images.takes(ref, index, count, unit):
            for start in range(0, count, each):
                found += self._parts(self.images.load(self.e, ref, index, start), dtype, each)
            return found
        for start in range(0, count, each):
            found += self._load_some(ref, index, start, min(each, count - start))
        return found

    def store(self, ref: Ref, index: str, values: Sequence[str]) -> None:
        """Scalars to neighbouring elements from an index on."""
        self.images.refuse(ref)
        if ref.space == "register":
            for place, value in enumerate(values):
                self._put(ref, number(index) + place, value)
            return
        each = MOST // self._words(memory_dtype(ref))
        for start in range(0, len(values), each):
            self._store_some(ref, index, start, values[start : start + each])

    # registers

    def _names(self, ref: Ref, place: int) -> list[str]:
        key = ref, place
        if key not in self.elements:
            words = [self.e.name("m") for _ in range(self._words(ref.dtype))]
            self.elements[key] = text_of(words)
        return self.elements[key].split(":")

    def _element(self, ref: Ref, place: int) -> str:
        if self._in_half(ref):
            (name,) = self._names(ref, place)
            return word_of(self.e, self.e.op("mov", f"{name}.h0", half=True))
        return text_of([self.e.op("mov", name) for name in self._names(ref, place)])

    def _in_half(self, ref: Ref) -> bool:
        """Whether elements of an array in registers are half registers."""
        return self.e.flush16 and ref.dtype is float16

    def _put(self, ref: Ref, place: int, value: str) -> None:
        for name, word in zip(self._names(ref, place), value.split(":"), strict=True):
            if self._in_half(ref):
                self.e.line("mov", f"{name}.h0", half_of(self.e, word))
            else:
                self.e.line("mov", name, word)

    # memory

    @staticmethod
    def _words(dtype: DType) -> int:
        return max(dtype.itemsize // WORD_BYTES, 1)

    @staticmethod
    def _kind(dtype: DType) -> str:
        return f"u{min(dtype.bits, 32)}"

    def _load_some(self, ref: Ref, index: str, start: int, count: int) -> list[str]:
        e, dtype = self.e, memory_dtype(ref)
        words = count * self._words(dtype)
        name, *address = self._address("ld", ref, index, start)
        made = e.name()
        e.line(f"{name}.{self._kind(dtype)}", made, *address, str(words))
        return self._parts(made, dtype, count)

    def _parts(self, made: str, dtype: DType, count: int) -> list[str]:
        """The elements of a register that was loaded."""
        words = count * self._words(dtype)
        if dtype.itemsize >= WORD_BYTES:
            parts = [f"{made}.{place}" for place in range(words)]
            if dtype.itemsize == WORD_BYTES:
                return parts
            return [text_of(parts[place : place + 2]) for place in range(0, words, 2)]
        return [self._widened(f"{made}.h{place}", dtype) for place in range(count)]

    def _widened(self, half: str, dtype: DType) -> str:
        """A narrow element, as the value that it is.

        # src: Mesa 25.0.7, ir3_compiler_nir.c, create_cov: 8 bits are not extended by zeros
        """
        if dtype.itemsize > 1:
            return self.e.op("cov.s16s32", half) if dtype.kind == "i" else word_of(self.e, half)
        return fitted(self.e, self.e.op("cov.u16u32", half), dtype)

    def _store_some(self, ref: Ref, index: str, start: int, values: Sequence[str]) -> None:
        e, dtype = self.e, memory_dtype(ref)
        words = [word for value in values for word in value.split(":")]
        if dtype.itemsize < WORD_BYTES:
            data = e.name("m")
            for place, word in enumerate(words):
                same = e.halves.get(word) if dtype.itemsize > 1 else None
                e.line("mov" if same else "cov.u32u16", f"{data}.h{place}", same or word)
        elif len(words) == 1:
            data = e.op("mov", words[0]) if is_literal(words[0]) else words[0]
        else:
            data = _neighbours(words) or e.take(*words)
        name, *address = self._address("st", ref, index, start)
        e.line(f"{name}.{self._kind(dtype)}", *address, data, str(len(words)))

    def _address(self, how: str, ref: Ref, index: str, start: int) -> list[str]:
        """Name of the instruction, and its operands that say where."""
        size = memory_dtype(ref).itemsize
        if ref.space == "shared":
            return self._near(f"{how}l", pair_of(index)[0], start * size + self.places[ref], size)
        base = self.e.once if self.held else self.e.op
        return self._global(how, base("base", f"c{2 * self.slots[ref]}"), ref, index, start)

    def _near(self, name: str, index: str, start: int, size: int) -> list[str]:
        e, shift = self.e, literal(size.bit_length() - 1)
        if is_literal(index):
            return [name, e.op("mov", literal(number(index) * size + start)), "0"]
        base, more = e.parted(index)
        if start + more * size < OFFSET_LIMIT:
            index, start = base, start + more * size
        at = e.op("shl.b", index, shift)
        if start >= OFFSET_LIMIT:
            at, start = e.op("add.u", at, literal(start)), 0
        return [name, at, str(start)]

    def _global(self, how: str, base: str, ref: Ref, index: str, start: int) -> list[str]:
        e, size = self.e, memory_dtype(ref).itemsize
        shift = size.bit_length() - 1
        if is_literal(index) and (number(pair_of(index)[0]) + start) * size < OFFSET_LIMIT:
            return [f"{how}g", base, str((number(pair_of(index)[0]) + start) * size)]
        if ":" in index or (ref.size * size) >= INDEX_LIMIT_BYTES:
            return self._far(how, base, index, start * size, shift)
        if self.generation > 6:
            at, off = e.op("shl.b", index, literal(shift)), start * size
            if off > FAR_OFFSET[7]:
                at, off = e.op("add.u", at, literal(off)), 0
            return [f"{how}ga", base, self._register(at), "0", str(off)]
        if size < WORD_BYTES:
            return self._far(how, base, index, start * size, shift)
        off = start * size
        if off > FAR_OFFSET[6]:
            index, off = e.op("add.u", index, literal(start)), 0
        return [f"{how}ga", base, self._register(index), str(shift - 2), str(off // WORD_BYTES)]

    def _register(self, word: str) -> str:
        return self.e.op("mov", word) if is_literal(word) else word

    def _far(self, how: str, base: str, index: str, off: int, shift: int) -> list[str]:
        """A 64-bit sum."""
        e = self.e
        low, high = pair_of(index)
        at = (low, high) if high else (low, "k0")
        if high or e.bound(low) << shift > 0xFFFFFFFF:
            at = wide.shift(e, at, literal(shift), left=True, signed=False)
        else:
            at = e.op("shl.b", low, literal(shift)), "k0"
        total = wide.add(e, (f"{base}.0", f"{base}.1"), at)
        return [f"{how}g", self.e.take(*total), str(off)]


def _neighbours(words: Sequence[str]) -> str:
    """The register whose first words these are; "" where they are of no one register."""
    name = words[0].partition(".")[0]
    return name if all(word == f"{name}.{at}" for at, word in enumerate(words)) else ""
