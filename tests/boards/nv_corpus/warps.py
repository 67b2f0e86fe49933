"""Lanes that part, meet, and speak to each other; calls, jumps, recursion."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, floats, ints, zeros

_LANE = np.arange(128)


def _parted(o: Any, a: Any) -> Any:
    out = np.zeros(128, np.uint32)
    for first in range(0, 128, 32):
        even, odd = a[first : first + 32 : 2], a[first + 1 : first + 32 : 2]
        out[first : first + 32 : 2] = even.sum(dtype=np.uint32)
        out[first + 1 : first + 32 : 2] = odd.max()
    return out


def _collatz(o: Any) -> Any:
    out = []
    for n in range(1, 129):
        steps = 0
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps += 1
        out.append(steps)
    steps = np.array(out)
    return steps + np.repeat(steps.reshape(-1, 32).max(1), 32)


def _coalesced(o: Any, a: Any) -> Any:
    out = np.zeros(128, np.uint32)
    for w in range(4):
        here = a[32 * w : 32 * w + 32] % 3 == 0
        for rank, lane in enumerate(np.flatnonzero(here)):
            out[32 * w + lane] = 100 * here.sum() + rank
    return out


def _ackermann(o: Any) -> Any:
    def of(m: int, n: int) -> int:
        if m == 0:
            return n + 1
        return of(m - 1, 1 if n == 0 else of(m, n - 1))

    return np.array([of(t % 3, t % 4) for t in range(32)])


def _states(o: Any, text: Any) -> Any:
    """How many words and numbers a text of 32 bytes has: words are letters, numbers digits."""
    out = []
    for row in text.reshape(-1, 32):
        state, words, numbers = 0, 0, 0
        for byte in row:
            kind = 1 if 97 <= byte < 123 else 2 if 48 <= byte < 58 else 0
            words += kind == 1 and state != 1
            numbers += kind == 2 and state != 2
            state = kind
        out.append(words * 256 + numbers)
    return np.array(out)


def _turned(o: Any, a: Any) -> Any:
    return a.reshape(-1, 32, 8).transpose(0, 2, 1).ravel()


def _programs(o: Any, code: Any, a: Any) -> Any:
    value = a.astype(object)
    for op in code:
        value = {0: value + 7, 1: value * 3, 2: value ^ 0x55, 3: value << 2, 4: value - value // 5,
                 5: ~value & 0xFFFFFFFF}[int(op)] & 0xFFFFFFFF  # fmt: skip
    return value.astype(np.uint32)


def _votes(o: Any, a: Any) -> Any:
    rows = a.reshape(-1, 32)
    out = ((rows > 3).all(1) + 2 * (rows > 250).any(1) + 4 * (((rows & 64) != 0).sum(1) % 32 == 0)
           + 8 * ((rows & 1) << np.arange(32)).sum(1))  # fmt: skip
    return np.repeat(out & 0xFFFFFFFF, 32)


def _scattered(o: Any, a: Any) -> Any:
    return a.reshape(-1, 32)[np.arange(4)[:, None], (a.reshape(-1, 32) >> 3) % 32].ravel()


_MATCHED = (ints("match", 128, 0, 6), np.repeat(ints("all", 4), 32).astype(np.uint64) << 20)


def _matched(o: Any, a: Any, b: Any) -> Any:
    out = []
    for lane in range(128):
        w = lane // 32 * 32
        out.append((sum(1 << k for k in range(32) if a[w + k] == a[lane]) + 0xFFFFFFFF + 1) % 2**32)
    return np.array(out, np.uint32)


KERNELS = (
    Kernel("shuffles in two branches", """F(u32 *o, const u32 *a) { T; u32 v = a[t];
  if (t & 1) { for (int d = 16; d > 1; d /= 2) v = max(v, __shfl_xor_sync(0xaaaaaaaa, v, d)); }
  else { for (int d = 16; d > 1; d /= 2) v += __shfl_xor_sync(0x55555555, v, d); }
  o[t] = v; }""", (zeros(128), ints("parted", 128)), _parted),
    Kernel("loops of different lengths", """F(int *o) { T; int n = t + 1, c = 0;
  while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; c++; } __syncwarp(); int m = c;
  for (int d = 16; d; d /= 2) m = max(m, __shfl_xor_sync(ALL, m, d)); o[t] = c + m; }""",
           (zeros(128, np.int32),), _collatz),
    Kernel("ranks of who is here", """F(u32 *o, const u32 *a) { T; o[t] = 0; if (a[t] % 3 == 0) {
    u32 here = __activemask(), rank = __popc(here & ((1u << (t & 31)) - 1));
    o[t] = 100 * __popc(here) + rank; } }""", (zeros(128), ints("here", 128)), _coalesced),
    Kernel("reductions of a warp", """F(u32 *o, const u32 *a) { T; u32 v = a[t];
  o[t] = __reduce_add_sync(ALL, v) ^ __reduce_min_sync(ALL, v) ^ __reduce_max_sync(ALL, v)
    ^ __reduce_and_sync(ALL, v | 15) ^ __reduce_or_sync(ALL, v & 0xff00) ^ __reduce_xor_sync(ALL, v)
    ^ (u32)__reduce_min_sync(ALL, (int)v) ^ (u32)__reduce_max_sync(ALL, (int)v); }""",
           (zeros(128), ints("redux", 128)), lambda o, a: np.repeat(np.array(
               [int(r.sum(dtype="u4")) ^ int(r.min()) ^ int(r.max())
                ^ int(np.bitwise_and.reduce(r | 15)) ^ int(np.bitwise_or.reduce(r & 0xFF00))
                ^ int(np.bitwise_xor.reduce(r)) ^ int(r.view("i4").min()) % 2**32
                ^ int(r.view("i4").max()) % 2**32 for r in a.reshape(-1, 32)], np.uint32), 32),
           least=80),
    Kernel("reductions of half a warp", """F(u32 *o, const u32 *a) { T; u32 v = a[t];
  if ((t & 31) < 16) o[t] = __reduce_add_sync(0xffff, v);
  else o[t] = __reduce_max_sync(0xffff0000, v); }""", (zeros(128), ints("half redux", 128)),
           lambda o, a: np.concatenate([np.repeat([r[:16].sum(dtype="u4"), r[16:].max()], 16)
                                        for r in a.reshape(-1, 32)]), least=80),
    Kernel("lanes that agree", """F(u32 *o, const u32 *a, const u64 *b) { T; int all;
  u32 any = __match_any_sync(ALL, a[t]), same = __match_all_sync(ALL, b[t], &all);
  o[t] = any + same + all; }""", (zeros(128), *_MATCHED), _matched),
    Kernel("votes", """F(u32 *o, const u32 *a) { T; u32 v = a[t];
  o[t] = __all_sync(ALL, v > 3) + 2 * __any_sync(ALL, v > 250) + 4 * __uni_sync(ALL, v & 64)
    + 8 * __ballot_sync(ALL, v & 1); }""".replace("__uni_sync(ALL, v & 64)",
                                                 "(__ballot_sync(ALL, v & 64) + 1 < 2)"),
           (zeros(128), ints("votes", 128, 0, 256)), _votes),
    Kernel("lanes read what they like", """F(u32 *o, const u32 *a) { T;
  o[t] = __shfl_sync(ALL, a[t], (a[t] >> 3) % 32); }""", (zeros(128), ints("like", 128)),
           _scattered),
    Kernel("tiles of eight lanes", """F(float *o, const float *a) { T; float v = a[t];
  for (int d = 4; d; d /= 2) v += __shfl_down_sync(ALL, v, d, 8);
  float w = __shfl_sync(ALL, v, 0, 8), x = __shfl_up_sync(ALL, a[t], 3, 8);
  o[t] = w + 1000 * x; }""",
           (zeros(128, np.float32), ints("tiles", 128, 0, 50).astype(np.float32)),
           lambda o, a: (np.repeat(a.reshape(-1, 8).sum(1), 8) + 1000 * a[np.where(
               _LANE % 8 >= 3, _LANE - 3, _LANE)])),
    Kernel("rows and columns exchanged", """F(u32 *o, const u32 *a) { T; int lane = t & 31,
  w = t / 32;
  for (int c = 0; c < 8; c++) { int from = (c * 32 + lane); (void)from;
    u32 v = a[w * 256 + (lane * 8 + ((c + lane) & 7))]; int k = (c + lane) & 7;
    o[w * 256 + k * 32 + lane] = v; } }""", (zeros(1024), ints("turned", 1024)), _turned),
    Kernel("recursion", """__device__ __noinline__ int ack(int m, int n) {
  return m == 0 ? n + 1 : ack(m - 1, n == 0 ? 1 : ack(m, n - 1)); }
F(int *o) { T; o[t] = ack(t % 3, t % 4); }""", (zeros(32, np.int32),), _ackermann, block=32),
    Kernel("a table of jumps", """F(u32 *o, const u8 *code, const u32 *a) { T; u32 v = a[t];
  LOOP for (int k = 0; k < 12; k++) switch (code[k]) { case 0: v += 7; break;
    case 1: v *= 3; break; case 2: v ^= 0x55; break; case 3: v <<= 2; break;
    case 4: v -= v / 5; break; case 5: v = ~v; break; default: __trap(); }
  o[t] = v; }""", (zeros(128), ints("code", 12, 0, 6, np.uint8), ints("jumped", 128)), _programs),
    Kernel("each lane its own way", """F(u32 *o, const u8 *code, const u32 *a) { T; u32 v = a[t];
  switch (code[t]) { case 0: v += 7; break; case 1: v *= 3; break; case 2: v ^= 0x55; break;
    case 3: v <<= 2; break; case 4: v -= v / 5; break; case 5: v = ~v; break; case 6: v >>= 3; }
  o[t] = v; }""", (zeros(128), ints("ways", 128, 0, 6, np.uint8), ints("way", 128)),
           lambda o, c, a: np.array([_programs(o, [k], np.array([v]))[0]
                                     for k, v in zip(c, a, strict=True)])),
    Kernel("pointers to functions", """typedef u32 (*op)(u32, u32);
__device__ __noinline__ u32 add(u32 a, u32 b) { return a + b; }
__device__ __noinline__ u32 mul(u32 a, u32 b) { return a * b; }
__device__ __noinline__ u32 bits(u32 a, u32 b) { return a ^ (b << 1); }
F(u32 *o, const u32 *a, const u32 *b) { T; op ops[3] = {add, mul, bits};
  o[t] = ops[(a[t] >> 5) % 3](a[t], b[t]); }""",
           (zeros(128), ints("fp a", 128), ints("fp b", 128)),
           lambda o, a, b: np.choose((a >> 5) % 3, [a + b, a * b, a ^ (b << 1)])),
    Kernel("states of a reader", """F(int *o, const u8 *text) { T; int state = 0, w = 0, n = 0;
  for (int k = 0; k < 32; k++) { u8 c = text[t * 32 + k]; int kind = 0;
    if (c >= 'a' && c <= 'z') kind = 1; else if (c >= '0' && c <= '9') kind = 2;
    if (kind == 1 && state != 1) w++; if (kind == 2 && state != 2) n++; state = kind; }
  o[t] = w * 256 + n; }""", (zeros(64, np.int32), ints("text", 2048, 40, 128, np.uint8)), _states,
           block=64),
    Kernel("early returns and breaks", """F(int *o, const int *a, int n) { T; o[t] = -1;
  if (t > 100) return; int s = 0; for (int k = 0; k < n; k++) { int v = a[(t + k) & 127];
    if (v == 0) continue; if (v > 90) break; s += v; if (s > 500) { o[t] = -2; return; } }
  __syncwarp(__activemask()); o[t] = s; }""",
           (zeros(128, np.int32), ints("breaks", 128, 0, 100, np.int32), 30),
           lambda o, a, n: np.array([_broken(t, a, n) for t in range(128)])),
    Kernel("warps that end early", """F(u32 *o, const u32 *a) { __shared__ u32 s[128]; T;
  s[t] = a[t]; SYNC; if (t >= 64) return; s[t] += s[t + 64]; SYNC; if (t >= 32) return;
  u32 v = s[t] + s[t + 32]; for (int d = 16; d; d /= 2) v += __shfl_down_sync(ALL, v, d);
  if (t == 0) *o = v; }""", (zeros(1), ints("early", 128)),
           lambda o, a: np.array([a.sum(dtype=np.uint32)])),
    Kernel("named barriers", """F(u32 *o, const u32 *a) { __shared__ u32 s[64]; T; int k = t & 63;
  if (t < 64) { s[k] = a[k] * 3; asm volatile("bar.arrive 1, 128;" ::: "memory"); o[t] = a[t];
  } else { asm volatile("bar.sync 1, 128;" ::: "memory"); o[t] = s[63 - k]; } }""",
           (zeros(128), ints("named", 64)), lambda o, a: np.concatenate((a, a[::-1] * 3))),
    Kernel("dynamic exchange in a pipeline of warps", """F(float *o, const float *a) {
  __shared__ float s[4][32]; T; int w = t / 32, l = t % 32; float v = a[l];
  for (int r = 0; r < 6; r++) { if (r >= w && r - w < 3) { v = w ? s[w - 1][l] : a[(r - w)
  * 32 + l];
      v = v * 2 + w; } SYNC; if (r >= w && r - w < 3) s[w][l] = v; SYNC;
    if (w == 3 && r >= 3) o[(r - 3) * 32 + l] = v; } }""",
           (zeros(96, np.float32), floats("pipe", 96)),
           lambda o, a: (((a * 2 + 0) * 2 + 1) * 2 + 2) * 2 + 3),
)  # fmt: skip


def _broken(t: int, a: Any, n: int) -> int:
    if t > 100:
        return -1
    total = 0
    for k in range(n):
        value = int(a[(t + k) & 127])
        if value > 90:
            break
        total += value
        if total > 500:
            return -2
    return total
