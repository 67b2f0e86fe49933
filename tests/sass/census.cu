// Kernels whose code the SASS decoder is held to: `tests/sass/census.py` compiles them by nvrtc.
// Each wants other instructions. HAVE(90) is true on sm_90 and later.
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned short u16;
#define HAVE(capability) (__CUDA_ARCH__ >= capability * 10)
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#define I int i = blockIdx.x * blockDim.x + threadIdx.x
#define SHARED(pointer) ((u32)__cvta_generic_to_shared(pointer))

KERNEL(axpy, float *o, const float *a, float s, int n) { I; if (i < n) o[i] = fmaf(s, a[i], o[i]); }
KERNEL(daxpy, double *o, const double *a, double s, int n) { I; if (i < n) o[i] = fma(s, a[i], o[i] - 1.5); }
KERNEL(divides, float *o, const float *a, const float *b) { I; o[i] = a[i] / b[i] + sqrtf(a[i]) + rsqrtf(b[i]); }
KERNEL(ddivides, double *o, const double *a, const double *b) { I; o[i] = a[i] / b[i] + sqrt(a[i]) + rsqrt(b[i]); }
KERNEL(functions, float *o, const float *a) {
  I; float x = a[i];
  o[i] = sinf(x) + cosf(x) * expf(x) - logf(x) + powf(x, 1.7f) + tanhf(x) + erff(x) + atan2f(x, 2.f);
}
KERNEL(dfunctions, double *o, const double *a) { I; double x = a[i]; o[i] = sin(x) + exp(x) * log(x) + pow(x, 1.7) + fmod(x, 3.1); }
KERNEL(intrinsics, float *o, const float *a) {
  I; float x = a[i];
  o[i] = __sinf(x) + __cosf(x) * __expf(x) + __logf(x) + __fdividef(x, 3.f) + __saturatef(x) + __frcp_rn(x) + __fsqrt_rz(x);
}
KERNEL(roundings, float *o, const float *a) {
  I; float x = a[i];
  o[i] = __fadd_rz(x, 1.f) + __fmul_ru(x, 3.f) + __fmaf_rd(x, x, x) + floorf(x) + ceilf(x) + rintf(x) + truncf(x) + fmodf(x, 7.f);
}
KERNEL(droundings, double *o, const double *a) {
  I; double x = a[i];
  o[i] = __dadd_rz(x, 1.) + __dmul_ru(x, 3.) + __fma_rd(x, x, x) + floor(x) + ceil(x) + rint(x) + trunc(x) + fmin(x, 2.) + fmax(o[i], x);
}
KERNEL(classify, int *o, const float *a, const double *d) {
  I; float x = a[i]; double y = d[i];
  o[i] = isnan(x) + 2 * isinf(x) + 4 * (x != x + 1) + 8 * (x < 3 || !(x > -1)) + 16 * (y < 3 || !(y >= -1)) + ilogbf(x) + signbit(y);
}
KERNEL(select, float *o, const float *a, const float *b, int n) {
  I; float x = a[i], y = b[i];
  o[i] = fminf(x, y) * fmaxf(x, n) + (x > y ? x : fabsf(y)) + fmaxf(fmaxf(x, y), o[i]) + copysignf(x, y) + (i & 1 ? -x : y);
}
KERNEL(convert_float, int *o, const float *a, const double *d, i64 *l) {
  I; float x = a[i]; double y = d[i];
  o[i] = (int)x + (int)(u32)x + (signed char)x + __float2int_rn(x) + __double2int_rd(y) + (int)(u32)y + (short)(int)x;
  l[i] = (i64)x + (i64)y + (i64)(u64)x + __double2ll_rn(y) + __double_as_longlong((double)x) + __float_as_int((float)y);
}
KERNEL(convert_int, float *o, const int *a, double *d, const i64 *l) {
  I; int x = a[i]; i64 y = l[i];
  o[i] = (float)x + (float)(u32)x + (float)(signed char)x + (float)(u16)x + __int2float_rz(x) + (float)y + (float)(u64)y;
  d[i] = (double)x + (double)(u32)x + (double)y + (double)(u64)y + (double)(short)x;
}
KERNEL(arithmetic, int *o, const int *a, const int *b, int n) {
  I; int x = a[i], y = b[i];
  o[i] = x * y + n - (x << 3) + (y >> (n & 31)) + abs(x) + min(x, y) * max(x, n) + __mulhi(x, y) + __mul24(x, y) + (x * 12345 + 77) - ~y;
}
KERNEL(uarithmetic, u32 *o, const u32 *a, const u32 *b, u32 n) {
  I; u32 x = a[i], y = b[i];
  o[i] = x / y + x % 10 + y / n + min(x, y) + max(x, n) + __umulhi(x, y) + (x << (y & 31)) + (x >> y) + __usad(x, y, n) + x * 8 + (u32)(i * 36) + __uhadd(x, y);
}
KERNEL(sdivides, int *o, const int *a, const int *b) { I; o[i] = a[i] / b[i] + a[i] % 7 + a[i] / 1000; }
KERNEL(longs, i64 *o, const i64 *a, const i64 *b, i64 n) {
  I; i64 x = a[i], y = b[i];
  o[i] = x * y + n - (x << 7) + (y >> (n & 63)) + llabs(x) + min(x, y) + max(x, n) + (x < y ? x & n : y ^ n) + __mul64hi(x, y);
}
KERNEL(long_divides, i64 *o, const i64 *a, const u64 *b) { I; o[i] = a[i] / o[i] + a[i] % 10 + (i64)(b[i] / 7) + (i64)(b[i] % (u64)o[i]); }
KERNEL(bits, u32 *o, const u32 *a, const u64 *b, u32 n) {
  I; u32 x = a[i]; u64 y = b[i];
  o[i] = __popc(x) + __clz(x) + __ffs(x) + __brev(x) + __popcll(y) + __clzll(y) + __funnelshift_l(x, n, 7) + __funnelshift_r(x, n, x)
    + __byte_perm(x, n, 0x3120) + ((x & n) | (~x ^ i)) + __byte_perm(x, n, x) + (u32)(y >> 5) + (u32)(y << (n & 63)) + (u32)__brevll(y);
}
KERNEL(logic, u32 *o, const u32 *a, u32 b, u32 c) {
  I; u32 x = a[i];
  if ((x & 5) == 4 && (b ^ x) > c || (x | c) < b) o[i] = (x ^ b ^ c) & 0xff00ff; else o[i] = ~(x & c) | (b << 2);
}
KERNEL(fields, u32 *o, const u32 *a, int n) {
  I; u32 x = a[i], r, s, t; int q;
  asm("bfe.u32 %0, %1, %2, 5;" : "=r"(r) : "r"(x), "r"(n));
  asm("bfi.b32 %0, %1, %2, 3, 9;" : "=r"(s) : "r"(x), "r"(n));
  asm("bfind.shiftamt.u32 %0, %1;" : "=r"(t) : "r"(x));
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(n));
  o[i] = r + s * t + (u32)q + (x & 0xff) * ((x >> 8) & 0xff) + ((int)(x << 8) >> 24);
}
KERNEL(bytes, char *o, const char *a, const short *b, u16 *p, unsigned char *q) { I; o[i] = a[i] * 3; p[i] = b[i] + a[i]; q[i] = q[i] >> 1; }
struct __align__(16) V4 { float x, y, z, w; };
KERNEL(vectors, V4 *o, const V4 *a, double *d, const double *b) { I; V4 v = a[i]; v.x += v.w; v.y *= v.z; o[i] = v; d[i] = b[i] + 1; }
KERNEL(dots, int *o, const int *a, const u32 *b) {
  I; int x = a[i], r, s; u32 y = b[i], t;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"((int)y), "r"(i));
  asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(s) : "r"(x), "r"(y), "r"(i));
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(t) : "r"((u32)x), "r"(y), "r"(i));
  o[i] = r + s + (int)t;
}
KERNEL(cache_hints, int *o, const int *a, const float *b) {
  I; int x, y, z; float f;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(x) : "l"(a + i));
  asm volatile("ld.volatile.global.s32 %0, [%1];" : "=r"(y) : "l"(a + i + 9));
  asm volatile("ld.global.cv.s32 %0, [%1];" : "=r"(z) : "l"(a + i - 3));
  asm volatile("ld.global.L1::evict_last.f32 %0, [%1];" : "=f"(f) : "l"(b + i));
  asm volatile("st.global.cs.s32 [%0], %1;" :: "l"(o + i), "r"(x + y));
  asm volatile("st.global.wt.s32 [%0], %1;" :: "l"(o + i + 64), "r"(z + (int)f));
  asm volatile("prefetch.global.L2 [%0];" :: "l"(o + i + 128));
#if HAVE(80)
  asm volatile("discard.global.L2 [%0], 128;" :: "l"(o + 256) : "memory");
#endif
}
KERNEL(order, int *o, int *a) {
  I; int x;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(a));
  asm volatile("st.release.sys.global.s32 [%0], %1;" :: "l"(a + 1), "r"(x));
  __threadfence_block(); o[i] = x; __threadfence(); o[i + 1] = x + 1; __threadfence_system(); o[i + 2] = 3;
  asm volatile("fence.sc.gpu;"); asm volatile("fence.acq_rel.cta;");
}
KERNEL(generic, int *o, int n) { __shared__ int s[64]; int *p = n ? o : s; p[threadIdx.x] += 4; __syncthreads(); o[threadIdx.x + 9] = s[threadIdx.x & 63]; atomicAdd(p, 3); }
KERNEL(sums, float *o, const float *a, int n) {
  __shared__ float s[256]; int t = threadIdx.x; float v = 0;
  for (int k = blockIdx.x * 256 + t; k < n; k += 256 * gridDim.x) v += a[k];
  s[t] = v; __syncthreads();
  for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  if (!t) atomicAdd(o, s[0]);
}
KERNEL(shuffles, int *o, const int *a, int n) {
  I; int x = a[i];
  x += __shfl_xor_sync(~0u, x, 16); x += __shfl_down_sync(~0u, x, 8); x += __shfl_up_sync(~0u, x, n); x += __shfl_sync(~0u, x, n, 8);
  o[i] = x;
}
KERNEL(votes, u32 *o, const u32 *a, u32 n) {
  I; u32 x = a[i];
  u32 r = __ballot_sync(~0u, x > n) + __any_sync(~0u, x == n) + 2 * __all_sync(~0u, x < n) + __activemask() + __popc(__ballot_sync(~0u, x & 1));
  r += __match_any_sync(~0u, x); int p; r += __match_all_sync(~0u, x, &p) + p; o[i] = r;
}
KERNEL(warp_sums, u32 *o, const u32 *a) {
  I; u32 x = a[i];
#if HAVE(80)
  x = __reduce_add_sync(~0u, x) + __reduce_max_sync(~0u, x) + (u32)__reduce_min_sync(~0u, (int)x) + __reduce_xor_sync(~0u, x) + __reduce_or_sync(255, x);
#endif
  o[i] = x;
}
KERNEL(specials, u32 *o, u64 *l) {
  I; u32 r, s, t; u64 g;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(s));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(t)); asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
  o[i] = r + s + t + clock() + threadIdx.y + blockIdx.z + gridDim.y + blockDim.z; l[i] = g + clock64(); __nanosleep(20);
}
KERNEL(atomics, int *o, u32 *u, u64 *l, float *f, double *d) {
  I; int r = atomicAdd(o, i) + atomicMin(o + 1, i) + atomicMax(o + 2, i) + atomicExch(o + 3, i) + atomicCAS(o + 4, i, 7) + atomicXor(o + 9, 3);
  r += (int)(atomicInc(u, 9) + atomicDec(u + 1, 9) + atomicAnd(u + 2, 9) + atomicOr(u + 3, i)) + (int)atomicAdd(f, 1.f) + (int)atomicCAS(l + 3, 7ull, 9ull);
  atomicAdd(l, (u64)i); atomicMax(l + 1, (u64)i); atomicAdd(d, 2.); atomicAdd(u + 5, 1u); atomicOr(u + 6, 1u); o[20 + i] = r + (int)atomicExch(l + 5, 8ull);
}
KERNEL(shared_atomics, int *o, const u32 *a) {
  __shared__ int s[64]; __shared__ u64 l[8]; __shared__ float f[4]; int t = threadIdx.x;
  s[t & 63] = 0; l[t & 7] = 0; f[t & 3] = 0; __syncthreads();
  atomicAdd(&s[a[t] & 63], 1); int r = atomicCAS(&s[3], t, 1) + atomicMax(&s[5], t); atomicAdd(&l[t & 7], 3ull); atomicAdd(&f[1], 2.f); atomicExch(&s[8], 2);
  r += (int)atomicCAS(&l[2], 1ull, 2ull);
  __syncthreads(); o[t] = s[t & 63] + r + (int)l[t & 7] + (int)f[t & 3];
}
KERNEL(transpose, float *o, const float *a, int n) {
  __shared__ float s[32][33]; int x = threadIdx.x, y = threadIdx.y;
  s[y][x] = a[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x]; __syncthreads(); o[(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = s[x][y];
}
KERNEL(shared_kinds, V4 *o, const V4 *a, double *d, short *h) {
  __shared__ V4 s[64]; __shared__ double e[64]; __shared__ short q[64]; __shared__ signed char b[64]; int t = threadIdx.x;
  s[t] = a[t]; e[t] = d[t]; q[t] = h[t]; b[t] = h[t + 1]; __syncthreads(); o[t] = s[t ^ 5]; d[t] = e[t ^ 9]; h[t] = q[t ^ 3] + b[t ^ 7];
}
KERNEL(tiled, float *o, const float *a, const float *b, int n) {
  __shared__ float s[16][16], q[16][16]; int x = threadIdx.x, y = threadIdx.y; float v = 0;
  for (int k = 0; k < n; k += 16) {
    s[y][x] = a[(blockIdx.y * 16 + y) * n + k + x]; q[y][x] = b[(k + y) * n + blockIdx.x * 16 + x]; __syncthreads();
    for (int j = 0; j < 16; j++) v = fmaf(s[y][j], q[j][x], v);
    __syncthreads();
  }
  o[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x] = v;
}
__constant__ float lookup[256];
KERNEL(constants, float *o, const int *a, int n) { I; o[i] = lookup[a[i] & 255] + lookup[n] * lookup[7]; }
KERNEL(local_array, int *o, const int *a, int n) { I; int s[64]; for (int k = 0; k < n; k++) s[(a[k] + k) & 63] = k * a[i]; char c[32]; c[n & 31] = s[3]; o[i] = s[n & 63] + c[i & 31]; }
__device__ __noinline__ int called(int x, int y) { return x * y + (x > 3 ? called(x - 1, y) : 7); }
KERNEL(calls, int *o, int n) { I; o[i] = called(i, n) + called(n, 3); }
__device__ __noinline__ float fp0(float x) { return x * 2; }
__device__ __noinline__ float fp1(float x) { return x + 2; }
KERNEL(pointers, float *o, int n) { I; float (*f)(float) = (i + n) & 1 ? fp0 : fp1; o[i] = f(o[i]); }
KERNEL(branches, int *o, const int *a, int n) {
  I; int x = a[i], r = 0;
  while (x > 1 && r < n) { if (x & 1) { x = 3 * x + 1; if (x > 999) break; } else x >>= 1; r++; if (r == 50) continue; r += x & 1; }
  __syncwarp(); o[i] = r; if (n == 77) return; o[i + n] = x;
}
KERNEL(jumps, float *o, const int *a) {
  I; float x = o[i], y = x;
  switch (a[i]) { case 0: y = sinf(x); break; case 1: y = x / 3; break; case 2: y = sqrtf(x); break; case 3: y = o[i + 9]; break;
    case 4: y = o[i + 2] * 3; break; case 5: y = __expf(x); break; case 6: y = -x; break; case 7: y = o[i * 2]; o[i + 90] = 3; break; case 8: __syncthreads(); break; default: y = 9; }
  o[i] = y;
}
KERNEL(collective, int *o, int n) {
  int r; asm volatile("bar.sync 1, 64;"); asm volatile("bar.arrive 2, 64;"); asm volatile("barrier.sync 3;");
  r = __syncthreads_count(n > (int)threadIdx.x) + __syncthreads_and(n) + __syncthreads_or(o[1]); asm volatile("bar.sync %0, 96;" :: "r"(n)); o[threadIdx.x] = r;
}
KERNEL(traps, int *o, int n) { if (n == 3) __trap(); if (n == 4) asm volatile("brkpt;"); if (n == 5) asm volatile("exit;"); o[threadIdx.x] = n; asm volatile("pmevent 1;"); }
KERNEL(uniforms, int *o, const int *a, int n, int m, i64 k) {
  int u = n * m + (m << 3) - (n & m), v = (u >> 2) ^ max(n, m); i64 w = k * n + (k >> 3) + u; u32 p = (u32)__popc(n) + (u32)__clz(m);
  for (int j = 0; j < u; j++) { o[j * v + threadIdx.x] = a[j + v] + (int)w; if (m > j && (n | u) != 5) v += p * 3; }
}
#if HAVE(80)
#define PACK(pack) asm("cvt.rn." pack ".f32 %0, %1, %2;" : "=r"(q) : "f"(z), "f"(w))
#else
#define PACK(pack) q = 0
#endif
#define HALVES(name, pack, type) KERNEL(name, u32 *o, const u32 *a, const u32 *b, float *f) { I; u32 x = a[i], y = b[i], r, s, t, q; u16 h; float z = f[i], w; \
  asm("fma.rn." pack " %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); asm("neg." pack " %0, %1;" : "=r"(s) : "r"(x)); asm("abs." pack " %0, %1;" : "=r"(t) : "r"(y)); \
  asm("cvt.rn." type ".f32 %0, %1;" : "=h"(h) : "f"(z)); asm("cvt.f32." type " %0, %1;" : "=f"(w) : "h"((u16)(x >> 16))); \
  PACK(pack); o[i] = r + s * t + q + h; f[i] = w; }
HALVES(halves, "f16x2", "f16")
KERNEL(half_math, u32 *o, const u32 *a, const u32 *b, u16 *h) {
  I; u32 x = a[i], y = b[i], r, s, t, q; u16 d, e, g = h[i]; int k;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(s) : "r"(x), "r"(y));
  asm("{.reg .pred p; setp.gt.f16 p, %1, %2; selp.u32 %0, 1, 2, p;}" : "=r"(t) : "h"(g), "h"((u16)x)); asm("set.lt.f16x2.f16x2 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y));
  asm("cvt.rni.s32.f16 %0, %1;" : "=r"(k) : "h"(g)); asm("cvt.rn.f16.s32 %0, %1;" : "=h"(d) : "r"(i)); asm("cvt.rpi.f16.f16 %0, %1;" : "=h"(e) : "h"(g));
#if HAVE(80)
  u32 m; asm("min.f16x2 %0, %1, %2;" : "=r"(m) : "r"(x), "r"(y)); q += m; asm("ex2.approx.f16 %0, %1;" : "=h"(d) : "h"(g)); asm("tanh.approx.f16x2 %0, %1;" : "=r"(m) : "r"(y)); q += m;
  asm("fma.rn.relu.f16x2 %0, %1, %2, %1;" : "=r"(m) : "r"(x), "r"(y)); q ^= m;
#endif
  o[i] = r + s + t + q + (u32)k + d + e;
}
#define MMA4(text, c, a0, a1, a2, a3, b0, b1) \
  asm volatile(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
    : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define MMAF(text, c, a0, a1, a2, a3, b0, b1) \
  asm volatile(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
KERNEL(matrices, float *o, const u32 *a, const u32 *b) {
  int t = threadIdx.x; float c[4] = {0, 1, 2, 3}; u32 h[2] = {a[t], b[t]};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[t]), "r"(a[t + 1]), "r"(b[t]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};" : "+r"(h[0]), "+r"(h[1]) : "r"(a[t]), "r"(a[t + 1]), "r"(b[t]));
#if HAVE(80)
  MMAF("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]);
  MMAF("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]);
  MMAF("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]);
#endif
  o[t] = c[0] + c[1] + c[2] + c[3] + (float)(h[0] + h[1]);
}
KERNEL(int_matrices, int *o, const u32 *a, const u32 *b) {
  int t = threadIdx.x, c[4] = {0, 1, 2, 3}, e[2] = {5, 6};
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(e[0]), "+r"(e[1]) : "r"(a[t]), "r"(b[t]));
#if HAVE(80)
  MMA4("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]);
  MMA4("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]);
#endif
  o[t] = c[0] + c[1] + c[2] + c[3] + e[0] + e[1];
}
#if HAVE(80)
HALVES(bhalves, "bf16x2", "bf16")
KERNEL(double_matrices, double *o, const double *a) {
  int t = threadIdx.x; double c = 1, d = 2;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c), "+d"(d) : "d"(a[t]), "d"(a[t + 1])); o[t] = c + d;
}
KERNEL(sparse, float *o, const u32 *a, const u32 *b) {
  int t = threadIdx.x; float c[4] = {0, 1, 2, 3};
  asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%0,%1,%2,%3}, %8, 0x1;"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[t]), "r"(a[t + 1]), "r"(b[t]), "r"(b[t + 1]), "r"(a[t + 9])); o[t] = c[0] + c[3];
}
KERNEL(copies, float *o, const float *a) {
  __shared__ __align__(16) float s[512]; int t = threadIdx.x; u32 at = SHARED(s + t * 4);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(a + t * 4)); asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" :: "r"(at), "l"(a + t));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, 4;" :: "r"(at), "l"(a + t * 2));
  asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 1;"); asm volatile("cp.async.wait_all;"); __syncthreads(); o[t] = s[t ^ 31];
}
KERNEL(mbarriers, int *o, const float *a, int n) {
  __shared__ u64 b; __shared__ float s[64]; u32 at = SHARED(&b); u64 k; int d;
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(n)); __syncthreads(); asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(SHARED(s + threadIdx.x)), "l"(a));
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(at)); asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(k) : "r"(at));
  asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p;}" : "=r"(d) : "r"(at), "l"(k)); o[threadIdx.x] = d + (int)s[3]; asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at));
}
KERNEL(flash, float *o, const u32 *a, int n) {
  __shared__ __align__(16) u32 s[1024]; int t = threadIdx.x; u32 r[4], q[4]; float c[4] = {0, 0, 0, 0}, m = -1e30f, z = 0;
  for (int k = 0; k < n; k++) {
    s[t] = a[k * 128 + t]; __syncthreads(); asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(SHARED(s + t * 4)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(SHARED(s + t * 2)));
    MMAF("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", c, r[0], r[1], r[2], r[3], q[0], q[1]); float w = fmaxf(m, c[0]); w = fmaxf(w, __shfl_xor_sync(~0u, w, 1)); z = z * __expf(m - w) + __expf(c[1] - w); m = w;
  }
  o[t] = c[0] / z + c[2];
}
KERNEL(policies, float *o, const float *a) { I; u64 p; float x; asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(p)); asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(a + i), "l"(p)); o[i] = x; }
#endif
KERNEL(small_float, u16 *o, const float *a, u32 *q) {
  I; u16 r = (u16)i;
#if HAVE(89)
  u32 s; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(a[i]), "f"(a[i + 1])); asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(s) : "h"(r)); q[i] = s;
#endif
  o[i] = r;
}
#if HAVE(89)
KERNEL(small_matrices, float *o, const u32 *a, const u32 *b) { int t = threadIdx.x; float c[4] = {0, 1, 2, 3}; MMAF("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", c, a[t], a[t + 1], a[t + 2], a[t + 3], b[t], b[t + 1]); o[t] = c[0] + c[3]; }
#endif
#if HAVE(90)
KERNEL(clusters, int *o, int n) {
  __shared__ int s[64]; u32 r, at; int x; s[threadIdx.x] = n; asm volatile("barrier.cluster.arrive.aligned;"); asm volatile("barrier.cluster.wait.aligned;"); asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(SHARED(s)), "r"(r ^ 1)); asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(x) : "r"(at)); asm volatile("red.shared::cluster.add.s32 [%0], 3;" :: "r"(at)); o[threadIdx.x] = x;
}
KERNEL(bulk, int *o, const int *a, int *d) {
  __shared__ __align__(128) int s[256]; __shared__ u64 b; u32 at = SHARED(&b), p;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(p));
  if (p) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at)); asm volatile("fence.proxy.async;"); asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 1024;" :: "r"(at));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(SHARED(s)), "l"(a), "r"(at)); }
  asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra w;}" :: "r"(at)); o[threadIdx.x] = s[threadIdx.x];
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" :: "l"(d), "r"(SHARED(s))); asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group.read 0;"); asm volatile("griddepcontrol.wait;"); asm volatile("griddepcontrol.launch_dependents;");
}
struct __align__(64) Map { u64 words[16]; };
KERNEL(tensors, int *o, const __grid_constant__ Map map, int x) {
  __shared__ __align__(128) int s[1024]; __shared__ u64 b; u32 at = SHARED(&b);
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map)); asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(SHARED(s)), "l"(&map), "r"(x), "r"(x + 1), "r"(at));
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" :: "l"(&map), "r"(x), "r"(SHARED(s))); o[threadIdx.x] = s[threadIdx.x];
}
KERNEL(stores, float *o, u32 *a) {
  __shared__ __align__(16) u32 s[512]; int t = threadIdx.x; asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(SHARED(s + t * 2)), "r"(a[t]), "r"(a[t + 1])); asm volatile("red.global.add.v4.f32 [%0], {%1,%1,%1,%1};" :: "l"(o + t * 4), "f"(2.f)); o[t] = s[t];
  u32 r; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(s[t + 1])); a[t] = r; asm volatile("fence.proxy.alias;"); asm volatile("fence.acq_rel.cluster;");
}
KERNEL(dynamic, int *o, const int *a) { I; int x = a[i], y = o[i]; o[i] = max(x + y, 3) + max(min(x, y), 0) + min(max(x + 7, y), 99); }
#endif
#if __CUDA_ARCH_FEAT_SM90_ALL
KERNEL(groups, float *o, u64 a, u64 b) {
  float c[4] = {0, 0, 0, 0}; asm volatile("wgmma.fence.sync.aligned;"); asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;"); asm volatile("wgmma.wait_group.sync.aligned 0;"); asm volatile("setmaxnreg.inc.sync.aligned.u32 96;"); o[threadIdx.x] = c[0] + c[3];
}
#endif
#if HAVE(100)
KERNEL(pairs, u64 *o, const u64 *a, const u64 *b) { I; u64 r, s, t; asm("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(r) : "l"(a[i]), "l"(b[i])); asm("add.rn.f32x2 %0, %1, %2;" : "=l"(s) : "l"(a[i]), "l"(r)); asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(t) : "l"(s), "l"(r)); o[i] = t; }
KERNEL(wide, float *o, const float *a) { float x[8]; int t = threadIdx.x * 8; asm volatile("ld.global.v8.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]) : "l"(a + t)); asm volatile("st.global.v8.f32 [%0], {%8,%7,%6,%5,%4,%3,%2,%1};" :: "l"(o + t), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7])); }
#endif
