"""Tensors on WebGPU adapters beside numpy: what WGSL leaves room for, narrow stores, refusals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tensor as xp
from compilers.wgsl.render import render
from drivers.base.errors import BadArgument, Unsupported
from drivers.webgpu.device import WebGpuDevice
from tensor import engine
from tests.contract.arrays import ramp
from tests.contract.kernels import combine
from tests.support import check
from tests.webgpu import LIBRARIES, webgpu

NAME = "WEBGPU:7"
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, 2.5, -2.5], np.float32
)
"""Signed zeros, NaN, infinities, subnormal numbers."""


@pytest.fixture(scope="module", params=LIBRARIES)
def device(request: pytest.FixtureRequest) -> Iterator[WebGpuDevice]:
    with webgpu(request.param) as opened, engine.adopted(NAME, opened):
        yield opened


@pytest.fixture(scope="module")
def wide(device: WebGpuDevice) -> bool:
    """Whether it computes in 64 bits."""
    return "float64" in device.limits.dtypes


def on(array: np.ndarray) -> xp.Tensor:
    """An array on the adapter."""
    return xp.asarray(array, device=NAME)


@pytest.mark.parametrize("op", ["less", "less_equal", "equal", "not_equal", "greater"])
def test_comparisons_know_nan_and_signed_zeros(device: WebGpuDevice, op: str) -> None:
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    got = getattr(xp, op)(on(a), on(b)).numpy()
    np.testing.assert_array_equal(got, getattr(np, op)(a, b))


def test_special_values_come_through(device: WebGpuDevice) -> None:
    x = on(SPECIAL)
    for got, want in (
        (x + np.float32(0.0), SPECIAL + np.float32(0.0)),
        (x * np.float32(1.0), SPECIAL),
        (xp.where(x > 0, x, np.float32("nan")), np.where(SPECIAL > 0, SPECIAL, np.nan)),
        (xp.maximum(x, -x), np.maximum(SPECIAL, -SPECIAL)),
        (xp.where(x < 0, np.float32("-inf"), x), np.where(SPECIAL < 0, -np.inf, SPECIAL)),
    ):
        found, wanted = got.numpy(), want.astype(np.float32)
        np.testing.assert_array_equal(found, wanted)
        sure = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[sure]), np.signbit(wanted[sure]))


@pytest.mark.parametrize("divisor", [0.0, -0.0, 1e-40, 3.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_constant_divides_as_a_tensor_does(
    device: WebGpuDevice, wide: bool, dtype: str, divisor: float
) -> None:
    """Mesa takes x / 0.0 of a zero that it knows for 0."""
    if dtype == "float64" and not wide:
        return
    with np.errstate(all="ignore"):
        x, y = SPECIAL.astype(dtype), np.array(divisor, dtype)
        want = x / y
    for array in (x, x[:5]):
        many = np.full(array.shape, y)
        for got in (on(array) / float(y), on(array) / on(many)):
            found, wanted = got.numpy(), want[: array.size]
            np.testing.assert_array_equal(found, wanted)
            sure = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[sure]), np.signbit(wanted[sure]))


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "log", "log1p", "tanh", "sqrt", "rint"])
def test_functions_keep_the_order_of_their_sums(device: WebGpuDevice, name: str) -> None:
    """Where (x + c) - c is x, these are wrong by half."""
    theirs = name if hasattr(xp, name) else "round"
    x = np.linspace(-80, 80, 1001).astype(np.float32)
    x = np.abs(x) if name in ("log", "log1p", "sqrt") else x
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
    np.testing.assert_allclose(getattr(xp, theirs)(on(x)).numpy(), want, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.float16])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 255, 1030])
def test_narrow_elements_wrap_and_are_stored_side_by_side(
    device: WebGpuDevice, dtype: type, count: int
) -> None:
    x = (np.arange(count) * 37 - 60).astype(dtype)
    np.testing.assert_array_equal((on(x) + on(x)).numpy(), x + x)
    np.testing.assert_array_equal((on(x) * on(x)[::-1]).numpy(), x * x[::-1])
    np.testing.assert_array_equal(xp.flip(on(x)).numpy(), x[::-1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_narrow_results_are_right_before_they_are_stored(device: WebGpuDevice, dtype: type) -> None:
    x = np.array([3, 100, 7, 0, 127, 50, 9, 1], dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    y = np.array([low, high, low, 1, high, 5, low, 2], dtype)
    inverse = xp.bitwise_invert(on(x))
    for got, want in (
        (xp.astype(inverse, xp.float32), (~x).astype(np.float32)),
        (xp.astype(inverse, xp.int16), (~x).astype(np.int16)),
        (inverse > 100, ~x > 100),
        (xp.floor_divide(inverse, 3), ~x // dtype(3)),
        (xp.astype(on(x) ^ high, xp.float32), (x ^ dtype(high)).astype(np.float32)),
        (xp.astype(-on(y), xp.float32), (-y).astype(np.float32)),
        (xp.abs(on(y)) > 0, np.abs(y) > 0),
    ):
        np.testing.assert_array_equal(got.numpy(), want)
    if dtype is np.uint8:
        table = np.arange(256, dtype=np.int32)
        np.testing.assert_array_equal(xp.take(on(table), inverse).numpy(), table[~x])
    if low:
        with np.errstate(all="ignore"):
            want = y // dtype(-1) > 0
        got = xp.floor_divide(on(y), on(np.full(8, -1, dtype))) > 0
        np.testing.assert_array_equal(got.numpy(), want)


def test_constants_above_the_range_are_infinite(device: WebGpuDevice) -> None:
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal((on(x) * 1e39).numpy(), np.array([np.inf, -np.inf], np.float32))
    np.testing.assert_array_equal((on(x) * -1e39).numpy(), np.array([-np.inf, np.inf], np.float32))


@pytest.mark.parametrize("shape", [(3, 5, 7), (64, 64, 64), (128, 256, 33)])
def test_products_and_sums(device: WebGpuDevice, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    np.testing.assert_allclose((on(a) @ on(b)).numpy(), a @ b, rtol=1e-4, atol=1e-4)
    for axis in (0, 1):
        np.testing.assert_allclose(xp.sum(on(a), axis=axis).numpy(), a.sum(axis), atol=1e-4)
        np.testing.assert_array_equal(xp.max(on(a), axis=axis).numpy(), a.max(axis))


def test_more_workgroups_than_a_launch_has(device: WebGpuDevice) -> None:
    """Each row is a workgroup's."""
    rows = device.limits.max_grid[0] + 5
    x = (np.arange(rows * 8) % 251).astype(np.float32).reshape(rows, 8)
    np.testing.assert_array_equal(xp.sum(on(x), axis=1).numpy(), x.sum(1))


def test_more_operands_than_there_are_bindings(device: WebGpuDevice) -> None:
    count = (device.limits.max_params or 0) + 5
    parts = [np.full(6, n, np.float32) for n in range(count)]
    total = on(parts[0])
    for part in parts[1:]:
        total = total + on(part)
    np.testing.assert_array_equal(total.numpy(), np.sum(parts, axis=0))


def test_64_bits_are_there_or_refused_by_name(device: WebGpuDevice, wide: bool) -> None:
    x = np.array([2**40 + 3, -5, 7, -(2**62)], np.int64)
    if wide:
        np.testing.assert_array_equal((on(x) * 3 - on(x) // 7).numpy(), x * 3 - x // 7)
        np.testing.assert_array_equal((on(x.astype(np.float64)) / 3).numpy(), x / 3)
        np.testing.assert_array_equal(xp.take(on(x), on(np.array([-1, 1], np.int8))).numpy(),
                                      x[[-1, 1]])  # fmt: skip
        return
    for dtype in (np.int64, np.float64):
        with pytest.raises(Unsupported, match=np.dtype(dtype).name):
            (on(x.astype(dtype)) + 1).numpy()


def test_copies_of_any_length(device: WebGpuDevice) -> None:
    source, target = bytes(range(1, 60)), bytearray(59)
    a, b = device.alloc(59), device.alloc(59)
    for nbytes in (1, 2, 3, 4, 5, 31, 58, 59):
        device.copy_in(a, memoryview(bytes(59)))
        device.copy_in(b, memoryview(b"\xff" * 59))
        device.copy_in(a, memoryview(source)[:nbytes])
        device.copy_queue().copy(b, a, nbytes).submit()
        device.copy_out(memoryview(target), b)
        want = source[:nbytes] + b"\xff" * (59 - nbytes)
        check(bytes(target) == want, f"{nbytes}: {target.hex()}")


def test_one_buffer_is_read_and_written_or_refused(device: WebGpuDevice) -> None:
    """A kernel that would write it twice is refused: WebGPU leaves open which write is last."""
    from compilers.wgsl import compiler
    from compilers.wgsl.family import FAMILY

    source = render(combine(device.limits, 64), device.limits.features)
    source = source.replace("//! rrw", "//! wrw").replace("read> p0", "read_write> p0")
    blob = compiler.compile_object(source, device.arch, device.limits.features)
    kernel = device.load(FAMILY.load(blob, "combine", device.arch))
    a, b = device.alloc(256), device.alloc(256)
    device.copy_in(a, memoryview(ramp(64)).cast("B"))
    with pytest.raises(BadArgument, match="as two"):
        device.launch(kernel, [a, b, a], 1)
    kernel.close()


def test_a_time_passes_between_two_marks(device: WebGpuDevice) -> None:
    first, last = device.new_signal(), device.new_signal()
    a, b = device.alloc(1 << 22), device.alloc(1 << 22)
    queue = device.copy_queue().timestamp(first)
    queue.copy(a, b, 1 << 22).signal(last, 1).submit()
    last.wait(1)
    check(0 < first.timestamp_ns < last.timestamp_ns, "in order")
    first.close()
    last.close()


def test_without_queries_times_are_those_of_the_ends(
    device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever they are asked for: of an adapter without timestamp-query."""
    monkeypatch.setattr(device.stream, "queries", 0)
    first, last = device.new_signal(), device.new_signal()
    a, b = device.alloc(1 << 20), device.alloc(1 << 20)
    before = device.now_ns()
    device.copy_queue().timestamp(first).copy(a, b, 1 << 20).submit()
    device.copy_queue().copy(b, a, 1 << 20).signal(last, 1).submit()
    last.wait(1)
    after = device.now_ns()
    check(before <= first.timestamp_ns <= last.timestamp_ns <= after, "in order")
    first.close()
    last.close()


@pytest.mark.parametrize("name", ["log10", "sinh", "cosh", "asinh", "acosh", "atanh"])
def test_functions_need_no_float64(device: WebGpuDevice, name: str) -> None:
    """Within 8 units in the last place of float32, and numpy's special values."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-0.99, 0.99, 999) if name == "atanh" else rng.uniform(-87, 87, 999)
    x = np.abs(x) + (name == "acosh") if name in ("log10", "acosh") else x
    x = np.concatenate([x, x * 1e-3, [0.0, np.inf, -np.inf, np.nan, 1.0]]).astype(np.float32)
    with np.errstate(all="ignore"):
        theirs = getattr(np, name, None) or getattr(np, f"arc{name[1:]}")
        want = theirs(x.astype(np.float64)).astype(np.float32)
    found = getattr(xp, name if hasattr(xp, name) else theirs.__name__)(on(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=8 * 2.0**-24, atol=1e-38)


def test_16_bit_constants_and_hypot_need_no_float64(device: WebGpuDevice) -> None:
    x = np.append(np.linspace(-3, 3, 63), np.inf).astype(np.float16)
    with np.errstate(all="ignore"):
        want = np.sign(x), x * np.float16(0.1), np.float16(1) / x, np.isinf(x)
    got = xp.sign(on(x)), on(x) * 0.1, xp.reciprocal(on(x)), xp.isinf(on(x))
    for found, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)
    single, other = x.astype(np.float32), x[::-1].astype(np.float32)
    found = xp.hypot(on(single), on(other)).numpy()
    np.testing.assert_allclose(found, np.hypot(single, other), rtol=3e-7)
