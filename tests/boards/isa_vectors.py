"""One instruction on many operands: the executor's binding of a single encoding, all lanes at once.

`ISA_VECTORS=200000 ISA_SEED=7 pytest tests/boards/test_isa_vectors*` asks for more, or others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import VGPR, Family, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.layout import Encoding
from boards.amd.isa.table import MASK, Entry
from boards.amd.wave.execute import bind
from boards.amd.wave.state import EXEC, VCC, Waves, unpack_bits
from tests.share import part

PLAIN_MODE = 0x1F0
"""Round to nearest, denormals kept, NaN clamps to 0."""
_RESULT, _SOURCES, _MASK_IN, _MASK_OUT, _SCALAR_OUT = 0, {"a": 10, "b": 20, "c": 30}, 40, 50, 60
_SEED = int(os.environ.get("ISA_SEED", "0"))
_ALL = np.uint32(0xFFFFFFFF)
_VECTOR = ("VOP3", "VOP3SD", "VOP3P")
_SCALAR = ("SOP2", "SOP1", "SOPC")


_LEAST = part(20_000, 2_000)
COUNT = -(-max(_LEAST, int(os.environ.get("ISA_VECTORS", "0"))) // 640) * 640
"""Operand vectors of one test: at least 20,000; fewer under `--share`."""
Names = str | tuple[str, ...]
"""A mnemonic, or what the families call the same instruction."""


@dataclass(frozen=True)
class Chip:
    """A family of encodings as one of its chips runs it."""

    name: str
    family: Family
    lanes: int


CHIPS = [
    Chip(name, FAMILIES[name], FAMILIES[name].lane_counts[0])
    for name in ("gfx1100", "gfx1030", "gfx1201", "gfx942")
]


@lru_cache(maxsize=4096)
def entry_of(
    family: Family, names: Names, encodings: tuple[str, ...]
) -> tuple[Encoding, Entry] | None:
    """The encoding of an instruction, or None where the family has none."""
    wanted = {names} if isinstance(names, str) else set(names)
    for layout in family.layouts:
        if layout.name in encodings:
            for entry in layout.entries.values():
                if entry.name in wanted:
                    return layout, entry
    return None


def known(names: Iterable[Names]) -> list[Names]:
    """Those that at least one family has."""
    encodings = _VECTOR + _SCALAR
    return [n for n in names if any(entry_of(c.family, n, encodings) for c in CHIPS)]


def instructions(names: Iterable[Names]) -> Any:
    """Parameters of a test: the names that exist."""
    return pytest.mark.parametrize(
        "name", known(names), ids=lambda n: n if isinstance(n, str) else n[0]
    )


def _encoded(layout: Encoding, entry: Entry, fields: dict[str, int]) -> list[int]:
    word = layout.value | entry.opcode << layout.opcode[0]
    for field, value in fields.items():
        if value and field not in layout.fields:
            raise KeyError(f"{entry.name} has no field {field}")
        if value:
            word |= value << layout.fields[field][0]
    return [word & 0xFFFFFFFF, word >> 32, 0, 0]


def _waves(count: int, mode: int, lanes: int, vgprs: int = 48) -> Waves:
    w = Waves(count, lanes, vgprs, 0, count)
    w.sgpr[EXEC : EXEC + 2] = _ALL
    w.set_mode(np.full(count, mode, np.uint32))
    w.select(np.arange(count))
    return w


def _put(w: Waves, register: int, values: Any) -> None:
    array = np.ascontiguousarray(values)
    if array.itemsize < 4:
        array = array.view(f"u{array.itemsize}").astype(np.uint32)
    dwords = array.view(np.uint32).reshape(w.count * w.lanes, -1)
    for i in range(dwords.shape[1]):
        w.vgpr[register + i] = dwords[:, i].reshape(w.count, w.lanes)


def _get(w: Waves, register: int, dtype: Any) -> Any:
    if isinstance(dtype, int):  # so many dwords of each lane
        rows = w.vgpr[register : register + dtype].reshape(dtype, -1)
        return np.ascontiguousarray(rows.T)
    size = np.dtype(dtype).itemsize
    low = w.vgpr[register].reshape(-1)
    if size == 8:
        return np.stack([low, w.vgpr[register + 1].reshape(-1)], axis=1).copy().view(dtype)[:, 0]
    return low.astype(np.uint16).view(dtype) if size == 2 else low.copy().view(dtype)


def vector(
    names: Names, sources: Sequence[Any], *dtypes: Any, mode: int = PLAIN_MODE,
    only: Sequence[str] = (), **modifiers: int,
) -> Any:  # fmt: skip
    """Execute one vector instruction for all lanes on every chip that has it; they must agree.

    The results in order: a result is a dtype, "m" for a lane mask, or a number of dwords.
    A bool source is a lane mask, for the operand that is one, or else VCC. One source more than
    the instruction names is the destination's old value.
    """
    answers = {
        chip.name: _vector(chip, found, sources, dtypes, mode, modifiers)
        for chip in CHIPS
        if (not only or chip.name in only) and (found := entry_of(chip.family, names, _VECTOR))
    }
    results = _agreed(names, answers)
    return results[0] if len(results) == 1 else tuple(results)


def _agreed(names: Names, answers: dict[str, list[Any]]) -> list[Any]:
    """What all chips found."""
    if not answers:
        raise KeyError(f"no family has {names}")
    first, *others = answers
    for other in others:
        for one, two in zip(answers[first], answers[other], strict=True):
            alike = one is two is None or one.tobytes() == two.tobytes()
            if not alike:
                np.testing.assert_array_equal(two, one, f"{names}: {other} against {first}")
                raise AssertionError(f"{names}: bits of {other} differ from those of {first}")
    return answers[first]


def _vector(
    chip: Chip, found: tuple[Encoding, Entry], sources: Sequence[Any], dtypes: Sequence[Any],
    mode: int, modifiers: dict[str, int],
) -> list[Any]:  # fmt: skip
    layout, entry = found
    w = _waves(len(sources[0]) // chip.lanes, mode, chip.lanes)
    w.vgpr[_RESULT] = 0
    fields = _operands(w, entry, list(sources)) | modifiers
    inst = decode(chip.family, _encoded(layout, entry, fields), 0, chip.lanes)
    _execute(entry.name, inst, w)
    return [
        unpack_bits(w.scalar_mask(_mask_register(entry, dtypes))).reshape(-1)
        if dtype == "m" else _get(w, _RESULT, dtype) for dtype in dtypes
    ]  # fmt: skip


def _operands(w: Waves, entry: Entry, sources: list[Any]) -> dict[str, int]:
    fields: dict[str, int] = {}
    for field, width in entry.slots:
        if field in "dDs":
            fields[field[0].lower()] = {"d": _RESULT, "D": _SCALAR_OUT, "s": _MASK_OUT}[field]
        elif field in _SOURCES and width == MASK:
            fields[field] = _MASK_IN
            w.put_mask(_MASK_IN, sources.pop(0).reshape(w.count, w.lanes))
        elif field in _SOURCES:
            fields[field] = VGPR + _SOURCES[field]
            _put(w, _SOURCES[field], sources.pop(0))
    for left in sources:
        if left.dtype == np.bool_:
            w.put_mask(VCC, left.reshape(w.count, w.lanes))
        else:
            _put(w, _RESULT, left)
    return fields


def _mask_register(entry: Entry, dtypes: Sequence[Any]) -> int:
    return _SCALAR_OUT if len(dtypes) == 1 else _MASK_OUT


def _execute(name: str, inst: Any, w: Waves) -> None:
    if inst.name != name:
        raise AssertionError(f"{name} decodes as {inst.name}")
    run = bind(inst)
    if run is None:
        raise AssertionError(f"{name} has no meaning")
    with np.errstate(all="ignore"):
        run(w)


def scalar(names: Names, sources: Sequence[Any], dtype: Any, scc: Any = None) -> tuple[Any, Any]:
    """Execute one scalar instruction, one operand vector a wave: (result or None, SCC)."""
    answers = {
        chip.name: _scalar(chip, found, sources, dtype, scc)
        for chip in CHIPS
        if (found := entry_of(chip.family, names, _SCALAR))
    }
    result, flag = _agreed(names, answers)
    return result, flag


def _scalar(
    chip: Chip, found: tuple[Encoding, Entry], sources: Sequence[Any], dtype: Any, scc: Any
) -> list[Any]:
    layout, entry = found
    w = _waves(len(sources[0]), PLAIN_MODE, 32, vgprs=1)
    w.scc[:] = False if scc is None else scc
    fields = {"d": _SCALAR_OUT} if dtype is not None else {}
    for field, values in zip("ab", sources, strict=False):
        fields[field] = _SOURCES[field]
        dwords = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
        w.sgpr[_SOURCES[field] : _SOURCES[field] + dwords.shape[1]] = dwords.T
    _execute(entry.name, decode(chip.family, _encoded(layout, entry, fields), 0, chip.lanes), w)
    if dtype is None:
        return [None, w.scc.copy()]
    dwords = 2 if np.dtype(dtype).itemsize == 8 else 1
    raw = np.ascontiguousarray(w.sgpr[_SCALAR_OUT : _SCALAR_OUT + dwords].T)
    return [raw.view(dtype)[:, 0], w.scc.copy()]


def random_bits(seed: int, dtype: Any = np.uint32) -> Any:
    """Random values of an integer type; one in eight is an edge of it or a small number."""
    rng = np.random.default_rng((_SEED, seed))
    dtype, count = np.dtype(dtype), COUNT
    values = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).copy()
    top = 1 << (8 * dtype.itemsize - 1)
    edges = [
        0,
        1,
        2,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        top - 1,
        top,
        top + 1,
        2 * top - 1,
        2 * top - 2,
    ]
    raw = values.view(f"u{dtype.itemsize}")
    raw[rng.random(count) < 0.125] = 0
    hit = raw == 0
    raw[hit] = rng.choice(np.array([e % (2 * top) for e in edges], raw.dtype), int(hit.sum()))
    return values


def random_floats(seed: int, dtype: Any) -> Any:
    """Floats of every kind: any bits, denormals, specials, and short fractions near each other.

    Short fractions make ties and cancellation likely, whatever the operation.
    """
    rng = np.random.default_rng((_SEED, seed))
    dtype, count = np.dtype(dtype), COUNT
    info = np.finfo(dtype)
    values = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).copy()
    raw = values.view(f"u{dtype.itemsize}")
    kind = rng.integers(0, 8, count)
    one = np.array([1], dtype).view(raw.dtype)[0]
    shift = raw.dtype.type(info.nmant)
    near = rng.integers(-3, 4, count).astype(raw.dtype) << shift
    keep = raw.dtype.type((1 << info.nmant) - 1)
    sign = raw & raw.dtype.type(1 << 8 * dtype.itemsize - 1)
    short = keep << rng.integers(info.nmant // 2, info.nmant + 1, count).astype(raw.dtype) & keep
    raw[:] = np.where(kind < 3, sign | (one + near & ~keep) | raw & keep, raw)
    raw[:] = np.where((kind == 3) | (kind == 4), raw & ~keep | raw & short, raw)
    raw[:] = np.where(kind == 5, sign | raw & keep, raw)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, info.max, -info.max, info.tiny,
         -info.tiny, info.smallest_subnormal, -info.smallest_subnormal], dtype,
    )  # fmt: skip
    hit = kind == 6
    values[hit] = rng.choice(special, int(hit.sum()))
    return values


def each(function: Callable[..., int], sources: Sequence[Any], dtype: Any) -> Any:
    """function of each row of Python integers, modulo the width of an unsigned type."""
    mask = (1 << 8 * np.dtype(dtype).itemsize) - 1
    rows = zip(*[s.tolist() for s in sources], strict=True)
    return np.array([function(*row) & mask for row in rows], dtype)
