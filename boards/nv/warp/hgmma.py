"""HGMMA and IGMMA: products of matrices that four warps find in shared memory, and what waits.

src: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": descriptors, strides, fragments;
CUTLASS include/cute/arch/mma_sm90_desc.hpp: canonical layouts. Fields measured: what nvdisasm 13.5
prints with one bit changed. Rounding is not published: products and addend are summed in a double.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import REGISTER, UNIFORM, UNIFORM_PREDICATE, Action, Builder, Source
from boards.nv.warp.fields import TRUE, ZERO, NotModelled
from boards.nv.warp.floating import as_words
from boards.nv.warp.half import halves
from boards.nv.warp.memory import OUT_OF_RANGE
from boards.nv.warp.shared import fail
from boards.nv.warp.state import LANES, Threads

GROUP_WAITS = 1 << 6
"""The bit of a wait mask that stands for gsb0, above those of the six scoreboards."""
GROUP = 6
_REGISTERS_FORM, _SHARED_FORM = 6, 4
_NO_GROUP = 7
_WARPS = 4
_CHUNK = 16
"""Bytes of a row of a core matrix; K is two of them."""
_ROWS = 8
"""Of a core matrix."""
_TILE = 16
"""Rows of a warp."""
_WIDTHS = (1, 8, 4, 2)
"""Chunks that a swizzle mixes, by bits 62 and 63 of a descriptor."""
_UPPER = np.uint32(16)
Report = Callable[[str], None]
Load = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix in shared memory, K along its second index."""

    base: int
    leading: int
    stride: int
    width: int
    across: bool
    """Whether neighbours along M or N lie side by side, and not those along K."""

    @classmethod
    def of(cls, descriptor: int, *, across: bool) -> _Matrix:
        address, leading, stride = ((descriptor >> low & 0x3FFF) << 4 for low in (0, 16, 32))
        return cls(address, leading, stride, _WIDTHS[descriptor >> 62], across)

    def places(self, rows: int, nbytes: int) -> Array:
        """The address of each element of `rows` x K, in bytes."""
        each = _CHUNK // nbytes
        row, depth = np.arange(rows)[:, None], np.arange(2 * each)[None]
        across, down = (row, depth) if self.across else (depth, row)
        chunk, inside = across // each, across % each * nbytes
        line, lines = down % _ROWS * _CHUNK * self.width, down // _ROWS
        if self.width == 1:
            along, over = (self.stride, self.leading) if self.across else (
                self.leading, self.stride)  # fmt: skip
            at = chunk * along + lines * over
        else:
            at = chunk % self.width * _CHUNK + chunk // self.width * self.leading
            at = at + lines * self.stride
        at = self.base + at + line + inside
        swizzle = self.width - 1
        return np.asarray(at ^ (at >> 7 & swizzle) << 4)


def _halves(raw: Array) -> Array:
    return raw.view(np.float16).astype(np.float64)


def _brains(raw: Array) -> Array:
    words = raw.view(np.uint16).astype(np.uint32) << _UPPER
    return words.view(np.float32).astype(np.float64)


def _tensors(raw: Array) -> Array:
    """tf32: a single without its low 13 bits."""
    words = raw.view(np.uint32) & np.uint32(0xFFFFE000)
    return words.view(np.float32).astype(np.float64)


def _integers(kind: str) -> Load:
    return lambda raw: raw.view(kind).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Form:
    """What the fields of an instruction say."""

    columns: int
    nbytes: int
    first: Load
    second: Load
    single: bool
    integer: bool
    offset: int
    across: tuple[bool, bool]
    negated: tuple[bool, bool]

    @property
    def registers(self) -> int:
        """Of the sums, in each lane."""
        return self.columns // (2 if self.single or self.integer else 4)


def _form(build: Builder, *, integer: bool) -> _Form:
    build.only(73, 1, 0)
    if integer:
        turn, rest = divmod(build.take(53, 6), 3)
        if rest:
            raise NotModelled("IGMMA of this shape")
        columns = _ROWS * (turn + 1) if turn < 4 else 2 * _ROWS * (turn - 1)
        build.only(75, 1, 0)
        kinds = ["i1" if build.take(low) else "u1" for low in (76, 82)]
        first, second = map(_integers, kinds)
        return _Form(columns, 1, first, second, single=False, integer=True, offset=build.offset,
                     across=(False, False), negated=(False, False))  # fmt: skip
    columns = (build.take(53, 5) + 1) * _ROWS
    short, brain, tensor = bool(build.take(58)), bool(build.take(76)), bool(build.take(77))
    if short != tensor or (brain and tensor):
        raise NotModelled("HGMMA of this type and depth")
    load: Load = _tensors if tensor else _brains if brain else _halves
    across = bool(build.take(61)), bool(build.take(62))
    if tensor and any(across):
        raise NotModelled("tf32 along M or N")
    return _Form(columns, 4 if tensor else 2, load, load, single=bool(build.take(75)),
                 integer=False, offset=build.offset, across=across,
                 negated=(bool(build.take(72)), bool(build.take(63))))  # fmt: skip


def _shared(
    t: Threads, block: int, matrix: _Matrix, rows: int, form: _Form, report: Report
) -> Array:
    """Bytes of a matrix in shared memory. Raises: SmException."""
    at = matrix.places(rows, form.nbytes)
    if int(at.min()) < 0 or int(at.max()) + form.nbytes > t.launch.shared_bytes:
        why = "a matrix beyond shared memory,"
        raise fail(t, form.offset, OUT_OF_RANGE, int(at.max()), why)
    places = at[..., None] + np.arange(form.nbytes)
    if not t.shared_known[block][places].all():
        report("shared memory is read and was never written")
    raw: Array = np.ascontiguousarray(t.shared[block][places])
    return raw.reshape(rows, -1)


def _descriptor(t: Threads, number: int, lane: int) -> int:
    low, high = (int(t.uniforms[number + part, lane]) for part in range(2))
    return low | high << 32


def _fragment(words: Array, form: _Form) -> Array:
    """Four registers of each lane of a warp as its 16 rows of A."""
    each = 4 // form.nbytes
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(4, LANES, 4)
    numbers = form.first(raw).reshape(2, 2, 8, 4, each)
    return np.moveaxis(numbers, (1, 2, 0, 3, 4), (0, 1, 2, 3, 4)).reshape(_TILE, -1)


def _sums(t: Threads, number: int, form: _Form, lanes: slice) -> Array:
    """The addend of a warp as rows and columns."""
    words = t.registers[number : number + form.registers, lanes]
    if form.integer or form.single:
        kind = np.int32 if form.integer else np.float32
        pairs = np.ascontiguousarray(words).view(kind).astype(np.float64)
        pairs = pairs.reshape(-1, 2, 2, 8, 4)
    else:
        pairs = np.moveaxis(halves(words).reshape(2, -1, 2, 8, 4), 0, 2)
    return np.transpose(pairs, (1, 3, 0, 4, 2)).reshape(_TILE, form.columns)


def _put(t: Threads, number: int, form: _Form, lanes: slice, values: Array) -> None:
    """Rows and columns of a warp into registers."""
    pairs = np.transpose(values.reshape(2, 8, -1, 4, 2), (2, 0, 4, 1, 3))
    if form.integer:
        words = pairs.astype(np.int64).astype(np.uint32)
    elif form.single:
        words = as_words(pairs.astype(np.float32))
    else:
        bits = pairs.astype(np.float16).view(np.uint16).astype(np.uint32)
        words = bits[:, :, 0] | bits[:, :, 1] << _UPPER
    t.registers[number : number + form.registers, lanes] = words.reshape(-1, LANES)


def _kept(build: Builder) -> Source | None:
    """The uniform predicate that says whether D is added to; None where it is never.

    measured: nvdisasm 13.5 prints UP0 for 7, and UPT for 0
    """
    number, inverted = TRUE - build.take(87, 3), bool(build.take(90))
    if number == TRUE:
        return None if inverted else lambda t: t.uniform_predicates[TRUE]
    build.reads.append((UNIFORM_PREDICATE, number, 0))
    return lambda t: t.uniform_predicates[number] ^ inverted


def gmma(build: Builder, report: Report, *, integer: bool = False) -> Action:
    """HGMMA, IGMMA: D = A x B, or that and an addend.

    Four uniform registers are the descriptors of A and B, the first unused where A is in registers.
    """
    shape = build.form
    if shape not in (_REGISTERS_FORM, _SHARED_FORM):
        raise NotModelled(f"HGMMA form {shape}")
    form = _form(build, integer=integer)
    inside = shape == _REGISTERS_FORM
    uniform = build.uniform(32 if inside else 24)
    build.take(91)
    build.reads += [(UNIFORM, uniform + part, 0) for part in range(2 if inside else 0, 4)]
    first = build.gpr(24, 0, 4) if inside else ZERO
    addend, number = build.register(64), build.register(16)
    adds = _kept(build)
    build.reads += [
        (REGISTER, addend + part, 2)
        for part in range(form.registers) if adds is not None and addend != ZERO
    ]  # fmt: skip
    build.writes += [(REGISTER, number + part) for part in range(form.registers)]
    build.only(84, 3, 0, _NO_GROUP)
    build.latency = "group"
    build.group = GROUP if not build.take(84, 3) else None

    def run(t: Threads, mask: Array) -> None:
        if (t.whole_warps(mask) & ~mask).any():
            report("HGMMA of a warp whose lanes do not all run it")
        added = None if adds is None or addend == ZERO else adds(t)
        known: dict[tuple[int, int, bool], Array] = {}

        def matrix(block: int, descriptor: int, rows: int, *, second: bool) -> Array:
            key = block, descriptor, second
            if key not in known:
                where = _Matrix.of(descriptor, across=form.across[second])
                raw = _shared(t, block, where, rows, form, report)
                known[key] = (form.second if second else form.first)(raw)
            return known[key]

        for low in np.flatnonzero(mask[::LANES]) * LANES:
            lanes, block = slice(low, low + LANES), int(t.block[low])
            warp = int(t.thread[low]) // LANES % _WARPS
            if inside:
                a = _fragment(t.registers[first : first + 4, lanes], form)
            else:
                whole = matrix(
                    block, _descriptor(t, uniform, int(low)), _WARPS * _TILE, second=False
                )
                a = whole[warp * _TILE : (warp + 1) * _TILE]
            b = matrix(block, _descriptor(t, uniform + 2, int(low)), form.columns, second=True)
            total = (-a if form.negated[0] else a) @ (-b if form.negated[1] else b).T
            if added is not None and added[low]:
                total = total + _sums(t, addend, form, lanes)
            _put(t, number, form, lanes, total)

    return run


def warpgroup(build: Builder) -> Action:
    """WARPGROUP.ARRIVE, and WARPGROUP.DEPBAR.LE gsb0, which waits for what was begun."""
    build.only(84, 3, 0)
    build.latency = "control"
    if build.take(80):
        build.only(47, 1, 1)
        if build.take(72, 7) == 0:
            build.waits = GROUP_WAITS
    return lambda t, mask: None


def fence_view(build: Builder) -> Action:
    """FENCE.VIEW.ASYNC: what threads stored is seen by units that read shared memory later."""
    build.latency = "variable"
    return lambda t, mask: None
