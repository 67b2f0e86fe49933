"""Every case but products: expected values are numpy's, or of the definition beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tests.triton.case import (
    Array,
    Bits,
    Case,
    Wanted,
    blocks,
    brain,
    of_quarter,
    quarter,
    stacked,
)

N, BLOCK = 1000, 256
ROWS, COLUMNS = 3, 200
_RNG = np.random.default_rng(7)
_GRID = blocks(N, BLOCK)
_FLOAT32 = 2.0**-20
"""Eight units in the last place: twice what OCML and libdevice promise for the worst of these."""
_ELEMENT = {"n": N}


def _floats(n: int = N, low: float = -4, high: float = 4) -> Array:
    return _RNG.uniform(low, high, n).astype(np.float32)


def _ints(n: int = N, low: int = -1000, high: int = 1000) -> Array:
    return _RNG.integers(low, high, n, dtype=np.int32)


def _zeros(n: int, dtype: str = "float32") -> Array:
    return np.zeros(n, dtype)


def _lanes(kernel: str, args: dict[str, Array | Bits], wanted: dict[str, Wanted]) -> Case:
    return Case(kernel, {**args, **_ELEMENT}, wanted, {"block": BLOCK}, _GRID)


def elements() -> Iterator[Case]:
    """A value of each lane."""
    a, b = _floats(), _floats()
    yield _lanes("add", {"a": a, "b": b, "c": _zeros(N)}, {"c": Wanted(a + b)})
    x = _floats(low=0.1, high=6)
    wide = x.astype(np.float64)
    erf = np.array([math.erf(value) for value in wide])
    rows = [np.exp(wide), np.log(wide), np.sin(wide), np.cos(wide), np.sqrt(wide), wide**-0.5, erf,
            np.exp2(wide), np.log2(wide), np.floor(wide), np.ceil(wide), 1 / wide]  # fmt: skip
    yield _lanes("functions", {"a": x, "c": _zeros(12 * N)},
                 {"c": Wanted(stacked(rows, "float64"), 2 * _FLOAT32, 1e-6)})  # fmt: skip
    y = _floats(low=0.2, high=3)
    deep = y.astype(np.float64)
    rows = [np.tanh(wide), wide**deep, np.fmod(wide, deep), np.arctan2(wide, deep),
            np.log1p(wide), np.expm1(wide), np.hypot(wide, deep), np.sinh(wide)]  # fmt: skip
    yield _lanes("library", {"a": x, "b": y, "c": _zeros(8 * N)},
                 {"c": Wanted(stacked(rows, "float64"), 4 * _FLOAT32, 1e-6)})  # fmt: skip
    yield _integers()
    yield _conversions()
    narrow = a.astype(np.float16).astype(np.float32)  # some chips round to a half first
    small = quarter(narrow)
    args = {"a": narrow, "stored": Bits("fp8e5", _zeros(N, "uint8")), "back": _zeros(N)}
    yield _lanes("quarter", args, {"stored": Wanted(small), "back": Wanted(of_quarter(small))})
    g = a.astype(np.float64)
    gelu = 0.5 * g * (1 + np.array([math.erf(v * math.sqrt(0.5)) for v in g]))
    yield _lanes("gelu", {"a": a.astype(np.float16), "c": _zeros(N, "float16")},
                 {"c": Wanted(gelu, 2.0**-9, 2e-3)})  # fmt: skip
    yield from _random(a)
    yield _collatz()
    p, programs = _ints(), np.arange(N, dtype=np.int32) // BLOCK
    called = p * (programs * N + np.minimum(programs, N)) - (N * 3 + 3)
    yield _lanes("calls", {"a": p, "c": _zeros(N, "int32")}, {"c": Wanted(called)})
    d = _RNG.uniform(0.1, 9, N)
    rows = [np.exp(d), np.log(d), np.sqrt(d), np.sin(d) / d, d**1.5]
    yield _lanes("doubles", {"a": d, "c": _zeros(5 * N, "float64")},
                 {"c": Wanted(np.concatenate(rows), 2.0**-49, 2.0**-52)})  # fmt: skip


def _integers() -> Case:
    x, y = _ints(low=-(2**31), high=2**31 - 1), _ints(low=-90, high=90)
    y[y == 0] = 7
    wide, by = x.astype(np.int64), y.astype(np.int64)
    quotient = np.trunc(wide / by).astype(np.int64)  # Triton divides as C does
    high = (x.view(np.uint32).astype(np.uint64) * y.view(np.uint32)) >> np.uint64(32)
    rows = [quotient, wide - quotient * by, wide * by, x ^ y, wide << (y & 7), x >> (y & 7),
            np.minimum(x, y), high]  # fmt: skip
    return _lanes("integers", {"a": x, "b": y, "c": _zeros(8 * N, "int32")},
                  {"c": Wanted(stacked(rows, "int32"))})  # fmt: skip


def _conversions() -> Case:
    a = _floats(low=-70000, high=70000)
    with np.errstate(over="ignore"):
        half = a.astype(np.float16)
    args = {"a": a, "half": _zeros(N, "float16"), "brain": Bits("bf16", _zeros(N, "uint16")),
            "whole": _zeros(N, "int32"), "wide": _zeros(N, "float64")}  # fmt: skip
    wanted = {"half": Wanted(half), "brain": Wanted(brain(a)), "whole": Wanted(a.astype(np.int32)),
              "wide": Wanted(a.astype(np.float64) * 1.1)}  # fmt: skip
    return _lanes("converted", args, wanted)


def _philox(seed: int, counters: Array) -> list[Array]:
    """Philox4x32-10. # src: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011"""
    c = [counters.astype(np.uint64), *(np.zeros(len(counters), np.uint64) for _ in range(3))]
    k0, k1, low = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [second >> np.uint64(32) ^ c[1] ^ np.uint64(k0), second & low,
             first >> np.uint64(32) ^ c[3] ^ np.uint64(k1), first & low]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [part.astype(np.uint32).view(np.int32) for part in c]


def _random(a: Array) -> Iterator[Case]:
    seed, made = 1234, _philox(1234, np.arange(N))
    yield Case("randoms", {"c": _zeros(4 * N, "int32"), "n": N, "seed": seed},
               {"c": Wanted(np.concatenate(made))}, {"block": BLOCK}, _GRID)  # fmt: skip
    kept = np.where(made[0] & 3 != 0, a, np.float32(0))
    yield Case("dropout", {"a": a, "c": _zeros(N), "n": N, "seed": seed}, {"c": Wanted(kept)},
               {"block": BLOCK}, _GRID)  # fmt: skip


def _collatz() -> Case:
    a = _ints(low=1, high=100)
    steps = np.zeros(N, np.int32)
    for i, value in enumerate(a.tolist()):
        for _ in range(1000):
            if value <= 1:
                break
            value = 3 * value + 1 if value & 1 else value // 2
            steps[i] += 1
    return _lanes("collatz", {"a": a, "c": _zeros(N, "int32")}, {"c": Wanted(steps)})


def rows() -> Iterator[Case]:
    """A row of each program."""
    a, size = _floats(ROWS * COLUMNS), {"columns": COLUMNS}
    whole = a.reshape(ROWS, COLUMNS).astype(np.float64)
    powers = np.exp(whole - whole.max(1, keepdims=True))
    grid, block = (ROWS, 1, 1), {"block": BLOCK}
    yield Case("softmax", {"a": a, "c": _zeros(a.size), **size},
               {"c": Wanted(powers / powers.sum(1, keepdims=True), 1e-5)}, block, grid)  # fmt: skip
    w, b = _floats(COLUMNS), _floats(COLUMNS)
    apart = whole - whole.mean(1, keepdims=True)
    normal = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5) * w + b
    yield Case("layer_norm", {"a": a, "w": w, "b": b, "c": _zeros(a.size), **size},
               {"c": Wanted(normal, 1e-5, 1e-5)}, block, grid)  # fmt: skip
    labels = _ints(ROWS, 0, COLUMNS)
    loss = np.log(np.exp(whole).sum(1)) - whole[np.arange(ROWS), labels]
    yield Case("cross_entropy", {"a": a, "labels": labels, "c": _zeros(ROWS), **size},
               {"c": Wanted(loss, 1e-5, 1e-5)}, block, grid)  # fmt: skip
    args = {"a": a, "top": _zeros(ROWS), "at": _zeros(ROWS, "int32"), "low": _zeros(ROWS),
            "where": _zeros(ROWS, "int32"), **size}  # fmt: skip
    narrow = a.reshape(ROWS, COLUMNS)
    wanted = {"top": Wanted(narrow.max(1)), "at": Wanted(narrow.argmax(1)),
              "low": Wanted(narrow.min(1)), "where": Wanted(narrow.argmin(1))}  # fmt: skip
    yield Case("extremes", args, wanted, block, grid)
    yield _rotary()
    x = a[: 2 * BLOCK]
    line = x.reshape(2, BLOCK).astype(np.float64)
    decayed = np.zeros_like(line)
    for i in range(BLOCK):
        decayed[:, i] = line[:, i] + (decayed[:, i - 1] * 0.5 if i else 0)
    args = {"a": x, "sums": _zeros(x.size), "products": _zeros(x.size), "decayed": _zeros(x.size)}
    yield Case("scans", args, {"sums": Wanted(line.cumsum(1), 1e-5, 1e-4),
               "products": Wanted((1 + line * 0.01).cumprod(1), 1e-4),
               "decayed": Wanted(decayed, 1e-5, 1e-5)}, block, (2, 1, 1))  # fmt: skip
    y = np.sort(x.reshape(2, BLOCK), 1)
    yield Case("ordered", {"a": x, "c": _zeros(x.size), "best": _zeros(16)},
               {"c": Wanted(y), "best": Wanted(y[:, ::-1][:, :8].copy())},
               {"block": BLOCK, "count": 8}, (2, 1, 1))  # fmt: skip


def _rotary() -> Case:
    half = 64
    a, angle = _floats(ROWS * 2 * half), _RNG.uniform(0, 6, (ROWS, half))
    x = a.reshape(ROWS, 2 * half).astype(np.float64)
    scale = 1 / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    left, right = x[:, :half], x[:, half:]
    turned = np.concatenate([left * cos - right * sin, left * sin + right * cos], 1) * scale
    args = {"a": a, "cos": cos.ravel(), "sin": sin.ravel(), "c": _zeros(a.size)}
    return Case(
        "rotary_norm", args, {"c": Wanted(turned, 1e-4, 1e-5)}, {"half": half}, (ROWS, 1, 1)
    )


def memory() -> Iterator[Case]:
    """Order, places and atomics."""
    a = _ints(4 * BLOCK, 0, 32)
    yield Case("histogram", {"a": a, "c": _zeros(32, "int32")},
               {"c": Wanted(np.bincount(a, minlength=32))}, {"block": BLOCK, "bins": 32},
               (4, 1, 1))  # fmt: skip
    x, at = _floats(16 * 32), _ints(16 * 32, 0, 32)
    taken = np.take_along_axis(x.reshape(16, 32), at.reshape(16, 32), 1)
    yield Case("gathered", {"a": x, "at": at, "c": _zeros(512)}, {"c": Wanted(taken)},
               {"rows": 16, "columns": 32})  # fmt: skip
    y = _floats(70 * 45)
    yield Case("turned", {"a": y, "c": _zeros(y.size), "rows": 70, "columns": 45},
               {"c": Wanted(y.reshape(70, 45).T.copy())}, {"side": 32}, (3, 2, 1))  # fmt: skip
    z = _ints(BLOCK)
    swapped = np.concatenate(
        [np.bitwise_xor.reduce(z.reshape(-1, 8)), z.reshape(-1, 2)[:, ::-1].ravel()]
    )
    yield Case("folded", {"a": z, "c": _zeros(8 + BLOCK, "int32")}, {"c": Wanted(swapped)},
               {"block": BLOCK})  # fmt: skip
    yield _atomics()
    f = np.round(_floats() * 4) / 4
    sums = np.array([f[i::16].sum() for i in range(16)])
    yield _lanes("float_atomics", {"a": f, "c": _zeros(16)}, {"c": Wanted(sums)})
    h = np.round(_floats()).astype(np.float16)
    sums = np.array([h[i::16].sum(dtype=np.float64) for i in range(16)])
    yield _lanes("half_atomics", {"a": h, "c": _zeros(16, "float16")}, {"c": Wanted(sums)})
    value = 0
    for _ in range(6):
        value = value * 3 + 1
    yield Case("locked", {"lock": _zeros(1, "int32"), "values": _zeros(BLOCK, "int32")},
               {"lock": Wanted(_zeros(1, "int32")), "values": Wanted(np.full(BLOCK, value))},
               {"block": BLOCK}, (6, 1, 1))  # fmt: skip
    yield _states()


def _atomics() -> Case:
    a = _ints(low=0, high=5000)
    c = np.zeros(24, np.int32)
    c[16:] = 9999
    wanted = c.copy()
    for value in a.tolist():
        wanted[value % 8] += value
        wanted[8 + value % 8] = max(wanted[8 + value % 8], value)
        wanted[16 + value % 8] = min(wanted[16 + value % 8], value)
    bits = np.concatenate([[np.bitwise_or.reduce(1 << a % 30)], a]).astype(np.int32)
    args = {"a": a, "c": c, "bits": _zeros(1 + N, "int32")}
    return _lanes("atomics", args, {"c": Wanted(wanted), "bits": Wanted(bits)})


def _states() -> Case:
    length, width, states = 12, 6, 16
    x, dt = _floats(length * width), _floats(length * width, 0.1, 1)
    a, b, c = _floats(width * states, -1, 0), _floats(length * states), _floats(length * states)
    h, y = np.zeros((width, states)), np.zeros((length, width))
    for t in range(length):
        step, value = dt[t * width : (t + 1) * width, None], x[t * width : (t + 1) * width, None]
        h = h * np.exp(a.reshape(width, states) * step) + b[t * states :][:states] * step * value
        y[t] = (h * c[t * states :][:states]).sum(1)
    args = {"x": x, "dt": dt, "a": a, "b": b, "c": c, "y": _zeros(length * width), "length": length}
    return Case("state_space", args, {"y": Wanted(y, 1e-4, 1e-5)},
                {"width": width, "states": states}, (width, 1, 1), warps=1)  # fmt: skip
