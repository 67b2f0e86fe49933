"""Products of matrices in Triton's language, and what is built of them."""

import triton
import triton.language as tl


@triton.jit
def _tiles(first, second, count, group: tl.constexpr):
    """Which tile a program has: tiles of a group of rows one after the other."""
    pid, across = tl.program_id(0), group * second
    start = pid // across * group
    rows = tl.minimum(first - start, group)
    return start + pid % across % rows, pid % across // rows


@triton.jit
def _product(a, b, y, x, m, n, k, bk: tl.constexpr, kind: tl.constexpr, exact: tl.constexpr):
    i = tl.arange(0, bk)
    total = tl.zeros((y.shape[0], x.shape[0]), kind)
    for at in range(0, k, bk):
        left = tl.load(
            a + y[:, None] * k + at + i[None, :],
            (y[:, None] < m) & (at + i[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + (at + i[:, None]) * n + x[None, :],
            (at + i[:, None] < k) & (x[None, :] < n),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=exact, out_dtype=kind)
    return total


@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    bm: tl.constexpr,
    bn: tl.constexpr,
    bk: tl.constexpr,
    group: tl.constexpr,
    kind: tl.constexpr,
    exact: tl.constexpr,
    relu: tl.constexpr,
):
    first, second = tl.cdiv(m, bm), tl.cdiv(n, bn)
    row, column = _tiles(first, second, first * second, group)
    y, x = row * bm + tl.arange(0, bm), column * bn + tl.arange(0, bn)
    total = _product(a, b, y, x, m, n, k, bk, kind, exact)
    if relu:
        total = tl.where(total > 0, total, total * 0.25)
    inside = (y[:, None] < m) & (x[None, :] < n)
    tl.store(c + y[:, None] * n + x[None, :], total.to(c.dtype.element_ty), inside)


@triton.jit
def persistent(
    a, b, c, m, n, k, programs: tl.constexpr, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr
):
    across = tl.cdiv(n, bn)
    for tile in range(tl.program_id(0), tl.cdiv(m, bm) * across, programs):
        y, x = tile // across * bm + tl.arange(0, bm), tile % across * bn + tl.arange(0, bn)
        total = _product(a, b, y, x, m, n, k, bk, tl.float32, "ieee")
        inside = (y[:, None] < m) & (x[None, :] < n)
        tl.store(c + y[:, None] * n + x[None, :], total, inside)


@triton.jit
def split(a, b, c, m, n, k, part: tl.constexpr, bm: tl.constexpr, bk: tl.constexpr):
    y, x, i = tl.arange(0, bm), tl.arange(0, bm), tl.arange(0, bk)
    total = tl.zeros((bm, bm), tl.float32)
    for at in range(tl.program_id(0) * part, tl.program_id(0) * part + part, bk):
        left = tl.load(a + y[:, None] * k + at + i[None, :])
        right = tl.load(b + (at + i[:, None]) * n + x[None, :])
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.atomic_add(c + y[:, None] * n + x[None, :], total)


@triton.jit
def weights_of_4_bits(a, packed, scales, c, m, n, k, bm: tl.constexpr, bk: tl.constexpr):
    """Two weights a byte, one scale for each column and 32 rows."""
    y, x, i = tl.arange(0, bm), tl.program_id(0) * bm + tl.arange(0, bm), tl.arange(0, bk)
    total = tl.zeros((bm, bm), tl.float32)
    for at in range(0, k, bk):
        row = at + i
        byte = tl.load(packed + (row[:, None] // 2) * n + x[None, :])
        four = (byte >> ((row[:, None] % 2) * 4)) & 15
        scale = tl.load(scales + (row[:, None] // 32) * n + x[None, :])
        weight = ((four.to(tl.float32) - 8) * scale).to(tl.float16)
        left = tl.load(a + y[:, None] * k + row[None, :])
        total = tl.dot(left, weight, total)
    tl.store(c + y[:, None] * n + x[None, :], total)


@triton.jit
def scaled(a, sa, b, sb, c, bm: tl.constexpr, bk: tl.constexpr):
    """4-bit values in groups of 32 with one scale (MXFP4)."""
    y, i, s = tl.arange(0, bm), tl.arange(0, bk // 2), tl.arange(0, bk // 32)
    left = tl.load(a + y[:, None] * (bk // 2) + i[None, :])
    right = tl.load(b + i[:, None] + y[None, :] * (bk // 2))
    first = tl.load(sa + y[:, None] * (bk // 32) + s[None, :])
    second = tl.load(sb + y[:, None] * (bk // 32) + s[None, :])
    total = tl.dot_scaled(left, first, "e2m1", right, second, "e2m1")
    tl.store(c + y[:, None] * bm + y[None, :], total)


@triton.jit
def attention(
    q,
    k,
    v,
    c,
    length,
    scale: tl.constexpr,
    causal: tl.constexpr,
    bm: tl.constexpr,
    bn: tl.constexpr,
    d: tl.constexpr,
):
    head = tl.program_id(1) * length * d
    y, i = tl.program_id(0) * bm + tl.arange(0, bm), tl.arange(0, d)
    query = tl.load(q + head + y[:, None] * d + i[None, :])
    top = tl.full((bm,), -float("inf"), tl.float32)
    weight, total = tl.zeros((bm,), tl.float32), tl.zeros((bm, d), tl.float32)
    end = tl.program_id(0) * bm + bm if causal else length
    for at in range(0, end, bn):
        x = at + tl.arange(0, bn)
        keys = tl.load(k + head + x[None, :] * d + i[:, None])
        scores = tl.dot(query, keys) * scale
        if causal:
            scores = tl.where(y[:, None] >= x[None, :], scores, -1e30)
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        kept = tl.exp(top - new)
        weight = weight * kept + tl.sum(p, 1)
        values = tl.load(v + head + x[:, None] * d + i[None, :])
        total = tl.dot(p.to(values.dtype), values, total * kept[:, None])
        top = new
    tl.store(c + head + y[:, None] * d + i[None, :], total / weight[:, None])


@triton.jit
def convolution(
    a, w, c, height, width, channels: tl.constexpr, filters: tl.constexpr, bm: tl.constexpr
):
    """3 x 3, as one product for each place of the filter."""
    at, x, f = (
        tl.program_id(0) * bm + tl.arange(0, bm),
        tl.arange(0, channels),
        tl.arange(0, filters),
    )
    row, column = at // width, at % width
    total = tl.zeros((bm, filters), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            y, z = row + dy - 1, column + dx - 1
            there = (y >= 0) & (y < height) & (z >= 0) & (z < width)
            place = (y * width + z)[:, None] * channels + x[None, :]
            left = tl.load(a + place, there[:, None], other=0.0)
            right = tl.load(w + ((dy * 3 + dx) * channels + x[:, None]) * filters + f[None, :])
            total = tl.dot(left, right, total)
    tl.store(c + at[:, None] * filters + f[None, :], total, (at < height * width)[:, None])
