// What the kernels of the HIP client compute, beside what the host computes.
#include "hip_client.h"

#define SIDE 48
#define STEP 5
typedef unsigned long long u64;

static unsigned noise(unsigned i)
{
    i = (i ^ 61) ^ (i >> 16);
    i *= 9;
    i ^= i >> 4;
    i *= 0x27d4eb2d;
    return i ^ (i >> 15);
}

static void *uploaded(const void *from, size_t bytes)
{
    void *memory = device_memory(bytes);
    MUST(hipMemcpy(memory, from, bytes, hipMemcpyHostToDevice));
    return memory;
}

static void download(void *to, void *from, size_t bytes)
{
    MUST(hipMemcpy(to, from, bytes, hipMemcpyDeviceToHost));
    MUST(hipFree(from));
}

static dim3 size(unsigned x, unsigned y) { return (dim3){x, y, 1}; }

static void check_lanes(hipModule_t module)
{
    static float a[COUNT], b[COUNT], c[COUNT];
    unsigned n = COUNT - 5, wrong = 0;
    for (int i = 0; i < COUNT; i++) a[i] = (float)(noise(i) % 4096) / 8, b[i] = (float)i / 4;
    void *da = uploaded(a, BYTES), *db = uploaded(b, BYTES), *dc = device_memory(BYTES);
    launch(named(module, "fused"), size(BLOCKS, 1), size(BLOCK, 1), 0, 0, ARGS(&da, &db, &dc, &n));
    MUST(hipMemcpy(c, dc, BYTES, hipMemcpyDeviceToHost));
    for (unsigned i = 0; i < COUNT; i++) wrong += c[i] != (i < n ? fmaf(a[i], 2, b[i]) : 0);
    result(!wrong, "fused multiply-adds: %u wrong", wrong);
    launch(named(module, "backwards"), size(BLOCKS, 1), size(BLOCK, 1), BLOCK * sizeof(float), 0,
           ARGS(&da, &dc));
    download(c, dc, BYTES);
    wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += c[i] != a[i / BLOCK * BLOCK + BLOCK - 1 - i % BLOCK];
    result(!wrong, "shared memory sized by the launch: %u wrong", wrong);
    MUST(hipFree(da));
    MUST(hipFree(db));
}

static void check_product(hipModule_t module)
{
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = (float)(noise(i) % 17) - 8, b[i] = (float)(noise(i + 7) % 17) - 8;
    void *da = uploaded(a, sizeof a), *db = uploaded(b, sizeof b), *dc = device_memory(sizeof c);
    int n = SIDE;
    unsigned wrong = 0;
    launch(named(module, "product"), size(SIDE / 16, SIDE / 16), size(16, 16), 0, 0,
           ARGS(&da, &db, &dc, &n));
    download(c, dc, sizeof c);
    for (int i = 0; i < SIDE * SIDE; i++) {
        float sum = 0;
        for (int k = 0; k < SIDE; k++) sum += a[i / SIDE * SIDE + k] * b[k * SIDE + i % SIDE];
        wrong += c[i] != sum;
    }
    result(!wrong, "a product of matrices by tiles: %u wrong", wrong);
    MUST(hipFree(da));
    MUST(hipFree(db));
}

static void check_together(hipModule_t module)
{
    static unsigned a[COUNT], bins[64], wanted[64];
    u64 sum = 0, whole = 0;
    unsigned n = COUNT, wrong = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        a[i] = noise(i) >> 1;
        wanted[a[i] & 63]++;
        whole += a[i];
    }
    void *da = uploaded(a, sizeof a), *dbins = device_memory(sizeof bins);
    launch(named(module, "histogram"), size(BLOCKS / 3, 1), size(BLOCK, 1), 0, 0,
           ARGS(&da, &dbins, &n));
    download(bins, dbins, sizeof bins);
    result(!memcmp(bins, wanted, sizeof bins), "a histogram by atomics on two levels");
    void *parts = device_memory(BLOCKS * 8), *ended = device_memory(4), *dsum = device_memory(8);
    launch(named(module, "total"), size(BLOCKS, 1), size(BLOCK, 1), 0, 0,
           ARGS(&da, &parts, &ended, &dsum));
    download(&sum, dsum, 8);
    result(sum == whole, "a sum by shuffles and the last block: %llu of %llu", sum, whole);
    void *lock = device_memory(4), *counters = device_memory(BLOCK * 4);
    launch(named(module, "locked"), size(BLOCKS, 1), size(BLOCK, 1), 0, 0, ARGS(&lock, &counters));
    static unsigned kept[BLOCK];
    download(kept, counters, sizeof kept);
    unsigned value = 0;
    for (int i = 0; i < BLOCKS; i++) value = value * 3 + 1;
    for (int i = 0; i < BLOCK; i++) wrong += kept[i] != value;
    result(!wrong, "blocks under a lock: %u wrong", wrong);
    void *left[] = {da, parts, ended, lock};
    for (int i = 0; i < 4; i++) MUST(hipFree(left[i]));
}

static void check_wide(hipModule_t module)
{
    static u64 a[COUNT], b[COUNT], c[COUNT];
    static double d[COUNT];
    unsigned wrong = 0, apart = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        a[i] = (u64)noise(i) << 32 | noise(i + 1);
        b[i] = ((u64)noise(i + 2) << 32 | noise(i + 3)) >> (i % 60);
    }
    void *da = uploaded(a, sizeof a), *db = uploaded(b, sizeof b), *dc = device_memory(sizeof c);
    void *dd = device_memory(sizeof d);
    launch(named(module, "wide"), size(BLOCKS, 1), size(BLOCK, 1), 0, 0, ARGS(&da, &db, &dc, &dd));
    download(c, dc, sizeof c);
    download(d, dd, sizeof d);
    for (unsigned i = 0; i < COUNT; i++) {
        u64 x = a[i], y = b[i] | 1;
        wrong += c[i] != x / y + x % y * 3 + (u64)((unsigned __int128)x * y >> 64);
        double exact = sqrt((double)x) / (double)y;
        apart += fabs(d[i] - exact) > exact * 0x1p-51;
    }
    result(!wrong, "quotients and products of 64 bits: %u wrong", wrong);
    result(!apart, "double precision: %u more than two units away", apart);
    MUST(hipFree(da));
    MUST(hipFree(db));
}

static void check_scratch(hipModule_t module)
{
    static int a[COUNT], c[COUNT];
    unsigned step = STEP, wrong = 0;
    for (int i = 0; i < COUNT; i++) a[i] = (int)noise(i);
    void *da = uploaded(a, sizeof a), *dc = device_memory(sizeof c);
    launch(named(module, "scratch"), size(BLOCKS, 1), size(BLOCK, 1), 0, 0, ARGS(&da, &dc, &step));
    download(c, dc, sizeof c);
    for (int i = 0; i < COUNT; i++) {
        unsigned kept[32], sum = 0;
        for (unsigned k = 0; k < 32; k++) kept[k * STEP % 32] = (unsigned)a[i] + k;
        for (unsigned k = 0; k < 32; k++) sum = sum * 3 + kept[k];
        wrong += (unsigned)c[i] != sum;
    }
    result(!wrong, "private memory: %u wrong", wrong);
    MUST(hipFree(da));
}

void check_kernels(hipModule_t module)
{
    check_lanes(module);
    check_product(module);
    check_together(module);
    check_wide(module);
    check_scratch(module);
}
