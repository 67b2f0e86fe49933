/* What the kernels of compilers/nv/render_cuda.py use of CUDA, for clang on a processor: each lane
 * of a workgroup is a thread, and lanes that meet wait at a barrier.
 * # src: CUDA C++ Programming Guide, "C++ Language Extensions"; PTX ISA, mma.m16n8k16 fragments
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#pragma clang fp contract(off)
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(lanes)
#define __shared__ static
enum { WARP = 32, MOST = 1024, SLOT = 64 };
struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
struct Place { unsigned x; };
static Place blockIdx;
static thread_local Place threadIdx;
static pthread_barrier_t all, warps[MOST / WARP];
static unsigned char slots[MOST][SLOT];
static void __syncthreads() { pthread_barrier_wait(&all); }
static void __syncwarp() { pthread_barrier_wait(&warps[threadIdx.x / WARP]); }
static float __fsqrt_rn(float x) { return sqrtf(x); }
static double __dsqrt_rn(double x) { return sqrt(x); }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static int __popc(unsigned x) { return __builtin_popcount(x); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
    T result;
    memcpy(slots[threadIdx.x], &value, sizeof value);
    __syncwarp();
    memcpy(&result, slots[threadIdx.x ^ mask], sizeof result);
    __syncwarp();
    return result;
}
static unsigned __ballot_sync(unsigned, int mine) {
    unsigned first = threadIdx.x / WARP * WARP, bits = 0;
    slots[threadIdx.x][0] = mine != 0;
    __syncwarp();
    for (unsigned i = 0; i < WARP; i++) bits |= (unsigned)slots[first + i][0] << i;
    __syncwarp();
    return bits;
}
static void shim_narrow(unsigned short &r, float x) {
    _Float16 h = (_Float16)x;
    memcpy(&r, &h, sizeof r);
}
static void shim_widen(float &r, unsigned short x) {
    _Float16 h;
    memcpy(&h, &x, sizeof h);
    r = (float)h;
}
static float element(const unsigned char *at, bool brain) {
    unsigned short word;
    float value;
    memcpy(&word, at, sizeof word);
    if (!brain) { shim_widen(value, word); return value; }
    unsigned wide = (unsigned)word << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
}
/* D += A B, every element where the document's formulas have it; sums in float64, rounded once. */
template <int depth, bool brain, class... Words> void shim_mma(float *c, Words... given) {
    static const int count = sizeof...(Words), of_a = depth / 2;
    unsigned words[count] = {given...};
    unsigned first = threadIdx.x / WARP * WARP, lane = threadIdx.x % WARP;
    memcpy(slots[threadIdx.x], words, sizeof words);
    __syncwarp();
    float a[16][depth], b[depth][8];
    for (int l = 0; l < WARP; l++) {
        int group = l >> 2, thread = l % 4;
        const unsigned char *at = slots[first + l];
        for (int i = 0; i < of_a; i++) {
            int row = i / 2 % 2 ? group + 8 : group;
            a[row][thread * 2 + (i & 1) + (i < 4 ? 0 : 8)] = element(at + 2 * i, brain);
        }
        for (int i = 0; i < of_a / 2; i++)
            b[thread * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = element(at + 2 * (of_a + i), brain);
    }
    for (int i = 0; i < 4; i++) {
        double total = c[i];
        for (int k = 0; k < depth; k++)
            total += (double)a[(lane >> 2) + (i < 2 ? 0 : 8)][k] * b[k][lane % 4 * 2 + (i & 1)];
        c[i] = (float)total;
    }
    __syncwarp();
}
static void (*step)(void);
static void *run_lane(void *number) { threadIdx.x = (unsigned)(long)number; step(); return 0; }
static void launch(void (*made)(void), int grid, int block) {
    static pthread_t threads[MOST];
    step = made;
    for (int group = 0; group < grid; group++) {
        blockIdx.x = group;
        memset(slots, 0xCB, sizeof slots);
        pthread_barrier_init(&all, 0, block);
        for (int w = 0; w * WARP < block; w++)
            pthread_barrier_init(&warps[w], 0, block - w * WARP < WARP ? block - w * WARP : WARP);
        for (long n = 0; n < block; n++) pthread_create(&threads[n], 0, run_lane, (void *)n);
        for (long n = 0; n < block; n++) pthread_join(threads[n], 0);
    }
}
