"""Copies beside the code, barriers in shared memory, and what Hopper adds."""

from __future__ import annotations

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, zeros

_BARRIER = """__device__ void init(u64 *b, u32 n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(SHARED(b)), "r"(n) : "memory"); }
__device__ u64 arrive(u64 *b) { u64 s;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(SHARED(b)) : "memory");
  return s; }
__device__ bool test(u64 *b, u64 s) { u32 p;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
    : "=r"(p) : "r"(SHARED(b)), "l"(s) : "memory"); return p; }
"""
_TRY = """__device__ bool waits(u64 *b, u32 parity) { u32 p;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
    " selp.u32 %0, 1, 0, p; }" : "=r"(p) : "r"(SHARED(b)), "r"(parity) : "memory"); return p; }
"""
_COPY = """__device__ void copy(void *to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(SHARED(to)), "l"(from)
    : "memory"); }
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""
KERNELS = (
    Kernel("two buffers", _COPY + """F(float *o, const float *a, int n) {
  __shared__ float s[2][128];
  T; copy(&s[0][t], a + t); commit(); float sum = 0;
  for (int k = 0; k < n; k++) { if (k + 1 < n) copy(&s[(k + 1) & 1][t], a + (k + 1) * 128 + t);
    commit(); asm volatile("cp.async.wait_group 1;" ::: "memory"); SYNC;
    sum += s[k & 1][127 - t] * (k + 1); SYNC; }
  o[t] = sum; }""", (zeros(128, np.float32), ints("copies", 640, 0, 99).astype(np.float32), 5),
           lambda o, a, n: (a.reshape(n, 128)[:, ::-1] * np.arange(1, n + 1)[:, None]).sum(0),
           least=80),
    Kernel("four stages", _COPY + """F(u32 *o, const u32 *a, int n) { __shared__ u32 s[4][64]; T;
  for (int k = 0; k < 3; k++) { copy(&s[k][t], a + k * 64 + t); commit(); } u32 x = 0;
  for (int k = 0; k < n; k++) { asm volatile("cp.async.wait_group 2;" ::: "memory"); SYNC;
    if (k + 3 < n) copy(&s[(k + 3) & 3][t], a + (k + 3) * 64 + t); commit();
    x = x * 3 + s[k & 3][t ^ 33]; SYNC; }
  o[t] = x; }""", (zeros(64), ints("stages", 576), 9),
           lambda o, a, n: sum(a.reshape(n, 64)[k] * np.uint32(3 ** (n - 1 - k))
                               for k in range(n))[np.arange(64) ^ 33], block=64, least=80),
    Kernel("copies of 16 bytes, some zeros", """F(uint4 *o, const uint4 *a, int n) {
  __shared__ uint4 s[64]; T; asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
    :: "r"(SHARED(s + t)), "l"(a + t), "r"(t < n ? 16 : 0) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory"); SYNC; o[t] = s[63 - t]; }""",
           (zeros(256), ints("sixteen", 256), 40),
           lambda o, a, n: np.where(np.arange(64)[:, None] < n, a.reshape(64, 4), 0)[::-1].ravel(),
           block=64, least=80),
    Kernel("a barrier in shared memory", _BARRIER + """F(u32 *o, const u32 *a) {
  __shared__ u32 s[128]; __shared__ u64 b; T; if (t == 0) init(&b, 128); SYNC; u32 x = a[t];
  for (int k = 0; k < 3; k++) { s[t] = x; u64 token = arrive(&b); while (!test(&b, token)) {}
    u32 y = s[(t + 33) & 127]; token = arrive(&b); while (!test(&b, token)) {} x = x * 5 + y; }
  o[t] = x; }""", (zeros(128), ints("mbarrier", 128)),
           lambda o, a: _three(a), least=80),
    Kernel("a barrier that copies arrive at", _BARRIER + _COPY + """F(u32 *o, const u32 *a) {
  __shared__ u32 s[64]; __shared__ u64 b; T; if (t == 0) init(&b, 64); SYNC; copy(s + t, a + t);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(SHARED(&b)) : "memory");
  while (!test(&b, 0)) { asm volatile("" ::: "memory"); if (o[64] > 5) break; }
  o[t] = s[63 - t]; }""".replace("while (!test(&b, 0)) {", """u32 p = 0; while (!p) {
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
      " selp.u32 %0, 1, 0, p; }" : "=r"(p) : "r"(SHARED(&b)) : "memory");"""),
           (zeros(65), ints("noinc", 64)), lambda o, a: np.append(a[::-1], 0), block=64, least=80),
    Kernel("makers and takers", _BARRIER + _TRY + """F(u32 *o, const u32 *a, int n) {
  __shared__ u32 s[2][32]; __shared__ u64 full[2], empty[2]; T; int l = t & 31;
  if (t == 0) for (int k = 0; k < 2; k++) { init(full + k, 32); init(empty + k, 32); } SYNC;
  if (t < 32) { for (int k = 0; k < n; k++) { int i = k & 1;
      if (k >= 2) while (!waits(empty + i, (k / 2 - 1) & 1)) {}
      s[i][l] = a[k * 32 + l] + k; arrive(full + i); }
  } else { u32 x = 0; for (int k = 0; k < n; k++) { int i = k & 1;
      while (!waits(full + i, (k / 2) & 1)) {} x = x * 7 + s[i][31 - l]; arrive(empty + i); }
    o[l] = x; } }""", (zeros(32), ints("makers", 192), 6),
           lambda o, a, n: sum((a.reshape(n, 32)[k, ::-1] + np.uint32(k))
                               * np.uint32(7 ** (n - 1 - k)) for k in range(n)),
           block=64, least=90),
    Kernel("one lane is elected", """F(u32 *o) { T; u32 p, lane; asm volatile(
    "{ .reg .pred p; elect.sync %1|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(p), "=r"(lane));
  u32 n = __popc(__ballot_sync(ALL, p)); o[t] = n * 100 + (lane < 32) + (p && lane != (t & 31));
  }""",
           (zeros(64),), lambda o: np.full(64, 101), block=64, least=90),
    Kernel("launches that follow", """F(u32 *o, const u32 *a) {
  asm volatile("griddepcontrol.wait;" ::: "memory"); T; o[t] = a[t] * 2;
  asm volatile("griddepcontrol.launch_dependents;"); }""", (zeros(64), ints("pdl", 64)),
           lambda o, a: a * 2, block=64, least=90),
    Kernel("bytes that a barrier expects", _BARRIER + _TRY + """F(u32 *o, const u32 *a) {
  __shared__ alignas(16) u32 s[64]; __shared__ u64 b; T; if (t == 0) { init(&b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); } SYNC;
  if (t == 0) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;"
      :: "r"(SHARED(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1],"
      " 256, [%2];" :: "r"(SHARED(s)), "l"(a), "r"(SHARED(&b)) : "memory"); }
  while (!waits(&b, 0)) {} o[t] = s[t ^ 5]; }""", (zeros(64), ints("bulk", 64)),
           lambda o, a: a[np.arange(64) ^ 5], block=64, least=90),
    Kernel("loads of every width", """F(u8 *o, const u8 *a) { T; int k = t * 16;
  uint4 v = *(uint4 *)(a + k);
  *(uint2 *)(o + k) = *(uint2 *)(a + k + 8); *(u32 *)(o + k + 8) = v.x;
  *(u16 *)(o + k + 12) = *(const volatile u16 *)(a + k + 4); o[k + 14] = __ldg(a + k + 6);
  o[k + 15] = (signed char)__ldcs((const signed char *)a + k + 7) >> 1; }""",
           (zeros(1024, np.uint8), ints("widths", 1024, 0, 256, np.uint8)),
           lambda o, a: _widths(a), block=64),
    Kernel("which memory an address is of", """__constant__ int c[4] = {1, 2, 3, 4};
F(int *o, const int *a, int k) { __shared__ int s[64]; T; int v[4] = {t, 2 * t, 3 * t, 4 * t};
  s[t] = a[t]; SYNC; v[k] += 5; const int *p = t % 3 == 0 ? s + t : t % 3 == 1 ? a + 63 - t
    : v + (t & 3);
  o[t] = *p + 1000 * __isShared(p) + 2000 * __isGlobal(p) + 4000 * __isLocal(p); }""",
           (zeros(64, np.int32), ints("which", 64, 0, 99, np.int32), 2),
           lambda o, a, k: np.array([
               (a[t] + 1000, a[63 - t] + 2000, t * ((t & 3) + 1) + 5 * ((t & 3) == k) + 4000)[t % 3]
               for t in range(64)]), block=64),
    Kernel("a clock that goes on", """F(u32 *o, const float *a) { T; u32 c = clock();
  i64 d = clock64();
  float x = a[t]; for (int k = 0; k < 10; k++) x = x * x + 1; u32 e = clock(); i64 f = clock64();
  o[t] = (int)(e - c) > 0 && f > d && x > 0; }""", (zeros(64), floats("clock", 64)),
           lambda o, a: np.ones(64), block=64),
)  # fmt: skip


def _three(a: np.ndarray) -> np.ndarray:
    x = a.copy()
    for _ in range(3):
        x = x * np.uint32(5) + np.roll(x, -33)
    return x


def _widths(a: np.ndarray) -> np.ndarray:
    x = a.reshape(64, 16)
    last = (x[:, 7].view(np.int8) >> 1).view(np.uint8)
    return np.column_stack((x[:, 8:16], x[:, 0:4], x[:, 4:6], x[:, 6], last)).ravel()
