"""Doubles, singles, halves and smaller numbers: functions, roundings, conversions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, zeros

_D = floats("double", 128, 0.1, 30, np.float64)
_E = floats("more doubles", 128, -3, 3, np.float64)
_X = floats("single", 128, 0.1, 20)
_Y = floats("more singles", 128, -2, 2)
_EDGES = np.array([0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.5e-310, 1.7e308, 1, -1, 0.5, 3e-5,
                   65504, 7e4, 1e-7, -2.9e-8], np.float64)  # fmt: skip


def _erf(x: Any) -> Any:
    """By its series, in doubles. src: Abramowitz and Stegun 7.1.6"""
    x = x.astype("f8")
    term = total = x.copy()
    for n in range(1, 80):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(np.pi) * np.exp(-x * x) * total


def _toward(value: Fraction, up: bool) -> float:
    near = float(value)
    if up and Fraction(near) < value:
        return float(np.nextafter(near, np.inf))
    return float(np.nextafter(near, -np.inf)) if not up and Fraction(near) > value else near


def _rounded(o: Any, a: Any, b: Any) -> Any:
    rows = []
    for x, y in zip(a, b, strict=True):
        p, q = Fraction(float(x)), Fraction(float(y))
        rows.append([_toward(p * q, True), _toward(p * q, False), _toward(p + q, True),
                     _toward(p * q + Fraction(1, 3 * 2**40 // 3), False)])  # fmt: skip
    return np.array(rows).T.ravel()


def _halves(values: Any) -> Any:
    return values.astype(np.float16)


def _brains(values: Any) -> Any:
    words = values.astype(np.float32).view(np.uint32)
    return (words + 0x7FFF + (words >> 16 & 1)) >> 16


def _half_math(o: Any, a: Any, b: Any) -> Any:
    x, y = a.astype("f8"), b.astype("f8")
    total = _halves(x + y).astype("f8")
    product = _halves(x * total).astype("f8")
    return _halves(product * y + x).view(np.uint16)


def _brain_math(o: Any, a: Any, b: Any) -> Any:
    x, y = ((v.astype(np.uint32) << 16).view(np.float32) for v in (a, b))
    total = (_brains(x + y) << 16).astype(np.uint32).view(np.float32)
    return _brains(total.astype("f8") * y + x).astype(np.uint16)


def _fp8_values(bits: int, mantissa: int, bias: int, finite: bool) -> dict[int, float]:
    """What each byte of a format is. src: OCP 8-bit floating point specification, tables 1 and 2"""
    found = {}
    for byte in range(256):
        exponent, low = byte >> mantissa & (1 << bits) - 1, byte & (1 << mantissa) - 1
        value = low * 2.0 ** (1 - bias - mantissa)
        if exponent:
            value = (1 + low * 2.0**-mantissa) * 2.0 ** (exponent - bias)
        top = exponent == (1 << bits) - 1
        if top and not finite:
            value = np.nan if low else np.inf
        if top and finite and low == (1 << mantissa) - 1:
            value = np.nan
        found[byte] = -value if byte >> 7 else value
    return found


_E4M3, _E5M2 = _fp8_values(4, 3, 7, True), _fp8_values(5, 2, 15, False)


def _nearest(table: dict[int, float], value: float, most: float) -> int:
    """The nearest of a format, ties to even, saturating."""
    clipped = min(max(value, -most), most)
    sign = np.signbit(value)
    known = [(abs(v - clipped), b & 1, b) for b, v in table.items()
             if np.isfinite(v) and (b >> 7 == sign)]  # fmt: skip
    return min(known)[2]


def _fp8(o: Any, back: Any, a: Any) -> Any:
    out, halves = [], []
    for x, y in a.reshape(-1, 2):
        e4 = [_nearest(_E4M3, float(v), 448) for v in (x, y)]
        e5 = [_nearest(_E5M2, float(v), 57344) for v in (x, y)]
        out.append(e4[1] | e4[0] << 8 | e5[1] << 16 | e5[0] << 24)
        halves += [_E4M3[e4[1]], _E4M3[e4[0]], _E5M2[e5[1]], _E5M2[e5[0]]]
    return np.array(out, np.uint32), np.array(halves).astype(np.float16).view(np.uint32)


def _fmod(o: Any, a: Any, b: Any) -> Any:
    return np.fmod(a, b) + np.float32(100) * np.remainder(a.astype("f8"), 1).astype(np.float32)


_H = floats("half", 128, -8, 8).astype(np.float16)
_HB = floats("half b", 128, -8, 8).astype(np.float16)
_BR = _brains(floats("brain", 128)).astype(np.uint16)
_BRB = _brains(floats("brain b", 128)).astype(np.uint16)


def _binary(asm: str) -> str:
    return (
        """F(u16 *o, const u16 *a, const u16 *b) { T; u16 r;
  asm("{ .reg .b16 s, p; """
        + asm
        + """ }" : "=h"(r) : "h"(a[t]), "h"(b[t])); o[t] = r; }"""
    )


KERNELS = (
    Kernel("logarithms and powers of doubles", """F(double *o, const double *a, const double *b) {
  T;
  o[t] = log(a[t]) + exp(b[t]) + pow(a[t], b[t]) + log2(a[t]) + cbrt(a[t]) + log1p(a[t])
    + expm1(b[t]); }""", (zeros(128, np.float64), _D, _E),
           lambda o, a, b: (np.log(a) + np.exp(b) + a**b + np.log2(a) + np.cbrt(a) + np.log1p(a)
                            + np.expm1(b)), rtol=1e-13),
    Kernel("angles of doubles", """F(double *o, const double *a, const double *b) { T; double s, c;
  sincos(a[t], &s, &c); o[t] = s * 2 + c + tan(b[t] * 0.4) + atan2(b[t], a[t]) + asin(b[t] / 4)
    + sinh(b[t]) + tanh(b[t]) + hypot(a[t], b[t]); }""", (zeros(128, np.float64), _D, _E),
           lambda o, a, b: (np.sin(a) * 2 + np.cos(a) + np.tan(b * 0.4) + np.arctan2(b, a)
                            + np.arcsin(b / 4) + np.sinh(b) + np.tanh(b) + np.hypot(a, b)),
           rtol=1e-12),
    Kernel("quotients and roots of doubles", """F(double *o, const double *a, const double *b) { T;
  o[t] = a[t] / b[t] + sqrt(a[t]); o[128 + t] = 1.0 / a[t]; o[256 + t] = fmod(a[t], 0.7);
  o[384 + t] = rsqrt(a[t]) * 0 + floor(b[t]) + ceil(b[t]) * 3 + rint(b[t] * 2) + trunc(b[t] * 5); }
""", (zeros(512, np.float64), _D, _E),
           lambda o, a, b: np.concatenate((a / b + np.sqrt(a), 1 / a, np.fmod(a, 0.7),
                                           np.floor(b) + np.ceil(b) * 3 + np.rint(b * 2)
                                           + np.trunc(b * 5)))),
    Kernel("doubles rounded up and down", """F(double *o, const double *a, const double *b) { T;
  o[t] = __dmul_ru(a[t], b[t]); o[128 + t] = __dmul_rd(a[t], b[t]);
  o[256 + t] = __dadd_ru(a[t], b[t]); o[384 + t] = __fma_rd(a[t], b[t], 0x1p-40); }""",
           (zeros(512, np.float64), _D, _E), _rounded),
    Kernel("edges of doubles", """F(double *o, const double *a) { T; double x = a[t / 16],
  y = a[t % 16];
  o[t] = fmin(x, y); o[256 + t] = fmax(x, y); o[512 + t] = x * y + (x < y) + 2 * (x >= y);
  o[768 + t] = fma(x, y, x); }""", (zeros(1024, np.float64), _EDGES),
           lambda o, a: np.concatenate((np.fmin(*_pairs(a)), np.fmax(*_pairs(a)),
                                        _pairs(a)[0] * _pairs(a)[1]
                                        + (_pairs(a)[0] < _pairs(a)[1])
                                        + 2 * (_pairs(a)[0] >= _pairs(a)[1]), _fused(*_pairs(a)))),
           block=256),
    Kernel("error functions", """F(float *o, const float *a) { T; float x = a[t];
  o[t] = erff(x) + 0.5f * x * (1.f + erff(x * 0.70710678f)); }""", (zeros(128, np.float32), _Y),
           lambda o, a: _erf(a) + 0.5 * a * (1 + _erf(a * 0.70710678)), rtol=1e-5),
    Kernel("functions of singles", """F(float *o, const float *a, const float *b) { T;
  float x = a[t],
  y = b[t]; o[t] = sinf(x) + cosf(y * 9) + tanf(y * 0.5f) + expf(y) + logf(x) + powf(x, y)
  + tanhf(y)
    + atan2f(y, x) + exp2f(y) + log10f(x) + cbrtf(x) + sqrtf(x) + rsqrtf(x) + x / y; }""",
           (zeros(128, np.float32), _X, _Y),
           lambda o, a, b: _many(a.astype("f8"), b.astype("f8")), rtol=2e-5),
    Kernel("approximate functions", """F(float *o, const float *a) { T; float x = a[t];
  o[t] = __sinf(x) + __cosf(x) + __expf(x * 0.1f) + __logf(x) + __powf(x, 0.3f) + __fdividef(x, 3.f)
    + __frcp_rn(x) + __fsqrt_rn(x) + __tanf(x * 0.01f); }""", (zeros(128, np.float32), _X),
           lambda o, a: (np.sin(a) + np.cos(a) + np.exp(a * 0.1) + np.log(a) + a**0.3 + a / 3
                         + 1 / a + np.sqrt(a) + np.tan(a * 0.01)), rtol=1e-4),
    Kernel("remainders of singles", """F(float *o, const float *a, const float *b) { T;
  o[t] = fmodf(a[t], b[t]) + 100.f * (a[t] - floorf(a[t])); }""",
           (zeros(128, np.float32), _X, _Y), _fmod, rtol=1e-6),
    Kernel("singles rounded four ways", """F(float *o, const float *a, const float *b) { T;
  o[t] = __fadd_ru(a[t], b[t]) - __fadd_rd(a[t], b[t]); o[128 + t] = __fmul_rz(a[t], b[t]);
  o[256 + t] = __fmaf_ru(a[t], b[t], 1.f) - __fmaf_rd(a[t], b[t], 1.f);
  o[384 + t] = __double2float_rd((double)a[t] / 3) + __int2float_rz((int)(a[t] * 1e8f)); }""",
           (zeros(512, np.float32), _X, _Y), lambda o, a, b: _four(a, b)),
    Kernel("products with a scale", """F(float *o, const float *a, const float *b) { T;
  o[t] = a[t] * 2.f * b[t] + a[t] / 4.f * b[t]; o[128 + t] = (a[t] * b[t]) * 0.5f;
  o[256 + t] = ldexpf(a[t], (int)(b[t] * 20)) + scalbnf(b[t], 3); }""",
           (zeros(384, np.float32), _X, _Y),
           lambda o, a, b: np.concatenate((a * np.float32(2) * b + a / np.float32(4) * b,
                                           a * b * np.float32(0.5),
                                           np.ldexp(a, (b * np.float32(20)).astype(int))
                                           + np.ldexp(b, 3)))),
    Kernel("halves", _binary("add.f16 s, %1, %2; mul.f16 p, %1, s; fma.rn.f16 %0, p, %2, %1;"),
           (zeros(128, np.uint16), _H.view("u2"), _HB.view("u2")),
           lambda o, a, b: _half_math(o, a.view("f2"), b.view("f2"))),
    Kernel("bfloat16", _binary("add.rn.bf16 s, %1, %2; fma.rn.bf16 %0, s, %2, %1;"),
           (zeros(128, np.uint16), _BR, _BRB), _brain_math, least=90),
    Kernel("products of bfloat16", _binary("fma.rn.bf16 %0, %1, %2, %1;"),
           (zeros(128, np.uint16), _BR, _BRB),
           lambda o, a, b: _brains(_brain(a).astype("f8") * _brain(b) + _brain(a)), least=80),
    Kernel("sums of pairs of halves", """F(float *o, const u32 *a, const u32 *b) { T; u32 s = 0;
  float r;
  for (int k = 0; k < 8; k++) asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(s)
    : "r"(a[t * 8 + k]), "r"(b[k]));
  asm("{ .reg .b16 x, y; .reg .f32 u, v; mov.b32 {x, y}, %1; cvt.f32.f16 u, x; cvt.f32.f16 v, y;"
    " add.f32 %0, u, v; }" : "=f"(r) : "r"(s)); o[t] = r; }""",
           (zeros(64, np.float32), floats("h2", 1024).astype("f2").view("u4"),
            floats("h2 b", 16).astype("f2").view("u4")), lambda o, a, b: _dotted(a, b), block=64),
    Kernel("limits of halves", """F(u32 *o, const u32 *a) { T; u32 x = a[t], y = a[127 - t], p, q,
  r, s;
  asm("min.f16x2 %0, %1, %2;" : "=r"(p) : "r"(x), "r"(y));
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y));
  asm("neg.f16x2 %0, %1;" : "=r"(r) : "r"(x)); asm("abs.f16x2 %0, %1;" : "=r"(s) : "r"(y));
  o[t] = p ^ (q + 1) ^ (r + 2) ^ (s + 3); }""",
           (zeros(128), ((_H.view("u2").astype("u4") << 16) | _HB.view("u2"))),
           lambda o, a: _limits(a), least=80),
    Kernel("conversions", """F(i64 *o, const double *a) { T; double x = a[t] * 1000;
  float f = (float)x;
  u16 h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(a[t]));
  o[t] = (i64)x + (int)f + (u32)(f * f) + (i64)(u64)(x * x) + __double2int_ru(x)
    + __float2int_rd(f) + (short)f + (signed char)(int)f + ((i64)h << 20); o[128 + t] =
    __double_as_longlong((double)(o[t] * 3) + (float)o[t] + (double)(u32)o[t]); }""",
           (zeros(256, np.int64), _E * 7),
           lambda o, a: _converted(a)),
    Kernel("eight bits", """F(u32 *o, u32 *back, const float *a) { T; float x = a[2 * t],
  y = a[2 * t + 1];
  u16 e4, e5; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e4) : "f"(x), "f"(y));
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(e5) : "f"(x), "f"(y));
  o[t] = e4 | (u32)e5 << 16; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(back[2 * t]) : "h"(e4));
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(back[2 * t + 1]) : "h"(e5)); }""",
           (zeros(64), zeros(128), floats("fp8", 128) ** 5), _fp8, block=64, least=89),
)  # fmt: skip


def _pairs(a: Any) -> tuple[Any, Any]:
    return np.repeat(a, 16), np.tile(a, 16)


def _fused(x: Any, y: Any) -> Any:
    out = np.empty(len(x))
    for n, (p, q) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if np.isfinite(p) and np.isfinite(q):
            exact = Fraction(p) * Fraction(q) + Fraction(p)
            try:
                out[n] = float(exact) if exact else p * q + p
            except OverflowError:
                out[n] = np.inf if exact > 0 else -np.inf
        else:
            out[n] = np.float64(p) * np.float64(q) + np.float64(p)
    return out


def _many(a: Any, b: Any) -> Any:
    return (np.sin(a) + np.cos(b * 9) + np.tan(b * 0.5) + np.exp(b) + np.log(a) + a**b + np.tanh(b)
            + np.arctan2(b, a) + np.exp2(b) + np.log10(a) + np.cbrt(a) + np.sqrt(a) + 1 / np.sqrt(a)
            + a / b)  # fmt: skip


def _single(value: Fraction, way: str) -> np.float32:
    near = np.float32(float(value))
    exact = Fraction(float(near))
    down = way == "d" or (way == "z" and value > 0)
    if exact > value and down:
        return np.nextafter(near, np.float32(-np.inf))
    return np.nextafter(near, np.float32(np.inf)) if exact < value and not down else near


def _four(a: Any, b: Any) -> Any:
    rows = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        p, q = Fraction(x), Fraction(y)
        whole = int(np.float32(x) * np.float32(1e8))
        whole = min(whole, (1 << 31) - 1)
        rows.append((
            _single(p + q, "u") - _single(p + q, "d"), _single(p * q, "z"),
            _single(p * q + 1, "u") - _single(p * q + 1, "d"),
            _single(Fraction(x / 3), "d") + _single(Fraction(whole), "z"),
        ))  # fmt: skip
    return np.array(rows, np.float32).T.ravel()


def _brain(words: Any) -> Any:
    return (words.astype(np.uint32) << 16).view(np.float32)


def _dotted(a: Any, b: Any) -> Any:
    x, y = a.view("f2").reshape(-1, 8, 2).astype("f8"), b.view("f2").reshape(8, 2).astype("f8")
    total = np.zeros((len(x), 2))
    for k in range(8):
        total = _halves(x[:, k] * y[k] + total).astype("f8")
    return (total[:, 0] + total[:, 1]).astype(np.float32)


def _limits(a: Any) -> Any:
    x, y = a.view("f2"), a[::-1].copy().view("f2")
    parts = [np.minimum(x, y), np.maximum(x, y), -x, np.abs(y)]
    return np.bitwise_xor.reduce(
        [p.astype("f2").view(np.uint32) + np.uint32(k) for k, p in enumerate(parts)]
    )


def _converted(a: Any) -> Any:
    x = a * 1000
    f = x.astype(np.float32)
    half = a.astype(np.float16).view(np.uint16).astype(np.int64)
    whole = np.trunc(x).astype(np.int64)
    fi = np.trunc(f).astype(np.int64)
    total = (whole + fi + np.trunc(f * f).astype(np.int64) + np.trunc(x * x).astype(np.int64)
             + np.ceil(x).astype(np.int64) + np.floor(f).astype(np.int64) + fi.astype(np.int16)
             + fi.astype(np.int8) + (half << 20))  # fmt: skip
    again = (total * 3).astype("f8") + total.astype("f4").astype("f8") + (
        total & 0xFFFFFFFF).astype("f8")  # fmt: skip
    return np.concatenate((total, again.view(np.int64)))
