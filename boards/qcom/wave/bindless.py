"""ldib, stib, atomic.b, resinfo, resbase, ldc: memory by descriptors.

An untyped access counts in items of its own width from the start of the buffer; what is outside
reads 0 and stores nothing. # src: Mesa 25.0.7, ir3_a6xx.c; ir3-cat6.xml; tu_descriptor_set.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.atomics import global_access, in_turn, operation, pair_of
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import BYTES, is_half
from boards.qcom.wave.descriptor import (
    DESCRIPTOR_BYTES,
    Resource,
    groups_by,
    resource_at,
    set_base,
    ubo_at,
)
from boards.qcom.wave.lanes import Registers, chosen, of_type, reads, writes
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.state import Waves
from boards.qcom.wave.texel import load_texels, store_texels

Run = Callable[[Waves], None]
Index = Callable[[Waves, Array | None], Array]
_VEC4: Final = 16


def _size(w: Waves, at: Array | None) -> int:
    return w.count * w.lanes if at is None else len(at)


def _index(word: int, uses: Uses) -> Index:
    """Which descriptor: an immediate or a register."""
    number = bits(word, 41, 48)
    if not bits(word, 6, 7):
        return lambda w, at: np.full(_size(w, at), number, np.uint32)
    register = reads(uses, number)
    return lambda w, at: register.read(w, 0, at)


def _descriptor(w: Waves, word: int, index: int) -> int:
    if bits(word, 8, 8):
        return set_base(w, bits(word, 1, 3)) + index * DESCRIPTOR_BYTES
    if not w.dispatch.uavs_va:
        raise NotModelled("a UAV, of which the dispatch has none")
    return w.dispatch.uavs_va + index * DESCRIPTOR_BYTES


def _resources(w: Waves, word: int, index: Array) -> list[tuple[Resource, Array]]:
    return [
        (resource_at(w, _descriptor(w, word, number)), lanes)
        for number, lanes in groups_by(index)
    ]  # fmt: skip


def bind(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    op = inst.op
    if op in ("ldib.b", "stib.b"):
        return _bind_access(inst, uses, load=op == "ldib.b")
    if op.startswith("atomic.b."):
        return _bind_atomic(inst, uses)
    if op == "resinfo.b":
        return _bind_info(inst, uses)
    if op == "ldc":
        return _bind_uniform(inst, uses)
    raise NotModelled("no meaning in this executor")


def _bind_access(inst: Instruction, uses: Uses, *, load: bool) -> Run:
    word = inst.word
    kind, count, typed = bits(word, 49, 51), bits(word, 12, 13) + 1, bool(bits(word, 11, 11))
    dimensions = bits(word, 9, 10) + 1
    index = _index(word, uses)
    where = reads(uses, bits(word, 24, 31), dimensions)
    offset = bits(word, 4, 5) << 5 | bits(word, 54, 58) if bits(word, 23, 23) else 0
    data = of_type(uses, bits(word, 32, 39), count, kind, load=load)

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = np.arange(w.count * w.lanes) if at is None else at
        for resource, lanes in _resources(w, word, index(w, at)):
            mine = flat[lanes]
            place = [where.read(w, part, mine).astype(np.int64) for part in range(dimensions)]
            if typed:
                _typed(w, resource, place, data, mine, kind, load=load)
            else:
                _untyped(w, resource, place[0] + offset, data, mine, kind, load=load)

    return run


def _untyped(
    w: Waves, resource: Resource, place: Array, data: Registers, lanes: Array, kind: int, *,
    load: bool,
) -> None:  # fmt: skip
    item, count = BYTES[kind], data.count
    for part in range(count):
        inside = (place + part >= 0) & ((place + part + 1) * item <= resource.bytes)
        va = (resource.va + (place[inside] + part) * item).astype(np.uint64)
        if load:
            found = np.zeros(len(lanes), f"u{item}")
            if len(va):
                found[inside] = w.memory.gather(va, item, 1)[:, 0]
            data.write(w, part, lanes, found)
        elif len(va):
            values = data.read(w, part, lanes)[inside].astype(f"u{item}")
            w.memory.scatter(va, values[:, None])


def _typed(
    w: Waves, resource: Resource, place: list[Array], data: Registers, lanes: Array, kind: int, *,
    load: bool,
) -> None:  # fmt: skip
    if load:
        values = load_texels(w, resource, place, kind)
        for part in range(data.count):
            data.write(w, part, lanes, values[part])
    else:
        values = [data.read(w, part, lanes) for part in range(data.count)]
        store_texels(w, resource, place, values, kind)


def _bind_atomic(inst: Instruction, uses: Uses) -> Run:
    """Its data lie behind the register that its result goes to."""
    word, name = inst.word, inst.op.removeprefix("atomic.b.")
    change = operation(name, bits(word, 49, 51))
    dimensions = bits(word, 9, 10) + 1
    index, where = _index(word, uses), reads(uses, bits(word, 24, 31), dimensions)
    pair = pair_of(reads(uses, bits(word, 32, 39) + 1, 1 + (name == "cmpxchg")), 0)
    target = writes(uses, bits(word, 32, 39))
    if dimensions != 1:
        raise NotModelled(f"an atomic of {dimensions} dimensions")

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = np.arange(w.count * w.lanes) if at is None else at
        load, store = global_access(w)
        for resource, lanes in _resources(w, word, index(w, at)):
            mine = flat[lanes]
            place = where.read(w, 0, mine).astype(np.int64)
            inside = (place + 1) * 4 <= resource.bytes
            new, compared = pair(w, mine)
            va = (resource.va + place[inside] * 4).astype(np.uint64)
            found = np.zeros(len(mine), np.uint32)
            found[inside] = in_turn(va, new[inside], compared[inside], change, load, store)
            target.write(w, 0, mine, found)

    return run


def _bind_info(inst: Instruction, uses: Uses) -> Run:
    """Three components: the extent."""
    word = inst.word
    index = _index(word, uses)
    target = writes(uses, bits(word, 32, 39), 3)

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = np.arange(w.count * w.lanes) if at is None else at
        for resource, lanes in _resources(w, word, index(w, at)):
            extent = (resource.width, resource.height, resource.depth)
            for part, value in enumerate(extent):
                target.write(w, part, flat[lanes], np.full(len(lanes), value, np.uint32))

    return run


def _bind_uniform(inst: Instruction, uses: Uses) -> Run:
    """ldc: vec4 of a uniform buffer, from a component on."""
    word = inst.word
    kind, count = bits(word, 49, 51), bits(word, 12, 13) + 1
    index, first = _index(word, uses), bits(word, 9, 10)
    number = bits(word, 24, 31)
    offset = None if bits(word, 23, 23) else reads(uses, number)
    target = writes(uses, bits(word, 32, 39), count, half=is_half(kind))

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = np.arange(w.count * w.lanes) if at is None else at
        for which, lanes in groups_by(index(w, at)):
            bindless = bits(word, 8, 8)
            loaded = not bindless and which in w.dispatch.ubos
            va, size = w.dispatch.ubos[which] if loaded else ubo_at(w, _descriptor(w, word, which))
            mine = flat[lanes]
            vec4 = np.full(len(mine), number) if offset is None else offset.read(w, 0, mine)
            place = vec4.astype(np.int64) * _VEC4 + first * 4
            for part in range(count):
                inside = place + part * 4 + 4 <= size
                found = np.zeros(len(mine), np.uint32)
                if inside.any():
                    there = (va + place[inside] + part * 4).astype(np.uint64)
                    found[inside] = w.memory.gather(there, 4, 1)[:, 0]
                target.write(w, part, mine, found)

    return run
