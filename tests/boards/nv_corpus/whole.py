"""Integers: 64 bits and more, bits and bytes, hashes and codes."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, ints, zeros

_A, _B = ints("wa", 128, 0, 1 << 63, np.uint64), ints("wb", 128, 1, 1 << 40, np.uint64)
_B[::5] = _B[::5] % 1000 + 1
_S = (_A << np.uint64(1)).view(np.int64) ^ np.int64(_A[3])
_SB = np.where(np.arange(128) % 2, _B.view(np.int64), -_B.view(np.int64))
_MASK64 = (1 << 64) - 1


def _big(of: Any) -> Any:
    """A function of Python's integers, thread by thread, low 64 bits."""
    return lambda o, *arrays: np.array(
        [of(*(int(x) for x in row)) & _MASK64 for row in zip(*arrays, strict=True)], np.uint64
    )


def _truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return q * 3 + (a - q * b)


def _sha(o: Any, a: Any) -> Any:
    found = [np.frombuffer(hashlib.sha256(row.tobytes()).digest(), ">u4").astype("u4")
             for row in a.reshape(-1, 32)]  # fmt: skip
    return np.concatenate(found)


def _big_product(o: Any, a: Any, b: Any) -> Any:
    out = []
    for x, y in zip(a.reshape(-1, 4), b.reshape(-1, 4), strict=True):
        one, two = (int.from_bytes(v.tobytes(), "little") for v in (x, y))
        out.append(np.frombuffer((one * two).to_bytes(32, "little"), np.uint32))
    return np.concatenate(out)


def _philox(o: Any) -> Any:
    out = []
    for t in range(64):
        c, k = [t, 0, 0, 0], [0x12345678, 0x9ABCDEF0]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        out += c
    return np.array(out, np.uint32)


def _morton(o: Any, x: Any, y: Any) -> Any:
    out = np.zeros(128, np.uint64)
    for bit in range(20):
        out |= (x.astype("u8") >> np.uint64(bit) & np.uint64(1)) << np.uint64(2 * bit)
        out |= (y.astype("u8") >> np.uint64(bit) & np.uint64(1)) << np.uint64(2 * bit + 1)
    return out


def _edit(o: Any, a: Any, b: Any) -> Any:
    out = []
    for x, y in zip(a.reshape(-1, 16), b.reshape(-1, 16), strict=True):
        row = list(range(17))
        for i, p in enumerate(x, 1):
            before, row[0] = row[0], i
            for j, q in enumerate(y, 1):
                before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (p != q))
        out.append(row[16])
    return np.array(out)


def _dots(o: Any, a: Any, b: Any) -> Any:
    x, y = a.view(np.int8).reshape(-1, 4).astype(int), b.view(np.int8).reshape(-1, 4).astype(int)
    u, v = a.view(np.uint8).reshape(-1, 4).astype(int), b.view(np.uint8).reshape(-1, 4).astype(int)
    w = a.view(np.int16).reshape(-1, 2).astype(int)
    return ((x * y).sum(1) + 3 * (u * v).sum(1) + 5 * (w * y[:, :2]).sum(1)).astype(
        np.int64
    ).astype(np.int32)  # fmt: skip


def _bytes_of(a: Any, b: Any) -> Any:
    return a.view(np.uint8).astype(int), b.view(np.uint8).astype(int)


def _simd(o: Any, a: Any, b: Any) -> Any:
    x, y = _bytes_of(a, b)
    s, t = (v.view(np.int16).astype(int) for v in (a, b))
    sx, sy = (v.view(np.int8).astype(int) for v in (a, b))
    parts = [((x + y) & 255).astype("u1"), np.abs(x - y).astype("u1"),
             np.maximum(s, t).astype("i2"), np.minimum(x, y).astype("u1"),
             np.clip(sx + sy, -128, 127).astype("i1"), ((x + y + 1) // 2).astype("u1"),
             np.where(s == t, 0xFFFF, 0).astype("u2")]  # fmt: skip
    return np.bitwise_xor.reduce([p.view(np.uint32) + np.uint32(k) for k, p in enumerate(parts)])


_BITS = """F(u64 *o, const u64 *a) { T; u64 v = a[t]; u32 w = v >> 7;
  o[t] = (u64)__clzll(v >> (t % 60)) + ((u64)__ffsll(v << (t % 50)) << 8) + ((u64)__popcll(v) << 16)
    + ((u64)__brev(w) << 24) + __brevll(v) + __funnelshift_l(w, t, t) + __byte_perm(w, t, 0x5162)
    + (__funnelshift_rc(w, w * 3, t % 40) ^ __rhadd(w, 5) ^ __uhadd(w, 9)) + __mulhi((int)w, -77)
    + __umul64hi(v, 0x123456789abcdefull) + __mul64hi((i64)v, -5); }"""


def _bit_tricks(v: int, t: int) -> int:
    w, m = v >> 7 & 0xFFFFFFFF, 0xFFFFFFFF
    x, y = v >> (t % 60), (v << (t % 50)) & _MASK64
    clz, ffs = 64 - x.bit_length(), (y & -y).bit_length()
    rev = int(f"{w:032b}"[::-1], 2)
    rev64 = int(f"{v:064b}"[::-1], 2)
    left = (((t << 32 | w) << (t % 32)) >> 32) & m
    pair = (t << 32 | w).to_bytes(8, "little")
    perm = pair[2] | pair[6] << 8 | pair[1] << 16 | pair[5] << 24
    right = ((w * 3 & m) << 32 | w) >> min(t % 40, 32) & m
    signed = w - (1 << 32) if w >> 31 else w
    half = (signed + 5 + 1) >> 1
    mixed = right ^ (half & m) ^ ((w + 9) >> 1)
    high = (signed * -77) >> 32
    return (clz + (ffs << 8) + (v.bit_count() << 16) + (rev << 24) + rev64 + left + perm + mixed
            + (high & _MASK64) + (v * 0x123456789ABCDEF >> 64) + (v * -5 >> 64))  # fmt: skip


_K = [int((p ** (1 / 3) % 1) * 2**32) for p in range(2, 312)
      if all(p % q for q in range(2, math.isqrt(p) + 1))]  # fmt: skip
_H = [int((p**0.5 % 1) * 2**32) for p in (2, 3, 5, 7, 11, 13, 17, 19)]
_SHA = (
    "__constant__ u32 K[64] = {"
    + ",".join(f"{k}u" for k in _K)
    + """};
__device__ u32 ror(u32 x, int n) { return __funnelshift_r(x, x, n); }
F(u32 *o, const u8 *a) { T; u32 w[16], h[8] = {"""
    + ",".join(f"{h}u" for h in _H)
    + """};
  for (int k = 0; k < 8; k++) { u32 v = ((const u32 *)a)[t * 8 + k];
    w[k] = __byte_perm(v, 0, 0x0123); }
  w[8] = 0x80000000; UNROLL for (int k = 9; k < 15; k++) w[k] = 0; w[15] = 256;
  u32 v[8]; UNROLL for (int k = 0; k < 8; k++) v[k] = h[k];
  UNROLL for (int k = 0; k < 64; k++) { if (k >= 16) { u32 x = w[(k - 15) & 15], y = w[(k - 2)
  & 15];
      w[k & 15] += (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[(k - 7) & 15]
        + (ror(y, 17) ^ ror(y, 19) ^ y >> 10); }
    u32 p = v[7] + (ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6]))
      + K[k] + w[k & 15];
    u32 q = (ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2])
      ^ (v[1] & v[2]));
    v[7] = v[6]; v[6] = v[5]; v[5] = v[4]; v[4] = v[3] + p; v[3] = v[2]; v[2] = v[1]; v[1] = v[0];
    v[0] = p + q; }
  UNROLL for (int k = 0; k < 8; k++) o[t * 8 + k] = h[k] + v[k]; }"""
)
_ALPHABET = bytes(range(65, 91)) + bytes(range(97, 123)) + b"0123456789+/"
KERNELS = (
    Kernel("quotients of 64 bits", """F(u64 *o, const u64 *a, const u64 *b) { T;
  o[t] = a[t] / b[t] * 7 + a[t] % b[t]; }""", (zeros(128, np.uint64), _A, _B),
           _big(lambda a, b: a // b * 7 + a % b)),
    Kernel("quotients with signs", """F(i64 *o, const i64 *a, const i64 *b) { T;
  o[t] = a[t] / b[t] * 3 + a[t] % b[t]; }""", (zeros(128, np.int64), _S, _SB),
           lambda o, a, b: _big(_truncated)(o, a, b).view(np.int64)),
    Kernel("quotients of constants", """F(u64 *o, const u64 *a, const i64 *s) { T; u64 v = a[t];
  i64 w = s[t]; o[t] = v / 10 + v % 1000000007 + v / 641 + (u64)(w / 7) + (u64)(w % 12345)
    + (u32)v / 3 + (u64)((int)w / -9); }""", (zeros(128, np.uint64), _A, _S),
           _big(lambda a, s: a // 10 + a % 1000000007 + a // 641 + _quotient(s, 7)
                + (s - 12345 * _quotient(s, 12345)) + (a & 0xFFFFFFFF) // 3
                + _quotient(_low(s), -9))),
    Kernel("128 bits", """struct wide { u64 low, high; };
__device__ wide add(wide a, wide b) { wide r; asm("add.cc.u64 %0, %2, %4; addc.u64 %1, %3, %5;"
  : "=l"(r.low), "=l"(r.high) : "l"(a.low), "l"(a.high), "l"(b.low), "l"(b.high)); return r; }
__device__ wide minus(wide a, wide b) { wide r; asm("sub.cc.u64 %0, %2, %4; subc.u64 %1, %3, %5;"
  : "=l"(r.low), "=l"(r.high) : "l"(a.low), "l"(a.high), "l"(b.low), "l"(b.high)); return r; }
__device__ wide times(wide a, u64 b) { return {a.low * b, __umul64hi(a.low, b) + a.high * b}; }
F(u64 *o, const u64 *a, const u64 *b) { T; wide x = {a[t], 0}, y;
  x = add(times(x, b[t]), {0, b[t]}); y = minus(x, {a[t], 0}); x = add(x, times(y, 3));
  wide s = {x.low >> 45 | x.high << 19, x.high >> 45}; x = {x.low ^ s.low, x.high ^ s.high};
  bool more = x.high != y.high ? x.high > y.high : x.low > y.low;
  o[t] = x.low ^ x.high ^ more; }""", (zeros(128, np.uint64), _A, _B),
           _big(lambda a, b: _wide(a, b))),
    Kernel("bits and bytes of 64 bits", _BITS, (zeros(128, np.uint64), _A),
           lambda o, a: np.array([_bit_tricks(int(v), t) & _MASK64 for t, v in enumerate(a)],
                                 np.uint64)),
    Kernel("powers modulo a prime", """F(u64 *o, const u64 *a) { T;
  const u64 p = 0xffffffff00000001ull;
  u64 x = a[t] % p, r = 1; for (u32 e = t * 37 + 5; e; e >>= 1) {
    if (e & 1) r = (u64)((unsigned __int128)r * x % p); x = (u64)((unsigned __int128)x * x % p); }
  o[t] = r; }""".replace("(u64)((unsigned __int128)r * x % p)", "mulmod(r, x)").replace(
        "(u64)((unsigned __int128)x * x % p)", "mulmod(x, x)").replace("F(u64 *o", """
__device__ u64 mulmod(u64 a, u64 b) { const u64 p = 0xffffffff00000001ull; u64 lo = a * b,
  hi = __umul64hi(a, b), h1 = hi >> 32, h0 = hi & 0xffffffff, r = lo - h1; if (lo < h1) r += p;
  u64 m = (h0 << 32) - h0, s = r + m; if (s < r || s >= p) s -= p; return s >= p ? s - p : s; }
F(u64 *o"""), (zeros(64, np.uint64), _A[:64]),
           lambda o, a: np.array([pow(int(v), t * 37 + 5, 0xFFFFFFFF00000001)
                                  for t, v in enumerate(a)], np.uint64), block=64),
    Kernel("product of big numbers", """F(u32 *o, const u32 *a, const u32 *b) { T; u32 r[8] = {};
  const u32 *x = a + t * 4, *y = b + t * 4;
  UNROLL for (int i = 0; i < 4; i++) {
  asm("mad.lo.cc.u32 %0, %5, %6, %0; madc.lo.cc.u32 %1, %5, %7,"
    " %1; madc.lo.cc.u32 %2, %5, %8, %2; madc.lo.cc.u32 %3, %5, %9, %3; addc.u32 %4, %4, 0;"
    : "+r"(r[i]), "+r"(r[i + 1]), "+r"(r[i + 2]), "+r"(r[i + 3]), "+r"(r[i + 4])
    : "r"(x[i]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    u32 q = 0; u32 &top = i < 3 ? r[i + 5 < 8 ? i + 5 : 7] : q;
    asm("mad.hi.cc.u32 %0, %5, %6, %0; madc.hi.cc.u32 %1, %5, %7, %1; madc.hi.cc.u32 %2, %5, %8,"
    " %2; madc.hi.cc.u32 %3, %5, %9, %3; addc.u32 %4, %4, 0;"
    : "+r"(r[i + 1]), "+r"(r[i + 2]), "+r"(r[i + 3]), "+r"(r[i + 4]), "+r"(top)
    : "r"(x[i]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3])); }
  for (int k = 0; k < 8; k++) o[t * 8 + k] = r[k]; }""",
           (zeros(512), ints("big a", 256), ints("big b", 256)), _big_product, block=64),
    Kernel("SHA-256", _SHA, (zeros(256), ints("sha", 1024, 0, 256, np.uint8)), _sha, block=32),
    Kernel("CRC-32 by a table", """F(u32 *o, const u8 *a) { __shared__ u32 table[256]; T;
  for (int k = t; k < 256; k += 64) { u32 c = k; for (int j = 0; j < 8; j++)
      c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1; table[k] = c; } SYNC;
  u32 c = ~0u; for (int k = 0; k < 24; k++) c = table[(c ^ a[t * 24 + k]) & 255] ^ c >> 8;
  o[t] = ~c; }""", (zeros(64), ints("crc", 1536, 0, 256, np.uint8)),
           lambda o, a: np.array([zlib.crc32(r.tobytes()) for r in a.reshape(-1, 24)]), block=64),
    Kernel("random numbers of Philox", """F(u32 *o) { T; u32 c0 = t, c1 = 0, c2 = 0, c3 = 0,
  k0 = 0x12345678, k1 = 0x9abcdef0; for (int r = 0; r < 10; r++) {
    u32 h0 = __umulhi(0xD2511F53, c0), l0 = 0xD2511F53 * c0, h1 = __umulhi(0xCD9E8D57, c2),
      l1 = 0xCD9E8D57 * c2; c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += 0x9E3779B9; k1 += 0xBB67AE85; }
  *(uint4 *)(o + 4 * t) = make_uint4(c0, c1, c2, c3); }""", (zeros(256),), _philox, block=64),
    Kernel("codes of Morton", """__device__ u64 spread(u64 x) { x &= 0xfffff;
  x = (x | x << 16) & 0x0000ffff0000ffffull; x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full; x = (x | x << 2) & 0x3333333333333333ull;
  return (x | x << 1) & 0x5555555555555555ull; }
F(u64 *o, const u32 *x, const u32 *y) { T; o[t] = spread(x[t]) | spread(y[t]) << 1; }""",
           (zeros(128, np.uint64), ints("mx", 128), ints("my", 128)), _morton),
    Kernel("base 64", """__constant__ char set[65] =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
F(u8 *o, const u8 *a) { T; u32 v = a[3 * t] << 16 | a[3 * t + 1] << 8 | a[3 * t + 2];
  for (int k = 0; k < 4; k++) o[4 * t + k] = set[v >> (18 - 6 * k) & 63]; }""",
           (zeros(256, np.uint8), ints("base64", 192, 0, 256, np.uint8)),
           lambda o, a: np.frombuffer(base64.b64encode(a.tobytes()), np.uint8), block=64),
    Kernel("distance of two strings", """F(int *o, const u8 *a, const u8 *b) { T; u8 row[17];
  for (int j = 0; j < 17; j++) row[j] = j; for (int i = 1; i < 17; i++) { u8 before = row[0];
    row[0] = i; for (int j = 1; j < 17; j++) { u8 v = min(min(row[j], row[j - 1]) + 1,
        before + (a[t * 16 + i - 1] != b[t * 16 + j - 1])); before = row[j]; row[j] = v; } }
  o[t] = row[16]; }""", (zeros(64, np.int32), ints("ea", 1024, 97, 101, np.uint8),
                         ints("eb", 1024, 97, 101, np.uint8)), _edit, block=64),
    Kernel("dot products of bytes", """F(int *o, const int *a, const int *b) { T; int c = a[t],
  d = b[t];
  o[t] = __dp4a(c, d, 0) + 3 * (int)__dp4a((u32)c, (u32)d, 0u) + 5 * __dp2a_lo(c, d, 0); }""",
           (zeros(128, np.int32), ints("dp a", 128, -(1 << 31), 1 << 31, np.int32),
            ints("dp b", 128, -(1 << 31), 1 << 31, np.int32)), _dots),
    Kernel("bytes side by side", """F(u32 *o, const u32 *a, const u32 *b) { T; u32 x = a[t],
  y = b[t];
  o[t] = __vadd4(x, y) ^ (__vabsdiffu4(x, y) + 1) ^ (__vmaxs2(x, y) + 2) ^ (__vminu4(x, y) + 3)
    ^ (__vaddss4(x, y) + 4) ^ (__vavgu4(x, y) + 5) ^ (__vcmpeq2(x, y) + 6); }""",
           (zeros(128), ints("simd a", 128), ints("simd b", 128)), _simd),
    Kernel("sums of differences", """F(int *o, const u8 *a, const u8 *b) { T; u32 s = 0;
  for (int k = 0; k < 16; k++) s = __usad(a[t * 16 + k], b[k], s); int d = __sad(-t, 50, 3);
  o[t] = s + d; }""", (zeros(64, np.int32), ints("sad a", 1024, 0, 256, np.uint8),
                       ints("sad b", 16, 0, 256, np.uint8)),
           lambda o, a, b: np.abs(a.reshape(-1, 16).astype(int) - b).sum(1) + np.arange(64) + 53,
           block=64),
    Kernel("greatest common divisors", """F(u64 *o, const u64 *a, const u64 *b) { T; u64 x = a[t],
  y = b[t]; int s = __ffsll(x | y) - 1; x >>= __ffsll(x) - 1; do { y >>= __ffsll(y) - 1;
    if (x > y) { u64 v = x; x = y; y = v; } y -= x; } while (y); o[t] = x << s; }""",
           (zeros(128, np.uint64), _A | np.uint64(1 << 40), _B),
           _big(lambda a, b: math.gcd(a, b))),
    Kernel("roots of integers", """F(u32 *o, const u64 *a) { T; u64 v = a[t], r = 0;
  for (u64 bit = 1ull << 31; bit; bit >>= 1) if ((r + bit) * (r + bit) <= v) r += bit; o[t] = r;
  }""",
           (zeros(128), _A >> np.uint64(1)),
           lambda o, a: np.array([math.isqrt(int(v)) for v in a], np.uint32)),
)  # fmt: skip


def _low(s: int) -> int:
    return (s & 0xFFFFFFFF) - (1 << 32 if s >> 31 & 1 else 0)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _wide(a: int, b: int) -> int:
    mask = (1 << 128) - 1
    x = (a * b + (b << 64)) & mask
    y = (x - a) & mask
    x = (x + y * 3) & mask
    x ^= x >> 45
    return (x & _MASK64) ^ (x >> 64) ^ (x > y)
