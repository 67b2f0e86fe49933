"""Kernels whose lanes meet: atomics, reductions, barriers, copies, generic addresses, calls."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.boards.nv_warp_kernels import Case

_RNG = np.random.default_rng(86)
_N = 64
_ONE_BLOCK: Final[dict[str, Any]] = {"grid": (1, 1, 1), "block": (_N, 1, 1)}
_LANE = np.arange(_N)
_F = 'extern "C" __global__ void f'
_I = " int i = threadIdx.x; "


def _u(count: int = _N, limit: int = 1 << 32) -> Any:
    return _RNG.integers(0, limit, count, np.uint32)


def _by_warp(values: Any, reduce: Any) -> Any:
    return np.repeat(reduce(values.reshape(-1, 32), axis=1), 32)


def _reduced(a: Any) -> Any:
    signed = a.view(np.int32)
    total = np.repeat(a.reshape(-1, 32).sum(axis=1, dtype=np.uint32), 32)
    total = total + _by_warp(a, np.minimum.reduce)
    total = total ^ _by_warp(signed, np.maximum.reduce).view(np.uint32)
    total = total + _by_warp(signed, np.minimum.reduce).view(np.uint32)
    total = total ^ _by_warp(a | np.uint32(1 << 20), np.bitwise_and.reduce)
    total = total + _by_warp(a & np.uint32(0xFFFF), np.bitwise_or.reduce)
    return total ^ _by_warp(a, np.bitwise_xor.reduce)


def _matched(a: Any, b: Any) -> Any:
    """Masks of equal lanes; all lanes of the second warp agree in a, and none in b."""
    out = []
    for lane in range(_N):
        warp = lane // 32 * 32
        mine = [sum(1 << n for n in range(32) if x[warp + n] == x[lane]) for x in (a, b)]
        every = (1 << 32) - 1
        whole = mine[0] == every
        out.append((mine[0] + (every if whole else 0) + whole + 3 * mine[1]) & every)
    return np.array(out, np.uint32)


_MATCH_A = np.concatenate((_u(32, 5), np.full(32, 7, np.uint32)))
_MATCH_B = _RNG.integers(0, 3, _N, np.uint64) << np.uint64(40)
_ATOMICS = (
    _F + "(unsigned *o, const unsigned *a, unsigned *s, float *q, double *d,"
    " unsigned long long *r) {"
    + _I
    + """
  atomicAdd(o, a[i]); atomicMin((int *)o + 1, (int)a[i]); atomicMax(o + 2, a[i]);
  atomicInc(o + 3, 6); atomicDec(o + 4, 9); atomicAnd(o + 5, a[i] | 0xF0F00F0Fu);
  atomicOr(o + 6, a[i] & 0x0FF0F000u); atomicXor(o + 7, a[i]); atomicAdd(o + 8, 1);
  atomicAdd(q, 0.25f); atomicAdd(d, 0.5); atomicAdd(r, 3ull << 33); atomicMax(r + 1, 1ull * a[i]);
  atomicMin((long long *)r + 2, -(long long)a[i]); unsigned old = atomicAdd(s, 1);
  o[16 + old] = 1; o[80 + i] = atomicExch(s + 1 + i, a[i]);
  o[144 + i] = atomicCAS(s + 1 + i, i & 1 ? a[i] : ~a[i], 5); o[208 + i] = s[1 + i];
  o[9] = (unsigned)*(volatile float *)q; o[10] = (unsigned)*(volatile double *)d;
  o[11] = r[0] >> 32; o[12] = r[1]; o[13] = r[2] >> 32; }"""
)


def _atomics(a: Any, s: Any, *_: Any) -> Any:
    out = np.zeros(272, np.uint32)
    out[5] = 0
    out[0] = a.sum(dtype=np.uint32)
    out[1] = min(0, int(a.view(np.int32).min())) & 0xFFFFFFFF
    out[2] = a.max()
    out[3] = _N % 7
    value = 0
    for _each in range(_N):
        value = 9 if value == 0 or value > 9 else value - 1
    out[4] = value
    out[6] = np.bitwise_or.reduce(a & np.uint32(0x0FF0F000))
    out[7] = np.bitwise_xor.reduce(a)
    out[8] = _N
    out[9], out[10], out[11], out[12] = _N // 4, _N // 2, 6 * _N, a.max()
    out[13] = (-int(a.max()) >> 32) & 0xFFFFFFFF
    out[16:80] = 1
    out[80:144] = s[1:65]
    out[144:208] = a
    out[208:272] = np.where(_LANE & 1 == 1, 5, a)
    return out


_SHARED_ATOMICS = (
    _F
    + "(unsigned *o, const unsigned *a) {"
    + _I
    + """
  __shared__ unsigned s[80]; __shared__ unsigned long long t[4]; __shared__ float f[1];
  s[i] = i < 16 ? 0 : i; if (i < 4) t[i] = i; if (!i) { f[0] = 0; s[64] = 1; } __syncthreads();
  atomicAdd(s, 1); atomicAdd(s + 1, a[i]); atomicMin((int *)s + 2, (int)a[i]);
  atomicMax(s + 3, a[i]); atomicOr(s + 4, a[i]); atomicXor(s + 5, a[i]); atomicInc(s + 6, 4);
  atomicAdd(t, (unsigned long long)a[i] << 20); atomicAdd(f, 0.5f);
  unsigned x = atomicExch(s + 16 + (i & 31), a[i]), y = atomicCAS(s + 64, i + 1, i + 2);
  unsigned long long z = atomicCAS(t + 1, 1ull, 7ull << 32);
  __syncthreads(); o[i] = i < 8 ? s[i] : i == 8 ? (unsigned)(t[0] >> 20) : i == 9 ? (unsigned)f[0]
   : i == 10 ? s[64] : i == 11 ? (unsigned)(t[1] >> 32) : (x && y && z) ? 1 : 1; }"""
)


def _shared_atomics(a: Any) -> Any:
    out = np.ones(_N, np.uint32)
    out[:8] = (_N, a.sum(dtype=np.uint32), min(0, int(a.view(np.int32).min())) & 0xFFFFFFFF,
               a.max(), np.bitwise_or.reduce(a), np.bitwise_xor.reduce(a), _N % 5, 0)  # fmt: skip
    out[8] = sum(a.tolist()) & 0xFFFFFFFF
    out[9], out[10], out[11] = _N // 2, _N + 1, 7
    return out


_BARRIERS = (
    _F
    + "(unsigned *o, int n) {"
    + _I
    + """
  __shared__ int s[64], t[64]; s[i] = i; asm volatile("bar.sync 1, 64;" ::: "memory");
  int x = s[63 - i];
  if (i < 32) { t[i] = i; asm volatile("bar.arrive 2, 64;" ::: "memory"); }
  else { asm volatile("bar.sync 2, 64;" ::: "memory"); x += t[i - 32]; }
  x += 1000 * __syncthreads_count(i % 3 == 0) + 100000 * __syncthreads_and(i < 99)
     + 200000 * __syncthreads_and(i < 5) + 400000 * __syncthreads_or(i == 5)
     + 800000 * __syncthreads_or(i == 99);
  asm volatile("bar.sync %0, %1;" :: "r"(n), "r"(n * 32) : "memory"); s[i] = x;
  asm volatile("bar.sync %0;" :: "r"(n) : "memory"); o[i] = s[i ^ 33]; }"""
)


def _barriers(_: int) -> Any:
    x = 63 - _LANE + np.where(_LANE < 32, 0, _LANE - 32)
    x = x + 1000 * 22 + 100000 + 400000
    return x[_LANE ^ 33].astype(np.uint32)


_GENERIC = (
    _F
    + "(int *o, const int *a, int n) {"
    + _I
    + """
  __shared__ int s[64]; int l[8]; s[i] = a[i]; for (int k = 0; k < 8; k++) l[k] = a[k] + i;
  __syncthreads(); int *p = n & 1 ? s : n & 2 ? l : o; int x = p[(n >> 2 & 15) + (i & 1)];
  __syncthreads(); if (i == n >> 8 || n & 2) p[3] = 5 * n; __syncthreads();
  o[64 + i] = x + p[3] + s[3]; atomicAdd(n & 1 ? s + 9 : o + 200, 2); __syncthreads();
  o[128 + i] = s[9] + ((signed char *)(n & 1 ? (void *)s : (void *)o))[5]; }"""
)


def _generic(kind: int, n: int) -> Any:
    def expected(a: Any, _: Any) -> Any:
        out = np.zeros(256, np.int32)
        s = a.copy()
        odd = _LANE & 1
        if kind == 1:
            x, s[3] = a[(n >> 2 & 15) + odd], 5 * n
            y = np.full(_N, 5 * n, np.int32)
            s[9] += 2 * _N
        elif kind == 2:
            x, y = a[(n >> 2 & 15) + odd] + _LANE, np.full(_N, 5 * n, np.int32)
        else:
            x, y = np.zeros(_N, np.int32), np.full(_N, 5 * n, np.int32)
            out[3] = 5 * n
        if kind != 1:
            out[200] = 2 * _N
        out[64:128] = x + y + s[3]
        source = s if kind == 1 else out
        out[128:192] = s[9] + int(source.view(np.int8)[5])
        return out

    return expected


_CALLS = (
    """
__device__ __noinline__ int g(int n, const int *a) {
  return n < 2 ? a[n] : g(n - 1, a) + g(n - 2, a); }
__device__ __noinline__ int h1(int n, const int *a) { return a[n] * 3; }
__device__ __noinline__ int h2(int n, const int *a) { return a[n + 1] - 7; }
typedef int (*F)(int, const int *); __constant__ F table[2] = {h1, h2};
"""
    + _F
    + "(int *o, const int *a) {"
    + _I
    + "o[i] = g(i & 7, a) + table[i & 1](i, a); }"
)


def _calls(a: Any) -> Any:
    found = [int(a[0]), int(a[1])]
    while len(found) < 8:
        found.append(found[-1] + found[-2])
    more = [3 * int(a[i]) if not i & 1 else int(a[i + 1]) - 7 for i in range(_N)]
    return np.array([found[i & 7] + more[i] for i in range(_N)], np.int64).astype(np.int32)


_SWITCH = (
    _F
    + "(int *o, const int *a) {"
    + _I
    + """int x = a[i], y = i; switch (x) {
  case 0: y = a[5] * 3; break; case 1: y = a[6] - 1; break; case 2: y ^= a[7]; break;
  case 3: for (int k = 0; k < i; k++) y += a[k]; break; case 4: y = a[2] / (a[3] + 1); break;
  case 5: y = 7 * a[8]; break; case 6: y -= a[9] << 3; break; case 7: return; } o[i] = y; }"""
)


def _switch(a: Any) -> Any:
    out = []
    for i, x in enumerate(a.tolist()):
        y = [3 * a[5], a[6] - 1, i ^ a[7], i + a[:i].sum(), a[2] // (a[3] + 1), 7 * a[8],
             i - (a[9] << 3), 0][x]  # fmt: skip
        out.append(y)
    return np.array(out, np.int32)


_LDMATRIX = (
    _F
    + """(unsigned *o, const unsigned *a) { __shared__ __align__(16) unsigned s[256];
  int i = threadIdx.x; for (int k = i; k < 256; k += 32) s[k] = a[k]; __syncthreads();
  unsigned r[4], p = (unsigned)__cvta_generic_to_shared(s) + i * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
  for (int k = 0; k < 4; k++) o[k * 32 + i] = r[k];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
  for (int k = 0; k < 4; k++) o[128 + k * 32 + i] = r[k];
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0},[%1];" : "=r"(r[0]) : "r"(p));
  o[256 + i] = r[0];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1},[%2];"
   : "=r"(r[0]), "=r"(r[1]) : "r"(p + 16)); o[288 + i] = r[0]; o[320 + i] = r[1]; }"""
)


def _ldmatrix(a: Any) -> Any:
    rows = a[:128].view(np.uint16).reshape(4, 8, 8)
    plain = np.ascontiguousarray(rows).view(np.uint32).reshape(4, 32)
    turned = np.ascontiguousarray(rows.transpose(0, 2, 1)).view(np.uint32).reshape(4, 32)
    other = a[4:68].view(np.uint16).reshape(2, 8, 8).transpose(0, 2, 1)
    last = np.ascontiguousarray(other).view(np.uint32)
    return np.concatenate([x.ravel() for x in (plain, turned, plain[0], last)])


_COPIES = (
    _F
    + """(unsigned *o, const unsigned *a, int n) {
  __shared__ __align__(16) unsigned s[512]; int i = threadIdx.x;
  unsigned p = (unsigned)__cvta_generic_to_shared(s);
  asm volatile("cp.async.cg.shared.global [%0],[%1],16;" :: "r"(p + i * 16), "l"(a + i * 4));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.ca.shared.global [%0],[%1],4;" :: "r"(p + 1024 + i * 4), "l"(a + i));
  asm volatile("cp.async.ca.shared.global [%0],[%1],8;" :: "r"(p + 1280 + i * 8), "l"(a + i * 2));
  asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 1;");
  __syncthreads(); o[i] = s[i ^ 9]; asm volatile("cp.async.wait_all;"); __syncthreads();
  o[64 + i] = s[256 + (i ^ 5)] + s[320 + (i ^ 70)];
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0],[%1],4,%2;"
   :: "r"(p + i * 4), "l"(a + i), "r"(i & 1 ? n : 0));
  asm volatile("cp.async.wait_all;"); __syncthreads(); o[128 + i] = s[i ^ 3]; }"""
)


def _copies(a: Any, _: int) -> Any:
    zeroed = np.where(_LANE & 1 == 1, a[:_N], 0)
    return np.concatenate((a[_LANE ^ 9], a[_LANE ^ 5] + a[_LANE ^ 70], zeroed[_LANE ^ 3]))


_FENCES = (
    _F
    + """(volatile int *o, int n) { if (threadIdx.x) return; o[0] = 1; __threadfence();
  o[1] = 2; __threadfence_block(); o[2] = n; __threadfence_system();
  asm volatile("fence.acq_rel.gpu;"); o[3] = o[2]; long long c = clock64(), d = clock64();
  o[4] = d > c; o[5] = (int)(clock() - (unsigned)c) > 0; unsigned long long g, h;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h)); o[6] = h >= g; }"""
)
_SPECIAL = (
    _F
    + "(unsigned *o) {"
    + _I
    + """ unsigned x;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(x)); o[i] = x;
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(x)); o[64 + i] = x;
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(x)); o[128 + i] = x;
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(x)); o[192 + i] = x;
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(x)); o[256 + i] = x;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(x)); o[320 + i] = x; }"""
)


def _special() -> Any:
    own = (1 << (_LANE % 32)).astype(np.int64)
    masks = (own - 1, own, -own, 2 * own - 1, -2 * own, _LANE // 32)
    return np.concatenate(masks).astype(np.int64).astype(np.uint32)


_UNIFORM = (
    _F
    + """(unsigned *o, const unsigned *a, int n) { int i = threadIdx.x;
  unsigned c = __ballot_sync(~0u, a[i] & 1); o[i] = __popc(c) + 64 * __ffs(c) + 4096 * __clz(c);
  o[64 + i] = blockIdx.x * n + __popc(n) + 100 * __clz(n) + (n << blockIdx.y)
   + max(n, 3) + (blockIdx.x * 7ull * n >> 5); }"""
)


def _uniform(a: Any, n: int) -> Any:
    first = []
    for warp in (a[:32], a[32:]):
        c = sum(1 << k for k in range(32) if warp[k] & 1)
        ffs = (c & -c).bit_length()
        first += [c.bit_count() + 64 * ffs + 4096 * (32 - c.bit_length())] * 32
    value = n.bit_count() + 100 * (32 - n.bit_length()) + n + max(n, 3)
    return np.array(first + [value] * _N, np.uint32)


_SHUFFLES = (
    _F
    + "(unsigned *o, const unsigned *a) {"
    + _I
    + """ unsigned x = a[i];
  unsigned r = __shfl_sync(~0u, x, x & 31); unsigned u = __shfl_up_sync(~0u, x, 3);
  unsigned w = __shfl_down_sync(~0u, x, i >> 5 ? 2 : 5), v = __shfl_xor_sync(~0u, x, 17, 8);
  o[i] = r; o[64 + i] = u; o[128 + i] = w; o[192 + i] = v; }"""
)


def _shuffles(a: Any) -> Any:
    lane, base = _LANE % 32, _LANE // 32 * 32
    down = np.where(_LANE >= 32, 2, 5)
    other = lane ^ 17
    picks = (base + (a & 31), base + np.where(lane < 3, lane, lane - 3),
             base + np.where(lane + down > 31, lane, lane + down),
             base + np.where(other > (lane | 7), lane, other))  # fmt: skip
    return np.concatenate([a[x.astype(np.int64)] for x in picks])


_G = _RNG.integers(-50, 50, _N, np.int32)
LANE_CASES = (
    Case("reductions", _F + "(unsigned *o, const unsigned *a) {" + _I + """ unsigned x = a[i];
      o[i] = ((((((__reduce_add_sync(~0u, x) + __reduce_min_sync(~0u, x))
      ^ (unsigned)__reduce_max_sync(~0u, (int)x)) + (unsigned)__reduce_min_sync(~0u, (int)x))
      ^ __reduce_and_sync(~0u, x | 1u << 20)) + __reduce_or_sync(~0u, x & 0xFFFFu))
      ^ __reduce_xor_sync(~0u, x)); }""",
         (np.zeros(_N, "u4"), _u()), _reduced, **_ONE_BLOCK),
    Case("matches", _F + "(unsigned *o, const unsigned *a, const unsigned long long *b) {" + _I
         + """ int all; unsigned x = __match_any_sync(~0u, a[i]);
      x += __match_all_sync(~0u, a[i], &all); x += all; x += 3 * __match_any_sync(~0u, b[i]);
      int none; x += __match_all_sync(~0u, b[i], &none); o[i] = x + none; }""",
         (np.zeros(_N, "u4"), _MATCH_A, _MATCH_B), _matched, **_ONE_BLOCK),
    Case("atomics", _ATOMICS, (np.zeros(272, "u4"), _u(), np.concatenate(([0], _u())).astype("u4"),
         np.zeros(1, "f4"), np.zeros(1, "f8"), np.zeros(3, "u8")), _atomics, **_ONE_BLOCK),
    Case("shared atomics", _SHARED_ATOMICS, (np.zeros(_N, "u4"), _u()), _shared_atomics,
         **_ONE_BLOCK),
    Case("barriers", _BARRIERS, (np.zeros(_N, "u4"), 2), _barriers, **_ONE_BLOCK),
    Case("generic shared", _GENERIC, (np.zeros(256, "i4"), _G, 1 | 4 << 2 | 7 << 8),
         _generic(1, 1 | 4 << 2 | 7 << 8), **_ONE_BLOCK),
    Case("generic local", _GENERIC, (np.zeros(256, "i4"), _G, 2 | 4 << 2),
         _generic(2, 2 | 4 << 2), **_ONE_BLOCK),
    Case("generic global", _GENERIC, (np.zeros(256, "i4"), _G, 4 << 2 | 7 << 8),
         _generic(0, 4 << 2 | 7 << 8), **_ONE_BLOCK),
    Case("calls", _CALLS, (np.zeros(_N, "i4"), _RNG.integers(-99, 99, _N + 1, np.int32)), _calls,
         **_ONE_BLOCK),
    Case("switch", _SWITCH, (np.zeros(_N, "i4"), _RNG.integers(0, 8, _N, np.int32)), _switch,
         **_ONE_BLOCK),
    Case("ldmatrix", _LDMATRIX, (np.zeros(352, "u4"), _u(256)), _ldmatrix, (1, 1, 1), (32, 1, 1)),
    Case("copies", _COPIES, (np.zeros(192, "u4"), _u(256), 4), _copies, **_ONE_BLOCK),
    Case("fences and clocks", _FENCES, (np.zeros(7, "i4"), 9),
         lambda n: np.array([1, 2, n, n, 1, 1, 1], np.int32), **_ONE_BLOCK),
    Case("special registers", _SPECIAL, (np.zeros(384, "u4"),), _special, **_ONE_BLOCK),
    Case("uniform unit", _UNIFORM, (np.zeros(128, "u4"), _u(), 77), _uniform, **_ONE_BLOCK),
    Case("shuffles", _SHUFFLES, (np.zeros(256, "u4"), _u()), _shuffles, **_ONE_BLOCK),
)  # fmt: skip
