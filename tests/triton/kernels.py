"""Kernels in Triton's language: arithmetic of elements, sums and scans of rows, order, memory.

Triton reads their source, so they are functions of a module. `cases.py` runs them.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _at(n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    return i, i < n


@triton.jit
def add(a, b, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    tl.store(c + i, tl.load(a + i, inside) + tl.load(b + i, inside), inside)


@triton.jit
def functions(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside, other=1)
    tl.store(c + 0 * n + i, tl.exp(x), inside)
    tl.store(c + 1 * n + i, tl.log(x), inside)
    tl.store(c + 2 * n + i, tl.sin(x), inside)
    tl.store(c + 3 * n + i, tl.cos(x), inside)
    tl.store(c + 4 * n + i, tl.sqrt(x), inside)
    tl.store(c + 5 * n + i, tl.rsqrt(x), inside)
    tl.store(c + 6 * n + i, tl.erf(x), inside)
    tl.store(c + 7 * n + i, tl.exp2(x), inside)
    tl.store(c + 8 * n + i, tl.log2(x), inside)
    tl.store(c + 9 * n + i, tl.floor(x), inside)
    tl.store(c + 10 * n + i, tl.ceil(x), inside)
    tl.store(c + 11 * n + i, 1 / x, inside)


@triton.jit
def library(a, b, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x, y = tl.load(a + i, inside, other=1), tl.load(b + i, inside, other=1)
    tl.store(c + 0 * n + i, libdevice.tanh(x), inside)
    tl.store(c + 1 * n + i, libdevice.pow(x, y), inside)
    tl.store(c + 2 * n + i, libdevice.fmod(x, y), inside)
    tl.store(c + 3 * n + i, libdevice.atan2(x, y), inside)
    tl.store(c + 4 * n + i, libdevice.log1p(x), inside)
    tl.store(c + 5 * n + i, libdevice.expm1(x), inside)
    tl.store(c + 6 * n + i, libdevice.hypot(x, y), inside)
    tl.store(c + 7 * n + i, libdevice.sinh(x), inside)


@triton.jit
def integers(a, b, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x, y = tl.load(a + i, inside, other=1), tl.load(b + i, inside, other=1)
    tl.store(c + 0 * n + i, x // y, inside)
    tl.store(c + 1 * n + i, x % y, inside)
    tl.store(c + 2 * n + i, x * y, inside)
    tl.store(c + 3 * n + i, x ^ y, inside)
    tl.store(c + 4 * n + i, x << (y & 7), inside)
    tl.store(c + 5 * n + i, x >> (y & 7), inside)
    tl.store(c + 6 * n + i, tl.minimum(x, y), inside)
    tl.store(c + 7 * n + i, tl.umulhi(x.to(tl.uint32), y.to(tl.uint32)).to(tl.int32), inside)


@triton.jit
def converted(a, half, brain, whole, wide, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside)
    tl.store(half + i, x.to(tl.float16), inside)
    tl.store(brain + i, x.to(tl.bfloat16), inside)
    tl.store(whole + i, x.to(tl.int32), inside)
    tl.store(wide + i, x.to(tl.float64) * 1.1, inside)


@triton.jit
def quarter(a, stored, back, n, block: tl.constexpr):
    i, inside = _at(n, block)
    small = tl.load(a + i, inside).to(tl.float8e5, fp_downcast_rounding="rtne")
    tl.store(stored + i, small, inside)
    tl.store(back + i, small.to(tl.float32), inside)


@triton.jit
def softmax(a, c, columns, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    x = tl.load(a + row * columns + i, i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(c + row * columns + i, e / tl.sum(e, 0), i < columns)


@triton.jit
def layer_norm(a, w, b, c, columns, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    inside = i < columns
    x = tl.load(a + row * columns + i, inside, other=0.0)
    mean = tl.sum(x, 0) / columns
    apart = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, 0) / columns + 1e-5)
    y = apart * scale * tl.load(w + i, inside) + tl.load(b + i, inside)
    tl.store(c + row * columns + i, y, inside)


@triton.jit
def rotary_norm(a, cos, sin, c, half: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, half)
    x, y = tl.load(a + row * 2 * half + i), tl.load(a + row * 2 * half + half + i)
    scale = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / (2 * half) + 1e-6)
    u, v = tl.load(cos + row * half + i), tl.load(sin + row * half + i)
    tl.store(c + row * 2 * half + i, (x * u - y * v) * scale)
    tl.store(c + row * 2 * half + half + i, (x * v + y * u) * scale)


@triton.jit
def cross_entropy(a, labels, c, columns, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    x = tl.load(a + row * columns + i, i < columns, other=-float("inf"))
    top = tl.max(x, 0)
    right = tl.load(a + row * columns + tl.load(labels + row))
    tl.store(c + row, tl.log(tl.sum(tl.exp(x - top), 0)) + top - right)


@triton.jit
def gelu(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside).to(tl.float32)
    tl.store(c + i, (0.5 * x * (1 + tl.erf(x * 0.7071067811865476))).to(tl.float16), inside)


@triton.jit
def dropout(a, c, n, seed, block: tl.constexpr):
    i, inside = _at(n, block)
    kept = tl.randint(seed, i) & 3 != 0
    tl.store(c + i, tl.where(kept, tl.load(a + i, inside), 0.0), inside)


@triton.jit
def randoms(c, n, seed, block: tl.constexpr):
    i, inside = _at(n, block)
    w, x, y, z = tl.randint4x(seed, i)
    tl.store(c + i, w, inside)
    tl.store(c + n + i, x, inside)
    tl.store(c + 2 * n + i, y, inside)
    tl.store(c + 3 * n + i, z, inside)


@triton.jit
def extremes(a, top, at, low, where, columns, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    x = tl.load(a + row * columns + i, i < columns, other=-1e30)
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(top + row, value)
    tl.store(at + row, index)
    x = tl.where(i < columns, x, 1e30)
    tl.store(low + row, tl.min(x, 0))
    tl.store(where + row, tl.argmin(x, 0))


@triton.jit
def _mix(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scans(a, sums, products, decayed, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    x = tl.load(a + row * block + i)
    tl.store(sums + row * block + i, tl.cumsum(x, 0))
    tl.store(products + row * block + i, tl.cumprod(1 + x * 0.01, 0))
    _, y = tl.associative_scan((x * 0 + 0.5, x), 0, _mix)
    tl.store(decayed + row * block + i, y)


@triton.jit
def ordered(a, c, best, block: tl.constexpr, count: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    x = tl.load(a + row * block + i)
    tl.store(c + row * block + i, tl.sort(x))
    tl.store(best + row * count + tl.arange(0, count), tl.topk(x, count))


@triton.jit
def histogram(a, c, block: tl.constexpr, bins: tl.constexpr):
    x = tl.load(a + tl.program_id(0) * block + tl.arange(0, block))
    tl.atomic_add(c + tl.arange(0, bins), tl.histogram(x, bins))


@triton.jit
def gathered(a, at, c, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(c + i, tl.gather(tl.load(a + i), tl.load(at + i), 1))


@triton.jit
def turned(a, c, rows, columns, side: tl.constexpr):
    y = tl.program_id(0) * side + tl.arange(0, side)
    x = tl.program_id(1) * side + tl.arange(0, side)
    inside = (y[:, None] < rows) & (x[None, :] < columns)
    tile = tl.load(a + y[:, None] * columns + x[None, :], inside)
    tl.store(c + x[:, None] * rows + y[None, :], tl.trans(tile), tl.trans(inside))


@triton.jit
def folded(a, c, block: tl.constexpr):
    i = tl.arange(0, block)
    x = tl.reshape(tl.load(a + i), (block // 8, 8))
    tl.store(c + tl.arange(0, 8), tl.xor_sum(x, 0))
    left, right = tl.split(tl.reshape(tl.load(a + i), (block // 2, 2)))
    tl.store(c + 8 + i, tl.reshape(tl.join(right, left), (block,)))


@triton.jit
def atomics(a, c, bits, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside, other=0)
    tl.atomic_add(c + x % 8, x, inside)
    tl.atomic_max(c + 8 + x % 8, x, inside)
    tl.atomic_min(c + 16 + x % 8, x, inside)
    tl.atomic_or(bits + 0 * i, tl.where(inside, 1 << (x % 30), 0))
    tl.atomic_xchg(bits + 1 + i, x, inside)


@triton.jit
def float_atomics(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    tl.atomic_add(c + i % 16, tl.load(a + i, inside), inside)


@triton.jit
def half_atomics(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    tl.atomic_add(c + i % 16, tl.load(a + i, inside), inside)


@triton.jit
def locked(lock, values, block: tl.constexpr):
    i = tl.arange(0, block)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    x = tl.load(values + i, cache_modifier=".cv")
    tl.store(values + i, x * 3 + 1, cache_modifier=".wt")
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def collatz(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside, other=1)
    steps = tl.zeros_like(x)
    while tl.max((x > 1).to(tl.int32), 0) > 0:
        going = x > 1
        steps += going.to(tl.int32)
        x = tl.where(going, tl.where(x & 1 == 1, 3 * x + 1, x // 2), x)
    tl.store(c + i, steps, inside)


@triton.jit(noinline=True)
def _called(x, y):
    return x * y + tl.minimum(x, y)


@triton.jit
def calls(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    first, second = _called(tl.program_id(0), n), _called(n, 3)
    tl.store(c + i, tl.load(a + i, inside) * first - second, inside)


@triton.jit
def doubles(a, c, n, block: tl.constexpr):
    i, inside = _at(n, block)
    x = tl.load(a + i, inside, other=1.0)
    tl.store(c + 0 * n + i, tl.exp(x), inside)
    tl.store(c + 1 * n + i, tl.log(x), inside)
    tl.store(c + 2 * n + i, tl.sqrt(x), inside)
    tl.store(c + 3 * n + i, tl.sin(x) / x, inside)
    tl.store(c + 4 * n + i, libdevice.pow(x, x * 0 + 1.5), inside)


@triton.jit
def state_space(x, dt, a, b, c, y, length, width: tl.constexpr, states: tl.constexpr):
    channel, s = tl.program_id(0), tl.arange(0, states)
    decay = tl.load(a + channel * states + s)
    h = tl.zeros((states,), tl.float32)
    for t in range(length):
        step, value = tl.load(dt + t * width + channel), tl.load(x + t * width + channel)
        h = h * tl.exp(decay * step) + tl.load(b + t * states + s) * step * value
        tl.store(y + t * width + channel, tl.sum(h * tl.load(c + t * states + s), 0))
