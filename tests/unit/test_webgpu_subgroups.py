"""Subgroups of WebGPU adapters whose size is known: both Dawns say it, wgpu-native does not. Where
it is not known, lanes meet in workgroup memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import tensor as xp
from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.index import Var
from compilers.ir import Expr, Kernel, Loop, Ref, Store
from compilers.wgsl.printer import SWAP
from compilers.wgsl.render import render
from drivers.webgpu.device import WebGpuDevice
from drivers.webgpu.facts import PROCESSOR
from drivers.webgpu.modules import Builder
from queues.webgpu.kernel_code import SUBGROUPS
from tensor import engine
from tests.support import check
from tests.webgpu import LIBRARIES, webgpu

NAME = "WEBGPU:9"
DAWNS = ("dawn", "standard")
LANES = 8
"""Of lavapipe where its vectors have 256 bits."""
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(60, 700)).astype(np.float32)
WIDE = RNG.normal(size=(3, 40_000)).astype(np.float32)
NARROW = RNG.normal(size=(300, 3)).astype(np.float32)
WHOLE = RNG.integers(-1000, 1000, (33, 90)).astype(np.int32)
Made = tuple[Callable[[], xp.Tensor], np.ndarray]


def on(array: np.ndarray) -> xp.Tensor:
    return xp.asarray(array, device=NAME)


def _softmax() -> np.ndarray:
    grown = np.exp(ROWS - ROWS.max(1, keepdims=True))
    return np.asarray(grown / grown.sum(1, keepdims=True))


KINDS: dict[str, Made] = {
    "rows": (lambda: xp.sum(on(ROWS), axis=1), ROWS.sum(1)),
    "wide": (lambda: xp.min(on(WIDE), axis=1), WIDE.min(1)),
    "columns": (lambda: xp.sum(on(NARROW), axis=0), NARROW.sum(0)),
    "all": (lambda: xp.max(on(ROWS)), ROWS.max()),
    "int32": (lambda: xp.sum(on(WHOLE), axis=1, dtype=xp.int32), WHOLE.sum(1)),
    "int8": (lambda: xp.max(on(WHOLE.astype(np.int8)), axis=1), WHOLE.astype(np.int8).max(1)),
    "bool": (lambda: xp.any(on(ROWS) > 3, axis=1), (ROWS > 3).any(1)),
    "softmax": (lambda: xp.nn.softmax(on(ROWS), axis=1), _softmax()),
    "vector": (lambda: on(ROWS) @ on(ROWS[0]), ROWS @ ROWS[0]),
    "scan": (lambda: xp.cumulative_sum(on(ROWS), axis=1), ROWS.cumsum(1)),
    "halves": (lambda: xp.max(on(ROWS.astype(np.float16)), axis=1), ROWS.astype(np.float16).max(1)),
}


@contextmanager
def adapter(library: str, subgroups: bool = True) -> Iterator[WebGpuDevice]:
    """A library's device under NAME, with subgroups where it has them or without."""
    with webgpu(library) as device:
        if not subgroups:
            features = device.limits.features - {SUBGROUPS}
            device.limits = replace(device.limits, wave_lanes=0, features=features)
        with engine.adopted(NAME, device):
            yield device


@contextmanager
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is compiled inside, by an empty cache."""
    texts: list[str] = []
    inner = Builder.check

    def compiled(self: Builder, source: str) -> None:
        texts.append(source)
        inner(self, source)

    with monkeypatch.context() as patch:
        patch.setattr(Builder, "check", compiled)
        patch.setattr("compilers.cache.Cache.get", lambda *_: None)
        yield texts


@pytest.mark.parametrize("library", DAWNS)
@pytest.mark.parametrize("kind", KINDS)
def test_lanes_exchange_values(library: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, wanted = KINDS[kind]
    with adapter(library), sources(monkeypatch) as texts:
        np.testing.assert_allclose(make().numpy(), wanted, rtol=1e-5, atol=4e-5)
        first = make().numpy()
        np.testing.assert_array_equal(make().numpy(), first, err_msg="equal from run to run")
    check(any(SWAP in text for text in texts), "values are exchanged")
    for text in texts:
        check((SWAP in text) == (f"enable {SUBGROUPS};" in text), "enabled where it is used")


@pytest.mark.parametrize("library", DAWNS)
@pytest.mark.parametrize("rows", [1, 4])
def test_products_of_a_few_rows_keep_to_vectors_of_four(library: str, rows: int) -> None:
    """A lane loads eight elements of the rows beside each other."""
    few = ROWS[:rows, :64]
    many = RNG.normal(size=(64, 300)).astype(np.float32)
    with adapter(library):
        np.testing.assert_allclose((on(few) @ on(many)).numpy(), few @ many, 1e-4, 1e-4)


@pytest.mark.parametrize("library", DAWNS)
@pytest.mark.parametrize("kind", ["rows", "columns", "softmax", "vector"])
def test_exchanges_take_the_place_of_barriers(
    library: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for subgroups in (True, False):
        with adapter(library, subgroups), sources(monkeypatch) as texts:
            np.testing.assert_allclose(KINDS[kind][0]().numpy(), KINDS[kind][1], 1e-5, 2e-5)
        check(any(SWAP in text for text in texts) == subgroups, "as the adapter offers")
        counts.append(sum(text.count("workgroupBarrier") for text in texts))
    check(counts[0] < counts[1], f"{counts} barriers with and without subgroups")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_processor_reads_long_rows_by_the_lanes_of_one_vector(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More lanes would read every row in wide strides: each of its vectors passes over the row."""
    with adapter(library) as device, sources(monkeypatch) as texts:
        np.testing.assert_array_equal(xp.max(on(WIDE), axis=1).numpy(), WIDE.max(1))
    check(PROCESSOR in device.limits.features, f"{device.limits.features}")
    blocks = [int(found) for text in texts for found in re.findall(r"workgroup_size\((\d+)", text)]
    lanes = device.limits.wave_lanes or LANES
    check(min(blocks) == lanes and len(blocks) > 0, f"workgroups of {blocks} lanes")


@pytest.mark.parametrize("library", LIBRARIES)
def test_subgroups_are_used_where_their_size_is_known(library: str) -> None:
    with webgpu(library) as device:
        limits, title = device.limits, repr(device)
    known = library in DAWNS
    check((SUBGROUPS in limits.features) == known, f"{limits.features}")
    check((limits.wave_lanes > 1) == known, f"{limits.wave_lanes} lanes")
    vectors = re.search(r"llvmpipe \(LLVM [\d.]+, (\d+) bits\)", title)
    if known and vectors:  # lavapipe: a lane for each float of a vector
        check(limits.wave_lanes == int(vectors[1]) // 32, f"{limits.wave_lanes} lanes of {title}")


def swapping(dtype: dt.DType) -> Kernel:
    """Each lane stores the value of its neighbour."""
    lane = Var("lane", LANES)
    a, out = Ref("a", dtype, lane.extent, "global", 0), Ref("out", dtype, lane.extent, "global", 1)
    value = Expr("swap", dtype, (ex.load(a, ix.var(lane)),), 1)
    inside = Loop(lane, "lane", (Store(out, ix.var(lane), value),))
    return Kernel("k", (a, out), (), Loop(Var("g", 1), "grid", (inside,)), lane.extent)


def test_what_is_not_exchanged_is_refused() -> None:
    check(SWAP in render(swapping(dt.float32), frozenset({SUBGROUPS})), "exchanged")
    with pytest.raises(TypeError, match="float32"):
        render(swapping(dt.float32), frozenset())
    with pytest.raises(TypeError, match="int64"):
        render(swapping(dt.int64), frozenset({SUBGROUPS, "shader-int64"}))
