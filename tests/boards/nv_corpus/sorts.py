"""Sorts, searches, and what is built of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, zeros


def _each_warp(o: Any, a: Any) -> Any:
    return np.sort(a.reshape(-1, 32), axis=1).ravel()


def _by_key(keys: Any, values: Any, k: Any, v: Any) -> Any:
    order = np.argsort(k & 0xFF, kind="stable")
    return k[order], v[order]


def _largest(o: Any, a: Any) -> Any:
    return np.sort(a.reshape(-1, 16), axis=1)[:, ::-1][:, :4].ravel()


def _median(o: Any, a: Any) -> Any:
    return np.median(a.reshape(-1, 9), axis=1).astype(np.float32)


def _merged(o: Any, a: Any, b: Any) -> Any:
    return np.sort(np.concatenate((a, b)))


_SORTED = np.sort(ints("sorted", 1000, 0, 5000, np.int32))
KERNELS = (
    Kernel("bitonic sort", """F(u32 *o, const u32 *a) { __shared__ u32 s[256]; T; s[t] = a[t];
  for (int k = 2; k <= 256; k <<= 1) for (int j = k >> 1; j > 0; j >>= 1) { SYNC; int p = t ^ j;
    if (p > t) { bool up = (t & k) == 0; u32 x = s[t], y = s[p];
      if ((x > y) == up) { s[t] = y; s[p] = x; } } }
  SYNC; o[t] = s[t]; }""", (zeros(256), ints("bitonic", 256)), lambda o, a: np.sort(a), block=256),
    Kernel("bitonic sort of a warp", """F(int *o, const int *a) { I; int v = a[i];
  int lane = threadIdx.x & 31;
  UNROLL for (int k = 2; k <= 32; k *= 2) UNROLL for (int j = k / 2; j; j /= 2) {
    int x = __shfl_xor_sync(ALL, v, j); bool low = (lane & j) == 0, up = (lane & k) == 0;
    v = low == up ? min(v, x) : max(v, x); }
  o[i] = v; }""", (zeros(256, np.int32), ints("warp sort", 256, -(1 << 31), 1 << 31, np.int32)),
           _each_warp, grid=2),
    Kernel("odd and even sort", """F(float *o, const float *a) { __shared__ float s[128]; T;
  s[t] = a[t]; SYNC; for (int r = 0; r < 128; r++) { int p = t ^ 1; int q = 2 * (t / 2) + 1;
    int x = r & 1 ? q : 2 * (t / 2), y = x + 1; (void)p;
    if (!(t & 1) && y < 128 && s[x] > s[y]) { float v = s[x]; s[x] = s[y]; s[y] = v; } SYNC; }
  o[t] = s[t]; }""", (zeros(128, np.float32), floats("odd", 128)), lambda o, a: np.sort(a)),
    Kernel("rank sort", """F(double *o, const double *a) { __shared__ double s[96]; T;
  s[t] = a[t]; SYNC; int r = 0; for (int k = 0; k < 96; k++)
    r += s[k] < s[t] || (s[k] == s[t] && k < t);
  o[r] = s[t]; }""", (zeros(96, np.float64), np.round(floats("rank", 96, dtype=np.float64), 1)),
           lambda o, a: np.sort(a), block=96),
    Kernel("radix sort of keys and values", """F(u32 *keys, u32 *values, const u32 *k,
    const u32 *v) {
  __shared__ u32 sk[128], sv[128]; __shared__ u32 ones[4]; T; int lane = t & 31, w = t >> 5;
  u32 key = k[t], value = v[t];
  LOOP for (int bit = 0; bit < 8; bit++) { u32 b = key >> bit & 1;
    u32 votes = __ballot_sync(ALL, b); if (lane == 0) ones[w] = __popc(votes); SYNC;
    u32 before = __popc(votes & ((1u << lane) - 1)); u32 all = 0;
    for (int q = 0; q < 4; q++) { if (q < w) before += ones[q]; all += ones[q]; }
    u32 at = b ? 128 - all + before : t - before; sk[at] = key; sv[at] = value; SYNC;
    key = sk[t]; value = sv[t]; SYNC; }
  keys[t] = key; values[t] = value; }""",
           (zeros(128), zeros(128), ints("radix", 128), ints("radix v", 128)), _by_key),
    Kernel("counting sort", """F(u8 *o, const u8 *a) { __shared__ u32 counts[256], starts[256]; T;
  counts[t] = 0; counts[t + 128] = 0; SYNC;
  for (int k = t; k < 512; k += 128) atomicAdd(&counts[a[k]], 1); SYNC;
  if (t == 0) { u32 n = 0; for (int k = 0; k < 256; k++) { starts[k] = n; n += counts[k]; } } SYNC;
  for (int k = t; k < 256; k += 128) for (u32 n = 0; n < counts[k]; n++) o[starts[k] + n] = k; }""",
           (zeros(512, np.uint8), ints("counting", 512, 0, 256, np.uint8)),
           lambda o, a: np.sort(a)),
    Kernel("insertion sort of each thread", """F(float *o, const float *a) { T; float v[24];
  for (int k = 0; k < 24; k++) { float x = a[t * 24 + k]; int j = k;
    while (j > 0 && v[j - 1] > x) { v[j] = v[j - 1]; j--; } v[j] = x; }
  for (int k = 0; k < 24; k++) o[t * 24 + k] = v[k]; }""",
           (zeros(1536, np.float32), floats("insertion", 1536)),
           lambda o, a: np.sort(a.reshape(-1, 24), axis=1).ravel(), block=64),
    Kernel("quicksort with a stack", """F(int *o, const int *a) { T; int v[32], stack[64];
  for (int k = 0; k < 32; k++) v[k] = a[t * 32 + k]; int n = 0; stack[n++] = 0; stack[n++] = 31;
  while (n) { int high = stack[--n], low = stack[--n]; if (low >= high) continue;
    int p = v[high], m = low; for (int k = low; k < high; k++) if (v[k] < p) {
      int x = v[k]; v[k] = v[m]; v[m] = x; m++; }
    v[high] = v[m]; v[m] = p;
    stack[n++] = low; stack[n++] = m - 1; stack[n++] = m + 1; stack[n++] = high; }
  for (int k = 0; k < 32; k++) o[t * 32 + k] = v[k]; }""",
           (zeros(2048, np.int32), ints("quick", 2048, -1000, 1000, np.int32)), _each_warp,
           block=64),
    Kernel("the four largest", """F(float *o, const float *a) { T;
  float b[4] = {-1e30f, -1e30f, -1e30f, -1e30f};
  for (int k = 0; k < 16; k++) { float x = a[t * 16 + k];
    UNROLL for (int j = 0; j < 4; j++) { float h = fmaxf(b[j], x); x = fminf(b[j], x); b[j] = h; } }
  *(float4 *)(o + 4 * t) = make_float4(b[0], b[1], b[2], b[3]); }""",
           (zeros(256, np.float32), floats("topk", 1024)), _largest, block=64),
    Kernel("median of nine", """__device__ void order(float &a, float &b) {
  float x = fminf(a, b); b = fmaxf(a, b); a = x; }
F(float *o, const float *a) { T; float v[9];
  UNROLL for (int k = 0; k < 9; k++) v[k] = a[t * 9 + k];
  UNROLL for (int r = 0; r < 9; r++) UNROLL for (int k = r & 1; k < 8; k += 2)
    order(v[k], v[k + 1]);
  o[t] = v[4]; }""", (zeros(96, np.float32), floats("median", 864)), _median, block=96),
    Kernel("merge by paths", """F(int *o, const int *a, const int *b) { T; int at = t * 8;
  int low = max(0, at - 512), high = min(at, 512);
  while (low < high) { int m = (low + high) / 2; if (a[m] <= b[at - 1 - m]) low = m + 1;
    else high = m; }
  int x = low, y = at - low; for (int k = 0; k < 8; k++) {
    bool first = y >= 512 || (x < 512 && a[x] <= b[y]); o[at + k] = first ? a[x++] : b[y++]; } }""",
           (zeros(1024, np.int32), np.sort(ints("merge a", 512, 0, 3000, np.int32)),
            np.sort(ints("merge b", 512, 0, 3000, np.int32))), _merged),
    Kernel("lower bounds", """F(int *o, const int *a, const int *q) { I; int low = 0, high = 1000;
  while (low < high) { int m = (low + high) >> 1; if (a[m] < q[i]) low = m + 1; else high = m; }
  o[i] = low; }""", (zeros(256, np.int32), _SORTED, ints("queries", 256, -10, 5100, np.int32)),
           lambda o, a, q: np.searchsorted(a, q).astype(np.int32), grid=2),
)  # fmt: skip
