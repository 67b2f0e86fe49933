"""Histograms, atomics of many types, locks, and blocks that wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, zeros


def _counts(bins: int) -> Any:
    return lambda o, a, *rest: np.bincount(a.astype(int) % bins, minlength=bins).astype(np.uint32)


def _joined(o: Any, a: Any) -> Any:
    """By group of eight: sum, least, largest, and, or, xor of words."""
    g = a.reshape(8, -1)
    s = g.view(np.int32)
    return np.stack(
        (g.sum(1, dtype=np.uint32), s.min(1).view("u4"), s.max(1).view("u4"), g.min(1), g.max(1),
         np.bitwise_and.reduce(g, 1), np.bitwise_or.reduce(g, 1), np.bitwise_xor.reduce(g, 1)), 1
    ).ravel()  # fmt: skip


def _joined64(o: Any, a: Any) -> Any:
    s = a.view(np.int64)
    return np.array(
        [a.sum(dtype=np.uint64), s.min().view("u8"), s.max().view("u8"), a.min(), a.max(),
         np.bitwise_and.reduce(a | np.uint64(1 << 50)), np.bitwise_or.reduce(a & np.uint64(255)),
         np.bitwise_xor.reduce(a)], np.uint64,
    )  # fmt: skip


def _tickets(o: Any, count: Any) -> Any:
    return np.arange(len(o), dtype=np.uint32), np.array([len(o)], np.uint32)


def _table(keys: Any, counts: Any, a: Any) -> Any:
    return np.array([len(np.unique(a))], np.uint32), np.bincount(a, minlength=50).astype(np.uint32)


_OPS = """  atomicAdd(p, v); atomicMin((int *)p + 1, (int)v); atomicMax((int *)p + 2, (int)v);
  atomicMin(p + 3, v); atomicMax(p + 4, v); atomicAnd(p + 5, v); atomicOr(p + 6, v);
  atomicXor(p + 7, v);"""
_FIRST = np.tile(np.array([0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 0], np.uint32),
                 8)  # fmt: skip
_OPS64 = """  atomicAdd(p, v); atomicMin((i64 *)p + 1, (i64)v); atomicMax((i64 *)p + 2, (i64)v);
  atomicMin(p + 3, v); atomicMax(p + 4, v); atomicAnd(p + 5, v | 1ull << 50);
  atomicOr(p + 6, v & 255); atomicXor(p + 7, v);"""
_FIRST64 = np.array([0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0, (1 << 64) - 1, 0, 0], np.uint64)
_HALF_SUMS = np.array([2.5 * 128, 0.25 * 128], np.float16)
KERNELS = (
    Kernel("histogram in shared memory", """F(u32 *o, const u32 *a, int n) { __shared__ u32 s[64];
  T; if (t < 64) s[t] = 0; SYNC; for (int k = blockIdx.x * 128 + t; k < n; k += gridDim.x * 128)
    atomicAdd(&s[a[k] % 64], 1);
  SYNC; if (t < 64) atomicAdd(&o[t], s[t]); }""", (zeros(64), ints("hist", 1000), 1000),
           _counts(64), grid=3),
    Kernel("histogram in global memory", """F(u32 *o, const u32 *a) { I; atomicAdd(o + a[i] % 7, 1);
}""", (zeros(7), ints("hist 7", 384)), _counts(7), grid=3),
    Kernel("histogram a warp", """F(u32 *o, const u8 *a) { __shared__ u32 s[4][256]; T;
  int w = t / 32;
  for (int k = t; k < 1024; k += 128) s[k / 256][k % 256] = 0; SYNC;
  const uchar4 *q = (const uchar4 *)a; for (int k = t; k < 256; k += 128) { uchar4 v = q[k];
    atomicAdd(&s[w][v.x], 1); atomicAdd(&s[w][v.y], 1); atomicAdd(&s[w][v.z], 1);
    atomicAdd(&s[w][v.w], 1); } SYNC;
  for (int k = t; k < 256; k += 128) o[k] = s[0][k] + s[1][k] + s[2][k] + s[3][k]; }""",
           (zeros(256), ints("hist 8", 1024, 0, 256, np.uint8)), _counts(256)),
    Kernel("histogram with aggregation", """F(u32 *o, const u32 *a) { I; u32 b = a[i] % 5;
  u32 same = __match_any_sync(ALL, b); int lane = threadIdx.x & 31, first = __ffs(same) - 1;
  if (lane == first) atomicAdd(o + b, __popc(same)); }""", (zeros(5), ints("agg", 256)),
           _counts(5), grid=2, least=70),
    Kernel("atomics on words of global memory", "F(u32 *o, const u32 *a) { I; u32 v = a[i],"
           " *p = o + i / 32 * 8;\n" + _OPS + "}", (_FIRST, ints("ops", 256)), _joined, grid=2),
    Kernel("atomics on words of shared memory", "F(u32 *o, const u32 *a) { __shared__ u32 s[64];"
           " T; if (t < 64) s[t] = o[t]; SYNC; u32 v = a[t], *p = s + t / 32 * 8;\n" + _OPS
           + " SYNC; if (t < 64) o[t] = s[t]; }", (_FIRST, ints("ops s", 256)), _joined, block=256),
    Kernel("atomics on 64 bits of global memory", "F(u64 *o, const u64 *a) { I; u64 v = a[i],"
           " *p = o;\n" + _OPS64 + "}", (_FIRST64, ints("ops 64", 64, 0, 1 << 62, np.uint64)),
           _joined64, block=64),
    Kernel("atomics on 64 bits of shared memory", "F(u64 *o, const u64 *a) { __shared__ u64 s[8];"
           " T; if (t < 8) s[t] = o[t]; SYNC; u64 v = a[t], *p = s;\n" + _OPS64
           + " SYNC; if (t < 8) o[t] = s[t]; }",
           (_FIRST64, ints("ops 64", 64, 0, 1 << 62, np.uint64)), _joined64, block=64),
    Kernel("atomics whose results are used", """F(u32 *o, u32 *count) { I;
  u32 k = atomicAdd(count, 1); o[k] = k; }""", (zeros(256), zeros(1)), _tickets, grid=2),
    Kernel("exchange, increment and decrement", """F(u32 *o, u32 *seen) { T; __shared__ u32 s[3];
  if (t < 3) s[t] = 0; SYNC; atomicInc(&s[0], 9); atomicDec(&s[1], 6);
  u32 v = atomicExch(&s[2], t + 1); atomicAdd(o + 2, v); atomicInc(o + 3, 10); atomicDec(o + 4, 4);
  SYNC; if (t == 0) { o[0] = s[0]; o[1] = s[1]; atomicAdd(o + 2, s[2]); } }""",
           (zeros(5), zeros(1)),
           lambda o, s: np.array([128 % 10, (7 - 128 % 7) % 7, 128 * 129 // 2, 128 % 11,
                                  (5 - 128 % 5) % 5])),
    Kernel("atomics on numbers", """F(float *o, double *d) { T; __shared__ float s;
  __shared__ double
  e; if (t == 0) { s = 0; e = 0; } SYNC; atomicAdd(&s, 0.5f); atomicAdd(&e, 0.125); atomicAdd(o,
  1.f);
  atomicAdd(d, 2.0); float was = atomicExch(o + 2, 3.f); atomicAdd(o + 3, was);
  SYNC; if (t == 0) { o[1] = s; d[1] = e; } }""", (zeros(4, np.float32), zeros(2, np.float64)),
           lambda o, d: (np.array([128, 64, 3, 3 * 127]), np.array([256, 16]))),
    Kernel("largest number by compare and swap", """F(float *o, const float *a) { T;
  int *p = (int *)o;
  int old = *p, seen; do { seen = old; if (__int_as_float(seen) >= a[t]) break;
    old = atomicCAS(p, seen, __float_as_int(a[t])); } while (old != seen);
  __shared__ int s; if (t == 0) s = __float_as_int(-100.f); SYNC; old = s;
  do { seen = old; if (__int_as_float(seen) >= a[t]) break;
    old = atomicCAS(&s, seen, __float_as_int(a[t])); } while (old != seen);
  SYNC; if (t == 0) o[1] = __int_as_float(s); }""",
           (np.array([-100, 0], np.float32), floats("cas", 128)),
           lambda o, a: np.array([a.max(), a.max()])),
    Kernel("64-bit compare and swap", """F(u64 *o, const u64 *a) { T; u64 old = *o, seen;
  do { seen = old; old = atomicCAS(o, seen, seen * 3 + a[t]); } while (old != seen);
  __shared__ u64 s; if (t == 0) s = 0; SYNC; old = s;
  do { seen = old; old = atomicCAS(&s, seen, seen + a[t] * 5); } while (old != seen);
  SYNC; if (t == 0) o[1] = s; }""",
           (zeros(2, np.uint64), np.full(32, 7, np.uint64)),
           lambda o, a: np.array([sum(7 * 3**k for k in range(32)) & ((1 << 64) - 1), 7 * 5 * 32],
                                 np.uint64), block=32),
    Kernel("16-bit compare and swap", """F(u16 *o) { T; u16 old = o[1], seen;
  do { seen = old; old = atomicCAS(o + 1, seen, (u16)(seen + 3)); } while (old != seen); }""",
           (np.array([7, 8, 9, 10], np.uint16),), lambda o: np.array([7, 8 + 192, 9, 10]),
           block=64),
    Kernel("pairs of halves", """F(u32 *o) { asm volatile("red.global.add.noftz.f16x2 [%0], %1;"
  :: "l"(o), "r"(0x34004100u) : "memory"); }""", (zeros(1),), lambda o: _HALF_SUMS.view(np.uint32)),
    Kernel("generic atomics", """F(u32 *o, int k) { __shared__ u32 s[2]; T; if (t < 2) s[t] = 0;
  SYNC;
  u32 *p = (t & 1) == k ? s + (t & 2) / 2 : o + (t & 2) / 2; atomicAdd(p, t);
  u32 was = atomicMax(p, 1u); atomicAdd(o + 4, was != 0); SYNC; if (t < 2) o[2 + t] = s[t]; }""",
           (zeros(5), 1),
           lambda o, k: np.array([sum(range(0, 128, 4)), sum(range(2, 128, 4)),
                                  sum(range(1, 128, 4)), sum(range(3, 128, 4)), 128])),
    Kernel("spin lock of blocks", """F(u32 *o, u32 *lock) { T; __shared__ u32 x; if (t == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {} __threadfence(); x = o[0]; o[0] = x * 2 + 1; o[1] += 3;
    __threadfence(); atomicExch(lock, 0); } }""", (zeros(2), zeros(1)),
           lambda o, k: np.array([(1 << 20) - 1, 60]), grid=20, block=32),
    Kernel("spin lock of each thread", """F(u32 *o, int *lock) { I; bool done = false;
  while (!done) { if (atomicExch(lock, 1) == 0) { volatile u32 *p = o; p[0] = p[0] + 1;
      p[1] = p[1] + i; __threadfence(); atomicExch(lock, 0); done = true; } } }""",
           (zeros(2), zeros(1, np.int32)),
           lambda o, k: np.array([64, sum(range(64))]), block=64),
    Kernel("ticket lock", """F(u32 *o, u32 *next, volatile u32 *now) { if (threadIdx.x == 0) {
    u32 me = atomicAdd(next, 1); while (*now != me) __nanosleep(20); __threadfence();
    o[me] = me * me; *(volatile u32 *)(o + 16) += 1; __threadfence(); *now = me + 1; } }""",
           (zeros(17), zeros(1), zeros(1)),
           lambda o, n, w: np.append(np.arange(16) ** 2, 16), grid=16, block=64),
    Kernel("barrier of all blocks", """F(u32 *o, u32 *arrived, u32 *a) { I; u32 v = a[i];
  for (u32 r = 0; r < 3; r++) { a[i] = v; __threadfence(); SYNC; if (threadIdx.x == 0) {
      atomicAdd(arrived, 1); while (*(volatile u32 *)arrived < (2 * r + 1) * gridDim.x) {}
      __threadfence(); } SYNC;
    u32 n = ((volatile u32 *)a)[(i + 32) % (gridDim.x * blockDim.x)]; v = v * 3 + n;
    __threadfence(); SYNC; if (threadIdx.x == 0) { atomicAdd(arrived, 1);
      while (*(volatile u32 *)arrived < (2 * r + 2) * gridDim.x) {} } SYNC; }
  o[i] = v; }""", (zeros(512), zeros(1), ints("barrier", 512)),
           lambda o, r, a: _rounds(a), grid=8, block=64),
    Kernel("one block makes, another takes", """F(u32 *o, volatile u32 *box, volatile u32 *flag) {
  T; for (u32 k = 0; k < 6; k++) { if (blockIdx.x == 1) { if (t == 0) while (*flag != 2 * k) {}
      SYNC; box[t] = k * 100 + t; __threadfence(); SYNC; if (t == 0) *flag = 2 * k + 1;
    } else { if (t == 0) while (*flag != 2 * k + 1) {} SYNC; __threadfence();
      o[k * 64 + t] = box[t]; SYNC; __threadfence(); if (t == 0) *flag = 2 * k + 2; } } }""",
           (zeros(384), zeros(64), zeros(1)),
           lambda o, b, f: (np.arange(6)[:, None] * 100 + np.arange(64)).ravel(), grid=2, block=64),
    Kernel("list with pushes", """F(int *o, int *head, int *next) { I; int old = *head, seen;
  do { seen = old; next[i] = seen; __threadfence(); old = atomicCAS(head, seen, i); }
  while (old != seen); __shared__ bool last; __threadfence(); SYNC;
  if (threadIdx.x == 0) last = atomicAdd(o + 1, 1) == gridDim.x - 1; SYNC;
  if (last && threadIdx.x == 0) { int n = 0, s = 0; volatile int *q = next;
    for (int k = *(volatile int *)head; k >= 0 && n < 999; k = q[k]) { n++; s += k; }
    o[0] = n; o[2] = s; } }""", (zeros(3, np.int32), np.array([-1], np.int32), zeros(96, np.int32)),
           lambda o, h, n: np.array([96, 3, sum(range(96))]), grid=3, block=32),
    Kernel("hash table", """F(u32 *used, u32 *counts, const u32 *a) { __shared__ u64 s[128]; T;
  s[t] = ~0ull; SYNC; u32 key = a[t]; for (u32 at = key * 2654435761u >> 25, k = 0; k < 128;
      at = (at + 1) & 127, k++) { u64 was = atomicCAS(&s[at], ~0ull, (u64)key);
    if (was == ~0ull) { atomicAdd(used, 1); break; } if (was == key) break; }
  atomicAdd(counts + key, 1); }""", (zeros(1), zeros(50), ints("hash", 128, 0, 50)), _table),
)  # fmt: skip


def _rounds(a: Any) -> Any:
    v = a.copy()
    for _ in range(3):
        v = v * np.uint32(3) + np.roll(v, -32)
    return v
