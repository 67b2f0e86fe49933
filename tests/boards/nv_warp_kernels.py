"""Kernels of many kinds, their arguments, and what numpy says that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Dim = tuple[int, int, int]
N = 300
_I = "const int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=n) return;"
_RNG = np.random.default_rng(20260714)


@dataclass(frozen=True)
class Case:
    """One kernel `f`; its first argument is its result."""

    name: str
    source: str
    args: tuple[Any, ...]
    expected: Callable[..., Any]
    """Of the arguments after the first."""
    grid: Dim = (3, 1, 1)
    block: Dim = (128, 1, 1)
    ulps: float = 0
    """Of a single, where the functions of CUDA are not exact."""


def _f(low: float = -4, high: float = 4, count: int = N) -> Any:
    return _RNG.uniform(low, high, count).astype(np.float32)


def _i(dtype: Any, low: int, high: int, count: int = N) -> Any:
    return _RNG.integers(low, high, count, dtype, endpoint=True)


def _o(dtype: Any, count: int = N) -> Any:
    return np.zeros(count, dtype)


def _kernel(params: str, body: str) -> str:
    return f'extern "C" __global__ void f({params}, int n) {{ {_I} {body} }}'


def _wrong_numbers() -> Any:
    """Zeros, infinities, subnormals, no numbers, and what is near them, in all pairs."""
    return np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.17549435e-38, 3.4e38, 1, -3, 1e-20],
        np.float32,
    )


_EDGE = _wrong_numbers()
_EDGE_A, _EDGE_B = np.repeat(_EDGE, len(_EDGE)), np.tile(_EDGE, len(_EDGE))
_TWO = "float *o, const float *a, const float *b"
_INTS = "int *o, const int *a, const int *b"
_INT32 = (-(1 << 31), (1 << 31) - 1)


def _collatz(a: Any, _: Any) -> Any:
    counts = []
    for start in a.tolist():
        x, steps = start, 0
        while x != 1 and steps < 1000:
            x = 3 * x + 1 if x & 1 else x >> 1
            steps += 1
        counts.append(steps)
    return np.array(counts, np.int32)


def _trunc_divide(a: Any, b: Any) -> Any:
    quotient = np.trunc(a.astype(np.float64) / b).astype(np.int64)
    return (quotient + (a - quotient * b)).astype(np.int32)


def _shuffled_sum(a: Any, _: Any) -> Any:
    """In the order in which the lanes of the kernel add: by halves."""
    out = []
    for row in a.reshape(3, 4, 32):
        warps = [_halves(warp) for warp in row]
        out.append(_halves(np.array(warps + [np.float32(0)] * 28, np.float32)))
    return np.array(out, np.float32)


def _halves(lanes: Any) -> Any:
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def _matmul(a: Any, b: Any, _: Any) -> Any:
    one, two = a.reshape(64, 64), b.reshape(64, 64)
    total = np.zeros((64, 64), np.float32)
    for k in range(64):
        total = total + one[:, k : k + 1] * two[k : k + 1]
    return total.ravel()


def _conv(a: Any, w: Any, *_: Any) -> Any:
    image, weights = a.reshape(2, 10, 40), w.reshape(2, 3, 3)
    total = np.zeros((10, 40), np.float32)
    for c in range(2):
        for dy in range(3):
            for dx in range(3):
                padded = np.pad(image[c], 1)[dy : dy + 10, dx : dx + 40]
                total = total + padded * weights[c, dy, dx]
    return total.ravel()


_REDUCE = """extern "C" __global__ void f(float *o, const float *a, int n) {
  __shared__ float s[32]; float x = a[blockIdx.x * 128 + threadIdx.x];
  for (int d = 16; d; d >>= 1) x += __shfl_down_sync(~0u, x, d);
  if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = x;
  __syncthreads();
  if (threadIdx.x < 32) { x = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0.f;
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
    if (!threadIdx.x) o[blockIdx.x] = x; } }"""
_MATMUL = """extern "C" __global__ void f(float *C, const float *A, const float *B, int N) {
  __shared__ float As[32][33], Bs[32][33]; int tx = threadIdx.x, ty = threadIdx.y;
  int r = blockIdx.y * 32 + ty, c = blockIdx.x * 32 + tx; float acc = 0;
  for (int k = 0; k < N; k += 32) { As[ty][tx] = A[r*N+k+tx]; Bs[ty][tx] = B[(k+ty)*N+c];
    __syncthreads();
    for (int j = 0; j < 32; j++) acc += As[ty][j] * Bs[j][tx];
    __syncthreads(); }
  C[r*N+c] = acc; }"""
_CONV = """extern "C" __global__
void f(float *o, const float *a, const float *w, int H, int W, int C) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; if (x >= W) return; float s = 0;
  for (int c = 0; c < C; c++) for (int dy = -1; dy <= 1; dy++) for (int dx = -1; dx <= 1; dx++) {
    int xx = x + dx, yy = y + dy; if (xx >= 0 && xx < W && yy >= 0 && yy < H)
      s += a[(c*H+yy)*W+xx] * w[c*9+(dy+1)*3+dx+1]; }
  o[y*W+x] = s; }"""
_LOCAL = """extern "C" __global__ void f(int *o, const int *a, int n) {
  int t[40]; for (int k = 0; k < 40; k++) t[k] = a[threadIdx.x] * k;
  int j = a[threadIdx.x] & 31; t[j] += 7; t[j + 3] *= t[j]; o[threadIdx.x] = t[j] + t[j + 3]; }"""


def _local(a: Any, _: Any) -> Any:
    out = []
    for x in a[:64].tolist():
        t = [x * k for k in range(40)]
        j = x & 31
        t[j] += 7
        t[j + 3] *= t[j]
        out.append(t[j] + t[j + 3])
    return np.array(out, np.int64).astype(np.int32)


def _rotl(x: Any, r: int) -> Any:
    return x << np.uint32(r) | x >> np.uint32(32 - r)


def _mixed(a: Any, b: Any, _: Any) -> Any:
    x, y = a.copy(), b.copy()
    for r in range(20):
        x = x + y
        y = _rotl(y, 13 + r % 7) ^ x
    return x ^ y


CASES = (
    Case("add", _kernel(_TWO, "o[i] = a[i] + b[i];"), (_o("f4"), _f(), _f(), N),
         lambda a, b, n: a + b),
    Case("product and sum of four", _kernel("float4 *o, const float4 *a, const float4 *b",
         "float4 x = a[i], y = b[i]; x.x = x.x*y.x+x.w; x.y *= y.y; x.z -= y.z; x.w = -y.w;"
         " o[i] = x;"),
         (_o("f4", 4 * N), _f(count=4 * N), _f(count=4 * N), N),
         lambda a, b, n: np.stack((a[::4] * b[::4] + a[3::4], a[1::4] * b[1::4],
                                   a[2::4] - b[2::4], -b[3::4]), 1).ravel()),
    Case("fused", _kernel(_TWO, "o[i] = fmaf(a[i], b[i], a[i]);"), (_o("f4"), _f(), _f(), N),
         lambda a, b, n: (a.astype("f8") * b + a).astype("f4"), ulps=0.5),
    Case("divide", _kernel(_TWO, "o[i] = a[i] / b[i];"), (_o("f4"), _f(), _f(), N),
         lambda a, b, n: a / b),
    Case("divide what is no number", _kernel(_TWO, "o[i] = a[i] / b[i];"),
         (_o("f4", 144), _EDGE_A, _EDGE_B, 144), lambda a, b, n: a / b),
    Case("square root", _kernel(_TWO, "o[i] = sqrtf(a[i]) + 1.0f / b[i];"),
         (_o("f4"), _f(0, 9), _f(), N), lambda a, b, n: np.sqrt(a) + np.float32(1) / b),
    Case("square root of edges", _kernel(_TWO, "o[i] = sqrtf(a[i]);"),
         (_o("f4", 144), _EDGE_A, _EDGE_B, 144), lambda a, b, n: np.sqrt(a)),
    Case("choose", _kernel(_TWO, "float x=a[i]; o[i] = x>0.f?fmaxf(x,b[i]):fminf(-x,0.5f);"),
         (_o("f4"), _f(), _f(), N),
         lambda a, b, n: np.where(a > 0, np.maximum(a, b), np.minimum(-a, np.float32(0.5)))),
    Case("exponential", _kernel(_TWO, "o[i] = expf(a[i]);"), (_o("f4"), _f(), _f(), N),
         lambda a, b, n: np.exp(a.astype("f8")).astype("f4"), ulps=2),
    Case("logarithm", _kernel(_TWO, "o[i] = logf(a[i]);"), (_o("f4"), _f(2, 9), _f(), N),
         lambda a, b, n: np.log(a.astype("f8")).astype("f4"), ulps=2),
    Case("power", _kernel(_TWO, "o[i] = powf(a[i], b[i]);"), (_o("f4"), _f(0.1, 9), _f(), N),
         lambda a, b, n: np.power(a.astype("f8"), b).astype("f4"), ulps=5),
    Case("remainder", _kernel(_TWO, "o[i] = fmodf(a[i], b[i]);"),
         (_o("f4"), _f(-99, 99), _f(), N), lambda a, b, n: np.fmod(a, b)),
    Case("rounding", _kernel(_TWO, "o[i] = truncf(a[i]) + floorf(b[i]) + ceilf(a[i]);"),
         (_o("f4"), _f(), _f(), N), lambda a, b, n: np.trunc(a) + np.floor(b) + np.ceil(a)),
    Case("to integers and back", _kernel("int *o, const float *a, const int *b",
         "o[i] = (int)(a[i] * 1e9f) ^ (int)(float)b[i];"),
         (_o("i4"), _f(-2, 2), _i("i4", *_INT32), N),
         lambda a, b, n: (a * np.float32(1e9)).astype("i8").astype("i4")
         ^ np.clip(b.astype("f4").astype("f8"), *_INT32).astype("i8").astype("i4")),
    Case("bytes", _kernel("signed char *o, const signed char *a, const signed char *b",
         "o[i] = (signed char)((a[i] * b[i] + a[i]) >> 1);"),
         (_o("i1"), _i("i1", -128, 127), _i("i1", -128, 127), N),
         lambda a, b, n: (a.astype("i4") * b + a >> 1).astype("i1")),
    Case("shorts", _kernel("unsigned char *o, const unsigned char *a, const unsigned short *b",
         "o[i] = (unsigned char)(a[i] ^ (b[i] >> 3) | (a[i] & b[i]));"),
         (_o("u1"), _i("u1", 0, 255), _i("u2", 0, 65535), N),
         lambda a, b, n: (a ^ b >> 3 | a & b).astype("u1")),
    Case("words", _kernel(_INTS, "int x=a[i],y=b[i];"
         " o[i]=max(x*y+3,min(x,y))-(x<<(y&31))+(x>>(y&31))+__popc(x)+__clz(y)"
         "+(int)__brev(x)+abs(y);"),
         (_o("i4"), _i("i4", *_INT32), _i("i4", *_INT32), N),
         lambda a, b, n: _words(a, b)),
    Case("divide words", _kernel(_INTS, "o[i] = a[i] / b[i] + a[i] % b[i];"),
         (_o("i4"), _i("i4", -(10**9), 10**9), _i("i4", 1, 5000), N),
         lambda a, b, n: _trunc_divide(a, b)),
    Case("divide by constants", _kernel("unsigned *o, const unsigned *a, const int *b",
         "o[i] = a[i] / 7u + a[i] % 1000u + (unsigned)(b[i] / 13);"),
         (_o("u4"), _i("u4", 0, 2**32 - 1), _i("i4", 0, 2**31 - 1), N),
         lambda a, b, n: a // 7 + a % 1000 + (b // 13).astype("u4")),
    Case("long words", _kernel("long long *o, const long long *a, const long long *b",
         "long long x=a[i],y=b[i];o[i]=x*y+(x>y?x:y)-(x<<(y&63))+(x>>(y&63))+(x^y);"),
         (_o("i8"), _i("i8", -(2**63), 2**63 - 1), _i("i8", -(2**63), 2**63 - 1), N),
         lambda a, b, n: a * b + np.maximum(a, b) - (a << (b & 63)) + (a >> (b & 63)) + (a ^ b)),
    Case("truth", _kernel("bool *o, const float *a, const float *b",
         "o[i] = (a[i] < b[i]) != (a[i] > 1.f) && !(b[i] >= 2.f);"), (_o("?"), _f(), _f(), N),
         lambda a, b, n: ((a < b) != (a > 1)) & ~(b >= 2)),
    Case("rotate", _kernel("unsigned *o, const unsigned *a, const unsigned *b",
         "unsigned x=a[i],y=b[i]; for(int r=0;r<20;r++){x+=y;int k=13+r%7;y=(y<<k)|(y>>(32-k));"
         "y^=x;} o[i]=x^y;"), (_o("u4"), _i("u4", 0, 2**32 - 1), _i("u4", 0, 2**32 - 1), N),
         _mixed),
    Case("loops that part", _kernel("int *o, const int *a", "int x=a[i],c=0; while(x!=1&&c<1000)"
         "{if(x&1)x=3*x+1;else x>>=1;c++;} o[i]=c;"), (_o("i4"), _i("i4", 1, 900), N), _collatz),
    Case("sum of blocks", _REDUCE, (_o("f4", 3), _f(count=384), 384), _shuffled_sum),
    Case("matrices", _MATMUL, (_o("f4", 4096), _f(count=4096), _f(count=4096), 64), _matmul,
         grid=(2, 2, 1), block=(32, 32, 1)),
    Case("convolution", _CONV, (_o("f4", 400), _f(count=800), _f(count=18), 10, 40, 2), _conv,
         grid=(2, 10, 1), block=(32, 1, 1)),
    Case("local memory", _LOCAL, (_o("i4", 64), _i("i4", -99, 99, 64), 64), _local,
         grid=(1, 1, 1), block=(64, 1, 1)),
    Case("constant memory", "__constant__ float c[64] = {1, 2, 3, 4}; " + _kernel(
         "float *o, const float *a", "o[i] = c[i & 63] + a[i];"), (_o("f4"), _f(), N),
         lambda a, n: a + np.array([1, 2, 3, 4] + [0] * 60, "f4")[np.arange(N) & 63]),
)  # fmt: skip


def _words(a: Any, b: Any) -> Any:
    def bits(x: int) -> str:
        return f"{x & 0xFFFFFFFF:032b}"

    x, y = a.astype("i8"), b.astype("i8")
    counts = np.array([bits(v).count("1") for v in a.tolist()])
    zeros = np.array([len(bits(v)) - len(bits(v).lstrip("0")) for v in b.tolist()])
    turned = np.array([int(bits(v)[::-1], 2) for v in a.tolist()])
    product = (a * b + np.int32(3)).astype("i8")
    total = np.maximum(product, np.minimum(x, y)) - (x << (y & 31)) + (x >> (y & 31))
    return (total + counts + zeros + turned + np.abs(y)).astype("i4")
