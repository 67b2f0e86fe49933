"""Scans, reductions and what is built of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, zeros


def _warps(values: Any) -> Any:
    return values.reshape(-1, 32)


def _segmented(o: Any, a: Any, heads: Any) -> Any:
    out = a.copy()
    for n in range(len(a)):
        if n % 32 and not heads[n]:
            out[n] += out[n - 1]
    return out


def _tree(o: Any, a: Any) -> Any:
    """Sums of halves that are folded: the order of the kernel."""
    part = a.copy()
    while len(part) > 1:
        half = len(part) // 2
        part = part[:half] + part[half:]
    return part


def _compacted(o: Any, count: Any, a: Any) -> Any:
    kept = a[a % 3 == 0]
    return np.concatenate((kept, np.zeros(len(o) - len(kept), np.uint32))), np.array(
        [len(kept)], np.uint32
    )


def _argmax(o: Any, a: Any) -> Any:
    return np.array([a.max(), a.argmax()], np.int32)


def _runs(o: Any, a: Any) -> Any:
    heads = np.flatnonzero(np.diff(a, prepend=a[0] + 1))
    lengths = np.diff(np.append(heads, len(a)))
    out = np.zeros(len(o), np.int32)
    out[: len(lengths)] = lengths
    return out


def _kahan(o: Any, a: Any) -> Any:
    rows, total, lost = a.reshape(-1, 32), np.zeros(32, np.float32), np.zeros(32, np.float32)
    for row in rows:
        y = row - lost
        new = total + y
        lost = (new - total) - y
        total = new
    return total


_LOOKBACK = """
F(u32 *o, const u32 *a, volatile u32 *flags, volatile u32 *sums) {
  __shared__ u32 s[128]; __shared__ u32 before; T; I;
  s[t] = a[i]; SYNC;
  for (int d = 1; d < 128; d *= 2) { u32 v = t >= d ? s[t - d] : 0; SYNC; s[t] += v; SYNC; }
  if (t == 0) {
    u32 total = 0;
    if (blockIdx.x) { while (flags[blockIdx.x - 1] == 0) {} __threadfence();
      total = sums[blockIdx.x - 1]; }
    before = total; sums[blockIdx.x] = total + s[127]; __threadfence(); flags[blockIdx.x] = 1;
  }
  SYNC; o[i] = before + s[t];
}"""
KERNELS = (
    Kernel("scan of Hillis and Steele", """F(u32 *o, const u32 *a) {
  __shared__ u32 s[2][256]; T; int p = 0; s[0][t] = a[t]; SYNC;
  for (int d = 1; d < 256; d <<= 1) { int q = p ^ 1;
    s[q][t] = s[p][t] + (t >= d ? s[p][t - d] : 0); p = q; SYNC; }
  o[t] = s[p][t]; }""", (zeros(256), ints("hs", 256)),
           lambda o, a: np.cumsum(a, dtype=np.uint32), block=256),
    Kernel("scan of Blelloch", """F(u32 *o, const u32 *a) {
  __shared__ u32 s[256]; T; s[2 * t] = a[2 * t]; s[2 * t + 1] = a[2 * t + 1]; int off = 1;
  for (int d = 128; d > 0; d >>= 1) { SYNC;
    if (t < d) s[off * (2 * t + 2) - 1] += s[off * (2 * t + 1) - 1]; off *= 2; }
  if (t == 0) s[255] = 0;
  for (int d = 1; d < 256; d *= 2) { off >>= 1; SYNC; if (t < d) {
    int p = off * (2 * t + 1) - 1, q = off * (2 * t + 2) - 1; u32 v = s[p]; s[p] = s[q];
    s[q] += v; } }
  SYNC; o[2 * t] = s[2 * t]; o[2 * t + 1] = s[2 * t + 1]; }""", (zeros(256), ints("bl", 256)),
           lambda o, a: np.cumsum(a, dtype=np.uint32) - a),
    Kernel("scan by shuffles", """F(u32 *o, const u32 *a) {
  __shared__ u32 s[32]; T; u32 v = a[t]; int lane = t & 31, w = t >> 5;
  for (int d = 1; d < 32; d *= 2) { u32 x = __shfl_up_sync(ALL, v, d); if (lane >= d) v += x; }
  if (lane == 31) s[w] = v; SYNC;
  if (w == 0) { u32 x = lane < blockDim.x / 32 ? s[lane] : 0, y = x;
    for (int d = 1; d < 32; d *= 2) { u32 z = __shfl_up_sync(ALL, y, d); if (lane >= d) y += z; }
    s[lane] = y - x; }
  SYNC; o[t] = v + s[w]; }""", (zeros(512), ints("sh", 512)),
           lambda o, a: np.cumsum(a, dtype=np.uint32), block=512),
    Kernel("segmented scan", """F(u32 *o, const u32 *a, const u8 *heads) { I;
  int lane = threadIdx.x & 31; u32 v = a[i];
  u32 starts = __ballot_sync(ALL, heads[i]) | 1;
  int first = 31 - __clz(starts & (ALL >> (31 - lane)));
  for (int d = 1; d < 32; d *= 2) { u32 x = __shfl_up_sync(ALL, v, d);
    if (lane - d >= first) v += x; }
  o[i] = v; }""", (zeros(256), ints("seg", 256), (ints("segh", 256) % 5 == 0).astype(np.uint8)),
           _segmented, grid=2),
    Kernel("scan that waits for the block before", _LOOKBACK,
           (zeros(1024), ints("look", 1024), zeros(8), zeros(8)),
           lambda o, a, f, s: np.cumsum(a, dtype=np.uint32), grid=8),
    Kernel("compaction by votes", """F(u32 *o, u32 *count, const u32 *a) {
  __shared__ u32 s[4]; T; int lane = t & 31, w = t >> 5; bool keep = a[t] % 3 == 0;
  u32 votes = __ballot_sync(ALL, keep); if (lane == 0) s[w] = __popc(votes); SYNC;
  u32 at = __popc(votes & ((1u << lane) - 1)); for (int k = 0; k < w; k++) at += s[k];
  if (keep) o[at] = a[t]; if (t == 127) *count = at + keep; }""",
           (zeros(128), zeros(1), ints("compact", 128)), _compacted),
    Kernel("sum by folding", """F(float *o, const float *a) {
  __shared__ float s[128]; T; s[t] = a[t] + a[t + 128]; SYNC;
  for (int d = 64; d > 0; d >>= 1) { if (t < d) s[t] += s[t + d]; SYNC; }
  if (t == 0) *o = s[0]; }""", (zeros(1, np.float32), floats("fold", 256)), _tree),
    Kernel("sum by the last block", """F(u32 *o, const u32 *a, u32 *part, u32 *ticket) {
  __shared__ u32 s; __shared__ bool last; I;
  if (threadIdx.x == 0) s = 0; SYNC; atomicAdd(&s, a[i]); SYNC;
  if (threadIdx.x == 0) { part[blockIdx.x] = s; __threadfence();
    last = atomicInc(ticket, gridDim.x) == gridDim.x - 1; }
  SYNC; if (last && threadIdx.x == 0) { u32 x = 0; volatile u32 *p = part;
    for (int k = 0; k < gridDim.x; k++) x += p[k]; *o = x; } }""",
           (zeros(1), ints("last", 768), zeros(6), zeros(1)),
           lambda o, a, p, k: np.array([a.sum(dtype=np.uint32)]), grid=6),
    Kernel("largest and its place", """F(int *o, const int *a) { T;
  u64 v = (u64)(u32)(a[t] ^ 0x80000000) << 32 | (u32)(255 - t);
  for (int d = 16; d; d /= 2) { u64 x = __shfl_xor_sync(ALL, v, d); v = x > v ? x : v; }
  __shared__ u64 s[8]; if (t % 32 == 0) s[t / 32] = v; SYNC;
  if (t == 0) { for (int k = 1; k < 8; k++) v = max(v, s[k]);
    o[0] = (int)(v >> 32) ^ 0x80000000; o[1] = 255 - (int)(u32)v; } }""",
           (zeros(2, np.int32), ints("argmax", 256, -(1 << 31), 1 << 31, np.int32)), _argmax,
           block=256),
    Kernel("largest so far, 64 bits", """F(i64 *o, const i64 *a) { T; i64 v = a[t];
  for (int d = 1; d < 32; d *= 2) { i64 x = __shfl_up_sync(ALL, v, d);
    if ((t & 31) >= d) v = max(v, x); }
  o[t] = v; }""", (zeros(128, np.int64), ints("max64", 128, -(1 << 60), 1 << 60, np.int64)),
           lambda o, a: np.maximum.accumulate(_warps(a), axis=1).ravel()),
    Kernel("lengths of runs", """F(int *o, const int *a) { __shared__ int heads[128], places[129];
  __shared__ int count; T; bool head = t == 0 || a[t] != a[t - 1]; heads[t] = head; SYNC;
  if (t == 0) { int n = 0; for (int k = 0; k < 128; k++) if (heads[k]) places[n++] = k;
    places[n] = 128; count = n; }
  SYNC; if (t < count) o[t] = places[t + 1] - places[t]; }""",
           (zeros(128, np.int32), np.sort(ints("runs", 128, 0, 20, np.int32))), _runs),
    Kernel("sums with what rounding lost", """F(float *o, const float *a) { T;
  float s = 0, c = 0; for (int k = 0; k < 50; k++) { float y = a[k * 32 + t] - c, n = s + y;
    c = (n - s) - y; s = n; } o[t] = s; }""", (zeros(32, np.float32), floats("kahan", 1600)),
           _kahan, block=32),
    Kernel("mean and variance", """F(float *o, const float *a, int n) { T;
  float mean = 0, m2 = 0; for (int k = 0; k < n; k++) { float x = a[k * 32 + t], d = x - mean;
    mean += d / (k + 1); m2 += d * (x - mean); } o[t] = mean; o[32 + t] = m2 / n; }""",
           (zeros(64, np.float32), floats("welford", 640), 20),
           lambda o, a, n: np.concatenate((a.reshape(n, 32).astype("f8").mean(0),
                                           a.reshape(n, 32).astype("f8").var(0))),
           block=32, rtol=1e-4),
    Kernel("count by syncthreads_count", """F(int *o, const int *a) { T; int n = 0;
  for (int bit = 0; bit < 8; bit++) n = n * 3 + __syncthreads_count(a[t] >> bit & 1);
  int x = __syncthreads_or(a[t] > 250), y = __syncthreads_and(a[t] < 300);
  o[t] = n + 7 * (x != 0) + 11 * (y != 0); }""", (zeros(128, np.int32),
                                                  ints("count", 128, 0, 256, np.int32)),
           lambda o, a: np.full(128, sum(int((a >> b & 1).sum()) * 3 ** (7 - b) for b in range(8))
                                + 7 * bool((a > 250).any()) + 11, np.int32)),
    Kernel("softmax of rows", """F(float *o, const float *a) { __shared__ float s[4]; T;
  float x = a[blockIdx.x * 128 + t], m = x;
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(ALL, m, d));
  if (t % 32 == 0) s[t / 32] = m; SYNC; m = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3])); SYNC;
  float e = expf(x - m), z = e; for (int d = 16; d; d /= 2) z += __shfl_xor_sync(ALL, z, d);
  if (t % 32 == 0) s[t / 32] = z; SYNC; z = s[0] + s[1] + s[2] + s[3];
  o[blockIdx.x * 128 + t] = e / z; }""", (zeros(384, np.float32), floats("softmax", 384)),
           lambda o, a: (np.exp(a.reshape(3, -1).astype("f8"))
                         / np.exp(a.reshape(3, -1).astype("f8")).sum(1)[:, None]).ravel(),
           grid=3, rtol=2e-5),
)  # fmt: skip
