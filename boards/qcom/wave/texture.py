"""Category 5 as compute uses it: isam, isaml, sam, saml, gather4, getsize. Images have one level.

src: Mesa 25.0.7, src/freedreno/isa/ir3-cat5.xml
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import BYTES, is_half
from boards.qcom.wave.descriptor import DESCRIPTOR_BYTES, Resource, groups_by, resource_at, set_base
from boards.qcom.wave.lanes import chosen, reads, writes
from boards.qcom.wave.look import look_of
from boards.qcom.wave.operands import Use, Uses
from boards.qcom.wave.sampler import SAMPLER_BYTES, gather, sample, sampler_at
from boards.qcom.wave.state import A1, Waves, slots_of
from boards.qcom.wave.texel import load_texels

Run = Callable[[Waves], None]
Index = Callable[[Waves, Array | None], Array]
_IMMEDIATE, _IMMEDIATE_A1 = 6, 7
_GATHERS: Final = {"gather4r": 0, "gather4g": 1, "gather4b": 2, "gather4a": 3}
_BY_A1: Final = (1, 3, 7)
_BINDLESS: Final = (1, 2, 3, 5, 6, 7)


def _flat(w: Waves, at: Array | None) -> Array:
    return np.arange(w.count * w.lanes) if at is None else at


class Target:
    """The components of a result that are wanted: component n goes to register n."""

    def __init__(self, word: int, uses: Uses) -> None:
        self.kind = bits(word, 44, 46)
        first, mask = bits(word, 32, 39), bits(word, 40, 43)
        half = is_half(self.kind)
        self.parts = {
            part: writes(uses, first + part, half=half) for part in range(4) if mask >> part & 1
        }

    def write(self, w: Waves, lanes: Array, values: list[Array]) -> None:
        """Values by component."""
        for part, register in self.parts.items():
            register.write(w, 0, lanes, values[part])


def _texture(inst: Instruction, generation: int, uses: Uses) -> Index:
    """The address of each lane's descriptor."""
    word = inst.word
    if not bits(word, 51, 51):
        number = bits(word, 25, 31)
        return lambda w, at: np.full(len(_flat(w, at)), _bound(w, number), np.uint64)
    mode, base = bits(word, 29, 31), bits(word, 19, 20) << 1 | bits(word, 47, 47)
    if mode not in _BINDLESS:
        raise NotModelled("a texture index from a register without a bindless set")
    if mode in _BY_A1:
        uses.reads.append(Use(slots_of(A1, half=False)))
    if mode == _IMMEDIATE:
        number = bits(word, 25, 28)
        return lambda w, at: _of_set(w, base, np.full(len(_flat(w, at)), number))
    if mode == _IMMEDIATE_A1:
        if generation >= 7:
            number = bits(word, 21, 28)
            return lambda w, at: _of_set(w, base, np.full(len(_flat(w, at)), number))
        return lambda w, at: _of_set(w, base, w.a1.reshape(-1)[_flat(w, at)] >> 3 & 0xFF)
    register = reads(uses, bits(word, 21, 28), 1)
    return lambda w, at: _of_set(w, base, register.read(w, 0, at))


def _bound(w: Waves, number: int) -> int:
    if not w.dispatch.textures_va:
        raise NotModelled("a texture, of which the dispatch has none")
    if number >= w.dispatch.textures:
        w.report("texture beyond NTEX", f"t#{number} of {w.dispatch.textures}")
    return w.dispatch.textures_va + number * DESCRIPTOR_BYTES


def _of_set(w: Waves, base: int, index: Array) -> Array:
    return np.uint64(set_base(w, base)) + index.astype(np.uint64) * np.uint64(DESCRIPTOR_BYTES)


def bind(inst: Instruction, generation: int, uses: Uses) -> Run:
    """Raises: NotModelled."""
    if inst.op == "isam":
        return _bind_isam(inst, generation, uses)
    if inst.op in ("sam", "saml", "isaml", *_GATHERS):
        return _bind_sam(inst, generation, uses)
    if inst.op in ("getsize", "getinfo"):
        return _bind_query(inst, generation, uses)
    raise NotModelled("no meaning in this executor")


def _bind_isam(inst: Instruction, generation: int, uses: Uses) -> Run:
    """Bit 18, ".1d" where it is 0, does not count: Mesa leaves it 0 for two dimensions, too.

    # src: Mesa 25.0.7, ir3_compiler_nir.c, emit_intrinsic_load_image
    """
    word = inst.word
    if bits(word, 52, 52):
        raise NotModelled("isam with an offset")
    texture, target = _texture(inst, generation, uses), Target(word, uses)
    if bits(word, 50, 50):
        return _bind_vector(word, texture, target, uses)
    if bits(word, 53, 53):
        raise NotModelled("isam with an immediate offset")
    look = look_of(word, uses, level=False)

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = _flat(w, at)
        for va, lanes in groups_by(texture(w, at)):
            mine, resource = flat[lanes], resource_at(w, va)
            texels = look.texels(w, mine, resource.dimensions)
            layer = look.layer(w, mine, resource, whole=True)
            target.write(w, mine, load_texels(w, resource, texels, target.kind, layer))

    return run


def _bind_vector(word: int, texture: Index, target: Target, uses: Uses) -> Run:
    """isam.v: one coordinate."""
    offset = bits(word, 9, 16) if bits(word, 53, 53) else 0
    where = reads(uses, bits(word, 1, 8), 1, half=not bits(word, 0, 0))

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = _flat(w, at)
        for va, lanes in groups_by(texture(w, at)):
            mine, resource = flat[lanes], resource_at(w, va)
            place = where.read(w, 0, mine).astype(np.int32).astype(np.int64)
            target.write(w, mine, _vector(w, resource, place + offset, target))

    return run


def _sampler(inst: Instruction, uses: Uses) -> Callable[[Waves], int]:
    """The address of the sampler, the same for all lanes."""
    word = inst.word
    if not bits(word, 51, 51):
        number = bits(word, 21, 24)
        return lambda w: w.dispatch.samplers_va + number * SAMPLER_BYTES
    mode, base = bits(word, 29, 31), bits(word, 19, 20) << 1 | bits(word, 47, 47)
    if mode != _IMMEDIATE:
        raise NotModelled(f"a sampler of descriptor mode {mode}")
    number = bits(word, 21, 24)
    return lambda w: set_base(w, base) + number * DESCRIPTOR_BYTES


def _bind_sam(inst: Instruction, generation: int, uses: Uses) -> Run:
    """By coordinates that are filtered, or, isaml, are those of a texel; of the one level."""
    word, op = inst.word, inst.op
    texture, target = _texture(inst, generation, uses), Target(word, uses)
    look = look_of(word, uses, level=op in ("saml", "isaml"))
    sampler_va = None if op == "isaml" else _sampler(inst, uses)

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = _flat(w, at)
        for va, lanes in groups_by(texture(w, at)):
            mine, resource = flat[lanes], resource_at(w, va)
            look.check_level(w, mine, op)
            layer = look.layer(w, mine, resource, whole=sampler_va is None)
            if sampler_va is None:
                texels = look.texels(w, mine, resource.dimensions)
                values = load_texels(w, resource, texels, target.kind, layer)
            else:
                exact = look.exact(w, mine, resource.dimensions)
                moved = [look.moved(w, part, mine) for part in range(len(exact))]
                sampler = sampler_at(w, sampler_va(w))
                more = (exact, target.kind, layer, moved)
                if op in _GATHERS:
                    values = gather(w, resource, sampler, *more, _GATHERS[op])
                else:
                    values = sample(w, resource, sampler, *more)
            target.write(w, mine, values)

    return run


def _vector(w: Waves, resource: Resource, place: Array, target: Target) -> list[Array]:
    """isam.v: consecutive items of the type's own width."""
    item = BYTES[target.kind]
    answer = []
    for part in range(4):
        found = np.zeros(len(place), f"u{item}")
        inside = (place + part >= 0) & ((place + part + 1) * item <= resource.bytes)
        if part in target.parts and inside.any():
            va = (resource.va + (place[inside] + part) * item).astype(np.uint64)
            found[inside] = w.memory.gather(va, item, 1)[:, 0]
        answer.append(found)
    return answer


def _bind_query(inst: Instruction, generation: int, uses: Uses) -> Run:
    """getsize: width, height, depth of the first level, layers.

    # src: Mesa 25.0.7, ir3_compiler_nir.c, emit_tex_txs: "Array size actually ends up in .w"
    """
    if inst.op != "getsize":
        raise NotModelled("no meaning in this executor")
    texture, target = _texture(inst, generation, uses), Target(inst.word, uses)
    level = reads(uses, bits(inst.word, 1, 8), 1, half=not bits(inst.word, 0, 0))

    def run(w: Waves) -> None:
        at = chosen(w)
        flat = _flat(w, at)
        for va, lanes in groups_by(texture(w, at)):
            resource = resource_at(w, va)
            if level.read(w, 0, flat[lanes]).any():
                w.report("level of an image without levels", "getsize")
            extent = (resource.width, resource.height, resource.depth, resource.depth)
            kind = np.uint16 if is_half(target.kind) else np.uint32
            target.write(w, flat[lanes], [np.full(len(lanes), one, kind) for one in extent])

    return run
