/* What the kernels of compilers/nv/render_cuda.py use of CUDA, for clang on a processor: each lane
 * of a workgroup is a thread, and lanes that meet wait at a barrier.
 * # src: CUDA C++ Programming Guide, "C++ Language Extensions"; PTX ISA, "Matrix Fragments for
 * mma", "ldmatrix", "cp.async", "wgmma"
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#pragma clang fp contract(off)
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(lanes)
#define __shared__ static
#ifndef EARLY
#define EARLY 0
#endif
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
/* Elements of A and B, by their size and value. */
struct Half { enum { SIZE = 2 }; typedef float sum; static float of(const unsigned char *at) {
    unsigned short word; float value;
    memcpy(&word, at, sizeof word); shim_widen(value, word);
    return value;
} };
struct Brain { enum { SIZE = 2 }; typedef float sum; static float of(const unsigned char *at) {
    unsigned short word; float value;
    memcpy(&word, at, sizeof word);
    unsigned wide = (unsigned)word << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
} };
struct Short { enum { SIZE = 1 }; typedef int sum; static float of(const unsigned char *at) {
    return (signed char)*at;
} };
struct Byte { enum { SIZE = 1 }; typedef int sum; static float of(const unsigned char *at) {
    return *at;
} };
struct Tensor { enum { SIZE = 4 }; typedef float sum; static float of(const unsigned char *at) {
    unsigned word; float value;
    memcpy(&word, at, sizeof word);
    if (word & 0x1fff) { fputs("an operand is not tf32\n", stderr); abort(); }
    memcpy(&value, &word, sizeof value);
    return value;
} };
/* cvt.rna.tf32.f32: to the nearest with 10 bits of fraction, ties away from zero. */
static void shim_narrowed(unsigned &r, unsigned x) { r = (x + 0x1000) & ~0x1fffu; }

/* D += A B, every element where the document's formulas have it; sums in float64, rounded once. */
template <int depth, class E, class... Words> void shim_mma(typename E::sum *c, Words... given) {
    static const int count = sizeof...(Words), w = 4 / E::SIZE, of_a = 16 * depth / WARP;
    unsigned words[count] = {given...};
    unsigned first = threadIdx.x / WARP * WARP, lane = threadIdx.x % WARP;
    memcpy(slots[threadIdx.x], words, sizeof words);
    __syncwarp();
    float a[16][depth], b[depth][8];
    for (int l = 0; l < WARP; l++) {
        int group = l >> 2, thread = l % 4;
        const unsigned char *at = slots[first + l];
        for (int i = 0; i < of_a; i++) {
            int row = i / w % 2 ? group + 8 : group;
            a[row][thread * w + i % w + i / (2 * w) * 4 * w] = E::of(at + E::SIZE * i);
        }
        for (int i = 0; i < of_a / 2; i++)
            b[thread * w + i % w + i / w * 4 * w][group] = E::of(at + E::SIZE * (of_a + i));
    }
    for (int i = 0; i < 4; i++) {
        double total = c[i];
        for (int k = 0; k < depth; k++)
            total += (double)a[(lane >> 2) + (i < 2 ? 0 : 8)][k] * b[k][lane % 4 * 2 + (i & 1)];
        c[i] = (typename E::sum)total;
    }
    __syncwarp();
}
/* ldmatrix .x4: lane l names row l % 8 of matrix l / 8; .trans: a lane has two rows' elements. */
static void shim_rows(unsigned *r, const void *row, bool turned) {
    unsigned first = threadIdx.x / WARP * WARP, lane = threadIdx.x % WARP;
    if ((unsigned long)row % 16) { fputs("a row is not aligned\n", stderr); abort(); }
    memcpy(slots[threadIdx.x], &row, sizeof row);
    __syncwarp();
    for (int m = 0; m < 4; m++)
        for (int half = 0; half < 2; half++) {
            unsigned from = turned ? lane % 4 * 2 + half : lane / 4;
            unsigned at = turned ? lane / 4 * 2 : lane % 4 * 4 + half * 2;
            const char *named;
            memcpy(&named, slots[first + 8 * m + from], sizeof named);
            memcpy((char *)(r + m) + 2 * half, named + at, 2);
        }
    __syncwarp();
}
static void shim_gather(unsigned *r, const void *row) { shim_rows(r, row, false); }
static void shim_gather_turned(unsigned *r, const void *row) { shim_rows(r, row, true); }

/* Copies land as late as they may, at the wait for their group, and products happen at once; or
 * EARLY: copies land at once, and products happen at their wait. */
struct Moved { void *to; const void *from; unsigned nbytes; };
enum { QUEUE = 256 };
static thread_local Moved moved[QUEUE];
static thread_local int copies, copies_done, copy_groups, copies_of[QUEUE];
static int waits[MOST], shows[MOST], lanes;
static void shim_copy_if(void *to, const void *from, unsigned nbytes) {
    if ((unsigned long)to % 16 || (unsigned long)from % 16) {
        fputs("a copy is not aligned\n", stderr);
        abort();
    }
    if (EARLY) { memset(to, 0, 16); memcpy(to, from, nbytes); return; }
    moved[copies++ % QUEUE] = {to, from, nbytes};
}
static void shim_copy(void *to, const void *from) { shim_copy_if(to, from, 16); }
static void shim_copies_close() { copies_of[copy_groups++ % QUEUE] = copies; }
static void shim_copies_wait(int newest) {
    waits[threadIdx.x]++;
    int last = copy_groups > newest ? copies_of[(copy_groups - newest - 1) % QUEUE] : 0;
    for (; copies_done < last; copies_done++) {
        Moved m = moved[copies_done % QUEUE];
        memset(m.to, 0, 16);
        memcpy(m.to, m.from, m.nbytes);
    }
}
/* fence.proxy.async: what this lane copied is seen by wgmma. */
static void shim_copies_show() { shows[threadIdx.x] = waits[threadIdx.x]; }

/* A descriptor is where the tile is, and two strides. # src: PTX ISA, wgmma matrix descriptor */
struct Tile { const unsigned char *at; unsigned leading, stride; };
enum { TILES = 64 };
static thread_local Tile tiles[TILES];
static thread_local int tile_count;
static unsigned long long shim_tile(const void *at, unsigned long long strides) {
    Tile *made = &tiles[tile_count++ % TILES];
    *made = {(const unsigned char *)at, (unsigned)(strides >> 16 & 0x3fff) << 4,
             (unsigned)(strides >> 32 & 0x3fff) << 4};
    return (unsigned long long)made;
}
template <class E, int across> float of_tile(Tile t, int line, int k) {
    int piece = 16 / E::SIZE;
    const unsigned char *at =
        across ? t.at + line / 8 * t.stride + k / 8 * t.leading + k % 8 * 16 + line % 8 * E::SIZE
               : t.at + line / 8 * t.stride + k / piece * t.leading + line % 8 * 16 +
                     k % piece * E::SIZE;
    return E::of(at);
}
/* m64nNk(32 bytes): fragment D of the document; each lane computes its own sums. */
template <int columns, class E, int a_across, int b_across> void tile_product(void *sums, Tile a, Tile b) {
    typename E::sum *c = (typename E::sum *)sums;
    int warp = threadIdx.x / WARP % 4, lane = threadIdx.x % WARP;
    for (int i = 0; i < columns / 2; i++) {
        int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + lane % 4 * 2 + i % 2;
        double total = c[i];
        for (int k = 0; k < 32 / E::SIZE; k++)
            total += (double)of_tile<E, a_across>(a, row, k) * of_tile<E, b_across>(b, column, k);
        c[i] = (typename E::sum)total;
    }
}
struct Product { void (*what)(void *, Tile, Tile); void *sums; Tile a, b; };
static thread_local Product products[QUEUE];
static thread_local int product_count, products_done, product_groups, products_of[QUEUE];
static thread_local bool opened;
template <int columns, class E, int a_across, int b_across>
void shim_wgmma(typename E::sum *c, unsigned long long a, unsigned long long b) {
    if (!opened) { fputs("no wgmma.fence\n", stderr); abort(); }
    for (int lane = 0; lane < lanes; lane++)
        if (shows[lane] < waits[threadIdx.x]) { fputs("no fence.proxy.async\n", stderr); abort(); }
    Product made = {tile_product<columns, E, a_across, b_across>, c, *(Tile *)a, *(Tile *)b};
    if (!EARLY) made.what(c, made.a, made.b);
    else products[product_count++ % QUEUE] = made;
}
static void shim_products_open() { opened = true; }
static void shim_products_close() {
    products_of[product_groups++ % QUEUE] = product_count;
    opened = false;
}
static void shim_products_wait(int newest) {
    int last = product_groups > newest ? products_of[(product_groups - newest - 1) % QUEUE] : 0;
    for (; products_done < last; products_done++) {
        Product p = products[products_done % QUEUE];
        p.what(p.sums, p.a, p.b);
    }
}
static void (*step)(void);
static void *run_lane(void *number) { threadIdx.x = (unsigned)(long)number; step(); return 0; }
static void launch(void (*made)(void), int grid, int block) {
    static pthread_t threads[MOST];
    step = made;
    lanes = block;
    for (int group = 0; group < grid; group++) {
        blockIdx.x = group;
        memset(slots, 0xCB, sizeof slots);
        memset(waits, 0, sizeof waits);
        memset(shows, 0, sizeof shows);
        pthread_barrier_init(&all, 0, block);
        for (int w = 0; w * WARP < block; w++)
            pthread_barrier_init(&warps[w], 0, block - w * WARP < WARP ? block - w * WARP : WARP);
        for (long n = 0; n < block; n++) pthread_create(&threads[n], 0, run_lane, (void *)n);
        for (long n = 0; n < block; n++) pthread_join(threads[n], 0);
    }
}
