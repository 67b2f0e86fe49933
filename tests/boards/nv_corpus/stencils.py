"""Grids, matrices and graphs: what each thread computes from its neighbours."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, rng, zeros


def _jacobi(o: Any, a: Any, rounds: Any) -> Any:
    grid, quarter = a.reshape(18, 18).copy(), np.float32(0.25)
    for _ in range(rounds):
        new = grid.copy()
        new[1:-1, 1:-1] = quarter * (
            ((grid[1:-1, :-2] + grid[1:-1, 2:]) + grid[:-2, 1:-1]) + grid[2:, 1:-1]
        )
        grid = new
    return grid.ravel()


def _life(o: Any, a: Any) -> Any:
    grid = a.reshape(16, 32)
    near = sum(np.roll(grid, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - grid
    return ((near == 3) | ((near == 2) & (grid == 1))).astype(np.uint8).ravel()


def _sobel(o: Any, a: Any) -> Any:
    g = np.pad(a.reshape(16, 32).astype(int), 1, mode="edge")
    x = sum(w * (g[r : r + 16, 2:] - g[r : r + 16, :-2]) for r, w in enumerate((1, 2, 1)))
    y = sum(w * (g[2:, c : c + 32] - g[:-2, c : c + 32]) for c, w in enumerate((1, 2, 1)))
    return np.minimum(np.abs(x) + np.abs(y), 255).astype(np.uint8).ravel()


def _seven(o: Any, a: Any) -> Any:
    g = np.pad(a.reshape(8, 8, 8), 1)
    m = slice(1, -1)
    total = g[m, m, m] * np.float32(-6)
    for axis in range(3):
        for step in (-1, 1):
            total = total + np.roll(g, step, axis)[m, m, m]
    return total.ravel()


def _aligned(o: Any, a: Any, b: Any) -> Any:
    score = np.zeros((33, 33), np.int32)
    score[0] = score[:, 0] = -2 * np.arange(33)
    for y in range(1, 33):
        for x in range(1, 33):
            same = 3 if a[y - 1] == b[x - 1] else -1
            score[y, x] = max(score[y - 1, x - 1] + same, score[y - 1, x] - 2, score[y, x - 1] - 2)
    return score[1:, 1:].ravel()


def _paths(o: Any) -> Any:
    d = o.reshape(16, 16).copy()
    for k in range(16):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d.ravel()


def _levels(levels: Any, starts: Any, ends: Any, changed: Any) -> Any:
    level = np.full(64, -1)
    level[0], front = 0, [0]
    while front:
        after = []
        for node in front:
            for end in ends[starts[node] : starts[node + 1]]:
                if level[end] < 0:
                    level[end] = level[node] + 1
                    after.append(end)
        front = after
    return level.astype(np.int32)


def _mandel(o: Any, n: Any) -> Any:
    x, y = np.meshgrid(np.arange(32), np.arange(8))
    cr = (x.astype("f4") * np.float32(0.09375) - np.float32(2)).ravel()
    ci = (y.astype("f4") * np.float32(0.25) - np.float32(1)).ravel()
    zr, zi, count = np.zeros_like(cr), np.zeros_like(ci), np.zeros(256, np.int32)
    for _ in range(n):
        with np.errstate(all="ignore"):
            inside = zr * zr + zi * zi <= 4
            new = zr * zr - zi * zi + cr
            zi = np.where(inside, np.float32(2) * zr * zi + ci, zi)
        zr, count = np.where(inside, new, zr), count + inside
    return count


def _bodies(o: Any, p: Any) -> Any:
    p = p.reshape(-1, 4).astype("f8")
    d = p[None, :, :3] - p[:, None, :3]
    r = (d * d).sum(2) + 0.01
    return (d * (p[None, :, 3] / r**1.5)[:, :, None]).sum(1).ravel()


def _sparse(o: Any, starts: Any, columns: Any, values: Any, x: Any) -> Any:
    return np.array(
        [(values[s:e].astype("f8") * x[columns[s:e]]).sum()
         for s, e in pairwise(starts)]
    )  # fmt: skip


def _graph() -> tuple[Any, Any]:
    generator = rng("graph")
    starts = np.concatenate(([0], np.cumsum(generator.integers(0, 4, 64)))).astype(np.int32)
    return starts, generator.integers(0, 64, int(starts[-1]), np.int32)


_STARTS, _ENDS = _graph()
_ROWS = np.arange(0, 65 * 5, 5, dtype=np.int32)
_CELLS = (ints("life", 512, 0, 3) == 0).astype(np.uint8)
KERNELS = (
    Kernel("rounds of Jacobi", """F(float *o, const float *a, int rounds) {
  __shared__ float s[2][18][18]; int x = threadIdx.x + 1, y = threadIdx.y + 1, p = 0;
  for (int k = threadIdx.y * 16 + threadIdx.x; k < 324; k += 256) { s[0][k / 18][k % 18] = a[k];
    s[1][k / 18][k % 18] = a[k]; }
  SYNC; for (int r = 0; r < rounds; r++) { s[p ^ 1][y][x] = 0.25f * (s[p][y][x - 1] + s[p][y][x + 1]
      + s[p][y - 1][x] + s[p][y + 1][x]); p ^= 1; SYNC; }
  for (int k = threadIdx.y * 16 + threadIdx.x; k < 324; k += 256) o[k] = s[p][k / 18][k % 18]; }""",
           (zeros(324, np.float32), floats("jacobi", 324), 5), _jacobi, block=(16, 16, 1)),
    Kernel("game of life", """F(u8 *o, const u8 *a) { int x = threadIdx.x, y = threadIdx.y, n = 0;
  for (int dy = -1; dy <= 1; dy++) for (int dx = -1; dx <= 1; dx++)
    n += a[((y + dy) & 15) * 32 + ((x + dx) & 31)];
  int me = a[y * 32 + x]; n -= me; o[y * 32 + x] = n == 3 || (n == 2 && me); }""",
           (zeros(512, np.uint8), _CELLS), _life, block=(32, 16, 1)),
    Kernel("edges of a picture", """F(u8 *o, const u8 *a) { int x = threadIdx.x, y = threadIdx.y;
  auto at = [&](int v, int u) { return (int)a[min(max(v, 0), 15) * 32 + min(max(u, 0), 31)]; };
  int gx = at(y-1, x+1) + 2*at(y, x+1) + at(y+1, x+1) - at(y-1, x-1) - 2*at(y, x-1) - at(y+1, x-1);
  int gy = at(y+1, x-1) + 2*at(y+1, x) + at(y+1, x+1) - at(y-1, x-1) - 2*at(y-1, x) - at(y-1, x+1);
  o[y * 32 + x] = min(abs(gx) + abs(gy), 255); }""",
           (zeros(512, np.uint8), ints("sobel", 512, 0, 256, np.uint8)), _sobel, block=(32, 16, 1)),
    Kernel("seven points", """F(float *o, const float *a) { int x = threadIdx.x, y = threadIdx.y,
  z = threadIdx.z; auto at = [&](int k, int j, int i) {
    return (unsigned)k < 8 && (unsigned)j < 8 && (unsigned)i < 8 ? a[(k * 8 + j) * 8 + i] : 0.f; };
  float s = at(z, y, x) * -6.f; s += at(z - 1, y, x); s += at(z + 1, y, x); s += at(z, y - 1, x);
  s += at(z, y + 1, x); s += at(z, y, x - 1); s += at(z, y, x + 1); o[(z * 8 + y) * 8 + x] = s; }
""", (zeros(512, np.float32), ints("seven", 512, -9, 9, np.int32).astype(np.float32)), _seven,
           block=(8, 8, 8)),
    Kernel("transposed by tiles", """F(double *o, const double *a, int n) {
  __shared__ double s[16][17]; int bx = blockIdx.x & 1, by = blockIdx.x >> 1, x = threadIdx.x,
  y = threadIdx.y; s[y][x] = a[(by * 16 + y) * n + bx * 16 + x]; SYNC;
  o[(bx * 16 + y) * n + by * 16 + x] = s[x][y]; }""",
           (zeros(1024, np.float64), floats("turn", 1024, dtype=np.float64), 32),
           lambda o, a, n: a.reshape(n, n).T.ravel(), grid=4, block=(16, 16, 1)),
    Kernel("product of matrices", """F(float *o, const float *a, const float *b, int n) {
  __shared__ float s[16][16], r[16][16]; int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.x / 2 * 16 + y, col = blockIdx.x % 2 * 16 + x; float c = 0;
  for (int k = 0; k < n; k += 16) { s[y][x] = a[row * n + k + x]; r[y][x] = b[(k + y) * n + col];
    SYNC; for (int j = 0; j < 16; j++) c = fmaf(s[y][j], r[j][x], c); SYNC; }
  o[row * n + col] = c; }""", (zeros(1024, np.float32), floats("ma", 1024), floats("mb", 1024), 32),
           lambda o, a, b, n: (a.reshape(n, n).astype("f8") @ b.reshape(n, n)).ravel(), grid=4,
           block=(16, 16, 1), rtol=1e-4),
    Kernel("alignment of two strings", """F(int *o, const u8 *a, const u8 *b) {
  __shared__ int s[33][33]; T; s[t + 1][0] = -2 * (t + 1); s[0][t + 1] = -2 * (t + 1);
  if (t == 0) s[0][0] = 0; SYNC;
  for (int d = 0; d < 63; d++) { int y = t + 1, x = d - t + 1; if (x >= 1 && x <= 32) {
      int same = a[y - 1] == b[x - 1] ? 3 : -1;
      s[y][x] = max(s[y - 1][x - 1] + same, max(s[y - 1][x], s[y][x - 1]) - 2); } SYNC; }
  for (int x = 0; x < 32; x++) o[t * 32 + x] = s[t + 1][x + 1]; }""",
           (zeros(1024, np.int32), ints("nw a", 32, 65, 69, np.uint8),
            ints("nw b", 32, 65, 69, np.uint8)), _aligned, block=32),
    Kernel("shortest paths", """F(int *o) { __shared__ int s[16][16]; int x = threadIdx.x,
  y = threadIdx.y; s[y][x] = o[y * 16 + x]; SYNC; for (int k = 0; k < 16; k++) {
    int v = min(s[y][x], s[y][k] + s[k][x]); SYNC; s[y][x] = v; SYNC; }
  o[y * 16 + x] = s[y][x]; }""", (ints("floyd", 256, 1, 90, np.int32),), _paths,
           block=(16, 16, 1)),
    Kernel("levels of a graph", """F(int *level, const int *starts, const int *ends, int *changed) {
  __shared__ int more; T; level[t] = t ? -1 : 0; SYNC; int d = 0;
  do { if (t == 0) more = 0; SYNC;
    if (level[t] == d) for (int k = starts[t]; k < starts[t + 1]; k++)
      if (atomicCAS(level + ends[k], -1, d + 1) == -1) more = 1;
    SYNC; d++; int again = more; SYNC; if (!again) break; } while (d < 64);
  if (t == 0) *changed = d; }""", (zeros(64, np.int32), _STARTS, _ENDS, zeros(1, np.int32)),
           _levels, block=64),
    Kernel("points of Mandelbrot", """F(int *o, int n) { T; int x = t & 31, y = t >> 5, c = 0;
  float cr = x * 0.09375f - 2.f, ci = y * 0.25f - 1.f, zr = 0, zi = 0;
  while (c < n && zr * zr + zi * zi <= 4.f) { float v = zr * zr - zi * zi + cr;
    zi = 2.f * zr * zi + ci; zr = v; c++; } o[t] = c; }""", (zeros(256, np.int32), 40), _mandel,
           block=256),
    Kernel("forces of bodies", """F(float *o, const float4 *p) { __shared__ float4 s[64]; T;
  s[t] = p[t]; SYNC; float4 me = s[t]; float x = 0, y = 0, z = 0;
  for (int k = 0; k < 64; k++) { float4 b = s[k]; float dx = b.x - me.x, dy = b.y - me.y,
      dz = b.z - me.z, r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), w = b.w * r * r * r;
    x += dx * w; y += dy * w; z += dz * w; }
  o[3 * t] = x; o[3 * t + 1] = y; o[3 * t + 2] = z; }""",
           (zeros(192, np.float32), floats("bodies", 256, 0, 3)), _bodies, block=64, rtol=2e-3),
    Kernel("product with a sparse matrix", """F(float *o, const int *starts, const int *columns,
    const float *values, const float *x) { int row = threadIdx.x / 4, lane = threadIdx.x % 4;
  float s = 0; for (int k = starts[row] + lane; k < starts[row + 1]; k += 4)
    s = fmaf(values[k], x[columns[k]], s);
  s += __shfl_down_sync(ALL, s, 2, 4); s += __shfl_down_sync(ALL, s, 1, 4);
  if (lane == 0) o[row] = s; }""",
           (zeros(64, np.float32), _ROWS, ints("spmv c", 320, 0, 64, np.int32),
            floats("spmv v", 320), floats("spmv x", 64)), _sparse, block=256, rtol=1e-4),
    Kernel("filter with constants", """__constant__ float w[7] = {1, 6, 15, 20, 15, 6, 1};
F(float *o, const float *a, int n) { I; float s = 0;
  UNROLL for (int k = -3; k <= 3; k++) { int j = i + k;
    if (j >= 0 && j < n) s += a[j] * w[k + 3]; }
  o[i] = s * 0.015625f; }""", (zeros(256, np.float32), ints("binomial", 256, 0, 99).astype("f4"),
                               256),
           lambda o, a, n: np.convolve(a, [1, 6, 15, 20, 15, 6, 1], "same") / 64, grid=2),
    Kernel("elimination of Gauss", """F(double *o, const double *a) { __shared__ double s[8][9]; T;
  int y = t / 9, x = t % 9; s[y][x] = a[t]; SYNC;
  for (int k = 0; k < 8; k++) { double f = s[y][k] / s[k][k], p = s[k][x], q = s[k][k]; SYNC;
    if (y != k) s[y][x] -= f * p; else s[y][x] = p / q; SYNC; }
  if (x == 8) o[y] = s[y][8]; }""",
           (zeros(8, np.float64), (floats("gauss", 72, dtype=np.float64).reshape(8, 9)
                                   + 9 * np.eye(8, 9)).ravel()),
           lambda o, a: np.linalg.solve(a.reshape(8, 9)[:, :8], a.reshape(8, 9)[:, 8]), block=72,
           rtol=1e-11),
)  # fmt: skip
