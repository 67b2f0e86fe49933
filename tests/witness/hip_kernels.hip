// Kernels of hip_client.c, compiled by HIP's own compiler for whichever GPU HIP finds.
#define ID (blockIdx.x * blockDim.x + threadIdx.x)
typedef unsigned long long u64;

extern "C" __global__ void fused(const float *a, const float *b, float *c, unsigned n)
{
    if (ID < n) c[ID] = fmaf(a[ID], 2.0f, b[ID]);
}

// Shared memory whose size only the launch knows.
extern "C" __global__ void backwards(const float *a, float *c)
{
    extern __shared__ float part[];
    part[threadIdx.x] = a[ID];
    __syncthreads();
    c[ID] = part[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void product(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[16][16], right[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void histogram(const unsigned *a, unsigned *bins, unsigned n)
{
    __shared__ unsigned own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = ID; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[a[i] & 63], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// Sums of waves by shuffles, of a block by LDS; the last block that ends adds the blocks up.
extern "C" __global__ void total(const int *a, u64 *parts, unsigned *ended, u64 *sum)
{
    __shared__ long long waves[32];
    __shared__ bool last;
    long long value = a[ID];
    for (int step = warpSize / 2; step; step /= 2) value += __shfl_down(value, step);
    if (threadIdx.x % warpSize == 0) waves[threadIdx.x / warpSize] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 0;
        for (unsigned i = 0; i < blockDim.x / warpSize; i++) value += waves[i];
        parts[blockIdx.x] = value;
        __threadfence();
        last = atomicAdd(ended, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        u64 all = 0;
        for (unsigned i = 0; i < gridDim.x; i++) all += ((volatile u64 *)parts)[i];
        *sum = all;
    }
}

// One block after another, by a lock in memory.
extern "C" __global__ void locked(int *lock, unsigned *counters)
{
    if (threadIdx.x == 0)
        while (atomicCAS(lock, 0, 1)) __builtin_amdgcn_s_sleep(1);
    __syncthreads();
    __threadfence();
    unsigned old = ((volatile unsigned *)counters)[threadIdx.x];
    counters[threadIdx.x] = old * 3 + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(lock, 0);
}

extern "C" __global__ void wide(const u64 *a, const u64 *b, u64 *c, double *d)
{
    u64 x = a[ID], y = b[ID] | 1;
    c[ID] = x / y + x % y * 3 + __umul64hi(x, y);
    d[ID] = sqrt((double)x) / (double)y;
}

// Private memory, indexed by what only the run knows.
extern "C" __global__ void scratch(const int *a, int *c, unsigned step)
{
    volatile int kept[32];
    for (unsigned i = 0; i < 32; i++) kept[(i * step) % 32] = a[ID] + (int)i;
    unsigned sum = 0;
    for (unsigned i = 0; i < 32; i++) sum = sum * 3 + kept[i];
    c[ID] = sum;
}
